"""Other versions of nvidia-ml-py, and C programs compiled against NVIDIA's own header."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import LIBRARIES, ROOT, Sim

CORE = """
out = {
    "driver": p.nvmlSystemGetDriverVersion(),
    "nvml": p.nvmlSystemGetNVMLVersion(),
    "cuda": p.nvmlSystemGetCudaDriverVersion(),
    "count": p.nvmlDeviceGetCount(),
    "name": p.nvmlDeviceGetName(h),
    "uuid": p.nvmlDeviceGetUUID(h),
    "serial": p.nvmlDeviceGetSerial(h),
    "bus": p.nvmlDeviceGetPciInfo(h).busId,
    "memory": p.nvmlDeviceGetMemoryInfo(h).total,
    "memory2": p.nvmlDeviceGetMemoryInfo(h, version=p.nvmlMemory_v2).reserved,
    "limit": p.nvmlDeviceGetPowerManagementLimit(h),
    "range": p.nvmlDeviceGetPowerManagementLimitConstraints(h),
    "ecc": p.nvmlDeviceGetEccMode(h),
    "processes": p.nvmlDeviceGetComputeRunningProcesses(h),
    "temperature": p.nvmlDeviceGetTemperature(h, 0),
    "utilization": p.nvmlDeviceGetUtilizationRates(h).gpu,
    "mig": p.nvmlDeviceGetMigMode(h),
    "persistence": p.nvmlDeviceGetPersistenceMode(h),
    "reasons": p.nvmlDeviceGetCurrentClocksThrottleReasons(h),
    "by_uuid": p.nvmlDeviceGetIndex(p.nvmlDeviceGetHandleByUUID(p.nvmlDeviceGetUUID(h))),
    "by_pci": p.nvmlDeviceGetIndex(p.nvmlDeviceGetHandleByPciBusId(p.nvmlDeviceGetPciInfo(h).busId)),
    "remapped": p.nvmlDeviceGetRemappedRows(h),
}
p.nvmlDeviceSetPowerManagementLimit(h, 500000)
out["after"] = p.nvmlDeviceGetPowerManagementLimit(h)
out = json.loads(json.dumps(out, default=lambda v: v.decode() if isinstance(v, bytes) else str(v)))
"""
WANT = {
    "driver": "580.159.04",
    "nvml": "13.580.159.04",
    "cuda": 13000,
    "count": 2,
    "name": "NVIDIA H200",
    "uuid": "GPU-00000000-aaaa-bbbb-cccc-000000000000",
    "serial": "1650000000000",
    "bus": "00000000:00:06.0",
    "memory": 150754820096,
    "memory2": 644939776,
    "limit": 700000,
    "range": [200000, 700000],
    "ecc": [1, 1],
    "processes": [],
    "temperature": 35,
    "utilization": 0,
    "mig": [0, 0],
    "persistence": 1,
    "reasons": 1,
    "by_uuid": 0,
    "by_pci": 0,
    "remapped": [0, 0, 0, 0],
    "after": 500000,
}


def fetched(requirement: str) -> Path:
    """A package from PyPI in a folder of its own, kept in .build."""
    target = ROOT / ".build/python" / requirement.replace("=", "").replace(",", "_").replace("<", "-").replace(">", "")
    if not target.is_dir():
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--disable-pip-version-check",
                "--target",
                str(target),
                requirement,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"{requirement} is not to be had from the package index: {done.stderr.strip().splitlines()[-1:]}")
    return target


@pytest.mark.parametrize("requirement", ["nvidia-ml-py>=11,<12", "nvidia-ml-py>=12,<13", "nvidia-ml-py>=13,<14"])
def test_core_calls(sim: Sim, requirement: str) -> None:
    assert sim.python(CORE, nvml_path=str(fetched(requirement))) == WANT


PROGRAM = r"""
#include <nvml.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    nvmlDevice_t d;
    unsigned int n, i;
    char text[96];
    nvmlPciInfo_t pci;
    nvmlMemory_v2_t m = {.version = nvmlMemory_v2};
#ifdef nvmlGpuFabricInfo_v3
    nvmlGpuFabricInfoV_t f = {.version = nvmlGpuFabricInfo_v3};
#else
    nvmlGpuFabricInfoV_t f = {.version = nvmlGpuFabricInfo_v2};
#endif
    nvmlEccSramErrorStatus_t s = {.version = nvmlEccSramErrorStatus_v1};
    nvmlPlatformInfo_t pl = {.version = nvmlPlatformInfo_v2};
    nvmlProcessInfo_t processes[4];
    if (nvmlInit() != NVML_SUCCESS || nvmlDeviceGetCount(&n) || n != 2) return 1;
    if (nvmlDeviceGetHandleByIndex(1, &d) || nvmlDeviceGetName(d, text, sizeof text)) return 2;
    puts(text);
    if (nvmlDeviceGetPciInfo(d, &pci) || strcmp(pci.busId, "00000000:00:07.0")) return 3;
    if (nvmlDeviceGetMemoryInfo_v2(d, &m) || m.total != 150754820096ULL) return 4;
    if (nvmlDeviceGetGpuFabricInfoV(d, &f) || f.state != NVML_GPU_FABRIC_STATE_COMPLETED) return 5;
    if (nvmlDeviceGetSramEccErrorStatus(d, &s) || nvmlDeviceGetPlatformInfo(d, &pl) || pl.moduleId != 7) return 6;
    i = 4;
    if (nvmlDeviceGetComputeRunningProcesses(d, &i, processes) || i) return 7;
    memset(&pci, 0xee, sizeof pci);
    if (nvmlDeviceGetName(d, text, 3) != NVML_ERROR_INSUFFICIENT_SIZE) return 8;
    if (strcmp(nvmlErrorString(NVML_ERROR_LIB_RM_VERSION_MISMATCH), "RM has detected an NVML/RM version mismatch.")) return 9;
    return nvmlShutdown();
}
"""


@pytest.mark.parametrize("requirement", ["nvidia-nvml-dev>=13", "nvidia-nvml-dev-cu12"])
def test_c_program_with_nvidias_header(sim: Sim, compiler: str, requirement: str, tmp_path: Path) -> None:
    header = next(fetched(requirement).rglob("nvml.h"))
    source, program = tmp_path / "client.c", tmp_path / "client"
    source.write_text(PROGRAM, encoding="utf-8")
    subprocess.run(
        [compiler, "-w", f"-I{header.parent}", "-o", str(program), str(source), str(sim.root / LIBRARIES / "libnvidia-ml.so.1")],
        check=True,
        timeout=60,
    )
    assert sim.run(str(program)).stdout == "NVIDIA H200\n"
