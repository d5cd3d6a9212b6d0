# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed, loaded, blocked: the driver."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _driver_facts, _driver_installed, _module_info, _packages, _pci
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder@x)  Sun Mar\nGCC version: 12\n"
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.309.01  Tue Apr  1 2026\nGCC version: 12\n"


@pytest.fixture(autouse=True)
def no_modinfo(monkeypatch: pytest.MonkeyPatch) -> dict[str, Result]:
    """modinfo's answers by module name; none by default."""
    answers: dict[str, Result] = {}
    missing = Result("ok", 1, "", "modinfo: ERROR: Module not found.")
    monkeypatch.setattr(_module_info, "run", lambda argv, timeout: answers.get(argv[-1], missing))
    return answers


def _driver(host: Any, library: str | None = None) -> dict[str, Any]:
    reader = host.reader()
    return _driver_facts.read_driver(reader, _packages.read_packages(reader, "debian"), _pci.read_pci(reader), library)


def _installed(host: Any) -> dict[str, Any]:
    installed = _driver(host)["installed"]
    assert installed is not None
    return dict(installed)


def test_a_bare_host(host: Any) -> None:
    assert _driver(host) == {
        "installed": None,
        "loaded": None,
        "library": None,
        "nouveau": {"loaded": False, "bound": [], "blacklisted": False},
        "device_nodes": [],
        "modprobe_conf": {},
        "repository": None,
    }


def test_packages(host: Any, no_modinfo: dict[str, Result]) -> None:
    no_modinfo["nvidia"] = Result(
        "ok", 0, "filename:       /x\nversion:        570.133.20\nlicense:        Dual MIT/GPL\nsrcversion:  AB\n", ""
    )
    host.dpkg("libnvidia-compute 570.133.20-1 hold ok installed", "nvidia-settings 560.1.1-1 deinstall ok config-files")
    installed = _installed(host)
    assert installed == {
        "version": "570.133.20",
        "origin": "package",
        "packages": {
            "libnvidia-compute": {"version": "570.133.20-1", "held": True, "status": "installed"},
            "nvidia-settings": {"version": "560.1.1-1", "held": False, "status": "config-files"},
        },
        "kernel_modules": "open",
        "module_version": "570.133.20",
        "modules": {},
        "dkms": [],
    }


def test_what_a_removed_driver_leaves_is_no_driver(host: Any) -> None:
    host.dpkg("libnvidia-compute 570.133.20-1 deinstall ok config-files", "firmware-nvidia-gsp 570.1.1-1")
    assert _driver(host)["installed"] is None


@pytest.mark.parametrize(
    ("name", "package", "licence", "kind"),
    [
        ("nvidia-current", "nvidia-kernel-dkms", "NVIDIA", "proprietary"),
        ("nvidia-current-open", "nvidia-open-kernel-dkms", "Dual MIT/GPL", "open"),
    ],
)
def test_debian_has_other_names(host: Any, no_modinfo: dict[str, Result], name: str, package: str, licence: str, kind: str) -> None:
    no_modinfo[name] = Result("ok", 0, f"version: 550.163.01\nlicense: {licence}\n", "")
    host.dpkg("libnvidia-ml1 550.163.01-2", f"{package} 550.163.01-2")
    installed = _installed(host)
    assert (installed["module_version"], installed["kernel_modules"]) == ("550.163.01", kind)


def test_modinfo_that_hangs(host: Any, no_modinfo: dict[str, Result]) -> None:
    no_modinfo["nvidia"] = Result("hung", -9, "", "")
    host.dpkg("libnvidia-ml1 550.163.01-2")
    reader = host.reader()
    found = _driver_installed.read_installed(reader, _packages.read_packages(reader, "debian"), False, ["6.1.0-1", "6.1.0-2"])
    assert found is not None
    assert (found["module_version"], found["modules"]) == (None, {})
    assert reader.unread[0]["part"] == "driver.installed.module_version"


def test_runfile(host: Any) -> None:
    host.write("usr/bin/nvidia-uninstall")
    host.write("var/log/nvidia-installer.log", "nvidia-installer log file\ninstaller version: 570.86.15\n\n-> Install NVIDIA's driver?\n")
    installed = _installed(host)
    assert (installed["origin"], installed["version"], installed["packages"]) == ("runfile", "570.86.15", {})


def test_what_the_runfile_installed_counts_and_not_the_log_of_a_later_attempt(host: Any) -> None:
    host.write("usr/bin/nvidia-uninstall")
    host.write("var/log/nvidia-installer.log", "installer version: 595.91.07\nERROR: Unable to build\n")
    host.write(
        "var/lib/nvidia/log", "1.0-5708615 (570.86.15)\nNVIDIA Accelerated Graphics Driver for Linux-x86_64\n1: /usr/bin/nvidia-smi\n"
    )
    assert _installed(host)["version"] == "570.86.15"


def test_runfile_over_packages_is_a_runfile(host: Any) -> None:
    host.dpkg("libnvidia-ml1 550.163.01-2")
    host.write("usr/bin/nvidia-uninstall")
    assert _installed(host)["origin"] == "runfile"


def test_dkms_tree(host: Any) -> None:
    tree = "var/lib/dkms/nvidia/570.133.20"
    host.write(f"{tree}/6.1.0-37-amd64/x86_64/module/nvidia.ko")
    host.write(f"{tree}/6.1.0-9-amd64/x86_64/module/nvidia.ko")
    host.link(f"{tree}/source", "/usr/src/nvidia-570.133.20")
    host.link("var/lib/dkms/nvidia/kernel-6.1.0-9-amd64-x86_64", "570.133.20/6.1.0-9-amd64/x86_64")
    host.link("var/lib/dkms/nvidia-current-open/550.163.01/source", "/usr/src/x")
    host.write("var/lib/dkms/zfs/2.1/source")
    assert _installed(host)["dkms"] == [
        {"name": "nvidia", "version": "570.133.20", "kernel": "6.1.0-37-amd64", "state": "built"},
        {"name": "nvidia", "version": "570.133.20", "kernel": "6.1.0-9-amd64", "state": "installed"},
        {"name": "nvidia-current-open", "version": "550.163.01", "kernel": "", "state": "added"},
    ]


@pytest.mark.parametrize(("banner", "version", "kind"), [(OPEN, "570.133.20", "open"), (PROPRIETARY, "535.309.01", "proprietary")])
def test_loaded(host: Any, banner: str, version: str, kind: str) -> None:
    host.write("proc/driver/nvidia/version", banner)
    host.write("proc/driver/nvidia/params", 'EnableMSI: 1\nRegistryDwords: "RMFoo=1"\n')
    host.write("sys/module/nvidia/refcnt", "12\n")
    host.write("sys/module/nvidia_drm/parameters/modeset", "Y\n")
    host.write("sys/module/nvidia_uvm/refcnt", "0\n")
    host.write("sys/module/nvme/refcnt", "0\n")
    loaded = _driver(host)["loaded"]
    assert loaded == {
        "version": version,
        "kernel_modules": kind,
        "modules": ["nvidia", "nvidia_drm", "nvidia_uvm"],
        "parameters": {"NVreg_EnableMSI": "1", "NVreg_RegistryDwords": "RMFoo=1", "nvidia_drm.modeset": "Y"},
        "refcount": 12,
    }


def test_library_as_the_loader_finds_it(host: Any) -> None:
    host.write("opt/odd/lib/libnvidia-ml.so.570.133.20")
    host.link("opt/odd/lib/libnvidia-ml.so.1", "libnvidia-ml.so.570.133.20")
    assert _driver(host)["library"] is None
    host.write("etc/ld.so.cache", b"glibc-ld.so.cache1.1\0libnvidia-ml.so.1\0/opt/odd/lib/libnvidia-ml.so.1\0")
    assert _driver(host)["library"] == {"path": "/opt/odd/lib/libnvidia-ml.so.1", "version": "570.133.20"}


def test_library_given_and_absent(host: Any) -> None:
    host.write("usr/lib64/libnvidia-ml.so.1")
    assert _driver(host, str(host.root / "nowhere"))["library"] is None
    assert _driver(host)["library"] == {"path": "/usr/lib64/libnvidia-ml.so.1", "version": None}


@pytest.mark.parametrize(
    ("path", "text", "blacklisted"),
    [
        ("etc/modprobe.d/a.conf", "blacklist nouveau\n", True),
        ("usr/lib/modprobe.d/nvidia.conf", "  blacklist nouveau  \noptions nouveau modeset=0\n", True),
        ("etc/modprobe.d/a.conf", "install nouveau /bin/false\n", True),
        ("etc/modprobe.d/a.conf", "# blacklist nouveau\n", False),
        ("etc/modprobe.d/a.conf.disabled", "blacklist nouveau\n", False),
        ("etc/modprobe.d/a.conf", "blacklist nouveau_extra\n", False),
        ("proc/cmdline", "quiet modprobe.blacklist=pcspkr,nouveau ro\n", True),
        ("proc/cmdline", "quiet rd.driver.blacklist=nouveau\n", True),
        ("proc/cmdline", "quiet modprobe.blacklist=nouveau2\n", False),
    ],
)
def test_blacklisted(host: Any, path: str, text: str, blacklisted: bool) -> None:
    host.write(path, text)
    assert _driver(host)["nouveau"]["blacklisted"] is blacklisted


def test_our_modprobe_files(host: Any) -> None:
    host.write("etc/modprobe.d/gpufleet-nvidia.conf", "options nvidia x=1\n")
    host.write("etc/modprobe.d/other.conf", "options x y=1\n")
    expected = {"/etc/modprobe.d/gpufleet-nvidia.conf": hashlib.sha256(b"options nvidia x=1\n").hexdigest()}
    assert _driver(host)["modprobe_conf"] == expected


NVIDIA_URL = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"


def test_repository(host: Any) -> None:
    host.write("etc/apt/sources.list.d/docker.list", "deb https://download.docker.com/linux/debian bookworm stable\n")
    host.write("etc/apt/sources.list.d/off.list", f"# deb {NVIDIA_URL} /\n")
    assert _driver(host)["repository"] is None
    host.write("etc/apt/sources.list.d/cuda-debian12-x86_64.list", f"deb [signed-by=/usr/share/keyrings/cuda.gpg] {NVIDIA_URL} /\n")
    file = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
    assert _driver(host)["repository"] == {"file": file, "url": NVIDIA_URL, "owned": False}
    host.write("etc/apt/sources.list.d/gpufleet-nvidia.sources", "Types: deb\nURIs: http://mirror.example/nvidia/\nSuites: ./\n")
    file = "/etc/apt/sources.list.d/gpufleet-nvidia.sources"
    assert _driver(host)["repository"] == {"file": file, "url": "http://mirror.example/nvidia/", "owned": True}


def test_yum_repository(host: Any) -> None:
    host.write("etc/yum.repos.d/cuda-rhel9.repo", "[cuda]\nbaseurl=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64\n")
    found = _driver(host)["repository"]
    assert found["url"] == "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64"
