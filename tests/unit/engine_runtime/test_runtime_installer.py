"""Nothing secret in arguments, environment or errors; nothing of the host's own settings."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_installer as installer
from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_python as python
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

SOURCES = installer.Sources("https://pypi.example.com/simple", ["https://more.example.com/simple"], ["/srv/wheels"], "me", "")


@pytest.mark.parametrize("uv", [True, False])
def test_the_password_lies_in_a_file_of_root(tmp_path: Path, uv: bool) -> None:
    env = installer.environment(uv, SOURCES, "/cache", str(tmp_path / "private"), "s3cret")
    words = installer.command("/opt/uv" if uv else "", "/build", "/lock", index=True)
    assert "s3cret" not in " ".join([*words, *env.values()])
    netrc = Path(env["NETRC"])
    assert netrc.read_text() == "machine pypi.example.com\nlogin me\npassword s3cret\n"
    assert stat.S_IMODE(os.stat(netrc).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(netrc.parent).st_mode) == 0o700


@pytest.mark.parametrize("uv", [True, False])
def test_offline_means_no_index(tmp_path: Path, uv: bool) -> None:
    env = installer.environment(uv, SOURCES._replace(index_url=""), "/cache", str(tmp_path), "")
    assert "example.com" not in " ".join(env.values())
    assert "--no-index" in installer.command("/opt/uv" if uv else "", "/build", "/lock", index=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "checksum"),
        ("error: Hash mismatch for `vllm==0.33.0`", "checksum"),
        ("OSError: [Errno 28] No space left on device", "disk_full"),
        ("HTTP status client error (401 Unauthorized) for url (https://me:s3cret@pypi/simple)", "denied"),
        ("ERROR: No matching distribution found for vllm==0.33.0", "not_found"),
        ("Because vllm==0.33.0 has no wheels with a matching Python ABI tag", "not_found"),
        ("error sending request for url (https://pypi/): dns error", "unreachable"),
        ("something else with s3cret", "failed"),
    ],
)
def test_why_an_installer_failed(text: str, reason: str) -> None:
    error = installer.explained(Result("ok", 1, "", text), 5, "s3cret")
    assert error.reason == reason
    assert "s3cret" not in str(error)


def test_an_installer_that_never_ends() -> None:
    assert installer.explained(Result("timeout", -9, "", ""), 5).reason == "timeout"


@pytest.mark.parametrize(
    ("version", "requires", "fits"),
    [
        ("3.12.3", "<3.13,>=3.9", True),
        ("3.13.0", "<3.13,>=3.9", False),
        ("3.8.9", ">=3.9", False),
        ("3.10.1", "<=3.10", True),
        ("3.11.4", "==3.11.*", True),
        ("3.9.7", "!=3.9.7,>=3.8", False),
        ("3.9.7", "", True),
    ],
)
def test_python_within(version: str, requires: str, fits: bool) -> None:
    assert python.satisfies(version, requires) is fits


def test_an_interpreter_that_only_its_owner_reaches(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python3").write_text("")
    with pytest.raises(WorkError, match="which only its owner may enter"):
        python._reachable(python.Python(str(closed / "python3"), "3.12.0"))
