# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Difference in packages: the set, its holds, what is broken, and the repository it comes from.

Private to the collection, pure. Which package versions a repository has is not a fact of the host: names and the driver
version are planned here, the host resolves them (module driver_packages) and changes nothing if it cannot.
"""

from __future__ import annotations

import typing as t

from ..module_utils._apt_files import AUTOMATIC, automatic_text
from ._matrix_types import OsSupport
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_modules import digest
from ._plan_driver_obstacles import broken, downgrade, holds_of_others, in_set, origin
from ._plan_driver_part import Part
from ._plan_driver_stream import stream_part
from ._plan_driver_target import Target

NVIDIA_REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos"
HEADERS = {"apt": "linux-headers-{}", "dnf": "kernel-devel-{}"}
"""Package with what DKMS needs to build for a kernel release."""


def package_part(settings: Settings, target: Target, host: HostDriver) -> Part:
    """Changes and findings about packages; details `packages` and `holds` for converge."""
    part = Part()
    broken(part, host)
    why = _why(settings, target, host)
    stream = ""
    if why:
        stream = stream_part(part, settings, target, host)
        if not converts(settings, host):
            origin(part, host)
        downgrade(part, settings, target, host)
        holds_of_others(part, target, host)
        part.change("packages", ", ".join(target.names), _before(host), _after(target), why, _disruption(target, host))
    elif host.broken or host.record_pending:
        part.change(
            "repair",
            ", ".join(host.broken or sorted(host.record_pending)),
            "interrupted",
            "installed",
            "finish the interrupted transaction",
        )
    repository = _repository(part, settings, target, host, bool(why))
    if part.changes:
        part.details["packages"] = {**request(settings, target, host, repository), **({"module_stream": stream} if stream else {})}
    own_holds(part, settings, target, host, bool(why))
    return part


def request(settings: Settings, target: Target, host: HostDriver, repository: dict[str, str] | None) -> dict[str, t.Any]:
    """Options of module driver_packages."""
    packages = target.packages
    return {
        "names": [*target.names, *([packages.pinning] if packages.pinning else [])],
        "same_version": sorted({*packages.same_version} & {*target.names}),
        "members": list(packages.members),
        "not_members": list(packages.not_members),
        "offered": [name for name in packages.offered if settings.install_kernel_modules or name != "nvidia-persistenced"],
        "optional": [HEADERS[target.os.package_manager or "apt"].format(release) for release in headers_wanted(settings, target, host)],
        "unwanted": [name for name in target.others if name in host.packages],
        "branch": target.branch,
        "version": target.version,
        "source": target.source,
        "hold": settings.hold,
        "allow_downgrade": settings.allow_downgrade,
        "from_url": repository_url(settings, target) if target.source == "nvidia" else "",
        **patience(settings),
        "rollback": settings.rollback,
        "remove_runfile": converts(settings, host),
        **(repository or {}),
    }


def patience(settings: Settings) -> dict[str, int]:
    """How long a transaction, and another package manager at work, may take."""
    return {"transaction_timeout": settings.package_timeout, "lock_timeout": settings.package_lock_timeout}


def converts(settings: Settings, host: HostDriver) -> bool:
    """Whether packages take the place of a .run file's driver, which is removed once they are downloaded."""
    return settings.convert and (host.origin == "runfile" or bool(host.record_runfile))


def headers_wanted(settings: Settings, target: Target, host: HostDriver) -> list[str]:
    """Kernels, running and next, that DKMS has no headers for. Prebuilt modules need none."""
    if not settings.install_kernel_modules or target.signed_modules:
        return []
    kernels = dict.fromkeys(str(host.kernel[key]) for key in ("release", "next_boot") if host.kernel.get(key))
    return [release for release in kernels if release not in (host.kernel.get("headers") or [])]


def _why(settings: Settings, target: Target, host: HostDriver) -> str:
    """Why a transaction is needed; empty if the host has what is asked for."""
    if not host.version:
        return f"install driver {target.version or 'branch ' + str(target.branch)} ({target.kernel_modules} modules) from {target.source}"
    if host.origin == "runfile" and settings.convert:
        return f"replace driver {host.version} of a .run file by packages, {target.version or 'branch ' + str(target.branch)}"
    if target.version != host.version:
        return f"change the driver from {host.version} to {target.version or 'the newest of branch ' + str(target.branch)}"
    if settings.install_kernel_modules and host.kernel_modules and host.kernel_modules != target.kernel_modules:
        return f"change the kernel modules from {host.kernel_modules} to {target.kernel_modules}"
    missing = [name for name in target.names if not host.is_installed(name)]
    # A driver that came without packages and is the one asked for is left as it is.
    if missing and host.origin == "package":
        return f"add {', '.join(missing)} to driver {host.version}"
    return ""


def _before(host: HostDriver) -> dict[str, t.Any] | None:
    return {"version": host.version, "kernel_modules": host.kernel_modules} if host.version else None


def _after(target: Target) -> dict[str, t.Any]:
    return {"version": target.version or target.expected or f"branch {target.branch}", "kernel_modules": target.kernel_modules}


def _disruption(target: Target, host: HostDriver) -> t.Literal["none", "reboot"]:
    """New libraries over a module of another version end every new CUDA process until the module is changed as well."""
    return "reboot" if host.loaded_version and host.loaded_version != target.version else "none"


def own_holds(part: Part, settings: Settings, target: Target, host: HostDriver, moving: bool) -> None:
    """Holds as they should be; while packages move, the transaction itself lifts and sets them."""
    if moving:
        return
    if not settings.hold:
        lift, add = sorted(host.record_holds & host.holds), list[str]()
    else:
        members = [name for name in {*host.packages, *host.package_set} if host.is_installed(name) and in_set(name, target)]
        lift, add = [], sorted(name for name in members if not host.is_held(name))
    for name in add:
        part.change("hold", name, "free", "held", f"hold {name}")
    for name in lift:
        part.change("hold", name, "held", "free", f"lift our hold of {name}")
    automatic = _automatic(part, settings, host)
    if add or lift or automatic:
        part.details["holds"] = {"hold": settings.hold, "hold_add": add, "hold_remove": lift, **patience(settings)}


def _automatic(part: Part, settings: Settings, host: HostDriver) -> bool:
    """unattended-upgrades is kept away from the set by a file; it respects holds too, but says nothing then of why."""
    names = sorted(host.record_packages) if settings.hold else []
    wanted = digest(automatic_text(names)) if names and host.manager == "apt" else None
    actual = host.file_hash(AUTOMATIC)
    if wanted == actual:
        return False
    what = f"keep unattended-upgrades away from the {len(names)} packages of the set" if wanted else f"remove {AUTOMATIC}"
    part.change("automatic_upgrades", AUTOMATIC, actual, wanted, what)
    return True


def _repository(part: Part, settings: Settings, target: Target, host: HostDriver, moving: bool) -> dict[str, str] | None:
    """The repository to configure, or None where the host's own sources serve."""
    if target.source != "nvidia":
        return None
    url = repository_url(settings, target)
    if host.repository_url and _same(host.repository_url, url):
        return None
    if not moving and not host.repository_owned:
        return None
    part.change("repository", url, host.repository_url if host.repository_owned else None, url, f"use package repository {url}")
    return repository_options(url, target.os, settings.repository_key, settings.repository_key_url, settings.repository_key_fingerprint)


def repository_options(url: str, os: OsSupport, key: str, key_url: str, fingerprint: str) -> dict[str, str]:
    """How a repository is configured. What NVIDIA signs with is known; a mirror may have a key of its own."""
    expected = fingerprint or (os.repository_key_fingerprint if url.startswith(NVIDIA_REPOSITORY) else "")
    return {
        "repository_url": url,
        "repository_key": key,
        "repository_key_url": key_url or f"{url}{os.repository_key_file or key_name(os)}",
        "repository_key_fingerprint": expected,
    }


def repository_url(settings: Settings, target: Target) -> str:
    """The folder of this system below the base that the site names, or NVIDIA's."""
    base = (settings.repository_url or NVIDIA_REPOSITORY).rstrip("/")
    path = target.os.repository_path or ""
    return f"{base}/" if base.endswith(path) else f"{base}/{path}/"


def key_name(os: OsSupport) -> str:
    """Name of NVIDIA's key in its repositories."""
    return "3bf863cc.pub" if os.package_manager == "apt" else "D42D0685.pub"


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
