"""A simulated machine in a temporary folder: no privileges, nothing of this machine is touched, tests can run side by side."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "roles/simulated_gpu/files"
FIDELITY = ROOT / "tests/fidelity"
DRIVER = "580.159.04"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def program(module: str) -> Any:
    """A module of the role's program, under a name that this folder does not have."""
    if "simulated_gpu_program" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "simulated_gpu_program", FILES / "lib/simulated_gpu/__init__.py", submodule_search_locations=[str(FILES / "lib/simulated_gpu")]
        )
        assert spec
        assert spec.loader
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return importlib.import_module(f"simulated_gpu_program.{module}")


class Sim:
    """One machine below `root`, driven by the role's own programs."""

    def __init__(self, root: Path, library: Path) -> None:
        self.root, self.library = root, library

    def environment(self, **more: str) -> dict[str, str]:
        keep = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TMPDIR")}
        return {
            **keep,
            "LC_ALL": "C",
            "SIMULATED_GPU_ROOT": str(self.root),
            "SIMULATED_GPU_LIB": str(FILES / "lib"),
            "LD_LIBRARY_PATH": str(self.root / LIBRARIES),
            **more,
        }

    def run(self, *words: str, status: int | None = 0, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words, env=self.environment(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
        if status is not None:
            assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def tool(self, name: str, *words: str, status: int | None = 0, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(FILES / "bin" / name), *words, status=status, **more)

    def sg(self, *words: str, status: int | None = 0) -> str:
        """The command simulated-gpu, in this process: a hundredth of the time."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, {"SIMULATED_GPU_ROOT": str(self.root)}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = program("cli").main(list(words))
        assert status is None or code == status, f"{words}: {code}\n{out.getvalue()}{err.getvalue()}"
        return out.getvalue().strip()

    def smi(self, *words: str, status: int | None = 0) -> str:
        return self.tool("nvidia-smi", *words, status=status).stdout

    def query(self, fields: str, *words: str) -> list[str]:
        return self.smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits", *words).splitlines()

    def python(self, code: str, status: int = 0, nvml_path: str = "", **more: str) -> Any:
        """Run code with `p` = nvidia-ml-py and `h` = handle 0 (init done); its `out` comes back."""
        text = (
            "import json, ctypes\nimport pynvml as p\np.nvmlInit()\nout = None\n"
            "h = p.nvmlDeviceGetHandleByIndex(0) if p.nvmlDeviceGetCount() else None\n" + code + "\nprint(json.dumps(out))"
        )
        return json.loads(self.raw_python(text, status, nvml_path, **more).stdout)

    def raw_python(self, code: str, status: int | None = 0, nvml_path: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-c", code, status=status, **{"PYTHONPATH": nvml_path, **more})

    def init_code(self) -> int:
        """What nvmlInit answers."""
        code = "import pynvml as p\ntry:\n    p.nvmlInit(); print(0)\nexcept p.NVMLError as e:\n    print(e.value)"
        return int(self.raw_python(code).stdout)

    def boot(self) -> None:
        self.sg("boot")

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built from the source here (from the carried binary where there is no compiler)."""
    out = tmp_path_factory.mktemp("library")
    subprocess.run([str(FILES / "build.sh"), str(out)], check=True, timeout=120)
    return out / "libnvidia-ml.so"


@pytest.fixture
def make(tmp_path: Path, library: Path):  # type: ignore[no-untyped-def]
    def build(profile: str = "h200x2", *, driver: str | None = DRIVER, count: int = 0, boot: bool = True, seed: str = "unit") -> Sim:
        root = tmp_path / f"{profile}-{len(list(tmp_path.iterdir()))}"
        (root / LIBRARIES).mkdir(parents=True)
        sim = Sim(root, library)
        sim.sg("profile", profile, "--seed", seed, *(["--count", str(count)] if count else []))
        if driver:
            sim.sg("driver", driver, "--library", str(library))
        if boot:
            sim.boot()
        return sim

    return build


@pytest.fixture
def sim(make) -> Sim:  # type: ignore[no-untyped-def]
    """Two H200 as recorded."""
    return make()  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("gcc") or shutil.which("cc")
    if not found:
        pytest.skip("no C compiler here")
    return found
