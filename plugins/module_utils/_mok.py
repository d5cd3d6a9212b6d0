# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine owner key of a host: made or imported, its enrolment asked for or taken back. Private to the collection.

Secrets reach programs by files that only root can open, in a folder that is gone afterwards; never by arguments.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import typing as t

from ._driver_record import read_record, update_record
from ._errors import HostError
from ._reader import Reader
from ._secure_boot import fingerprint, read_requested, read_secure_boot
from ._subprocess import Result, run
from ._wait import boot_id

OPENSSL_TIMEOUT = 120.0
MOKUTIL_TIMEOUT = 60.0
DAYS = "3650"


class Key(t.NamedTuple):
    """Where DKMS has its pair, and the pair that is to be there ('' and '': any)."""

    private_path: str
    certificate_path: str
    private: str = ""
    certificate: str = ""


def request(key: Key, password: str, check: bool) -> tuple[bool, str]:
    """Whether something changed, and the fingerprint that waits for enrolment (or is enrolled already)."""
    for tool in ("openssl", "mokutil"):
        if shutil.which(tool, path="/usr/bin:/usr/sbin:/bin:/sbin") is None:
            raise HostError(f"{tool} is not installed; install package {tool}")
    reader = Reader()
    before = read_secure_boot(reader)
    if before["state"] != "enabled":
        raise HostError(f"Secure Boot is {before['state']} here; there is nothing to enrol a key for")
    with _private_folder() as folder:
        made = _files(key, folder, check)
        if check and made:
            return True, ""
        mark = _mark(key.certificate_path)
        if mark in (before["enrolled"] or []) or before["requested"] == [mark]:
            return made, mark
        others = [one for one in before["requested"] or [] if one != mark]
        if others:
            raise HostError(f"somebody else asked for the enrolment of {', '.join(others)}; a request of ours would replace its password")
        if not check:
            _import(key, password, folder)
            if read_requested(reader) != [mark]:
                raise HostError(f"mokutil was content, but the firmware holds no request for {mark}; is its variable store full?")
            recorded = read_record().get("mok") or {}
            update_record({"mok": {"fingerprint": mark, "boot_id": boot_id(), "made": made or bool(recorded.get("made"))}})
    return True, mark


def withdraw(mark: str, check: bool) -> bool:
    """Take back the request for `mark` if it is the only one, and what we made for it if it was never enrolled."""
    reader = Reader()
    record = read_record().get("mok") or {}
    state = read_secure_boot(reader)
    if check or not record:
        return bool(record)
    if state["requested"] == [mark]:
        _checked(run(["mokutil", "--revoke-import"], timeout=MOKUTIL_TIMEOUT), "mokutil --revoke-import")
    if record.get("made") and state["key"]["fingerprint"] == mark and state["mok_enrolled"] is not True:
        for path in (state["key"]["private"], state["key"]["certificate"]):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    update_record({"mok": None})
    return True


def _files(key: Key, folder: str, check: bool) -> bool:
    """The pair as asked for; whether its files changed."""
    here = all(os.path.exists(path) for path in (key.private_path, key.certificate_path))
    new_private, new_certificate = os.path.join(folder, "key"), os.path.join(folder, "certificate")
    if key.private:
        _imported(key, folder, new_private, new_certificate)
        if here and _mark(key.certificate_path) == _mark(new_certificate) and _same_key(key.private_path, new_private):
            return False
    elif here:
        return False
    elif not check:
        name = f"{socket.gethostname().split('.')[0][:30]} module signing key (gpufleet)"
        _openssl(
            "make a signing key",
            *("req", "-new", "-x509", "-nodes", "-batch", "-newkey", "rsa:2048", "-sha256", "-days", DAYS, "-subj", f"/CN={name}"),
            *("-addext", "extendedKeyUsage=codeSigning", "-outform", "DER", "-keyout", new_private, "-out", new_certificate),
        )
    if not check:
        # The key first: a certificate without key makes DKMS build another pair.
        _place(new_private, key.private_path, 0o600)
        _place(new_certificate, key.certificate_path, 0o644)
    return True


def _place(source: str, path: str, mode: int) -> None:
    """Never readable for others, not for a moment, unless `mode` says so."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    part = f"{path}.gpufleet"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part)
    with open(source, "rb") as content, os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as to:
        to.write(content.read())
        to.flush()
        os.fsync(to.fileno())
    os.replace(part, path)


def _imported(key: Key, folder: str, private: str, certificate: str) -> None:
    """The given pair as files; a pair that is none is an error before anything is written elsewhere."""
    for path, text in ((private, key.private), (os.path.join(folder, "pem"), key.certificate)):
        with open(path, "w", encoding="ascii") as to:
            to.write(text.strip() + "\n")
    _openssl("read nvidia_driver_mok_certificate", "x509", "-in", os.path.join(folder, "pem"), "-outform", "DER", "-out", certificate)
    public = _openssl("read nvidia_driver_mok_private_key", "pkey", "-in", private, "-passin", "pass:", "-pubout").out
    if public != _openssl("read its public key", "x509", "-in", os.path.join(folder, "pem"), "-noout", "-pubkey").out:
        raise HostError("nvidia_driver_mok_private_key and nvidia_driver_mok_certificate do not belong together")


def _same_key(one: str, other: str) -> bool:
    texts = [run(["openssl", "pkey", "-in", path, "-passin", "pass:", "-pubout"], timeout=OPENSSL_TIMEOUT) for path in (one, other)]
    return texts[0].success and texts[0].out == texts[1].out


def _import(key: Key, password: str, folder: str) -> None:
    if not password:
        raise HostError("asking for the enrolment of a key needs a one-time password")
    given, hashed = os.path.join(folder, "password"), os.path.join(folder, "hash")
    with open(given, "w", encoding="ascii") as to:
        to.write(password + "\n")
    digest = _openssl("hash the password", "passwd", "-6", "-in", given).out.strip()
    with open(hashed, "w", encoding="ascii") as to:
        to.write(digest + "\n")
    _checked(run(["mokutil", "--import", key.certificate_path, "--hash-file", hashed], timeout=MOKUTIL_TIMEOUT), "mokutil --import")


def _mark(path: str) -> str:
    with open(path, "rb") as source:
        return fingerprint(source.read())


def _openssl(what: str, *arguments: str) -> Result:
    return _checked(run(["openssl", *arguments], timeout=OPENSSL_TIMEOUT, env={"OPENSSL_CONF": "/dev/null"}), what)


def _checked(result: Result, what: str) -> Result:
    if not result.success:
        said = (result.err.strip() or result.out.strip()).splitlines()
        raise HostError(f"cannot {what}: {said[-1] if said else result.state}")
    return result


@contextlib.contextmanager
def _private_folder() -> t.Iterator[str]:
    """In memory, for root only (mkdtemp makes it so), gone afterwards."""
    folder = tempfile.mkdtemp(prefix="gpufleet-mok-", dir="/run")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
