# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi --query-gpu=… and --query-compute-apps=…"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable

from ..nvml import Nvml
from .properties import ALIASES, BY_NAME, FIELDS, Getter
from .values import Gpu, Text


class QueryError(ValueError):
    """A message that nvidia-smi prints as it is, with exit status 2."""


def columns(names: Sequence[str]) -> list[tuple[str, Getter]]:
    out = []
    for given in names:
        name = given.strip()
        known = ALIASES.get(name, re.sub(r"^clocks_throttle_reasons", "clocks_event_reasons", name))
        if known not in BY_NAME:
            raise QueryError(f'Field "{name}" is not a valid field to query.\n')
        header = BY_NAME[known]
        out.append((header.replace(known, name, 1) if known != name and name.startswith("clocks_throttle") else header, FIELDS[header]))
    return out


def _format(value: Text, units: bool) -> str:
    if value is None:
        return "[N/A]"
    return value if units else re.sub(r"^(-?[\d.]+) (MiB|MHz|W|%|us)$", r"\1", value)


def options(text: str | None) -> tuple[bool, bool]:
    """(header, units)"""
    words = [word.strip() for word in (text or "csv").split(",")]
    if any(word not in ("csv", "noheader", "nounits") for word in words):
        raise QueryError("Format modifier is not recognized.")
    return "noheader" not in words, "nounits" not in words


def gpus(names: Sequence[str], form: str | None, chosen: list[Gpu]) -> str:
    header, units = options(form)
    wanted = columns(names)
    lines = [", ".join(title for title, _get in wanted)] if header else []
    lines += [", ".join(_format(get(gpu), units) for _title, get in wanted) for gpu in chosen]
    return "".join(line + "\n" for line in lines)


APPS: dict[str, tuple[str, Callable[[Gpu, tuple[str, int, int, str]], str]]] = {
    "gpu_name": ("gpu_name", lambda gpu, p: gpu.name()),
    "gpu_bus_id": ("gpu_bus_id", lambda gpu, p: gpu.bus_id()),
    "gpu_serial": ("gpu_serial", lambda gpu, p: gpu.text("nvmlDeviceGetSerial") or "[N/A]"),
    "gpu_uuid": ("gpu_uuid", lambda gpu, p: gpu.uuid()),
    "pid": ("pid", lambda gpu, p: str(p[1])),
    "name": ("process_name", lambda gpu, p: p[3]),
    "process_name": ("process_name", lambda gpu, p: p[3]),
    "used_memory": ("used_gpu_memory [MiB]", lambda gpu, p: f"{p[2]} MiB"),
    "used_gpu_memory": ("used_gpu_memory [MiB]", lambda gpu, p: f"{p[2]} MiB"),
}


def apps(names: Sequence[str], form: str | None, chosen: list[Gpu]) -> str:
    header, units = options(form)
    for name in names:
        if name.strip() not in APPS:
            raise QueryError(f'Field "{name.strip()}" is not a valid field to query.\n')
    wanted = [APPS[name.strip()] for name in names]
    lines = [", ".join(title for title, _get in wanted)] if header else []
    lines += [
        ", ".join(_format(get(gpu, item), units) for _title, get in wanted) for gpu in chosen for item in gpu.processes() if item[0] != "G"
    ]
    return "".join(line + "\n" for line in lines)


def help_text(nvml: Nvml) -> str:
    return 'List of valid properties to query for the switch "--query-gpu":\n\n' + "".join(f'"{name}"\n\n' for name in BY_NAME)
