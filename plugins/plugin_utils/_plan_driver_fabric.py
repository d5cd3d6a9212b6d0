# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs' fabric: waited for until it is ready; IMEX on the compute trays of a rack, with all of the domain's nodes.

Private to the collection, pure.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ._contracts import Finding
from ._plan_driver_facts import IMEX, HostDriver
from ._plan_driver_input import Settings, bad_input
from ._plan_driver_part import Part
from ._plan_driver_target import wants_fabric_manager, wants_imex

NODES_HEAD = "# Written by gpufleet.inference, role nvidia_driver: all nodes of the NVLink domain, the same on each of them.\n"


def fabric_part(settings: Settings, host: HostDriver, moving: bool, reboot: bool) -> Part:
    """Details `imex` (its nodes file) and `fabric` (how long to wait) for converge."""
    part = Part(source="docs/driver_running.md")
    if not settings.install_kernel_modules or not host.gpus:
        return part
    if wants_imex(settings, host):
        _imex(part, settings, host)
    elif wants_fabric_manager(settings, host) and settings.imex.get("group"):
        part.findings.append(
            bad_input(
                "imex_group",
                settings.imex["group"],
                "empty on a machine with switches of its own: they have a fabric manager, no IMEX",
                "''",
            )
        )
    if reboot or not (wants_imex(settings, host) or wants_fabric_manager(settings, host)):
        return part
    started = moving or not host.loaded_version or host.fabric.get("ready") is not True
    if started and host.fabric_kind != "none":
        part.details["fabric"] = {"timeout": settings.fabric_timeout}
    waiting = not_ready(host)
    if not moving and host.loaded_version and host.fabric.get("ready") is False and waiting:
        _wait(part, settings, host, waiting)
    return part


def not_ready(host: HostDriver) -> list[str]:
    """GPUs whose fabric is not done, with their state."""
    return [text for text in (_trouble(gpu) for gpu in host.facts.get("gpus") or []) if text]


def _trouble(gpu: t.Mapping[str, t.Any]) -> str:
    name = f"GPU {gpu.get('index')} ({gpu.get('pci_address')})"
    fabric, links = gpu.get("fabric") or {}, gpu.get("nvlink") or {}
    state = fabric.get("state")
    if state and state != "not_supported":
        if state != "completed":
            return f"{name}: fabric state {state}"
        return "" if fabric.get("status") == "SUCCESS" else f"{name}: fabric status {fabric.get('status')}"
    if links and links["active"] < links["links"]:
        return f"{name}: {links['active']} of {links['links']} NVLinks up"
    return ""


def _wait(part: Part, settings: Settings, host: HostDriver, waiting: list[str]) -> None:
    text = "; ".join(waiting)
    part.change("fabric", "fabric", text, "ready", f"wait up to {settings.fabric_timeout} s for the fabric: {text}")
    part.find(
        "fabric_not_ready",
        "warn",
        f"The GPUs' fabric is not ready, CUDA does not start on them: {text}.",
        found=text,
        needed="fabric state completed, status SUCCESS on all GPUs (NVLink 3 and older: all links up)",
        fix="See journalctl -u nvidia-fabricmanager (or nvidia-imex), nvidia-smi -q (Fabric) and Xids in the kernel log; "
        "a larger nvidia_driver_fabric_timeout gives it more time.",
        subject="fabric",
    )


def _imex(part: Part, settings: Settings, host: HostDriver) -> None:
    if not settings.imex.get("group"):
        part.find(
            "imex_nodes_unknown",
            "warn",
            "This host is a compute tray of an NVLink rack, and nobody says which other trays its domain has: IMEX is not configured.",
            found="no nvidia_driver_imex_group",
            needed="an inventory group of all compute trays of the domain",
            fix="Put the trays of one rack into a group and set nvidia_driver_imex_group to its name.",
            subject="nvidia-imex",
        )
        return
    nodes, wrong = imex_nodes(settings.imex, host)
    part.findings.extend(wrong)
    if wrong:
        return
    imex = host.fabric.get("imex") or {}
    if imex.get("nodes") != nodes:
        part.change(
            "imex_nodes",
            "/etc/nvidia-imex/nodes_config.cfg",
            imex.get("nodes"),
            nodes,
            "write the nodes of the NVLink domain",
            "gpu_reload" if imex.get("active") == "active" else "none",
        )
        part.details["imex"] = {"content": NODES_HEAD + "".join(f"{node}\n" for node in nodes)}
    if imex.get("active") == "active" and (imex.get("stale") or "imex" in part.details):
        part.change(
            "imex_restart", IMEX, "runs with other nodes", "restarted", f"restart {IMEX} with the nodes of its domain", "gpu_reload"
        )
        part.details["imex_restart"] = IMEX


def imex_nodes(given: t.Mapping[str, t.Any], host: HostDriver) -> tuple[list[str], list[Finding]]:
    """Addresses of the group's hosts, sorted: a group made in a play has another order in each run; or what is wrong with them."""
    group, member = str(given["group"]), given.get("member")
    hosts = [str(name) for name in given.get("hosts") or []]
    if member not in hosts:
        return [], [bad_input("imex_group", group, f"a group that {member} belongs to" if hosts else "an inventory group that has hosts")]
    wrong, nodes = [], []
    own = {gpu["fabric"]["cluster_uuid"] for gpu in host.facts.get("gpus") or [] if (gpu.get("fabric") or {}).get("cluster_uuid")}
    columns = zip(hosts, given.get("addresses") or [], given.get("fallbacks") or [], given.get("gpus") or [])
    for name, address, fallback, gpus in columns:
        node = str(address or fallback or name)
        try:
            nodes.append(str(ipaddress.ip_address(node)))
        except ValueError:
            wrong.append(bad_input("imex_address", node, f"an IP address of {name}; IMEX takes no names"))
        theirs = {str(gpu["fabric"]["cluster_uuid"]) for gpu in gpus or [] if (gpu.get("fabric") or {}).get("cluster_uuid")}
        if own and theirs and own != theirs:
            expected = f"hosts of one NVLink domain; {name} is in {', '.join(sorted(theirs))}, {member} in {', '.join(sorted(own))}"
            wrong.append(bad_input("imex_group", group, expected))
    twice = sorted({node for node in nodes if nodes.count(node) > 1})
    if twice:
        wrong.append(bad_input("imex_address", ", ".join(twice), "another address for each host of the group"))
    return [str(node) for node in sorted(map(ipaddress.ip_address, nodes), key=lambda node: (node.version, int(node)))], wrong
