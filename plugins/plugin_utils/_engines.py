# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One answer for all engines: which files change, and what the running engine needs. Pure; private to the collection."""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t
from dataclasses import dataclass, field

from . import _cdi, _engine_containerd, _engine_crio, _engine_docker
from ._contracts import Disruption
from ._engine_common import EngineAnswer, HostFile, NewFile, Wanted
from ._engine_docker import Need
from ._engine_text import BrokenText, parse_json

UNITS = {"docker": "docker.service", "containerd": "containerd.service", "crio": "crio.service"}
DAEMONS = tuple(UNITS)


@dataclass
class EnginePlan:
    """What is to be done with one engine."""

    engine: str
    answer: EngineAnswer
    need: Need = "none"
    why: str = ""
    disruption: Disruption = "none"
    user: str = ""
    unit: str = ""
    seen: dict[str, str] = field(default_factory=dict)
    """Path → digest of the text that this plan was made from, empty for a file that was not there."""

    @property
    def work(self) -> bool:
        return bool(self.answer.files) or self.need in ("reload", "restart")

    def job(self) -> dict[str, t.Any]:
        """Arguments of the host's half of container_engine_config."""
        return {
            "engine": self.engine,
            "unit": self.unit,
            "files": [{"path": file.path, "text": file.text, "seen": self.seen.get(file.path, "")} for file in self.answer.files],
            "stage": self.answer.stage,
            "validate": self.answer.validate,
            "dump": self.answer.dump,
            "action": self.need if self.need in ("reload", "restart") else "none",
            "user": self.user,
            "cdi_switch": self.answer.cdi_switch,
        }

    def summary(self) -> list[str]:
        """Lines for people: names of what changes, never values."""
        lines = [f"{file.path}: {', '.join(file.parts) if file.text is not None else 'removed'}" for file in self.answer.files]
        return [*lines, *([f"{self.unit}: {self.need} ({self.why})"] if self.need in ("reload", "restart") else [])]


def plan_engine(engine: str, facts: t.Mapping[str, t.Any], wanted: Wanted, info: t.Mapping[str, t.Any]) -> EnginePlan:
    """`facts`: engines[engine] of container_info, `info` the whole of it."""
    files = [HostFile.of(file) for file in facts["files"]]
    version, binary = facts.get("version"), facts["binary"]
    if engine == "docker":
        answer = _engine_docker.plan_files(wanted, files[0], version, binary, facts.get("arguments") or ())
    elif engine == "containerd":
        answer = _engine_containerd.plan_files(wanted, files, version, binary, facts.get("root") or _engine_containerd.ROOT)
    else:
        answer = _engine_crio.plan_files(wanted, files, binary)
    if engine == "containerd" and not answer.files and not answer.findings:
        _account(answer, facts.get("dump") or {}, wanted)
    plan = EnginePlan(engine, answer, unit=UNITS[engine], seen=_digests(files))
    if facts["unit"]["active"] != "active" or answer.findings:
        return plan
    if engine == "docker":
        _docker_need(plan, facts, wanted, files[0])
        if plan.need == "unknown":
            _no_answer(answer)
    elif answer.files:
        plan.need, plan.why = "restart", "its files change"
    elif _older_than_files(engine, facts, info) and _configured(engine, files, wanted):
        plan.need, plan.why = "restart", "it was started before its files were changed"
    plan.disruption = _disruption(plan, facts, info)
    return plan


def _no_answer(answer: EngineAnswer) -> None:
    answer.find(
        "no_answer",
        "warn",
        "Docker is active and does not answer on /run/docker.sock: whether it runs with what its file says is not known, and it is not"
        " told to reload or restart.",
        found="no answer",
        needed="a daemon that answers docker info",
        fix="Look at journalctl -u docker, restart Docker if it hangs, then run again. If it listens elsewhere only, reload it by hand.",
    )


def switched(info: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Files whose CDI switch is ours to take back: none while there are devices of other vendors, whose containers may need it by now."""
    kinds = [_cdi.parse(spec["path"], spec["text"], spec["reason"]).kind for spec in info["cdi"]["specs"]]
    return () if any(kind not in ("", _cdi.KIND) for kind in kinds) else tuple(info.get("cdi_switched") or ())


def _digests(files: t.Sequence[HostFile]) -> dict[str, str]:
    return {file.path: hashlib.sha256(file.text.encode()).hexdigest() for file in files if file.state == "ok"}


def _account(answer: EngineAnswer, dump: t.Mapping[str, t.Any], wanted: Wanted) -> None:
    """The files say the right thing; does containerd say so too? A later drop-in of somebody else can take ours away."""
    problem = _engine_containerd.dump_problem(dump["text"], wanted) if dump.get("state") == "ok" else dump.get("error") or "no answer"
    if problem:
        answer.find(
            "dump_differs",
            "block",
            f"containerd's files are as they should be, but `containerd config dump` is not: {problem}.",
            found=problem,
            needed="the NVIDIA runtime in containerd's own account of its configuration",
            fix="Look at the files that /etc/containerd/config.toml imports after 99-nvidia.toml.",
        )


def plan_rootless(file: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], wanted: Wanted) -> EnginePlan:
    """Rootless Docker of one user: its own daemon.json, its own unit in the user's manager, its own socket."""
    his = HostFile.of(file)
    wanted = dataclasses.replace(wanted, spec_dir=_engine_docker.rootless_spec_dir(facts.get("version")))
    answer = _engine_docker.plan_files(wanted, his, facts.get("version"), facts["binary"])
    plan = EnginePlan("docker", answer, unit="docker.service", user=str(file["user"]), seen=_digests([his]))
    if answer.findings:
        return plan
    _docker_need(plan, {**facts, "running": file["running"]}, wanted, his)
    if wanted.present and wanted.cdi and file["sees_cdi"] is False:
        plan.need, plan.why = "restart", "it was started before /run/cdi was there"
    plan.disruption = _disruption(plan, file, {})
    return plan


def _docker_need(plan: EnginePlan, facts: t.Mapping[str, t.Any], wanted: Wanted, file: HostFile) -> None:
    text = plan.answer.files[0].text if plan.answer.files else file.text
    try:
        after = parse_json(text or "")
    except BrokenText:
        return
    plan.need = _engine_docker.running_need(wanted, after, facts.get("running"), facts.get("version"))
    plan.why = {"reload": "runtimes differ from its file", "restart": "CDI is switched on at its start only"}.get(plan.need, "")
    if plan.need == "none" and plan.answer.files:
        plan.need, plan.why = "reload", "its file changes"


def _older_than_files(engine: str, facts: t.Mapping[str, t.Any], info: t.Mapping[str, t.Any]) -> bool:
    changed = max((file["changed_at"] for file in facts["files"] if file.get("changed_at")), default=0.0)
    started = facts["unit"].get("started_at")
    record = (info.get("engines_record") or {}).get(engine) or {}
    if record.get("invocation") and record["invocation"] == facts["unit"]["invocation"]:
        return bool(changed > record["at"])
    return bool(started is not None and changed > started)


def _configured(engine: str, files: t.Sequence[HostFile], wanted: Wanted) -> bool:
    """Whether the files speak of our runtime at all: somebody else's change of somebody else's setting is not our restart."""
    return wanted.present and any("nvidia-container-runtime" in file.text for file in files)


def _disruption(plan: EnginePlan, facts: t.Mapping[str, t.Any], info: t.Mapping[str, t.Any]) -> Disruption:
    """A restart of containerd or CRI-O leaves containers alone, one of Docker does so with live-restore only."""
    if plan.need != "restart":
        return "none"
    docker = (info.get("engines") or {}).get("docker") or {}
    hit = facts if plan.engine == "docker" else docker if "docker.service" in facts["unit"]["pulls_down"] else None
    running = (hit or {}).get("running") or {}
    if hit is None or running.get("LiveRestoreEnabled") or running.get("ContainersRunning") == 0:
        return "none"
    return "host_service_restart"


__all__ = ["DAEMONS", "UNITS", "EnginePlan", "NewFile", "plan_engine", "plan_rootless", "switched"]
