# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments for one version of NVIDIA's driver installer. Private to the collection, pure."""

from __future__ import annotations

import difflib
import typing as t

from ..module_utils._driver_runfile import LOG
from ._matrix_model import Matrix
from ._matrix_types import Row
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, bad_input
from ._plan_driver_part import Part
from ._plan_driver_target import Target
from ._versions import key


def offers(row: Row, version: str, arch: str) -> bool:
    """Whether the installer of this version knows the option."""
    have = key(version)
    if arch not in row.get("architectures", (arch,)) or ("since" in row and have < key(row["since"])):
        return False
    return "before" not in row or have < key(row["before"])


def uses(settings: Settings, target: Target, host: HostDriver) -> list[str]:
    """What the options are wanted for, on this host."""
    found = ["always"]
    if settings.compute_only:
        found.append("headless")
    if not settings.install_kernel_modules:
        return [*found, "no_modules"]
    found += ["dkms", target.kernel_modules]
    if host.loaded_version:
        found.append("loaded")
    if host.nouveau_active or settings.module_parameters:
        # The installer's own test load comes before the role writes them.
        found.append("no_load")
    return found


def arguments(part: Part, settings: Settings, target: Target, host: HostDriver, matrix: Matrix) -> list[str]:
    """All arguments in the matrix's order, then the site's own; what the installer cannot do is a finding."""
    rows = matrix.section("runfile_options")
    known = [row for row in rows if offers(row, target.version, host.arch)]
    wanted = uses(settings, target, host)
    given = [row["option"].format(log=LOG, tmpdir=settings.runfile_tmpdir) for row in known if row["use"] in wanted]
    needed = {*wanted} & {"open", "no_modules", "loaded", *(["no_load"] if host.nouveau_active else [])}
    for use in sorted(needed):
        if not any(row["use"] == use for row in known):
            _lacking(part, use, target, [row for row in rows if row["use"] == use])
    _extra(part, settings.runfile_options, target, host, rows)
    return [*given, *settings.runfile_options]


_LACKING: dict[str, tuple[str, str, str]] = {
    "open": ("runfile_no_open", "it has no open kernel modules", "Set nvidia_driver_kernel_modules: proprietary, or take a newer driver."),
    "no_modules": ("runfile_no_modules", "it cannot leave out the kernel modules", "Take another driver."),
    "loaded": (
        "runfile_loaded",
        "it gives up where an nvidia module is in use, and one is loaded",
        "Boot once without the module (blacklist nvidia), or take a newer driver.",
    ),
    "no_load": (
        "runfile_nouveau",
        "its test load of the new module fails while nouveau holds the GPUs",
        "Keep nouveau out and reboot first (echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf, rebuild the initramfs), "
        "or take a newer driver.",
    ),
}


def _lacking(part: Part, use: str, target: Target, rows: t.Sequence[Row]) -> None:
    name, why, fix = _LACKING[use]
    since = min((row["since"] for row in rows if "since" in row), key=key, default="")
    part.find(
        name,
        "block",
        f"The installer of driver {target.version} cannot be used here: {why}.",
        found=f"installer {target.version}",
        needed=f"{since or 'another'} or newer",
        fix=fix,
        subject="nvidia_driver_version",
        nearest=since or None,
    )


def _extra(part: Part, asked: t.Sequence[str], target: Target, host: HostDriver, rows: t.Sequence[Row]) -> None:
    """The site's own options: known to this installer, and not those that the role decides."""
    by_name = {_name(row["option"]): row for row in rows}
    for option in asked:
        row = by_name.get(_name(option))
        if row is None:
            close = difflib.get_close_matches(_name(option), [name for name, one in by_name.items() if one["use"] == "offered"], n=1)
            expected = "an option that matrix/runfile.yml lists (gpu_stack_matrix_overlay can add one)"
            part.findings.append(bad_input("runfile_options", option, expected, close[0] if close else None))
        elif row["use"] != "offered":
            part.findings.append(bad_input("runfile_options", option, "an option that the role does not decide itself", "[]"))
        elif not offers(row, target.version, host.arch):
            expected = f"options of installer {target.version}; this one is there from {row.get('since', 'another version')} on"
            part.findings.append(bad_input("runfile_options", option, expected, "[]"))
        elif row["option"].endswith("=") != ("=" in option and not option.endswith("=")):
            part.findings.append(bad_input("runfile_options", option, f"{row['option']}{'VALUE' if row['option'].endswith('=') else ''}"))


def _name(option: str) -> str:
    return option.partition("=")[0]
