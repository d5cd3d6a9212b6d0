# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps that every change of packages takes. Private to the collection."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ._files import read_text, remove, write_text
from ._package_answers import PackageError

POLICY = "/usr/sbin/policy-rc.d"
DPKG = "/var/lib/dpkg/status"
_POLICY_TEXT = "#!/bin/sh\n# gpufleet.inference: no package starts or restarts a service while the driver changes\nexit 101\n"


class Done(t.NamedTuple):
    """Outcome of a transaction."""

    changed: bool
    version: str
    before: dict[str, str]
    after: dict[str, str]
    download: t.Optional[int] = None
    """Bytes that it fetches, where that is known (check mode)."""


class Healer(t.Protocol):
    """What is asked of a package manager here."""

    def installed(self) -> dict[str, tuple[str, str]]: ...

    def configure(self) -> str: ...


class Holder(t.Protocol):
    """What is asked of a package manager here."""

    def holds(self) -> set[str]: ...

    def set_holds(self, add: t.Iterable[str] = (), remove: t.Iterable[str] = ()) -> None: ...


def heal(apt: Healer, ours: set[str], unwanted: t.Sequence[str] = ()) -> None:
    """Finish what an interrupted run left, if it is ours; what still fails then shows in the transaction itself.

    What goes anyway is not finished first: a module that does not build would be built once more, for minutes.
    """
    forget_policy()
    broken = sorted(name for name, (_version, status) in apt.installed().items() if status != "installed")
    foreign = [name for name in broken if name not in ours]
    if foreign:
        raise PackageError("foreign_broken", f"packages of others are not fully configured: {', '.join(foreign)}")
    if set(broken) - set(unwanted):
        with services_left_alone():
            apt.configure()


def forget_policy() -> None:
    """Left by a run that was killed in its transaction; with it no package of the host starts a service any more."""
    if read_text(POLICY) == _POLICY_TEXT:
        remove(POLICY)


@contextlib.contextmanager
def services_left_alone() -> t.Iterator[None]:
    """Debian's maintainer scripts ask policy-rc.d before they touch a service (class Dnf tells scriptlets otherwise). A file of the host's
    own is respected."""
    if read_text(POLICY) is not None or not os.path.exists(DPKG):
        yield
        return
    write_text(POLICY, _POLICY_TEXT, mode=0o755)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(POLICY)


def verify(apt: Healer, packages: t.Mapping[str, str]) -> None:
    """PackageError unless these very versions are there, configured."""
    installed = apt.installed()
    wrong = [
        f"{name} is {' '.join(installed.get(name, ('absent',)))}, wanted {version}"
        for name, version in sorted(packages.items())
        if installed.get(name) != (version, "installed")
    ]
    if wrong:
        raise PackageError("dpkg_failed", f"after the transaction {'; '.join(wrong)}")


def set_holds(apt: Holder, hold: bool, packages: set[str], own: set[str]) -> set[str]:
    """Set or lift; the holds that are ours afterwards. A foreign hold stays foreign."""
    held = apt.holds()
    if not hold:
        apt.set_holds(remove=own & held)
        return set()
    apt.set_holds(add=packages - held, remove=(own & held) - packages)
    return (own & packages) | (packages - held)
