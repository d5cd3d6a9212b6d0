# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dnf module stream that a driver comes in (EL 9, Amazon Linux 2023): enabled where none is, never switched behind anybody's back.

Private to the collection, pure. NVIDIA's streams are BRANCH-open and BRANCH-dkms, and open-dkms and latest-dkms with all branches.
"""

from __future__ import annotations

import re

from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_part import Part
from ._plan_driver_target import Target


def stream_part(part: Part, settings: Settings, target: Target, host: HostDriver) -> str:
    """Stream to enable with the transaction, MODULE:STREAM; empty where the enabled one serves or the system has none."""
    wanted = target.packages.module_stream
    if not wanted:
        return ""
    module, _colon, stream = wanted.partition(":")
    enabled = host.streams.get(module)
    if enabled is not None and _serves(enabled, target):
        return ""
    # Where a change was cut off, the record has the new stream already, and `previous` the one that it was leaving.
    leaving = host.previous_stream if host.record_pending else None
    ours = f"{module}:{enabled}" in (host.record_stream, leaving)
    if enabled is not None and not ours and settings.module_stream != "switch":
        part.find(
            "module_stream",
            "block",
            f"Stream {module}:{enabled} is enabled on the host, not by this role; branch {target.branch} with {target.kernel_modules} "
            f"kernel modules comes in {wanted}.",
            found=f"{module}:{enabled}",
            needed=f"{wanted}, or no stream",
            fix=f"Set nvidia_driver_module_stream: switch for this run, or run `dnf module reset {module}` on the host, "
            f"or ask for what {module}:{enabled} offers.",
            subject=wanted,
            nearest=wanted,
        )
        return ""
    message = f"switch module stream {module}:{enabled} to {stream}" if enabled else f"enable module stream {wanted}"
    part.change("module_stream", module, enabled, stream, message)
    return wanted


def _serves(stream: str, target: Target) -> bool:
    """Whether an enabled stream has the target's branch and kind; the lock keeps the branch where a stream has all of them."""
    branch = re.match(r"[0-9]+", stream)
    is_open = stream.endswith("-open") or stream == "open-dkms"
    return (branch is None or int(branch.group()) == target.branch) and is_open == (target.kernel_modules == "open")
