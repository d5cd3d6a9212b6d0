# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State files on a host: one JSON object each, with a `schema` number. Private to the collection.

An older number is upgraded on read, step by step; a newer one is refused, because an old reader that guesses
would write the file back with what it did not understand missing.
"""

from __future__ import annotations

import json
import typing as t

from ._errors import HostError
from ._files import Written, read_text, write_text

State = dict[str, t.Any]
Step = t.Callable[[State], State]

SCHEMAS: dict[str, int] = {
    "gpu_settings_desired": 1,
    "gpu_settings_recorded": 1,
    "reboot_required": 1,
    "driver_record": 1,
    "driver_reload": 1,
    "trtllm_stamp": 1,
    "cuda_record": 1,
    "model_record": 1,
    "engine_runtime": 1,
    "engine_images": 1,
    "package_files": 1,
    "run_lock": 1,
    "nvml_hung": 1,
    "kernel_modules": 1,
    "engine_record": 1,
    "engine_switch": 1,
    "gateway_marks": 1,
    "gateway_record": 1,
}
"""Number that this version writes, per kind of file (the $defs of schemas/state.schema.json)."""

_PACKAGES: dict[str, type] = {"packages": dict, "pending": dict, "previous": dict, "holds": list, "dependencies": list}
SHAPES: dict[str, dict[str, type]] = {
    "driver_record": {**_PACKAGES, "rolled_back": dict, "runfile": dict, "runfile_pending": dict, "initramfs": dict, "rebooted_for": dict},
    "cuda_record": {**_PACKAGES, "runfiles": dict, "runfile_pending": dict, "alternatives": list, "link": dict},
    "reboot_required": {"reasons": list},
    "driver_reload": {"units": list, "modules": list},
    "engine_record": {"definition": dict},
    "gateway_marks": {"marks": dict},
}
"""Parts that readers walk through: a file that was edited by hand is refused with its name, not by a traceback further on."""

UPGRADES: dict[tuple[str, int], Step] = {}
"""(kind, N) → function that makes schema N + 1 of schema N. Empty while every kind is at its first number."""


def read_state(path: str, kind: str) -> t.Optional[State]:
    """The file's content at this version's schema, None when there is no file; HostError when it cannot be used."""
    text = read_text(path)
    if text is None:
        return None
    try:
        state = json.loads(text)
    except ValueError as exc:
        raise HostError(f"{path} is not valid JSON ({exc}); repair or remove it") from exc
    if not isinstance(state, dict) or not isinstance(state.get("schema"), int) or isinstance(state.get("schema"), bool):
        raise HostError(f"{path} is not one of this collection's state files: it has no schema number")
    state = upgrade(state, kind, path)
    for name, shape in SHAPES.get(kind, {}).items():
        if not isinstance(state.get(name), (shape, type(None))):
            raise HostError(f"{path}: {name} is {state[name]!r}, expected {'a map' if shape is dict else 'a list'}; repair or remove it")
    return state


def upgrade(state: State, kind: str, path: str = "state") -> State:
    """Bring `state` to the schema number of this version."""
    wanted = SCHEMAS[kind]
    if state["schema"] > wanted:
        raise HostError(
            f"{path} has schema {state['schema']}, this version of gpufleet.inference understands up to {wanted}: "
            "use the newer version that wrote it"
        )
    while state["schema"] < wanted:
        step = UPGRADES.get((kind, state["schema"]))
        if step is None:
            raise HostError(f"{path} has schema {state['schema']}, which cannot be upgraded to {wanted}; remove it")
        state = {**step(state), "schema": state["schema"] + 1}
    return state


def dump(kind: str, state: t.Mapping[str, t.Any]) -> str:
    """The text of a state file: stable order, so that equal content is an equal file."""
    return json.dumps({"schema": SCHEMAS[kind], **state}, indent=1, sort_keys=True) + "\n"


def write_state(path: str, kind: str, state: t.Mapping[str, t.Any], mode: int = 0o644, check: bool = False) -> Written:
    """Write `state` (without `schema`) atomically."""
    return write_text(path, dump(kind, state), mode=mode, check=check)
