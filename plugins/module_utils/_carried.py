# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of module_utils, to be put on a host for a unit of ours. Private to the collection."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import os
import shutil
import typing as t

from ._errors import HostError
from ._files import read_text, write_text

LIB = "/opt/gpufleet/lib"
_MARK = ".sha256"


def source_of(name: str) -> bytes:
    """Out of the very module_utils that run now: from the module's archive or from disk."""
    package = __name__.rpartition(".")[0]
    module = importlib.import_module(f"{package}.{name}")
    loader = module.__spec__.loader if module.__spec__ else None
    if loader is None or not hasattr(loader, "get_data") or not module.__file__:
        raise HostError(f"the source of {name} cannot be read, so no unit can be written")
    return t.cast(bytes, loader.get_data(module.__file__))


def closure(names: t.Iterable[str], read: t.Callable[[str], bytes] = source_of) -> dict[str, bytes]:
    """File name → source of these module_utils and of all that they import from beside them."""
    found: dict[str, bytes] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if f"{name}.py" in found:
            continue
        found[f"{name}.py"] = read(name)
        for node in ast.walk(ast.parse(found[f"{name}.py"])):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                todo += [node.module] if node.module else [alias.name for alias in node.names]
    return found


def install(package: str, files: t.Mapping[str, bytes]) -> str:
    """The package as a folder below LIB that holds `files`, exchanged as a whole: something may run from the old one. Returns its path."""
    folder = f"{LIB}/{package}"
    mark = hashlib.sha256(b"".join(name.encode() + files[name] for name in sorted(files))).hexdigest()
    if read_text(f"{folder}/{_MARK}") == mark:
        return folder
    fresh, old = folder + ".new", folder + ".old"
    shutil.rmtree(fresh, ignore_errors=True)
    for name, content in files.items():
        write_text(f"{fresh}/{name}", content.decode())
    write_text(f"{fresh}/{_MARK}", mark)
    for part in (os.path.dirname(LIB), LIB, fresh):
        os.chmod(part, 0o755)  # noqa: S103 - code that anyone may read, whatever the umask of this run is
    shutil.rmtree(old, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder
