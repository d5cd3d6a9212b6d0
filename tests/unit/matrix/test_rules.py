"""Every rule with a host that it must stop (or warn about) and one that it must leave alone."""

from __future__ import annotations

import json
import typing as t

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import evaluate
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_findings import CATALOG, finding
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

from .conftest import ROOT, context, ids, info, only

FINDING = jsonschema.Draft202012Validator(json.loads((ROOT / "schemas/finding.schema.json").read_text()))

H100 = "NVIDIA H100 80GB HBM3"
V100 = "Tesla V100-SXM2-32GB"
LAPTOP = "NVIDIA GeForce RTX 4060 Laptop GPU"


class Case(t.NamedTuple):
    """facts, stack and policy that make the finding, and the same that do not."""

    id: str
    severity: str
    facts: dict[str, t.Any]
    stack: dict[str, t.Any]
    good_facts: dict[str, t.Any]
    good_stack: dict[str, t.Any]
    policy: dict[str, t.Any] = {}  # noqa: RUF012 - never changed
    nearest: str | None = None


def driver(version: str | None = None, branch: int | None = None, modules: str | None = None, **more: t.Any) -> dict[str, t.Any]:
    asked = {"version": version, "branch": branch, "kernel_modules": modules, **more}
    return {"driver": {name: value for name, value in asked.items() if value}}


def engine(name: str = "vllm", version: str | None = "0.33.0", runtime: str = "docker", **more: t.Any) -> dict[str, t.Any]:
    return {
        "container_toolkit": {"version": "1.20.0"},
        "engines": [{"name": "chat", "engine": name, "version": version, "runtime": runtime, **more}],
    }


def with_gpu(**over: t.Any) -> dict[str, t.Any]:
    """A host whose first GPU has these facts."""
    document = info()
    document["gpus"][0].update(over)
    return document


def with_fabric(**over: t.Any) -> dict[str, t.Any]:
    manager = {"unit": "nvidia-fabricmanager.service", "installed_version": "620.70.06", "active": "active"}
    fabric = {"needed": True, "kind": "nvswitch", "manager": manager, "imex": None, "ready": True, "reason": ""}
    return info(over={"fabric": {**fabric, **over}})


def with_toolkit(
    version: str = "1.20.0",
    packages: dict[str, str] | None = None,
    engines: dict[str, t.Any] | None = None,
    cdi: int = 1,
    spec: str = "0.7.0",
) -> dict[str, t.Any]:
    specs = [
        {"path": f"/etc/cdi/{index}.yaml", "kind": "nvidia.com/gpu", "cdi_version": spec, "devices": 8, "error": None}
        for index in range(cdi)
    ]
    names = packages or {"nvidia-container-toolkit": version + "-1", "nvidia-container-toolkit-base": version + "-1"}
    return info(
        over={
            "containers": {
                "toolkit": {"version": version, "packages": names, "refresh_units": True},
                "engines": engines or {},
                "cdi": specs,
            }
        }
    )


def state(name: str, **over: t.Any) -> dict[str, t.Any]:
    return info(over={"state": name, "reason": f"made for the test: {name}", **over})


def mismatch(loaded: str, disk: str, library: str) -> dict[str, t.Any]:
    document = state("mismatch")
    document["driver"]["loaded"]["version"] = loaded
    document["driver"]["installed"].update(version=disk, module_version=disk)
    document["driver"]["library"]["version"] = library
    return document


GOOD = info()
CUDA13 = {"cuda": {"toolkits": ["13.0.2"]}}
ULTRA = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4"
SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"

CASES = [
    # GPU and driver
    Case("gpu.unknown", "block", info(("NVIDIA Z9000",)), {}, GOOD, {}),
    Case("gpu.unknown", "warn", info(("NVIDIA Z9000",)), {}, GOOD, {}, {"unknown": "warn"}),
    Case("driver.branch_unknown", "block", GOOD, driver("605.10.01"), GOOD, driver("580.178.04"), nearest="620.70.06"),
    Case(
        "driver.branch_too_old",
        "block",
        info(("NVIDIA B200",)),
        driver("565.77"),
        info(("NVIDIA B200",)),
        driver("580.178.04"),
        nearest="620.70.06",
    ),
    Case(
        "driver.branch_too_new",
        "block",
        info((V100,), driver=None),
        driver("595.91.07"),
        info((V100,), driver=None),
        driver("580.178.04"),
        nearest="580.178.04",
    ),
    Case("driver.too_old_for_gpu", "block", info(("NVIDIA B200",)), driver("570.86.15"), info(("NVIDIA B200",)), driver("570.133.20")),
    Case("driver.not_listed_for_gpu", "block", info(("NVIDIA H200",)), driver("550.54.14"), info(("NVIDIA H200",)), driver("550.90.07")),
    Case(
        "driver.not_listed_for_gpu",
        "warn",
        info(("NVIDIA GeForce RTX 4090",)),
        driver("525.60.13"),
        info(("NVIDIA GeForce RTX 4090",)),
        driver("525.78.01"),
    ),
    Case(
        "driver.architecture_unsupported",
        "block",
        info(("NVIDIA Z9000",)),
        driver("470.256.02"),
        info(("NVIDIA Z9000",)),
        driver("580.178.04"),
        {"unknown": "warn"},
    ),
    Case(
        "driver.open_required",
        "block",
        info(("NVIDIA B200",)),
        driver("580.178.04", modules="proprietary"),
        info(("NVIDIA B200",)),
        driver("580.178.04", modules="open"),
    ),
    Case(
        "driver.open_unsupported",
        "block",
        info((V100,), driver=None),
        driver("580.178.04", modules="open"),
        info((V100,), driver=None),
        driver("580.178.04", modules="proprietary"),
    ),
    Case(
        "driver.proprietary_gone",
        "block",
        GOOD,
        driver("620.70.06", modules="proprietary"),
        GOOD,
        driver("595.91.07", modules="proprietary"),
    ),
    Case(
        "driver.open_kernel_too_old",
        "block",
        info(over={"host": {"kernel": {"release": "3.10.0-1160.el7.x86_64"}}}),
        driver("580.178.04", modules="open"),
        info(over={"host": {"kernel": {"release": "4.15.0-20-generic"}}}),
        driver("580.178.04", modules="open"),
    ),
    Case(
        "driver.no_common_driver",
        "block",
        info((V100, "NVIDIA B200"), driver=None),
        driver(branch=580),
        info((H100, "NVIDIA B200"), driver=None),
        driver(branch=580),
    ),
    Case("driver.branch_ended", "block", GOOD, driver("535.309.01"), GOOD, driver("580.178.04"), nearest="620.70.06"),
    Case("driver.branch_ended", "warn", info(driver="535.309.01"), {}, info(driver="580.178.04"), {}),
    Case("driver.advisory", "block", GOOD, driver("580.173.02"), GOOD, driver("580.178.04"), nearest="580.178.04"),
    Case("driver.advisory", "warn", info(driver="595.71.05"), {}, info(driver="595.91.07"), {}),
    Case("driver.newer_than_matrix", "info", GOOD, driver("580.200.01"), GOOD, driver("580.178.04")),
    Case("driver.no_packages", "block", GOOD, driver("580.178.04", source="distribution"), GOOD, driver("580.178.04", source="nvidia")),
    # CUDA
    Case("cuda.toolkit_unknown", "block", GOOD, {"cuda": {"toolkits": ["13.9.1"]}}, GOOD, CUDA13),
    Case("cuda.driver_too_old", "block", info(driver="570.211.01"), CUDA13, info(driver="580.178.04"), CUDA13, nearest="620.70.06"),
    Case(
        "cuda.driver_too_old",
        "block",
        info(driver="470.256.02"),
        {"cuda": {"toolkits": ["12.4.1"]}},
        info(driver="525.147.05"),
        {"cuda": {"toolkits": ["12.4.1"]}},
    ),
    Case(
        "cuda.minor_version_compat",
        "info",
        info(driver="580.178.04"),
        {"cuda": {"toolkits": ["13.2.2"]}},
        info(driver="595.91.07"),
        {"cuda": {"toolkits": ["13.2.2"]}},
    ),
    Case(
        "cuda.minor_version_compat",
        "info",
        info(driver="570.211.01"),
        {"cuda": {"toolkits": ["12.9.1"]}},
        info(driver="580.178.04"),
        {"cuda": {"toolkits": ["12.9.1"]}},
    ),
    Case(
        "cuda.forward_compat",
        "info",
        info(driver="570.211.01"),
        {"cuda": {"toolkits": ["13.0.2"], "compat": True}},
        info(driver="580.178.04"),
        {"cuda": {"toolkits": ["13.0.2"], "compat": True}},
    ),
    Case(
        "cuda.forward_compat_unsupported",
        "block",
        info((LAPTOP,), driver="570.211.01"),
        {"cuda": {"toolkits": ["13.0.2"], "compat": True}},
        info(driver="570.211.01"),
        {"cuda": {"toolkits": ["13.0.2"], "compat": True}},
    ),
    Case(
        "cuda.architecture_dropped",
        "block",
        info((V100,), driver="580.178.04"),
        CUDA13,
        info((V100,), driver="580.178.04"),
        {"cuda": {"toolkits": ["12.9.2"]}},
        nearest="12.9.2",
    ),
    Case(
        "cuda.architecture_missing",
        "block",
        info(("NVIDIA B200",)),
        {"cuda": {"toolkits": ["12.6.3"]}},
        info(("NVIDIA B200",)),
        {"cuda": {"toolkits": ["12.8.1"]}},
    ),
    Case(
        "cuda.architecture_missing",
        "warn",
        info(("NVIDIA B300 SXM6 AC",)),
        {"cuda": {"toolkits": ["12.8.1"]}},
        info(("NVIDIA B300 SXM6 AC",)),
        {"cuda": {"toolkits": ["12.9.1"]}},
    ),
    Case(
        "cuda.not_in_repository",
        "block",
        info(system="ubuntu2404"),
        {"cuda": {"toolkits": ["12.4.1"]}},
        info(system="ubuntu2404"),
        {"cuda": {"toolkits": ["12.5.0"]}},
        nearest="12.5.0",
    ),
    Case("cuda.advisory", "warn", GOOD, CUDA13, GOOD, {"cuda": {"toolkits": ["13.5.0"]}}),
    Case("cudnn.unknown", "block", GOOD, {**CUDA13, "cudnn": "9.99.0.1"}, GOOD, {**CUDA13, "cudnn": "9.28.1.4"}),
    Case(
        "cudnn.cuda_mismatch",
        "block",
        GOOD,
        {**CUDA13, "cudnn": "8.9.7.29"},
        GOOD,
        {"cuda": {"toolkits": ["12.4.1"]}, "cudnn": "8.9.7.29"},
        nearest="9.28.1.4",
    ),
    Case("nccl.unknown", "block", GOOD, {**CUDA13, "nccl": "2.99.1"}, GOOD, {**CUDA13, "nccl": "2.32.3"}),
    Case(
        "nccl.cuda_mismatch",
        "block",
        GOOD,
        {**CUDA13, "nccl": "2.27.5"},
        GOOD,
        {"cuda": {"toolkits": ["12.8.1"]}, "nccl": "2.27.5"},
        nearest="2.32.3",
    ),
    # fabric
    Case("fabric.manager_missing", "block", with_fabric(manager=None), {}, with_fabric(), {}),
    Case("fabric.manager_missing", "warn", with_fabric(manager=None), driver("620.70.06"), with_fabric(manager=None), driver("595.91.07")),
    Case(
        "fabric.version_mismatch",
        "block",
        with_fabric(manager={"unit": "nvidia-fabricmanager.service", "installed_version": "580.178.04", "active": "active"}),
        {},
        with_fabric(),
        {},
    ),
    Case(
        "fabric.manager_inactive",
        "block",
        with_fabric(manager={"unit": "nvidia-fabricmanager.service", "installed_version": "620.70.06", "active": "failed"}),
        {},
        with_fabric(),
        {},
    ),
    Case(
        "fabric.manager_inactive",
        "warn",
        with_fabric(manager={"unit": "nvidia-fabricmanager.service", "installed_version": "620.70.06", "active": "failed"}),
        {"component": "driver"},
        with_fabric(),
        {"component": "driver"},
    ),
    Case("fabric.not_ready", "block", with_fabric(ready=False, reason="2 of 8 GPUs in progress"), {}, with_fabric(), {}),
    Case(
        "fabric.imex_missing",
        "block",
        with_fabric(kind="imex"),
        {},
        with_fabric(kind="imex", imex={"unit": "nvidia-imex.service", "installed_version": "620.70.06", "active": "active"}),
        {},
    ),
    Case("fabric.ib_umad_missing", "warn", with_fabric(kind="nvlink5"), {}, with_fabric(), {}),
    # host
    Case("host.no_gpu", "warn", info((), over={"state": "no_gpu"}), {}, GOOD, {}),
    Case("nvml.hung", "block", state("hung"), {}, GOOD, {}),
    Case("nvml.error", "block", state("error"), {}, GOOD, {}),
    Case("nvml.no_driver", "info", info(driver=None), driver("620.70.06"), GOOD, driver("620.70.06")),
    Case("nvml.no_driver", "warn", info(driver=None), {}, GOOD, {}),
    Case("nvml.no_driver", "block", info(driver=None), engine(), GOOD, engine()),
    Case("nvml.module_not_loaded", "warn", state("module_not_loaded"), {}, GOOD, {}),
    Case("nvml.no_library", "warn", state("no_library"), {}, GOOD, {}),
    Case("nvml.no_pynvml", "warn", state("no_pynvml"), {}, GOOD, {}),
    Case("nvml.impostor_pynvml", "warn", state("impostor_pynvml"), {}, GOOD, {}),
    Case("nvml.mismatch", "block", mismatch("580.178.04", "620.70.06", "620.70.06"), {}, GOOD, {}),
    Case(
        "nvml.mismatch",
        "block",
        mismatch("580.178.04", "580.178.04", "535.309.01"),
        driver("580.178.04"),
        mismatch("580.178.04", "620.70.06", "620.70.06"),
        driver("620.70.06"),
    ),
    Case(
        "nvml.mismatch_reboot",
        "info",
        mismatch("580.178.04", "620.70.06", "620.70.06"),
        driver("620.70.06"),
        mismatch("580.178.04", "620.70.06", "620.70.06"),
        {},
    ),
    Case(
        "host.gpu_missing",
        "warn",
        info(over={"state_files": {"gpu_settings_recorded": {"gpus": {"GPU-that-is-gone": {}}}}}),
        {},
        info(over={"state_files": {"gpu_settings_recorded": {"gpus": {GOOD["gpus"][0]["uuid"]: {}}}}}),
        {},
    ),
    Case("host.gpu_count", "block", info(over={"counts": {"expected": 9}}), {}, info(over={"counts": {"expected": 8}}), {}),
    Case("host.gpu_count", "block", info(over={"counts": {"nvml": 7}}), {}, GOOD, {}),
    Case(
        "host.packages_broken",
        "block",
        info(over={"packages": {"broken": ["nvidia-dkms-open"]}}),
        driver("620.70.06"),
        GOOD,
        driver("620.70.06"),
    ),
    Case("host.packages_broken", "warn", info(over={"packages": {"broken": ["nvidia-dkms-open"]}}), {}, GOOD, {}),
    # A transaction of ours that was killed is finished by the driver role, so it must get there.
    Case(
        "host.packages_broken",
        "info",
        info(over={"packages": {"broken": ["nvidia-dkms-open"]}, "state_files": {"driver": {"pending": {"nvidia-dkms-open": "1"}}}}),
        driver("620.70.06"),
        GOOD,
        driver("620.70.06"),
    ),
    Case(
        "host.packages_broken",
        "info",
        info(over={"packages": {"broken": ["libnvidia-container1"]}}),
        {"container_toolkit": {"version": "1.20.0", "heals": ["libnvidia-container1"]}},
        GOOD,
        {"container_toolkit": {"version": "1.20.0", "heals": []}},
    ),
    Case(
        "host.foreign_hold",
        "warn",
        info(over={"packages": {"holds": ["nvidia-open"]}}),
        {},
        info(over={"packages": {"holds": ["nvidia-open"]}, "state_files": {"driver": {"holds": ["nvidia-open"]}}}),
        {},
    ),
    Case(
        "host.secure_boot_key",
        "block",
        info(over={"host": {"secure_boot": {"state": "enabled", "mok_enrolled": False}}}),
        driver("620.70.06"),
        info(over={"host": {"secure_boot": {"state": "enabled", "mok_enrolled": True}}}),
        driver("620.70.06"),
    ),
    Case(
        "host.secure_boot_key",
        "warn",
        info(over={"host": {"secure_boot": {"state": "enabled", "mok_enrolled": None}}}),
        driver("620.70.06"),
        info(system="ubuntu2404", over={"host": {"secure_boot": {"state": "enabled", "mok_enrolled": False}}}),
        driver("580.178.04", source="distribution"),
    ),
    Case(
        "host.state_file_unreadable",
        "warn",
        info(over={"state_files": {"errors": {"/var/lib/gpufleet/driver.json": "permission denied"}}}),
        {},
        GOOD,
        {},
    ),
    Case("os.unsupported", "block", info(system="rocky8"), driver("620.70.06"), info(system="rocky9"), driver("620.70.06"), nearest="RHEL"),
    Case("os.unsupported", "block", info(system="centos7"), driver("580.178.04"), info(system="rocky9"), driver("580.178.04")),
    Case(
        "os.unsupported",
        "block",
        info(system="debian12", arch="aarch64"),
        driver("620.70.06"),
        info(system="rocky9", arch="aarch64"),
        driver("620.70.06"),
    ),
    Case("os.unknown", "block", info(system="mint"), driver("620.70.06"), GOOD, driver("620.70.06")),
    # single GPUs
    Case("gpu.lost", "block", with_gpu(state="lost"), {}, GOOD, {}),
    Case("gpu.reset_required", "block", with_gpu(state="reset_required"), {}, GOOD, {}),
    Case("gpu.recovery_action", "block", with_gpu(recovery_action="reset"), {}, with_gpu(recovery_action="none"), {}),
    Case("gpu.recovery_action", "warn", with_gpu(recovery_action="drain_and_reset"), {}, GOOD, {}),
    Case(
        "gpu.row_remap_pending",
        "warn",
        with_gpu(row_remap={"correctable": 0, "uncorrectable": 1, "pending": True, "failure": False}),
        {},
        with_gpu(row_remap={"pending": False}),
        {},
    ),
    Case("gpu.row_remap_failure", "block", with_gpu(row_remap={"uncorrectable": 9, "pending": True, "failure": True}), {}, GOOD, {}),
    Case(
        "gpu.retired_pages_pending", "warn", with_gpu(retired_pages={"pending": True}), {}, with_gpu(retired_pages={"pending": False}), {}
    ),
    Case(
        "gpu.ecc_pending",
        "warn",
        with_gpu(ecc={"current": True, "pending": False}),
        {},
        with_gpu(ecc={"current": True, "pending": True}),
        {},
    ),
    Case(
        "gpu.mig_pending",
        "warn",
        with_gpu(mig={"current": False, "pending": True}),
        {},
        with_gpu(mig={"current": None, "pending": None}),
        {},
    ),
    Case("gpu.bound_to_nouveau", "block", with_gpu(driver_bound="nouveau"), {}, GOOD, {}),
    Case("gpu.bound_to_nouveau", "warn", with_gpu(driver_bound="nouveau"), driver("620.70.06"), GOOD, {}),
    Case("gpu.passed_through", "info", with_gpu(driver_bound="vfio-pci"), {}, GOOD, {}),
    # container toolkit
    Case(
        "container_toolkit.unknown",
        "block",
        GOOD,
        {"container_toolkit": {"version": "1.99.0"}},
        GOOD,
        {"container_toolkit": {"version": "1.20.0"}},
    ),
    Case(
        "container_toolkit.advisory",
        "block",
        GOOD,
        {"container_toolkit": {"version": "1.19.0"}},
        GOOD,
        {"container_toolkit": {"version": "1.19.1"}},
    ),
    Case("container_toolkit.advisory", "warn", with_toolkit("1.17.4"), {}, with_toolkit("1.19.1"), {}),
    Case(
        "container_toolkit.engine_too_old",
        "block",
        with_toolkit(engines={"podman": {"version": "4.0.2", "active": "active"}}),
        {"container_toolkit": {"version": "1.20.0", "engines": ["podman"], "engines_asked": ["podman"], "older_spec": True}},
        with_toolkit(engines={"podman": {"version": "4.3.1", "active": "active"}}),
        {"container_toolkit": {"version": "1.20.0", "engines": ["podman"], "engines_asked": ["podman"], "older_spec": True}},
        nearest="podman 5.1.0",
    ),
    Case(  # the role judges those that it configures
        "container_toolkit.engine_too_old",
        "warn",
        with_toolkit(engines={"docker": {"version": "25.0.5", "active": "active"}}),
        {"container_toolkit": {"version": "1.20.0"}},
        with_toolkit(engines={"docker": {"version": "25.0.5", "active": "active"}}),
        {"container_toolkit": {"version": "1.20.0", "engines": ["podman"]}},
    ),
    Case(  # what is written already decides, where somebody wrote it for old readers
        "container_toolkit.engine_too_old",
        "warn",
        with_toolkit(engines={"docker": {"version": "25.0.5", "active": "active"}}),
        {},
        with_toolkit(engines={"docker": {"version": "25.0.5", "active": "active"}}, spec="0.5.0"),
        {},
    ),
    Case(
        "container_toolkit.engine_without_cdi",
        "info",
        with_toolkit(engines={"docker": {"version": "20.10.24", "active": "active"}}),
        {"container_toolkit": {"version": "1.20.0"}},
        with_toolkit(engines={"docker": {"version": "26.1.0", "active": "active"}}),
        {"container_toolkit": {"version": "1.20.0"}},
        nearest="the runtime nvidia",
    ),
    Case(
        "container_toolkit.engine_too_old",
        "warn",
        with_toolkit(engines={"podman": {"version": "4.3.1", "active": "active"}}),
        {},
        with_toolkit("1.18.2", engines={"podman": {"version": "4.3.1", "active": "active"}}),
        {},
    ),
    Case(
        "container_toolkit.packages_differ",
        "block",
        with_toolkit(packages={"nvidia-container-toolkit": "1.20.0-1", "libnvidia-container1": "1.19.1-1"}),
        {},
        with_toolkit(),
        {},
    ),
    Case("container_toolkit.cdi_duplicate", "warn", with_toolkit(cdi=2), {}, with_toolkit(cdi=1), {}),
    Case(  # in one folder they cancel each other out
        "container_toolkit.cdi_duplicate",
        "block",
        with_toolkit(cdi=2),
        {"container_toolkit": {"version": "1.20.0"}},
        with_toolkit(cdi=2),
        {"container_toolkit": {"version": "1.20.0", "cdi_remove_duplicates": True}},
    ),
    Case(
        "container_toolkit.missing",
        "block",
        GOOD,
        {"engines": [{"name": "a", "engine": "vllm", "version": "0.33.0", "runtime": "podman"}]},
        GOOD,
        engine(),
    ),
    # engines
    Case("engine.unknown", "block", GOOD, engine("ollama", "0.5"), GOOD, engine()),
    Case("engine.version_unknown", "block", GOOD, engine(version="0.99.0"), GOOD, engine(version="0.33.0")),
    Case("engine.version_unknown", "block", GOOD, engine(version="0.19.5"), GOOD, engine(version="0.22.0")),  # neighbours disagree / agree
    Case(
        "engine.driver_too_old",
        "block",
        info((LAPTOP,), driver="535.309.01"),
        engine(version="0.27.1"),
        info((LAPTOP,), driver="580.178.04"),
        engine(version="0.27.1"),
    ),
    Case(
        "engine.driver_too_old",
        "block",
        info(driver="570.211.01"),
        engine("sglang", "0.5.20"),
        info(driver="570.211.01"),
        engine("sglang", "0.5.10"),
    ),
    Case(
        "engine.forward_compat",
        "warn",
        info(driver="570.211.01"),
        {**engine(version="0.27.1"), "cuda": {"compat": True}},
        info(driver="580.178.04"),
        {**engine(version="0.27.1"), "cuda": {"compat": True}},
    ),
    Case(
        "engine.compute_capability",
        "block",
        info((V100,), driver="580.178.04"),
        engine(version="0.33.0"),
        info(("Tesla T4",)),
        engine(version="0.33.0"),
    ),
    Case(
        "engine.compute_capability_unlisted",
        "warn",
        info((V100,), driver="580.178.04"),
        engine(version="0.19.1"),
        info(("Tesla T4",)),
        engine(version="0.19.1"),
    ),
    Case(
        "engine.cuda_lacks_gpu", "block", info(("NVIDIA B200",)), engine(version="0.7.3"), info(("NVIDIA B200",)), engine(version="0.10.2")
    ),
    Case(
        "engine.python",
        "block",
        GOOD,
        engine(version="0.33.0", runtime="venv", python="3.10"),
        GOOD,
        engine(version="0.33.0", runtime="venv", python="3.12"),
    ),
    Case(
        "engine.glibc_too_old",
        "block",
        info(system="rocky9"),
        engine(version="0.20.2", runtime="venv", python="3.12"),
        GOOD,
        engine(version="0.20.2", runtime="venv", python="3.12"),
    ),
    Case(
        "engine.image_unknown",
        "block",
        GOOD,
        engine(version=None, image="registry.local/team/llm:7"),
        GOOD,
        engine(image="registry.local/team/llm:7"),
    ),
    Case(
        "engine.image_mismatch",
        "block",
        GOOD,
        engine(image="vllm/vllm-openai:v0.27.1"),
        GOOD,
        engine(image="mirror.local:5000/vllm/vllm-openai:v0.33.0"),
    ),
    Case(
        "engine.image_mismatch",
        "block",
        GOOD,
        engine(image="lmsysorg/sglang:v0.5.23"),
        GOOD,
        engine("sglang", "0.5.23", image="lmsysorg/sglang:v0.5.23"),
    ),
    Case(
        "engine.image_moving_tag",
        "warn",
        GOOD,
        engine(image="vllm/vllm-openai:latest"),
        GOOD,
        engine(image="vllm/vllm-openai@sha256:" + 64 * "a"),
    ),
    Case(
        "engine.argument_gone",
        "block",
        GOOD,
        engine(args=["--swap-space", "16"]),
        GOOD,
        engine(version="0.17.1", args=["--swap-space", "16"]),
    ),
    Case("engine.argument_gone", "block", GOOD, engine(args={"swap_space": 16}), GOOD, engine(args={"max-model-len": 4096})),
    Case("engine.argument_gone", "block", GOOD, engine(args="--kv-cache-dtype=fp16"), GOOD, engine(args="--kv-cache-dtype=float16")),
    Case(
        "engine.argument_gone",
        "block",
        GOOD,
        engine("sglang", "0.5.23", args=["--enable-flashinfer"]),
        GOOD,
        engine("sglang", "0.5.23", args=["--attention-backend", "flashinfer"]),
    ),
    Case(
        "engine.argument_gone",
        "warn",
        GOOD,
        engine(env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}),
        GOOD,
        engine(version="0.14.1", env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}),
    ),
    Case(
        "engine.argument_unknown",
        "block",
        GOOD,
        engine(args={"max-modle-len": 4096}),
        GOOD,
        engine(args={"max_model_len": 4096}),
        nearest="--max-model-len",
    ),
    Case("engine.argument_new", "block", GOOD, engine(version="0.17.1", args=["--grpc"]), GOOD, engine(args=["--grpc"])),
    Case("engine.argument_value", "block", GOOD, engine(args={"max-num-seqs": "many"}), GOOD, engine(args={"max-num-seqs": "64"})),
    Case("engine.argument_deprecated", "warn", GOOD, engine(args={"log-config-file": "/x"}), GOOD, engine(args={"log-level": "info"})),
    Case("engine.argument_owned", "block", GOOD, engine(port=8001, args={"port": 8000}), GOOD, engine(port=8001, args={"port": "8001"})),
    Case("engine.argument_secret", "block", GOOD, engine(env={"VLLM_API_KEY": "x"}), GOOD, engine(env={"VLLM_LOGGING_LEVEL": "INFO"})),
    Case("engine.advisory", "block", GOOD, engine(version="0.10.2"), GOOD, engine(version="0.33.0")),
    Case("engine.advisory", "warn", GOOD, engine(version="0.28.0"), GOOD, engine(version="0.32.0")),
    Case("engine.unfixed_advisory", "warn", GOOD, engine("sglang", "0.5.23"), GOOD, engine("tensorrt_llm", "1.4.0rc1")),
    # models
    Case("model.does_not_exist", "block", GOOD, engine(model="nvidia/nemotron-3-ultra-32b"), GOOD, engine(model=ULTRA), nearest=ULTRA),
    Case("model.engine_too_old", "block", GOOD, engine(version="0.21.0", model=ULTRA), GOOD, engine(version="0.22.1", model=ULTRA)),
    Case(
        "model.engine_unsupported",
        "warn",
        GOOD,
        engine("sglang", "0.5.23", model="nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16"),
        GOOD,
        engine(model="nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16"),
    ),
    Case("model.memory", "block", info(("NVIDIA A100-SXM4-40GB",) * 2), engine(model=ULTRA), GOOD, engine(model=ULTRA)),
    Case("model.memory", "block", info(("NVIDIA L4",)), engine(model=SUPER), info(("NVIDIA L4",)), engine(model=SUPER, nodes=["a", "b"])),
    Case(
        "model.driver_too_old",
        "block",
        info(driver="570.211.01"),
        engine("tensorrt_llm", "1.3.0rc17", model=ULTRA),
        info(driver="580.178.04"),
        engine("tensorrt_llm", "1.3.0rc17", model=ULTRA),
    ),
    # rows that a person wrote for the whole
    Case("matrix.denied", "block", GOOD, driver("535.104.02"), GOOD, driver("535.104.05")),
    Case("matrix.denied", "block", GOOD, {"cudnn": "8.9.7.23"}, GOOD, {"cudnn": "8.9.7.29"}),
    Case("matrix.denied", "block", GOOD, engine(version="0.2.7"), GOOD, engine(version="0.33.0")),
    Case(
        "matrix.denied", "block", GOOD, engine(env={"NVIDIA_DISABLE_REQUIRE": "true"}), GOOD, engine(env={"NVIDIA_VISIBLE_DEVICES": "all"})
    ),
    Case("matrix.denied", "warn", info(over={"packages": {"set": {"nvidia-docker2": "2.13.0-1"}}}), {}, GOOD, {}),
    Case(
        "matrix.denied",
        "block",
        info(over={"host": {"kernel": {"release": "6.14.2"}}}),
        driver("565.77"),
        info(over={"host": {"kernel": {"release": "6.8.0-31-generic"}}}),
        driver("565.77"),
    ),
    Case("matrix.stack_unknown", "block", GOOD, {"name": "lts-58"}, GOOD, {"name": "lts-580"}, nearest="lts-580"),
    Case("matrix.stack_out_of_support", "block", GOOD, {"name": "guides-2024"}, GOOD, {"name": "lts-620"}, nearest="lts-580"),
    Case("matrix.stack_out_of_support", "block", GOOD, {"name": "550.54.14+12.4.1"}, GOOD, {"name": "production-595"}),
]
# Made by _allow.py, _lock.py and _engine_build.py; test_allow.py, test_lock.py and tests/unit/trtllm have them.
ELSEWHERE = {name for name in CATALOG if name.startswith(("policy.", "lock."))} | {"engine.build_gone"}


@pytest.mark.parametrize("case", CASES, ids=[f"{index}-{case.id}-{case.severity}" for index, case in enumerate(CASES)])
def test_rule(matrix: Matrix, case: Case) -> None:
    found = [item for item in evaluate(matrix, case.facts, case.stack, context(**case.policy)) if item.id == case.id]
    assert found, f"{case.id} is not reported"
    assert {item.severity for item in found} == {case.severity}
    if case.nearest:
        assert case.nearest in (found[0].nearest or "")
    for item in found:
        FINDING.validate(item.to_dict())
        assert item.message.endswith((".", ")", "?"))
        assert "None" not in item.message + item.fix + item.needed + item.found
    left_alone = evaluate(matrix, case.good_facts, case.good_stack, context(**case.policy))
    assert case.id not in ids(left_alone), "the good host is hit as well"


def test_every_finding_of_the_catalogue_is_tested() -> None:
    assert {case.id for case in CASES} == set(CATALOG) - ELSEWHERE


def test_an_id_outside_the_catalogue_cannot_be_used() -> None:
    with pytest.raises(KeyError, match=r"driver\.invented"):
        finding("driver.invented", "warn", found="", needed="", message="", fix="")


def test_a_healthy_host_with_a_current_stack_has_nothing_to_block(matrix: Matrix) -> None:
    stack = {"name": "lts-620", **engine()}
    assert [item for item in evaluate(matrix, GOOD, stack, context()) if item.severity == "block"] == []
    assert evaluate(matrix, GOOD, {}, context()) == []


def test_unverified_rows_warn_and_never_block(matrix: Matrix) -> None:
    for case in CASES:
        for item in evaluate(matrix, case.facts, case.stack, context(**case.policy)):
            assert not (item.confidence == "unverified" and item.severity == "block"), item.id


def test_findings_are_sorted_by_severity(matrix: Matrix) -> None:
    found = evaluate(matrix, info(driver="535.309.01"), {"name": "guides-2024"}, context())
    order = ["block", "warn", "info"]
    assert [item.severity for item in found] == sorted((item.severity for item in found), key=order.index)
    assert len({item.severity for item in found}) == 3


def test_a_state_without_a_reason_has_a_message(matrix: Matrix) -> None:
    facts = state("hung")
    facts["reason"] = ""
    assert only(evaluate(matrix, facts, {}, context()), "nvml.hung").message == "The GPU stack of this host is in state hung."


def test_end_of_support_is_the_last_day_of_its_month(matrix: Matrix) -> None:
    import datetime

    last = evaluate(matrix, GOOD, driver("595.91.07"), context(today=datetime.date(2027, 3, 31)))
    after = evaluate(matrix, GOOD, driver("595.91.07"), context(today=datetime.date(2027, 4, 1)))
    assert "driver.branch_ended" not in ids(last)
    assert "driver.branch_ended" in ids(after)


def test_a_mixed_host_gets_a_driver_for_all_its_gpus(matrix: Matrix) -> None:
    found = evaluate(matrix, info((V100, H100), driver=None), driver("620.70.06"), context())
    assert "580.178.04 (branch 580, proprietary" in (only(found, "driver.branch_too_new").nearest or "")


def test_geforce_hosts_follow_the_geforce_column_of_a_bulletin(matrix: Matrix) -> None:
    def bulletins(product: str) -> str:
        return only(evaluate(matrix, info((product,)), driver("570.86.15"), context()), "driver.advisory").found

    assert "5614" in bulletins("NVIDIA GeForce RTX 5090")
    assert "5614" not in bulletins(H100)


def test_forward_compatibility_is_offered_only_where_it_exists(matrix: Matrix) -> None:
    def answer(*products: str, driver: str = "570.211.01", runtime: str = "docker") -> t.Any:
        return only(
            evaluate(matrix, info(products, driver=driver), engine(version="0.27.1", runtime=runtime), context()), "engine.driver_too_old"
        )

    assert "compat: true" in answer(H100).fix
    assert "compat: true" not in answer(H100, runtime="venv").fix
    assert "compat: true" not in answer(H100, driver="525.147.05").fix
    mixed = answer(H100, LAPTOP)
    assert "compat: true" not in mixed.fix
    assert f"does not exist on {LAPTOP}." in mixed.message
    assert "vLLM 0.19.1" in answer(H100).fix


@pytest.mark.parametrize("version", ["0.3.0", "0.4.6", "0.5.19", "0.5.20", "0.5.21", "0.5.23"])
def test_sglang_cve_2026_93034_warns_for_every_version(matrix: Matrix, version: str) -> None:
    found = only(evaluate(matrix, GOOD, engine("sglang", version), context()), "engine.unfixed_advisory")
    assert found.severity == "warn"
    assert "CVE-2026-93034" in found.found


def test_a_cuda_suffix_of_an_image_tag_decides_over_the_release(matrix: Matrix) -> None:
    host = info((LAPTOP,), driver="570.211.01")
    cu13 = evaluate(matrix, host, engine("sglang", None, image="lmsysorg/sglang:v0.5.19"), context())
    cu12 = evaluate(matrix, host, engine("sglang", None, image="lmsysorg/sglang:v0.5.19-cu129"), context())
    assert "engine.driver_too_old" in ids(cu13)
    assert "engine.driver_too_old" not in ids(cu12)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"gpus": None, "host": None, "driver": None, "fabric": None, "containers": None, "counts": None},
        {"gpus": [{}], "host": {"os": {}}, "driver": {"loaded": {}, "installed": None}, "state": "mismatch"},
        {"gpus": [{"product": None, "pci_device_id": "2330"}], "nvml": {"driver_version": "not a version"}, "state": "nonsense"},
    ],
)
@pytest.mark.parametrize("stack", [{}, {"driver": {"branch": "x"}, "cuda": {"toolkits": ["abc", ""]}, "engines": [{}], "cudnn": {}}])
def test_odd_facts_and_stacks_do_not_raise(matrix: Matrix, facts: dict[str, t.Any], stack: dict[str, t.Any]) -> None:
    for item in evaluate(matrix, facts, stack, context()):
        FINDING.validate(item.to_dict())


def test_no_single_missing_fact_raises(matrix: Matrix) -> None:
    stack = {"name": "lts-620", **engine(model=ULTRA)}
    base = with_fabric()
    for name in base:
        evaluate(matrix, {key: value for key, value in base.items() if key != name}, stack, context())
        evaluate(matrix, {**base, name: None}, stack, context())
    for name in base["gpus"][0]:
        document = with_gpu(**{name: None})
        evaluate(matrix, document, stack, context())
