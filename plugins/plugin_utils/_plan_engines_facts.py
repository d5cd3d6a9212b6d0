# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has of engine instances: the answer of module engine_info, read with care. Pure.

Private to the collection. Whatever is missing or odd in the answer counts as not there.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ._engine_gpus import devices
from ._engine_instance import Instance
from ._engine_job import Host
from ._versions import key

Facts = t.Mapping[str, t.Any]
UNIT = "gpufleet-engine-"
_CDI_OF_TOOLKIT = "1.18"
_CDI_CYCLE = "1.19.0"
_DOCKER_CDI = "28.2"


@dataclass(frozen=True)
class Here:
    """engine_info of one host."""

    info: Facts
    facts: Facts

    @property
    def records(self) -> dict[str, Facts]:
        return {name: record for name, record in _part(self.info, "records").items() if isinstance(record, t.Mapping)}

    def record(self, name: str) -> Facts | None:
        return self.records.get(name)

    def unit(self, name: str) -> Facts:
        return t.cast("Facts", _part(self.info, "units").get(name) or {})

    def file(self, path: str) -> Facts:
        return t.cast("Facts", _part(self.info, "files").get(path) or {})

    def job(self, name: str) -> Facts | None:
        """The job that changes this instance now."""
        return t.cast("Facts | None", _part(self.info, "jobs").get(name))

    def started_with(self, name: str) -> str | None:
        return t.cast("str | None", _part(self.info, "started_with").get(name))

    def holder(self, port: int) -> Facts | None:
        """Who listens on a port."""
        held = _part(self.info, "ports").get(str(port)) or _part(self.info, "ports").get(port)  # type: ignore[call-overload]
        return t.cast("Facts | None", held)

    @property
    def users(self) -> list[str]:
        return [str(user) for user in self.info.get("users") or ()]

    def active(self, name: str) -> bool:
        """Whether any unit of the instance runs or is about to."""
        own = (f"{UNIT}{name}.service", f"{UNIT}{name}-ray.service")
        return any(self.unit(unit).get("active_state") in ("active", "activating", "reloading", "deactivating") for unit in own)


def host_of(here: Here) -> Host:
    """What units are made for on this host."""
    toolkit = ((here.facts.get("containers") or {}).get("toolkit") or {}).get("version") or ""
    plain = str(toolkit).partition("-")[0]
    own = not plain or key(plain) < key(_CDI_OF_TOOLKIT) or key(plain) == key(_CDI_CYCLE)
    docker = (((here.facts.get("containers") or {}).get("engines") or {}).get("docker") or {}).get("version")
    # 28.2 takes CDI names by itself; older ones only with a switch that the daemon tells of.
    told = (here.info.get("docker") or {}).get("cdi")
    cdi = bool(told) if told is not None else not docker or key(str(docker)) >= key(_DOCKER_CDI)
    return Host(cdi_unit="gpufleet-cdi-refresh.service" if own else "nvidia-cdi-refresh.service", docker_cdi=cdi)


def recorded(here: Here, names: t.Container[str]) -> list[Instance]:
    """Instances of the records that nobody lists here, in the little form that check_host reads."""
    known = {device.uuid for device in devices(here.facts)}
    return [
        {
            "name": name,
            "engine": str(record.get("engine") or "vllm"),
            "gpus": [uuid for uuid in record.get("gpus") or () if uuid in known],
            "host": "0.0.0.0",  # noqa: S104 - which address it listens on is not recorded: take any
            "port": record.get("port"),
            "parallel": {},
            "nodes": None,
        }
        for name, record in here.records.items()
        if name not in names
    ]


def _part(info: Facts, name: str) -> Facts:
    part = info.get(name)
    return part if isinstance(part, t.Mapping) else {}
