"""The resolver in its own process: a lock that is held is waited for, with a dnf that loads its plugins once."""

from __future__ import annotations

import json
import sys
import types
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _dnf_resolver

PACKAGE = "dnf.plugin.dynamic"


class LockError(Exception):
    """As dnf's own, known by its name."""


@pytest.fixture
def dnf(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """What the resolver asks of dnf; `locked` is how often the metadata's lock is held."""
    state = types.SimpleNamespace(locked=0, bases=0)

    class Anything:
        def __getattr__(self, _name: str) -> t.Any:
            return Anything()

        def __call__(self, *_args: t.Any, **_keys: t.Any) -> t.Any:
            return Anything()

    class Base(Anything):
        def __init__(self) -> None:
            state.bases += 1
            self.conf = Anything()
            self.repos = types.SimpleNamespace(iter_enabled=list)

        def init_plugins(self, **_keys: t.Any) -> None:
            if PACKAGE in sys.modules:
                raise RuntimeError("load_plugins() called twice")
            sys.modules[PACKAGE] = types.ModuleType(PACKAGE)

        def fill_sack(self, **_keys: t.Any) -> None:
            if state.locked:
                state.locked -= 1
                raise LockError("held by somebody")

    module, plugin = types.ModuleType("dnf"), types.ModuleType("dnf.plugin")
    module.__dict__.update(Base=Base, plugin=plugin)
    plugin.__dict__.update(DYNAMIC_PACKAGE=PACKAGE)
    monkeypatch.setitem(sys.modules, "dnf", module)
    monkeypatch.setitem(sys.modules, "dnf.plugin", plugin)
    monkeypatch.setattr(_dnf_resolver.importlib.util, "find_spec", lambda _name: object())
    monkeypatch.setattr(_dnf_resolver.time, "sleep", lambda _seconds: None)
    yield state  # type: ignore[misc]
    sys.modules.pop(PACKAGE, None)


def test_a_held_lock_is_waited_for(dnf: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    dnf.locked = 2
    assert _dnf_resolver.main(json.dumps({"do": "update"})) == 0
    line = capsys.readouterr().out.strip()
    assert json.loads(line.removeprefix(_dnf_resolver.MARK)) == {"ok": {}}
    assert dnf.bases == 3
