# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module gpu_settings says at its end. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import HostError
from ._gpu_settings_apply import GOOD
from ._gpu_settings_install import Staged
from ._gpu_settings_rules import Problem


class Refused(HostError):
    """The wish cannot be fulfilled; nothing was changed."""

    def __init__(self, problems: t.Sequence[Problem]) -> None:
        blocking = [problem for problem in problems if problem.severity == "block"]
        lines = [f"- {p.text}" + (f"; nearest that works: {p.nearest}" if p.nearest and p.nearest not in p.text else "") for p in blocking]
        super().__init__("nothing was changed on any GPU:\n" + "\n".join(lines))
        self.problems = blocking


class Result(t.NamedTuple):
    """What the module returns."""

    changed: bool
    gpus: list[dict[str, t.Any]]
    files: list[str]
    actions: list[str]
    diffs: list[dict[str, str]]
    warnings: list[str]
    failed: str


def lost_gpus(gpus: list[dict[str, t.Any]], gone: t.Mapping[str, str]) -> list[str]:
    """GPUs that should be here and do not answer, as text."""
    uuids = {gpu["uuid"] for gpu in gpus}
    lost = [
        f"GPU {gpu['uuid'] or gpu['pci_address'] or 'with index ' + str(gpu['index'])} is {gpu['state']} ({gpu['reason']})"
        for gpu in gpus
        if gpu["state"] != "ok"
    ]
    return lost + [f"GPU {text} is not on the PCI bus any more" for uuid, text in gone.items() if uuid not in uuids]


def summed_up(
    gpus: list[dict[str, t.Any]], staged: Staged, actions: list[str], warnings: list[str], lost: list[str], lost_is_fine: bool
) -> Result:
    """The result of a run that got through: good, or with the settings and GPUs that are not as they should be."""
    bad = []
    for gpu in gpus:
        for key, setting in gpu["settings"].items():
            if setting["status"] not in GOOD:
                bad.append(f"{key} of {gpu['uuid']}: {setting['status']} ({setting.get('error', '')})")
        if gpu["reboot_needed"]:
            warnings.append(f"ECC mode of {gpu['uuid']} takes effect at the next reboot")
    if lost_is_fine:
        warnings, lost = warnings + lost, []
    changed = bool(staged.changed or actions) or any(s["status"] == "set" for gpu in gpus for s in gpu["settings"].values())
    return Result(changed, gpus, staged.changed, actions, [*setting_diffs(gpus), *staged.diffs], warnings, "; ".join(bad + lost))


def setting_diffs(gpus: list[dict[str, t.Any]]) -> list[dict[str, str]]:
    """Ansible's diff: a line per GPU and setting that changes."""
    before, after = [], []
    for gpu in gpus:
        for key, setting in gpu["settings"].items():
            if setting["status"] == "set":
                before.append(f"{gpu['uuid']} {key}: {setting['before']}\n")
                after.append(f"{gpu['uuid']} {key}: {setting['after']}\n")
    if not before:
        return []
    return [{"before_header": "GPU settings", "after_header": "GPU settings", "before": "".join(before), "after": "".join(after)}]
