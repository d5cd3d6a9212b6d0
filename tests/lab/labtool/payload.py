"""What the packages of the lab's repository carry: the simulated driver (docs/simulated_gpu.md) and small stand-ins."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .deb import Content
from .settings import CHECKOUT, LAB_DIR, LabError

ROLE_FILES = CHECKOUT / "roles/simulated_gpu/files"
STANDIN = LAB_DIR / "standin"
LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"

PERSISTENCED_UNIT = """\
[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user root --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced

[Install]
WantedBy=multi-user.target
"""

SERVICE_UNIT = """\
[Unit]
Description={description}
After=network-online.target nvidia-persistenced.service

[Service]
Type=simple
ExecStart={command}

[Install]
WantedBy=multi-user.target
"""


def start_service(unit: str) -> dict[str, str]:
    """What dh_installsystemd writes: packages do start services behind one's back, and restart them on an upgrade."""
    postinst = f"""#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    deb-systemd-helper enable {unit} > /dev/null || true
    systemctl --system daemon-reload > /dev/null || true
    if [ -n "$2" ]; then action=restart; else action=start; fi
    deb-systemd-invoke $action {unit} > /dev/null || true
fi
"""
    prerm = f"""#!/bin/sh
set -e
if [ -d /run/systemd/system ] && [ "$1" = remove ]; then deb-systemd-invoke stop {unit} > /dev/null || true; fi
"""
    return {"postinst": postinst, "prerm": prerm}


def _newer_than_hosts() -> bool:
    """Is this machine's C library newer than the oldest host's (Debian 12: 2.36)? What it links would not load there."""
    version = platform.libc_ver()[1]
    return tuple(int(part) for part in version.split(".") if part.isdigit()) > (2, 36)


def literal(files: dict[str, Any]) -> dict[str, Content]:
    """Contents that are written out: text, (text, mode), or "-> TARGET" for a link."""
    found = {}
    for path, given in files.items():
        text, mode = given if isinstance(given, tuple) else (given, 0o644)
        found[path] = Content(link=text[3:]) if text.startswith("-> ") else Content(text.encode(), mode)
    return found


class Payloads:
    """Makes the contents of a package from the words of its `payload:` list."""

    def __init__(self, work: Path) -> None:
        environment = dict(os.environ)
        if _newer_than_hosts():
            environment["CC"] = "false"  # build.sh then takes the binary that the role carries
        command = [str(ROLE_FILES / "build.sh"), str(work)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        if done.returncode != 0:
            raise LabError(f"roles/simulated_gpu/files/build.sh failed:\n{done.stdout}{done.stderr}")
        self.library_data = (work / "libnvidia-ml.so").read_bytes()
        self.makers: dict[str, Callable[[str, str], dict[str, Content]]] = {
            "library": self._library,
            "smi": lambda u, b: {"usr/bin/nvidia-smi": self._program("nvidia-smi")},
            "persistenced": self._persistenced,
            "module_open": lambda u, b: self._module(u, "Dual MIT/GPL"),
            "module_proprietary": lambda u, b: self._module(u, "NVIDIA"),
            "nouveau_blacklist": lambda u, b: {"etc/modprobe.d/nvidia-blacklists-nouveau.conf": Content(b"blacklist nouveau\n")},
            "pin_branch": lambda u, b: self._pin(f"nvidia-driver-pinning-{b}", f"{b}.*"),
            "pin_version": lambda u, b: self._pin(f"nvidia-driver-pinning-{u}", f"{u}-*"),
            "fabricmanager": lambda u, b: self._service("nvidia-fabricmanager", "nv-fabricmanager", "NVIDIA fabric manager service", u),
            "imex": lambda u, b: {
                **self._service("nvidia-imex", "nvidia-imex", "NVIDIA IMEX service", u),
                "etc/nvidia-imex/config.cfg": Content(b"IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n"),
            },
            "ctk": self._ctk,
        }

    def files(self, words: list[str], upstream: str, branch: str) -> dict[str, Content]:
        found: dict[str, Content] = {}
        for word in words:
            found.update(self.makers[word](upstream, branch))
        return found

    @staticmethod
    def scripts(words: list[str]) -> dict[str, str]:
        # The fabric manager's own package leaves its service alone; the persistence daemon's does not.
        if "ctk" in words:
            return {"postinst": (STANDIN / "nvidia-container-toolkit-base.postinst").read_text()}
        return start_service("nvidia-persistenced.service") if "persistenced" in words else {}

    def _program(self, name: str) -> Content:
        return Content((ROLE_FILES / "bin" / name).read_bytes(), 0o755)

    def _library(self, upstream: str, branch: str) -> dict[str, Content]:
        real = f"libnvidia-ml.so.{upstream}"
        return {f"{LIBRARY_FOLDER}/{real}": Content(self.library_data), f"{LIBRARY_FOLDER}/libnvidia-ml.so.1": Content(link=real)}

    def _persistenced(self, upstream: str, branch: str) -> dict[str, Content]:
        return {
            "usr/bin/nvidia-persistenced": self._program("nvidia-persistenced"),
            "usr/lib/systemd/system/nvidia-persistenced.service": Content(PERSISTENCED_UNIT.encode()),
        }

    @staticmethod
    def _module(upstream: str, licence: str) -> dict[str, Content]:
        return {f"var/lib/simulated-gpu/modules/nvidia/{upstream}": Content(f"version={upstream}\nlicense={licence}\n".encode())}

    @staticmethod
    def _pin(name: str, version: str) -> dict[str, Content]:
        text = f"Package: *nvidia* libcuda1 libnvsdm cuda-drivers* !*container*\nPin: version {version}\nPin-Priority: 1000\n"
        # apt reads files without a dot in their name, or ending in .pref.
        return {f"etc/apt/preferences.d/{name}.pref": Content(text.encode())}

    @staticmethod
    def _service(unit: str, program: str, description: str, upstream: str) -> dict[str, Content]:
        script = f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{description} version is : {upstream}' && exit 0\nexec sleep infinity\n"
        text = SERVICE_UNIT.format(description=description, command=f"/usr/bin/{program}")
        return {f"usr/bin/{program}": Content(script.encode(), 0o755), f"usr/lib/systemd/system/{unit}.service": Content(text.encode())}

    @staticmethod
    def _ctk(upstream: str, branch: str) -> dict[str, Content]:
        """The toolkit's programs as stand-ins (tests/lab/standin), its refresh units from 1.18 on."""
        programs = ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
        files = {f"usr/bin/{name}": Content(_standin(name, upstream), 0o755) for name in programs}
        files["usr/lib/nvidia-standin/nvidia-smi-in-container"] = Content(_standin("nvidia-smi-in-container", upstream), 0o755)
        if tuple(map(int, upstream.split(".")[:2])) >= (1, 18):
            units = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path")
            files.update({f"usr/lib/systemd/system/{name}": Content(_standin(name, upstream)) for name in units})
            files["etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"] = Content(b"# NAME=value for nvidia-ctk cdi generate\n")
        return files


def _standin(name: str, upstream: str) -> bytes:
    return (STANDIN / name).read_text().replace("@VERSION@", upstream).encode()
