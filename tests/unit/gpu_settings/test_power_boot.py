"""The boot unit: serves who answers, waits a bounded time for the rest, and names who is missing."""

from __future__ import annotations

import glob
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_boot import apply_at_boot
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_core import core_files
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_lock import hold
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_records import remember
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_session import GOVERNOR_LOCK
from ansible_collections.gpufleet.inference.plugins.module_utils._state import dump

Make = t.Callable[..., t.Any]
RULES = [{"select": "all", "power_limit": "70%", "persistence": True}]
SOURCES = pathlib.Path(__file__).resolve().parents[3] / "plugins" / "module_utils"


def configured(host: t.Any, rules: t.Any = None, governor: t.Any = None) -> t.Any:
    """A host as the module leaves it: configuration, record, and the GPUs on the bus."""
    path = host.root / "etc/gpufleet/gpu_settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump("gpu_settings_desired", {"rules": RULES if rules is None else rules, "governor": governor}))
    record = host.root / "var/lib/gpufleet/gpu_settings.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(dump("gpu_settings_recorded", remember(None, host.gpus(), [], "2026-11-30T12:00:00+00:00")))
    for gpu in host.gpus():
        folder = host.root / "sys/bus/pci/devices" / gpu["pci_address"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
        (folder / "device").write_text("0x2335\n")
    host.boot()
    return host


class Run:
    """One run of the unit, with a clock that only moves when it sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: t.Optional[dict[int, t.Callable[[], None]]] = None) -> None:
        self.now = 0.0
        self.lines: list[tuple[int, str]] = []
        self.at = at or {}
        monkeypatch.setattr("time.monotonic", lambda: self.now + 1000)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()

    def run(self, host: t.Any, wait: float = 10) -> int:
        return apply_at_boot(host.paths, host.options, wait, lambda text, level: self.lines.append((level, text)), self.sleep)

    def texts(self, level: int) -> list[str]:
        return [text for severity, text in self.lines if severity == level]


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Run]:
    def make(at: t.Optional[dict[int, t.Callable[[], None]]] = None) -> Run:
        return Run(monkeypatch, at)

    return make


def test_all_gpus_at_once(machine: Make, boot: t.Callable[..., Run]) -> None:
    host, run = configured(machine()), boot()
    assert run.run(host) == 0
    assert host.limits() == [490000, 490000]
    assert run.now == 0
    assert len([text for text in run.texts(6) if "power_limit 490 W set (was 700 W)" in text]) == 2
    assert run.texts(3) == []


def test_a_late_gpu_is_waited_for_and_the_others_are_served_before(machine: Make, boot: t.Callable[..., Run]) -> None:
    host = configured(machine())
    one, other = (gpu["uuid"] for gpu in host.gpus())
    host.fault(one, lost=1)
    seen: list[list[int]] = []
    run = boot({2: lambda: seen.append(host.limits()), 4: lambda: host.fault(one)})
    assert run.run(host) == 0
    assert seen == [[490000]]
    assert host.limits() == [490000, 490000]
    # A setting that is as wanted when it is looked at again is no news.
    assert len([text for text in run.texts(6) if text.startswith(other) and "power_limit" in text]) == 1


def test_a_gpu_that_never_answers(machine: Make, boot: t.Callable[..., Run]) -> None:
    host, run = configured(machine()), boot()
    gpu = host.gpus()[0]
    host.fault(gpu["uuid"], lost=1)
    assert run.run(host) == 1
    assert 10 <= run.now < 13
    assert host.limits() == [490000]
    assert f"missing: GPU at {gpu['pci_address']} does not answer" in run.texts(3)
    assert "NOT all as configured" in run.texts(3)[-1]


def test_a_gpu_that_is_not_even_on_the_bus_is_not_waited_for(machine: Make, boot: t.Callable[..., Run]) -> None:
    host, run = configured(machine()), boot()
    gpu = host.gpus()[1]
    host.fault(gpu["uuid"], missing=1)
    folder = host.root / "sys/bus/pci/devices" / gpu["pci_address"]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert run.run(host) == 1
    assert run.now == 0
    assert host.limits() == [490000]
    assert any(gpu["uuid"] in text and "not on the PCI bus" in text for text in run.texts(3))


def test_a_gpu_of_another_driver_is_nobodys_loss(machine: Make, boot: t.Callable[..., Run]) -> None:
    host, run = configured(machine()), boot()
    folder = host.root / "sys/bus/pci/devices" / "0000:77:00.0"
    folder.mkdir()
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    (folder / "driver").symlink_to("../../drivers/vfio-pci")
    assert run.run(host) == 0


def test_driver_that_comes_late(machine: Make, boot: t.Callable[..., Run]) -> None:
    host = configured(machine())
    module = host.root / "run/simulated-gpu/module"
    text = module.read_text()
    module.unlink()
    run = boot({6: lambda: module.write_text(text) and None})
    assert run.run(host) == 0
    assert host.limits() == [490000, 490000]


def test_driver_that_never_comes(machine: Make, boot: t.Callable[..., Run]) -> None:
    host, run = configured(machine()), boot()
    (host.root / "run/simulated-gpu/module").unlink()
    assert run.run(host) == 1
    assert any("module_not_loaded" in text for text in run.texts(3))
    assert len([text for text in run.texts(3) if text.startswith("missing: ")]) == 2


def test_no_configuration_is_nothing_to_do(machine: Make, boot: t.Callable[..., Run]) -> None:
    assert boot().run(machine()) == 0


def test_limits_that_the_governor_moves_are_left(machine: Make, boot: t.Callable[..., Run]) -> None:
    host, run = configured(machine(), governor={"sensor": "gpu"}), boot()
    with hold(host.paths.run_dir, GOVERNOR_LOCK, "governor"):
        assert run.run(host) == 0
    assert host.limits() == [700000, 700000]
    assert any("governed" in text for text in run.texts(6))


def pythons() -> list[str]:
    """This one, and the oldest that hosts may have, where it is installed."""
    installed = [*glob.glob(os.path.expanduser("~/.pyenv/versions/3.9.*/bin/python")), "/usr/bin/python3.9", "/usr/local/bin/python3.9"]
    return [sys.executable, next((path for path in installed if os.access(path, os.X_OK)), "")]


@pytest.mark.parametrize("python", pythons(), ids=["this", "3.9"])
def test_the_copy_on_the_host_runs_by_itself(machine: Make, tmp_path: pathlib.Path, python: str) -> None:
    """The files as they are installed, in a Python that knows nothing of Ansible or of this checkout."""
    if not python:
        pytest.skip("no Python 3.9 here")
    host = configured(machine())
    package = tmp_path / "lib/gpufleet_host"
    package.mkdir(parents=True)
    for name, content in core_files(lambda name: (SOURCES / f"{name}.py").read_bytes()).items():
        (package / name).write_bytes(content)
    code = (
        "import sys; from gpufleet_host import _gpu_settings_boot as b, _gpu_settings_session as s, _nvml as n;"
        f"p = s.Paths.below({str(host.root)!r}); o = n.Options(library={host.options.library!r}, run_dir=p.run_dir);"
        "r = b.apply_at_boot(p, o, 0, b._log); assert 'ansible' not in str(sorted(sys.modules)), 'ansible'; sys.exit(r)"
    )
    import pynvml

    env = {"PYTHONPATH": f"{tmp_path}/lib:{os.path.dirname(pynvml.__file__)}", "PATH": os.environ["PATH"]}
    env["SIMULATED_GPU_ROOT"] = str(host.root)
    done = subprocess.run([python, "-S", "-B", "-c", code], env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "<6>2 GPUs answer; all as configured" in done.stdout
    assert host.limits() == [490000, 490000]
    command = [python, "-S", "-B", "-m", "gpufleet_host", "--help"]
    assert "apply" in subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout
