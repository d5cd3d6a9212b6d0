# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that a power plan is about: from facts, or foreseen from the matrix where no driver answers yet.

Private to the collection, pure.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..module_utils._gpu_settings_records import missing, refused
from ..module_utils._gpu_settings_words import Device, title
from ._contracts import Context, Finding
from ._matrix_model import Matrix
from ._plan_power_words import finding

LOST = frozenset({"power.gpu_lost", "power.gpu_missing"})
FORESEEN = frozenset({"no_driver", "module_not_loaded", "no_library", "no_pynvml"})
"""States that check mode takes for the time before earlier roles did their work."""
_FIX = {
    "no_driver": "Run role nvidia_driver first.",
    "module_not_loaded": "Load the module (modprobe nvidia) or reboot; role nvidia_driver says why it is not loaded.",
    "no_library": "Run role nvidia_driver first.",
    "no_pynvml": "Run role gpu_preflight first: it puts nvidia-ml-py on the host.",
    "impostor_pynvml": "Run role gpu_preflight: it puts the real nvidia-ml-py where it is found first.",
    "mismatch": "Reboot the host, so that the module and the library of the same driver run.",
    "hung": "Reboot the host; until then nothing can talk to the driver.",
}


@dataclass
class Devices:
    """GPUs in the form that rules are resolved on."""

    devices: list[Device] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    foreseen: bool = False
    """Check mode, and the values come from the matrix."""
    usable: bool = True
    gone: dict[str, str] = field(default_factory=dict)
    """UUID → text of GPUs that were here before and are not on the bus."""

    @property
    def complete(self) -> bool:
        """Whether every GPU that should be here answers: only then the boot unit can succeed."""
        return not any(finding.id in LOST for finding in self.findings)


def read_devices(facts: t.Mapping[str, t.Any], matrix: Matrix, context: Context, forget_missing: bool = False) -> Devices:
    """All GPUs that NVIDIA's driver has or should have; findings where they cannot be set."""
    out = Devices()
    gpus = [gpu for gpu in facts.get("gpus") or [] if gpu.get("driver_bound") in (None, "nvidia", "nouveau")]
    state = facts.get("state")
    if (facts.get("host") or {}).get("init") != "systemd":
        out.usable = False
        out.findings.append(
            finding(
                "no_systemd",
                "block",
                "This host does not run systemd, so nothing could apply its device settings at boot.",
                found=str((facts.get("host") or {}).get("init")),
                needed="systemd",
                fix="Use module gpu_settings with persist: false, which sets them until the driver is unloaded.",
            )
        )
        return out
    if not gpus:
        out.usable = False
        out.findings.append(
            finding(
                "no_gpu",
                "block",
                "There is no GPU on this host whose settings could be kept.",
                found="no NVIDIA GPU, or none that is bound to NVIDIA's driver",
                needed="at least one",
                fix="Leave this host out of the group of GPU hosts, or use gpu_power_state: absent.",
            )
        )
        return out
    if state not in ("ok", "lost") and not (context.check_mode and state in FORESEEN):
        out.usable = False
        out.findings.append(
            finding(
                "not_readable",
                "block",
                f"The GPUs of this host cannot be read ({state}): {facts.get('reason') or 'no reason given'}.",
                found=f"state {state}",
                needed="state ok",
                fix=_FIX.get(str(state), "See playbook gpufleet.inference.doctor."),
            )
        )
        return out
    absent_settings = refused((facts.get("state_files") or {}).get("gpu_settings_recorded"))
    for gpu in gpus:
        device = {**gpu, "refused": absent_settings.get(gpu.get("uuid") or "", [])}
        if gpu.get("state") == "unavailable" and context.check_mode:
            device = _foresee(device, matrix)
            out.foreseen = True
        elif gpu.get("state") != "ok":
            out.findings.append(_lost(gpu))
        out.devices.append(device)
    bus = [gpu.get("address") for gpu in (facts.get("pci") or {}).get("gpus") or []]
    out.gone = missing((facts.get("state_files") or {}).get("gpu_settings_recorded"), gpus, t.cast("list[str]", bus))
    out.findings.extend(_gone(uuid, text) for uuid, text in out.gone.items() if not forget_missing)
    if out.foreseen:
        out.findings.append(
            finding(
                "foreseen",
                "info",
                "No driver answers yet: limits are foreseen from the matrix; each device's own constraints decide later.",
                found=f"state {state}",
                needed="state ok",
                fix="Nothing to do.",
                source="matrix/gpus.yml",
            )
        )
    return out


def _foresee(device: Device, matrix: Matrix) -> Device:
    """A device as the matrix describes the product; what it does not know is left open and not judged."""
    row = matrix.gpu(product=device.get("product"), pci_device_id=device.get("pci_device_id"))
    watts = _variant((row or {}).get("power") or {}, device.get("product") or "")
    default = watts.get("default_w")

    def milliwatts(key: str) -> int | None:
        return None if watts.get(key) is None else round(watts[key] * 1000)

    return {
        **device,
        "state": "ok",
        "power": {
            "supported": default is not None,
            "limit_mw": None,
            "default_limit_mw": milliwatts("default_w"),
            "min_limit_mw": milliwatts("min_w"),
            "max_limit_mw": milliwatts("max_w"),
        },
        "persistence": False,
        "compute_mode": "default",
        "ecc": None,
        "clocks_mhz": None,
    }


def _variant(power: t.Mapping[str, t.Any], product: str) -> t.Mapping[str, t.Any]:
    """The numbers of a board whose row has several, told by what the product name says first: V100-SXM2, Max-Q."""
    name = re.sub(r"[^a-z0-9]", "", product.lower())
    variants = power.get("variants") or {}
    hits = sorted((name.find(key.replace("_", "")), key) for key in variants if key.replace("_", "") in name)
    return t.cast("t.Mapping[str, t.Any]", variants[hits[0][1]]) if hits else power


def _lost(gpu: t.Mapping[str, t.Any]) -> Finding:
    name = title(dict(gpu))
    return finding(
        "gpu_lost",
        "block",
        f"GPU {name} at {gpu.get('pci_address')} does not answer ({gpu.get('state')}).",
        found=str(gpu.get("state")),
        needed="ok",
        fix="Drain and reboot the host, or have the GPU replaced. To go on with the others meanwhile: gpu_stack_allow, id power.gpu_lost.",
        subject=gpu.get("uuid") or gpu.get("pci_address"),
        source="NVML",
    )


def _gone(uuid: str, text: str) -> Finding:
    return finding(
        "gpu_missing",
        "block",
        f"GPU {text} is not on the PCI bus any more.",
        found="not on the bus",
        needed="present, as before",
        fix="Look for the GPU (kernel log, seating). If it was taken out for good: gpu_power_forget_missing: true.",
        subject=uuid,
        source="record of this collection on the host",
    )
