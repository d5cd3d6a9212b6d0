# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sort of job that changes an engine instance. Private to the collection."""

from __future__ import annotations

from ._job import Kind

KIND = Kind("gpufleet-switch", "gpufleet_engine", "_engine_switch", also=("_engine_gate",), nice=0)
"""Its package holds the gate as well, which the units run from /opt/gpufleet/lib/engine_gate.py."""
