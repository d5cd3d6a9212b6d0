#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: trtllm_engine
version_added: 0.2.0
short_description: A TensorRT engine, built on the host that runs it and rebuilt when it no longer fits
author: gpufleet contributors (@gpufleet)
description:
  - Runs C(trtllm-build) of a TensorRT-LLM release that has it (up to 1.3.0rc15). For newer releases it refuses and says what to do instead.
  - An engine fits the releases, driver, GPU model, checkpoint and arguments that it was built with and nothing else. They are
    written beside it as a stamp. A re-run compares the stamp with the host and builds only if something differs, and says what.
  - The build happens beside the engine in use, which is replaced in one step by a verified one. A failed build changes nothing.
  - It runs in a transient systemd unit C(gpufleet-trtllm-NAME), so that it survives a lost connection; the next run attaches to it.
    Its output is C(STORE/NAME/build.log), its last line is shown as progress.
  - An earlier engine whose stamp fits again is switched back to without a build.
options:
  state:
    description: V(absent) removes all engines of this name.
    type: str
    choices: [present, absent]
    default: present
  name:
    description: Name of the engine in the store.
    type: str
    required: true
  store:
    description: Folder of all engines on this host.
    type: path
    default: /var/lib/gpufleet/trtllm_engines
  checkpoint:
    description:
      - Folder of a TensorRT-LLM checkpoint on the host, as C(convert_checkpoint.py) of the release or ModelOpt makes it. Required for
        O(state=present).
      - How many GPUs the engine is for is decided there.
    type: path
  version:
    description: Release of TensorRT-LLM that the runtime must have. Required for O(state=present).
    type: str
  runtime:
    description: Where C(trtllm-build) is run.
    type: str
    choices: [venv, docker, podman]
    default: venv
  venv:
    description: Folder of the venv. Without it C(/opt/gpufleet/engines/tensorrt_llm/VERSION).
    type: path
  image:
    description: Image that is on the host, for O(runtime=docker) and O(runtime=podman). Without it the release's own by the matrix.
    type: str
  gpus:
    description: GPUs to build on, by index or UUID, all of one model, the one that the engine is to run on. Empty takes all.
    type: list
    elements: str
    default: []
  args:
    description:
      - Options of C(trtllm-build), a mapping such as C({max_batch_size= 64}) or the words of a command line. They are checked against the
        release before anything is done.
    type: raw
    default: {}
  tensor_parallel:
    description: If given, the checkpoint must be for this size.
    type: int
  pipeline_parallel:
    description: If given, the checkpoint must be for this size.
    type: int
  keep:
    description: Engines to keep besides the one in use.
    type: int
    default: 1
  reserve:
    description: Bytes that must stay free on the file system.
    type: int
    default: 5368709120
  build_timeout:
    description: Seconds after which a build is ended.
    type: int
    default: 14400
  timeout:
    description: Seconds to wait for the build. When they are over the task fails and the build goes on; a re-run attaches to it.
    type: int
    default: 14400
  unknown:
    description: What to do with releases and options that the matrix does not know.
    type: str
    choices: [warn, block]
    default: block
  matrix_overlay:
    description: YAML files on the controller with rows over the matrix.
    type: list
    elements: path
    default: []
  words:
    description: Set by the action of this module, O(args) as words.
    type: list
    elements: list
    default: []
  step:
    description: Set by the action of this module.
    type: str
    choices: [plan, start, poll]
    default: plan
extends_documentation_fragment:
  - gpufleet.inference._nvml
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.actiongroup_gpu
attributes:
  check_mode:
    support: full
    details: Reads checkpoint, versions and GPUs, so that it says what differs.
  diff_mode:
    support: full
  idempotent:
    support: full
  async:
    description: Not needed, the build has its own unit.
    support: none
"""

EXAMPLES = r"""
- name: An engine for two GPUs, rebuilt when driver, release, arguments or weights change
  gpufleet.inference.trtllm_engine:
    name: llama-3.1-70b
    checkpoint: /srv/checkpoints/llama-3.1-70b-fp8-tp2
    version: 1.2.1
    gpus: [0, 1]
    tensor_parallel: 2
    args:
      max_batch_size: 64
      max_seq_len: 8192
      gemm_plugin: auto
      multiple_profiles: enable
  become: true
  register: engine

- name: What would be built, and why
  gpufleet.inference.trtllm_engine:
    name: llama-3.1-70b
    checkpoint: /srv/checkpoints/llama-3.1-70b-fp8-tp2
    version: 1.2.1
  check_mode: true
  diff: true
"""

RETURN = r"""
path:
  description: Folder of the engine that fits, to be given to C(trtllm-serve).
  returned: success
  type: str
  sample: /var/lib/gpufleet/trtllm_engines/llama-3.1-70b/snapshots/1.2.1-3f1a9c0d2e4b
current:
  description: Link that leads to the engine in use.
  returned: success
  type: str
stamp:
  description: What decides whether an engine fits this host, as it is now.
  returned: with O(state=present)
  type: dict
differs:
  description: Why the engine in use does not fit.
  returned: with O(state=present)
  type: list
  elements: str
  sample: ["driver: 580.95.05, now 580.126.09"]
built:
  description: Whether an engine was built; false where a kept one was switched back to.
  returned: when it was changed
  type: bool
previous:
  description: Folder that the link led to before.
  returned: when it was changed
  type: str
log:
  description: Last lines of the build's output.
  returned: when a build failed
  type: list
  elements: str
findings:
  description: What is wrong or worth knowing about release and arguments.
  returned: with O(state=present)
  type: list
  elements: dict
reason:
  description:
    - A word for the cause, V(no_gpu), V(no_runtime), V(wrong_version), V(not_found), V(wrong_checkpoint), V(incomplete), V(truncated),
      V(damaged), V(disk_full), V(out_of_memory), V(bad_argument), V(build_failed), V(wrong), V(busy), V(killed), V(taken), V(timeout),
      V(failed).
  returned: failure
  type: str
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _trtllm_work
from ..module_utils._errors import HostError, WorkError
from ..module_utils._job import Job, Kind
from ..module_utils._model_layout import Layout
from ..module_utils._nvml_args import NVML_ARGS, nvml_options
from ..module_utils._seconds import check_seconds
from ..module_utils._trtllm_stamp import read_stamp
from ..module_utils._trtllm_wish import Wish, read_wish

KIND = Kind("gpufleet-trtllm", "gpufleet_trtllm", "_trtllm_work", delegate=True)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "name": {"type": "str", "required": True},
            "store": {"type": "path", "default": "/var/lib/gpufleet/trtllm_engines"},
            "checkpoint": {"type": "path"},
            "version": {"type": "str"},
            "runtime": {"type": "str", "choices": ["venv", "docker", "podman"], "default": "venv"},
            "venv": {"type": "path"},
            "image": {"type": "str"},
            "gpus": {"type": "list", "elements": "str", "default": []},
            "args": {"type": "raw", "default": {}},
            "tensor_parallel": {"type": "int"},
            "pipeline_parallel": {"type": "int"},
            "keep": {"type": "int", "default": 1},
            "reserve": {"type": "int", "default": 5 << 30},
            "build_timeout": {"type": "int", "default": 14400},
            "timeout": {"type": "int", "default": 14400},
            "unknown": {"type": "str", "choices": ["warn", "block"], "default": "block"},
            "matrix_overlay": {"type": "list", "elements": "path", "default": []},
            "words": {"type": "list", "elements": "list", "default": []},
            "step": {"type": "str", "choices": ["plan", "start", "poll"], "default": "plan"},
            **NVML_ARGS,
        },
        required_if=[("state", "present", ("checkpoint", "version"))],
        supports_check_mode=True,
    )
    name = module.params["name"]
    try:
        _refuse(module.params)
        module.exit_json(**_step(module))
    except HostError as exc:
        known = exc if isinstance(exc, WorkError) else WorkError("failed", str(exc))
        module.fail_json(msg=f"TensorRT engine {name}: {exc}", reason=known.reason, **known.details)
    except OSError as exc:
        module.fail_json(msg=f"TensorRT engine {name}: {exc.filename or 'the store'}: {exc.strerror or exc}", reason="failed")


def _step(module: AnsibleModule) -> dict[str, t.Any]:
    options = module.params
    layout, job = Layout(options["store"], options["name"]), Job(KIND, options["name"])
    if options["state"] == "absent":
        return _absent(layout, job, module.check_mode)
    if options["step"] == "poll":
        return {"changed": True, "current": layout.current, **job.status()}
    wish = read_wish(options, layout, nvml_options(options))
    if options["step"] == "start":
        begun = job.start(wish.job(options), title=f"TensorRT engine {options['name']}")
        return {"changed": True, "unit": job.unit, "attached": not begun}
    return _plan(options, wish, layout, job)


def _plan(options: t.Mapping[str, t.Any], wish: Wish, layout: Layout, job: Job) -> dict[str, t.Any]:
    state = _trtllm_work.state_of(layout, wish.stamp)
    if state.build and not job.running():
        _trtllm_work.check_space(layout, wish.weights_bytes, options["reserve"])
    return {
        "changed": state.switch,
        "current": layout.current,
        "path": wish.target(layout),
        "stamp": wish.stamp,
        "before": read_stamp(layout.in_use()) or {},
        "differs": state.differs,
        "build": state.build,
        "unit": job.unit,
    }


def _absent(layout: Layout, job: Job, check: bool) -> dict[str, t.Any]:
    if job.running():
        raise WorkError("busy", f"{job.unit} is building it; stop it first: systemctl stop {job.unit}")
    there = os.path.isdir(layout.root)
    if there and not check:
        _trtllm_work.remove(layout)
        job.forget()
    return {"changed": there, "path": "", "current": layout.current}


def _refuse(options: t.Mapping[str, t.Any]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", options["name"]):
        raise WorkError("failed", f"name is {options['name']!r}; expected letters, digits, '.', '_' and '-', such as llama-3.1-8b")
    if options["runtime"] == "venv" and options["image"]:
        raise WorkError("failed", f"image is {options['image']!r}, which goes with runtime docker or podman; runtime is venv")
    if options["state"] == "present" and options["runtime"] != "venv" and not options["image"]:
        raise WorkError("failed", f"image is not set, and the matrix names none of TensorRT-LLM {options['version']}; set image")
    check_seconds(options, "timeout", "build_timeout")
    for key, low, high in (("keep", 0, 100), ("reserve", 0, 1 << 50)):
        if not low <= options[key] <= high:
            raise WorkError("failed", f"{key} is {options[key]}; expected {low} to {high}")


if __name__ == "__main__":
    main()
