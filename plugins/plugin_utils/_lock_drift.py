# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host differs from the stack lock. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding
from ._lock import group_of
from ._matrix_findings import finding

SOURCE = "stack.lock.yml"


def drift(document: t.Any, host: str, facts: t.Mapping[str, t.Any]) -> list[Finding]:
    """How a host differs from its group in the lock."""
    group = group_of(document, host)
    if group is None:
        return [
            finding(
                "lock.group_missing",
                "warn",
                found=f"{host} in no group",
                needed="a group with this host",
                message=f"The stack lock has no group with {host}: it was not there, or could not be resolved, when the lock was written.",
                fix="Run the playbook gpufleet.inference.lock.",
                source=SOURCE,
            )
        ]
    return differences(group, facts)


def differences(group: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> list[Finding]:
    """How a host differs from its group."""
    return sorted(_differences(group, facts), key=Finding.sort_key)


def _differences(group: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    driver = facts.get("driver") or {}
    have = driver.get("loaded") or driver.get("installed") or {}
    kinds = [("lock.driver_drift", "driver", have.get("version"), group["driver"]["version"])]
    if have.get("kernel_modules"):
        kinds.append(("lock.kernel_modules_drift", "kind of kernel modules", have["kernel_modules"], group["driver"]["kernel_modules"]))
    toolkit = (facts.get("containers") or {}).get("toolkit")
    if toolkit and (group.get("container_toolkit") or {}).get("version"):
        kinds.append(("lock.container_toolkit_drift", "container toolkit", toolkit.get("version"), group["container_toolkit"]["version"]))
    for name, title, found, locked in kinds:
        if found != locked:
            yield _differs(name, title, str(found or "none"), str(locked))
    toolkits = [str(item.get("version")) for item in (facts.get("cuda") or {}).get("toolkits") or ()]
    locked = group["cuda"]["toolkit"]
    if toolkits and locked not in toolkits:
        yield _differs("lock.cuda_drift", "CUDA toolkit", ", ".join(toolkits), locked)


def _differs(name: str, title: str, found: str, locked: str) -> Finding:
    return finding(
        name,
        "warn",
        found=found,
        needed=locked,
        nearest=locked,
        message=f"The {title} of this host is {found}; the stack lock says {locked}.",
        fix="Run the playbook gpufleet.inference.site with this lock, or write a new lock if the host is right.",
        source=SOURCE,
    )
