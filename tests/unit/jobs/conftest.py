"""Transient units as plain child processes."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _carried, _job
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError


class Units:
    """What systemd would run."""

    def __init__(self) -> None:
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.refuse = ""

    def launch(self, unit: str, argv: t.Sequence[str], _title: str, properties: t.Mapping[str, str]) -> None:
        if self.refuse:
            raise HostError(self.refuse)
        self.children[unit] = subprocess.Popen(argv, cwd=properties["WorkingDirectory"], stderr=subprocess.DEVNULL)

    def alive(self, unit: str) -> bool:
        return unit in self.children and self.children[unit].poll() is None

    def end(self, unit: str) -> int:
        return self.children[unit].wait(timeout=20)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Iterator[Units]:
    fake = Units()
    monkeypatch.setattr(_carried, "LIB", str(tmp_path / "lib"))
    monkeypatch.setattr(_job, "launch", fake.launch)
    monkeypatch.setattr(_job, "alive", fake.alive)
    yield fake
    for child in fake.children.values():
        child.kill()
        child.wait()
