#!/usr/bin/env python3
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of a flat APT repository, each broken in one way: damaged_repositories.py GOOD FOLDER.

Package files are hard links, so all of it takes a second.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOST = "libcuda1_595.91.07-1_amd64.deb"


def main() -> int:
    good, folder = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    for damage in (no_release, half_synced, lost_file, wrong_file, bad_signature, expired_key):
        copy = folder / damage.__name__ / "debian12/x86_64"
        shutil.copytree(good, copy, copy_function=os.link)
        damage(copy)
    return 0


def rewrite(path: Path, content: bytes) -> None:
    """A new file in place of the link, which is the good repository's own."""
    path.unlink()
    path.write_bytes(content)


def no_release(copy: Path) -> None:
    for name in ("InRelease", "Release", "Release.gpg"):
        (copy / name).unlink(missing_ok=True)


def half_synced(copy: Path) -> None:
    """The index is newer than the signed list of hashes."""
    content = (copy / "Packages").read_bytes() + b"\nPackage: new\nVersion: 1\nArchitecture: all\nFilename: ./new.deb\nSize: 1\n"
    rewrite(copy / "Packages", content)
    rewrite(copy / "Packages.gz", gzip.compress(content))


def lost_file(copy: Path) -> None:
    (copy / LOST).unlink()


def wrong_file(copy: Path) -> None:
    rewrite(copy / LOST, bytes((copy / LOST).stat().st_size))


def bad_signature(copy: Path) -> None:
    rewrite(copy / "InRelease", (copy / "InRelease").read_bytes().replace(b"Origin: NVIDIA", b"Origin: Nvidia", 1))
    (copy / "Release.gpg").unlink(missing_ok=True)


def expired_key(copy: Path) -> None:
    """Signed anew by a key that ended long ago; key.asc is its public half."""
    with tempfile.TemporaryDirectory() as home:
        then = ["gpg", "--homedir", home, "--batch", "--quiet", "--yes", "--passphrase", "", "--faked-system-time", "20240101T000000"]
        subprocess.run([*then, "--quick-gen-key", "Test lab, expired (not NVIDIA)", "rsa2048", "sign", "2d"], check=True)
        rewrite(copy / "InRelease", b"")
        subprocess.run([*then, "--output", str(copy / "InRelease"), "--clearsign", str(copy / "Release")], check=True)
        (copy / "Release.gpg").unlink(missing_ok=True)
        exported = subprocess.run(["gpg", "--homedir", home, "--batch", "--armor", "--export"], check=True, capture_output=True)
        (copy / "key.asc").write_bytes(exported.stdout)
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)


if __name__ == "__main__":
    raise SystemExit(main())
