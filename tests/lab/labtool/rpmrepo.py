"""NVIDIA's RPM repositories, as far as the lab needs them: tests/lab/repo/nvidia-rpm.yml says what is in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from . import cuda, rpm
from .payload import Payloads, literal
from .rpm import Package
from .settings import LAB_DIR

DESCRIPTION = LAB_DIR / "repo/nvidia-rpm.yml"
KEY_FILE = "D42D0685.pub"
LIBRARY_FOLDER = "usr/lib64"

UNIT_SCRIPTS = {
    "post": "[ $1 -ne 1 ] || systemctl --no-reload preset {unit} >/dev/null 2>&1 || :\n",
    "preun": "[ $1 -ne 0 ] || systemctl --no-reload disable --now {unit} >/dev/null 2>&1 || :\n",
    # %systemd_postun_with_restart: on an upgrade the old package restarts what runs.
    "postun": "systemctl daemon-reload >/dev/null 2>&1 || :\n[ $1 -lt 1 ] || systemctl try-restart {unit} >/dev/null 2>&1 || :\n",
}


class Build:
    def __init__(self, deb_description: dict[str, Any], payloads: Payloads, sign: list[str], key: bytes) -> None:
        self.debs = deb_description
        self.wanted: dict[str, Any] = yaml.safe_load(DESCRIPTION.read_text())
        self.payloads, self.sign, self.key = payloads, sign, key

    def write(self, out: Path) -> None:
        for dist, layout in self.wanted["dists"].items():
            folder = out / "compute/cuda/repos" / dist / "x86_64"
            driver = self._driver(layout["suffix"])
            fabric = self._fabric()
            others = [*self._plain("cuda"), *self._toolkits()]
            modules = _modules(driver, fabric) if layout["streams"] else ""
            rpm.write_repository(folder, [*driver, *fabric, *others], self.sign, modules)
            (folder / KEY_FILE).write_bytes(self.key)
        container = out / "libnvidia-container/stable/rpm/x86_64"
        versions = self.debs["sets"]["container_toolkit"]["for"]
        toolkit = [self._package(entry, version, "1") for version in versions for entry in self.wanted["container_toolkit"]]
        rpm.write_repository(container, toolkit, self.sign)
        rpm.write_repository(out / "el/base", self._plain("base"), self.sign)
        (out / "el/base" / KEY_FILE).write_bytes(self.key)

    def _driver(self, suffix: str) -> list[Package]:
        return [
            self._package(entry, version, f"1{suffix}", self.wanted["epoch"])
            for version in self.debs["drivers"]
            for entry in self.wanted["driver"]
            if _in_range(entry, version)
        ]

    def _fabric(self) -> list[Package]:
        return [self._package(e, version, "1") for version in self.debs["drivers"] for e in self.wanted["fabric"] if _in_range(e, version)]

    def _plain(self, name: str) -> list[Package]:
        return [self._package(entry, str(entry["version"]), str(entry.get("release", "1"))) for entry in self.wanted[name]]

    def _package(self, entry: dict[str, Any], version: str, release: str, epoch: int = 0) -> Package:
        branch = version.split(".")[0]
        full = f"{epoch}:{version}" if epoch else version
        words = {"e": full, "u": version, "b": branch}
        relations = {kind: [text.format(**words) for text in entry.get(kind, [])] for kind in rpm.RELATION_TAGS}
        files = self.payloads.files(entry.get("payload", []), version, branch)
        files = {re.sub(r"^usr/lib/x86_64-linux-gnu", LIBRARY_FOLDER, path): content for path, content in files.items()}
        files.update(literal(entry.get("files", {})))
        scripts = {"post": entry["post"] + "\n", "postun": entry["post"] + "\n"} if "post" in entry else {}
        scripts.update({phase: text.format(unit=entry["unit"]) for phase, text in UNIT_SCRIPTS.items() if "unit" in entry})
        if entry["name"].startswith("kernel-devel"):
            relations["provides"].append("installonlypkg(kernel)")
        return Package(entry["name"], version, release, epoch, entry.get("arch", "x86_64"), relations, files, scripts)

    def _toolkits(self) -> list[Package]:
        """CUDA's toolkits are described once, in Debian's words (cuda.py); relations and scripts are translated."""
        found = []
        for entry in cuda.entries(self.debs["cuda_toolkits"]):
            version, _, release = entry["version"].partition("-")
            relations = {"requires": [re.sub(r"\((\S+) (\S+)\)", r"\1 \2", text) for text in entry["depends"]]}
            relations["requires"] = [re.sub(r"(cuda-drivers >= )(\d+)$", r"\g<1>3:\2", text) for text in relations["requires"]]
            scripts = {}
            if "scripts" in entry:
                scripts["post"] = re.sub(r"(?m)^(set -e|if .*|fi|#!.*)\n", "", entry["scripts"]["postinst"])
                scripts["preun"] = entry["scripts"]["prerm"].replace('[ "$1" = remove ]', '[ "$1" = 0 ]')
            found.append(Package(entry["name"], version, release, 0, "x86_64", relations, literal(entry.get("files", {})), scripts))
        return found


def _in_range(entry: dict[str, Any], version: str) -> bool:
    return bool(entry.get("above", 0) <= int(version.split(".")[0]) < entry.get("below", 10_000))


def _modules(driver: list[Package], fabric: list[Package]) -> str:
    """Streams of module nvidia-driver: BRANCH-open and BRANCH-dkms hold one branch, open-dkms and latest-dkms all of them."""
    branches = sorted({package.version.split(".")[0] for package in driver})
    documents = []
    for kind, other, every in (("open", "kmod-nvidia-latest-dkms", "open-dkms"), ("dkms", "kmod-nvidia-open-dkms", "latest-dkms")):
        without = {other, "cuda-drivers" if kind == "open" else "nvidia-open"}
        for branch in ("", *branches):
            rpms = [p for p in (*driver, *fabric) if p.name not in without and p.version.split(".")[0].startswith(branch)]
            documents.append(_stream(f"{branch}-{kind}" if branch else every, rpms, "nvidia-open" if kind == "open" else "cuda-drivers"))
    return "".join(documents)


def _stream(name: str, rpms: list[Package], meta: str) -> str:
    data = {
        "name": "nvidia-driver",
        "stream": name,
        "version": 20261101000000,
        "context": f"{sum(name.encode()):08x}",
        "arch": "x86_64",
        "summary": "Stand-in of the test lab, not NVIDIA's module",
        "description": "Stand-in of the test lab",
        "license": {"module": ["MIT"]},
        "profiles": {"default": {"rpms": [meta]}, "fm": {"rpms": [meta, "nvidia-fabricmanager", "libnvidia-nscq"]}},
        "artifacts": {"rpms": sorted(package.nevra for package in rpms)},
    }
    document: dict[str, Any] = {"document": "modulemd", "version": 2, "data": data}
    return yaml.safe_dump(document, explicit_start=True, explicit_end=True, sort_keys=False)
