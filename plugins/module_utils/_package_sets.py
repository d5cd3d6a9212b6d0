# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages belong to driver, CUDA, container toolkit and engines, by name. Pure; private to the collection."""

from __future__ import annotations

import re
import typing as t

_TOOLKIT = re.compile(r"(lib)?nvidia-container|nvidia-docker2$|nvidia-ctk$")
_CUDA = re.compile(
    r"cuda-(?!drivers)|cuda$|nvidia-cuda-(?!mps)|lib(cublas|cudnn|cudla|cufft|cufile|curand|cusolver|cusparse|cutensor|nccl|npp|nvjpeg|nvjitlink|nvfatbin|nvvm)"
    r"|cudnn|gds-tools|nsight-|tensorrt|libnvinfer"
)
_DRIVER = re.compile(
    r"(lib)?nvidia-|nvidia$|cuda-drivers|(kmod|akmod|dkms)-nvidia|libnvidia|nvlsm$|libnvsdm|libcuda1|libnvcuvid|libnvoptix|libxnvctrl"
    r"|xserver-xorg-video-nvidia|linux-(modules|objects|signatures)-nvidia|firmware-nvidia-gsp"
)
_ENGINES = re.compile(r"docker-ce$|docker\.io$|moby-engine$|docker-engine$|containerd(\.io)?$|podman$|cri-o(-?1\.\d+)?$")

_LIBRARY = re.compile(r"libnvidia-(compute|ml1)|nvidia-driver-(cuda-)?libs$|nvidia-libs$|nvidia-compute-G")
_VERSION = re.compile(r"(?:^|[:-])(\d{3,}\.\d+(?:\.\d+)*)")
_OPEN = re.compile(r"-open(-|$)|^nvidia-open|-open-kernel")
_KERNEL = re.compile(
    r"nvidia-(dkms|open$|open-\d|kernel|current)|(kmod|dkms|akmod)-nvidia|linux-(modules|objects)-nvidia|nvidia-.*kernel|nvidia-open-driver-G"
)


def set_of(name: str) -> t.Optional[str]:
    """driver | cuda | toolkit | engine, None for everything else."""
    if _TOOLKIT.match(name):
        return "toolkit"
    if _CUDA.match(name):
        return "cuda"
    if _DRIVER.match(name):
        return "driver"
    return "engine" if _ENGINES.match(name) else None


def upstream(version: str) -> str:
    """`570.133.20` of `1:570.133.20-1~deb12u1`: no epoch, no packaging revision."""
    return version.split(":", 1)[-1].split("-", 1)[0].split("~", 1)[0].split("+", 1)[0]


def driver_version(versions: t.Mapping[str, str]) -> t.Optional[str]:
    """The driver's version, taken from its library's package or else from the most common version."""
    found = {}
    for name, version in versions.items():
        match = _VERSION.search(version)
        if match:
            found[name] = match.group(1)
    for name in sorted(found):
        if _LIBRARY.match(name):
            return found[name]
    counted = sorted(found.values())
    return max(counted, key=counted.count) if counted else None


def kernel_modules(names: t.Iterable[str]) -> t.Optional[str]:
    """open | proprietary by the names of installed kernel module packages; None if there are none or both."""
    kinds = {"open" if _OPEN.search(name) else "proprietary" for name in names if _KERNEL.match(name)}
    return kinds.pop() if len(kinds) == 1 else None


def is_driver(name: str) -> bool:
    """Whether the package, alone, makes a host one that has a driver."""
    return bool(_LIBRARY.match(name) or _KERNEL.match(name) or re.match(r"(cuda-drivers|nvidia-driver)", name))
