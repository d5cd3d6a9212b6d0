# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of CUDA toolkits. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_cuda as cuda
from ._contracts import Finding
from ._matrix_case import Case, GpuGroup
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import branch_of, key, major_of, matches, minor_of
from ._versions import nearest as nearest_version


def rules(case: Case) -> t.Iterator[Finding]:
    for version in case.toolkits:
        row = case.matrix.cuda_toolkit(version)
        if row is None and case.toolkits_asked:
            yield _unknown(case, version)
        yield from driver_relation(case, version, f"CUDA {version}", row)
        for group in case.groups:
            yield from _architecture(case, version, group)
        if case.toolkits_asked:
            yield from _repository(case, version)
            yield from _advisory(case, version)


def _unknown(case: Case, version: str) -> Finding:
    near = nearest_version(version, case.matrix.toolkits) or "none"
    return finding(
        "cuda.toolkit_unknown",
        case.policy.unknown,
        subject=version,
        found=f"CUDA {version}",
        needed="a row in matrix/cuda.yml or an overlay",
        nearest=near,
        message=f"The matrix does not know CUDA toolkit {version}; the nearest release that it knows is {near}.",
        fix=f"Ask for {near}, or add a row with gpu_stack_matrix_overlay.",
        source="matrix/cuda.yml",
    )


def driver_relation(case: Case, version: str, what: str, row: Row | None) -> t.Iterator[Finding]:
    if case.driver is None:
        return
    how = cuda.mode(case.matrix, case.driver, version)
    if how == "none":
        yield _too_old(case, version, what)
    elif how == "minor" and case.toolkits_asked:
        level = cuda.driver_level(case.matrix, version)
        yield finding(
            "cuda.minor_version_compat",
            "info",
            row=case.matrix.rows.get("rule.cuda.ptx"),
            subject=version,
            found=f"driver {case.driver}",
            needed=f"driver {level} for all functions",
            message=f"{what} belongs to driver {level}; on {case.driver} it runs by minor-version compatibility, where PTX cannot be "
            "compiled at run time.",
            fix="Nothing, unless programs ship PTX: then use a newer driver or an older toolkit.",
        )


def _too_old(case: Case, version: str, what: str) -> Finding:
    driver, needed = t.cast("str", case.driver), cuda.driver_min(case.matrix, version)
    asked = case.severity(case.toolkits_asked, case.driver_asked)
    base = case.matrix.value("rule.cuda.forward_base", "branch_min", 0)
    if case.compat_asked and case.datacenter and (branch_of(driver) or 0) >= base:
        return finding(
            "cuda.forward_compat",
            "info",
            row=case.matrix.rows.get("rule.cuda.forward"),
            subject=version,
            found=f"driver {driver} with cuda-compat",
            needed=f"driver {needed}",
            message=f"{what} runs on driver {driver} through cuda-compat-{(minor_of(version) or version).replace('.', '-')}, "
            "which raises the user-mode driver only.",
            fix="Nothing; a driver of the toolkit's own level needs no compat package.",
        )
    spec = f"<={(major_of(version) or 0)}.99"
    runs = cuda.newest_with(case.matrix, [g.compute_capability for g in case.groups if g.compute_capability], driver, spec)
    if case.compat_asked:
        return finding(
            "cuda.forward_compat_unsupported",
            asked,
            row=case.matrix.rows.get("rule.cuda.forward"),
            subject=version,
            found=f"driver {driver} with cuda-compat on {', '.join(group.label for group in case.groups)}",
            needed=f"data-center GPUs and a driver from branch {base} on, or driver {needed}",
            nearest=case.nearest_driver(),
            message=f"cuda-compat cannot bring {what} to driver {driver} on {', '.join(group.product for group in case.groups)}: "
            "forward compatibility is for data-center GPUs on a branch that is still accepted.",
            fix=case.driver_fix(),
        )
    return finding(
        "cuda.driver_too_old",
        asked,
        row=case.matrix.majors.get(major_of(version) or 0),
        subject=version,
        found=f"driver {driver}",
        needed=f"driver {needed} or newer",
        nearest=case.nearest_driver() or (f"CUDA {runs['version']}" if runs else None),
        message=f"{what} needs driver {needed} or newer, {driver} is older"
        + (f"; the newest toolkit that this driver runs fully is {runs['version']}." if runs else "."),
        fix=case.driver_fix() + (f" Or set cuda_toolkit_versions: ['{runs['version']}']." if runs else ""),
    )


def _architecture(case: Case, version: str, group: GpuGroup) -> t.Iterator[Finding]:
    known = cuda.architectures(case.matrix, version)
    capability = group.compute_capability
    if known is None or capability is None or capability in known[0]:
        return
    dropped = capability in known[1]
    family = any(have.split(".")[0] == capability.split(".")[0] and key(have) <= key(capability) for have in known[0])
    nearest = cuda.newest_with(case.matrix, [capability], case.driver) or cuda.newest_with(case.matrix, [capability], None)
    severity = "warn" if family and not dropped else case.severity(case.toolkits_asked)
    yield finding(
        "cuda.architecture_dropped" if dropped else "cuda.architecture_missing",
        severity,
        row=_deciding(case, capability, dropped),
        subject=f"{version} on {group.subject}",
        found=f"CUDA {version} and {group.label} (compute capability {capability})",
        needed="a toolkit that still has this architecture" if dropped else "a toolkit that has this architecture",
        nearest=nearest["version"] if nearest else None,
        message=f"CUDA {version} {'no longer' if dropped else 'does not yet'} support{'s' if dropped else ''} {group.product}"
        f" (compute capability {capability})" + (f"; {nearest['version']} does." if nearest else "."),
        fix=f"Set cuda_toolkit_versions: ['{nearest['version']}']." if nearest else "No toolkit in the matrix fits this GPU.",
    )


def _deciding(case: Case, capability: str, dropped: bool) -> Row | None:
    what = "drops" if dropped else "adds"
    return next((row for row in case.matrix.minors.values() if capability in (row.get(what) or ())), None)


def _repository(case: Case, version: str) -> t.Iterator[Finding]:
    minor = case.matrix.minors.get(minor_of(version) or "")
    repository = case.os.repository
    if not minor or not minor.get("repositories") or not repository or repository in minor["repositories"]:
        return
    later = [row for row in case.matrix.toolkits.values() if key(row["version"]) > key(version)]
    nearest = min((row for row in later if _carries(case, row["version"], repository)), key=lambda row: key(row["version"]), default=None)
    yield finding(
        "cuda.not_in_repository",
        "block",
        row=minor,
        subject=version,
        found=f"CUDA {version} on {case.os.name}",
        needed=f"a toolkit that the repository {repository} carries",
        nearest=nearest["version"] if nearest else None,
        message=f"NVIDIA's repository {repository} does not carry CUDA {minor['minor']}"
        + (f"; the next that it carries is {minor_of(nearest['version'])}." if nearest else "."),
        fix=f"Set cuda_toolkit_versions: ['{nearest['version']}'], or install the runfile." if nearest else "Install the runfile.",
    )


def _carries(case: Case, version: str, repository: str) -> bool:
    """Whether a repository carries a toolkit: minors that name repositories decide for themselves, newer ones are taken to have it."""
    minor = minor_of(version) or ""
    listed = {row["minor"]: row["repositories"] for row in case.matrix.minors.values() if row.get("repositories")}
    return repository in listed[minor] if minor in listed else key(minor) > max(map(key, listed))


def _advisory(case: Case, version: str) -> t.Iterator[Finding]:
    rows = [row for row in case.matrix.section("product_advisories") if row["product"] == "cuda_toolkit"]
    hit = [row for row in rows if matches(version, f"<{row['fixed']}")]
    if hit:
        last = max(hit, key=lambda row: key(row["fixed"]))
        better = cuda.newest_with(case.matrix, [g.compute_capability for g in case.groups if g.compute_capability], None)
        fits = better is not None and key(better["version"]) >= key(last["fixed"])
        yield finding(
            "cuda.advisory",
            "warn",
            row=last,
            subject=version,
            found=f"CUDA toolkit {version}, bulletins {', '.join(row['id'].removeprefix('psirt.') for row in hit)}",
            needed=f"CUDA toolkit {last['fixed']} or newer",
            nearest=last["fixed"] if fits else None,
            message=f"NVIDIA bulletins on tools of the CUDA toolkit apply to {version}; {last['fixed']} has all fixes that are known here"
            + ("." if fits else ", but no longer supports the GPUs of this host."),
            fix="Use a newer toolkit, or keep its tools away from untrusted files."
            if fits
            else "Keep its tools away from untrusted files.",
        )
