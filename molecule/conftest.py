"""What testinfra tests of all scenarios share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/lab"))

from labtool import actions


@pytest.fixture
def action_log(host: Any) -> Callable[..., list[actions.Action]]:
    """action_log() -> what changed the host since the mark (the second run: nothing); action_log(*kinds) for other kinds."""

    def read(*kinds: str) -> list[actions.Action]:
        found = host.run(f"cat {actions.LOG}")
        assert found.rc == 0, found.stderr
        return actions.of_kind(actions.parse(found.stdout), kinds or actions.CHANGES)

    return read
