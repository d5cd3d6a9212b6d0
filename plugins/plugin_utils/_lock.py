# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stack lock: newest supported combination for each hardware group, and drift from it. Pure.

Private to the collection. Document: schemas/stack_lock.schema.json. Hosts with the same GPU products, system and architecture are
one group.
"""

from __future__ import annotations

import typing as t

from . import _matrix_cuda as cuda
from . import _matrix_engines as engines
from ._contracts import Context, Finding
from ._matrix import evaluate
from ._matrix_case import Case
from ._matrix_driver import CHANNELS
from ._matrix_findings import finding
from ._matrix_model import Matrix
from ._matrix_types import DriverChoice, Row
from ._versions import branch_of, key, newest

SCHEMA = 1
SOURCE = "stack.lock.yml"
CHECKED = ("driver", "cuda", "container_toolkit", "engine", "matrix")


class Unresolved(ValueError):
    """Nothing fits a group; the text says why."""


def resolve(
    matrix: Matrix, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], wanted: t.Mapping[str, t.Any], policy: Context
) -> tuple[dict[str, t.Any], dict[str, str]]:
    """The lock for these hosts, and why each host that is in no group could not be resolved.

    `wanted`: channel (lts | production | newest), stack (name of a named stack), driver {branch, version}, cuda {toolkits}, engines
    (names or {engine: version}); whatever is missing is resolved to the newest that is supported.
    """
    groups: dict[str, dict[str, t.Any]] = {}
    problems: dict[str, str] = {}
    for host in sorted(facts_by_host):
        case = Case(matrix, facts_by_host[host], _stack(wanted), policy)
        name, reason = group_name(case)
        if reason:
            problems[host] = reason
        elif name in groups:
            groups[name]["hosts"].append(host)
        else:
            try:
                groups[name] = {"hosts": [host], **_group(case, wanted)}
            except Unresolved as error:
                problems[host] = str(error)
    document = {
        "schema": SCHEMA,
        "resolved_at": policy.today.isoformat(),
        "matrix": {"version": matrix.version, "sha256": matrix.sha256, "overlays": list(matrix.overlays)},
        "groups": groups,
    }
    return document, problems


def group_name(case: Case) -> tuple[str, str]:
    """h100_sxm@debian12-x86_64, or why the host belongs to no group."""
    if not case.facts:
        return "", "no facts were read from this host"
    if not case.groups:
        return "", "it has no GPU"
    unknown = sorted({group.product for group in case.groups if group.row is None})
    if unknown:
        return "", f"the matrix does not know {', '.join(unknown)} (add a row with gpu_stack_matrix_overlay)"
    if not case.os.supported or not case.os.repository_path:
        return "", case.os.reason
    ids = sorted({group.row["id"] for group in case.groups if group.row})
    return f"{'+'.join(ids)}@{case.os.repository}-{case.os.repository_arch}", ""


def group_of(document: t.Any, host: str) -> dict[str, t.Any] | None:
    """The group of a host in a lock; None where it is in none. ValueError where the document is no lock of this version."""
    if not isinstance(document, dict) or not isinstance(document.get("groups"), dict):
        raise ValueError("it is not a stack lock (no groups)")
    if document.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {document.get('schema')!r}, this version of the collection understands {SCHEMA}")
    return next((group for group in document["groups"].values() if host in group.get("hosts", ())), None)


def drift(document: t.Any, host: str, facts: t.Mapping[str, t.Any]) -> list[Finding]:
    """How a host differs from its group in the lock."""
    group = group_of(document, host)
    if group is None:
        return [
            finding(
                "lock.group_missing",
                "warn",
                found=f"{host} in no group",
                needed="a group with this host",
                message=f"The stack lock has no group with {host}: it was not there, or could not be resolved, when the lock was written.",
                fix="Run the playbook gpufleet.inference.lock.",
                source=SOURCE,
            )
        ]
    return differences(group, facts)


def differences(group: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> list[Finding]:
    """How a host differs from its group."""
    return sorted(_differences(group, facts), key=Finding.sort_key)


def _differences(group: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    driver = facts.get("driver") or {}
    have = driver.get("loaded") or driver.get("installed") or {}
    kinds = [("lock.driver_drift", "driver", have.get("version"), group["driver"]["version"])]
    if have.get("kernel_modules"):
        kinds.append(("lock.kernel_modules_drift", "kind of kernel modules", have["kernel_modules"], group["driver"]["kernel_modules"]))
    toolkit = (facts.get("containers") or {}).get("toolkit")
    if toolkit and (group.get("container_toolkit") or {}).get("version"):
        kinds.append(("lock.container_toolkit_drift", "container toolkit", toolkit.get("version"), group["container_toolkit"]["version"]))
    for name, title, found, locked in kinds:
        if found != locked:
            yield _differs(name, title, str(found or "none"), str(locked))
    toolkits = [str(item.get("version")) for item in (facts.get("cuda") or {}).get("toolkits") or ()]
    locked = group["cuda"]["toolkit"]
    if toolkits and locked not in toolkits:
        yield _differs("lock.cuda_drift", "CUDA toolkit", ", ".join(toolkits), locked)


def _differs(name: str, title: str, found: str, locked: str) -> Finding:
    return finding(
        name,
        "warn",
        found=found,
        needed=locked,
        nearest=locked,
        message=f"The {title} of this host is {found}; the stack lock says {locked}.",
        fix="Run the playbook gpufleet.inference.site with this lock, or write a new lock if the host is right.",
        source=SOURCE,
    )


def _stack(wanted: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    stack: dict[str, t.Any] = {"component": "driver"}
    if wanted.get("stack"):
        stack["name"] = wanted["stack"]
    for name in ("driver", "cuda", "container_toolkit"):
        if wanted.get(name):
            stack[name] = wanted[name]
    return stack


def _group(case: Case, wanted: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
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
        for found in evaluate(case.matrix, case.facts, stack, case.policy)
        if found.severity == "block" and found.component in CHECKED and found.id != "container_toolkit.engine_too_old"
    ]
    if blocks:
        raise Unresolved("; ".join(f"{found.id}: {found.message}" for found in blocks))
