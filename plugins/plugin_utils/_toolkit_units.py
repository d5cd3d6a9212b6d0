# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot order: modules → device nodes → fabric → CDI → engines, as systemd unit files. Pure; private to the collection.

Only After, Before and Wants: a failing CDI generator must degrade GPUs, never keep Docker from starting.
"""

from __future__ import annotations

import typing as t

from ..module_utils import _paths
from ._toolkit_input import Draft, Settings
from ._toolkit_packages import reload_class
from ._versions import key as version_key

VENDOR = "nvidia-cdi-refresh.service"
OURS = "gpufleet-cdi-refresh.service"
DROP_IN, OUR_UNIT = _paths.CDI_DROP_IN, _paths.CDI_UNIT
DOCKER_UNIT, USER_UNIT, TMPFILES = _paths.DOCKER_CDI_UNIT, _paths.DOCKER_CDI_USER_UNIT, _paths.CDI_TMPFILES
TMPFILES_TEXT = (
    "# Written by Ansible (gpufleet.inference): rootless engines see /run/cdi only if it is there when they start.\n"
    "d /run/cdi 0755 root root -\n"
    f"d {_paths.CDI_FOR_ROOTLESS} 0755 root root -\n"
    f"L+ {_paths.CDI_FOR_ROOTLESS}/nvidia.yaml - - - - /var/run/cdi/nvidia.yaml\n"
)
WATCH = "nvidia-cdi-refresh.path"
"""Starts it again when a driver comes."""
VENDOR_FROM = "1.18.0"

_AFTER = (
    "systemd-modules-load.service systemd-tmpfiles-setup.service nvidia-persistenced.service nvidia-fabricmanager.service"
    " nvidia-mig-manager.service gpufleet-gpu-settings.service"
)
_BEFORE = "containerd.service docker.service crio.service kubelet.service podman-restart.service"
# The driver may need seconds after its module is there. A driver that never answers costs this much and no more.
_WAIT = (
    "ExecStartPre=-/bin/sh -c 'n=0; until timeout 5 nvidia-smi -L > /dev/null 2>&1 || [ $n -ge 15 ]; do n=$((n+1)); sleep 1; done'\n"
    "TimeoutStartSec=120\n"
)
# Not every release makes the control nodes (uvm, modeset) itself; what is missing here is missing in the specification.
_NODES = (
    "ExecStartPre=-/bin/sh -c 'nvidia-ctk system create-device-nodes --control-devices --load-kernel-modules"
    " || nvidia-ctk system create-device-nodes --control-devices'\n"
)
# Nodes of MIG's capabilities are made by nobody at boot; the toolkit leaves out of the specification what is not there.
_CAPS = (
    "ExecStartPre=-/bin/sh -c 'cd /proc/driver/nvidia/capabilities && for cap in mig/* gpu*/mig/gi*/access gpu*/mig/gi*/ci*/access; do"
    ' [ ! -e "$$cap" ] || nvidia-modprobe -f "$$PWD/$$cap"; done\'\n'
)
# For engines that read CDI 0.5.0 at most (_cdi_readers).
_OLDER = "Environment=NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes\n"
# runc under systemd allows devices by /dev/char; without these links a daemon-reload takes the GPU away from a running container.
_LINKS = "ExecStartPost=-/usr/bin/nvidia-ctk system create-dev-char-symlinks --create-all\n"
# A rootless daemon watches its folder, not what the link in it leads to.
_ROOTLESS = f"ExecStartPost=-/bin/ln -sfn /var/run/cdi/nvidia.yaml {_paths.CDI_FOR_ROOTLESS}/nvidia.yaml\n"
_HEADER = "# Written by Ansible (gpufleet.inference, role nvidia_container_toolkit).\n"

Info = t.Mapping[str, t.Any]


def drop_in_text(older: bool = False, rootless: bool = False) -> str:
    return (
        f"{_HEADER}[Unit]\nAfter={_AFTER}\nBefore={_BEFORE}\nStartLimitIntervalSec=300\nStartLimitBurst=20\n\n"
        f"[Service]\n{_OLDER if older else ''}{_WAIT}{_NODES}{_CAPS}{_LINKS}"
        f"{_ROOTLESS if rootless else ''}Restart=on-failure\nRestartSec=5\n"
    )


def unit_text(older: bool = False, rootless: bool = False) -> str:
    return (
        f"{_HEADER}[Unit]\nDescription=Write the CDI specification of NVIDIA GPUs\nConditionPathExists=/usr/bin/nvidia-ctk\n"
        f"After={_AFTER}\nBefore={_BEFORE}\n\n"
        f"[Service]\nType=oneshot\n{_OLDER if older else ''}{_WAIT}{_NODES}{_CAPS}"
        f"ExecStart=/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml\n{_LINKS}{_ROOTLESS if rootless else ''}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


# Docker restores containers before it knows CDI (moby/moby#49989, put right in 28.2.0): with a restart policy they stay down.
DOCKER_FORGETS_FROM, DOCKER_FORGETS_BELOW = "25.0", "28.2.0"


def docker_unit_text(user: bool = False) -> str:
    return (
        f"{_HEADER}[Unit]\nDescription=Start containers with CDI devices that Docker left down at its start (moby/moby#49989)\n"
        "ConditionPathExists=/usr/bin/docker\nAfter=docker.service\n\n"
        "[Service]\nType=oneshot\nTimeoutStartSec=120\n"
        + ("Environment=DOCKER_HOST=unix://%t/docker.sock\n" if user else "")
        + "ExecStart=/bin/sh -c 'for id in $$(docker ps -aq --filter status=exited --filter status=created); do "
        'case "$$(docker inspect -f "{{.HostConfig.RestartPolicy.Name}}: {{.State.Error}}" $$id)" in '
        "always:*device?driver*cdi*|unless-stopped:*device?driver*cdi*) docker start $$id ;; esac; done'\n\n"
        "[Install]\nWantedBy=docker.service\n"
    )


def docker_forgets(info: Info) -> bool:
    version = (info["engines"].get("docker") or {}).get("version")
    return bool(version) and version_key(DOCKER_FORGETS_FROM) <= version_key(version) < version_key(DOCKER_FORGETS_BELOW)


def refresh_unit(version: str, info: Info) -> tuple[str, str]:
    """Which unit refreshes, and why not the toolkit's own where it is ours."""
    vendor = info["toolkit"]["units"].get(VENDOR)
    if vendor and "multi-user.target" in vendor["after"]:
        return OURS, f"{VENDOR} of this release is ordered after multi-user.target, so no engine can be ordered after it without a cycle"
    if vendor or (version and version_key(version) >= version_key(VENDOR_FROM)):
        return VENDOR, ""
    return OURS, f"the toolkit ships its own unit from {VENDOR_FROM} on"


_PURPOSE = {
    DROP_IN: "orders CDI before the engines",
    OUR_UNIT: "writes the CDI specification before the engines start",
    TMPFILES: "makes /run/cdi before rootless engines start",
    DOCKER_UNIT: "starts GPU containers that this release of Docker leaves down",
    USER_UNIT: "does the same for rootless Docker",
}


_NOT_SYSTEM = (TMPFILES, USER_UNIT)
"""Files of which the system's manager knows nothing: no reload of it."""


def plan_units(draft: Draft, settings: Settings, info: Info, version: str, older: bool = False) -> str:
    """The unit files; the name of the unit that refreshes."""
    unit, why = refresh_unit(version, info)
    forgets = settings.cdi and settings.boot_order and docker_forgets(info)
    rootless = settings.cdi and bool(settings.rootless_users)
    wanted = {
        DROP_IN: drop_in_text(older, rootless) if unit == VENDOR and (settings.boot_order or older) else None,
        OUR_UNIT: unit_text(older, rootless) if unit == OURS else None,
        TMPFILES: TMPFILES_TEXT if rootless else None,
        DOCKER_UNIT: docker_unit_text() if forgets else None,
        USER_UNIT: docker_unit_text(user=True) if forgets and settings.rootless_users else None,
    }
    files = []
    for path, text in wanted.items():
        before = (info["owned"].get(path) or {}).get("text")
        if before != text:
            message = f"{path}: {_PURPOSE[path]}" + (f" ({why})" if why and path == OUR_UNIT else "") if text else f"{path} goes away"
            draft.change(
                "unit", path, "different" if before else None, text, message, "none" if path in _NOT_SYSTEM else reload_class(info)
            )
            files.append({"path": path, "text": text})
    units = info["toolkit"]["units"]
    stale = sorted(name for name, facts in units.items() if facts["need_daemon_reload"])
    reload = bool(stale or [file for file in files if file["path"] not in _NOT_SYSTEM])
    if stale and not files:
        draft.change(
            "daemon_reload", ", ".join(stale), "older than its file", "as its file", "systemd reads its units anew", reload_class(info)
        )
    kept = [
        unit,
        *([WATCH] if unit == VENDOR and WATCH in units else []),
        *([DOCKER_UNIT.rpartition("/")[2]] if wanted[DOCKER_UNIT] else []),
    ]
    enable = [name for name in kept if units.get(name, {}).get("enabled") != "enabled" and (name in units or files)]
    for name in enable:
        draft.change("enable", name, units.get(name, {}).get("enabled"), "enabled", f"{name} runs at each boot")
    if files or stale or enable:
        draft.plan.details["units"] = {"files": files, "reload": reload, "enable": enable}
    return unit
