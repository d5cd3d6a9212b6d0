# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel the boot loader takes next: GRUB's menu, boot loader entries (EL's GRUB, systemd-boot). Private to the collection.

What is generated counts (grub.cfg), not what it would be generated from: /etc/default/grub says nothing until update-grub ran.
"""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ._reader import Reader

_GRUB = ("/boot/grub2", "/boot/grub")
_LOADERS = ("/boot", "/efi", "/boot/efi")
_EFI = "firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_KERNEL = re.compile(r"^\s*linux(?:16|efi)?\s+\S*?vmlinuz-(\S+)")
_ENTRY = re.compile(r"^\s*(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\")(.*)$")
_ID = re.compile(r"(?:\$\{?menuentry_id_option\}?|--id)\s+['\"]?([^'\"\s]+)")


class Choice(t.NamedTuple):
    """`kernel` None: the loader is known, and what it starts is not one of the installed kernels."""

    kernel: t.Optional[str]
    by: str


class Entry(t.NamedTuple):
    """One line of a boot menu."""

    names: tuple[str, ...]
    kernel: t.Optional[str]
    children: tuple[t.Any, ...] = ()


def boot_choice(reader: Reader, installed: t.Sequence[str], version_key: t.Callable[[str], t.Any]) -> t.Optional[Choice]:
    """None where no boot loader's files are found (containers, machines booted over the network)."""
    return _systemd_boot(reader, version_key) or _grub(reader, installed, version_key)


def _grub(reader: Reader, installed: t.Sequence[str], version_key: t.Callable[[str], t.Any]) -> t.Optional[Choice]:
    folder = next((path for path in _GRUB if reader.names(reader.fs(path))), None)
    if not folder:
        return None
    env = dict(re.findall(r"^(\w+)=(.*?)\s*$", reader.text(reader.fs(f"{folder}/grubenv")) or "", re.MULTILINE))
    config = reader.text(reader.fs(f"{folder}/grub.cfg"), "host.kernel.next_boot")
    if not config:  # for root alone on EL, where an entry's name ends in the release
        saved = env.get("next_entry") or env.get("saved_entry") or ""
        release = next((release for release in installed if saved.endswith("-" + release)), None)
        return Choice(release, "grubenv") if release else None
    entries = _menu(config)
    by = "grub"
    if re.search(r"^\s*blscfg\b", config, re.MULTILINE):
        entries, by = _bls(reader, version_key) + entries, "grub_bls"
    chosen = _find(entries, env.get("next_entry") or _default(config, env))
    return Choice(chosen.kernel if chosen else None, by) if entries else None


def _default(config: str, env: t.Mapping[str, str]) -> str:
    """What the menu stands on when nobody asked for another entry once."""
    values = re.findall(r"^\s*set default=[\"']?([^\"'\n]*)[\"']?\s*$", config, re.MULTILINE)
    given = next((value for value in reversed(values) if "next_entry" not in value), "0")
    return env.get("saved_entry", "0") if "saved_entry" in given else given


def _menu(config: str) -> list[Entry]:
    """Entries of a grub.cfg; its blocks end with a line that closes as many braces as were opened."""
    top: list[t.Any] = []
    stack: list[tuple[int, dict[str, t.Any]]] = []
    depth = 0
    for line in config.splitlines():
        code = "" if line.lstrip().startswith("#") else line
        found = _ENTRY.match(code)
        if found:
            given = _ID.search(found.group(4))
            title = found.group(2) or found.group(3) or ""
            item: dict[str, t.Any] = {"names": tuple(filter(None, (title, given and given.group(1)))), "kernel": None, "children": []}
            (stack[-1][1]["children"] if stack else top).append(item)
            stack.append((depth, item))
        kernel = _KERNEL.match(code)
        if kernel and stack:
            stack[-1][1]["kernel"] = kernel.group(1)
        braces = re.sub(r"\$\{[^}]*\}|'[^']*'|\"[^\"]*\"", "", code)
        depth += braces.count("{") - braces.count("}")
        while stack and depth <= stack[-1][0]:
            stack.pop()
    return [_entry(item) for item in top]


def _entry(item: t.Mapping[str, t.Any]) -> Entry:
    return Entry(item["names"], item["kernel"], tuple(_entry(child) for child in item["children"]))


def _find(entries: t.Sequence[Entry], wanted: str) -> t.Optional[Entry]:
    """By number, title or id, each level of a submenu after a '>'. GRUB takes the first where nothing fits."""
    first, _rest, below = wanted.partition(">")
    if first.isdigit():
        chosen = entries[int(first)] if int(first) < len(entries) else None
    else:
        chosen = next((entry for entry in entries if first in entry.names), None)
    chosen = chosen or (entries[0] if entries else None)
    return _find(chosen.children, below or "0") if chosen and chosen.children else chosen


def _bls(reader: Reader, version_key: t.Callable[[str], t.Any]) -> list[Entry]:
    """Boot loader specification: one file an entry, the newest version first."""
    found = []
    for base in _LOADERS:
        folder = f"{base}/loader/entries"
        for name in reader.names(reader.fs(folder)):
            if not name.endswith(".conf"):
                continue
            text = reader.text(reader.fs(f"{folder}/{name}"), "host.kernel.next_boot") or ""
            fields = dict(re.findall(r"^([\w-]+)\s+(.*?)\s*$", text, re.MULTILINE))
            tries = re.search(r"\+(\d+)(?:-\d+)?$", name[:-5])
            identity = re.sub(r"\+\d+(?:-\d+)?$", "", name[:-5])
            image = re.search(r"vmlinuz-([^\s/]+)", fields.get("linux", ""))
            version = fields.get("version") or (image.group(1) if image else "")
            # An entry that used up its tries comes last, rescue images before it.
            rank = (not (tries and tries.group(1) == "0"), "rescue" not in identity, version_key(version))
            found.append(
                (rank, Entry((identity, identity + ".conf", fields.get("title", "")), (image and image.group(1)) or version or None))
            )
    return [entry for _rank, entry in sorted(found, key=lambda item: item[0], reverse=True)]


def _systemd_boot(reader: Reader, version_key: t.Callable[[str], t.Any]) -> t.Optional[Choice]:
    """systemd-boot, if it is what booted this machine (LoaderInfo) or the only loader that is configured."""
    config = next(filter(None, (reader.text(reader.fs(f"{base}/loader/loader.conf")) for base in _LOADERS)), None)
    info = _efi(reader, "LoaderInfo") or ""
    if not info.startswith("systemd-boot") and (config is None or any(reader.names(reader.fs(path)) for path in _GRUB)):
        return None
    entries = _bls(reader, version_key)
    configured = re.search(r"^default\s+(\S+)", config or "", re.MULTILINE)
    once = _efi(reader, "LoaderEntryOneShot")
    for wanted in (once, _efi(reader, "LoaderEntryDefault"), configured and configured.group(1)):
        for entry in entries if wanted else []:
            if any(fnmatch.fnmatch(name, wanted or "") for name in entry.names):
                return Choice(entry.kernel, "systemd-boot")
    return Choice(entries[0].kernel, "systemd-boot") if entries else None


def _efi(reader: Reader, name: str) -> t.Optional[str]:
    """An EFI variable of the boot loader interface: four bytes of attributes, then UTF-16."""
    content = reader.data(reader.sys(_EFI.format(name)))
    return content[4:].decode("utf-16-le", "replace").rstrip("\0") if content else None
