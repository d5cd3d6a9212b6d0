# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the container toolkit: advisories, container engines, CDI. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _cdi_readers
from ._contracts import Finding, Severity
from ._matrix_case import CONTAINER_RUNTIMES, Case
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import key, newest

KIND = "nvidia.com/gpu"
PACKAGES = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")


def rules(case: Case) -> t.Iterator[Finding]:
    asked = [engine for engine in case.engines if engine.get("runtime") in CONTAINER_RUNTIMES]
    if case.container_toolkit is None:
        if asked:
            yield _missing(case, str(asked[0].get("name") or asked[0].get("engine")))
        return
    yield from _unknown(case, case.container_toolkit)
    yield from _advisories(case, case.container_toolkit)
    yield from _engines(case, case.container_toolkit)
    yield from _state(case)


def _newest(case: Case) -> str:
    return newest(row["version"] for row in case.matrix.section("toolkit_releases")) or "1.20.0"


def _missing(case: Case, instance: str) -> Finding:
    return finding(
        "container_toolkit.missing",
        "block",
        subject=instance,
        found="no container toolkit on the host or in the target stack",
        needed="nvidia-container-toolkit",
        nearest=_newest(case),
        message=f"The engine instance {instance} runs in a container, and containers see no GPU without the NVIDIA Container Toolkit.",
        fix=f"Run the role nvidia_container_toolkit (nvidia_container_toolkit_version: '{_newest(case)}').",
        source="NVIDIA Container Toolkit install guide",
    )


def _unknown(case: Case, version: str) -> t.Iterator[Finding]:
    known = {row["version"] for row in case.matrix.section("toolkit_releases")}
    if not case.container_toolkit_asked or version in known:
        return
    older = newest(item for item in known if key(item) < key(version))
    later = key(version) > key(_newest(case))
    yield finding(
        "container_toolkit.unknown",
        case.policy.unknown if later else "info",
        subject=version,
        found=f"container toolkit {version}",
        needed="a row in matrix/container_toolkit.yml",
        nearest=_newest(case) if later else older,
        message=f"The matrix does not know container toolkit {version}; the newest that it knows is {_newest(case)}.",
        fix=f"Ask for {_newest(case)}, or add a row with gpu_stack_matrix_overlay.",
        source="matrix/container_toolkit.yml",
    )


def _advisories(case: Case, version: str) -> t.Iterator[Finding]:
    hit = [row for row in case.matrix.section("toolkit_advisories") if key(version) < key(row["fixed"])]
    if not hit:
        return
    worst = max(hit, key=lambda row: row.get("cvss", 0))
    needed = max((row["fixed"] for row in hit), key=key)
    yield finding(
        "container_toolkit.advisory",
        case.severity(case.container_toolkit_asked) if any(row["gate"] == "block" for row in hit) else "warn",
        row=worst,
        found=f"container toolkit {version}: {', '.join(cve for row in hit for cve in row['cves'])}",
        needed=f"{needed} or newer",
        nearest=_newest(case),
        message=f"{len(hit)} known vulnerabilit{'ies' if len(hit) > 1 else 'y'} of container toolkit {version} "
        f"(CVSS up to {worst.get('cvss')}) {'are' if len(hit) > 1 else 'is'} fixed in {needed}.",
        fix=f"Set nvidia_container_toolkit_version: '{_newest(case)}'.",
    )


def _engines(case: Case, version: str) -> t.Iterator[Finding]:
    """`engines`, `engines_asked` and `older_spec` of the target are the role's: what it configures, and that it writes for old readers."""
    row, limits = _cdi_readers.needed(case.matrix, version)
    target = case.stack.get("container_toolkit") or {}
    for name, needed in limits.items():
        have = ((case.containers.get("engines") or {}).get(name) or {}).get("version")
        if not have or name not in target.get("engines", limits):
            continue
        in_use = any(engine.get("runtime") == name for engine in case.engines)
        reach = _cdi_readers.reach(case.matrix, name, have, needed)
        if reach == "none" and name != "podman":
            yield _without_cdi(case, row, name, have, version)
        elif reach == "none" or (reach == "older" and not target.get("older_spec") and _new_specs(case)):
            yield _too_old(case, row, name, have, version, needed, case.severity(in_use, name in target.get("engines_asked", ())))


def _new_specs(case: Case) -> bool:
    """Whether what is written here is more than an old reader can; true where nothing is written yet."""
    specs = [str(spec.get("cdi_version") or "") for spec in case.containers.get("cdi") or () if spec.get("kind") == KIND]
    return not specs or any(_cdi_readers.is_new(version) for version in specs)


def _too_old(case: Case, row: Row, name: str, have: str, version: str, needed: str, severity: Severity) -> Finding:
    return finding(
        "container_toolkit.engine_too_old",
        severity,
        row=row,
        subject=name,
        found=f"{name} {have} with container toolkit {version}",
        needed=f"{name} {needed} or newer",
        nearest=f"{name} {needed}",
        message=f"Container toolkit {version} writes CDI specs that {name} {have} cannot read: it needs {needed} or newer.",
        fix=f"Update {name}. From {case.matrix.value(_cdi_readers.RULE, 'reads_from', {}).get(name)} on the role "
        "nvidia_container_toolkit has specs written that it can read (NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS="
        f"{case.matrix.value(_cdi_readers.RULE, 'flag', '')}).",
    )


def _without_cdi(case: Case, row: Row, name: str, have: str, version: str) -> Finding:
    first = case.matrix.value(_cdi_readers.RULE, "reads_from", {}).get(name)
    return finding(
        "container_toolkit.engine_without_cdi",
        "info",
        row=case.matrix.rows.get(_cdi_readers.RULE) or row,
        subject=name,
        found=f"{name} {have}",
        needed=f"{name} {first} or newer for --device {KIND}=…",
        nearest="the runtime nvidia",
        message=f"{name} {have} does not know CDI; GPU containers work there by the runtime nvidia: the toolkit finds the devices itself.",
        fix="Run them with --runtime nvidia (and NVIDIA_VISIBLE_DEVICES), or set nvidia_container_toolkit_default_runtime: nvidia.",
    )


def _state(case: Case) -> t.Iterator[Finding]:
    packages = (case.containers.get("toolkit") or {}).get("packages") or {}
    ours = {name: version for name, version in packages.items() if name in PACKAGES}
    if len(set(ours.values())) > 1:
        yield finding(
            "container_toolkit.packages_differ",
            "warn" if case.container_toolkit_asked or (case.stack.get("container_toolkit") or {}).get("removes") else "block",
            row=case.matrix.rows.get("rule.toolkit.packages"),
            found=", ".join(f"{name} {version}" for name, version in sorted(ours.items())),
            needed="one version of all four packages",
            message="The packages of the container toolkit have different versions.",
            fix="Run the role nvidia_container_toolkit, which moves all four together.",
        )
    yield from _duplicates(case)


def _duplicates(case: Case) -> t.Iterator[Finding]:
    """In one folder they cancel each other out: engines drop a device that two files of equal rank define. In two, /var/run/cdi wins."""
    specs = [str(spec.get("path")) for spec in case.containers.get("cdi") or () if spec.get("kind") == KIND]
    folders = [path.rpartition("/")[0].replace("/var/run/", "/run/") for path in specs]
    if len(specs) > 1 and not (case.stack.get("container_toolkit") or {}).get("cdi_remove_duplicates"):
        clash = len(set(folders)) < len(folders)
        yield finding(
            "container_toolkit.cdi_duplicate",
            case.severity(clash and (case.container_toolkit_asked or bool(case.engines))),
            row=case.matrix.rows.get("rule.toolkit.refresh_units"),
            found=", ".join(specs),
            needed=f"one CDI spec of kind {KIND}",
            message=f"{len(specs)} CDI specs describe {KIND}"
            + (
                " in one folder: engines drop each device that both of them define."
                if clash
                else "; engines prefer /var/run/cdi, and what only the other one names may be devices that are gone."
            ),
            fix="Set nvidia_container_toolkit_cdi_remove_duplicates: true, or remove all but the toolkit's own (/var/run/cdi/nvidia.yaml).",
        )
