"""Secure Boot for real: OVMF with Microsoft's keys, shim, Debian's signed GRUB and kernel."""

from __future__ import annotations

import pytest
from vmtool.mokmanager import Operator

PASSWORD = "Enrol-me-2026"
MOK = {"nvidia_driver_secure_boot": "mok", "nvidia_driver_mok_password": PASSWORD, "nvidia_driver_source": "distribution"}
EVERYTHING = "dpkg-query -W; sudo find /etc /var/lib/dkms /var/lib/gpufleet /boot -xdev -type f -printf '%p %s %T@\\n' 2>/dev/null | sort"


@pytest.mark.small
def test_read_and_refused_before_the_first_change(machines, play):
    machine = machines("plain", "secure")
    before = machine.ssh(EVERYTHING).stdout
    facts = play(machine, "look.yml")["facts"]
    assert (facts["state"], facts["host"]["secure_boot"]["state"]) == ("no_gpu", "enabled")
    assert facts["host"]["secure_boot"]["lockdown"] == "integrity"
    assert facts["host"]["kernel"]["next_boot"] == facts["host"]["kernel"]["release"] == machine.ssh("uname -r").stdout.strip()
    # shim hands its vendor's key on, which is none of ours.
    enrolled = machine.ssh("mokutil --list-enrolled --short").stdout.split()[0]
    assert [one[:10] for one in facts["host"]["secure_boot"]["enrolled"]] == [enrolled]

    refused = play(machine, nvidia_driver_source="distribution")
    assert "driver.secure_boot:" in refused["stopped"]
    assert "Nothing was changed" in refused["stopped"]
    assert machine.ssh(EVERYTHING).stdout == before


def test_request_is_staged_once_and_taken_back(machines, play):
    machine = machines("plain", "secure")
    staged = play(machine, "role.yml", "-vvv", **MOK)
    assert "driver.mok_enrolment_pending" in staged["stopped"]
    assert PASSWORD not in staged["text"]
    waiting = machine.ssh("sudo mokutil --list-new").stdout
    assert "(gpufleet)" in waiting
    modes = machine.ssh("sudo stat -c %a:%U /var/lib/dkms/mok.key /var/lib/dkms /var/lib/dkms/mok.pub").stdout.split()
    assert modes == ["600:root", "755:root", "644:root"]
    assert "nvidia" not in machine.ssh("dpkg-query -W").stdout
    again = play(machine, **{**MOK, "nvidia_driver_mok_password": ""})
    assert "driver.mok_enrolment_pending" in again["stopped"]
    assert "Nothing was changed" in again["stopped"]
    assert machine.ssh("sudo mokutil --list-new").stdout == waiting

    assert play(machine, nvidia_driver_state="absent")["stopped"] == ""
    assert machine.ssh("ls /sys/firmware/efi/efivars | grep -E 'MokNew|MokAuth'").stdout == ""
    assert machine.ssh("sudo ls /var/lib/dkms/mok.key /var/lib/gpufleet/driver.json").stdout == ""


def test_unwatched_boot_drops_the_request_and_the_next_run_asks_anew(machines, play):
    machine = machines("plain", "secure")
    play(machine, **MOK)
    machine.reboot()
    assert machine.ssh("ls /sys/firmware/efi/efivars | grep MokNew").stdout == ""
    told = play(machine, **{**MOK, "nvidia_driver_mok_password": ""})
    assert "driver.mok_password_missing" in told["stopped"]
    assert "driver.mok_enrolment_pending" in play(machine, **MOK)["stopped"]


def test_requests_of_others_are_left_alone(machines, play):
    machine = machines("plain", "secure")
    machine.ssh(
        "cd /tmp && openssl req -new -x509 -nodes -newkey rsa:2048 -subj /CN=other -keyout k -outform DER -out c 2>/dev/null && "
        "echo pass-of-others > p && openssl passwd -6 -in p > h && sudo mokutil --import c --hash-file h"
    )
    before = machine.ssh("sudo mokutil --list-new; sudo sha256sum /sys/firmware/efi/efivars/MokAuth-*").stdout
    assert "driver.mok_foreign_request" in play(machine, **MOK)["stopped"]
    assert machine.ssh("sudo mokutil --list-new; sudo sha256sum /sys/firmware/efi/efivars/MokAuth-*").stdout == before


def test_enrolled_at_the_console_the_kernel_takes_the_modules(machines, play):
    """Debian's driver, built and signed by DKMS; refused by the kernel before, taken after."""
    machine = machines("driver", "secure")
    refused = machine.ssh("sudo modprobe nvidia-current; sudo dmesg | tail -n 20")
    assert "Key was rejected by service" in refused.stderr
    staged = play(machine, **MOK)
    assert "driver.mok_enrolment_pending" in staged["stopped"]
    before = machine.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()
    operator = Operator(machine.console)
    machine.ssh("sudo systemctl reboot")
    operator.enrol(PASSWORD)
    operator.close()
    machine.wait(boot_not=before)
    done = play(machine, **MOK)
    assert done["stopped"] == ""
    facts = play(machine, "look.yml")["facts"]["host"]["secure_boot"]
    assert (facts["mok_enrolled"], facts["requested"]) == (True, [])
    # Taken, and then without work: there is no GPU.
    taken = machine.ssh("sudo modprobe nvidia-current; sudo dmesg")
    assert "No such device" in taken.stderr
    assert "NVRM: No NVIDIA GPU found." in taken.stdout
    quiet = play(machine, **{**MOK, "nvidia_driver_mok_password": ""})
    assert (quiet["stopped"], quiet["plan"]["changes"]) == ("", [])
