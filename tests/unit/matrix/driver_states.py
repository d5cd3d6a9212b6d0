"""Hosts of the decision table of docs/driver_tables.md: what is installed, what is loaded, what else is true."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class State:
    """A host, and what is asked of it."""

    says: str
    changes: tuple[t.Mapping[str, t.Any], ...]
    desired: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    local: bool = False
    after: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    """What is true after the work beyond what the planner predicts."""


def driver_states(hosts: t.Any, asked: str, runfile: dict[str, t.Any]) -> list[State]:
    """`hosts`: tests/unit/nvidia_driver/driver_hosts.py; `runfile`: variables of a driver from a .run file."""
    old = "570.133.20"
    right, stale = hosts.with_driver(asked), hosts.with_driver(asked, loaded=old)
    unloaded = hosts.with_driver(asked, loaded=None)
    built = {"name": "nvidia", "version": asked, "kernel": "6.1.0-58-amd64", "state": "installed"}
    next_kernel = {"host": {"kernel": {"next_boot": "6.1.0-58-amd64"}}}
    no_module = {"driver": {"installed": {"module_version": None}}}
    reason = f"driver.module_stale: module {old} is loaded, {asked} is installed"
    tried = {"state_files": {"driver": {"rebooted_for": {reason: "boot-0"}}}}
    foreign = {**hosts.with_driver(old, names=()), "packages": {"holds": [], "set": {}}}
    foreign["driver"] = {
        **foreign["driver"],
        "installed": {**foreign["driver"]["installed"], "origin": "runfile", "packages": {}},
        "repository": None,
    }
    foreign["state_files"] = {"driver": None}
    removed = {
        "driver": {"installed": None, "library": None, "repository": None},
        "packages": {"set": {}, "holds": []},
        "state_files": {"driver": None, "files": {"/etc/modules-load.d/gpufleet-nvidia.conf": None}},
    }
    parameters = {"module_parameters": {"nvidia": {"NVreg_EnableMSI": "0"}}}
    written = {"driver": {"loaded": {"parameters": {"NVreg_EnableMSI": "1"}}}}
    return [
        State("no driver", ()),
        State("no driver, nouveau holds the GPUs", ({"driver": {"nouveau": {"loaded": True}}},)),
        State("runs what is asked for", (right,)),
        State("installed as asked, no module loaded", (unloaded,)),
        State("installed as asked, an older module loaded", (stale,)),
        State("the same, and it was rebooted for that before", (stale, tried)),
        State(
            "the same, and the next boot's kernel has no module",
            (stale, next_kernel, {"driver": {"installed": {"dkms": [{**built, "kernel": "6.1.0-57-amd64"}]}}}),
        ),
        State("the same, and it is the controller", (stale,), local=True),
        State("open modules installed, proprietary one loaded", (right, {"driver": {"loaded": {"kernel_modules": "proprietary"}}})),
        State("a module parameter differs from the loaded one", (right, written), parameters),
        State("a module for the next boot's kernel only", (unloaded, next_kernel, no_module, {"driver": {"installed": {"dkms": [built]}}})),
        State("a module for no kernel", (unloaded, no_module)),
        State("an older driver runs", (hosts.with_driver(old),)),
        State("an older driver runs and does not answer", (hosts.with_driver(old), {"state": "hung"})),
        State("a newer driver runs", (hosts.with_driver("595.91.07"),)),
        State("a newer driver runs, `allow_downgrade`", (hosts.with_driver("595.91.07"),), {"allow_downgrade": True}),
        State("a .run file's driver that is not ours, packages asked for", (foreign,), {"source": "nvidia"}),
        State("the same, `convert`", (foreign,), {"source": "nvidia", "convert": True}),
        State("packages run, a .run file asked for", (hosts.with_driver(old),), runfile),
        State("the same, `convert`", (hosts.with_driver(old),), {**runfile, "convert": True}),
        State("Secure Boot, no key enrolled, no driver", ({"host": {"secure_boot": {"state": "enabled", "mok_enrolled": False}}},)),
        State("`state: absent`, ours runs", (right,), {"state": "absent"}, after=removed),
        State("`state: absent`, packages gone, module loaded", (stale, removed), {"state": "absent"}),
    ]
