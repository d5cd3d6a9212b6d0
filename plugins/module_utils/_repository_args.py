# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that driver_packages and cuda_packages share. Private to the collection; documented by doc fragment _repository."""

from __future__ import annotations

import typing as t

REPOSITORY_OPTIONS: dict[str, dict[str, t.Any]] = {
    "hold": {"type": "bool", "default": True},
    "allow_downgrade": {"type": "bool", "default": False},
    "from_url": {"type": "str", "default": ""},
    "repository_url": {"type": "str", "default": ""},
    "repository_key": {"type": "str", "default": "", "no_log": False},
    "repository_key_url": {"type": "str", "default": "", "no_log": False},
    "repository_key_fingerprint": {"type": "str", "default": "", "no_log": False},
    "repository_remove": {"type": "bool", "default": False},
    "transaction_timeout": {"type": "int", "default": 1800},
    "lock_timeout": {"type": "int", "default": 120},
}
