# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd: schemas 1, 2 and 3, and the drop-in directory that the root file must import. Pure; private to the collection.

How containerd puts files together (containerd/containerd#5837): up to 2.0 a plugin's table in a later file *replaces* the one of
an earlier file, from 2.1 on they are merged. So the drop-in carries the whole table of the CRI plugin, our runtime added,
wherever the engine would otherwise lose the rest, and is compared with that anew at each run.
"""

from __future__ import annotations

import copy
import typing as t
from pathlib import PurePosixPath

from ._engine_common import (
    RUNTIME,
    EngineAnswer,
    HostFile,
    NewFile,
    Wanted,
    deep,
    differences,
    is_runtime,
    model_of,
    put,
    table,
    wrong_kind,
)
from ._engine_text import BrokenText, Tree, dump_toml, edit_toml, parse_toml
from ._versions import key as version_key

ROOT = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
"""The name that nvidia-ctk uses: with a name of our own both would be there."""
IMPORT = "/etc/containerd/conf.d/*.toml"
PLUGINS = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
MERGES_FROM = "2.1"
CDI_FROM = "1.7"
SCHEMA_3_FROM = "2.0"
HEADER = "# Written by Ansible (gpufleet.inference, role nvidia_container_toolkit): a change here is undone at the next run.\n"


class Config(t.NamedTuple):
    """The files of one containerd, parsed."""

    schema: int
    root: Tree
    base: Tree
    """Root and imported files put together, without our drop-in."""
    drop_in: Tree
    imported: bool
    """Whether the root file imports the drop-in."""

    @property
    def plugin(self) -> str:
        return PLUGINS[self.schema]


def plan_files(wanted: Wanted, files: t.Sequence[HostFile], version: str | None, binary: str, root: str = ROOT) -> EngineAnswer:
    """What must change in the root file and in the drop-in."""
    answer = EngineAnswer("containerd")
    by_path = {file.path: file for file in files}
    for file in files:
        if not file.usable:
            answer.unusable(file)
            return answer
    config = read(answer, by_path, version, root)
    if config is None:
        return answer
    if disabled(config) and wanted.present:
        answer.find(
            "cri_disabled",
            "info",
            "containerd's CRI plugin is switched off, so its runtimes are never used; containerd was left alone.",
            found="disabled_plugins names the CRI plugin",
            needed="CRI, if Kubernetes or crictl should run GPU containers here",
            fix=f"Remove cri from disabled_plugins in {root} if you need it.",
        )
        return answer
    answer.guarded(lambda: _plan(answer, wanted, config, by_path, version, binary, root), root)
    return answer


def read(answer: EngineAnswer, files: t.Mapping[str, HostFile], version: str | None, root: str = ROOT) -> Config | None:
    """All files parsed and put together; None with a finding if one of them cannot be."""
    trees: dict[str, Tree] = {}
    for path, file in files.items():
        try:
            trees[path] = parse_toml(file.text)
        except BrokenText as error:
            answer.broken(path, error)
            return None
        wrong = next(filter(None, (wrong_kind(trees[path], keys, kind) for keys, kind in _shape())), None)
        if wrong and path != DROP_IN:  # ours is written anew, whatever is in it
            answer.misshapen(path, *wrong)
            return None
    tree = trees.get(root, {})
    schema = tree.get("version", 1) if tree else (3 if version and version_key(version) >= version_key(SCHEMA_3_FROM) else 2)
    imports = tree.get("imports", [])
    if not isinstance(imports, list) or not all(isinstance(item, str) for item in imports):
        answer.misshapen(root, "imports", imports, "a list of paths")
        return None
    if schema not in PLUGINS:
        answer.find(
            "config_schema",
            "block",
            f"{root} has version {schema}, which this collection does not know; nothing was written.",
            found=f"version = {schema}",
            needed="schema 1, 2 or 3",
            fix="Upgrade this collection, or add the NVIDIA runtime by hand and leave containerd out of the engines.",
        )
        return None
    imports = [_absolute(pattern, root) for pattern in imports]
    order = sorted((path for path in trees if path not in (root, DROP_IN)), key=lambda path: (_position(path, imports), path))
    base = copy.deepcopy(tree)
    for path in order:
        if _position(path, imports) < len(imports):
            base = overlay(base, trees[path], merges(version))
    return Config(schema, tree, base, trees.get(DROP_IN, {}), any(_matches(DROP_IN, pattern) for pattern in imports))


def _shape() -> t.Iterator[tuple[tuple[str, ...], type]]:
    """What is read or written here, and what it must be."""
    yield from [(("version",), int), (("imports",), list), (("disabled_plugins",), list)]
    for plugin in PLUGINS.values():
        yield ("plugins", plugin, "containerd", "default_runtime_name"), str
        yield ("plugins", plugin, "containerd", "runtimes", "*", "options"), dict


def _position(path: str, imports: t.Sequence[str]) -> int:
    return next((index for index, pattern in enumerate(imports) if _matches(path, pattern)), len(imports))


def _matches(path: str, pattern: str) -> bool:
    """As a shell does it: a star stays within its folder."""
    return PurePosixPath(path).match(pattern)


def _absolute(pattern: str, root: str) -> str:
    """containerd takes a relative import from the folder of the file that has it."""
    return str(PurePosixPath(root).parent / pattern)


def merges(version: str | None) -> bool:
    return bool(version) and version_key(str(version)) >= version_key(MERGES_FROM)


def overlay(base: Tree, over: Tree, merging: bool) -> Tree:
    """One file on another, as containerd does it."""
    out = copy.deepcopy(base)
    for key, value in over.items():
        if key == "plugins" and isinstance(value, dict):
            plugins = out.setdefault("plugins", {})
            for name, content in value.items():
                plugins[name] = deep(plugins.get(name), content) if merging else copy.deepcopy(content)
        elif key not in ("version", "imports"):
            out[key] = deep(out.get(key), value)
    return out


def disabled(config: Config) -> bool:
    names = config.base.get("disabled_plugins") or []
    return any(name in names for name in ("cri", "io.containerd.grpc.v1.cri", config.plugin))


def runtime_of(cri: Tree, wanted: Wanted) -> Tree:
    """The entry of our runtime: a copy of the one that is used now, so that SystemdCgroup and all else stay, with our binary."""
    runtimes = table(cri, "containerd", "runtimes")
    existing = runtimes.get(RUNTIME)
    if isinstance(existing, dict) and is_runtime(table(existing, "options").get("BinaryName")):
        return copy.deepcopy(existing)
    entry = model_of(runtimes, table(cri, "containerd").get("default_runtime_name"), "runc", "crun")
    entry.setdefault("runtime_type", "io.containerd.runc.v2")
    put(entry, wanted.runtime_path, "options", "BinaryName")
    return entry


def wanted_cri(config: Config, wanted: Wanted, version: str | None, minimal: bool) -> Tree:
    """The CRI plugin's table as it should be; `minimal` leaves out what is not ours."""
    base = table(config.base, "plugins", config.plugin)
    cri: Tree = {} if minimal else copy.deepcopy(base)
    if not wanted.present:
        table(cri, "containerd", "runtimes").pop(RUNTIME, None)
        if table(cri, "containerd").get("default_runtime_name") == RUNTIME:
            del cri["containerd"]["default_runtime_name"]
        return cri
    entry = runtime_of(base, wanted)
    if config.schema == 1:
        entry["options"]["Runtime"] = entry["options"]["BinaryName"]
    put(cri, entry, "containerd", "runtimes", RUNTIME)
    default = table(base, "containerd").get("default_runtime_name")
    if wanted.default_runtime == "nvidia":
        put(cri, RUNTIME, "containerd", "default_runtime_name")
    elif wanted.default_runtime == "engine" and default == RUNTIME:
        put(cri, "runc", "containerd", "default_runtime_name")
    if wanted.cdi and version and version_key(version) >= version_key(CDI_FROM) and base.get("enable_cdi") is not True:
        cri["enable_cdi"] = True
    return cri


def _plan(
    answer: EngineAnswer, wanted: Wanted, config: Config, files: t.Mapping[str, HostFile], version: str | None, binary: str, root: str
) -> None:
    text = files[root].text if root in files else ""
    if config.schema == 1 or not wanted.present:
        after = copy.deepcopy(config.root)
        cri = wanted_cri(config._replace(base=config.root), wanted, version, minimal=False)
        if cri or table(after, "plugins", config.plugin):
            put(after, cri, "plugins", config.plugin)
        _write(answer, root, text, config.root, after)
        if not wanted.present and config.drop_in:
            answer.files.append(NewFile(DROP_IN, None, ("runtimes.nvidia",)))
    else:
        drop_in = {"version": config.schema, "plugins": {config.plugin: wanted_cri(config, wanted, version, merges(version))}}
        if config.drop_in != drop_in:
            answer.files.append(NewFile(DROP_IN, HEADER + dump_toml(drop_in), differences(config.drop_in, drop_in)))
        if not config.imported:
            after = {"version": config.schema, **config.root, "imports": [*config.root.get("imports", []), IMPORT]}
            _write(answer, root, text, config.root, after)
    if answer.files:
        _stage(answer, config, files, binary, root)


def _write(answer: EngineAnswer, path: str, text: str, before: Tree, after: Tree) -> None:
    if before != after:
        answer.files.append(NewFile(path, edit_toml(text, after), differences(before, after)))


def _stage(answer: EngineAnswer, config: Config, files: t.Mapping[str, HostFile], binary: str, root: str) -> None:
    """The future files side by side, imports pointing among them, so that containerd itself can be asked before anything is written."""
    future = {path: file.text for path, file in files.items() if file.state == "ok"}
    for new in answer.files:
        if new.text is None:
            future.pop(new.path, None)
        else:
            future[new.path] = new.text
    text = future.pop(root, "")
    imports = parse_toml(text).get("imports")
    if imports:
        text = edit_toml(text, {**parse_toml(text), "imports": ["{stage}" + _absolute(pattern, root) for pattern in imports]})
    answer.stage = {"config.toml": text, **{path.lstrip("/"): content for path, content in future.items()}}
    answer.validate = [binary, "--config", "{stage}/config.toml", "config", "dump"]
    answer.dump = [binary, "--config", root, "config", "dump"]


def dump_problem(dump: str, wanted: Wanted) -> str:
    """What containerd's own account of its configuration lacks; empty if nothing."""
    try:
        tree = parse_toml(dump)
    except BrokenText as error:
        return f"containerd config dump is not TOML ({error})"
    plugin = PLUGINS.get(tree.get("version", 1), "")
    runtimes = table(tree, "plugins", plugin, "containerd", "runtimes")
    entry = runtimes.get(RUNTIME)
    if not wanted.present:
        return f"runtime {RUNTIME} is still there" if entry else ""
    if isinstance(entry, dict) and not is_runtime(table(entry, "options").get("BinaryName")):
        return f"runtime {RUNTIME} runs {table(entry, 'options').get('BinaryName') or 'the default binary'}"
    if not isinstance(entry, dict):
        return f"runtime {RUNTIME} is not among {', '.join(runtimes) or 'none'}"
    runc = table(runtimes, "runc", "options").get("SystemdCgroup")
    if runc is True and table(entry, "options").get("SystemdCgroup") is not True:
        return f"runtime {RUNTIME} has lost SystemdCgroup"
    return ""
