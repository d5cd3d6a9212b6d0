#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_runtime
version_added: 0.2.0
short_description: What an inference engine runs in, a venv by lock or an image by digest
author: gpufleet contributors (@gpufleet)
description:
  - Brings one release of vLLM, SGLang or TensorRT-LLM to a host, either as a venv or as an image of Docker or Podman. Nothing is started.
  - A venv holds exactly the packages of a lock with hashes. Nothing is resolved on the host, and only wheels are installed. It is made
    beside those that are there, in a folder named by version and lock; the engine must say its version before C(ROOT/ENGINE/VERSION)
    leads to it.
  - An image is pulled or loaded once. What its tag led to then is recorded, and the answer names it by digest.
  - The work runs in a transient systemd unit C(gpufleet-runtime-NAME), so that it survives a lost connection; the next run attaches to it.
  - A re-run reads a stamp (or asks the container engine for the image), without installer and network.
options:
  state:
    description: V(absent) removes the version, unless an instance is defined with it.
    type: str
    choices: [present, absent]
    default: present
  engine:
    description: The engine.
    type: str
    required: true
    choices: [vllm, sglang, tensorrt_llm]
  version:
    description: Exact release. It must be the one that the lock names.
    type: str
    required: true
  runtime:
    description: What to bring.
    type: str
    choices: [venv, docker, podman]
    default: venv
  root:
    description: Folder of all venvs on the host.
    type: path
    default: /opt/gpufleet/engines
  requirements:
    description:
      - The lock, as C(uv pip compile --generate-hashes) writes it. One of O(requirements) and O(requirements_file) is needed for a venv.
    type: str
  requirements_file:
    description: Path of the lock on the controller.
    type: path
  exclude:
    description: Packages of the lock that are not installed, such as a C(torchvision) that is built for something else.
    type: list
    elements: str
    default: []
  distribution:
    description: Name of the engine's package; by default V(vllm), V(sglang) or V(tensorrt-llm).
    type: str
  verify:
    description:
      - Words of a command below the venv's C(bin) that must succeed; by default C(vllm --version), or an import of C(sglang).
        An empty list leaves it at the recorded version of the package.
    type: list
    elements: str
  python:
    description: Interpreter on the host, by path or name. By default the first one that the release takes (3.12, 3.11, 3.13, 3.10).
    type: str
    default: ''
  installer:
    description: V(auto) takes uv where it is or O(uv_wheel) brings it, else pip.
    type: str
    choices: [auto, uv, pip]
    default: auto
  uv_wheel:
    description: Path of uv's wheel on the controller. Unpacked to C(/opt/gpufleet/uv) where the host has no uv and a venv is to be made.
    type: path
  index_url:
    description: Package index. An empty string installs from O(find_links) only, without any index.
    type: str
    default: https://pypi.org/simple
  extra_index_urls:
    description: Further indexes. The hash in the lock, not the index, decides which file is taken.
    type: list
    elements: str
    default: []
  find_links:
    description: Folders of wheels on the host, or addresses of pages that link to wheels.
    type: list
    elements: str
    default: []
  index_username:
    description: User name for the host of O(index_url).
    type: str
    default: __token__
  index_password:
    description: Password or token for the host of O(index_url). It is in a file that only root reads, as long as the work goes on.
    type: str
  cert:
    description: File on the host with the certificates that indexes are checked against.
    type: path
  image:
    description: Image by V(NAME:TAG) or V(NAME@sha256:DIGEST); needed for the runtimes V(docker) and V(podman).
    type: str
  image_id:
    description: What the image's id must be, V(sha256:…). Worth giving with O(archive), which no digest guards.
    type: str
    default: ''
  archive:
    description: File on the host, as C(docker save) or C(podman save) writes it, to load the image from instead of a registry.
    type: path
  refresh:
    description: Ask the registry again where the tag leads to.
    type: bool
    default: false
  auth_file:
    description: File on the host with credentials of registries, in the form of Docker's C(config.json).
    type: path
  registry_username:
    description: User name for the image's registry.
    type: str
    default: ''
  registry_password:
    description: Password or token for the image's registry. It is in a file that only root reads, as long as the pull goes on.
    type: str
  size:
    description: Bytes that are to come at most; by default 12 GiB for a venv and 32 GiB for an image. Checked before the first byte.
    type: int
  reserve:
    description: Bytes that must stay free on the file system.
    type: int
    default: 5368709120
  keep:
    description: Builds (images) of the engine to keep besides the one in place and those that an instance names.
    type: int
    default: 1
  timeout:
    description: Seconds to wait for the work. When they are over the task fails and the work goes on; a re-run attaches to it.
    type: int
    default: 3600
  matrix_overlay:
    description: Files with rows of your own for the compatibility matrix, which says which Python a release takes.
    type: list
    elements: path
    default: []
  name:
    description: Set by the action of this module.
    type: str
  step:
    description: Set by the action of this module.
    type: str
    choices: [plan, start, poll]
    default: plan
  lock:
    description: Set by the action of this module.
    type: path
  lock_sha256:
    description: Set by the action of this module.
    type: str
    default: ''
  python_requires:
    description: Set by the action of this module.
    type: str
    default: ''
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  async:
    description: Not needed, the work has its own unit.
    support: none
"""

EXAMPLES = r"""
- name: A venv by lock, from a mirror
  gpufleet.inference.engine_runtime:
    engine: vllm
    version: 0.33.0
    requirements_file: locks/vllm-0.33.0.txt
    index_url: https://pypi.example.com/simple
    index_password: "{{ vault_index_token }}"
    uv_wheel: wheels/uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
  become: true

- name: Without a route out, from a folder of wheels
  gpufleet.inference.engine_runtime:
    engine: vllm
    version: 0.33.0
    requirements_file: locks/vllm-0.33.0.txt
    index_url: ""
    find_links: [/srv/wheels]
  become: true

- name: An image
  gpufleet.inference.engine_runtime:
    engine: vllm
    version: 0.33.0
    runtime: podman
    image: docker.io/vllm/vllm-openai:v0.33.0
  become: true
"""

RETURN = r"""
path:
  description: Folder of the venv, to be given to an instance. Another lock has another folder, so that an instance can go back.
  returned: success, runtime venv
  type: str
  sample: /opt/gpufleet/engines/vllm/builds/0.33.0-1f6dcd8a3bb2
link:
  description: Link that leads to it.
  returned: success, runtime venv
  type: str
  sample: /opt/gpufleet/engines/vllm/0.33.0
python:
  description: Interpreter of the venv.
  returned: success, runtime venv
  type: dict
  sample: {path: /usr/bin/python3.12, version: 3.12.3}
use:
  description:
    - The image by a name that cannot move, V(NAME@DIGEST), or its id where no registry gave it.
    - Empty in check mode where it is not there yet.
  returned: success, runtime docker or podman
  type: str
pruned:
  description: Builds or images that were removed.
  returned: when there was work
  type: list
  elements: str
reason:
  description:
    - A word for the cause, V(bad_input), V(bad_lock), V(no_python), V(no_installer), V(no_engine), V(disk_full), V(checksum), V(denied),
      V(not_found), V(unreachable), V(broken), V(in_use), V(busy), V(killed), V(taken), V(timeout), V(failed).
  returned: failure
  type: str
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _runtime_args, _runtime_installer, _runtime_work
from ..module_utils._errors import HostError, WorkError
from ..module_utils._files import read_text
from ..module_utils._job import Job, Kind
from ..module_utils._wheel import unpack

KIND = Kind("gpufleet-runtime", "gpufleet_runtime", "_runtime_work")


def main() -> None:
    module = AnsibleModule(
        argument_spec={**_runtime_args.PUBLIC, **_runtime_args.INTERNAL},
        mutually_exclusive=[("requirements", "requirements_file"), ("auth_file", "registry_password")],
        supports_check_mode=True,
    )
    title = f"{module.params['engine']} {module.params['version']}"
    try:
        _runtime_args.refuse(module.params)
        module.exit_json(**_step(module, title))
    except HostError as exc:
        module.fail_json(msg=f"{title}: {exc}", reason=exc.reason if isinstance(exc, WorkError) else "failed")
    except OSError as exc:
        module.fail_json(msg=f"{title}: {exc.filename or 'the host'}: {exc.strerror or exc}", reason="failed")


def _step(module: AnsibleModule, title: str) -> dict[str, t.Any]:
    options = module.params
    job = _runtime_args.complete(options)
    unit = Job(KIND, job["name"])
    if options["step"] == "poll":
        return {"changed": True, **unit.status()}
    if options["state"] == "absent":
        if unit.running():
            raise WorkError("busy", f"{unit.unit} is at work on it; stop it first: systemctl stop {unit.unit}")
        return _runtime_work.absent(job, module.check_mode)
    _reachable(job)
    if options["step"] == "plan":
        answer = _runtime_work.plan(job)
        changes = answer.pop("changes")
        return {"changed": bool(changes), "plan": changes, "unit": unit.unit, **answer}
    if options["uv_wheel"]:
        _bring_uv(options["uv_wheel"])
    lock = read_text(options["lock"]) if options["lock"] else ""
    secrets = {key: options[key] or "" for key in ("index_password", "registry_password")}
    begun = unit.start({**job, "lock": lock}, secrets, title=f"what {title} runs in")
    return {"changed": True, "unit": unit.unit, "attached": not begun}


def _reachable(job: t.Mapping[str, t.Any]) -> None:
    """A folder that was not mounted is a mistake to name now, not after the work began."""
    for folder in job["find_links"]:
        if folder.startswith("/") and not os.path.isdir(folder):
            raise WorkError("not_found", f"find_links names {folder}, which is no folder on this host")
    if job["cert"] and not os.path.isfile(job["cert"]):
        raise WorkError("not_found", f"cert is {job['cert']}, which is no file on this host")


def _bring_uv(wheel: str) -> None:
    unpack(wheel, _runtime_installer.UV_DIR)
    _runtime_installer.make_executable()


if __name__ == "__main__":
    main()
