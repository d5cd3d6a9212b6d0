# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and wishes for the CUDA planner's tests, over the collection's own matrix."""

from __future__ import annotations

import copy
import datetime
import functools
import hashlib
from typing import Any

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Finding, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._facts import merge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_cuda import plan

REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
SHA256 = "a" * 64
GPUS = {"h100": ("NVIDIA H100 80GB HBM3", "2330"), "rtx4090": ("NVIDIA GeForce RTX 4090", "2684")}

BARE: dict[str, Any] = {
    "host": {"os": {"id": "debian", "version_id": "12", "pretty_name": "Debian GNU/Linux 12"}, "machine_arch": "x86_64"},
    "driver": {"installed": None, "loaded": None, "library": None, "repository": None},
    "gpus": [],
    "pci": {"gpus": []},
    "packages": {"manager": "apt", "holds": [], "broken": [], "set": {}},
    "cuda": {"toolkits": [], "compat": [], "cudnn": [], "nccl": [], "link": {"mode": "absent", "target": None, "alternatives": []}},
    "state_files": {"driver": None, "cuda": None, "files": {}},
}


@functools.lru_cache(maxsize=1)
def matrix() -> Any:
    return load_matrix()


def context(**more: Any) -> Context:
    return Context(today=datetime.date(2026, 11, 30), **more)


def make(wanted: dict[str, Any], facts: dict[str, Any] = BARE, **policy: Any) -> Plan:
    return plan(wanted, facts, matrix(), context(**policy))


def ids(result: Plan, *severities: str) -> list[str]:
    return sorted(finding.id for finding in result.findings if not severities or finding.severity in severities)


def the(result: Plan, ident: str) -> Finding:
    found = [finding for finding in result.findings if finding.id == ident]
    assert len(found) == 1, (ident, ids(result))
    return found[0]


def host(*, driver: str | None = None, gpu: str | None = "h100", **parts: Any) -> dict[str, Any]:
    """A host with a GPU and a driver; `parts` are merged over the document."""
    facts = copy.deepcopy(BARE)
    if gpu:
        product, device = GPUS[gpu]
        facts["gpus"] = [{"product": product, "pci_device_id": device}]
    if driver:
        facts["driver"]["installed"] = {"version": driver}
    return merge(facts, parts)


def after(wanted: dict[str, Any], facts: dict[str, Any], packages: dict[str, str]) -> dict[str, Any]:
    """The host after converge, as gpu_info would see it: what was planned is there, held and recorded."""
    result = make(wanted, facts)
    assert ids(result, "block") == []
    environment = result.details["environment"]
    files = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in environment["files"].items() if text}
    runfiles = {entry["version"]: {"sha256": entry["sha256"], "paths": []} for entry in result.details.get("runfiles_present", [])}
    toolkits = [
        {"version": version, "path": path, "origin": "package", "default": path == environment["default"], "nvcc": version}
        for path, version in environment["toolkits"].items()
    ]
    record = {"schema": 1, "packages": packages, "holds": sorted(packages), "runfiles": runfiles, "repository": True}
    link = {"mode": "manual", "target": environment["default"], "alternatives": list(environment["toolkits"])}
    return merge(
        facts,
        {
            "packages": {"set": packages, "holds": sorted(packages)},
            "driver": {"repository": {"url": REPOSITORY, "owned": True, "file": "/etc/apt/sources.list.d/gpufleet-nvidia.sources"}},
            "cuda": {"toolkits": toolkits, "link": link},
            "state_files": {"cuda": record, "files": files},
        },
    )
