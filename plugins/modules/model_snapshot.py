#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_snapshot
version_added: 0.2.0
short_description: A pinned revision of a model on a host, whole, verified and switched at once
author: gpufleet contributors (@gpufleet)
description:
  - Brings one revision of a model into a store on the host, from a hub (or a mirror of it), or from a folder that the host sees.
  - Files come side by side, are resumed where they broke off, and are kept only if their digest is the hub's; safetensors files are
    compared with their own headers and with their index. Only then C(STORE/NAME/current) leads to the new snapshot, in one step.
  - The work runs in a transient systemd unit C(gpufleet-model-NAME), so that it survives a lost connection; the next run attaches to it.
    While it runs, its progress is shown.
  - What is there is never edited. O(patches) make a second folder, in which the unchanged files are hard links.
  - A re-run compares sizes and times with what was recorded, without reading the files and without the network.
options:
  state:
    description: V(absent) removes the model with all its snapshots.
    type: str
    choices: [present, absent]
    default: present
  name:
    description: Name of the model in the store.
    type: str
    required: true
  store:
    description: Folder of all models on this host.
    type: path
    default: /var/lib/gpufleet/models
  repo:
    description: Repository on the hub, C(organisation/model). Either this or O(path).
    type: str
  revision:
    description: Commit of the repository, 40 hexadecimal digits. A branch or tag needs O(allow_unpinned).
    type: str
  allow_unpinned:
    description:
      - Accept a branch or tag as O(revision). It is resolved once; the model then stays at that commit until O(refresh=true).
    type: bool
    default: false
  refresh:
    description: Ask the hub again where a branch or tag leads to.
    type: bool
    default: false
  endpoint:
    description: The hub, or a mirror with the same interface.
    type: str
    default: https://huggingface.co
  token:
    description: Token for the hub. Kept in a file that only root reads, as long as the work goes on.
    type: str
  path:
    description: Folder on the host, such as a mounted share, to copy from instead of a hub.
    type: path
  include:
    description: Patterns of file names to take; all if empty.
    type: list
    elements: str
    default: []
  exclude:
    description: Patterns of file names to leave out.
    type: list
    elements: str
    default: [original/*, "*.pth", "*.gguf", "*.onnx"]
  sha256:
    description: File name to SHA-256, compared beyond what the hub says.
    type: dict
    default: {}
  patches:
    description:
      - File name to patch. A dictionary patches a JSON file by JSON Merge Patch (RFC 7396, null removes a key); a string is the whole text
        of any other file, such as C(chat_template.jinja).
    type: dict
    default: {}
  keep:
    description: Snapshots to keep besides the one in use and those it is made of.
    type: int
    default: 1
  reserve:
    description: Bytes that must stay free on the file system.
    type: int
    default: 5368709120
  workers:
    description: Files fetched at the same time, 1 to 32.
    type: int
    default: 4
  stall_timeout:
    description: Seconds without a byte after which a file is tried again.
    type: float
    default: 60
  timeout:
    description: Seconds to wait for the work. When they are over the task fails and the work goes on; a re-run attaches to it.
    type: int
    default: 7200
  step:
    description: Set by the action of this module.
    type: str
    choices: [plan, start, poll]
    default: plan
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
    details: Asks the hub for the list of files where something is missing, so that size and disk space are known before.
  diff_mode:
    support: full
  idempotent:
    support: full
  async:
    description: Not needed, the work has its own unit.
    support: none
"""

EXAMPLES = r"""
- name: A model at one commit, with a pad token that its configuration lacks
  gpufleet.inference.model_snapshot:
    name: llama-3.1-8b
    repo: meta-llama/Llama-3.1-8B-Instruct
    revision: 0e9e39f249a16976918f6564b8830bc894c89659
    token: "{{ hub_token }}"
    patches:
      generation_config.json:
        pad_token_id: 128004
  become: true
"""

RETURN = r"""
path:
  description: Folder of the snapshot, to be given to an engine.
  returned: success
  type: str
  sample: /var/lib/gpufleet/models/llama-3.1-8b/snapshots/0e9e39f249a16976918f6564b8830bc894c89659+1f6dcd8a3bb2
current:
  description: Link that leads to the snapshot in use.
  returned: success
  type: str
  sample: /var/lib/gpufleet/models/llama-3.1-8b/current
previous:
  description: Folder that the link led to before, if it was another.
  returned: when it was changed
  type: str
to_fetch:
  description: Bytes and files that are (in check mode, would be) fetched.
  returned: when files are missing
  type: dict
  sample: {bytes: 16077790720, files: 11}
reason:
  description:
    - A word for the cause, V(checksum), V(truncated), V(damaged), V(incomplete), V(disk_full), V(denied), V(gated), V(not_found),
      V(unreachable), V(bad_answer), V(empty), V(bad_patch), V(busy), V(killed), V(taken), V(timeout), V(failed).
  returned: failure
  type: str
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _model_work
from ..module_utils._errors import HostError, WorkError
from ..module_utils._job import Job, Kind
from ..module_utils._model_hub import Hub, ModelError
from ..module_utils._model_layout import Layout

KIND = Kind("gpufleet-model", "gpufleet_models", "_model_work")
KEYS = (
    "name",
    "store",
    "repo",
    "revision",
    "refresh",
    "endpoint",
    "path",
    "include",
    "exclude",
    "sha256",
    "patches",
    "keep",
    "reserve",
    "workers",
    "stall_timeout",
)
"""Options that the work needs."""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "name": {"type": "str", "required": True},
            "store": {"type": "path", "default": "/var/lib/gpufleet/models"},
            "repo": {"type": "str"},
            "revision": {"type": "str"},
            "allow_unpinned": {"type": "bool", "default": False},
            "refresh": {"type": "bool", "default": False},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "no_log": True},
            "path": {"type": "path"},
            "include": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": list(_model_work.EXCLUDE)},
            "sha256": {"type": "dict", "default": {}},
            "patches": {"type": "dict", "default": {}},
            "keep": {"type": "int", "default": 1},
            "reserve": {"type": "int", "default": 5 << 30},
            "workers": {"type": "int", "default": 4},
            "stall_timeout": {"type": "float", "default": 60},
            "timeout": {"type": "int", "default": 7200},
            "step": {"type": "str", "choices": ["plan", "start", "poll"], "default": "plan"},
        },
        mutually_exclusive=[("repo", "path")],
        required_if=[("state", "present", ("repo", "path"), True)],
        required_by={"repo": "revision"},
        supports_check_mode=True,
    )
    try:
        _refuse(module.params)
        module.exit_json(**_step(module))
    except HostError as exc:
        module.fail_json(msg=f"model {module.params['name']}: {exc}", reason=exc.reason if isinstance(exc, WorkError) else "failed")
    except OSError as exc:
        module.fail_json(msg=f"model {module.params['name']}: {exc.filename or 'the store'}: {exc.strerror or exc}", reason="failed")


def _step(module: AnsibleModule) -> dict[str, t.Any]:
    options = module.params
    layout = Layout(options["store"], options["name"])
    unit = Job(KIND, options["name"])
    if options["state"] == "absent":
        return _absent(layout, unit, module.check_mode)
    job = {key: options[key] for key in KEYS}
    if options["step"] == "poll":
        return {"changed": True, "current": layout.current, **unit.status()}
    if options["step"] == "start":
        begun = unit.start(job, {"token": options["token"] or ""}, title=f"model {job['name']}")
        return {"changed": True, "unit": unit.unit, "attached": not begun}
    return _plan(job, options["token"] or "", layout, unit)


def _plan(job: dict[str, t.Any], token: str, layout: Layout, unit: Job) -> dict[str, t.Any]:
    state = _model_work.state_of(job)
    answer: dict[str, t.Any] = {"changed": state.work, "current": layout.current, "unit": unit.unit}
    if not state.work:
        return {**answer, "path": layout.in_use()}
    if state.fetch and not unit.running():
        answer["to_fetch"] = _model_work.missing(job, token)
    answer["plan"] = [word for word in ("fetch", "patch", "switch") if getattr(state, word)]
    return {**answer, "path": layout.in_use(), "identity": state.identity}


def _absent(layout: Layout, unit: Job, check: bool) -> dict[str, t.Any]:
    if unit.running():
        raise ModelError("busy", f"{unit.unit} is fetching it; stop it first: systemctl stop {unit.unit}")
    there = os.path.isdir(layout.root)
    if there and not check:
        _model_work.remove(layout)
        unit.forget()
    return {"changed": there, "path": "", "current": layout.current}


def _refuse(options: t.Mapping[str, t.Any]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", options["name"]):
        raise ModelError("failed", f"name is {options['name']!r}; expected letters, digits, '.', '_' and '-', such as llama-3.1-8b")
    if options["state"] == "absent":
        return
    if options["repo"]:
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", options["repo"]):
            raise ModelError("failed", f"repo is {options['repo']!r}; expected organisation/model, such as Qwen/Qwen3-8B")
        if not _model_work.pinned(options["revision"]) and not options["allow_unpinned"]:
            raise ModelError(
                "failed",
                f"revision is {options['revision']!r}, which can move; expected a commit of 40 hexadecimal digits, or allow_unpinned: true",
            )
        Hub(options["endpoint"])
    for path, digest in options["sha256"].items():
        if not re.fullmatch(r"[0-9a-fA-F]{64}", str(digest)):
            raise ModelError("failed", f"sha256 of {path} is {digest!r}; expected 64 hexadecimal digits")
    for path, patch in options["patches"].items():
        if path.startswith("/") or ".." in path.split("/"):
            raise ModelError("bad_patch", f"patches names {path!r}; expected a file below the model's folder")
        if path.endswith(".safetensors") or not isinstance(patch, (dict, str)):
            raise ModelError(
                "bad_patch", f"the patch of {path} is {type(patch).__name__}; expected a dictionary for a JSON file, or a text"
            )
    for key, low, high in (
        ("workers", 1, 32),
        ("keep", 0, 100),
        ("reserve", 0, 1 << 50),
        ("timeout", 1, 10**6),
        ("stall_timeout", 1, 3600),
    ):
        if not low <= options[key] <= high:
            raise ModelError("failed", f"{key} is {options[key]}; expected {low} to {high}")


if __name__ == "__main__":
    main()
