# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stream of a dnf module is enabled: one file a module. Private to the collection.

dnf resets or enables a stream only while a repository describes it; the way back and a removal must not need one.
"""

from __future__ import annotations

import os
import re
import typing as t

from ._files import read_text, remove, write_text

FOLDER = "/etc/dnf/modules.d"


def enabled_stream(text: str) -> str:
    """The stream that a file of the folder enables; empty for one that was disabled or reset."""
    words = dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(\S*)", text, re.MULTILINE))
    return words.get("stream", "") if words.get("state") == "enabled" else ""


def before_change(stream: str, recorded: t.Optional[str]) -> t.Optional[dict[str, t.Any]]:
    """What to put back after enabling `stream` (MODULE:STREAM): what is enabled now, and whether it is ours. None where nothing changes."""
    module = stream.partition(":")[0]
    now = f"{module}:{enabled_stream(read_text(_path(module)) or '')}" if module else ""
    return None if now == stream else {"enabled": now, "ours": now == recorded}


def put_back(stream: str) -> None:
    """Make MODULE:STREAM the enabled one; without a stream the module is as if nobody had ever chosen one."""
    module, _colon, name = stream.partition(":")
    if not name:
        remove(_path(module))
    elif enabled_stream(read_text(_path(module)) or "") != name:
        write_text(_path(module), f"[{module}]\nname={module}\nstream={name}\nprofiles=\nstate=enabled\n")


def _path(module: str) -> str:
    return os.path.join(FOLDER, f"{module}.module")
