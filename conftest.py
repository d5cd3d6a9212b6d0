"""Make ``ansible_collections.gpufleet.inference`` importable from wherever this checkout lies.

Ansible's own loader is not needed for unit tests: three packages whose ``__path__`` is this directory are enough,
and coverage then reports plain ``plugins/...`` paths.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def _package(name: str, path: list[str]) -> None:
    module = types.ModuleType(name)
    module.__path__ = path
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


_package("ansible_collections", [])
_package("ansible_collections.gpufleet", [])
_package("ansible_collections.gpufleet.inference", [str(ROOT)])
