"""The host core is what its list says: complete, standard library only, and known by one hash."""

from __future__ import annotations

import ast
import pathlib
import sys

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_core import CORE, core_files, digest, installed_sha256
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_install import Staged, carried_sources
from ansible_collections.gpufleet.inference.plugins.plugin_utils._runtime import host_core_sha256

PLUGINS = pathlib.Path(__file__).resolve().parents[3] / "plugins"


def imports(path: pathlib.Path) -> set[str]:
    """Names of imported modules; ours with their leading underscore."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            found |= {node.module.split(".")[-1]} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
    return found


@pytest.mark.parametrize("name", CORE)
def test_core_is_closed_under_import(name: str) -> None:
    needed = imports(PLUGINS / "module_utils" / f"{name}.py")
    assert {module for module in needed if module.startswith("_") and module != "__future__"} <= set(CORE)
    assert {module for module in needed if not module.startswith("_")} <= set(sys.stdlib_module_names)


def test_everything_in_core_is_used_at_boot() -> None:
    seen: set[str] = set()
    todo = ["_gpu_settings_boot"]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(module for module in imports(PLUGINS / "module_utils" / f"{name}.py") if module in CORE)
    assert seen == set(CORE)


def test_controller_module_and_host_agree_about_the_hash(tmp_path: pathlib.Path) -> None:
    carried = carried_sources()
    assert digest(carried) == host_core_sha256()
    folder = str(tmp_path / "lib/gpufleet_host")
    assert installed_sha256(folder) is None
    with Staged() as staged:
        staged.runtime(folder, carried)
        assert installed_sha256(folder) is None
        staged.commit()
    assert installed_sha256(folder) == host_core_sha256()
    with Staged() as staged:
        staged.runtime(folder, carried)
        assert staged.changed == []
    (tmp_path / "lib/gpufleet_host/_wait.py").write_text("# somebody was here\n")
    assert installed_sha256(folder) != host_core_sha256()


def test_hash_is_of_names_and_content() -> None:
    files = core_files(lambda name: name.encode())
    assert digest(files) == digest(dict(reversed(list(files.items()))))
    assert digest(files) != digest({**files, "x.py": b""})
    assert digest({"a.py": b"1", "b.py": b"2"}) != digest({"a.py": b"2", "b.py": b"1"})


def test_a_swap_leaves_no_stranger_and_nothing_behind(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "gpufleet_host"
    folder.mkdir()
    (folder / "_old.py").write_text("old\n")
    with Staged() as staged:
        staged.runtime(str(folder), {"_new.py": b"new\n"})
        staged.commit()
    assert [path.name for path in folder.iterdir()] == ["_new.py"]
    assert [path.name for path in tmp_path.iterdir()] == ["gpufleet_host"]
    with Staged() as staged:
        staged.runtime(str(folder), {"_newer.py": b"newer\n"})
    assert [path.name for path in folder.iterdir()] == ["_new.py"]
    assert [path.name for path in tmp_path.iterdir()] == ["gpufleet_host"]
