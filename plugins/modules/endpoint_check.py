#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_check
version_added: 0.2.0
short_description: Wait for an inference endpoint until it really answers
author: gpufleet contributors (@gpufleet)
description:
  - Asks an OpenAI-compatible endpoint (vLLM, SGLang, TensorRT-LLM, a gateway) from the host, as a client would, until every check passed.
  - Ready is a generated answer. An open port, a 200 on C(/health) and a listed model come earlier, and stay when an engine is broken.
  - Ends early when waiting is for nothing. That is where the unit failed, ended or was restarted meanwhile, the model is not served, the
    key is not accepted, or the answer is not the expected one. The last lines of the unit's journal are part of the failure.
options:
  url:
    description: Base address, without C(/v1).
    type: str
    required: true
  api_key:
    description: API key.
    type: str
  api_key_file:
    description: File on the host that holds the key, read by the module. Either this or O(api_key).
    type: path
  model:
    description: Name that must be served. Empty takes the first that is.
    type: str
    default: ''
  health:
    description: Path that must answer 200. Empty asks none.
    type: str
    default: /health
  checks:
    description:
      - What must work. V(stream) uses the chat interface where V(chat) is asked for too; V(image) is a chat about a small red picture.
    type: list
    elements: str
    choices: [completion, chat, image, stream, embedding]
    default: [completion]
  prompt:
    description: What is asked.
    type: str
    default: The capital of France is
  max_tokens:
    description: Tokens to generate, 1 to 4096.
    type: int
    default: 8
  expect:
    description: Regular expression that each generated text must match. Empty takes any text.
    type: str
    default: ''
  timeout:
    description: Seconds until all checks must have passed; 0 looks once.
    type: float
    default: 600
  request_timeout:
    description: Seconds that one request may give nothing.
    type: float
    default: 30
  unit:
    description: systemd unit of the endpoint, watched while waiting. Empty watches none.
    type: str
    default: ''
  ca:
    description: File with the certificates that are trusted.
    type: path
  validate_certs:
    description: Whether a certificate must be trusted.
    type: bool
    default: true
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
"""

EXAMPLES = r"""
- name: The service answers, in a stream and with a key
  gpufleet.inference.endpoint_check:
    url: http://127.0.0.1:8000
    api_key_file: /etc/gpufleet/engines/chat/api_key
    model: chat
    checks: [chat, stream]
    timeout: 900
    unit: gpufleet-engine-chat.service
  become: true
"""

RETURN = r"""
state:
  description: V(ready), V(refused), V(starting), V(timeout), V(wrong) or V(gone).
  returned: always
  type: str
models:
  description: Names that are served.
  returned: success
  type: list
  elements: str
checks:
  description:
    - Check to what it gave, with text, number of tokens and seconds; V(stream) with C(ttft_ms) and C(tpot_ms), V(embedding) with its
      length.
  returned: success
  type: dict
  sample: {completion: {text: " Paris.", tokens: 2, seconds: 0.061}}
waited:
  description: Seconds until everything passed.
  returned: success
  type: float
log:
  description: Last lines of the unit's journal.
  returned: failure, when O(unit) is given
  type: list
  elements: str
"""

import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._endpoint import Endpoint, NotReady
from ..module_utils._endpoint_wait import Gone, Wish, last_lines, wait
from ..module_utils._errors import HostError
from ..module_utils._files import read_text


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "api_key": {"type": "str", "no_log": True},
            "api_key_file": {"type": "path", "no_log": False},
            "model": {"type": "str", "default": ""},
            "health": {"type": "str", "default": "/health"},
            "checks": {
                "type": "list",
                "elements": "str",
                "choices": ["completion", "chat", "image", "stream", "embedding"],
                "default": ["completion"],
            },
            "prompt": {"type": "str", "default": "The capital of France is"},
            "max_tokens": {"type": "int", "default": 8, "no_log": False},
            "expect": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 600},
            "request_timeout": {"type": "float", "default": 30},
            "unit": {"type": "str", "default": ""},
            "ca": {"type": "path"},
            "validate_certs": {"type": "bool", "default": True},
        },
        mutually_exclusive=[("api_key", "api_key_file")],
        supports_check_mode=True,
    )
    options = module.params
    try:
        module.exit_json(changed=False, state="ready", **_wait(options))
    except HostError as exc:
        state = exc.state if isinstance(exc, NotReady) else "gone" if isinstance(exc, Gone) else "wrong"
        log = last_lines(options["unit"]) if options["unit"] else []
        module.fail_json(msg=f"{options['url']}: {exc}", state=state, log=log)


def _wait(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    if not 1 <= options["max_tokens"] <= 4096:
        raise HostError(f"max_tokens is {options['max_tokens']}; expected 1 to 4096")
    try:
        re.compile(options["expect"])
    except re.error as exc:
        raise HostError(f"expect is {options['expect']!r}, which is no regular expression: {exc}") from exc
    key = options["api_key"] or ""
    if options["api_key_file"]:
        text = read_text(options["api_key_file"])
        if not (text or "").strip():
            raise HostError(f"api_key_file is {options['api_key_file']}, which is {'empty' if text is not None else 'not there'}")
        key = (text or "").strip()
    endpoint = Endpoint(options["url"], key, options["request_timeout"], options["ca"] or "", options["validate_certs"])
    wish = Wish(options["health"], options["model"], options["checks"], options["prompt"], options["max_tokens"], options["expect"])
    return wait(endpoint, wish, options["timeout"], options["unit"])


if __name__ == "__main__":
    main()
