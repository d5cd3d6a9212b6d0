#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_mok
version_added: 0.1.0
short_description: Make the key that signs kernel modules and ask shim to enrol it
author: gpufleet contributors (@gpufleet)
description:
  - Makes (or imports) the key pair that DKMS signs with, and leaves the request for its enrolment to shim's MokManager, which a person
    confirms at the console of the next boot with a one-time password.
  - Stages nothing twice, and joins no request of others, since that would replace its password.
  - Neither key nor password appears in arguments, logs or results; the password is kept nowhere.
  - Used by role P(gpufleet.inference.nvidia_driver#role). Needs C(openssl), C(mokutil), root, and a host with Secure Boot on.
options:
  state:
    description:
      - V(present) has the key there and its enrolment done or asked for.
      - V(absent) takes back a request that this module made, and the key it made if that was never enrolled. An enrolled key stays.
    type: str
    choices: [present, absent]
    default: present
  private:
    description: Where the private key is, PEM. For O(state=present).
    type: path
  certificate:
    description: Where its certificate is, DER. For O(state=present).
    type: path
  import_private:
    description: Private key to put there, PEM without passphrase. Empty keeps the one that is there, or makes one.
    type: str
    default: ""
  import_certificate:
    description: Its certificate, PEM.
    type: str
    default: ""
  password:
    description: The one-time password that MokManager will ask for.
    type: str
    default: ""
  fingerprint:
    description: SHA-1 of the key whose request is taken back. For O(state=absent).
    type: str
    default: ""
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Ask for the enrolment of DKMS's key
  gpufleet.inference.driver_mok:
    private: /var/lib/dkms/mok.key
    certificate: /var/lib/dkms/mok.pub
    password: "{{ vault_mok_password }}"
  become: true
  no_log: true
"""

RETURN = r"""
fingerprint:
  description: SHA-1 of the certificate, as C(mokutil --list-new) shows it; empty in check mode for a key that would be made.
  returned: success
  type: str
  sample: 9959f72e08c1d0a4b6a2f5d3a5a0a7f0cf8c3b21
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._mok import Key, request, withdraw


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "private": {"type": "path", "no_log": False},
            "certificate": {"type": "path"},
            "import_private": {"type": "str", "default": "", "no_log": True},
            "import_certificate": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "fingerprint": {"type": "str", "default": ""},
        },
        required_if=[("state", "present", ("private", "certificate")), ("state", "absent", ("fingerprint",))],
        required_together=[("import_private", "import_certificate")],
        supports_check_mode=True,
    )
    options = module.params
    if os.geteuid() != 0:
        module.fail_json(msg="signing keys are root's; run the task with become: true")
    try:
        if options["state"] == "absent":
            changed, mark = withdraw(options["fingerprint"], module.check_mode), options["fingerprint"]
        else:
            key = Key(options["private"], options["certificate"], options["import_private"], options["import_certificate"])
            changed, mark = request(key, options["password"], module.check_mode)
    except (HostError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=changed, fingerprint=mark)


if __name__ == "__main__":
    main()
