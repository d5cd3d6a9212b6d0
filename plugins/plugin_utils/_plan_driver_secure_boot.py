# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure Boot: whether the kernel would take the modules, and what is done about it (nvidia_driver_secure_boot).

Private to the collection, pure. A host that waits for an enrolment gets nothing else done: MokManager deletes a request the
first time it reads it, so a reboot that nobody watches would waste it, and modules would be refused until then.
"""

from __future__ import annotations

import base64
import hashlib
import re

from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, bad_input
from ._plan_driver_part import Part
from ._plan_driver_target import Target

EXPECTED = "8 to 64 letters, digits or ASCII signs without blanks, typed at the console on a US keyboard"
CONSOLE = (
    "Reboot with the console (BMC, serial, screen) at hand. Within 10 seconds after the firmware press a key at `Press any key to "
    "perform MOK management`, then choose `Enroll MOK`, `Continue`, `Yes`, type the one-time password (nvidia_driver_mok_password) and "
    "choose `Reboot`. Then run this role again. A boot that nobody answers drops the request; the next run makes a new one."
)


def secure_boot_part(settings: Settings, target: Target, host: HostDriver, moving: bool, loads: bool) -> Part:
    """Findings, and change `driver.mok` with details `mok` for converge. `moving`: packages change; `loads`: a module is loaded."""
    part = Part(source="docs/driver_secure_boot.md")
    if settings.secure_boot != "mok":
        withdraw(part, host)
    if not settings.install_kernel_modules or target.signed_modules or host.secure_boot.get("state") != "enabled":
        return part
    if settings.secure_boot == "prebuilt_signed":
        _not_signed(part, target)
    elif settings.secure_boot == "mok":
        if moving or not host.loaded_version:
            _mok(part, settings, host)
    # A module that the kernel took is signed by a key it knows, and the next one as well, as far as can be told here.
    elif (moving or loads) and not host.loaded_version and host.secure_boot.get("mok_enrolled") is not True:
        _refused(part)
    return part


def waits(part: Part) -> bool:
    """Whether nothing but the key may be worked on."""
    return part.details.get("mok", {}).get("state") == "present" or any(one.id == "driver.mok_enrolment_pending" for one in part.findings)


def withdraw(part: Part, host: HostDriver) -> None:
    """Take back a request of ours that is not wanted any more; requests of others stay."""
    ours = host.record_mok.get("fingerprint")
    requested = host.secure_boot.get("requested") or []
    if not ours:
        return
    pending = requested == [ours]
    what = "take back the request to enrol our key" if pending else "forget our key's request"
    part.change("mok", ours, "requested" if pending else "recorded", None, what)
    part.details["mok"] = {"state": "absent", "fingerprint": ours}


def pem_fingerprint(text: str) -> str | None:
    """SHA-1 of a PEM certificate's DER form, as mokutil shows it; None if it is none."""
    found = re.search(r"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----", text)
    try:
        content = base64.b64decode("".join(found.group(1).split()), validate=True) if found else b""
    except ValueError:
        content = b""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest() if content.startswith(b"\x30") else None


def _mok(part: Part, settings: Settings, host: HostDriver) -> None:
    key = host.secure_boot.get("key") or {}
    present, wanted = key.get("fingerprint"), pem_fingerprint(settings.mok_certificate) or key.get("fingerprint")
    if wanted and wanted == present and wanted in (host.secure_boot.get("enrolled") or []):
        return
    requested = host.secure_boot.get("requested") or []
    if wanted and wanted == present and requested == [wanted]:
        _pending(part, wanted, str(key.get("certificate")))
        return
    if [one for one in requested if one != wanted]:
        _foreign_request(part, requested, wanted)
        return
    _stage(part, settings, key, present, wanted)


def _stage(part: Part, settings: Settings, key: dict[str, str], present: str | None, wanted: str | None) -> None:
    if not settings.mok_given:
        part.find(
            "mok_password_missing",
            "block",
            "The key that signs this host's modules is not enrolled; asking for its enrolment needs a one-time password.",
            found="nvidia_driver_mok_password is empty",
            needed=EXPECTED,
            fix="Set nvidia_driver_mok_password (from a vault or a prompt) for this run; it is typed once, at the console.",
            subject="nvidia_driver_mok_password",
        )
    elif settings.mok_given != "usable":
        # Never shown: it is a secret even when it cannot be used.
        part.findings.append(bad_input("mok_password", "(not shown)", EXPECTED))
    else:
        made = (
            "import the given signing key"
            if wanted and wanted != present
            else "use the signing key there is"
            if present
            else "make a signing key"
        )
        part.change("mok", str(key.get("certificate")), present, wanted or "new key", f"{made} and ask for its enrolment at the next boot")
        part.details["mok"] = {"state": "present", "private": key.get("private"), "certificate": key.get("certificate")}


def _pending(part: Part, wanted: str, path: str) -> None:
    part.find(
        "mok_enrolment_pending",
        "block",
        f"The key {wanted[:10]} ({path}) waits to be enrolled at the console; until then the kernel takes no module that it signed.",
        found="enrolment requested, not confirmed",
        needed="the key enrolled in MokManager",
        fix=CONSOLE,
        subject=path,
    )


def _foreign_request(part: Part, requested: list[str], wanted: str | None) -> None:
    others = ", ".join(one[:10] for one in requested if one != wanted)
    part.find(
        "mok_foreign_request",
        "block",
        f"Somebody else asked for the enrolment of {others}; a request of ours would join it and replace its password.",
        found=f"request for {others}",
        needed="no request, or only ours",
        fix="Let that enrolment be finished at the console, or take it back (mokutil --revoke-import), then run this role again.",
    )


def _refused(part: Part) -> None:
    part.find(
        "secure_boot",
        "block",
        "Secure Boot is on and no machine owner key is enrolled, so the kernel would refuse the driver's modules.",
        found="Secure Boot enabled, MOK not enrolled",
        needed="an enrolled key that signs the modules, or Secure Boot off",
        fix="Set nvidia_driver_secure_boot: mok (a key is made and its enrolment asked for, confirmed on the console), or "
        "prebuilt_signed with a source whose modules the distribution signs; or switch Secure Boot off.",
        nearest="mok",
    )


def _not_signed(part: Part, target: Target) -> None:
    ubuntu = target.os.package_manager == "apt" and "ubuntu" in (target.os.repository_path or "")
    nearest = "nvidia_driver_source: distribution" if ubuntu else "nvidia_driver_secure_boot: mok"
    part.find(
        "secure_boot_not_prebuilt",
        "block",
        f"nvidia_driver_secure_boot is prebuilt_signed, but the matrix knows no modules signed for {target.os.name} "
        f"in the {target.source} packages of branch {target.branch}.",
        found=f"source {target.source} on {target.os.name}: modules built on the host, or signed with a key that shim does not know",
        needed="packages whose row in matrix/os.yml says signed_modules",
        fix=f"Set {nearest}.",
        subject="nvidia_driver_secure_boot",
        nearest=nearest,
    )
