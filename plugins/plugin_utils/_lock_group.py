# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest supported combination for one hardware group of the stack lock. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_cuda as cuda
from . import _matrix_engines as engines
from ._matrix import judge
from ._matrix_case import Case
from ._matrix_driver import CHANNELS
from ._matrix_types import DriverChoice, Row
from ._versions import branch_of, key, newest

CHECKED = ("driver", "cuda", "container_toolkit", "engine", "matrix")
NOT_CHECKED = ("container_toolkit.engine_too_old",)  # what the host has now is no reason against a version


class Unresolved(ValueError):
    """Nothing fits a group; the text says why."""


def resolve_group(case: Case, wanted: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    rows: list[dict[str, str]] = []

    def decided(row: Row | None, what: str) -> None:
        if row:
            rows.append({"row": row["id"], "decided": what, "source": row["source"]})

    if wanted.get("stack") and case.stack_row is None:
        raise Unresolved(f"there is no named stack {wanted['stack']!r}")
    decided(case.stack_row, "the named stack that was asked for")
    choice = _driver(case, str(wanted.get("channel") or "lts"))
    for row_id in choice.rows:
        decided(case.matrix.rows.get(row_id), f"driver {choice.version}, {choice.kernel_modules} kernel modules")
    toolkit = _toolkit(case, choice)
    decided(toolkit, f"CUDA toolkit {toolkit['version']}")
    container = case.container_toolkit if case.container_toolkit_asked else None
    container = container or newest(row["version"] for row in case.matrix.section("toolkit_releases")) or ""
    decided(case.matrix.rows.get(f"toolkit.{container}"), f"container toolkit {container}")
    chosen = {name: release for name in _engine_names(case, wanted) if (release := _engine(case, wanted, name, choice.version))}
    for name, row in chosen.items():
        decided(row, f"{engines.TITLE[name]} {row['version']}")
    _judged(case, choice, toolkit, container)
    return {
        "gpus": sorted({group.row["id"] for group in case.groups if group.row}),
        "os": f"{case.os.repository}-{case.os.repository_arch}",
        "driver": {
            "branch": choice.branch,
            "version": choice.version,
            "kernel_modules": choice.kernel_modules,
            "source": case.driver_source,
        },
        "cuda": {"toolkit": toolkit["version"]},
        "container_toolkit": {"version": container},
        "engines": {name: _engine_entry(row) for name, row in chosen.items()},
        "rows": rows,
    }


def _driver(case: Case, channel: str) -> DriverChoice:
    if channel not in CHANNELS:
        raise Unresolved(f"channel {channel!r} is none of {', '.join(CHANNELS)}")
    ids = [group.row["id"] for group in case.groups if group.row]
    best = case.matrix.driver_for(ids, case.policy.today, channel)
    if not case.driver_asked:
        if best is None:
            raise Unresolved(f"no supported driver drives {', '.join(ids)} together")
        return best
    version = t.cast("str", case.driver)
    row = case.matrix.branch(case.branch or 0)
    if row is None:
        raise Unresolved(f"the matrix does not know driver branch {case.branch}")
    safe = case.matrix.driver_safe.get(row["branch"]) or {}
    if not (case.stack.get("driver") or {}).get("version"):
        version = max(safe.get("version") or version, version, key=key)
    gpus = [group.row for group in case.groups if group.row]
    modules = case.kernel_modules or ("proprietary" if any(gpu["open_modules"] == "unsupported" for gpu in gpus) else "open")
    return DriverChoice(
        branch=branch_of(version) or row["branch"],
        version=version,
        kernel_modules="open" if modules == "open" else "proprietary",
        type=row["type"],
        rows=(row["id"], *((safe["id"],) if safe else ()), *ids),
    )


def _toolkit(case: Case, choice: DriverChoice) -> Row:
    capabilities = [group.compute_capability for group in case.groups if group.compute_capability]
    if case.toolkits_asked:
        row = case.matrix.cuda_toolkit(case.toolkits[0])
        if row is None:
            raise Unresolved(f"the matrix does not know CUDA toolkit {case.toolkits[0]}")
        return row
    row = cuda.newest_with(case.matrix, capabilities, choice.version)
    if row is None:
        raise Unresolved(f"no CUDA toolkit fits compute capability {', '.join(sorted(set(capabilities)))} and driver {choice.version}")
    return row


def _engine_names(case: Case, wanted: t.Mapping[str, t.Any]) -> list[str]:
    asked = wanted.get("engines")
    return list(asked) if asked else sorted(case.matrix.engines)


def _engine(case: Case, wanted: t.Mapping[str, t.Any], name: str, driver: str) -> Row | None:
    """The release that was asked for, else the newest that these GPUs and this driver run without a blocking advisory."""
    asked = wanted.get("engines")
    exact = asked.get(name) if isinstance(asked, t.Mapping) else None
    exact = exact or ((case.stack_row or {}).get("engines") or {}).get(name)
    if exact:
        release = engines.release(case.matrix, name, str(exact))
        if release is None or not release.exact:
            raise Unresolved(f"the matrix does not know {engines.TITLE.get(name, name)} {exact}")
        return release.row

    def fits(row: Row) -> bool:
        version = row.get("image_cuda") or row.get("wheel_cuda")
        if not version or cuda.mode(case.matrix, driver, version) == "none":
            return False
        if any(advisory["gate"] == "block" for advisory in engines.advisories(case.matrix, name, row["version"])):
            return False
        least = max(row["compute_capability_min"], row.get("compute_capability_listed", "0.0"), key=key)
        return all(group.compute_capability and key(group.compute_capability) >= key(least) for group in case.groups)

    version = engines.newest_for(case.matrix, name, fits)
    release = engines.release(case.matrix, name, version) if version else None
    return release.row if release else None


def _engine_entry(row: Row) -> dict[str, t.Any]:
    return {name: row[name] for name in ("version", "image", "python") if row.get(name)}


def _judged(case: Case, choice: DriverChoice, toolkit: Row, container: str) -> None:
    """What was asked for by name or version passes the same gate as everywhere; the resolver's own choices do by construction."""
    stack = {
        "component": "driver",
        "driver": {
            "branch": choice.branch,
            "version": choice.version,
            "kernel_modules": choice.kernel_modules,
            "source": case.driver_source,
        },
        "cuda": {"toolkits": [toolkit["version"]]},
        "container_toolkit": {"version": container},
        **({"name": case.stack["name"]} if case.stack.get("name") else {}),
    }
    blocks = [
        found
        for found in judge(case.matrix, case.facts, stack, case.policy)
        if found.severity == "block" and (found.component in CHECKED or found.id == "policy.allow_invalid") and found.id not in NOT_CHECKED
    ]
    if blocks:
        raise Unresolved(
            "; ".join(f"{found.id}: {found.message}" + (f" Nearest: {found.nearest}." if found.nearest else "") for found in blocks)
        )
