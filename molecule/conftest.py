"""What testinfra tests of all scenarios share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/lab"))

from labtool import actions  # noqa: E402


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file of tests that names its HOSTS is about these alone. (--hosts, by which molecule names all, goes before testinfra_hosts.)"""
    hosts = {item: getattr(getattr(item, "module", None), "HOSTS", None) for item in items}
    others = [item for item in items if hosts[item] and not item.name.rstrip("]").endswith(tuple(f"/{name}" for name in hosts[item]))]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


@pytest.fixture
def host_tasks(host: Any) -> dict[str, int]:
    """Counts of the run before this verify (the idempotence run) on this host: total, ok, changed, skipped, failed."""
    text = (ROOT / ".build/host_tasks.json").read_text()
    counts: dict[str, int] = json.loads(text)["hosts"][host.backend.get_pytest_id().rpartition("/")[2]]
    return counts


@pytest.fixture
def action_log(host: Any) -> Callable[..., list[actions.Action]]:
    """action_log() -> what changed the host since the mark (the second run: nothing); action_log(*kinds) for other kinds."""

    def read(*kinds: str) -> list[actions.Action]:
        found = host.run(f"cat {actions.LOG}")
        assert found.rc == 0, found.stderr
        return actions.of_kind(actions.parse(found.stdout), kinds or actions.CHANGES)

    return read
