"""The driver role on a real kernel: Debian's own packages, GRUB, initramfs, reboots. There is no GPU, and that is a state with a name."""

from __future__ import annotations

ROLE = {"nvidia_driver_source": "distribution", "nvidia_driver_reboot": "if_needed"}
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
    # nouveau's is Debian's own, by a link into /etc/alternatives; the role writes one only where nobody else did.
    inside = machine.ssh(
        "sudo unmkinitramfs /boot/initrd.img-$(uname -r) /tmp/i && sudo find /tmp/i -path '*/modprobe.d/*.conf' -exec cat {} +"
    ).stdout
    assert "blacklist nouveau" in inside
    assert "options nvidia NVreg_EnableGpuFirmware=0" in inside
    # By alias, as udev asks for it: nothing to load.
    assert machine.ssh("sudo modprobe -b -n -v nouveau").stdout == ""
    assert "NVreg_EnableGpuFirmware=0" in machine.ssh("sudo modprobe -c").stdout

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


def test_kernel_that_came_meanwhile_is_the_one_that_facts_foresee(machines, play):
    """Debian's cloud kernel beside the usual one, without headers: DKMS has nothing for it."""
    machine = machines("driver", "secure")
    machine.ssh("sudo apt-get -qq update && sudo apt-get -y -qq install --no-install-recommends linux-image-cloud-amd64", timeout=1500)
    kernel = play(machine, "look.yml")["facts"]["host"]["kernel"]
    assert len(kernel["installed"]) == 2
    machine.reboot()
    booted = machine.ssh("uname -r").stdout.strip()
    # GRUB puts it first: of one version, the name that sorts last.
    assert kernel["next_boot"] == booted != kernel["release"]
    told = play(machine, **ROLE)
    assert "driver.module_missing" in told["stopped"]
    assert booted in told["stopped"]
