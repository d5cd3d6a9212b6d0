"""NVIDIA-Linux-x86_64-VERSION.run as the lab has it: an archive that unpacks itself and runs the stand-in of nvidia-installer."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from .deb import EPOCH, Content
from .payload import LIBRARY_FOLDER, STANDIN, Payloads

HEAD = """#!/bin/sh
# Stand-in of the test lab, not NVIDIA's installer: tests/lab/standin/nvidia-installer behind a small archive.
tmp=${TMPDIR:-/tmp}
for argument; do case $argument in --tmpdir=*) tmp=${argument#*=} ;; esac; done
work=$(mktemp -d "$tmp/selfgz.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
tail -n +12 "$0" | tar -xz -C "$work" || { echo "the archive is damaged"; exit 1; }
cd "$work" || exit 1
./nvidia-installer "$@"
exit $?
__ARCHIVE__
"""


def write_drivers(folder: Path, versions: list[str], payloads: Payloads) -> None:
    """FOLDER/VERSION/FILE, as below https://us.download.nvidia.com/tesla/."""
    for version in versions:
        path = folder / version / f"NVIDIA-Linux-x86_64-{version}.run"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(HEAD.encode() + _archive(_contents(version, payloads)))


def _contents(version: str, payloads: Payloads) -> dict[str, Content]:
    made = payloads.files(["library", "smi", "persistenced"], version, version.split(".")[0])
    record = f"var/lib/simulated-gpu/modules/nvidia/{version}"
    return {
        "nvidia-installer": Content((STANDIN / "nvidia-installer").read_text().replace("@VERSION@", version).encode(), 0o755),
        "libnvidia-ml.so": made[f"{LIBRARY_FOLDER}/libnvidia-ml.so.{version}"],
        "nvidia-smi": made["usr/bin/nvidia-smi"],
        "nvidia-persistenced": made["usr/bin/nvidia-persistenced"],
        "module.open": payloads.files(["module_open"], version, "")[record],
        "module.proprietary": payloads.files(["module_proprietary"], version, "")[record],
        "dkms.conf": Content(f'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="{version}"\n'.encode()),
        "samples": Content(b"sample units would be here\n"),
    }


def _archive(files: dict[str, Content]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.mtime, info.size = content.mode, EPOCH, len(content.data)
            archive.addfile(info, io.BytesIO(content.data))
    return gzip.compress(buffer.getvalue(), mtime=EPOCH)
