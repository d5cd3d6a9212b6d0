"""A host for venvs: an engine of one file as a wheel, real venvs, and the real pip.

Putting pip into each venv takes seconds, so this checkout's pip installs into them, except for tests that take the fixture `whole_pip`.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_installer, _runtime_lock, _runtime_venv

PROGRAM = "import sys\n\ndef main():\n    {body}\n"


def wheel(folder: Path, version: str, body: str = "print('{version}')") -> str:
    """A wheel of `vllm` whose program `vllm` runs `body`; the lock's line for it."""
    folder.mkdir(exist_ok=True)
    info = f"vllm-{version}.dist-info"
    files = {
        "vllm.py": PROGRAM.format(body=body.format(version=version)),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nvllm = vllm:main\n",
    }
    rows = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / f"vllm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as target:
        for name, text in files.items():
            target.writestr(zipfile.ZipInfo(name), text)
    return f"vllm=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _after(words: list[str]) -> list[str]:
    """PYTHON -m pip install … → PYTHON install …"""
    return [words[0], *words[3:]]


MakeJob = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def whole_pip() -> None:
    """The venv's own pip."""


@pytest.fixture
def make_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> MakeJob:
    """make_job(version, body=…, **changes) → a job for a release that was just put into the wheelhouse."""
    monkeypatch.setattr(_runtime_venv, "RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(_runtime_installer, "UV_DIR", str(tmp_path / "no-uv"))

    def make(version: str = "0.33.0", body: str = "print('{version}')", **changes: t.Any) -> dict[str, t.Any]:
        pins = _runtime_lock.parse(wheel(tmp_path / "wheels", version, body))
        job = {
            "name": f"vllm-{version}", "engine": "vllm", "version": version, "distribution": "vllm", "root": str(tmp_path / "engines"),
            "python": sys.executable, "python_requires": ">=3.9", "installer": "pip", "index_url": "", "extra_index_urls": [],
            "find_links": [str(tmp_path / "wheels")], "index_username": "__token__", "cert": "", "lock": _runtime_lock.canonical(pins),
            "lock_sha256": _runtime_lock.digest(pins), "size": 0, "reserve": 0, "keep": 1, "build_timeout": 120.0,
            "verify": ["vllm"], "runtime": "venv",
        }  # fmt: skip
        return {**job, **changes}

    if "whole_pip" not in request.fixturenames:
        make_venv, command = _runtime_venv._make, _runtime_installer.command
        monkeypatch.setattr(_runtime_venv, "_make", lambda build, python, uv: make_venv(build, python, True))
        monkeypatch.setattr(
            _runtime_installer, "command", lambda *words: [sys.executable, "-m", "pip", "--python", *_after(command(*words))]
        )
    # The interpreter of this checkout may lie below a home that only its owner enters.
    monkeypatch.setattr("ansible_collections.gpufleet.inference.plugins.module_utils._runtime_python._reachable", lambda found: found)
    return make
