# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of a module_util, to be put on a host for a unit of ours. Private to the collection."""

from __future__ import annotations

import importlib
import typing as t

from ._errors import HostError


def source_of(name: str) -> bytes:
    """Out of the very module_utils that run now: from the module's archive or from disk."""
    package = __name__.rpartition(".")[0]
    module = importlib.import_module(f"{package}.{name}")
    loader = module.__spec__.loader if module.__spec__ else None
    if loader is None or not hasattr(loader, "get_data") or not module.__file__:
        raise HostError(f"the source of {name} cannot be read, so no unit can be written")
    return t.cast(bytes, loader.get_data(module.__file__))
