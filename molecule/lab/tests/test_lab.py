"""What scenarios rely on in a lab host."""

from __future__ import annotations

from typing import Any


def test_system_is_up_and_boots_count(host: Any) -> None:
    assert host.check_output("systemctl is-system-running") == "running"
    assert len(host.file("/proc/sys/kernel/random/boot_id").content_string.strip()) == 36


def test_unit_runs_and_is_confined(host: Any) -> None:
    assert host.service("lab-test.service").is_running
    pid = host.check_output("systemctl show -p MainPID --value lab-test.service")
    assert "ro," in host.check_output(f"grep ' / ' /proc/{pid}/mountinfo | head -n 1")


def test_second_run_asked_for_nothing(action_log: Any) -> None:
    assert action_log() == []


def test_second_run_is_counted(action_log: Any, host_tasks: dict[str, int]) -> None:
    """copy asks stat and, on a change, two more; systemd is one: three starts for two host-tasks."""
    assert [action.words for action in action_log("module")] == ["stat", "file", "systemd_service"]
    assert host_tasks == {"ok": 2, "total": 2}


def test_hosts_are_ordinary(host: Any) -> None:
    assert host.check_output("whoami") == "ops"
    assert host.check_output("hostname") in {"h1", "h2"}
    assert host.run("getent hosts repo.lab h1 h2").rc == 0


def test_repository_is_served_and_signed(host: Any) -> None:
    url = "http://repo.lab:8480/compute/cuda/repos/debian12/x86_64"
    assert "Origin: NVIDIA" in host.check_output(f"curl -fsS {url}/InRelease")
    assert "BEGIN PGP PUBLIC KEY" in host.check_output(f"curl -fsS {url}/3bf863cc.pub")
