# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between an engine instance and its host: driver, GPUs, Python, C library. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_cuda as cuda
from . import _matrix_engines as engines
from ._contracts import Finding
from ._matrix_instance import Instance
from ._matrix_types import Row
from ._versions import branch_of, key, matches, minor_of


def rules(instance: Instance) -> t.Iterator[Finding]:
    yield from _driver(instance)
    yield from _gpus(instance)
    yield from _python(instance)


def _driver(instance: Instance) -> t.Iterator[Finding]:
    case, version = instance.case, instance.cuda
    if case.driver is None or not version or not case.groups:
        return
    if cuda.mode(case.matrix, case.driver, version) != "none":
        return
    needed = cuda.driver_min(case.matrix, version)
    base = case.matrix.value("rule.cuda.forward_base", "branch_min", 0)
    possible = instance.container and case.datacenter and (branch_of(case.driver) or 0) >= base
    if possible and case.compat_asked:
        yield instance.finding(
            "engine.forward_compat",
            "warn",
            row=case.matrix.rows.get("rule.cuda.forward"),
            found=f"driver {case.driver} with CUDA forward compatibility",
            needed=f"driver {needed}",
            nearest=case.nearest_driver(),
            message=f"{instance.what} is CUDA {version}; on driver {case.driver} it runs only through the compat libraries of its image.",
            fix=case.driver_fix(),
        )
        return

    def runs(row: Row) -> bool:
        other = (row.get("image_cuda") if instance.container else None) or row.get("wheel_cuda")
        return other is not None and cuda.mode(case.matrix, t.cast("str", case.driver), other) != "none"

    older = engines.newest_for(case.matrix, instance.engine, runs)
    without = ", ".join(group.product for group in case.groups if group not in case.forward_groups)
    hint = f" CUDA forward compatibility does not exist on {without}." if without else ""
    fix = case.driver_fix() + (f" {instance.title} {older} is the newest release that this driver runs." if older else "")
    yield instance.finding(
        "engine.driver_too_old",
        "block",
        row=instance.row,
        found=f"driver {case.driver}",
        needed=f"driver {needed} or newer",
        nearest=case.nearest_driver() or (f"{instance.title} {older}" if older else None),
        message=f"{instance.what} is built for CUDA {version}, which needs driver {needed} or newer; {case.driver} is older.{hint}",
        fix=fix + (" Or accept CUDA forward compatibility of the image: cuda: {compat: true} in the target stack." if possible else ""),
    )


def _gpus(instance: Instance) -> t.Iterator[Finding]:
    case, row = instance.case, instance.row
    for group in case.groups:
        capability = group.compute_capability
        if capability is None:
            continue
        have, least, listed = key(capability), row["compute_capability_min"], row.get("compute_capability_listed")
        common = {"row": row, "found": f"{group.label} (compute capability {capability})"}
        if have < key(least):
            older = engines.newest_for(
                case.matrix,
                instance.engine,
                lambda other, have=have: have >= key(other["compute_capability_min"]),  # type: ignore[misc]
            )
            yield instance.finding(
                "engine.compute_capability",
                "block",
                needed=f"compute capability {least} or newer",
                nearest=f"{instance.title} {older}" if older else None,
                message=f"{instance.what} needs compute capability {least}; {group.product} has {capability}.",
                fix=f"Use {instance.title} {older} (with its known vulnerabilities) or other GPUs." if older else "Use other GPUs.",
                **common,
            )
        elif listed and have < key(listed):
            yield instance.finding(
                "engine.compute_capability_unlisted",
                "warn",
                needed=f"compute capability {listed} or newer to be documented",
                message=f"{instance.what} does not document support of {group.product} "
                f"(compute capability {capability}; documented from {listed}).",
                fix="Try it on one host first, or use a GPU that is documented.",
                **common,
            )
        known = cuda.architectures(case.matrix, instance.cuda) if instance.cuda else None
        family = known and any(arch.split(".")[0] == capability.split(".")[0] and key(arch) <= have for arch in known[0])
        if known and capability not in known[0] and not family and have >= key(least):
            yield instance.finding(
                "engine.cuda_lacks_gpu",
                "block",
                needed=f"a release built with a CUDA version that knows {capability}",
                nearest=_newest_knowing(instance, capability),
                message=f"{instance.what} is built with CUDA {instance.cuda}, which has no code for {group.product} ({capability}).",
                fix=f"Use {_newest_knowing(instance, capability)}.",
                **common,
            )


def _newest_knowing(instance: Instance, capability: str) -> str | None:
    def knows(row: Row) -> bool:
        version = row.get("image_cuda") or row.get("wheel_cuda")
        known = cuda.architectures(instance.case.matrix, version) if version and minor_of(version) else None
        return known is not None and capability in known[0]

    version = engines.newest_for(instance.case.matrix, instance.engine, knows)
    return f"{instance.title} {version}" if version else None


def _python(instance: Instance) -> t.Iterator[Finding]:
    case, row = instance.case, instance.row
    if instance.container or not instance.spec.get("runtime"):
        return
    python = str(instance.spec.get("python") or case.host.get("python") or "")
    if python and row.get("python") and not matches(python, row["python"]):
        older = engines.newest_for(case.matrix, instance.engine, lambda other: matches(python, other.get("python", "<0")))
        yield instance.finding(
            "engine.python",
            "block",
            row=row,
            found=f"Python {python}",
            needed=f"Python {row['python']}",
            nearest=f"{instance.title} {older}" if older else None,
            message=f"{instance.what} needs Python {row['python']}; {instance.name} would use {python}.",
            fix="Set python of the instance to a version that fits, or use a container.",
        )
    glibc = (case.matrix.rows.get(case.os.rule or "") or {}).get("glibc")
    if glibc and row.get("glibc_min") and key(glibc) < key(row["glibc_min"]):
        yield instance.finding(
            "engine.glibc_too_old",
            "block",
            row=row,
            found=f"glibc {glibc} ({case.os.name})",
            needed=f"glibc {row['glibc_min']} or newer",
            message=f"The wheel of {instance.what} needs glibc {row['glibc_min']}; {case.os.name} has {glibc}.",
            fix="Run it in a container, or on a newer system.",
        )
