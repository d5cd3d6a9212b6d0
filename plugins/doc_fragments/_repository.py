# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that change packages (module_utils/_repository_args.py)."""

    DOCUMENTATION = r"""
options:
  hold:
    description: Whether the packages are held afterwards.
    type: bool
    default: true
  allow_downgrade:
    description: Whether packages may move to a lower version.
    type: bool
    default: false
  from_url:
    description: Only versions from this repository count. Empty takes them from any.
    type: str
    default: ""
  repository_url:
    description: Repository to configure first, a flat APT repository. Empty leaves the host's sources as they are.
    type: str
    default: ""
  repository_key:
    description: Its OpenPGP public key, ASCII-armoured.
    type: str
    default: ""
  repository_key_url:
    description: Where the host fetches that key if O(repository_key) is empty.
    type: str
    default: ""
  repository_key_fingerprint:
    description:
      - Fingerprint that the key must have, 40 hexadecimal digits; spaces do not matter. A key with another one, or a file with more keys,
        is refused before anything trusts it.
      - Empty accepts any key.
    type: str
    default: ""
  repository_remove:
    description: With O(state=absent), whether the repository that was configured here goes too.
    type: bool
    default: false
  transaction_timeout:
    description: Seconds that the download or the transaction may take. DKMS builds take minutes.
    type: int
    default: 1800
  lock_timeout:
    description: Seconds to wait for another package manager at work.
    type: int
    default: 120
"""
