# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver taken away again: what this role installed and wrote, and nothing else.

Private to the collection, pure.
"""

from __future__ import annotations

from ._contracts import Context, Disruption, Plan
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_modules import module_part
from ._plan_driver_part import Part
from ._plan_driver_predict import predict_absent
from ._plan_driver_reboot import reasons, reboot_part


def plan_absent(plan: Plan, settings: Settings, host: HostDriver, context: Context) -> None:
    """Fill `plan` with the removal of the recorded packages, our files, our holds and our repository."""
    ours = sorted(name for name in {*host.record_packages, *host.record_pending} if host.is_installed(name) or name in host.broken)
    packages = Part()
    if ours:
        packages.change("packages", ", ".join(ours), {"version": host.version}, None, f"remove driver {host.version}", _class(host))
    elif host.record_runfile or host.record_runfile_pending:
        message = f"remove driver {host.version} of a .run file"
        packages.change("runfile", "nvidia-uninstall", {"version": host.version}, None, message, _class(host))
        packages.details["runfile"] = {"state": "absent"}
    elif host.version and not host.recorded:
        packages.find(
            "not_ours",
            "warn",
            f"Driver {host.version} is installed, but not by this role; it is left alone.",
            found=f"driver {host.version}, no record of it in /var/lib/gpufleet/driver.json",
            needed="a driver that this role installed",
            fix="Remove it the way it was installed (apt purge, dnf remove, nvidia-uninstall).",
        )
    # CUDA's packages come from the same repository; it goes with the last of them (role cuda_toolkit, state absent).
    repository = host.repository_owned and not host.cuda_recorded
    if repository:
        packages.change(
            "repository", str(host.repository_file), host.repository_url, None, f"remove package repository {host.repository_url}"
        )
    if repository or ours or host.record_packages or host.record_holds or host.record_pending:
        if not packages.changes:
            packages.change("record", "driver.json", "recorded", None, "forget the removed driver")
        # Of a repository whose file somebody removed by hand the key is left: what is ours goes, as far as it is there.
        packages.details["packages"] = {"state": "absent", "names": ours, "repository_remove": not host.cuda_recorded}
        if host.record_stream in [f"{module}:{stream}" for module, stream in host.streams.items()]:
            packages.details["packages"]["module_stream"] = host.record_stream
    files = module_part(settings, host, "")
    gone = bool(ours) or "runfile" in packages.details
    because = reasons(settings, host, "" if gone or not host.version else host.version, None)
    work = bool(packages.changes or files.changes)
    reboot = reboot_part(settings, host, context, because, work, work)
    for part in (packages, files, reboot):
        plan.changes.extend(part.changes)
        plan.findings.extend(part.findings)
        plan.details.update(part.details)
    plan.decision = "reboot" if because else "converge" if plan.changes else "nothing"
    if plan.changes:
        plan.predicted = predict_absent(host, plan.details)


def _class(host: HostDriver) -> Disruption:
    return "reboot" if host.loaded_version else "none"
