"""What is true of a host after the role: its engines' configuration, CDI, boot order, packages."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomllib
import yaml

HOSTS = ("d13", "d12")
SET = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")


@pytest.fixture(autouse=True)
def _root(host: Any) -> Any:
    with host.sudo():
        yield


def new(host: Any) -> bool:
    return bool(host.backend.get_pytest_id().endswith("/d13"))


def refresh(host: Any) -> str:
    return "nvidia-cdi-refresh.service" if new(host) else "gpufleet-cdi-refresh.service"


# The first test: later ones ask apt and the engines themselves.
def test_second_run_asked_for_nothing(action_log: Any) -> None:
    # The unit that wakes Docker's GPU containers after a boot asks Docker; that is no run of ours.
    assert [action for action in action_log() if action.kind != "container" or "AnsiballZ" in action.caller] == []


def test_docker_kept_everything_that_was_there(host: Any) -> None:
    before = json.loads(host.file("/root/before/daemon.json").content_string)
    after = json.loads(host.file("/etc/docker/daemon.json").content_string)
    runtimes = after.pop("runtimes")
    assert runtimes.pop("nvidia") == {"path": "/usr/bin/nvidia-container-runtime", "args": []}
    assert runtimes == before.pop("runtimes")
    assert after.pop("features") == {**before.pop("features"), **({"cdi": True} if new(host) else {})}
    assert after.pop("default-runtime", None) == (None if new(host) else "nvidia")
    assert after == before


def test_a_link_stays_a_link(host: Any) -> None:
    assert host.file("/etc/docker/daemon.json").is_symlink is (not new(host))


def test_the_running_docker_is_the_one_of_the_file(host: Any) -> None:
    info = json.loads(host.check_output("docker info --format '{{json .}}'"))
    assert {"nvidia", "crun"} <= set(info["Runtimes"])
    assert info["DefaultRuntime"] == ("runc" if new(host) else "nvidia")
    assert info["CgroupDriver"] == "systemd"
    assert info.get("CDISpecDirs") == (["/etc/cdi", "/var/run/cdi"] if new(host) else None)


def test_containerd_says_itself_what_it_does(host: Any) -> None:
    dump = tomllib.loads(host.check_output("containerd config dump"))
    cri = dump["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == "registry.example.invalid/pause:3.9"
    assert cri["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert cri["registry"]["mirrors"]["docker.io"]["endpoint"] == ["https://mirror.example.invalid"]
    if new(host):
        options = cri["containerd"]["runtimes"]["nvidia"]["options"]
        assert (options["BinaryName"], options["SystemdCgroup"]) == ("/usr/bin/nvidia-container-runtime", True)
        assert cri["enable_cdi"] is True
    else:
        assert "nvidia" not in cri["containerd"]["runtimes"], "where Docker is, containerd is Docker's"


def test_containerd_root_file_got_one_line(host: Any) -> None:
    before = host.file("/root/before/config.toml").content_string.splitlines()
    after = host.file("/etc/containerd/config.toml").content_string.splitlines()
    added = ['imports = ["/etc/containerd/conf.d/*.toml"]'] if new(host) else []
    assert [line for line in after if line not in before] == added
    assert [line for line in before if line not in after] == []


def test_one_specification_of_our_kind_and_the_others_untouched(host: Any) -> None:
    specs = host.check_output("grep -l 'kind: nvidia.com/gpu' -r /etc/cdi /var/run/cdi").split()
    assert specs == ["/var/run/cdi/nvidia.yaml"]
    assert yaml.safe_load(host.file("/etc/cdi/vendor.yaml").content_string)["kind"] == "example.com/fpga"


def test_the_specification_is_of_these_gpus(host: Any) -> None:
    spec = yaml.safe_load(host.file("/var/run/cdi/nvidia.yaml").content_string)
    uuids = host.check_output("nvidia-smi --query-gpu=uuid --format=csv,noheader").splitlines()
    assert len(uuids) == 2
    assert {device["name"] for device in spec["devices"]} == {"0", "1", "all", *uuids}
    driver = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").splitlines()[0]
    assert any(mount["hostPath"].endswith(f"libnvidia-ml.so.{driver}") for mount in spec["containerEdits"]["mounts"])


def test_the_whole_set_is_at_one_version_and_held(host: Any) -> None:
    assert {host.package(name).version for name in SET} == {"1.20.0-1" if new(host) else "1.17.8-1"}
    assert set(host.check_output("apt-mark showhold").split()) >= set(SET)


def test_one_source_and_older_ones_switched_off(host: Any) -> None:
    uris = host.check_output("apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages'").split()
    ours = [uri for uri in uris if "nvidia" in uri]
    assert ours == ["http://repo.lab:8480/libnvidia-container/stable/deb/amd64/"]
    if not new(host):
        assert "\n# deb [signed-by" in host.file("/etc/apt/sources.list.d/nvidia-container-toolkit.list").content_string
        assert host.file("/etc/apt/sources.list.d/nvidia-container-toolkit.list").mode == 0o644, "apt reads it as its own user too"
        assert "Enabled: no" in host.file("/etc/apt/sources.list.d/nvidia-docker.sources").content_string


def test_engines_start_after_cdi_and_never_fall_with_it(host: Any) -> None:
    unit = refresh(host)
    for engine in ("docker.service", "containerd.service"):
        assert unit in host.check_output(f"systemctl show -p After --value {engine}").split()
        for hard in ("Requires", "Requisite", "BindsTo"):
            assert unit not in host.check_output(f"systemctl show -p {hard} --value {engine}").split()
    assert host.service(unit).is_enabled
    assert host.check_output(f"systemctl show -p NeedDaemonReload --value {unit}") == "no"


def test_no_ordering_cycle(host: Any) -> None:
    verdict = host.run(f"systemd-analyze verify docker.service containerd.service podman-restart.service {refresh(host)} multi-user.target")
    assert "cycle" not in verdict.stderr + verdict.stdout
    assert host.run("journalctl -b _PID=1 -o cat -g 'ordering cycle'").stdout.strip() in ("", "-- No entries --")


def test_refresh_was_done_before_docker_came(host: Any) -> None:
    def stamp(unit: str, name: str) -> int:
        return int(host.check_output(f"systemctl show -p {name} --value {unit}"))

    if host.run("docker inspect serve").rc == 0:  # after the reboot
        assert 0 < stamp(refresh(host), "ExecMainExitTimestampMonotonic") < stamp("docker.service", "ExecMainStartTimestampMonotonic")


def test_device_nodes_have_links_for_systemd(host: Any) -> None:
    for node in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        major, minor = (int(part, 16) for part in host.check_output(f"stat -c '%t %T' /dev/{node}").split())
        assert host.file(f"/dev/char/{major}:{minor}").linked_to == f"/dev/{node}"


def test_gpu_containers_are_back_after_the_reboot(host: Any) -> None:
    if host.run("docker inspect serve").rc != 0:
        return
    for engine in ("docker", "podman"):
        assert host.check_output(engine + " inspect -f '{{.State.Running}}' serve") == "true"
        listed = host.check_output(f"{engine} exec serve sh -c 'ls /dev'").split()
        assert {"nvidia0", "nvidia1"} <= set(listed)


def test_toolkit_configuration(host: Any) -> None:
    config = tomllib.loads(host.file("/etc/nvidia-container-runtime/config.toml").content_string)
    assert config["nvidia-container-runtime"]["log-level"] == ("warning" if new(host) else "info")


def test_backups_are_private_and_out_of_the_engines_reach(host: Any) -> None:
    found = host.check_output("stat -c '%a %n' /var/lib/gpufleet/backups/*").splitlines()
    assert found
    assert all(line.startswith("600 ") for line in found)
    assert not [name for name in host.run("ls /etc/containerd/conf.d /etc/docker").stdout.split() if "~" in name]


def test_the_engines_are_well(host: Any) -> None:
    assert host.service("docker").is_running
    assert host.service("containerd").is_running
    assert host.check_output("systemctl --failed --no-legend --plain") == ""
