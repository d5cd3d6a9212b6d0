# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network interface a member of an instance talks over: the one that has its address. Pure.

Private to the collection. Interface: placed(instance, host, interfaces) -> (instance with nodes.interface, findings).
NCCL and Gloo would each take the first interface that looks usable, such as docker0: then the members do not find each other, or find a
slow way.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ._contracts import Finding
from ._engine_instance import Instance, bad

Interfaces = t.Mapping[str, t.Sequence[str]]
"""Name → addresses, as engine_info reports them."""


def placed(instance: Instance, host: str, interfaces: Interfaces) -> tuple[Instance, list[Finding]]:
    """The instance as this host runs it. An interface that the site names is kept, and must have the address."""
    nodes = instance["nodes"]
    member = next((one for one in (nodes or {}).get("members", ()) if one["host"] == host), None)
    if member is None:
        return instance, []
    subject, address, named = f"{instance['name']}.nodes.members", member["address"], nodes.get("interface")
    wanted = _address(address)
    if wanted is None:
        what = "is a name, so that the interface cannot be found by it; give the address, or nodes.interface"
        return instance, [] if named else [bad(subject, f"{host}: {address}", what)]
    having = [name for name, addresses in interfaces.items() if wanted in map(_address, addresses)]
    if not having:
        have = ", ".join(f"{name} {' '.join(addresses)}" for name, addresses in sorted(interfaces.items()) if addresses and name != "lo")
        near = _nearest(wanted, interfaces)
        return instance, [bad(subject, f"{host}: {address}", f"is the address of no interface of this host; it has {have or 'none'}", near)]
    if wanted.is_loopback:
        return instance, [bad(subject, f"{host}: {address}", "is not reached from other hosts", _nearest(wanted, interfaces))]
    if named and _plain(named) and named.lstrip("=") not in having:
        what = f"does not have the address {address} of {host}; {having[0]} has it"
        return instance, [bad(f"{instance['name']}.nodes.interface", named, what, having[0])]
    return {**instance, "nodes": {**nodes, "interface": named or having[0]}}, []


def variables(interface: str) -> dict[str, str]:
    """NCCL takes beginnings of names, =NAME exactly and ^NAME as all others; Gloo takes names only."""
    if not _plain(interface):
        return {"NCCL_SOCKET_IFNAME": interface}
    name = interface.lstrip("=")
    return {"NCCL_SOCKET_IFNAME": f"={name}", "GLOO_SOCKET_IFNAME": name}


def _plain(interface: str) -> bool:
    return "," not in interface and not interface.startswith("^")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0].partition("/")[0])
    except ValueError:
        return None


def _nearest(wanted: ipaddress.IPv4Address | ipaddress.IPv6Address, interfaces: Interfaces) -> str | None:
    """The address that begins most like it: a typing error, or the neighbour's."""
    found = [
        other for addresses in interfaces.values() for text in addresses if (other := _address(text)) and other.version == wanted.version
    ]
    usable = [other for other in found if not other.is_loopback and not other.is_link_local]
    return str(min(usable, key=lambda other: int(other) ^ int(wanted))) if usable else None
