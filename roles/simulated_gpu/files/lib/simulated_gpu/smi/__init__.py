# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi for the simulated GPU: the options people and roles use, the texts and exit statuses of the real one (580)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from .. import hardware, paths, profile
from ..nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, LIBRARY, LIBRARY_NOT_FOUND, MISMATCH, NO_PERMISSION, Nvml, NvmlError, library_version
from . import change, extra, query, report, table, xml
from .values import Gpu

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
    "Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n"
)
INIT = {
    DRIVER_NOT_LOADED: NO_DRIVER,
    LIBRARY_NOT_FOUND: NO_LIBRARY,
    NO_PERMISSION: "Failed to initialize NVML: Insufficient Permissions\n",
    999: "Failed to initialize NVML: Unknown Error\n",
}
# options with a value; the long forms take it after "="
VALUED = {
    "-i": "id",
    "--id": "id",
    "-d": "display",
    "--display": "display",
    "-f": "file",
    "--filename": "file",
    "--query-gpu": "gpu",
    "--query-compute-apps": "apps",
    "--format": "format",
    "-pl": "pl",
    "--power-limit": "pl",
    "-pm": "pm",
    "--persistence-mode": "pm",
    "-e": "e",
    "--ecc-config": "e",
    "-c": "c",
    "--compute-mode": "c",
    "-mig": "mig",
    "--multi-instance-gpu": "mig",
    "-lgc": "lgc",
    "--lock-gpu-clocks": "lgc",
    "-lmc": "lmc",
    "--lock-memory-clocks": "lmc",
    "-ac": "ac",
    "--applications-clocks": "ac",
    "-p": "p",
    "--reset-ecc-errors": "p",
}
FLAGS = {
    "-L": "list",
    "--list-gpus": "list",
    "-q": "query",
    "--query": "query",
    "-x": "xml",
    "--xml-format": "xml",
    "-h": "help",
    "--help": "help",
    "--version": "version",
    "-rgc": "rgc",
    "--reset-gpu-clocks": "rgc",
    "-rmc": "rmc",
    "--reset-memory-clocks": "rmc",
    "-rac": "rac",
    "--reset-applications-clocks": "rac",
    "-r": "reset",
    "--gpu-reset": "reset",
    "--help-query-gpu": "help_gpu",
}
CHANGES: dict[str, Callable[[Gpu, str], str]] = {
    "pl": change.power_limit,
    "pm": change.persistence,
    "e": change.ecc,
    "c": change.compute,
    "mig": change.mig,
    "lgc": lambda gpu, v: change.lock(gpu, v, "nvmlDeviceSetGpuLockedClocks", "gpu"),
    "lmc": lambda gpu, v: change.lock(gpu, v, "nvmlDeviceSetMemoryLockedClocks", "memory"),
    "rgc": lambda gpu, v: change.simple(
        gpu, "nvmlDeviceResetGpuLockedClocks", (), "reset GPU clocks", "All done resetting GPU clocks for GPU {bus}"
    ),
    "rmc": lambda gpu, v: change.simple(
        gpu, "nvmlDeviceResetMemoryLockedClocks", (), "reset memory clocks", "All done resetting memory clocks for GPU {bus}"
    ),
    "rac": lambda gpu, v: change.simple(
        gpu, "nvmlDeviceResetApplicationsClocks", (), "reset applications clocks", "All done resetting application clocks for GPU {bus}"
    ),
    "ac": lambda gpu, v: change.simple(
        gpu,
        "nvmlDeviceSetApplicationsClocks",
        tuple(int(n) for n in change.numbers("-ac", v, int)),
        "set applications clocks",
        f'Applications clocks set to "(MEM {v.partition(",")[0]}, SM {v.partition(",")[2]})" for GPU {{bus}}',
    ),
    "p": lambda gpu, v: change.simple(
        gpu, "nvmlDeviceClearEccErrorCounts", (int(v),), "reset ECC errors", "Reset ECC errors to zero for GPU {bus}"
    ),
}


class Stop(Exception):
    """Text and exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def parse(argv: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in VALUED:
            if not equals:
                if not rest:
                    raise Stop(f"ERROR: Option {word} requires an argument. Please run 'nvidia-smi -h' for help.\n", 2)
                value = rest.pop(0)
            options[VALUED[name]] = value
        elif word in FLAGS:
            options[FLAGS[word]] = ""
        elif all(letter in "qxL" for letter in word[1:]) and word[0] == "-" and len(word) > 2:
            options.update({FLAGS["-" + letter]: "" for letter in word[1:]})
        else:
            raise Stop(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n", 255)
    return options


def open_session() -> Nvml:
    try:
        return Nvml()
    except NvmlError as exc:
        if exc.code == MISMATCH:
            raise Stop(mismatch_text(), MISMATCH) from None
        raise Stop(INIT.get(exc.code, f"Failed to initialize NVML: error {exc.code}"), exc.code if exc.code < 256 else 255) from None


def mismatch_text() -> str:
    short = ".".join(library_version(LIBRARY).split(".")[:2])
    return f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {short}"


def no_handle(item: str) -> str:
    """NVML tells nothing of a GPU without handle; the real tool has the address from the driver, this one from the profile."""
    here = profile.Machine(paths.etc("profile.conf"))
    present = hardware.present_gpus(here)
    address = here.get(present[int(item)], "pci.address").upper() if item.isdigit() and int(item) < len(present) else item
    return f"Unable to determine the device handle for GPU{address}"


def choose(nvml: Nvml, selector: str | None) -> list[Gpu]:
    count = nvml.number("nvmlDeviceGetCount_v2")
    if not count:
        raise Stop("No devices were found", 6)
    gpus: list[Gpu] = []
    for item in selector.split(",") if selector else [str(index) for index in range(count)]:
        try:
            gpus.append(Gpu(nvml, nvml.find(item)))
        except NvmlError as exc:
            if exc.code == GPU_IS_LOST:
                raise Stop(f"{no_handle(item)}: GPU is lost.  Reboot the system to recover this GPU", GPU_IS_LOST) from None
            if exc.code == 999:
                raise Stop(f"{no_handle(item)}: Unknown Error", 255) from None
            raise Stop("No devices were found", 6) from None
    return gpus


def version_text(nvml: Nvml) -> str:
    tool, driver, cuda = table.versions(nvml)
    short = ".".join(tool.split(".")[:2])
    return f"NVIDIA-SMI version  : {tool}\nNVML version        : {short}\nDRIVER version      : {driver}\nCUDA Version        : {cuda}\n"


def work(nvml: Nvml, options: dict[str, str]) -> tuple[str, int]:
    if "version" in options:
        return version_text(nvml), 0
    if "help_gpu" in options:
        return query.help_text(nvml), 0
    if "list" in options:
        if "id" in options:
            raise Stop("ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.\n", 2)
        return "".join(f"GPU {gpu.index()}: {gpu.name()} (UUID: {gpu.uuid()})\n{extra.mig_devices(gpu)}" for gpu in choose(nvml, None)), 0
    gpus = choose(nvml, options.get("id"))
    if "reset" in options:
        return change.reset(nvml, gpus), 0
    chosen = [name for name in CHANGES if name in options]
    if chosen:
        return "".join(CHANGES[name](gpu, options[name]) for name in chosen for gpu in gpus) + "All done.\n", 0
    if "gpu" in options:
        return query.gpus(options["gpu"].split(","), options.get("format"), gpus), 0
    if "apps" in options:
        return query.apps(options["apps"].split(","), options.get("format"), gpus), 0
    if "query" in options or "display" in options:
        displays = [word.strip().upper() for word in options.get("display", "").split(",") if word.strip()]
        if any(word not in report.DISPLAYS for word in displays):
            raise Stop("Failed to parse --display/-d flags", 2)
        return (xml.render(nvml, gpus) if "xml" in options else report.render(nvml, gpus, displays)), 0
    return table.render(nvml, gpus), 0


def run(argv: list[str]) -> tuple[str, int]:
    if "-h" in argv or "--help" in argv:
        return "NVIDIA System Management Interface (simulated)\n\nOptions: " + " ".join(
            sorted([*VALUED, *FLAGS])
        ) + "\nCommands: topo -m, mig -lgip, mig -lgi, nvlink -s\n", 0
    try:
        if argv[:1] and argv[0] in extra.COMMANDS:
            nvml = open_session()
            return extra.COMMANDS[argv[0]](nvml, choose(nvml, None), argv[1:]), 0
        options = parse(argv)
        nvml = open_session()
        text, status = work(nvml, options)
        if "file" not in options:
            return text, status
        Path(options["file"]).write_text(text, encoding="utf-8")
        return "", status
    except (Stop, change.ChangeError) as exc:
        return f"{exc}\n" if not str(exc).endswith("\n\n") else str(exc), exc.status
    except query.QueryError as exc:
        return f"{exc}\n", 2
    except NvmlError as exc:
        return f"Unable to determine the device handle for GPU: error {exc.code}\n", exc.code if exc.code < 256 else 255


def main(argv: list[str] | None = None) -> int:
    text, status = run(sys.argv[1:] if argv is None else argv)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status
