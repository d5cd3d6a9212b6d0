# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows say of systems: repository at NVIDIA, refusal, package names. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._matrix_types import DriverPackages, OsSupport, Row
from ._versions import key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix


def os_support(matrix: Matrix, facts_os: t.Mapping[str, t.Any], arch: str) -> OsSupport:
    ident, version = str(facts_os.get("id") or ""), str(facts_os.get("version_id") or "")
    name = str(facts_os.get("pretty_name") or f"{ident} {version}".strip() or "unknown system")
    same = [row for row in matrix.section("systems") if ident in row["ids"]]
    row = next((row for row in same if _version_in(version, row["versions"])), None)
    if row is None:
        near = _nearest(same, version) or next((matrix.rows.get(row.get("nearest", "")) for row in same), None)
        return _answer(None, name, arch, f"The matrix has no row for {name}.", near["name"] if near else None)
    if row.get("refused"):
        near = matrix.rows.get(row.get("nearest", ""))
        return _answer(row, row["name"], arch, row["reason"], near["name"] if near else None)
    if arch not in (row.get("architectures") or {}):
        has = ", ".join(row.get("architectures") or {}) or "none"
        return _answer(row, row["name"], arch, f"NVIDIA's repository {row['repository']} has no packages for {arch} (only {has}).", None)
    near = matrix.rows.get(row.get("nearest", ""))
    return _answer(row, row["name"], arch, "", near["name"] if near else None)


def _nearest(same: t.Sequence[Row], version: str) -> Row | None:
    """The next newer release that is installed on, else the newest."""
    usable = sorted((row for row in same if not row.get("refused") and not row.get("gate_only")), key=lambda row: key(row["versions"][0]))
    newer = [row for row in usable if key(row["versions"][0]) > key(version)]
    return newer[0] if newer else usable[-1] if usable else None


def _version_in(version: str, listed: t.Iterable[str]) -> bool:
    return any(version == entry or version.startswith(entry + ".") for entry in listed)


def _answer(row: Row | None, name: str, arch: str, reason: str, nearest: str | None) -> OsSupport:
    facts: Row = row or {}
    return OsSupport(
        supported=not reason,
        known=row is not None,
        reason=reason,
        rule=facts.get("id"),
        name=name,
        repository=facts.get("repository"),
        repository_arch=(facts.get("architectures") or {}).get(arch),
        package_manager=facts.get("package_manager"),
        modularity=bool(facts.get("modularity")),
        nearest=nearest,
        source=facts.get("source", "matrix/os.yml"),
        repository_key_file=(facts.get("repository_key") or {}).get("file", ""),
        repository_key_fingerprint=(facts.get("repository_key") or {}).get("fingerprint", ""),
        gate_only=facts.get("gate_only", ""),
    )


def driver_packages(matrix: Matrix, os: OsSupport, branch: int, kernel_modules: str, needs: frozenset[str], source: str) -> DriverPackages:
    system = matrix.rows.get(os.rule or "", {})
    row = next((row for row in matrix.section("driver_packages") if _applies(row, os, system, branch, source)), None)
    if row is None:
        return _no_packages(matrix, os, branch, source)
    kind = "open" if kernel_modules == "open" else "proprietary"
    install = list(row.get(f"compute_only_{kind}") or row.get(kind) or ()) if "compute_only" in needs else list(row.get(kind) or ())
    if not install:
        return _no_packages(matrix, os, branch, source, f"{row['id']} names no packages with {kind} kernel modules.")
    if needs & {"fabric_manager", "nvlink5"}:
        install += row.get("fabric_manager") or ()
    if "nvlink5" in needs:
        # libnvsdm is not built for arm64
        install += [name for name in row.get("nvlink5") or () if name != "libnvsdm" or os.repository_arch != "sbsa"]
    if "imex" in needs:
        install += row.get("imex") or ()

    def filled(names: t.Iterable[str]) -> tuple[str, ...]:
        return tuple(name.format(branch=branch) for name in names)

    own = set(filled(row.get("own_version") or ()))
    names = filled(install)
    stream = row.get(f"stream_{kind}") if os.modularity else None
    return DriverPackages(
        rule=row["id"],
        reason="",
        source=row["origin"],
        install=names,
        members=filled(row["members"]),
        not_members=filled(row.get("not_members") or ()),
        same_version=tuple(name for name in names if name not in own),
        pinning=row["pinning"].format(branch=branch) if row.get("pinning") else None,
        module_stream=stream.format(branch=branch) if stream else None,
        hold=row["hold"],
        version_format=row["version_format"],
        confidence=row["confidence"],
        offered=tuple(row.get("compute_only_offered") or ()) if "compute_only" in needs else (),
    )


def _applies(row: Row, os: OsSupport, system: Row, branch: int, source: str) -> bool:
    return (
        row["origin"] == source
        and row["package_manager"] == os.package_manager
        and row.get("branch_min", branch) <= branch <= row.get("branch_max", branch)
        and row.get("modularity", os.modularity) == os.modularity
        and ("system_ids" not in row or bool(set(row["system_ids"]) & set(system.get("ids", ()))))
        and ("branches" not in row or branch in row["branches"])
        and (source != "distribution" or (system.get("distribution_driver") or {}).get("branch", branch) == branch)
    )


def _no_packages(matrix: Matrix, os: OsSupport, branch: int, source: str, reason: str = "") -> DriverPackages:
    if not reason and source == "distribution":
        has = (matrix.rows.get(os.rule or "", {}).get("distribution_driver") or {}).get("branch")
        reason = f"{os.name} itself has no packages of branch {branch}" + (f"; it has branch {has}." if has else ".")
    reason = reason or f"The matrix names no packages of branch {branch} for {os.name} ({os.package_manager or 'no package manager'})."
    return DriverPackages(
        rule=None,
        reason=reason,
        source="distribution" if source == "distribution" else "nvidia",
        install=(),
        members=(),
        not_members=(),
        same_version=(),
        pinning=None,
        module_stream=None,
        hold="apt-mark",
        version_format="{version}",
    )
