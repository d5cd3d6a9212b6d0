# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd units that matter to a GPU host, asked for in one bounded call. Private to the collection."""

from __future__ import annotations

import os
import re
import typing as t

from ._paths import OWNED_UNIT_PREFIX
from ._reader import Reader
from ._subprocess import run

KNOWN = (
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "nvidia-gridd.service",
    "nvidia-mig-manager.service",
    "nvidia-powerd.service",
    "nvidia-dcgm.service",
    "nvidia-cdi-refresh.service",
    "nvidia-cdi-refresh.path",
    "docker.service",
    "containerd.service",
    "crio.service",
    "podman.socket",
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "slurmd.service",
)
_ENGINES = (
    ("vllm", re.compile(r"vllm")),
    ("sglang", re.compile(r"sglang")),
    ("tensorrt_llm", re.compile(r"trtllm|tensorrt")),
    ("other", re.compile(r"triton|ollama|llama[-_.]?(cpp|server)|text-generation|(^|[-_])tgi[-_.@]|lmdeploy|(^|[-_])nim[-_.@]")),
)
_DIRS = ("/etc/systemd/system", "/run/systemd/generator", "/usr/lib/systemd/system", "/lib/systemd/system")
_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload"
_TIMEOUT = 10.0
_POWER = re.compile(r"nvidia-smi\b[^\n]*\s(?:-pl|--power-limit|-lgc|--lock-gpu-clocks)\b")
_LARGE = 65536
_OURS = re.compile(r"^Description=(vLLM|SGLang|TensorRT-LLM) \S+ instance ", re.M)


class Files(t.NamedTuple):
    """What the unit directories say."""

    names: list[str]
    """Units of ours, of engines, and those that set power limits or clocks."""
    power: list[str]
    """The last kind, without ours."""
    engines: dict[str, str]
    """Units of role engine_service, whose names tell of no engine, and the engine of each."""


def engine_of(name: str) -> t.Optional[str]:
    """Engine that a unit, container or process name tells of."""
    return next((engine for engine, pattern in _ENGINES if pattern.search(name.lower())), None)


def scan_files(reader: Reader) -> Files:
    names, power, seen, engines = [], [], set(), {}
    for folder in _DIRS:
        for name in reader.names(reader.fs(folder)):
            if name in seen or not name.endswith((".service", ".path", ".timer")) or name.partition(".")[0].endswith("@"):
                continue
            seen.add(name)
            owned = name.startswith(OWNED_UNIT_PREFIX)
            if owned or (name.endswith(".service") and engine_of(name)):
                names.append(name)
                ours = _OURS.search(reader.text(reader.fs(f"{folder}/{name}"), limit=_LARGE) or "") if owned else None
                if ours:
                    engines[name] = engine_of(ours.group(1)) or "other"
            elif folder == "/etc/systemd/system" and _POWER.search(reader.text(reader.fs(f"{folder}/{name}"), limit=_LARGE) or ""):
                power.append(name)
    return Files(names + power, power, engines)


def read_units(reader: Reader, extra: t.Iterable[str]) -> dict[str, dict[str, t.Any]]:
    """The part `units` of gpu_info; empty where systemd does not run."""
    if not os.path.isdir(reader.fs("/run/systemd/system")) or reader.base("-"):
        return {}
    wanted = list(dict.fromkeys([*KNOWN, *extra]))
    result = run(["systemctl", "show", "--property=" + _PROPERTIES, "--", *wanted, "vllm*", "sglang*", "trtllm*"], timeout=_TIMEOUT)
    if not result.success:
        reader.note("units", f"systemctl show: {result.err.strip() or result.state}")
    return parse_show(result.out)


def parse_show(text: str) -> dict[str, dict[str, t.Any]]:
    """Blocks of KEY=VALUE lines, one block a unit; units that do not exist are left out."""
    units = {}
    for block in text.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name, load = fields.get("Id"), fields.get("LoadState", "not-found")
        if name and load != "not-found":
            units[name] = {
                "load": load,
                "active": fields.get("ActiveState", ""),
                "sub": fields.get("SubState", ""),
                "enabled": fields.get("UnitFileState", ""),
                "need_daemon_reload": fields.get("NeedDaemonReload") == "yes",
            }
    return units


def services(
    units: t.Mapping[str, t.Mapping[str, t.Any]], processes: t.Iterable[t.Mapping[str, t.Any]], ours: t.Mapping[str, str]
) -> list[dict[str, t.Any]]:
    """The part `services`: units by name, and units or containers whose GPU processes are an engine's. `ours`: Files.engines."""
    found = {}
    for name, unit in units.items():
        engine = (ours.get(name) or engine_of(name)) if name.endswith(".service") else None
        if engine:
            found[name] = {"unit": name, "engine": engine, "active": unit["active"], "owned": name.startswith(OWNED_UNIT_PREFIX)}
    for process in processes:
        name, engine = process["unit"] or "", engine_of(process["name"] or "")
        if name and engine and name not in found:
            found[name] = {"unit": name, "engine": engine, "active": "active", "owned": name.startswith(OWNED_UNIT_PREFIX)}
    return [found[name] for name in sorted(found)]
