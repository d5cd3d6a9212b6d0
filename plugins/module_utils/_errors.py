# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that a module turns into `fail_json` without a traceback. Private to the collection."""

from __future__ import annotations


class HostError(Exception):
    """Something on the host, or a given value, that a person must act on; the text says what and how."""
