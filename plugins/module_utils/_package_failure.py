# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a package change failed, as a finding: one word, what it means, what to do. Private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import HostError
from ._package_answers import PackageError

UNFINISHED = ("dpkg_failed", "killed", "timeout", "hung", "failed")
"""After these, packages may have moved, and the next run goes on. After every other cause nothing has changed."""

FIXES = {
    "would_install_driver": "Leave out what asks for a driver (cuda, cuda-X-Y, cuda-runtime-X-Y …); drivers are role nvidia_driver's.",
    "not_available": "Ask for a version that the repository has (the message names the newest), or name a repository that has it.",
    "unresolvable": "Look at the packages that the message names: apt-cache policy PACKAGE says which repository offers which version.",
    "foreign_hold": "If the hold has served its time: apt-mark unhold (dnf versionlock delete) PACKAGE. Else ask for the held version.",
    "foreign_broken": "Finish that work on the host: dpkg --configure -a; dpkg --audit says what is left.",
    "would_remove": "Ask for a version that can stand beside these packages, or remove them yourself.",
    "repository_unreachable": "Check URL, route and proxy from the host (curl -I URL/InRelease), or name a mirror that the host reaches.",
    "repository_signature": "Compare the key with the one that signs the repository; an expired key is renewed by its owner. "
    "Never switch the check off.",
    "repository_key": "Compare the key's fingerprint with the one its owner publishes, then set the key or the fingerprint accordingly.",
    "repository_inconsistent": "The mirror is in the middle of a synchronisation or damaged: run it again later, or repair the mirror.",
    "disk_full": "Make room on the file system that the message names.",
    "locked": "Wait for the package manager that the message names, or end it; a longer wait is set by lock_timeout.",
    "rollback_unavailable": "Bring the packages that the message names back into a repository of the host, or accept a change without a "
    "way back: nvidia_driver_rollback: best_effort.",
    "nothing_to_roll_back": "Ask for the driver by nvidia_driver_version and nvidia_driver_allow_downgrade: true.",
    "dpkg_failed": "See /var/log/dpkg.log and /var/log/apt/term.log on the host for the package's own words, then run it again.",
    "killed": "Run it again; it goes on from where it stopped.",
    "timeout": "Raise the timeout (DKMS builds take minutes), then run it again; it goes on from where it stopped.",
}


def failure(component: str, error: HostError) -> dict[str, t.Any]:
    """Arguments of fail_json: msg, reason, and finding (schemas/finding.schema.json)."""
    reason = error.reason if isinstance(error, PackageError) else "failed"
    after = "Run it again when that is mended; it goes on from where it stopped." if reason in UNFINISHED else "Nothing was changed."
    fix = FIXES.get(reason, after)
    finding = {
        "schema": 1,
        "id": f"{component}.{reason}",
        "severity": "block",
        "component": component,
        "found": str(error),
        "needed": "one transaction that resolves completely and touches nothing but its own packages",
        "message": str(error),
        "fix": fix,
        "source": "the host's package manager",
    }
    return {"msg": f"{component}.{reason}: {error}. {fix}", "reason": reason, "finding": finding}
