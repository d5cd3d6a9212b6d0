# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a reboot is needed, by evidence; and what the reboot policy makes of it.

Private to the collection, pure. Evidence is what runs against what is installed or asked for, never "a task changed something".
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ._contracts import Context
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_kernels import next_boot_version
from ._plan_driver_part import Part

KERNEL_CHANGED = "driver.kernel_changed"


@dataclass(frozen=True)
class Reason:
    """One piece of evidence for a reboot."""

    id: str
    message: str
    serves: bool
    """Whether the host can work as asked until then."""

    @property
    def key(self) -> str:
        """Identity over runs: another message is another reason."""
        return f"{self.id}: {self.message}"

    def to_dict(self) -> dict[str, str]:
        return {"id": self.id, "component": "driver", "message": self.message}


def reasons(settings: Settings, host: HostDriver, future_version: str, future_kind: str | None) -> list[Reason]:
    """`future_*`: module as installed once this plan is carried out ('' or None: cannot be told)."""
    found = []
    if settings.state == "absent":
        if host.loaded_version and not future_version:
            found.append(Reason("driver.still_loaded", f"module {host.loaded_version} is loaded, its packages are gone", False))
        return found
    if not settings.install_kernel_modules:
        return found
    if host.nouveau_active:
        found.append(Reason("driver.nouveau_loaded", "nouveau drives the GPUs", False))
    if host.loaded_version and future_version and host.loaded_version != future_version:
        found.append(Reason("driver.module_stale", f"module {host.loaded_version} is loaded, {future_version} is installed", False))
    elif host.loaded_version and host.loaded_kind and future_kind and host.loaded_kind != future_kind:
        found.append(Reason("driver.module_kind", f"the {host.loaded_kind} module is loaded, the {future_kind} one is installed", True))
    if host.loaded_version:
        found.extend(_parameters(settings, host))
    missing = not host.loaded_version and not host.module_version and not host.module_unknown
    if missing and host.next_kernel != host.kernel.get("release") and next_boot_version(host):
        message = f"kernel {host.kernel.get('release')} runs, the module is built for {host.kernel.get('next_boot')}"
        found.append(Reason(KERNEL_CHANGED, message, False))
    return found


def reboot_part(
    settings: Settings,
    host: HostDriver,
    context: Context,
    because: list[Reason],
    other_work: bool,
    new_evidence: bool,
    kept: str = "",
    could_reload: bool = False,
) -> Part:
    """Change or finding for the reasons, by policy; details `reboot` for converge.

    `new_evidence`: packages or module files change in this plan, so that an earlier reboot says nothing about it.
    `kept`: why the loaded modules stay, as text; `could_reload`: nothing keeps them, only nobody asked for it.
    """
    part = Part()
    noted = [reason for reason in host.reboot_required.get("reasons") or [] if reason.get("component") == "driver"]
    if not because:
        if noted:
            part.change(
                "reboot_required",
                "reboot_required.json",
                [reason["message"] for reason in noted],
                None,
                "the noted reasons for a reboot are gone",
            )
            part.details["reboot"] = {"reasons": [], "keys": [], "now": False}
        return part
    now = settings.reboot == "if_needed" and not context.local_connection
    part.details["reboot"] = {"reasons": [reason.to_dict() for reason in because], "keys": [reason.key for reason in because], "now": now}
    text = "; ".join(reason.message for reason in because)
    if not now:
        wanted = [reason.to_dict() for reason in because]
        if noted != wanted or host.reboot_required.get("boot_id") != host.boot_id:
            part.change(
                "reboot_required",
                "reboot_required.json",
                [reason["message"] for reason in noted] or None,
                text,
                f"note that a reboot is needed: {text}",
            )
            other_work = True
        _required(part, settings, context, because, text, other_work, kept, could_reload)
        return part
    tried = [reason for reason in because if host.rebooted_for.get(reason.key) not in (None, host.boot_id)]
    if tried and not new_evidence:
        _did_not_help(part, tried)
        return part
    part.change("reboot", "host", text, "rebooted", f"reboot: {text}", "reboot")
    return part


def _required(
    part: Part,
    settings: Settings,
    context: Context,
    because: list[Reason],
    text: str,
    other_work: bool,
    kept: str,
    could_reload: bool,
) -> None:
    """After all other work: a host that cannot serve what was asked for is a failure under `never`, a note under `delegate`."""
    delegated = settings.reboot == "delegate"
    broken = not all(reason.serves for reason in because)
    local = (
        " It is the controller itself, which is never rebooted from within."
        if context.local_connection and settings.reboot == "if_needed"
        else ""
    )
    part.find(
        "reboot_required",
        "block" if broken and not delegated and not other_work else "warn",
        f"A reboot is needed: {text}. The host {'cannot serve the asked driver' if broken else 'works as before'} until then.{local}",
        found=text + (f"; {kept}" if kept else ""),
        needed="the installed driver running",
        fix="Drain and reboot the host, then run this role again; or set nvidia_driver_reboot: if_needed (reboot in this run) "
        "or delegate (leave it to the rollout)"
        + (", or nvidia_driver_live_reload: true (nothing here needs a reboot for it)." if could_reload else "."),
        subject="host",
    )


def _did_not_help(part: Part, tried: list[Reason]) -> None:
    text = "; ".join(reason.message for reason in tried)
    part.find(
        "reboot_did_not_help",
        "block",
        f"The host was rebooted for this already, and it is still so: {text}. It is not rebooted again.",
        found=text,
        needed="the installed driver running after one reboot",
        fix="Look at `dmesg | grep -iE 'nvidia|nouveau|NVRM'` and `modinfo nvidia`; after a repair delete rebooted_for "
        "from /var/lib/gpufleet/driver.json.",
        subject="host",
    )


def _parameters(settings: Settings, host: HostDriver) -> list[Reason]:
    """What /sys shows can be compared; a parameter that it does not show cannot."""
    found = []
    for name, wanted in sorted(settings.module_parameters.get("nvidia", {}).items()):
        actual = host.loaded_parameters.get(name)
        if actual is not None and normal(actual) != normal(wanted):
            found.append(Reason("driver.parameters", f"module parameter {name} is {actual}, {wanted} is configured", True))
    return found


def normal(value: t.Any) -> str:
    """/sys prints Y/N for booleans and decimal for numbers, whatever was written in modprobe.d."""
    text = str(value).strip()
    if text in ("Y", "y"):
        return "1"
    if text in ("N", "n"):
        return "0"
    try:
        return str(int(text, 0))
    except ValueError:
        return text
