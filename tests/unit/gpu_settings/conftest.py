"""A machine with simulated GPUs below a directory, loaded in-process: no root, no installation."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_device import read_all
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_session import Paths
from ansible_collections.gpufleet.inference.plugins.module_utils._nvml import Options, run_bounded

FILES = pathlib.Path(__file__).resolve().parents[3] / "roles" / "simulated_gpu" / "files"


def _profile_library() -> t.Any:
    """The role's own code that makes a machine of a profile, under a name of ours: tests/unit has a folder simulated_gpu as well."""
    name = "role_simulated_gpu"
    if name not in sys.modules:
        folder = FILES / "lib/simulated_gpu"
        spec = importlib.util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return importlib.import_module(name + ".profile")


class Machine:
    """One simulated host: its GPUs, their faults, and our paths on it."""

    def __init__(self, root: pathlib.Path, library: pathlib.Path) -> None:
        self.root = root
        self.paths = Paths.below(str(root))
        self.options = Options(timeout=20, library=str(library), run_dir=self.paths.run_dir)

    def boot(self) -> None:
        """A reboot: what lies in /run is gone, the module is loaded again."""
        shutil.rmtree(self.root / "run", ignore_errors=True)
        (self.root / "run/simulated-gpu").mkdir(parents=True)
        (self.root / "run/simulated-gpu/module").write_text("version=580.159.04\nlicense=Dual MIT/GPL\n")

    def gpus(self) -> list[dict[str, t.Any]]:
        outcome = run_bounded(lambda session, _request: read_all(session), {}, self.options)
        assert outcome.state == "ok", outcome
        return t.cast("list[dict[str, t.Any]]", outcome.data)

    def limits(self) -> list[int]:
        return [gpu["power"]["limit_mw"] for gpu in self.gpus() if gpu["state"] == "ok"]

    def fault(self, gpu: str, **faults: t.Any) -> None:
        """Switch faults of one GPU (by UUID; empty: of the machine); no faults: none any more."""
        path = self.root / "run/simulated-gpu" / (f"gpu/{gpu}/faults" if gpu else "faults")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{name}={value}\n" for name, value in faults.items()))
        if not faults:
            path.unlink()

    def reading(self, gpu: str, **values: t.Any) -> None:
        """Sensor readings of one GPU."""
        path = self.root / "run/simulated-gpu/gpu" / gpu / "readings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in values.items()))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("library")
    subprocess.run(["sh", str(FILES / "build.sh"), str(out)], check=True, timeout=120)
    return out / "libnvidia-ml.so"


@pytest.fixture
def machine(tmp_path: pathlib.Path, library: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Machine]:
    """Makes a machine of a profile."""
    profile = _profile_library()

    def make(name: str = "h200x2", **keys: t.Any) -> Machine:
        root = tmp_path / "root"
        data = profile.load(name, FILES / "profiles")
        data["keys"] = {**data.get("keys", {}), **keys}
        (root / "etc/simulated-gpu").mkdir(parents=True)
        (root / "etc/simulated-gpu/profile.conf").write_text(profile.flatten(data, FILES / "profiles"))
        monkeypatch.setenv("SIMULATED_GPU_ROOT", str(root))
        made = Machine(root, library)
        made.boot()
        return made

    return make
