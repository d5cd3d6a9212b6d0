"""What the kernel shows: PCI before any driver, the rest only after loading; and the module tools."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import FILES, LIBRARIES, Sim


def tool(sim: Sim, name: str, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """modprobe and its kin, under the name they are installed with."""
    path = sim.root / "usr/local/sbin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        shutil.copy(FILES / "bin/module-tool", path)
    return sim.run(str(path), *words, status=status)


def test_pci_devices_are_there_before_the_driver(make: Any) -> None:
    sim = make("h100-sxm", driver=None)
    pci = sim.root / "sys/bus/pci/devices"
    classes = [(d / "class").read_text(encoding="ascii").strip() for d in sorted(pci.iterdir())]
    assert classes == ["0x068000"] * 4 + ["0x030200"] * 8
    gpu = pci / "0000:1b:00.0"
    assert [
        (gpu / name).read_text(encoding="ascii").strip() for name in ("vendor", "device", "subsystem_device", "revision", "numa_node")
    ] == ["0x10de", "0x2330", "0x16c1", "0xa1", "0"]
    assert (gpu / "modalias").read_text(encoding="ascii") == "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n"
    header = (gpu / "config").read_bytes()
    assert len(header) == 256
    assert struct.unpack_from("<HH", header) == (0x10DE, 0x2330)
    assert header[9:12] == bytes([0, 2, 3])
    for absent in ("proc/driver/nvidia", "sys/module/nvidia", "dev/nvidiactl"):
        assert not (sim.root / absent).exists()
    assert "DRIVER=" not in (gpu / "uevent").read_text(encoding="ascii")


def test_loading_shows_the_rest_and_unloading_hides_it(sim: Sim) -> None:
    assert sim.read("/proc/driver/nvidia/version").startswith(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
    )
    assert "GPU UUID: \t GPU-00000000-aaaa-bbbb-cccc-000000000000\n" in sim.read("/proc/driver/nvidia/gpus/0000:00:06.0/information")
    assert "NVreg" not in sim.read("/proc/driver/nvidia/params")
    assert "EnableGpuFirmware: 18\n" in sim.read("/proc/driver/nvidia/params")
    assert sim.read("/sys/module/nvidia/version") == "580.159.04\n"
    assert sim.read("/sys/bus/pci/devices/0000:00:06.0/uevent").startswith("DRIVER=nvidia\n")
    assert sorted(p.name for p in (sim.root / "dev").iterdir()) == [
        "nvidia-caps",
        "nvidia-modeset",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia0",
        "nvidia1",
        "nvidiactl",
    ]
    sim.sg("unload")
    for gone in ("proc/driver/nvidia", "sys/module/nvidia", "dev/nvidia0"):
        assert not (sim.root / gone).exists()
    assert (sim.root / "sys/bus/pci/devices/0000:00:06.0").is_dir()


def test_blackwell_shows_nvlink5_in_infiniband(make: Any) -> None:
    sim = make("b200", driver=None)
    devices = sorted((sim.root / "sys/class/infiniband").iterdir())
    assert len(devices) == 4
    assert all(b"SW_MNG" in (d / "device/vpd").read_bytes() for d in devices)
    assert not [d for d in (sim.root / "sys/bus/pci/devices").iterdir() if (d / "class").read_text(encoding="ascii").startswith("0x0680")]


def test_nothing_is_left(sim: Sim) -> None:
    sim.sg("purge")
    left = [p for p in sim.root.rglob("*") if p.is_file() or p.is_symlink()]
    assert left == []


def test_what_packages_brought_stays(make: Any, tmp_path: Path) -> None:
    sim = make("l4", driver=None)
    install(sim, tmp_path, "580.178.04")
    sim.sg("purge")
    left = sorted(str(p.relative_to(sim.root)) for p in (sim.root / "var").rglob("*") if p.is_file())
    assert left == ["var/lib/simulated-gpu/modules/nvidia/580.178.04"]


def test_module_tools(sim: Sim) -> None:
    assert tool(sim, "modinfo", "-F", "version", "nvidia").stdout == "580.159.04\n"
    assert tool(sim, "modinfo", "-F", "license", "nvidia").stdout == "Dual MIT/GPL\n"
    assert tool(sim, "modinfo", "nvidia-uvm").stdout.startswith("filename:       /lib/modules/")
    assert "nvidia " in tool(sim, "lsmod").stdout
    assert tool(sim, "rmmod", "nvidia", status=1).stderr == "rmmod: ERROR: Module nvidia is in use by: nvidia_uvm nvidia_modeset\n"
    assert tool(sim, "modprobe", "-r", "nvidia", status=1).stderr == "modprobe: FATAL: Module nvidia is in use.\n"
    assert sim.read("/sys/module/nvidia/refcnt") == "2\n"
    assert sorted(p.name for p in (sim.root / "sys/module/nvidia/holders").iterdir()) == ["nvidia_modeset", "nvidia_uvm"]
    tool(sim, "rmmod", "nvidia_drm")
    tool(sim, "rmmod", "nvidia-uvm")
    assert not (sim.root / "dev/nvidia-uvm").exists()
    assert (sim.root / "dev/nvidia0").exists()
    # nvidia_modeset, and nvidia that only it needed
    tool(sim, "modprobe", "-r", "nvidia_modeset")
    assert "nvidia " not in tool(sim, "lsmod").stdout
    assert tool(sim, "rmmod", "nvidia", status=1).stderr == "rmmod: ERROR: Module nvidia is not currently loaded\n"
    tool(sim, "modprobe", "nvidia-uvm")
    assert sim.init_code() == 0


def test_open_device_file_keeps_its_module(sim: Sim) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys, time; os.open(sys.argv[1], os.O_PATH); print(flush=True); time.sleep(60)",
            str(sim.root / "dev/nvidia-uvm"),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout
        holder.stdout.readline()
        assert tool(sim, "rmmod", "nvidia_uvm", status=1).stderr == "rmmod: ERROR: Module nvidia_uvm is in use\n"
        assert tool(sim, "modprobe", "-r", "nvidia_uvm", status=1).stderr == "modprobe: FATAL: Module nvidia_uvm is in use.\n"
        tool(sim, "rmmod", "nvidia_drm")
    finally:
        holder.kill()
        holder.wait()
    tool(sim, "rmmod", "nvidia_uvm")


def test_module_of_another_build_does_not_fit_a_loaded_one(sim: Sim) -> None:
    tool(sim, "rmmod", "nvidia_uvm")
    sim.sg("install-module", "595.58.03")
    assert tool(sim, "modprobe", "nvidia-uvm", status=1).stderr == "modprobe: ERROR: could not insert 'nvidia_uvm': Invalid argument\n"
    tool(sim, "rmmod", "nvidia_drm", "nvidia_modeset", "nvidia")
    tool(sim, "modprobe", "nvidia")
    assert sim.read("/sys/module/nvidia_uvm/version") == "595.58.03\n"


def test_options_of_modprobe_d_come_into_force_at_load(sim: Sim) -> None:
    (sim.root / "etc/modprobe.d").mkdir(exist_ok=True)
    (sim.root / "etc/modprobe.d/nvidia.conf").write_text(
        "options nvidia NVreg_EnableS0ixPowerManagement=1 NVreg_Unknown=2\n", encoding="utf-8"
    )
    assert "EnableS0ixPowerManagement: 0\n" in sim.read("/proc/driver/nvidia/params")
    sim.boot()
    assert "EnableS0ixPowerManagement: 1\n" in sim.read("/proc/driver/nvidia/params")
    assert "Unknown" not in sim.read("/proc/driver/nvidia/params")


def test_modprobe_without_a_module(make: Any) -> None:
    sim = make("l4", driver=None)
    done = tool(sim, "modprobe", "nvidia", status=1)
    assert done.stderr.startswith("modprobe: FATAL: Module nvidia not found in directory /lib/modules/")
    assert tool(sim, "modinfo", "nvidia", status=1).stderr == "modinfo: ERROR: Module nvidia not found.\n"
    assert sim.init_code() == 12


def test_modprobe_without_a_gpu(sim: Sim) -> None:
    sim.sg("unload")
    sim.sg("fault", "no_device")
    assert tool(sim, "modprobe", "nvidia", status=1).stderr == "modprobe: ERROR: could not insert 'nvidia': No such device\n"


def test_nouveau_keeps_nvidia_out_until_blacklisted(make: Any) -> None:
    sim = make("l4", boot=False)
    (sim.root / "etc/simulated-gpu/host.conf").write_text("nouveau=1\nautoload=1\n", encoding="utf-8")
    sim.boot()
    assert "nouveau" in tool(sim, "lsmod").stdout
    assert tool(sim, "modprobe", "nvidia", status=1).stderr.endswith("No such device\n")
    blacklist = sim.root / "etc/modprobe.d/nouveau.conf"
    blacklist.parent.mkdir()
    blacklist.write_text("blacklist nouveau\noptions nouveau modeset=0\n", encoding="utf-8")
    assert sim.init_code() == 9
    sim.boot()
    assert "nouveau" not in tool(sim, "lsmod").stdout
    assert sim.init_code() == 0


def install(sim: Sim, payload: Path, version: str, flavor: str = "open") -> None:
    """What dpkg does with the payload of a new version: its files come, the old version's go."""
    built = payload / version / ".library"
    built.mkdir(parents=True)
    shutil.copy(sim.library, built / "libnvidia-ml.so")  # else payload.sh builds it
    subprocess.run([str(FILES / "payload.sh"), str(payload / version), version, flavor], check=True, timeout=60)
    for path in [*(sim.root / LIBRARIES).glob("libnvidia-ml.so.*"), *(sim.root / "var/lib/simulated-gpu/modules/nvidia").glob("*")]:
        path.unlink()
    for package in ("libnvidia-compute", "kernel", "nvidia-utils"):
        subprocess.run(["cp", "-a", f"{payload / version / package}/.", str(sim.root)], check=True, timeout=30)


def test_packages_bring_the_driver(make: Any, tmp_path: Path) -> None:
    sim = make("v100", driver=None)
    assert sim.init_code() == 12
    install(sim, tmp_path, "570.211.01", "proprietary")
    assert sim.init_code() == 9  # installed, not loaded
    tool(sim, "modprobe", "nvidia")
    assert sim.python("out = p.nvmlSystemGetDriverVersion()") == "570.211.01"
    assert sim.read("/proc/driver/nvidia/version").startswith("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.211.01")
    install(sim, tmp_path, "580.178.04", "proprietary")
    assert sim.init_code() == 18  # upgraded below a loaded module
    assert tool(sim, "modinfo", "-F", "version", "nvidia").stdout == "580.178.04\n"
    assert sim.read("/sys/module/nvidia/version") == "570.211.01\n"
    sim.boot()
    assert sim.python("out = p.nvmlSystemGetDriverVersion()") == "580.178.04"


def test_role_driver_never_overwrites_a_package(make: Any, tmp_path: Path) -> None:
    sim = make("l4", driver=None)
    install(sim, tmp_path, "580.178.04")
    done = sim.tool("simulated-gpu", "driver", "580.178.04", "--library", str(sim.library), status=2)
    assert "is there and not from this role" in done.stderr


def test_persistence_daemon(make: Any) -> None:
    sim = make("h100-sxm", count=2)
    sim.tool("nvidia-persistenced", "--user", "root", "--verbose")
    pid_file = sim.root / "var/run/nvidia-persistenced/nvidia-persistenced.pid"
    try:
        assert sim.query("persistence_mode") == ["Enabled", "Enabled"]
        assert "already running" in sim.tool("nvidia-persistenced", status=1).stderr
    finally:
        subprocess.run(["kill", pid_file.read_text(encoding="ascii").strip()], check=True, timeout=10)
    for _unused in range(100):
        if not pid_file.exists():
            break
        subprocess.run(["sleep", "0.05"], check=True, timeout=5)
    assert sim.query("persistence_mode") == ["Disabled", "Disabled"]


def test_persistence_daemon_without_device(make: Any) -> None:
    sim = make("l4", driver=None)
    assert (
        "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist"
        in sim.tool("nvidia-persistenced", status=1).stderr
    )


def test_pack_is_reproducible(tmp_path: Path) -> None:
    archives = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        done = subprocess.run([str(FILES / "pack.sh"), str(tmp_path / name)], capture_output=True, text=True, check=True, timeout=60)
        archives.append(Path(done.stdout.strip()).read_bytes())
    assert archives[0] == archives[1]


@pytest.mark.parametrize("profile", [p.stem for p in sorted((FILES / "profiles").glob("*.json"))])
def test_profiles_are_complete(make: Any, profile: str) -> None:
    sim = make(profile, driver=None, boot=False)
    conf = dict(line.split("=", 1) for line in sim.read("/etc/simulated-gpu/profile.conf").splitlines())
    for slot in range(int(conf["gpus"])):
        keys = {key.split(".", 2)[2] for key in conf if key.startswith((f"gpu.{slot}.", "gpu.*."))}
        assert {"name", "uuid", "pci.address", "pci.device_id", "memory.total", "architecture", "compute_capability", "vbios"} <= keys


def test_a_real_device_at_an_address_of_the_profile_is_never_written_to(make: Any) -> None:
    """Boot unbinds first, when our own device is not there yet: what lies at that address then belongs to the machine."""
    sim = make("l4", driver=None)
    (address,) = [d.name for d in (sim.root / "sys/bus/pci/devices").iterdir()]
    shutil.rmtree(sim.root / "sys/bus/pci/devices" / address)
    real = sim.root / "sys/devices/pci0000:00" / address
    real.mkdir(parents=True)
    (sim.root / "sys/bus/pci/devices" / address).symlink_to(real)
    (real / "driver").symlink_to("/sys/bus/pci/drivers/virtio-pci")
    (real / "uevent").write_text("DRIVER=virtio-pci\n", encoding="ascii")
    code = "from simulated_gpu import hardware, paths, profile; hardware.bind_driver(profile.Machine(paths.etc('profile.conf')), None)"
    sim.run(sys.executable, "-c", code, PYTHONPATH=str(FILES / "lib"))
    assert (real / "driver").is_symlink()
    assert (real / "uevent").read_text(encoding="ascii") == "DRIVER=virtio-pci\n"


WANTED = {
    "profile": "l4",
    "count": 2,
    "seed": "h1",
    "driver": "580.159.04",
    "proprietary": False,
    "library": "",
    "nouveau": False,
    "autoload": True,
}


def converge(sim: Sim, *words: str, status: int = 0, **changed: Any) -> list[str]:
    wanted = json.dumps({**WANTED, "faults": [], "library": str(sim.library), **changed})
    command = [str(FILES / "bin/simulated-gpu"), "converge", *words]
    done = subprocess.run(command, env=sim.environment(), input=wanted, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)["changes"] if not status else [done.stderr]  # type: ignore[no-any-return]


@pytest.fixture
def blank(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Sim:
    """A host that has the program and nothing else; the library is taken as built."""
    (tmp_path / LIBRARIES).mkdir(parents=True)
    home = tmp_path / "home"
    shutil.copytree(FILES, home, ignore=shutil.ignore_patterns("lib"))
    shutil.copytree(FILES / "lib/simulated_gpu", home / "simulated_gpu")
    sim = Sim(tmp_path, library)
    monkeypatch.setattr(sim, "environment", lambda **more: {**Sim.environment(sim, **more), "SIMULATED_GPU_LIB": str(home), "CC": "false"})
    return sim


def test_what_the_role_asks_for(blank: Sim) -> None:
    assert converge(blank, "--check") == ["library", "machine", "choices", "driver"]
    assert not (blank.root / "etc").exists()
    assert converge(blank) == ["library", "machine", "choices", "driver", "boot"]
    assert converge(blank) == converge(blank, "--check") == []
    assert len(blank.smi("-L").splitlines()) == 2
    assert converge(blank, faults=[{"name": "lost", "gpu": "1"}]) == ["faults"]
    assert converge(blank, "--check", count=3) == ["machine"]
    assert converge(blank, profile={"gpus": [{"model": "t4"}]}, driver="none", count=0) == ["machine", "driver", "boot"]
    assert blank.smi(status=12)
    assert converge(blank, profile={"gpus": [{"model": "t4"}]}, driver="packaged", count=0) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"profile": "h300"}, "no profile 'h300'; there are: a100-pcie, "),
        ({"profile": {"gpu": 1}}, "profile simulated_gpu_profile: needs a list 'gpus' of {model, count}"),
        ({"profile": {"gpus": [{"model": "l4"}], "colour": 1}}, "profile simulated_gpu_profile: unknown key 'colour'; known: "),
        ({"profile": {"gpus": [{"model": "l5"}]}}, "no model 'l5'; there are: a100-pcie-80gb, "),
        ({"faults": [{"name": "smoke"}]}, "no fault 'smoke'; there are: "),
        ({"library": "/nowhere.so"}, "no library /nowhere.so"),
    ],
)
def test_bad_wishes_are_named(blank: Sim, changed: dict[str, Any], text: str) -> None:
    message = converge(blank, status=2, **changed)[0]
    assert message.startswith(f"simulated-gpu: {text}")
    assert "Traceback" not in message
