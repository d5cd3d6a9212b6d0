# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O: a drop-in of our own in crio.conf.d, which it always reads. Pure; private to the collection."""

from __future__ import annotations

import copy
import typing as t

from ._engine_common import RUNTIME, EngineAnswer, HostFile, NewFile, Wanted, deep, differences, is_runtime, model_of, put, table
from ._engine_text import BrokenText, Tree, dump_toml, parse_toml

ROOT = "/etc/crio/crio.conf"
DROP_IN = "/etc/crio/crio.conf.d/99-nvidia.toml"
HEADER = "# Written by Ansible (gpufleet.inference, role nvidia_container_toolkit): a change here is undone at the next run.\n"


def plan_files(wanted: Wanted, files: t.Sequence[HostFile], binary: str) -> EngineAnswer:
    """What must change in the drop-in."""
    answer = EngineAnswer("crio")
    trees: dict[str, Tree] = {}
    for file in files:
        if not file.usable:
            answer.unusable(file)
            return answer
        try:
            trees[file.path] = parse_toml(file.text)
        except BrokenText as error:
            answer.broken(file.path, error)
            return answer
    answer.guarded(lambda: _plan(answer, wanted, trees, {file.path: file for file in files}, binary), DROP_IN)
    return answer


def _plan(answer: EngineAnswer, wanted: Wanted, trees: t.Mapping[str, Tree], files: t.Mapping[str, HostFile], binary: str) -> None:
    before = trees.get(DROP_IN, {})
    base: Tree = {}
    for path in sorted((path for path in trees if path != DROP_IN), key=lambda path: (path != ROOT, path)):
        base = overlay(base, trees[path])
    if not wanted.present:
        if before:
            answer.files.append(NewFile(DROP_IN, None, ("crio.runtime.runtimes.nvidia",)))
        return
    after = drop_in(base, before, wanted)
    if before != after:
        text = HEADER + dump_toml(after)
        answer.files.append(NewFile(DROP_IN, text, differences(before, after)))
        answer.stage = {path.removeprefix("/etc/crio/"): file.text for path, file in files.items() if file.state == "ok"}
        answer.stage[DROP_IN.removeprefix("/etc/crio/")] = text
        answer.stage.setdefault("crio.conf", "")
        answer.validate = [binary, "--config", "{stage}/crio.conf", "--config-dir", "{stage}/crio.conf.d", "config"]
        answer.dump = [binary, "config"]


def overlay(base: Tree, over: Tree) -> Tree:
    """One file on another, as CRI-O does it: keys one by one, but a runtime that a later file names is that file's alone."""
    out = t.cast(Tree, deep(base, over))
    for name, entry in table(over, "crio", "runtime", "runtimes").items():
        put(out, copy.deepcopy(entry), "crio", "runtime", "runtimes", name)
    return out


def drop_in(base: Tree, before: Tree, wanted: Wanted) -> Tree:
    """Our file: the runtime that is used now, with our binary (its monitor_path and the rest stay)."""
    runtimes = table(base, "crio", "runtime", "runtimes")
    model = model_of(runtimes, table(base, "crio", "runtime").get("default_runtime"), "crun", "runc")
    entry = {**model, "runtime_type": "oci"}
    known = table(before, "crio", "runtime", "runtimes", RUNTIME).get("runtime_path")
    entry["runtime_path"] = known if is_runtime(known) else wanted.runtime_path
    out: Tree = {}
    put(out, entry, "crio", "runtime", "runtimes", RUNTIME)
    if wanted.default_runtime == "nvidia" or (
        wanted.default_runtime == "keep" and table(before, "crio", "runtime").get("default_runtime") == RUNTIME
    ):
        put(out, RUNTIME, "crio", "runtime", "default_runtime")
    return out
