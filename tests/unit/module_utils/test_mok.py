# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine owner key: real openssl, and a mokutil of our own that writes what the real one leaves in the firmware."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_secure_boot_facts import ATTRIBUTES, EFIVARS, OTHER, SHIM, VENDOR, listed

from ansible_collections.gpufleet.inference.plugins.module_utils import _mok
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result, run

PASSWORD = "Enrol-me-2026"


@pytest.fixture
def firmware(host: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A host with Secure Boot on; `firmware.calls` are the commands it saw."""
    host.write(EFIVARS + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", ATTRIBUTES + b"\1")
    host.write(f"{EFIVARS}MokListRT{SHIM}", ATTRIBUTES + listed(VENDOR))
    host.write("etc/dkms/framework.conf", f"mok_signing_key={tmp_path}/k/mok.key\nmok_certificate={tmp_path}/k/mok.pub\n")
    host.calls = []
    record: dict[str, Any] = {}

    def called(argv: Sequence[str], timeout: float = 0, env: Any = None) -> Result:
        host.calls.append(list(argv))
        if argv[0] != "mokutil":
            return run(argv, timeout=timeout, env=env)
        variable = host.root / f"{EFIVARS}MokNew{SHIM}"
        if argv[1] == "--revoke-import":
            variable.unlink()
        else:
            host.hash = Path(argv[4]).read_text()
            variable.write_bytes(ATTRIBUTES + listed(Path(argv[2]).read_bytes()))
        return Result("ok", 0, "", "")

    class Rooted(_mok.Reader):
        def __init__(self) -> None:
            super().__init__(sysfs=str(host.root / "sys"), procfs=str(host.root / "proc"), rootfs=str(host.root))

        def fs(self, path: str) -> str:
            return path if path.startswith(str(tmp_path)) else super().fs(path)

    monkeypatch.setattr(_mok, "run", called)
    monkeypatch.setattr(_mok, "Reader", Rooted)
    monkeypatch.setattr(_mok.shutil, "which", lambda *_args, **_more: "/usr/bin/tool")
    monkeypatch.setattr(_mok, "read_record", lambda: record)
    monkeypatch.setattr(_mok, "update_record", record.update)
    monkeypatch.setattr(_mok, "boot_id", lambda: "boot-1")
    host.key = _mok.Key(f"{tmp_path}/k/mok.key", f"{tmp_path}/k/mok.pub")
    host.record = record
    return host


def pair(folder: Path, name: str) -> tuple[str, str]:
    """A site's own key and certificate, PEM."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    run(
        [
            "openssl",
            "req",
            "-new",
            "-x509",
            "-nodes",
            "-newkey",
            "rsa:2048",
            "-subj",
            f"/CN={name}",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        60,
    )
    return key.read_text(), certificate.read_text()


def test_key_is_made_requested_once_and_its_secrets_stay_out_of_arguments(firmware: Any) -> None:
    changed, mark = _mok.request(firmware.key, PASSWORD, check=False)
    assert (changed, firmware.record["mok"]) == (True, {"fingerprint": mark, "boot_id": "boot-1", "made": True})
    assert stat.S_IMODE(Path(firmware.key.private_path).stat().st_mode) == 0o600
    assert firmware.hash.startswith("$6$")
    said = [word for call in firmware.calls for word in call]
    assert not [word for word in said if PASSWORD in word or firmware.hash.strip() in word]
    # What held password and hash is gone.
    assert not [word for word in said if "gpufleet-mok-" in word and Path(word).exists()]
    firmware.calls.clear()
    assert _mok.request(firmware.key, PASSWORD, check=False) == (False, mark)
    assert firmware.calls == []


def test_check_mode_makes_nothing(firmware: Any) -> None:
    assert _mok.request(firmware.key, PASSWORD, check=True) == (True, "")
    assert not Path(firmware.key.private_path).exists()


def test_halves_of_two_keys_are_refused_before_anything_is_written(firmware: Any, tmp_path: Path) -> None:
    one, other = pair(tmp_path, "one"), pair(tmp_path, "other")
    with pytest.raises(HostError, match="do not belong together"):
        _mok.request(firmware.key._replace(private=one[0], certificate=other[1]), PASSWORD, check=False)
    assert not Path(firmware.key.private_path).exists()


def test_imported_pair_takes_the_place_of_another(firmware: Any, tmp_path: Path) -> None:
    _mok.request(firmware.key, PASSWORD, check=False)
    (firmware.root / f"{EFIVARS}MokNew{SHIM}").unlink()
    private, certificate = pair(tmp_path, "site")
    given = firmware.key._replace(private=private, certificate=certificate)
    _changed, mark = _mok.request(given, PASSWORD, check=False)
    assert mark == _mok.fingerprint(certificate.encode())
    assert Path(firmware.key.private_path).read_text() == private
    assert _mok.request(given, PASSWORD, check=False) == (False, mark)


def test_request_of_others_is_not_joined(firmware: Any) -> None:
    firmware.write(f"{EFIVARS}MokNew{SHIM}", ATTRIBUTES + listed(OTHER))
    with pytest.raises(HostError, match="somebody else"):
        _mok.request(firmware.key, PASSWORD, check=False)


def test_request_is_taken_back_with_what_was_made_for_it(firmware: Any) -> None:
    _changed, mark = _mok.request(firmware.key, PASSWORD, check=False)
    assert _mok.withdraw(mark, check=False)
    assert not Path(firmware.key.private_path).exists()
    assert not (firmware.root / f"{EFIVARS}MokNew{SHIM}").exists()
    assert firmware.record["mok"] is None


def test_enrolled_key_stays(firmware: Any) -> None:
    _changed, mark = _mok.request(firmware.key, PASSWORD, check=False)
    (firmware.root / f"{EFIVARS}MokNew{SHIM}").unlink()
    firmware.write(f"{EFIVARS}MokListRT{SHIM}", ATTRIBUTES + listed(Path(firmware.key.certificate_path).read_bytes()))
    _mok.withdraw(mark, check=False)
    assert Path(firmware.key.private_path).exists()


def test_full_variable_store_is_no_success(firmware: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mok, "read_requested", lambda _reader: [])
    with pytest.raises(HostError, match="variable store"):
        _mok.request(firmware.key, PASSWORD, check=False)
