# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specifications against the host as it is. Pure; private to the collection.

A specification is stale by its content, never by its age: another driver version, device nodes or libraries that are gone or
have other numbers, GPUs or MIG devices that are not in it.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass, field

import yaml

KIND = "nvidia.com/gpu"
CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
PATH = "/var/run/cdi/nvidia.yaml"
"""Where the toolkit's own refresh unit writes."""
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSIONED = re.compile(r"/lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)$")


@dataclass
class Spec:
    """One specification, reduced to what can be compared."""

    path: str
    kind: str = ""
    version: str = ""
    error: str = ""
    names: set[str] = field(default_factory=set)
    nodes: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    """Paths on the host that are mounted or run."""
    driver: str = ""


def parse(path: str, text: str | None, reason: str = "") -> Spec:
    """A specification; `error` says why it is none."""
    spec = Spec(path)
    if text is None:
        spec.error = reason or "cannot be read"
        return spec
    try:
        tree = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        spec.error = f"line {mark.line + 1}: {getattr(error, 'problem', error)}" if mark else str(error)
        return spec
    except RecursionError:
        spec.error = "nested too deeply"
        return spec
    except (ValueError, KeyError, AttributeError, TypeError) as error:  # the last three: PyYAML, for a tag that its value does not fit
        spec.error = str(error)
        return spec
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str):
        spec.error = "it has no kind"
        return spec
    spec.kind, spec.version = tree["kind"], str(tree.get("cdiVersion") or "")
    devices = _dicts(tree.get("devices"))
    spec.names = {str(device["name"]) for device in devices if isinstance(device.get("name"), (str, int))}
    for edits in (tree.get("containerEdits"), *(device.get("containerEdits") for device in devices)):
        _edits(spec, edits if isinstance(edits, dict) else {})
    return spec


def _edits(spec: Spec, edits: t.Mapping[str, t.Any]) -> None:
    for node in _dicts(edits.get("deviceNodes")):
        spec.nodes[_text(node.get("hostPath")) or _text(node.get("path"))] = (node.get("major"), node.get("minor"))
    for mount in _dicts(edits.get("mounts")):
        path = _text(mount.get("hostPath"))
        spec.files.add(path)
        found = _VERSIONED.search(path)
        if found:
            spec.driver = found.group(1)
    for hook in _dicts(edits.get("hooks")):
        spec.files.add(_text(hook.get("path")))
        arguments = hook.get("args")
        for argument in arguments if isinstance(arguments, list) else ():
            if _text(argument).startswith("--host-driver-version="):
                spec.driver = spec.driver or argument.partition("=")[2]


def _dicts(value: t.Any) -> list[dict[str, t.Any]]:
    """The mappings of a list: what somebody wrote by hand can be anything."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True)
class Reality:
    """What the host has."""

    driver: str = ""
    uuids: tuple[str, ...] = ()
    migs: tuple[str, ...] = ()
    paths: t.Mapping[str, t.Mapping[str, t.Any] | None] = field(default_factory=dict)
    """Path → {type: char|file|dir, major, minor}, None where nothing is there; only paths that were looked at."""


def stale(spec: Spec, real: Reality) -> list[str]:
    """Why a specification does not describe this host; empty if it does."""
    if spec.error:
        return [f"it is not a CDI specification: {spec.error}"]
    why = []
    if spec.driver and real.driver and spec.driver != real.driver:
        why.append(f"it is of driver {spec.driver}, the host has {real.driver}")
    why.extend(no_control_nodes(real))
    why.extend(_nodes(spec, real))
    gone = sorted(path for path in spec.files if path in real.paths and real.paths[path] is None)
    if gone:
        why.append(f"not on the host: {some(gone)}")
    why.extend(_devices(spec, real))
    return why


def no_control_nodes(real: Reality) -> list[str]:
    """Nodes that a container needs and that nobody has made yet; on a host without any node there is nothing to compare with."""
    gpus = any(re.fullmatch(r"/dev/nvidia\d+", path) and there and there["type"] == "char" for path, there in real.paths.items())
    return [f"device node {path} is not there" for path in CONTROL if gpus and not real.paths.get(path)]


def _nodes(spec: Spec, real: Reality) -> list[str]:
    why = []
    for path, numbers in sorted(spec.nodes.items()):
        if path not in real.paths:
            continue
        there = real.paths[path]
        if there is None or there["type"] != "char":
            why.append(f"device node {path} is not there")
        elif any(given is not None and given != there[name] for given, name in zip(numbers, ("major", "minor"), strict=True)):
            why.append(f"device node {path} is {there['major']}:{there['minor']}, not {numbers[0]}:{numbers[1]}")
    known = set(spec.nodes)
    for path, there in sorted(real.paths.items()):
        control = re.fullmatch(r"/dev/nvidia(ctl|-uvm|-uvm-tools)", path)
        if control and there and there["type"] == "char" and path not in known:
            why.append(f"device node {path} is missing in it")
    return why


def _devices(spec: Spec, real: Reality) -> list[str]:
    why = []
    named = {name for name in spec.names if _UUID.fullmatch(name)}
    wanted = {*real.uuids, *real.migs}
    if named:
        # Parents of MIG devices have no entry of their own once they are partitioned.
        missing = sorted((set(real.migs) if real.migs else set(real.uuids)) - named)
        foreign = sorted(named - wanted) if wanted else []
        if missing:
            why.append(f"GPUs that are not in it: {some(missing)}")
        if foreign:
            why.append(f"GPUs in it that the host does not have: {some(foreign)}")
    elif real.uuids and not real.migs:
        indexes = {name for name in spec.names if name.isdigit()}
        if len(indexes) != len(real.uuids):
            why.append(f"it has {len(indexes)} GPUs, the host has {len(real.uuids)}")
    return why


def some(items: t.Sequence[str], limit: int = 3) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more
