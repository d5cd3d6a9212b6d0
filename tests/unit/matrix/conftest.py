"""Builders of gpu_info documents for the matrix tests; every document is valid against the frozen schema."""

from __future__ import annotations

import copy
import datetime
import json
import typing as t
from pathlib import Path

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _matrix_load
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Finding
from ansible_collections.gpufleet.inference.plugins.plugin_utils._facts import merge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import evaluate, judge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

ROOT = Path(__file__).resolve().parents[3]
TODAY = datetime.date(2026, 11, 30)
SCHEMA = json.loads((ROOT / "schemas/gpu_info.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

# product → (PCI id, architecture, compute capability, GiB)
PRODUCTS: dict[str, tuple[str, str, str, int]] = {
    "NVIDIA H100 80GB HBM3": ("2330", "hopper", "9.0", 80),
    "NVIDIA H200": ("2335", "hopper", "9.0", 141),
    "NVIDIA A100-SXM4-40GB": ("20b0", "ampere", "8.0", 40),
    "NVIDIA L40S": ("26b9", "ada", "8.9", 48),
    "NVIDIA L4": ("27b8", "ada", "8.9", 24),
    "NVIDIA GeForce RTX 4090": ("2684", "ada", "8.9", 24),
    "NVIDIA GeForce RTX 4060 Laptop GPU": ("28a0", "ada", "8.9", 8),
    "NVIDIA GeForce RTX 5090": ("2b85", "blackwell", "12.0", 32),
    "NVIDIA B200": ("2901", "blackwell", "10.0", 180),
    "NVIDIA B300 SXM6 AC": ("3182", "blackwell", "10.3", 268),
    "NVIDIA GH200 480GB": ("2342", "hopper", "9.0", 96),
    "Tesla V100-SXM2-32GB": ("1db5", "volta", "7.0", 32),
    "Tesla T4": ("1eb8", "turing", "7.5", 16),
    "NVIDIA Z9000": ("ffff", "ada", "8.9", 24),
}
SYSTEMS = {
    "debian12": ("debian", "12", "debian", []),
    "debian13": ("debian", "13", "debian", []),
    "ubuntu2404": ("ubuntu", "24.04", "debian", ["debian"]),
    "rocky9": ("rocky", "9.4", "redhat", ["rhel", "centos", "fedora"]),
    "rocky8": ("rocky", "8.10", "redhat", ["rhel", "centos", "fedora"]),
    "centos7": ("centos", "7", "redhat", ["rhel", "fedora"]),
    "mint": ("linuxmint", "22", "debian", ["ubuntu", "debian"]),
}


def gpu(product: str, index: int, driver: str | None) -> dict[str, t.Any]:
    """One GPU as gpu_info reports it; without a driver from PCI alone."""
    pci, arch, cc, gib = PRODUCTS[product]
    total = gib * 2**30
    alive = driver is not None
    return {
        "index": index if alive else None,
        "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}" if alive else None,
        "pci_address": f"0000:{index + 1:02x}:00.0",
        "pci_device_id": pci,
        "pci_subsystem_id": None,
        "product": product if alive else None,
        "state": "ok" if alive else "unavailable",
        "minor": index if alive else None,
        "serial": None,
        "board_part_number": None,
        "vbios": None,
        "inforom": None,
        "gsp_firmware": None,
        "architecture": arch if alive else None,
        "compute_capability": cc if alive else None,
        "memory_bytes": {"total": total, "reserved": 0, "free": total, "used": 0} if alive else None,
        "bar1_bytes": None,
        "power": None,
        "temperature_c": None,
        "persistence": None,
        "compute_mode": None,
        "ecc": None,
        "row_remap": None,
        "retired_pages": None,
        "mig": None,
        "clocks_mhz": None,
        "throttle_reasons": [],
        "pstate": None,
        "pcie": None,
        "nvlink": None,
        "fabric": None,
        "recovery_action": None,
        "numa_node": None,
        "cpu_affinity": None,
        "processes": [],
        "driver_bound": "nvidia" if alive else None,
        "errors": {},
    }


def info(
    gpus: t.Sequence[str] = ("NVIDIA H100 80GB HBM3",) * 8,
    driver: str | None = "620.70.06",
    modules: str = "open",
    system: str = "debian12",
    arch: str = "x86_64",
    over: dict[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """A healthy host; `over` is merged in (mappings key by key, lists replaced)."""
    ident, version, family, like = SYSTEMS[system]
    document: dict[str, t.Any] = {
        "schema": 1,
        "collected_at": "2026-11-30T12:00:00Z",
        "duration_ms": 10.0,
        "state": "ok" if driver else "no_driver",
        "reason": "" if driver else "no NVIDIA driver is installed",
        "unread": [],
        "host": {
            "hostname": "gpu1",
            "boot_id": "b",
            "machine_arch": arch,
            "os": {
                "id": ident,
                "id_like": like,
                "version_id": version,
                "codename": "",
                "pretty_name": f"{ident} {version}",
                "family": family,
            },
            "kernel": {"release": "6.1.0-41-amd64", "next_boot": None, "headers": [], "installed": [], "cmdline": None, "tainted": None},
            "secure_boot": {"state": "disabled", "lockdown": None, "mok_enrolled": None},
            "virtualization": {"container": None, "hypervisor": None},
            "init": "systemd",
            "python": "3.11.2",
            "cpu": {"count": 8, "numa_nodes": 1},
            "memory_bytes": 2**36,
            "root": True,
        },
        "pci": {"gpus": [], "nvswitches": [], "nvlink5": False, "infiniband": [], "ib_umad": False, "mlx5_core": False},
        "driver": {
            "installed": None,
            "loaded": None,
            "library": None,
            "nouveau": {"loaded": False, "bound": [], "blacklisted": True},
            "device_nodes": [],
            "modprobe_conf": {},
            "repository": None,
        },
        "nvml": {
            "state": "ok" if driver else "no_library",
            "error": None,
            "nvml_version": None,
            "driver_version": driver,
            "cuda_driver_version": None,
            "pynvml": None,
            "timings_ms": {},
            "hung": None,
        },
        "gpus": [gpu(product, index, driver) for index, product in enumerate(gpus)],
        "counts": {"pci": len(gpus), "nvml": len(gpus) if driver else None, "expected": None},
        "fabric": {"needed": False, "kind": "none", "manager": None, "imex": None, "ready": None, "reason": ""},
        "cuda": {"toolkits": [], "compat": [], "cudnn": [], "nccl": []},
        "containers": {"toolkit": None, "engines": {}, "cdi": []},
        "units": {},
        "services": [],
        "managers": [],
        "packages": {"manager": "apt", "holds": [], "broken": [], "set": {}},
        "state_files": {
            "gpu_settings": None,
            "gpu_settings_recorded": None,
            "reboot_required": None,
            "driver": None,
            "runtime_sha256": None,
            "files": {},
            "errors": {},
        },
        "fingerprint": {"sha256": "0", "parts": {}},
    }
    if driver:
        document["driver"]["installed"] = {
            "version": driver,
            "origin": "package",
            "packages": {},
            "kernel_modules": modules,
            "module_version": driver,
            "dkms": [],
        }
        document["driver"]["loaded"] = {
            "version": driver,
            "kernel_modules": modules,
            "modules": ["nvidia", "nvidia_uvm"],
            "parameters": {},
            "refcount": 1,
        }
        document["driver"]["library"] = {"path": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "version": driver}
    merged = t.cast("dict[str, t.Any]", merge(document, copy.deepcopy(over or {})))
    VALIDATOR.validate(merged)
    return merged


def context(**over: t.Any) -> Context:
    return Context(**{"today": TODAY, **over})


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return _matrix_load.load_matrix()


Check = t.Callable[..., list[Finding]]


@pytest.fixture
def check(matrix: Matrix) -> Check:
    """check(facts, stack, **policy) → findings of the built-in rules."""

    def run(facts: dict[str, t.Any], stack: dict[str, t.Any] | None = None, **policy: t.Any) -> list[Finding]:
        return evaluate(matrix, facts, stack or {}, context(**policy))

    return run


@pytest.fixture
def gate(matrix: Matrix) -> Check:
    """gate(facts, stack, **policy) → findings after policies and allow-list."""

    def run(facts: dict[str, t.Any], stack: dict[str, t.Any] | None = None, **policy: t.Any) -> list[Finding]:
        return judge(matrix, facts, stack or {}, context(**policy))

    return run


def ids(findings: t.Iterable[Finding]) -> list[str]:
    return [finding.id for finding in findings]


def only(findings: t.Iterable[Finding], name: str) -> Finding:
    """The one finding of an id."""
    hit = [finding for finding in findings if finding.id == name]
    assert len(hit) == 1, f"{name}: {ids(findings)}"
    return hit[0]
