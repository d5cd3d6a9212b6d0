#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_info
version_added: 0.1.0
short_description: Configuration and size of a model's folder
author: gpufleet contributors (@gpufleet)
description:
  - Reads C(config.json) of a model snapshot and the headers of its safetensors files; no weight is read.
  - Fails, naming the file, where the folder or its configuration is missing, JSON is not valid, a file of the index is missing, or a
    safetensors file is shorter or longer than its header says.
  - Is the host's half of M(gpufleet.inference.engine_plan).
options:
  path:
    description: Folder of the snapshot on the host.
    type: path
    required: true
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
"""

EXAMPLES = r"""
- name: See whether a download is complete
  gpufleet.inference.model_info:
    path: /srv/models/llama-3.1-8b
  register: model
"""

RETURN = r"""
model_info:
  description: The answer.
  returned: success
  type: dict
  contains:
    path:
      description: The folder.
      type: str
    config:
      description: C(config.json), with C(hf_quant_config.json) as its C(quantization_config) where only that is there.
      type: dict
    weights:
      description:
        - C(files), C(bytes), C(tensors), C(elements), C(by_dtype) (bytes by type), and C(loaded_bytes), which leaves out speculative heads
          and a second copy of tied embeddings.
        - Null where the folder has no safetensors files.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._model_files import read_model


def main() -> None:
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    try:
        info = read_model(module.params["path"])
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, model_info=info)


if __name__ == "__main__":
    main()
