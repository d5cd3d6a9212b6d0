"""CUDA's half of the lab's repository: toolkits in parts, as NVIDIA packages them, cuda-compat, and the runfile's stand-in.

Contents are stand-ins and say so; names, versions and relations are described in tests/lab/repo/nvidia.yml.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NVCC = """#!/bin/sh
# Stand-in of the test lab, not NVIDIA's compiler: it only knows its version.
case "$1" in
    --version | -V)
        echo "nvcc: NVIDIA (R) Cuda compiler driver"
        echo "Copyright (c) 2005-2025 NVIDIA Corporation"
        echo "Built on (stand-in)"
        echo "Cuda compilation tools, release {minor}, V{nvcc}"
        echo "Build cuda_{minor}.r{minor}/compiler.stand-in"
        ;;
    *) echo "nvcc fatal   : stand-in of the test lab, it compiles nothing" >&2; exit 1 ;;
esac
"""

ALTERNATIVES = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-{minor} {priority}
    update-alternatives --install /usr/local/cuda-{major} cuda-{major} /usr/local/cuda-{minor} {priority}
fi
"""

NO_ALTERNATIVES = """#!/bin/sh
set -e
if [ "$1" = remove ]; then
    update-alternatives --remove cuda /usr/local/cuda-{minor}
    update-alternatives --remove cuda-{major} /usr/local/cuda-{minor}
fi
"""

RUNFILE = """#!/bin/sh
# Stand-in of the test lab, not NVIDIA's installer. Like it, it puts a toolkit under /usr/local, a file for the loader, a plain link
# /usr/local/cuda and a log; unlike it, it accepts exactly the arguments that install the toolkit alone.
echo "$0 $*" >> /var/log/cuda-installer.log
if [ "$*" != "--silent --toolkit" ]; then
    echo "[ERROR]: stand-in: called with '$*' instead of '--silent --toolkit'" >> /var/log/cuda-installer.log
    exit 1
fi
[ ! -e /var/lib/lab-runfile-fails ] || {{ mkdir -p {root}; echo "[ERROR]: stand-in: told to fail" >> /var/log/cuda-installer.log; exit 1; }}
set -e
mkdir -p {root}/bin {root}/targets/x86_64-linux/lib
ln -sfn targets/x86_64-linux/lib {root}/lib64
cat > {root}/version.json << 'END'
{described}END
cat > {root}/bin/nvcc << 'END'
{compiler}END
chmod 755 {root}/bin/nvcc
echo {root}/targets/x86_64-linux/lib > /etc/ld.so.conf.d/cuda-{dashed}.conf
ln -sfn {root} /usr/local/cuda
ldconfig
"""

METAS = ("cuda_compiler", "cuda_libraries", "cuda_libraries_dev", "cuda_tools")
ROOT = "usr/local/cuda-{minor}"


def entries(toolkits: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Entries as the description's `packages:` lists have them, for all releases of all minors."""
    found: list[dict[str, Any]] = []
    shared: dict[str, str] = {}
    for toolkit in toolkits:
        found.extend(_release(toolkit))
        major, cudart = toolkit["version"].split(".")[0], f"{toolkit['cudart']}-1"
        shared[major] = max(shared.get(major, ""), cudart, key=_numbers)
    for major, version in shared.items():
        target = f"/usr/local/cuda-{major}/targets/x86_64-linux/lib\n"
        found.append(_entry(f"cuda-toolkit-{major}-config-common", version, files={f"etc/ld.so.conf.d/988_cuda-{major}.conf": target}))
    newest = max(shared.values(), key=_numbers)
    files = {"etc/ld.so.conf.d/000_cuda.conf": "/usr/local/cuda/targets/x86_64-linux/lib\n"}
    found.append(_entry("cuda-toolkit-config-common", newest, files=files))
    # Two releases of a minor may share a part.
    return list({(entry["name"], entry["version"]): entry for entry in found}.values())


def _release(toolkit: dict[str, str]) -> list[dict[str, Any]]:
    version = toolkit["version"]
    minor = ".".join(version.split(".")[:2])
    major, dashed, root = minor.split(".")[0], minor.replace(".", "-"), ROOT.format(minor=minor)
    words = {"minor": minor, "major": major, "priority": minor.replace(".", ""), "nvcc": toolkit["nvcc"]}
    meta, cudart, nvcc = f"{version}-1", f"{toolkit['cudart']}-1", f"{toolkit['nvcc']}-1"

    def needs(**parts: str) -> list[str]:
        return [f"{name.replace('_', '-')}-{dashed} (>= {bound.removesuffix('-1')})" for name, bound in parts.items()]

    config = [f"cuda-toolkit-{dashed}-config-common", f"cuda-toolkit-{major}-config-common", "cuda-toolkit-config-common"]
    return [
        _entry(f"cuda-toolkit-{dashed}", meta, needs(**dict.fromkeys(METAS, meta), cuda_documentation=cudart, cuda_nvml_dev=cudart)),
        _entry(f"cuda-compiler-{dashed}", meta, needs(cuda_nvcc=nvcc)),
        _entry(f"cuda-libraries-{dashed}", meta, needs(cuda_cudart=cudart)),
        _entry(f"cuda-libraries-dev-{dashed}", meta, needs(cuda_cudart=cudart)),
        _entry(f"cuda-tools-{dashed}", meta),
        _entry(f"cuda-nvml-dev-{dashed}", cudart),
        _entry(f"cuda-documentation-{dashed}", cudart, files={f"{root}/version.json": _described(toolkit)}),
        _entry(f"cuda-nvcc-{dashed}", nvcc, files={f"{root}/bin/nvcc": (NVCC.format(**words), 0o755)}),
        _entry(
            f"cuda-cudart-{dashed}",
            cudart,
            [f"{config[0]} (>= {toolkit['cudart']})", f"{config[1]} (>= {toolkit['cudart']})", f"{config[2]} (>= {toolkit['cudart']})"],
            files={f"{root}/targets/x86_64-linux/lib/libcudart.so.{toolkit['cudart']}": "", f"{root}/lib64": "-> targets/x86_64-linux/lib"},
        ),
        _entry(config[0], cudart, scripts={"postinst": ALTERNATIVES.format(**words), "prerm": NO_ALTERNATIVES.format(**words)}),
        _entry(f"cuda-compat-{dashed}", f"{toolkit['driver']}-1", files=_compat(root, toolkit["driver"])),
        # These three bring a driver.
        _entry(f"cuda-runtime-{dashed}", meta, [*needs(cuda_libraries=meta), f"cuda-drivers (>= {toolkit['driver'].split('.')[0]})"]),
        _entry(f"cuda-{dashed}", meta, [*needs(cuda_runtime=meta), f"cuda-toolkit-{dashed} (>= {version})"]),
        _entry(f"cuda-demo-suite-{dashed}", cudart, needs(cuda_runtime=meta)),
    ]


def write_runfiles(folder: Path, runfiles: list[dict[str, str]]) -> None:
    """FOLDER/VERSION/local_installers/FILE, as below https://developer.download.nvidia.com/compute/cuda/."""
    for toolkit in runfiles:
        minor = ".".join(toolkit["version"].split(".")[:2])
        text = RUNFILE.format(
            root="/" + ROOT.format(minor=minor),
            described=_described(toolkit),
            compiler=NVCC.format(minor=minor, nvcc=toolkit["nvcc"]),
            dashed=minor.replace(".", "-"),
        )
        path = folder / toolkit["version"] / "local_installers" / toolkit["runfile"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _described(toolkit: dict[str, str]) -> str:
    parts = {"cuda": ("CUDA SDK", "version"), "cuda_cudart": ("CUDA Runtime (cudart)", "cudart"), "cuda_nvcc": ("CUDA NVCC", "nvcc")}
    return json.dumps({key: {"name": name, "version": toolkit[word]} for key, (name, word) in parts.items()}, indent=3) + "\n"


def _compat(root: str, driver: str) -> dict[str, str]:
    return {f"{root}/compat/libcuda.so.{driver}": "", f"{root}/compat/libcuda.so.1": f"-> libcuda.so.{driver}"}


def _entry(name: str, version: str, depends: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "depends": depends or [], **more}


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.replace("-", ".").split(".") if part.isdigit()]
