# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of an engine instance, put into its definition at the last moment."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ..plugin_utils._engine_definition import with_secrets


def engine_secrets(definition: t.Any, instances: t.Any, shared: t.Any = None) -> dict[str, t.Any]:
    """`definition` of a plan, with the texts of its secret files."""
    if not isinstance(definition, t.Mapping) or "files" not in definition:
        raise AnsibleFilterError("engine_secrets: expected the definition of an instance out of a plan of component engines")
    own = next((one for one in instances or () if isinstance(one, t.Mapping) and one.get("name") == definition["name"]), {})
    try:
        return with_secrets(definition, {**(shared or {}), **own})
    except ValueError as error:
        raise AnsibleFilterError(f"engine_secrets: {error}") from None


class FilterModule:
    """One filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"engine_secrets": engine_secrets}
