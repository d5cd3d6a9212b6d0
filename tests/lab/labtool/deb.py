"""Debian packages and a signed flat repository, written directly: 300 packages in about a second, where 300 starts of dpkg-deb take ten."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path

EPOCH = 1_700_000_000  # one time stamp for everything: the same description gives the same bytes


@dataclass
class Content:
    """A file of a package; a link, if `link` says where to."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


@dataclass
class Package:
    fields: dict[str, str]
    files: dict[str, Content] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)

    @property
    def filename(self) -> str:
        return f"{self.fields['Package']}_{self.fields['Version']}_{self.fields['Architecture']}.deb"

    def paragraph(self, **more: str) -> str:
        return "".join(f"{key}: {value}\n" for key, value in {**self.fields, **more}.items() if value)


def _tar(files: dict[str, Content]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folders: set[str] = {"."}
        root = tarfile.TarInfo("./")  # all that a metapackage has
        root.type, root.mode, root.mtime = tarfile.DIRTYPE, 0o755, EPOCH
        archive.addfile(root)
        for name, content in sorted(files.items()):
            for folder in reversed(Path(name).parents):
                if str(folder) not in folders:
                    folders.add(str(folder))
                    info = tarfile.TarInfo(f"./{folder}/")
                    info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH
                    archive.addfile(info)
            info = tarfile.TarInfo(f"./{name}")
            info.mode, info.mtime, info.size = content.mode, EPOCH, len(content.data)
            if content.link:
                info.type, info.linkname, info.mode, info.size = tarfile.SYMTYPE, content.link, 0o777, 0
            archive.addfile(info, io.BytesIO(content.data))
    return buffer.getvalue()


def _ar(members: list[tuple[str, bytes]]) -> bytes:
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
        out.append(data + (b"\n" if len(data) % 2 else b""))
    return b"".join(out)


def build(package: Package) -> bytes:
    control = {"control": Content(package.paragraph().encode())}
    control.update({name: Content(text.encode(), 0o755) for name, text in package.scripts.items()})
    conffiles = "".join(f"/{name}\n" for name in sorted(package.files) if name.startswith("etc/"))
    if conffiles:
        control["conffiles"] = Content(conffiles.encode())
    sums = "".join(f"{hashlib.md5(c.data).hexdigest()}  {name}\n" for name, c in sorted(package.files.items()) if not c.link)
    control["md5sums"] = Content(sums.encode())
    return _ar([("debian-binary", b"2.0\n"), ("control.tar", _tar(control)), ("data.tar", _tar(package.files))])


def write_repository(folder: Path, packages: list[Package], release: dict[str, str], sign: list[str]) -> None:
    """A flat repository (`deb URL ./`): packages, Packages[.gz], Release, InRelease, Release.gpg."""
    folder.mkdir(parents=True, exist_ok=True)
    paragraphs = []
    for package in packages:
        data = build(package)
        (folder / package.filename).write_bytes(data)
        paragraphs.append(
            package.paragraph(
                Filename=f"./{package.filename}",
                Size=str(len(data)),
                MD5sum=hashlib.md5(data).hexdigest(),
                SHA256=hashlib.sha256(data).hexdigest(),
            )
        )
    index = "\n".join(paragraphs).encode()
    files = {"Packages": index, "Packages.gz": gzip.compress(index, mtime=EPOCH)}
    text = "".join(f"{key}: {value}\n" for key, value in release.items() if key != "Architecture")
    text += f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S UTC', time.gmtime())}\n"
    for title, algorithm in (("MD5Sum", hashlib.md5), ("SHA256", hashlib.sha256)):
        text += f"{title}:\n" + "".join(f" {algorithm(data).hexdigest()} {len(data)} {name}\n" for name, data in files.items())
    for name, data in {**files, "Release": text.encode()}.items():
        (folder / name).write_bytes(data)
    for flags, name in ((["--clearsign"], "InRelease"), (["--armor", "--detach-sign"], "Release.gpg")):
        done = subprocess.run(
            [*sign, *flags, "--output", str(folder / name), str(folder / "Release")], capture_output=True, text=True, timeout=60
        )
        done.check_returncode()
