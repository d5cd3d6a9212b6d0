# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything about a GPU host in one document (schemas/gpu_info.schema.json). Private to the collection.

Order matters only for cost: cheap files first, then one `systemctl show`, one `modinfo`, one bounded NVML session.
"""

from __future__ import annotations

import datetime
import time
import typing as t

from . import _units
from ._container_facts import read_containers
from ._cuda_facts import read_cuda
from ._driver_facts import read_driver
from ._driver_holders import read_holders
from ._fabric import fabric_facts
from ._fingerprint import fingerprint
from ._gpu_facts import merge_gpus
from ._host import read_host
from ._imex import read_imex
from ._managers import read_managers
from ._nvml import Options, Outcome, run_bounded
from ._nvml_load import locate
from ._packages import facts as package_facts
from ._packages import read_packages
from ._pci import read_pci
from ._processes import Processes
from ._reader import Reader
from ._stack_state import stack_state
from ._state_files import read_state_files

_NO_VERSIONS = {"driver_version": None, "nvml_version": None, "cuda_driver_version": None, "count": None, "gpus": None}


def collect(reader: Reader, options: Options, expected: t.Optional[int] = None, details: bool = False) -> dict[str, t.Any]:
    """The whole document. Never raises for something that is missing or broken on the host."""
    begin = time.monotonic()
    host = read_host(reader)
    pci = read_pci(reader)
    packages = read_packages(reader, host["os"]["family"])
    kernel = host["kernel"]
    driver = read_driver(reader, packages, pci, options.library, (kernel["release"], kernel["next_boot"]))
    unit_files = _units.scan_files(reader)
    units = _units.read_units(reader, unit_files.names)

    outcome = _ask_nvml(driver, options, details)
    answer = outcome.data or _NO_VERSIONS
    gpus = merge_gpus(pci["gpus"], answer["gpus"])
    described = Processes(reader)
    for gpu in gpus:
        gpu["processes"] = [{**process, **described.describe(process["pid"])} for process in gpu["processes"]]
    if driver["loaded"]:
        driver["holders"] = read_holders(reader, [process["pid"] for gpu in gpus for process in gpu["processes"]])
    counts = {"pci": len(pci["gpus"]), "nvml": answer["count"], "expected": expected}
    nvml = _nvml_facts(outcome, answer, options)
    state, reason = stack_state(driver, {**nvml, "reason": outcome.reason}, gpus, counts)
    fabric = fabric_facts(pci, gpus, units, packages.installed("driver"))
    if fabric["imex"]:
        fabric["imex"].update(read_imex(reader))
    return {
        "schema": 1,
        "collected_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "state": state,
        "reason": reason,
        "host": host,
        "pci": pci,
        "driver": driver,
        "nvml": nvml,
        "gpus": gpus,
        "counts": counts,
        "fabric": fabric,
        "cuda": read_cuda(reader, packages),
        "containers": read_containers(reader, packages, units),
        "units": units,
        "services": _units.services(units, [process for gpu in gpus for process in gpu["processes"]], unit_files.engines),
        "managers": read_managers(reader, units, unit_files.power),
        "packages": package_facts(packages),
        "state_files": read_state_files(reader),
        "fingerprint": fingerprint(gpus, driver),
        "unread": reader.unread,
        "duration_ms": round((time.monotonic() - begin) * 1000, 3),
    }


def _ask_nvml(driver: t.Mapping[str, t.Any], options: Options, details: bool) -> Outcome:
    """A session where there is anything to talk to; else a child and an import would only cost time."""
    if driver["loaded"] or driver["library"]:
        from ._gpu_query import query  # a quarter of this module's code: a host without a driver need not load it

        return run_bounded(query, {"details": details}, options)
    if driver["installed"]:
        return Outcome("no_library", reason="libnvidia-ml.so.1 is not on this host")
    return Outcome("no_driver", reason="no NVIDIA driver is installed")


def _nvml_facts(outcome: Outcome, answer: t.Mapping[str, t.Any], options: Options) -> dict[str, t.Any]:
    return {
        "state": outcome.state,
        "error": outcome.error,
        "nvml_version": answer["nvml_version"],
        "driver_version": answer["driver_version"],
        "cuda_driver_version": answer["cuda_driver_version"],
        "pynvml": outcome.pynvml or locate(options.python_dir),
        "timings_ms": outcome.timings_ms,
        "hung": outcome.hung,
    }
