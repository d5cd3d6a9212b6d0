# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of engine instances: version, image, advisories. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_engines as engines
from . import _matrix_rules_engine_host
from ._contracts import Finding
from ._matrix_case import Case
from ._matrix_findings import finding
from ._matrix_instance import Instance
from ._matrix_types import Row
from ._versions import key


def rules(case: Case) -> t.Iterator[Finding]:
    for spec in case.engines:
        instance = Instance(case, spec)
        if instance.engine not in case.matrix.engines:
            yield _unknown_engine(instance)
            continue
        yield from _image(instance)
        yield from _version(instance)
        if instance.version:
            yield from _advisories(instance)
        if instance.release:
            yield from _matrix_rules_engine_host.rules(instance)


def _unknown_engine(instance: Instance) -> Finding:
    known = ", ".join(sorted(instance.case.matrix.engines))
    return instance.finding(
        "engine.unknown",
        instance.case.policy.unknown,
        found=instance.engine or "no engine",
        needed=f"one of {known}",
        message=f"The matrix knows no engine {instance.engine!r}; it knows {known}.",
        fix=f"Set engine of {instance.name} to one of {known}.",
        source="matrix/engines",
    )


def _image(instance: Instance) -> t.Iterator[Finding]:
    image, reference, case = instance.image, instance.spec.get("image"), instance.case
    if image is None:
        return
    row = case.matrix.rows.get(engines.RULE[instance.engine])
    newest = engines.newest_for(case.matrix, instance.engine, lambda row: bool(row.get("image"))) or ""
    good = (engines.release(case.matrix, instance.engine, newest) or engines.Release({}, False, False)).row.get("image")
    if image.engine is None and not instance.spec.get("version"):
        yield instance.finding(
            "engine.image_unknown",
            case.policy.unknown,
            row=row,
            found=str(reference),
            needed="an image of a known publisher, or a version beside it",
            nearest=good,
            message=f"It cannot be told which engine version the image {reference} contains.",
            fix=f"Set version of {instance.name} beside the image, or use {good}.",
        )
    elif (image.engine and image.engine != instance.engine) or (
        image.version and instance.version and key(image.version) != key(instance.version)
    ):
        yield instance.finding(
            "engine.image_mismatch",
            "block",
            row=row,
            found=f"{reference}: {engines.TITLE.get(image.engine or '', 'unknown')} {image.version or ''}".strip(),
            needed=instance.what,
            message=f"The image {reference} is not {instance.what}, which {instance.name} asks for.",
            fix="Make engine, version and image agree, or leave image out.",
        )
    if image.moving:
        yield instance.finding(
            "engine.image_moving_tag",
            "warn",
            row=row,
            found=str(reference),
            needed="a version tag or a digest",
            nearest=good,
            message=f"The tag of {reference} moves: what runs would change by itself at the next pull.",
            fix=f"Use a version tag or a digest, such as {good}.",
        )


def _version(instance: Instance) -> t.Iterator[Finding]:
    case, version = instance.case, instance.version
    if not version:
        return
    if instance.release and instance.release.certain:
        return
    newest = engines.newest_for(case.matrix, instance.engine, lambda row: True)
    near = instance.row.get("version") or newest
    yield instance.finding(
        "engine.version_unknown",
        case.policy.unknown,
        found=instance.what,
        needed="a row in matrix/engines or an overlay",
        nearest=newest,
        message=f"The matrix does not know {instance.what}; the nearest release that it knows is {near}"
        + (", by which it is judged here." if instance.release else "."),
        fix=f"Set version of {instance.name} to {newest}, or add a row with gpu_stack_matrix_overlay.",
        source=f"matrix/engines/{instance.engine}.yml",
    )


def _advisories(instance: Instance) -> t.Iterator[Finding]:
    case, version = instance.case, t.cast("str", instance.version)
    hit = engines.advisories(case.matrix, instance.engine, version)
    fixable = [row for row in hit if row.get("fixed") or row.get("affected_through")]
    unfixed = [row for row in hit if row not in fixable]
    safe = case.matrix.rows.get(f"safe.{instance.engine}") or {}
    target = safe.get("version") or safe.get("last_fixed")
    if fixable:
        worst = max(fixable, key=lambda row: (row["gate"] == "block", row.get("cvss") or 0))
        yield finding(
            "engine.advisory",
            "block" if any(row["gate"] == "block" and row["confidence"] != "unverified" for row in fixable) else "warn",
            row=worst,
            subject=instance.name,
            found=f"{instance.what}: {_names(fixable)}",
            needed=f"{target} or newer" if target else "a fixed release",
            nearest=f"{instance.title} {target}" if target else None,
            message=f"{len(fixable)} known vulnerabilit{'ies apply' if len(fixable) > 1 else 'y applies'} to {instance.what}"
            + (f", the worst is {worst['cves'][0]} ({worst['impact']})." if worst.get("impact") else f": {_names(fixable)}."),
            fix=f"Set version of {instance.name} to {target} or newer." if target else "Watch for a fixed release.",
        )
    if unfixed:
        worst = max(unfixed, key=lambda row: row.get("cvss") or 0)
        yield finding(
            "engine.unfixed_advisory",
            "warn",
            row=worst,
            subject=instance.name,
            found=f"{instance.what}: {_names(unfixed)}",
            needed="no exposure: no fixed release is known",
            message=f"{_names(unfixed)} name{'s' if len(unfixed) == 1 else ''} no fixed release of {instance.title}"
            + (f" ({worst['impact']})." if worst.get("impact") else "."),
            fix="Keep the engine on loopback or a private address behind the gateway, with keys on its admin endpoints.",
        )


def _names(rows: list[Row]) -> str:
    return ", ".join(cve for row in rows for cve in row["cves"])
