# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of this collection on a host, as facts. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from . import _paths
from ._errors import HostError
from ._files import sha256
from ._gpu_settings_core import installed_sha256
from ._reader import Reader
from ._state import read_state

_STATES = (
    ("gpu_settings", _paths.GPU_SETTINGS, "gpu_settings_desired"),
    ("gpu_settings_recorded", _paths.GPU_SETTINGS_RECORDED, "gpu_settings_recorded"),
    ("reboot_required", _paths.REBOOT_REQUIRED, "reboot_required"),
    ("driver", _paths.DRIVER_RECORD, "driver_record"),
    ("driver_reload", _paths.DRIVER_RELOAD, "driver_reload"),
    ("cuda", _paths.CUDA_RECORD, "cuda_record"),
)


def read_state_files(reader: Reader) -> dict[str, t.Any]:
    """The part `state_files` of gpu_info. A file that is broken or too new is an entry in `errors`."""
    out: dict[str, t.Any] = {}
    errors: dict[str, str] = {}
    for key, path, kind in _STATES:
        out[key] = _guarded(reader, path, errors, lambda real, kind=kind: read_state(real, kind))  # type: ignore[misc]
    files = {path: _guarded(reader, path, errors, sha256) for path in _paths.OWNED_FILES}
    out["runtime_sha256"] = _guarded(reader, _paths.RUNTIME_DIR, errors, installed_sha256)
    return {**out, "files": files, "errors": errors}


def _guarded(reader: Reader, path: str, errors: dict[str, str], read: t.Callable[[str], t.Any]) -> t.Any:
    try:
        return read(reader.fs(path))
    except HostError as exc:
        errors[path] = str(exc)
    except OSError as exc:
        errors[path] = f"cannot read {path}: {exc.strerror}"
        if isinstance(exc, PermissionError):
            reader.note(f"state_files.{path}", "permission denied", needs_root=os.geteuid() != 0)
    return None
