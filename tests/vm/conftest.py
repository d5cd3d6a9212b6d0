"""Machines for the tests of this tier: made once a session, and put back to a snapshot for each test that asks for one.

VM_KEEP=1 leaves them for the next session, which then saves their first boot.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

VM_DIR = Path(__file__).resolve().parent
ROOT = VM_DIR.parent.parent
sys.path.insert(0, str(VM_DIR))

from vmtool import cli, inventory  # noqa: E402
from vmtool.machine import Machine  # noqa: E402
from vmtool.settings import Settings, load  # noqa: E402

FRESH = "fresh"
# An initramfs with this machine's modules only, packed quickly: under two minutes on an emulated processor; with all modules,
# more than five.
INITRAMFS = r"printf 'MODULES=dep\nCOMPRESSLEVEL=1\n' | sudo tee /etc/initramfs-tools/conf.d/vm && sync"
KEEP = bool(os.environ.get("VM_KEEP"))
PLAY = ROOT / ".venv/bin/ansible-playbook"


@pytest.fixture(scope="session")
def settings() -> Settings:
    return load()


@pytest.fixture(scope="session")
def machines(settings: Settings) -> Iterator[Callable[..., Machine]]:
    """`machines(image, firmware)`: a running machine as freshly booted."""
    made: dict[str, Machine] = {}

    def get(image: str, firmware: str) -> Machine:
        name = f"test-{image}-{firmware}"
        machine = Machine(settings, name)
        # One at a time has the processors: an emulated machine uses all it gets.
        for other in made.values():
            if other.name != name:
                other.pause()
        if name in made or (KEEP and machine.pid):
            machine.restore(FRESH)
            machine.wait()
        else:
            machine.down()
            cli.up(settings, name, image, firmware, 1024)
            machine.ssh(INITRAMFS)
            machine.snapshot(FRESH)
            inventory.write(settings)
        made[name] = machine
        return machine

    yield get
    for machine in () if KEEP else made.values():
        machine.down()
    inventory.write(settings)


@pytest.fixture
def play(settings: Settings, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a playbook of this folder on a machine; what it left for the test, its recap and all it printed."""

    def run(machine: Machine, playbook: str = "role.yml", *options: str, **variables: Any) -> dict[str, Any]:
        outcome = tmp_path / "outcome.json"
        outcome.unlink(missing_ok=True)
        given = {"machine": machine.name, "outcome": str(outcome), **variables}
        command = [
            str(PLAY),
            "-i",
            str(settings.state / "inventory.yml"),
            str(VM_DIR / playbook),
            "-e",
            json.dumps(given),
            *options,
        ]
        # An emulated machine may take a minute to answer sudo when its host is busy.
        env = {**os.environ, "ANSIBLE_INJECT_FACT_VARS": "false", "ANSIBLE_TIMEOUT": "180", "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env=env, cwd=ROOT)
        text = done.stdout + done.stderr
        assert outcome.exists(), text[-4000:]
        return {**json.loads(outcome.read_text()), "text": text}

    return run
