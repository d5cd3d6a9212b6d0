# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway on its host: install what stands beside the configuration, apply, take back. Private to the collection."""

from __future__ import annotations

import os
import shutil
import typing as t

from . import _gateway_paths as paths
from ._carried import source_of
from ._errors import HostError
from ._files import read_text, remove, write_text
from ._gateway_apply import Control, Files, apply, validate
from ._gateway_core import drop_in, program
from ._gateway_info import BINARIES, loaded, version_of
from ._gateway_keep import keep
from ._gpu_settings_install import Staged
from ._gpu_settings_systemd import ask, do, reload, reload_if_needed
from ._state import read_state, write_state
from ._subprocess import run

OLDEST = (2, 6)
KIND = "gateway_record"
_TIMEOUT = 90.0


def present(files: Files, identity: str) -> list[str]:
    """Make this host a gateway with these files; what was done, as text."""
    binary = _binary()
    control = _control(binary)
    validate(files, control)
    done = _beside(binary)
    _remember_original()
    # The first start has to know the marks as well, and a state file that is missing is a warning of each start.
    if not os.path.exists(paths.SERVER_STATE):
        keep("start", paths.CONFIG, paths.SOCKET, paths.MARKS, paths.SERVER_STATE)
    done += apply(files, identity, control)
    if (ask([paths.UNIT]).get(paths.UNIT) or {}).get("enabled") != "enabled":
        done.append(do("enable", paths.UNIT, _TIMEOUT))
    return done


def absent() -> list[str]:
    """Undo it: the configuration from before comes back; a HAProxy that had none is stopped and disabled. Packages stay."""
    record = read_state(paths.RECORD, KIND)
    ours = (read_text(paths.CONFIG) or "").startswith(paths.MARK)
    if record is None and not ours:
        return []
    done = []
    original = read_text(paths.ORIGINAL) if record and record.get("had_config") else None
    if ours and original is not None:
        write_text(paths.CONFIG, original, mode=0o644)
        done.append(f"put back {paths.CONFIG}")
    elif ours:
        remove(paths.CONFIG)
        done.append(f"removed {paths.CONFIG}")
    for path in (paths.CLIENTS, paths.ENGINE_KEYS, paths.DROP_IN, paths.MARKS):
        if remove(path).changed:
            done.append(f"removed {path}")
    done += reload() if f"removed {paths.DROP_IN}" in done else reload_if_needed([paths.UNIT])
    show = ask([paths.UNIT]).get(paths.UNIT)
    if show and original is not None and record and record.get("was_enabled"):
        done.append(do("restart", paths.UNIT, _TIMEOUT))
    elif show:
        done += [do(verb, paths.UNIT, _TIMEOUT) for verb in ("stop", "disable")]
    shutil.rmtree(paths.RUNTIME, ignore_errors=True)
    shutil.rmtree(paths.MAPS, ignore_errors=True)
    # The record goes last: a run that was killed here is finished by the next one.
    shutil.rmtree(paths.STATE_DIR, ignore_errors=True)
    return done


def _binary() -> str:
    binary = next((path for path in BINARIES if os.path.exists(path)), None)
    if binary is None:
        raise HostError(f"HAProxy is not installed: none of {', '.join(BINARIES)} exists. Role gpu_gateway installs the package haproxy.")
    version = version_of(binary) or "0"
    if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < OLDEST:
        raise HostError(f"HAProxy {version} is too old: 2.6 or newer is needed (Debian 12 has it). Nothing was changed.")
    return binary


def _beside(binary: str) -> list[str]:
    """The small program and the drop-in."""
    with Staged() as staged:
        staged.runtime(paths.RUNTIME, program(source_of))
        staged.text(paths.DROP_IN, drop_in(binary))
        staged.commit()
        again = reload() if paths.DROP_IN in staged.changed else reload_if_needed([paths.UNIT])
        return [f"wrote {path}" for path in staged.changed] + again


def _remember_original() -> None:
    """Once, and never of our own file."""
    if read_state(paths.RECORD, KIND) is not None:
        return
    config = read_text(paths.CONFIG)
    foreign = config is not None and not config.startswith(paths.MARK)
    if foreign:
        write_text(paths.ORIGINAL, t.cast(str, config), mode=0o600, dir_mode=0o700)
    was_enabled = (ask([paths.UNIT]).get(paths.UNIT) or {}).get("enabled") == "enabled"
    write_state(paths.RECORD, KIND, {"had_config": foreign, "was_enabled": was_enabled})


def _control(binary: str) -> Control:
    return Control(binary, paths.CONFIG, paths.PREVIOUS, _take, loaded, _log)


def _take() -> None:
    state = (ask([paths.UNIT]).get(paths.UNIT) or {}).get("active")
    # A unit that went on with a failed start is waiting for its next try: start it anew.
    do("reload" if state == "active" else "restart", paths.UNIT, _TIMEOUT)


def _log() -> str:
    return run(["journalctl", "-u", paths.UNIT, "-n", "15", "--no-pager", "-o", "cat"]).out
