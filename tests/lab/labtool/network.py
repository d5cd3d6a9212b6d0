"""One bridge network per lab, with a subnet of its own."""

from __future__ import annotations

import ipaddress
import json
import zlib

from .engine import Engine
from .settings import LabError, Settings


def name(settings: Settings) -> str:
    return f"{settings.prefix}-net"


def _subnets_in_use(engine: Engine) -> dict[str, str]:
    """Network name -> subnet, of all networks that the engine knows."""
    names = engine.call("network", "ls", "--format", "{{.Name}}").stdout.split()
    if not names:
        return {}
    found: dict[str, str] = {}
    for network in json.loads(engine.call("network", "inspect", *names, check=False).stdout or "[]"):
        subnets = network.get("subnets") or (network.get("IPAM") or {}).get("Config") or []
        for entry in subnets:
            found[network.get("name") or network.get("Name")] = str(entry.get("subnet") or entry.get("Subnet"))
    return found


def ensure(settings: Settings, engine: Engine) -> ipaddress.IPv4Network:
    used = _subnets_in_use(engine)
    mine = used.get(name(settings))
    if mine and settings.subnet in (None, mine):
        return ipaddress.IPv4Network(mine)
    if mine:
        raise LabError(f"lab {settings.name} has the subnet {mine}; `lab clean` first, to move it to {settings.subnet}")
    start = zlib.crc32(settings.prefix.encode())
    taken = [ipaddress.ip_network(subnet) for subnet in used.values()]
    wanted = [settings.subnet] if settings.subnet else [f"10.99.{(start + step) % 250}.0/24" for step in range(250)]
    for candidate in wanted:
        subnet = ipaddress.IPv4Network(candidate)
        if any(subnet.overlaps(other) for other in taken):
            continue
        engine.call("network", "create", "--label", f"gpufleet.lab={settings.prefix}", "--subnet", candidate, name(settings))
        return subnet
    raise LabError(f"no free subnet for lab {settings.name} among {wanted[0]} …; set LAB_SUBNET")


def remove(settings: Settings, engine: Engine) -> None:
    engine.call("network", "rm", name(settings), check=False)
