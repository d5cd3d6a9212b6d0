"""The driver role on a real kernel: Debian's own packages, GRUB, initramfs, reboots. There is no GPU, and that is a state with a name."""

from __future__ import annotations

import datetime

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver import plan

ROLE = {"nvidia_driver_source": "distribution", "nvidia_driver_reboot": "if_needed"}
H100 = "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"
PARAMETERS = {"nvidia": {"NVreg_EnableGpuFirmware": "0"}}


def boot_id(machine):
    return machine.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()


def warned(result):
    return {finding["id"] for finding in result["plan"]["findings"]}


def test_nouveau_goes_by_a_real_reboot_and_stays_away(machines, play):
    """The modules were built by DKMS when the image was made; here nothing is built."""
    machine = machines("driver", "secure")
    assert machine.ssh("sudo modprobe nouveau && lsmod | grep ^nouveau").returncode == 0
    before = boot_id(machine)
    foreseen = play(machine, "role.yml", "--check", **ROLE, nvidia_driver_module_parameters=PARAMETERS)
    assert "driver.reboot" in {change["id"] for change in foreseen["plan"]["changes"]}
    assert boot_id(machine) == before

    done = play(machine, **ROLE, nvidia_driver_module_parameters=PARAMETERS)
    assert done["stopped"] == ""
    after = boot_id(machine)
    assert after not in ("", before)
    assert machine.ssh("lsmod | grep ^nouveau").stdout == ""
    # The initramfs that this boot came from, file by file.
    listed = machine.ssh("lsinitramfs /boot/initrd.img-$(uname -r)").stdout
    assert "etc/modprobe.d/gpufleet-nvidia.conf" in listed
    # Debian's own file of that is a link into /etc/alternatives; nouveau at work beside it has the role write one too.
    inside = machine.ssh(
        "sudo unmkinitramfs /boot/initrd.img-$(uname -r) /tmp/i && sudo find /tmp/i -path '*/modprobe.d/*.conf' -exec cat {} +"
    ).stdout
    assert "blacklist nouveau" in inside
    assert "options nvidia-current NVreg_EnableGpuFirmware=0" in inside
    # By its name, and as udev asks for a GPU's driver: our option comes along, and nouveau does not.
    for asked in ("nvidia", "nvidia-uvm", "nvidia-current"):
        assert "NVreg_EnableGpuFirmware=0" in machine.ssh(f"sudo modprobe -n -v {asked}").stdout
    by_alias = machine.ssh(f"sudo modprobe -a -b -n -v nouveau {H100}").stdout
    assert "nvidia" in by_alias
    assert "nouveau" not in by_alias

    quiet = play(machine, **ROLE, nvidia_driver_module_parameters=PARAMETERS)
    assert (quiet["stopped"], quiet["plan"]["changes"]) == ("", [])
    assert "driver.no_gpu" in warned(quiet)
    assert boot_id(machine) == after


def test_what_a_host_without_gpu_says_becomes_a_state(machines, play):
    machine = machines("driver", "direct")
    said = machine.ssh("sudo modprobe nvidia-current; nvidia-smi")
    assert "No such device" in said.stderr
    assert "couldn't communicate with the NVIDIA driver" in said.stdout
    facts = play(machine, "look.yml")["facts"]
    assert facts["state"] == "no_gpu"
    assert facts["driver"]["loaded"] is None
    assert facts["driver"]["installed"]["module_version"] == facts["driver"]["installed"]["version"]
    release = machine.ssh("uname -r").stdout.strip()
    assert [entry["state"] for entry in facts["driver"]["installed"]["dkms"] if entry["kernel"] == release] == ["installed"]
    assert facts["host"]["secure_boot"]["state"] == "unsupported"


def refused_with_a_gpu(facts, **desired):
    """Ids of what blocks on this very host, had it a GPU that nouveau drives: these machines have none."""
    facts["pci"]["gpus"] = [{"address": "0000:01:00.0", "device_id": "2330", "driver": "nouveau"}]
    facts["driver"]["nouveau"]["loaded"] = True
    done = plan(desired, facts, load_matrix(), Context(today=datetime.date.today()))
    return [finding.id for finding in done.findings if finding.severity == "block"]


def test_kernel_that_came_meanwhile_is_seen_before_it_boots(machines, play):
    """Debian's cloud kernel beside the usual one, without headers: DKMS has nothing for it."""
    machine = machines("driver", "secure")
    machine.ssh("sudo apt-get -qq update && sudo apt-get -y -qq install --no-install-recommends linux-image-cloud-amd64", timeout=1500)
    assert play(machine, **ROLE)["stopped"] == ""
    facts = play(machine, "look.yml")["facts"]
    kernel, on_disk = facts["host"]["kernel"], facts["driver"]["installed"]["modules"]
    assert len(kernel["installed"]) == 2
    assert (on_disk[kernel["release"]]["version"], on_disk[kernel["next_boot"]]) == (facts["driver"]["installed"]["version"], None)
    assert refused_with_a_gpu(facts, **{name.removeprefix("nvidia_driver_"): value for name, value in ROLE.items()}) == [
        "driver.module_missing_next_boot"
    ]
    machine.reboot()
    booted = machine.ssh("uname -r").stdout.strip()
    # GRUB puts it first: of one version, the name that sorts last.
    assert kernel["next_boot"] == booted != kernel["release"]
    told = play(machine, **ROLE)
    assert "driver.module_missing" in told["stopped"]
    assert booted in told["stopped"]
