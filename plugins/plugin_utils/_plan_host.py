# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `host`: what the collection itself needs on a host to read it.

Private to the collection, pure.
"""

from __future__ import annotations

import typing as t

from ._contracts import Change, Context, Finding, Plan
from ._versions import is_version

PYTHON_PATH = "/opt/gpufleet/python"


def plan(desired: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], matrix: t.Any, context: Context) -> Plan:
    """`desired`: {state: present|absent, nvidia_ml_py_version: "13.615.71"}; an empty mapping only checks."""
    result = Plan(component="host")
    version = str(desired.get("nvidia_ml_py_version") or "")
    absent = desired.get("state") == "absent"
    if not version and not absent:
        return result
    if version and not is_version(version):
        result.findings.append(_bad_version(version))
        return result
    before = _installed(facts)
    after = None if absent else version
    if before == after:
        return result
    result.changes.append(
        Change(
            id="host.nvidia_ml_py",
            component="host",
            subject=PYTHON_PATH,
            before=before,
            after=after,
            message=f"nvidia-ml-py {after} goes under {PYTHON_PATH}" if after else f"{PYTHON_PATH} is removed",
        )
    )
    result.decision = "converge"
    result.predicted = {"nvml": {"pynvml": {"version": after, "path": f"{PYTHON_PATH}/pynvml.py"} if after else None}}
    return result


def _installed(facts: t.Mapping[str, t.Any]) -> str | None:
    """Version of our copy; somebody else's pynvml does not count."""
    pynvml = (facts.get("nvml") or {}).get("pynvml") or {}
    return pynvml.get("version") if str(pynvml.get("path", "")).startswith(PYTHON_PATH) else None


def _bad_version(version: str) -> Finding:
    return Finding(
        id="host.bad_nvidia_ml_py_version",
        severity="block",
        component="host",
        subject="gpu_preflight_nvidia_ml_py_version",
        found=version,
        needed="a version such as 13.615.71",
        message=f"gpu_preflight_nvidia_ml_py_version is {version!r}, which is not a version.",
        fix="Set gpu_preflight_nvidia_ml_py_version to a version of nvidia-ml-py, as text.",
        source="role gpu_preflight",
    )
