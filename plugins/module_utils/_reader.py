# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files of a host that may be absent, unreadable, or mounted elsewhere. Private to the collection.

A part that is missing is None or empty; a part that needs privileges is noted in `unread`. Nothing raises.
"""

from __future__ import annotations

import os
import typing as t


class Reader:
    """The host's trees: sysfs and procfs (options of the module) and the root file system (tests)."""

    def __init__(self, sysfs: str = "/sys", procfs: str = "/proc", rootfs: str = "/") -> None:
        self._sysfs = sysfs.rstrip("/")
        self._procfs = procfs.rstrip("/")
        self._rootfs = rootfs.rstrip("/")
        self.unread: list[dict[str, t.Any]] = []

    def sys(self, path: str) -> str:
        return f"{self._sysfs}/{path}"

    def proc(self, path: str) -> str:
        return f"{self._procfs}/{path}"

    def fs(self, path: str) -> str:
        """`path` is absolute."""
        return self._rootfs + path

    def base(self, option: str) -> list[str]:
        """`option ROOT` for a command that can look into another root file system; nothing for the host's own."""
        return [option, self._rootfs] if self._rootfs else []

    def shown(self, path: str) -> str:
        """The path as the host knows it."""
        return path[len(self._rootfs) :] if self._rootfs and path.startswith(self._rootfs + "/") else path

    def note(self, part: str, reason: str, needs_root: bool = False) -> None:
        self.unread.append({"part": part, "reason": reason, "needs_root": needs_root})

    def data(self, path: str, part: t.Optional[str] = None, limit: int = -1) -> t.Optional[bytes]:
        """Content, None if it is absent; if it is there and may not be read, `part` is noted as unread."""
        try:
            with open(path, "rb") as source:
                return source.read(limit)
        except PermissionError:
            if part:
                self.note(part, f"{self.shown(path)}: permission denied", needs_root=os.geteuid() != 0)
        except OSError:
            pass
        return None

    def text(self, path: str, part: t.Optional[str] = None, limit: int = -1) -> t.Optional[str]:
        content = self.data(path, part, limit)
        return None if content is None else content.decode("utf-8", "replace").strip()

    def number(self, path: str) -> t.Optional[int]:
        try:
            return int(self.text(path) or "", 0)
        except ValueError:
            return None

    def names(self, path: str, part: t.Optional[str] = None) -> list[str]:
        """Sorted names in a directory."""
        try:
            return sorted(os.listdir(path))
        except PermissionError:
            if part:
                self.note(part, f"{self.shown(path)}: permission denied", needs_root=os.geteuid() != 0)
        except OSError:
            pass
        return []

    @staticmethod
    def link(path: str) -> t.Optional[str]:
        """Last part of what a symbolic link points to."""
        try:
            return os.path.basename(os.readlink(path))
        except OSError:
            return None
