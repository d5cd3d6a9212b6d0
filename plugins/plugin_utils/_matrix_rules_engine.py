# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of engine instances: version, image, CUDA, driver, GPU, Python, C library, advisories. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_cuda as cuda
from . import _matrix_engines as engines
from ._contracts import Finding
from ._matrix_case import CONTAINER_RUNTIMES, Case, Facts
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import branch_of, key, matches, minor_of


class Instance:
    """One engine instance of the target stack with the row that judges it."""

    def __init__(self, case: Case, spec: Facts) -> None:
        self.case = case
        self.engine = str(spec.get("engine") or "")
        self.name = str(spec.get("name") or self.engine)
        self.title = engines.TITLE.get(self.engine, self.engine)
        self.spec = spec
        self.container = str(spec.get("runtime") or "") in CONTAINER_RUNTIMES
        reference = str(spec.get("image") or "")
        self.image = engines.image(case.matrix, reference) if reference else None
        asked = spec.get("version")
        self.version: str | None = str(asked) if asked else self.image.version if self.image else None
        self.release = engines.release(case.matrix, self.engine, self.version) if self.version else None

    @property
    def row(self) -> Row:
        return self.release.row if self.release else {}

    @property
    def cuda(self) -> str | None:
        """CUDA that runs: of the image, or of the wheel."""
        if self.image and self.image.cuda:
            return self.image.cuda
        row = self.row
        return row.get("image_cuda") or row.get("wheel_cuda") if self.container else row.get("wheel_cuda") or row.get("torch_cuda")

    @property
    def what(self) -> str:
        return f"{self.title} {self.version}"

    def finding(self, id: str, severity: t.Any, **fields: t.Any) -> Finding:
        """A finding about this instance; where the row only stands in for the version it cannot block."""
        if self.release and not self.release.certain and severity == "block" and fields.get("row") is self.row:
            severity = self.case.policy.unknown
        return finding(id, severity, subject=self.name, **fields)


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
            yield from _driver(instance)
            yield from _gpus(instance)
            yield from _python(instance)


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


def _driver(instance: Instance) -> t.Iterator[Finding]:
    case, version = instance.case, instance.cuda
    if case.driver is None or not version or not case.groups:
        return
    if cuda.mode(case.matrix, case.driver, version) != "none":
        return
    needed = cuda.driver_min(case.matrix, version)
    base = case.matrix.value("rule.cuda.forward_base", "branch_min", 0)
    forward = instance.container and case.compat_asked and case.datacenter and (branch_of(case.driver) or 0) >= base
    if forward:
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
    hint = "" if case.datacenter else f" Forward compatibility does not exist on {', '.join(g.product for g in case.groups)}."
    yield instance.finding(
        "engine.driver_too_old",
        "block",
        row=instance.row,
        found=f"driver {case.driver}",
        needed=f"driver {needed} or newer",
        nearest=case.nearest_driver() or (f"{instance.title} {older}" if older else None),
        message=f"{instance.what} is built for CUDA {version}, which needs driver {needed} or newer; {case.driver} is older.{hint}",
        fix=case.driver_fix() + (f" {instance.title} {older} is the newest release that this driver runs." if older else ""),
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
