# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: daemon.json. Pure; private to the collection.

The daemon re-reads runtimes and the default runtime when it is told to reload; CDI is switched on at its start only.
"""

from __future__ import annotations

import copy
import typing as t

from ..module_utils._paths import CDI_FOR_ROOTLESS
from ._engine_common import RUNTIME, EngineAnswer, HostFile, NewFile, Wanted, differences, is_runtime
from ._engine_text import Tree, dump_json, parse_json
from ._versions import key as version_key

DAEMON_JSON = "/etc/docker/daemon.json"
CDI_FROM = "25.0"
"""First release with `features.cdi`."""
CDI_BY_ITSELF = "28.3"
"""First release that has it on without being told."""
SHOWS_CDI_FROM = "28.0"
"""First release whose rootless start script shows /etc/cdi and /run/cdi as folders."""
SPEC_DIRS = ["/etc/cdi", "/var/run/cdi"]
VALIDATES_FROM = "23.0"

Need = t.Literal["none", "reload", "restart", "unknown"]


def plan_files(wanted: Wanted, file: HostFile, version: str | None, binary: str, arguments: t.Sequence[str] = ()) -> EngineAnswer:
    """What must change in daemon.json; `arguments` are those of the daemon's unit."""
    answer = EngineAnswer("docker")
    if not file.usable:
        answer.unusable(file)
        return answer
    answer.guarded(lambda: _plan(answer, wanted, file, version, [binary, *arguments]), file.path)
    return answer


def _plan(answer: EngineAnswer, wanted: Wanted, file: HostFile, version: str | None, command: list[str]) -> None:
    before = parse_json(file.text)
    for key, kind in (("runtimes", dict), ("features", dict), ("default-runtime", str), ("cdi-spec-dirs", list)):
        if key in before and not isinstance(before[key], kind):
            answer.misshapen(file.path, key, before[key], {dict: "an object", str: "text"}.get(kind, "a list"))
            return
    after = merged(before, wanted, version, file.path in wanted.cdi_switched)
    if after == before:
        return
    if _switch(after) != _switch(before):
        answer.cdi_switch = "on" if _switch(after) else "off"
    text = dump_json(after, file.text)
    answer.files.append(NewFile(file.path, text, differences(before, after)))
    if version and version_key(version) >= version_key(VALIDATES_FROM):
        answer.stage = {"daemon.json": text}
        answer.validate = [*command, "--validate", "--config-file", "{stage}/daemon.json"]


def _switch(tree: Tree) -> bool:
    return tree.get("features", {}).get("cdi") is True


def merged(before: Tree, wanted: Wanted, version: str | None, switched: bool = False) -> Tree:
    """daemon.json as it should be; every foreign key stays, in its place. `switched`: its CDI was switched on by us."""
    after = copy.deepcopy(before)
    runtimes = after.get("runtimes", {})
    if not wanted.present:
        # An empty object stays: without the key a reload would leave the running daemon its old runtimes (seen with 20.10 and 26.1).
        runtimes.pop(RUNTIME, None)
        if after.get("default-runtime") == RUNTIME:
            del after["default-runtime"]
        if switched and after.get("features", {}).pop("cdi", None) is not None and not after["features"]:
            del after["features"]
        left = [folder for folder in after.get("cdi-spec-dirs", []) if folder != CDI_FOR_ROOTLESS]
        if left != after.get("cdi-spec-dirs", []):
            after["cdi-spec-dirs"] = left
            if left == SPEC_DIRS:
                del after["cdi-spec-dirs"]
        return after
    runtime = runtimes.get(RUNTIME)
    if not _is_ours(runtime):
        # With runtimeType and options the daemon would refuse a path beside them.
        gone = ("path", "runtimeType", "options")
        kept = {key: value for key, value in runtime.items() if key not in gone} if isinstance(runtime, dict) else {"args": []}
        after.setdefault("runtimes", {})[RUNTIME] = {"path": wanted.runtime_path, **kept}
    if wanted.default_runtime == "nvidia":
        after["default-runtime"] = RUNTIME
    elif wanted.default_runtime == "engine" and after.get("default-runtime") == RUNTIME:
        del after["default-runtime"]
    if wanted.cdi and needs_cdi_switch(version) and not _switch(after):
        after.setdefault("features", {})["cdi"] = True
    if wanted.cdi and wanted.spec_dir and wanted.spec_dir not in after.get("cdi-spec-dirs", []):
        after["cdi-spec-dirs"] = [*after.get("cdi-spec-dirs", SPEC_DIRS), wanted.spec_dir]
    return after


def rootless_spec_dir(version: str | None) -> str:
    """The folder that rootless Docker needs in releases whose start script does not show it /run/cdi itself (moby/moby#47676, #48541)."""
    return CDI_FOR_ROOTLESS if version and version_key(CDI_FROM) <= version_key(version) < version_key(SHOWS_CDI_FROM) else ""


def _is_ours(runtime: t.Any) -> bool:
    """NVIDIA's binary, named by path or as the binary of a shim."""
    if not isinstance(runtime, dict):
        return False
    options = runtime.get("options")
    return is_runtime(runtime.get("path")) or (isinstance(options, dict) and is_runtime(options.get("BinaryName")))


def needs_cdi_switch(version: str | None) -> bool:
    """Whether this release has CDI, but off."""
    return bool(version) and version_key(CDI_FROM) <= version_key(str(version)) < version_key(CDI_BY_ITSELF)


def running_need(wanted: Wanted, after: Tree, running: t.Mapping[str, t.Any] | None, version: str | None) -> Need:
    """What the running daemon needs so that it does what its file says; `running` is what `docker info` answered."""
    if running is None:
        return "unknown"
    runtimes = running.get("Runtimes") or {}
    if wanted.cdi and wanted.present and needs_cdi_switch(version) and not running.get("CDISpecDirs"):
        return "restart"
    if wanted.cdi and wanted.spec_dir and wanted.spec_dir not in (running.get("CDISpecDirs") or []):
        return "restart"
    if (RUNTIME in runtimes) != wanted.present:
        return "reload"
    default = after.get("default-runtime") or "runc"
    if default in ("runc", RUNTIME) and running.get("DefaultRuntime") in ("runc", RUNTIME) and default != running["DefaultRuntime"]:
        return "reload"
    return "none"
