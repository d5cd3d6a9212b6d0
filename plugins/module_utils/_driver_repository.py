# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's package repository on a host: tried out before it is configured. Private to the collection."""

from __future__ import annotations

import os
import shutil
import tempfile
import typing as t

from ._dnf import Dnf
from ._driver_steps import Done
from ._files import read_text, remove, write_text
from ._openpgp import BadKey, fingerprints, normal
from ._package_answers import PackageError
from ._package_manager import PackageManager

KEY_FILE = "/etc/apt/keyrings/gpufleet-nvidia.asc"
SOURCE_FILE = "/etc/apt/sources.list.d/gpufleet-nvidia.sources"
DNF_KEY_FILE = "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia"
DNF_SOURCE_FILE = "/etc/yum.repos.d/gpufleet-nvidia.repo"


def source_text(url: str, key_file: str) -> str:
    return (
        "# Written by gpufleet.inference, role nvidia_driver; changes here are overwritten.\n"
        f"Types: deb\nURIs: {url}\nSuites: /\nSigned-By: {key_file}\n"
    )


def repo_text(url: str, key_file: str) -> str:
    """gpgcheck alone, as NVIDIA's own file has it: mirrors often lack the signature of the metadata, the packages carry theirs."""
    return (
        "# Written by gpufleet.inference, role nvidia_driver; changes here are overwritten.\n"
        f"[gpufleet-nvidia]\nname=NVIDIA CUDA (gpufleet.inference)\nbaseurl={url}\n"
        f"enabled=1\ngpgcheck=1\ngpgkey=file://{key_file}\n"
    )


class Repository:
    """Two files; `restore` brings back what was there before `configure`."""

    def __init__(self, url: str, key: str, fingerprint: str = "", manager: t.Optional[PackageManager] = None) -> None:
        check_key(key, fingerprint)
        self.url = url
        rpm = isinstance(manager, Dnf)
        self._key_file, source_file = (DNF_KEY_FILE, DNF_SOURCE_FILE) if rpm else (KEY_FILE, SOURCE_FILE)
        self._text, self._trial = (repo_text, "try.repo") if rpm else (source_text, "try.sources")
        self._wanted = {self._key_file: key if key.endswith("\n") else key + "\n", source_file: self._text(url, self._key_file)}
        self._before = {path: read_text(path) for path in self._wanted}
        self.changed = False

    def configure(self, apt: PackageManager) -> bool:
        """Fetch its lists through a private copy of both files, and only then put them in place. A bad repository leaves no trace."""
        folder = tempfile.mkdtemp(prefix="gpufleet-repository-")
        try:
            os.chmod(folder, 0o755)  # noqa: S103 - apt's own user reads the key
            key_file = f"{folder}/key.asc"
            write_text(key_file, self._wanted[self._key_file])
            write_text(f"{folder}/parts/{self._trial}", self._text(self.url, key_file))
            apt.update(f"{folder}/parts")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        changed = [write_text(path, text).changed for path, text in self._wanted.items()]
        self.changed = any(changed)
        return self.changed

    def restore(self) -> None:
        for path, text in reversed(list(self._before.items())):
            if text is None:
                remove(path)
            else:
                write_text(path, text)


def check_key(key: str, fingerprint: str) -> None:
    """Before anything trusts it: an OpenPGP public key, and the expected one. A file with one key more is not the expected one."""
    try:
        found = fingerprints(key)
    except BadKey as exc:
        raise PackageError("repository_key", f"the repository's key is not an ASCII-armoured OpenPGP public key: {exc}") from exc
    if fingerprint and set(found) != {normal(fingerprint)}:
        raise PackageError("repository_key", f"the repository's key has the fingerprint {', '.join(found)}; expected {normal(fingerprint)}")


def configure_and(repository: Repository, apt: PackageManager, change: t.Callable[[], Done], unfinished: t.Container[str]) -> Done:
    """Configure it, then `change`; where that fails before a package has moved, the host's sources are what they were."""
    configured = repository.configure(apt)
    try:
        done = change()
    except PackageError as exc:
        # Resolvable or nothing changes; once packages began to move, they need their repository.
        if exc.reason not in unfinished:
            repository.restore()
        raise
    return done._replace(changed=done.changed or configured)


def repository_of(options: t.Mapping[str, t.Any], opener: t.Callable[..., t.Any], manager: PackageManager) -> Repository:
    """The repository that a module's options name; the key is fetched where they bring none."""
    key = options["repository_key"] or fetch_key(options["repository_key_url"], opener)
    return Repository(options["repository_url"], key, options["repository_key_fingerprint"], manager)


def remove_repository() -> list[str]:
    """Take our two files away; the paths that were there."""
    return [path for path in (SOURCE_FILE, KEY_FILE, DNF_SOURCE_FILE, DNF_KEY_FILE) if remove(path).changed]


def fetch_key(url: str, opener: t.Callable[..., t.Any]) -> str:
    """The key's text; `opener` is ansible.module_utils.urls.open_url."""
    try:
        return str(opener(url, timeout=30).read(1_000_000).decode("utf-8", "replace"))
    except Exception as exc:  # urllib, ssl and socket each have their own
        raise PackageError("repository_unreachable", f"the repository's key cannot be fetched from {url}: {exc}") from exc
