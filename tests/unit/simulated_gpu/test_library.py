"""The library file: its symbols, what it needs, and that the carried binary is the source."""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import FIDELITY, FILES, Sim

CARRIED = FILES / "bin/x86_64"


def symbols(path: Path) -> set[str]:
    if not shutil.which("nm"):
        pytest.skip("no nm here (binutils)")
    done = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True, timeout=30)
    return {line.split()[2] for line in done.stdout.splitlines()}


def test_has_every_function_that_fleet_tools_need(library: Path) -> None:
    needed = set((FIDELITY / "functions.txt").read_text(encoding="utf-8").split())
    assert len(needed) > 150
    assert needed - symbols(library) == set()


def test_exports_what_the_recorded_driver_exports(library: Path) -> None:
    """All but the private table that NVIDIA's own nvidia-smi asks for."""
    recorded = set((FIDELITY / "symbols.txt").read_text(encoding="utf-8").split())
    assert symbols(library) == recorded - {"nvmlInternalGetExportTable"}


def test_functions_the_recorded_driver_lacks_are_absent(library: Path) -> None:
    assert not hasattr(ctypes.CDLL(str(library)), "nvmlDeviceGetBBXTimeData_v1")


def test_needs_an_old_c_library_only() -> None:
    if not shutil.which("objdump"):
        pytest.skip("no objdump here (binutils)")
    text = subprocess.run(
        ["objdump", "-T", str(CARRIED / "libnvidia-ml.so")], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    newest = max(tuple(int(part) for part in version.split(".")) for version in re.findall(r"GLIBC_([\d.]+)", text))
    assert newest <= (2, 14)


def test_carried_binary_is_built_from_this_source() -> None:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((FILES / "nvml").iterdir()))).hexdigest()
    assert (CARRIED / "source.sha256").read_text(encoding="ascii").strip() == digest, (
        "source changed: run roles/simulated_gpu/files/carry.sh on Debian 12"
    )


def test_carried_binary_answers_too(sim: Sim) -> None:
    sim.sg("driver", "none")
    sim.sg("driver", "580.159.04", "--library", str(CARRIED / "libnvidia-ml.so"))
    assert sim.python("out = p.nvmlDeviceGetName(h)") == "NVIDIA H200"


def test_build_without_compiler_takes_the_carried_binary(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "mkdir", "cp", "uname", "rm", "mv", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    subprocess.run([str(FILES / "build.sh"), str(tmp_path / "out")], env={"PATH": str(tools)}, check=True, timeout=30)
    assert (tmp_path / "out/libnvidia-ml.so").read_bytes() == (CARRIED / "libnvidia-ml.so").read_bytes()
