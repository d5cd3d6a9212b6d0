"""The lab's pure parts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from labtool import actions, cli, deb, hosts, repository
from labtool.settings import LabError


def test_host_specs() -> None:
    host = hosts.parse("h1:h100-sxm-x8@debian13+privileged", "debian12")
    assert (host.name, host.profile, host.image, host.privileged) == ("h1", "h100-sxm-x8", "debian13", True)
    assert hosts.parse("h2", "debian12").image == "debian12"


@pytest.mark.parametrize("spec", ["", "h 1", "h1+fast", "../x:l4"])
def test_bad_host_specs_name_the_form(spec: str) -> None:
    with pytest.raises(LabError, match=r"NAME\[:PROFILE\]|unknown option"):
        hosts.parse(spec, "debian12")


def test_action_log_starts_at_the_last_mark() -> None:
    text = "t1\tservice-change\tx\tsystemctl restart a\nt2\tmark\t\t\ncut line\nt3\tmodule\tx\tping\nt4\tpackage-query\ty\tdpkg -l\n"
    found = actions.parse(text)
    assert [action.words for action in found] == ["ping", "dpkg -l"]
    assert actions.of_kind(found, actions.CHANGES) == []
    assert [action.words for action in actions.of_kind(found, actions.PACKAGE_MANAGER)] == ["dpkg -l"]
    assert len(actions.parse(text.replace("mark", "other"))) == 4


def test_clean_leaves_the_disks_of_test_machines(tmp_path: Path) -> None:
    """Both keep their caches in one folder; a driver image takes a quarter of an hour to make again."""
    for folder in ("repo-1", "gnupg", "vm-driver-1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "inside").touch()
    for file in ("debian12-1.tar", "repo.lock", "vm-key", "vm-key.pub"):
        (tmp_path / file).touch()
    cli._clean_cache(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["vm-driver-1", "vm-key", "vm-key.pub"]
    assert (tmp_path / "vm-driver-1/inside").exists()


def test_deb_is_a_deb(tmp_path: Path) -> None:
    package = deb.Package(
        {"Package": "a", "Version": "1-1", "Architecture": "amd64", "Maintainer": "x <x@example.invalid>", "Description": "d"},
        {"usr/bin/a": deb.Content(b"#!/bin/sh\n", 0o755), "usr/lib/a.so.1": deb.Content(link="a.so.2"), "etc/a.conf": deb.Content(b"x\n")},
        {"postinst": "#!/bin/sh\n"},
    )
    path = tmp_path / package.filename
    path.write_bytes(deb.build(package))
    if subprocess.run(["which", "dpkg-deb"], capture_output=True).returncode:
        pytest.skip("dpkg-deb is not on this machine")

    def ask(option: str, *words: str) -> str:
        return subprocess.run(["dpkg-deb", option, str(path), *words], capture_output=True, text=True, check=True).stdout

    assert ask("-f", "Package").strip() == "a"
    listing = ask("-c")
    assert "./usr/lib/a.so.1 -> a.so.2" in listing
    assert "-rwxr-xr-x" in next(line for line in listing.splitlines() if line.endswith("./usr/bin/a"))
    assert "/etc/a.conf" in ask("-I", "conffiles")


@pytest.fixture(scope="module")
def packages() -> dict[str, list[deb.Package]]:
    """All packages of the description by repository path, without contents."""

    class Nothing:
        def files(self, words: list[str], upstream: str, branch: str) -> dict[str, deb.Content]:
            return {}

        scripts = staticmethod(lambda words: {})

    description = repository.load()
    return {
        entry["path"]: [
            package
            for name in entry["sets"]
            for package in repository._set(description, entry, description["sets"][name], Nothing())  # type: ignore[arg-type]
        ]
        for entry in description["repositories"]
    }


def test_every_relation_can_be_met_within_the_repository(packages: dict[str, list[deb.Package]]) -> None:
    for path, found in packages.items():
        names = {package.fields["Package"] for package in found}
        names |= {word.strip() for package in found for word in package.fields.get("Provides", "").split(",")}
        for package in found:
            for group in filter(None, package.fields.get("Depends", "").split(", ")):
                wanted = [alternative.split()[0] for alternative in group.split("|")]
                assert names & set(wanted) or wanted == ["libc6"], f"{path}: {package.fields['Package']} depends on {group}"


def test_no_package_version_twice(packages: dict[str, list[deb.Package]]) -> None:
    for path, found in packages.items():
        names = [package.filename for package in found]
        assert sorted(names) == sorted(set(names)), path


def test_names_change_at_590(packages: dict[str, list[deb.Package]]) -> None:
    ubuntu = {package.fields["Package"] for package in packages["compute/cuda/repos/ubuntu2404/x86_64"]}
    assert {"libnvidia-compute-580", "nvidia-dkms-580-open", "libnvidia-compute", "nvidia-dkms-open", "nvidia-driver-pinning-595"} <= ubuntu
    assert "libnvidia-compute-595" not in ubuntu
    debian = {package.fields["Package"] for package in packages["compute/cuda/repos/debian12/x86_64"]}
    assert {"nvidia-open", "nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-fabricmanager-580", "nvidia-fabricmanager"} <= debian
