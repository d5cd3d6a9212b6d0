# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages of our sets, without calling the package manager where its database can be read. Private to the collection."""

from __future__ import annotations

import fnmatch
import os
import re
import typing as t

from ._dnf_streams import FOLDER, enabled_stream
from ._package_sets import set_of
from ._reader import Reader
from ._subprocess import run

_RPM_FORMAT = "%{NAME}\\t%{EPOCHNUM}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"
_RPM_TIMEOUT = 30.0


class Package(t.NamedTuple):
    """One package of our sets."""

    version: str
    held: bool
    status: str
    """installed | half-configured | unpacked | config-files …, dpkg's words"""
    set: str


class Packages(t.NamedTuple):
    """The package database, reduced to our sets."""

    manager: str
    packages: dict[str, Package]
    streams: t.Mapping[str, str] = {}
    """Enabled dnf module streams: module → stream."""

    def installed(self, *sets: str) -> dict[str, str]:
        """name → version of what is there at all, broken or not."""
        return {name: p.version for name, p in self.packages.items() if p.set in sets and p.status not in ("config-files", "not-installed")}

    def broken(self, *sets: str) -> list[str]:
        fine = ("installed", "config-files", "not-installed")
        return sorted(name for name, p in self.packages.items() if p.set in sets and p.status not in fine)


def read_packages(reader: Reader, family: str) -> Packages:
    """Packages of our sets by the family's package manager."""
    if family in ("redhat", "suse") and _has_rpm(reader):
        return Packages("zypper" if family == "suse" else "dnf", _rpm(reader, family), _streams(reader))
    if os.path.exists(reader.fs("/var/lib/dpkg/status")):
        return Packages("apt", _dpkg(reader))
    return Packages("unknown", {})


def facts(packages: Packages) -> dict[str, t.Any]:
    """The part `packages` of gpu_info."""
    ours = ("driver", "cuda", "toolkit")
    return {
        "manager": packages.manager,
        "holds": sorted(name for name, p in packages.packages.items() if p.held and p.set in ours),
        "broken": packages.broken(*ours),
        "set": packages.installed(*ours),
        **({"streams": dict(packages.streams)} if packages.manager == "dnf" else {}),
    }


def _dpkg(reader: Reader) -> dict[str, Package]:
    content = b"\n" + (reader.data(reader.fs("/var/lib/dpkg/status"), "packages") or b"")
    found: dict[str, Package] = {}
    for name, start in _stanzas(content):
        belongs = set_of(name)
        if belongs is None:
            continue
        end = content.find(b"\n\n", start)
        stanza = content[start : end if end >= 0 else len(content)].decode("utf-8", "replace")
        fields = dict(line.split(": ", 1) for line in stanza.split("\n") if ": " in line and line[0] != " ")
        status = fields.get("Status", "").split()
        if "Version" not in fields or len(status) != 3:
            continue
        foreign = fields.get("Architecture") == "i386"  # the 32-bit half of a multiarch pair must not hide the native one
        found[name + ":i386" if foreign else name] = Package(fields["Version"], status[0] == "hold", status[2], belongs)
    return found


def _stanzas(content: bytes) -> t.Iterator[tuple[str, int]]:
    """(package, where its stanza goes on); searching bytes is several times faster than a regular expression here."""
    mark = b"\nPackage: "
    at = content.find(mark)
    while at >= 0:
        end = content.find(b"\n", at + len(mark))
        yield content[at + len(mark) : end].decode("utf-8", "replace"), end + 1
        at = content.find(mark, end)


def _has_rpm(reader: Reader) -> bool:
    return any(os.path.isdir(reader.fs(path)) for path in ("/var/lib/rpm", "/usr/lib/sysimage/rpm"))


def _rpm(reader: Reader, family: str) -> dict[str, Package]:
    locks = _zypp_locks(reader) if family == "suse" else _dnf_locks(reader)
    found = {}
    for name, epoch, version, arch in _rpm_rows(reader):
        belongs = set_of(name)
        if belongs:
            held = any(fnmatch.fnmatchcase(name, lock) for lock in locks)
            shown = f"{epoch}:{version}" if epoch not in ("0", "") else version
            found[name + ":i386" if arch in ("i386", "i686") else name] = Package(shown, held, "installed", belongs)
    return found


def _rpm_rows(reader: Reader) -> t.Iterable[tuple[str, str, str, str]]:
    try:
        import rpm  # type: ignore[import-not-found,unused-ignore]

        return [(h["name"], str(h["epochnum"]), f"{h['version']}-{h['release']}", h["arch"] or "") for h in rpm.TransactionSet().dbMatch()]
    except Exception:  # no bindings for this interpreter, or a broken database: the command says which
        result = run(["rpm", "-qa", "--qf", _RPM_FORMAT], timeout=_RPM_TIMEOUT)
    if not result.success:
        reader.note("packages", f"rpm -qa: {result.err.strip() or result.state}")
        return []
    return [(row[0], row[1], row[2], row[3]) for row in (line.split("\t") for line in result.out.splitlines()) if len(row) == 4]


def _dnf_locks(reader: Reader) -> list[str]:
    """Names in the versionlock lists of dnf 4 (name-epoch:version-release.arch) and dnf 5 (TOML)."""
    locks = []
    for line in (reader.text(reader.fs("/etc/dnf/plugins/versionlock.list")) or "").splitlines():
        entry = line.strip()
        if entry and entry[0] not in "#!":
            match = re.match(r"(.+)-(?:\d+:)?[^-]+-[^-]+$", entry)
            locks.append(match.group(1) if match else entry)
    text = reader.text(reader.fs("/etc/dnf/versionlock.toml")) or ""
    return locks + re.findall(r"^\s*name\s*=\s*[\"']([^\"']+)[\"']", text, re.MULTILINE)


def _streams(reader: Reader) -> dict[str, str]:
    """dnf keeps a file per module that somebody enabled, disabled or reset."""
    found, folder = {}, FOLDER
    for name in reader.names(reader.fs(folder)):
        text = reader.text(reader.fs(f"{folder}/{name}")) or ""
        if name.endswith(".module") and enabled_stream(text):
            found[name[: -len(".module")]] = enabled_stream(text)
    return found


def _zypp_locks(reader: Reader) -> list[str]:
    return re.findall(r"^solvable_name:\s*(\S+)", reader.text(reader.fs("/etc/zypp/locks")) or "", re.MULTILINE)
