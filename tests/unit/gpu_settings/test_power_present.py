"""The module's runs, present and absent, on a simulated machine with files below a folder and a systemd made of a dict."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _gpu_settings_systemd as systemd
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_absent import absent, way_back
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_install import Staged, carried_sources
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_lock import RUN_LOCK, hold
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_present import Wish, present
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_result import Refused, Result
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_session import Config
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_units import GOVERNOR_UNIT, SETTINGS_UNIT, UnitOptions
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result as Answer
from ansible_collections.gpufleet.inference.plugins.modules import gpu_settings

Make = t.Callable[..., t.Any]


class FakeSystemd:
    """systemctl over the unit files that lie in a folder; remembers what it was asked to change."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.fail: dict[str, str] = {}
        self.active: dict[str, str] = {}
        self.enabled: set[str] = set()
        self.outdated = False
        """Newer systemd: after a change of links through it without a reload, every unit is said to need one."""
        self.read: dict[str, str] = {}
        """Definition that systemd holds of a unit that it has loaded."""

    def text(self, name: str) -> t.Optional[str]:
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def __call__(self, argv: t.Sequence[str], timeout: float = 0, env: t.Any = None) -> Answer:
        verb, words = argv[1], [word for word in argv[2:] if not word.startswith("-")]
        if verb == "show":
            return Answer("ok", 0, "\n\n".join(self.block(name) for name in words) + "\n", "")
        self.asked.append(" ".join([verb, *words]))
        self.outdated = self.outdated or "--no-reload" in argv
        for unit in words:
            if self.fail.get(verb):
                return Answer("ok", 1, "", self.fail[verb])
            if verb in ("start", "restart"):
                self.active[unit] = "active"
                self.read[unit] = self.text(unit) or ""
            elif verb == "stop":
                self.active[unit] = "inactive"
            elif verb == "enable":
                self.enabled.add(unit)
            elif verb == "disable":
                self.enabled.discard(unit)
            elif verb == "reset-failed":
                self.active[unit] = "inactive"
        if verb == "daemon-reload":
            self.outdated = False
            self.read = {unit: text for unit in self.read if (text := self.text(unit)) is not None}
        return Answer("ok", 0, "", "")

    def block(self, name: str) -> str:
        known = self.text(name) is not None or name in self.read
        reload_needed = self.outdated or (name in self.read and self.read[name] != self.text(name))
        fields = {
            "Id": name,
            "LoadState": "loaded" if known else "not-found",
            "ActiveState": self.active.get(name, "inactive"),
            "SubState": "",
            "UnitFileState": "enabled" if name in self.enabled else "disabled",
            "NeedDaemonReload": "yes" if reload_needed else "no",
        }
        return "\n".join(f"{key}={value}" for key, value in fields.items())


class Host:
    """A machine, its systemd, and runs of the module on it."""

    def __init__(self, machine: t.Any, manager: FakeSystemd) -> None:
        self.machine = machine
        self.systemd = manager
        self.root: pathlib.Path = machine.root
        self.sources = carried_sources()

    def wish(self, **options: t.Any) -> Wish:
        given: dict[str, t.Any] = {"power_limit": "70%", "persistence": True, "rules": [], "governor": None, "persist": True}
        given.update({"missing_gpus": "fail", "forget_missing": False, "unit": UnitOptions(), **options})
        return Wish(**given)

    def run(self, check: bool = False, **options: t.Any) -> Result:
        self.systemd.asked.clear()
        return present(self.wish(**options), self.sources, self.machine.paths, self.machine.options, check)

    def absent(self, check: bool = False) -> Result:
        self.systemd.asked.clear()
        return absent(self.machine.paths, self.machine.options, check)

    def files(self) -> dict[str, str]:
        """What lies on the host, but for the simulation's own and the locks."""
        ours = [path for path in self.root.rglob("*") if path.is_file() and "simulated-gpu" not in str(path) and path.suffix != ".lock"]
        return {str(path.relative_to(self.root)): path.read_text() for path in sorted(ours)}


@pytest.fixture
def host(machine: Make, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Host]:
    def make(profile: str = "h200x2") -> Host:
        made = machine(profile)
        (made.root / "etc/systemd/system").mkdir(parents=True)
        manager = FakeSystemd(made.root / "etc/systemd/system")
        monkeypatch.setattr(systemd, "run", manager)
        monkeypatch.setattr(systemd, "running", lambda: True)
        return Host(made, manager)

    return make


def test_first_run_then_nothing(host: t.Callable[..., Host]) -> None:
    it = host()
    first = it.run()
    assert first.changed
    assert first.failed == ""
    assert it.systemd.asked == [f"enable {SETTINGS_UNIT}", f"start {SETTINGS_UNIT}"]
    assert it.machine.limits() == [490000, 490000]
    before = it.files()
    second = it.run()
    assert second == Result(False, second.gpus, [], [], [], [], "")
    assert it.systemd.asked == []
    assert it.files() == before


def test_check_mode_tells_the_same_and_touches_nothing(host: t.Callable[..., Host]) -> None:
    it = host()
    foreseen = it.run(check=True)
    assert it.files() == {}
    assert it.machine.limits() == [700000, 700000]
    assert it.systemd.asked == []
    done = it.run()
    assert (foreseen.changed, foreseen.files, foreseen.actions) == (done.changed, done.files, done.actions)
    assert [gpu["settings"]["power_limit"]["status"] for gpu in foreseen.gpus] == ["set", "set"]


def test_a_changed_unit_is_read_again_and_nothing_is_restarted(host: t.Callable[..., Host]) -> None:
    it = host()
    it.run()
    result = it.run(unit=UnitOptions(boot_wait=7))
    assert result.changed
    assert it.systemd.asked == ["daemon-reload"]
    assert it.run(unit=UnitOptions(boot_wait=7)).changed is False


def test_a_run_that_was_killed_before_systemd_is_healed(host: t.Callable[..., Host]) -> None:
    it = host()
    it.systemd.fail = {"enable": "killed"}
    with pytest.raises(HostError, match=r"systemctl enable .* failed: killed"):
        it.run()
    it.systemd.fail = {}
    healed = it.run()
    assert healed.changed
    assert healed.files == []
    assert it.systemd.asked == [f"enable {SETTINGS_UNIT}", f"start {SETTINGS_UNIT}"]


def test_an_old_view_of_an_enabled_unit_is_cured_by_a_reload(host: t.Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    it = host()
    it.run()
    it.systemd.enabled.clear()
    real = it.systemd.block
    fresh: list[bool] = []

    def block(name: str) -> str:
        """Keeps saying disabled until it has read its units again."""
        fresh.extend([True] * ("daemon-reload" in it.systemd.asked))
        return real(name) if fresh else real(name).replace("UnitFileState=enabled", "UnitFileState=disabled")

    monkeypatch.setattr(it.systemd, "block", block)
    it.run()
    assert it.systemd.asked == [f"enable {SETTINGS_UNIT}", "daemon-reload"]


def test_a_masked_unit_is_not_fought(host: t.Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    it = host()
    monkeypatch.setattr(it.systemd, "block", lambda name: f"Id={name}\nLoadState=masked\nUnitFileState=masked\nActiveState=inactive")
    with pytest.raises(HostError, match="masked"):
        it.run()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"power_limit": 100}, ["below the minimum", "200W"]),
        ({"power_limit": {"L40S": 300}}, ["names no GPU of this host"]),
        ({"power_limit": "fast", "persistence": None}, ["power_limit is 'fast'"]),
        ({"governor": {"floor": "600W"}}, ["governor.floor is 600 W", "the ceiling"]),
        ({"rules": [{"select": "index:5", "ecc": True}]}, ["index:5 names no GPU"]),
    ],
)
def test_refused_before_anything_was_written(host: t.Callable[..., Host], options: dict[str, t.Any], parts: list[str]) -> None:
    it = host()
    with pytest.raises(Refused) as refused:
        it.run(**options)
    for part in ("nothing was changed", *parts):
        assert part in str(refused.value)
    assert it.files() == {}
    assert it.machine.limits() == [700000, 700000]
    assert it.systemd.asked == []


def test_index_is_kept_as_uuid(host: t.Callable[..., Host]) -> None:
    it = host()
    it.run(power_limit=None, rules=[{"select": 1, "power_limit": 400}])
    uuid = it.machine.gpus()[1]["uuid"]
    rules = json.loads(it.files()["etc/gpufleet/gpu_settings.json"])["rules"]
    assert {"select": uuid, "power_limit": "400W"} in rules
    assert it.machine.limits() == [700000, 400000]
    assert it.run(power_limit=None, rules=[{"select": 1, "power_limit": 400}]).changed is False


def test_files_that_cannot_be_put_in_place_put_the_limits_back(host: t.Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    it = host()

    def fail(_self: Staged) -> None:
        raise HostError("cannot write: no space left on the file system")

    monkeypatch.setattr(Staged, "commit", fail)
    with pytest.raises(HostError, match=r"no space left .* settings of the GPUs were put back$"):
        it.run()
    assert it.machine.limits() == [700000, 700000]
    assert [name for name in it.files() if "etc/" in name] == []


def mounted(source: str, target: pathlib.Path, *options: str) -> t.Iterator[None]:
    done = subprocess.run(["mount", *options, source, str(target)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(target)], check=True)


@pytest.fixture
def full(host: t.Callable[..., Host]) -> t.Iterator[Host]:
    """A host whose folder of units has no room left, with a unit from before."""
    it = host()
    folder = it.root / "etc/systemd/system"
    for _mounted in mounted("none", folder, "-t", "tmpfs", "-o", "size=16k"):
        it.run(power_limit=600)
        with open(folder / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 512)
            except OSError:
                pass
        yield it


@pytest.fixture
def read_only(host: t.Callable[..., Host]) -> t.Iterator[Host]:
    it = host()
    it.run(power_limit=600)
    folder = it.root / "etc"
    for _mounted in mounted(str(folder), folder, "--bind"):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield it


@pytest.mark.parametrize(("fixture", "words"), [("full", "no space left"), ("read_only", "read-only")])
def test_a_disk_that_takes_nothing(request: pytest.FixtureRequest, fixture: str, words: str) -> None:
    it = t.cast(Host, request.getfixturevalue(fixture))
    before = it.files()
    with pytest.raises(HostError, match=f"cannot write .*{words}"):
        it.run(power_limit=300, unit=UnitOptions(boot_wait=7))
    assert it.files() == before
    assert it.machine.limits() == [600000, 600000]
    assert it.systemd.asked == []


def test_a_lost_gpu_fails_the_run_by_name_and_the_others_have_theirs(host: t.Callable[..., Host]) -> None:
    it = host()
    it.machine.fault(it.machine.gpus()[0]["uuid"], lost=1)
    result = it.run()
    assert "GPU with index 0 is lost (GPU_IS_LOST)" in result.failed
    assert it.machine.limits() == [490000]
    assert it.systemd.asked == [f"enable {SETTINGS_UNIT}"]
    tolerated = it.run(missing_gpus="warn")
    assert tolerated.failed == ""
    assert "is lost" in tolerated.warnings[0]
    assert tolerated.changed is False


def test_denied_fails_the_run_by_name(host: t.Callable[..., Host]) -> None:
    it = host()
    uuid = it.machine.gpus()[1]["uuid"]
    it.machine.fault(uuid, **{"call.nvmlDeviceSetPowerManagementLimit": 4})
    assert it.run().failed == f"power_limit of {uuid}: denied (NO_PERMISSION)"


@pytest.mark.parametrize(("fault", "state"), [({"mismatch": 1}, "mismatch"), ({"no_driver": 1}, "module_not_loaded")])
def test_a_stack_that_is_not_well(host: t.Callable[..., Host], fault: dict[str, int], state: str) -> None:
    it = host()
    it.machine.fault("", **fault)
    with pytest.raises(HostError, match=f"cannot be set .{state}.: .*nothing was changed"):
        it.run()
    assert it.files() == {}


def test_a_hanging_driver_comes_back_as_an_error(host: t.Callable[..., Host]) -> None:
    it = host()
    it.machine.fault("", hang=-1)
    it.machine.options = it.machine.options._replace(timeout=1)
    with pytest.raises(HostError, match=r"cannot be set .hung."):
        it.run()


def test_check_mode_before_the_driver_is_there(host: t.Callable[..., Host]) -> None:
    it = host()
    (it.root / "run/simulated-gpu/module").unlink()
    foreseen = it.run(check=True)
    assert foreseen.changed
    assert "cannot be read yet" in foreseen.warnings[0]


def test_governor_comes_and_goes(host: t.Callable[..., Host]) -> None:
    it = host()
    governor = {"high_celsius": 80}
    it.run(governor=governor)
    assert it.systemd.asked == [f"enable {SETTINGS_UNIT}", f"start {SETTINGS_UNIT}", f"enable {GOVERNOR_UNIT}", f"start {GOVERNOR_UNIT}"]
    # Nobody runs it here, so no state file says with which code it runs: it counts as stale.
    assert it.run(governor=governor).actions == [f"restart {GOVERNOR_UNIT}"]
    gone = it.run()
    assert it.systemd.asked[:3] == [f"stop {GOVERNOR_UNIT}", f"disable {GOVERNOR_UNIT}", "daemon-reload"]
    assert f"etc/systemd/system/{GOVERNOR_UNIT}" not in it.files()
    assert gone.changed
    assert it.run().changed is False


def test_governor_without_unit_is_no_governor(host: t.Callable[..., Host]) -> None:
    with pytest.raises(HostError, match="persist: true"):
        host().run(governor={"high_celsius": 80}, persist=False)


def test_without_persist_nothing_is_written_but_the_record(host: t.Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    it = host()
    monkeypatch.setattr(systemd, "running", lambda: False)
    assert it.run(persist=False).failed == ""
    assert list(it.files()) == ["var/lib/gpufleet/gpu_settings.json"]
    assert it.machine.limits() == [490000, 490000]
    with pytest.raises(HostError, match="does not run systemd"):
        it.run()


def test_absent_takes_everything_back(host: t.Callable[..., Host]) -> None:
    it = host()
    rules = [{"select": "all", "compute_mode": "prohibited", "gpu_clocks": "345,1200"}, {"select": "index:0", "ecc": False}]
    it.run(rules=rules, governor={"high_celsius": 80})
    foreseen = it.absent(check=True)
    assert it.machine.limits() == [490000, 490000]
    done = it.absent()
    assert done.changed
    assert foreseen.changed
    assert it.files() == {}
    gpus = it.machine.gpus()
    assert [gpu["power"]["limit_mw"] for gpu in gpus] == [700000, 700000]
    assert [gpu["compute_mode"] for gpu in gpus] == ["default", "default"]
    assert [gpu["ecc"]["pending"] for gpu in gpus] == [True, True]
    assert it.systemd.enabled == set()
    assert it.absent() == Result(False, [], [], [], [], [], "")


def test_absent_leaves_ecc_that_we_never_changed(host: t.Callable[..., Host]) -> None:
    it = host()
    it.run(rules=[{"select": "all", "ecc": True}])
    done = it.absent()
    assert len([text for text in done.warnings if "we never changed it" in text]) == 2
    assert [gpu["ecc"]["pending"] for gpu in it.machine.gpus()] == [True, True]


def test_absent_without_a_driver_still_removes_files(host: t.Callable[..., Host]) -> None:
    it = host()
    it.run()
    it.machine.fault("", mismatch=1)
    done = it.absent()
    assert "cannot be reached (mismatch" in done.warnings[0]
    assert it.files() == {}


def test_absent_that_could_not_undo_keeps_the_configuration(host: t.Callable[..., Host]) -> None:
    it = host()
    it.run()
    uuid = it.machine.gpus()[0]["uuid"]
    it.machine.fault(uuid, **{"call.nvmlDeviceSetPowerManagementLimit": 4})
    assert "denied" in it.absent().failed
    assert "etc/gpufleet/gpu_settings.json" in it.files()
    it.machine.fault(uuid)
    assert it.absent().failed == ""
    assert it.files() == {}


def test_way_back_touches_only_what_was_managed() -> None:
    config = Config([{"select": "all", "persistence": True}, {"select": "product:H200", "power_limit": "300W", "ecc": False}], None)
    assert way_back(config, {"GPU-1": True}, keep_persistence=True) == [
        {"select": "product:H200", "power_limit": "default"},
        {"select": "GPU-1", "ecc": True},
    ]
    assert way_back(config, {}, keep_persistence=False)[0] == {"select": "all", "persistence": False}


def params(**options: t.Any) -> dict[str, t.Any]:
    return {**{name: spec.get("default") for name, spec in gpu_settings.SPEC.items()}, **options}


def test_module_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(HostError, match="become: true"):
        gpu_settings.run(params(power_limit=300), check=False)


def test_module_refuses_bad_options_before_it_asks_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(Refused, match="power_limit is 'fast'"):
        gpu_settings.run(params(power_limit="fast"), check=False)
    with pytest.raises(HostError, match="boot_wait is -1"):
        gpu_settings.run(params(boot_wait=-1.0), check=False)
    with pytest.raises(HostError, match="nvml_timeout is 0"):
        gpu_settings.run(params(nvml_timeout=0.0), check=False)


def test_names_as_the_role_calls_them() -> None:
    with pytest.raises(Refused, match="gpu_power_limit is 'fast'"):
        gpu_settings.run(params(power_limit="fast", variable_prefix="gpu_power_"), check=True)
    with pytest.raises(Refused, match="gpu_power_governor_high_celsius is 1"):
        gpu_settings.run(params(governor={"high_celsius": 1}, variable_prefix="gpu_power_"), check=True)


def test_second_run_of_the_module_at_the_same_time(tmp_path: pathlib.Path) -> None:
    with hold(str(tmp_path), RUN_LOCK, "by module gpu_settings"):
        again = pytest.raises(HostError, match=rf"being changed by process {os.getpid()} \(by module gpu_settings since 20")
        with again, hold(str(tmp_path), RUN_LOCK, "by module gpu_settings"):
            pass
    with hold(str(tmp_path), RUN_LOCK, "a third one, later"):
        pass
