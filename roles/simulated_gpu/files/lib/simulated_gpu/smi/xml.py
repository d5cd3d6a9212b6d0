# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi -q -x: the parts that tools read (identity, memory, power, temperature, ECC, MIG, clocks, processes). Elements as version 13 of the format has them."""

from __future__ import annotations

from typing import Any, List
from xml.sax.saxutils import escape

from ..nvml import Nvml
from . import report
from .values import Gpu

# label of the text report -> element; children by "label of the section/label"
ELEMENTS = {
    "MIG Mode/Current": "current_mig", "MIG Mode/Pending": "pending_mig", "GPU UUID": "uuid", "Serial Number": "serial", "GPU PDI": "pdi", "Multigpu Board": "multigpu_board", "MultiGPU Board": "multigpu_board",
    "FRU Part Number": "gpu_fru_part_number", "FB Memory Usage": "fb_memory_usage", "BAR1 Memory Usage": "bar1_memory_usage", "Conf Compute Protected Memory Usage": "cc_protected_memory_usage",
    "ECC Mode/Current": "current_ecc", "ECC Mode/Pending": "pending_ecc", "Temperature/GPU Current Temp": "gpu_temp", "Temperature/GPU T.Limit Temp": "gpu_temp_tlimit",
    "Temperature/GPU Shutdown T.Limit Temp": "gpu_temp_max_tlimit_threshold", "Temperature/GPU Slowdown T.Limit Temp": "gpu_temp_slow_tlimit_threshold",
    "Temperature/GPU Max Operating T.Limit Temp": "gpu_temp_max_gpu_tlimit_threshold", "Temperature/Memory Current Temp": "memory_temp", "Temperature/Memory Max Operating T.Limit Temp": "gpu_temp_max_mem_tlimit_threshold",
    "GPU Power Readings/Instantaneous Power Draw": "instant_power_draw", "GPU Memory Power Readings /Instantaneous Power Draw": "instant_power_draw", "Module Power Readings/Instantaneous Power Draw": "instant_power_draw",
    "Utilization/GPU": "gpu_util", "Utilization/Memory": "memory_util", "Utilization/Encoder": "encoder_util", "Utilization/Decoder": "decoder_util", "Utilization/JPEG": "jpeg_util", "Utilization/OFA": "ofa_util",
    "Clocks/Graphics": "graphics_clock", "Clocks/SM": "sm_clock", "Clocks/Memory": "mem_clock", "Clocks/Video": "video_clock", "Applications Clocks/Graphics": "graphics_clock", "Applications Clocks/Memory": "mem_clock",
    "Default Applications Clocks/Graphics": "graphics_clock", "Default Applications Clocks/Memory": "mem_clock", "Max Clocks/Graphics": "graphics_clock", "Max Clocks/SM": "sm_clock", "Max Clocks/Memory": "mem_clock",
    "Max Clocks/Video": "video_clock", "PCI/Bus": "pci_bus", "PCI/Device": "pci_device", "PCI/Domain": "pci_domain", "PCI/Device Id": "pci_device_id", "PCI/Bus Id": "pci_bus_id", "PCI/Sub System Id": "pci_sub_system_id",
    "PCI/Base Classcode": "pci_base_class", "PCI/Sub Classcode": "pci_sub_class", "GPU Link Info": "pci_gpu_link_info", "PCIe Generation": "pcie_gen", "PCIe Generation/Max": "max_link_gen",
    "PCIe Generation/Current": "current_link_gen", "PCIe Generation/Device Current": "device_current_link_gen", "PCIe Generation/Device Max": "max_device_link_gen", "PCIe Generation/Host Max": "max_host_link_gen",
    "Link Width": "link_widths", "Link Width/Max": "max_link_width", "Link Width/Current": "current_link_width", "PCI/Replays Since Reset": "replay_counter", "PCI/Replay Number Rollovers": "replay_rollover_counter",
    "PCI/Tx Throughput": "tx_util", "PCI/Rx Throughput": "rx_util", "Remapped Rows/Correctable Error": "remapped_row_corr", "Remapped Rows/Inactive Correctable Error": "remapped_row_corr_inactive",
    "Remapped Rows/Uncorrectable Error": "remapped_row_unc", "Remapped Rows/Inactive Uncorrectable Error": "remapped_row_unc_inactive", "Remapped Rows/Pending": "remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_row_failure", "Bank Remap Availability Histogram": "row_remapper_histogram", "Fabric/CliqueId": "cliqueId", "Fabric/ClusterUUID": "clusterUuid",
}
# prefixes of children whose element repeats the name of their section
PREFIX = {"Clocks Event Reasons": "clocks_event_reason_", "Clocks Event Reasons Counters": "clocks_event_reasons_counters_", "Bank Remap Availability Histogram": "row_remapper_histogram_"}
HEXADECIMAL = {"pci_bus", "pci_device", "pci_domain", "pci_device_id", "pci_sub_system_id", "pci_base_class", "pci_sub_class"}


def element(parent: str, label: str) -> str:
    named = ELEMENTS.get(f"{parent}/{label}") or (ELEMENTS.get(label) if not parent or label in ("GPU Link Info", "PCIe Generation", "Link Width", "Bank Remap Availability Histogram") else None)
    if named:
        return named
    plain = label.strip().lower().replace(" ", "_").replace("-", "").replace(".", "").replace("display_clock_setting", "display_clocks_setting")
    plain = {"idle": "gpu_idle"}.get(plain, plain) if parent == "Clocks Event Reasons" else plain
    return PREFIX.get(parent, "") + plain


def _emit(nodes: List[report.Node], parent: str, level: int) -> List[str]:
    out: List[str] = []
    for label, value in nodes:
        tag, pad = element(parent, label), "\t" * level
        if isinstance(value, list):
            out += [f"{pad}<{tag}>", *_emit(value, label, level + 1), f"{pad}</{tag}>"]
        else:
            text = "N/A" if value is None else str(value)
            out.append(f"{pad}<{tag}>{escape(text[2:] if tag in HEXADECIMAL else text)}</{tag}>")
    return out


def _processes(gpu: Gpu) -> List[str]:
    rows: List[str] = ["\t\t<processes>"]
    for kind, pid, used, name in gpu.processes():
        values: List[Any] = [("gpu_instance_id", "N/A"), ("compute_instance_id", "N/A"), ("pid", pid), ("type", kind), ("process_name", escape(name)), ("used_memory", f"{used} MiB")]
        rows += ["\t\t\t<process_info>", *[f"\t\t\t\t<{tag}>{value}</{tag}>" for tag, value in values], "\t\t\t</process_info>"]
    return [*rows, "\t\t</processes>"]


def render(nvml: Nvml, gpus: List[Gpu]) -> str:
    out = ['<?xml version="1.0" ?>', '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">', "<nvidia_smi_log>", *_emit(report.head(nvml), "", 1),
           f"\t<attached_gpus>{nvml.number('nvmlDeviceGetCount_v2')}</attached_gpus>"]
    for gpu in gpus:
        nodes = [node for node in report.nodes_of(gpu, ()) if node[0] not in ("Processes", "Power Smoothing")]
        out += [f'\t<gpu id="{gpu.bus_id()}">', *_emit(nodes, "", 2), *_processes(gpu), "\t</gpu>"]
    return "\n".join([*out, "", "</nvidia_smi_log>"]) + "\n"
