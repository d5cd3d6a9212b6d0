# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files about kernel modules: nouveau out, parameters, loading at boot; and whether the initramfs knows them.

Private to the collection, pure.
"""

from __future__ import annotations

import hashlib

from ._plan_driver_facts import DRACUT_CONF, MODPROBE_CONF, MODULES_LOAD_CONF, NOUVEAU_CONF, HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_part import Part

HEAD = "# Written by gpufleet.inference, role nvidia_driver; changes here are overwritten.\n"
IN_INITRAMFS = (MODPROBE_CONF, NOUVEAU_CONF, DRACUT_CONF)
_DRACUT = ["dracut", "--force", "--regenerate-all"]
INITRAMFS_TOOLS = {
    "debian": ["update-initramfs", "-u", "-k", "all"],
    "debian with dracut": _DRACUT,
    "redhat": _DRACUT,
}
LISTINGS = {
    "debian": ["lsinitramfs", "/boot/initrd.img-{}"],
    "debian with dracut": ["lsinitrd", "/boot/initrd.img-{}"],
    "redhat": ["lsinitrd", "-k", "{}"],
}

DEBIANS_NAMES = {"proprietary": "nvidia-current", "open": "nvidia-current-open"}
"""What Debian's own packages call their module, by kind (DEST_MODULE_NAME of their dkms.conf)."""


def wanted_files(settings: Settings, host: HostDriver, source: str, kind: str) -> dict[str, str | None]:
    """Path → content (None: the file must not exist) of the files about modules."""
    present = settings.state == "present" and settings.install_kernel_modules
    debians = DEBIANS_NAMES.get(kind, "") if source == "distribution" and host.os.get("id") == "debian" else ""
    # At work in spite of somebody's blacklist: the initramfs does not know theirs. Ours is recorded with the rebuild.
    left_to_others = host.nouveau_blacklisted and not host.nouveau_active and host.file_hash(NOUVEAU_CONF) is None
    nouveau = present and settings.nouveau_blacklist and not left_to_others
    return {
        NOUVEAU_CONF: HEAD + "blacklist nouveau\noptions nouveau modeset=0\n" if nouveau else None,
        # dracut copies /etc/modprobe.d into host-only images alone; a generic one would load nouveau before the root file system is there.
        DRACUT_CONF: HEAD + 'omit_drivers+=" nouveau "\n' if present and settings.nouveau_blacklist and dracut(host) else None,
        MODPROBE_CONF: _options(settings, debians) if present else None,
        # udev loads nvidia where the module has PCI aliases, but nobody loads nvidia-uvm before the first CUDA process.
        MODULES_LOAD_CONF: HEAD + "nvidia\nnvidia-uvm\n" if present and host.gpus and source != "distribution" else None,
    }


def dracut(host: HostDriver) -> bool:
    return "dracut" in " ".join(INITRAMFS_TOOLS.get(_maker(host), []))


def _maker(host: HostDriver) -> str:
    """Key of INITRAMFS_TOOLS and LISTINGS: Debian's family has two tools, and Ubuntu 26.04 came with the other one."""
    family = str(host.os.get("family"))
    return "debian with dracut" if family == "debian" and host.kernel.get("initramfs_tool") == "dracut" else family


def module_part(settings: Settings, host: HostDriver, source: str, kind: str = "") -> Part:
    """Differences of the files; details `files` and `initramfs` for converge."""
    part = Part()
    wanted = wanted_files(settings, host, source, kind)
    for path, content in wanted.items():
        before, after = host.file_hash(path), content and digest(content)
        if before != after:
            part.change("module_file", path, before, after, f"write {path}" if content else f"remove {path}")
            part.details.setdefault("files", []).append({"path": path, "content": content})
    _initramfs(part, host, wanted)
    return part


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _options(settings: Settings, debians: str) -> str | None:
    """Debian's headless packages bring no alias for their module's name; where others do, a second one says the same.

    Options go by the module's own name: udev loads it by PCI alias and nvidia-uvm as what it depends on, neither by the name nvidia.
    """
    names = {f"nvidia{part}": debians + part for part in ("", "-uvm", "-modeset", "-drm", "-peermem")} if debians else {}
    lines = [f"alias {usual} {own}\n" for usual, own in names.items()]
    for module, parameters in sorted(settings.module_parameters.items()):
        given = " ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        lines += [f"options {names.get(module.replace('_', '-'), module)} {given}\n"] if given else []
    return HEAD + "".join(lines) if lines else None


def _initramfs(part: Part, host: HostDriver, wanted: dict[str, str | None]) -> None:
    """An initramfs has its own copy of modprobe.d. What it was built with is recorded per kernel; another content is the evidence."""
    tool = INITRAMFS_TOOLS.get(_maker(host))
    kernels = [str(release) for release in host.kernel.get("installed") or []]
    contents = "".join(wanted[path] or "" for path in IN_INITRAMFS)
    mark = digest(contents) if contents else ""
    stale = [release for release in kernels if host.record_initramfs.get(release, "") != mark]
    if not tool or not stale:
        return
    part.change(
        "initramfs",
        ", ".join(stale),
        host.record_initramfs.get(stale[0]) or None,
        mark or None,
        f"rebuild the initramfs of {', '.join(stale)}",
    )
    part.details["initramfs"] = {
        "command": tool,
        "mark": dict.fromkeys(kernels, mark),
        # Listed afterwards: a nouveau in it, without the file that keeps it out, is a failure, whatever the tool's exit status was.
        "listings": [[word.format(release) for word in LISTINGS[_maker(host)]] for release in stale],
        "must_have": "" if dracut(host) or not wanted[NOUVEAU_CONF] else NOUVEAU_CONF.lstrip("/"),
        "without_nouveau": bool(wanted[DRACUT_CONF]),
    }
