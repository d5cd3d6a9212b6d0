# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi -q -x, version 13 of the format: the tree of the text report under other names, and a few parts that only XML has."""

from __future__ import annotations

from typing import Any, Optional
from xml.sax.saxutils import escape

from ..nvml import Nvml
from . import report, sections
from .sections import Node
from .values import Gpu

# "section/label" or "label" of the text report -> element; what is missing here is the label in lower case with underscores
ELEMENTS: dict[str, str] = {
    "MIG Mode/Current": "current_mig",
    "MIG Mode/Pending": "pending_mig",
    "Driver Model/Current": "current_dm",
    "Driver Model/Pending": "pending_dm",
    "Serial Number": "serial",
    "GPU UUID": "uuid",
    "GPU PDI": "pdi",
    "MultiGPU Board": "multigpu_board",
    "FRU Part Number": "gpu_fru_part_number",
    "Platform Info": "platformInfo",
    "Inforom Version/Image Version": "img_version",
    "Inforom Version/Power Management Object": "pwr_object",
    "Inforom BBX Object Flush": "inforom_bbx_flush",
    "GPU Operation Mode/Current": "current_gom",
    "GPU Operation Mode/Pending": "pending_gom",
    "GPU C2C Mode": "c2c_mode",
    "Conf Compute Protected Memory Usage": "cc_protected_memory_usage",
    "ECC Mode/Current": "current_ecc",
    "ECC Mode/Pending": "pending_ecc",
    "DRAM Encryption Mode/Current": "current_dram_encryption",
    "DRAM Encryption Mode/Pending": "pending_dram_encryption",
    "Active Sessions": "session_count",
    "Volatile/SRAM Uncorrectable SEC-DED": "sram_uncorrectable_secded",
    "Aggregate/SRAM Uncorrectable SEC-DED": "sram_uncorrectable_secded",
    "SRAM PCIE": "sram_pcie",
    "PCI/Bus": "pci_bus",
    "PCI/Device": "pci_device",
    "PCI/Domain": "pci_domain",
    "PCI/Base Classcode": "pci_base_class",
    "PCI/Sub Classcode": "pci_sub_class",
    "PCI/Device Id": "pci_device_id",
    "PCI/Bus Id": "pci_bus_id",
    "PCI/Sub System Id": "pci_sub_system_id",
    "GPU Link Info": "pci_gpu_link_info",
    "PCIe Generation": "pcie_gen",
    "PCIe Generation/Max": "max_link_gen",
    "PCIe Generation/Current": "current_link_gen",
    "PCIe Generation/Device Current": "device_current_link_gen",
    "PCIe Generation/Device Max": "max_device_link_gen",
    "PCIe Generation/Host Max": "max_host_link_gen",
    "Link Width": "link_widths",
    "Link Width/Max": "max_link_width",
    "Link Width/Current": "current_link_width",
    "Bridge Chip": "pci_bridge_chip",
    "Bridge Chip/Type": "bridge_chip_type",
    "Bridge Chip/Firmware": "bridge_chip_fw",
    "Replays Since Reset": "replay_counter",
    "Replay Number Rollovers": "replay_rollover_counter",
    "Tx Throughput": "tx_util",
    "Rx Throughput": "rx_util",
    "Clocks Event Reasons/Idle": "clocks_event_reason_gpu_idle",
    "Clocks Event Reasons/Display Clock Setting": "clocks_event_reason_display_clocks_setting",
    "Clocks Event Reasons Counters/SW Power Capping": "clocks_event_reasons_counters_sw_power_cap",
    "Clocks Event Reasons Counters/SW Thermal Slowdown": "clocks_event_reasons_counters_sw_therm_slowdown",
    "Clocks Event Reasons Counters/HW Thermal Slowdown": "clocks_event_reasons_counters_hw_therm_slowdown",
    "Clocks Event Reasons Counters/HW Power Braking": "clocks_event_reasons_counters_hw_power_brake",
    "Utilization/GPU": "gpu_util",
    "Utilization/Memory": "memory_util",
    "Utilization/Encoder": "encoder_util",
    "Utilization/Decoder": "decoder_util",
    "Utilization/JPEG": "jpeg_util",
    "Utilization/OFA": "ofa_util",
    "Remapped Rows/Correctable Error": "remapped_row_corr",
    "Remapped Rows/Inactive Correctable Error": "remapped_row_corr_inactive",
    "Remapped Rows/Uncorrectable Error": "remapped_row_unc",
    "Remapped Rows/Inactive Uncorrectable Error": "remapped_row_unc_inactive",
    "Remapped Rows/Pending": "remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_row_failure",
    "Bank Remap Availability Histogram": "row_remapper_histogram",
    "GPU Current Temp": "gpu_temp",
    "GPU T.Limit Temp": "gpu_temp_tlimit",
    "GPU Shutdown T.Limit Temp": "gpu_temp_max_tlimit_threshold",
    "GPU Slowdown T.Limit Temp": "gpu_temp_slow_tlimit_threshold",
    "GPU Max Operating T.Limit Temp": "gpu_temp_max_gpu_tlimit_threshold",
    "Memory Current Temp": "memory_temp",
    "Memory Max Operating T.Limit Temp": "gpu_temp_max_mem_tlimit_threshold",
    "Instantaneous Power Draw": "instant_power_draw",
    "Workload Power Profiles": "power_profiles",
    "Workload Power Profiles/Requested Profiles": "power_profile_requested_profiles",
    "Workload Power Profiles/Enforced Profiles": "power_profile_enforced_profiles",
    **{
        f"{section}/{label}": element
        for section in (
            "Clocks",
            "Applications Clocks",
            "Default Applications Clocks",
            "Deferred Clocks",
            "Max Clocks",
            "Max Customer Boost Clocks",
        )
        for label, element in (("Graphics", "graphics_clock"), ("SM", "sm_clock"), ("Memory", "mem_clock"), ("Video", "video_clock"))
    },
    "CliqueId": "cliqueId",
    "ClusterUUID": "clusterUuid",
}
# sections whose children carry the section's name
PREFIX = {
    "Clocks Event Reasons": "clocks_event_reason_",
    "Clocks Event Reasons Counters": "clocks_event_reasons_counters_",
    "Bank Remap Availability Histogram": "row_remapper_histogram_",
}
HEXADECIMAL = {"pci_bus", "pci_device", "pci_domain", "pci_device_id", "pci_sub_system_id", "pci_base_class", "pci_sub_class"}


def element(parent: str, label: str) -> str:
    named = ELEMENTS.get(f"{parent}/{label}") or ELEMENTS.get(label)
    return named or PREFIX.get(parent, "") + label.strip().lower().replace(" ", "_").replace("-", "_")


def emit(nodes: list[Node], parent: str, level: int) -> list[str]:
    out: list[str] = []
    for label, value in nodes:
        tag, pad = element(parent, label), "\t" * level
        if isinstance(value, list):
            out += [f"{pad}<{tag}>", *emit(value, label, level + 1), f"{pad}</{tag}>"]
        else:
            text = "N/A" if value is None else str(value)
            out.append(f"{pad}<{tag}>{escape(text[2:] if tag in HEXADECIMAL else text)}</{tag}>")
    return out


def _retired(text_form: list[Node]) -> list[Node]:
    single, double, pending = (value for _label, value in text_form)
    return [
        ("multiple_single_bit_retirement", [("retired_count", single), ("retired_pagelist", None)]),
        ("double_bit_retirement", [("retired_count", double), ("retired_pagelist", None)]),
        ("pending_blacklist", pending),
        ("pending_retirement", pending),
    ]


def _after(label: str) -> list[Node]:
    """What XML has behind a section, and the text report has not."""
    if label == "Temperature":
        return [("supported_gpu_target_temp", [("gpu_target_temp_min", None), ("gpu_target_temp_max", None)])]
    if label == "MIG Mode":
        return [("mig_devices", "\n\t\t\tNone\n\t\t")]
    return []


def _children(label: str, value: Any, state: Optional[int]) -> Any:
    if label == "Retired Pages":
        return _retired(value)
    if label in ("GPU Power Readings", "Module Power Readings"):
        return [("power_state", None if state is None else f"P{state}"), *value]
    return value


def nodes(gpu: Gpu) -> list[Node]:
    out: list[Node] = []
    state = gpu.num("nvmlDeviceGetPerformanceState")
    for label, value in report.nodes_of(gpu, ()):
        if label in ("Processes", "Capabilities"):
            continue
        out += [(label, _children(label, value, state)), *_after(label)]
    return out


def supported_clocks(gpu: Gpu) -> list[str]:
    value = sections.supported_clocks(gpu)[0][1]
    rows: list[str] = ["\t\t<supported_clocks>"]
    if not isinstance(value, list):
        return [f"\t\t<supported_clocks>{value}</supported_clocks>"]
    for n, (label, mhz) in enumerate(value):
        if label == "Memory":
            rows += (["\t\t\t</supported_mem_clock>"] if n else []) + ["\t\t\t<supported_mem_clock>", f"\t\t\t\t<value>{mhz}</value>"]
        else:
            rows.append(f"\t\t\t\t<supported_graphics_clock>{mhz}</supported_graphics_clock>")
    return [*rows, "\t\t\t</supported_mem_clock>", "\t\t</supported_clocks>"]


def processes(gpu: Gpu) -> list[str]:
    rows: list[str] = ["\t\t<processes>"]
    for kind, pid, used, name in gpu.processes():
        values: list[Any] = [
            ("gpu_instance_id", "N/A"),
            ("compute_instance_id", "N/A"),
            ("pid", pid),
            ("type", kind),
            ("process_name", escape(name)),
            ("used_memory", f"{used} MiB"),
        ]
        rows += ["\t\t\t<process_info>", *[f"\t\t\t\t<{tag}>{value}</{tag}>" for tag, value in values], "\t\t\t</process_info>"]
    return [
        *rows,
        "\t\t</processes>",
        "\t\t<accounted_processes>",
        "\t\t</accounted_processes>",
        "\t\t<capabilities>",
        "\t\t\t<egm>disabled</egm>",
        "\t\t</capabilities>",
    ]


def render(nvml: Nvml, gpus: list[Gpu]) -> str:
    out = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<nvidia_smi_log>",
        *emit(report.head(nvml), "", 1),
        f"\t<attached_gpus>{nvml.number('nvmlDeviceGetCount_v2')}</attached_gpus>",
    ]
    for gpu in gpus:
        out += [f'\t<gpu id="{gpu.bus_id()}">', *emit(nodes(gpu), "", 2), *supported_clocks(gpu), *processes(gpu), "\t</gpu>", ""]
    return "\n".join([*out, "</nvidia_smi_log>"]) + "\n"
