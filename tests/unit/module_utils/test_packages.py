# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package databases, read without a package manager."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _package_sets, _packages
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia-driver-550-open", "driver"),
        ("libnvidia-compute-570", "driver"),
        ("libcuda1", "driver"),
        ("cuda-drivers-570", "driver"),
        ("nvidia-fabricmanager", "driver"),
        ("nvlsm", "driver"),
        ("kmod-nvidia-open-dkms", "driver"),
        ("linux-modules-nvidia-570-open-generic", "driver"),
        ("firmware-nvidia-gsp", "driver"),
        ("nvidia-cuda-mps", "driver"),
        ("cuda-toolkit-12-4", "cuda"),
        ("cuda-compat-12-9", "cuda"),
        ("libcudnn9-cuda-12", "cuda"),
        ("libnccl2", "cuda"),
        ("nvidia-cuda-toolkit", "cuda"),
        ("nvidia-container-toolkit-base", "toolkit"),
        ("libnvidia-container1", "toolkit"),
        ("docker-ce", "engine"),
        ("docker-ce-cli", None),
        ("containerd.io", "engine"),
        ("cri-o-1.31", "engine"),
        ("nvtop", None),
        ("envidia", None),
        ("barracuda", None),
    ],
)
def test_sets(name: str, expected: str | None) -> None:
    assert _package_sets.set_of(name) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1:570.133.20-1~deb12u1", "570.133.20"), ("12.4.1-1", "12.4.1"), ("5:26.1.3-1~ubuntu", "26.1.3"), ("4.3.1+ds1-8+b1", "4.3.1")],
)
def test_upstream_versions(version: str, expected: str) -> None:
    assert _package_sets.upstream(version) == expected


def test_driver_version_is_the_librarys() -> None:
    found = {"nvidia-settings": "575.1.1-1", "nvidia-modprobe": "575.1.1-1", "libnvidia-ml1": "570.133.20-1"}
    assert _package_sets.driver_version(found) == "570.133.20"
    assert _package_sets.driver_version({"nvidia-driver-550": "550.90.07-0ubuntu1", "x": "12.4"}) == "550.90.07"
    assert _package_sets.driver_version({"nvidia-modprobe": "1.2"}) is None


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["nvidia-dkms-570-open"], "open"),
        (["nvidia-kernel-open-dkms", "libnvidia-ml1"], "open"),
        (["nvidia-open-kernel-dkms"], "open"),
        (["kmod-nvidia-latest-dkms"], "proprietary"),
        (["nvidia-kernel-dkms"], "proprietary"),
        (["nvidia-dkms-570", "nvidia-dkms-570-open"], None),
        (["libnvidia-ml1"], None),
    ],
)
def test_kernel_modules(names: list[str], kind: str | None) -> None:
    assert _package_sets.kernel_modules(names) == kind


def test_dpkg(host: Any) -> None:
    host.dpkg(
        "bash 5.2-1",
        "libnvidia-ml1 570.133.20-1 hold ok installed",
        "nvidia-open-kernel-dkms 570.133.20-1 install ok half-configured",
        "nvidia-settings 535.1.1-1 deinstall ok config-files",
        "nvidia-container-toolkit 1.17.8-1",
        "docker-ce 5:26.1.3-1~debian",
    )
    with open(host.root / "var/lib/dpkg/status", "a") as status:
        status.write("\nPackage: libnvidia-ml1\nStatus: install ok installed\nArchitecture: i386\nVersion: 570.133.20-1\n")
        status.write("\nPackage: nvidia-never\nStatus: unknown ok not-installed\n")
    packages = _packages.read_packages(host.reader(), "debian")
    assert packages.manager == "apt"
    assert packages.packages["libnvidia-ml1"] == ("570.133.20-1", True, "installed", "driver")
    assert set(packages.installed("driver")) == {"libnvidia-ml1", "libnvidia-ml1:i386", "nvidia-open-kernel-dkms"}
    assert _packages.facts(packages) == {
        "manager": "apt",
        "holds": ["libnvidia-ml1"],
        "broken": ["nvidia-open-kernel-dkms"],
        "set": {
            "libnvidia-ml1": "570.133.20-1",
            "libnvidia-ml1:i386": "570.133.20-1",
            "nvidia-open-kernel-dkms": "570.133.20-1",
            "nvidia-container-toolkit": "1.17.8-1",
        },
    }


RPM_ROWS = "bash\t0\t5.1.8-9.el9\tx86_64\nnvidia-driver\t3\t570.133.20-1.el9\tx86_64\nkmod-nvidia-open-dkms\t3\t570.133.20-1.el9\tx86_64\n"


@pytest.fixture
def rpm_host(host: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A host whose interpreter has no rpm bindings."""
    (host.root / "var/lib/rpm").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "rpm", None)
    return host


def test_rpm_by_command(rpm_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packages, "run", lambda argv, timeout: Result("ok", 0, RPM_ROWS, ""))
    rpm_host.write("etc/dnf/plugins/versionlock.list", "# comment\n!excluded-0:1-1.*\nnvidia-driver-3:570.133.20-1.el9.*\n")
    packages = _packages.read_packages(rpm_host.reader(), "redhat")
    assert packages.manager == "dnf"
    assert packages.packages == {
        "nvidia-driver": ("3:570.133.20-1.el9", True, "installed", "driver"),
        "kmod-nvidia-open-dkms": ("3:570.133.20-1.el9", False, "installed", "driver"),
    }


def test_locks_of_dnf5_and_wildcards(rpm_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packages, "run", lambda argv, timeout: Result("ok", 0, RPM_ROWS, ""))
    rpm_host.write("etc/dnf/versionlock.toml", 'version = "1.0"\n[[packages]]\nname = "*nvidia*"\ncomment = "x"\n')
    assert _packages.facts(_packages.read_packages(rpm_host.reader(), "redhat"))["holds"] == ["kmod-nvidia-open-dkms", "nvidia-driver"]


def test_rpm_that_hangs_is_unread(rpm_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packages, "run", lambda argv, timeout: Result("timeout", -9, "", ""))
    reader = rpm_host.reader()
    assert _packages.read_packages(reader, "redhat").packages == {}
    assert reader.unread == [{"part": "packages", "reason": "rpm -qa: timeout", "needs_root": False}]


def test_rpm_by_bindings(rpm_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Transaction:
        def dbMatch(self) -> list[dict[str, Any]]:
            return [{"name": "nvidia-driver", "epochnum": 3, "version": "570.1.1", "release": "1", "arch": "x86_64"}]

    class Rpm:
        TransactionSet = Transaction

    monkeypatch.setitem(sys.modules, "rpm", Rpm)  # type: ignore[arg-type]
    assert _packages.read_packages(rpm_host.reader(), "redhat").installed("driver") == {"nvidia-driver": "3:570.1.1-1"}


def test_zypper_locks(rpm_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packages, "run", lambda argv, timeout: Result("ok", 0, RPM_ROWS, ""))
    rpm_host.write("etc/zypp/locks", "type: package\nmatch_type: glob\nsolvable_name: nvidia-driver\n")
    packages = _packages.read_packages(rpm_host.reader(), "suse")
    assert (packages.manager, _packages.facts(packages)["holds"]) == ("zypper", ["nvidia-driver"])


def test_no_package_database(host: Any) -> None:
    assert _packages.read_packages(host.reader(), "unknown") == ("unknown", {}, {})


def test_enabled_module_streams(rpm_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packages, "run", lambda argv, timeout: Result("ok", 0, RPM_ROWS, ""))
    enabled = "[nvidia-driver]\nname=nvidia-driver\nstream=580-open\nprofiles=\nstate=enabled\n"
    rpm_host.write("etc/dnf/modules.d/nvidia-driver.module", enabled)
    rpm_host.write("etc/dnf/modules.d/nodejs.module", "[nodejs]\nname=nodejs\nstream=\nprofiles=\nstate=\n")
    assert _packages.facts(_packages.read_packages(rpm_host.reader(), "redhat"))["streams"] == {"nvidia-driver": "580-open"}
