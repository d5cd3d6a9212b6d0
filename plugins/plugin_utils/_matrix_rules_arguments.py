# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of an instance's arguments and environment: what its release of the engine does not know. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_engines as engines
from ._contracts import Finding
from ._engine_flags import check_args
from ._engine_lifecycle import lifecycle, owned
from ._matrix_case import Case


def rules(case: Case) -> t.Iterator[Finding]:
    for spec in case.engines:
        engine, args, env = str(spec.get("engine")), spec.get("args"), spec.get("env")
        if not (args or env) or engine not in engines.TITLE:
            continue
        image = engines.image(case.matrix, str(spec["image"])) if spec.get("image") else None
        version = spec.get("version") or (image.version if image else None)
        name, unknown = str(spec.get("name") or engine), case.policy.unknown
        ours = owned(spec, lifecycle(case.matrix, engine, str(version))) if version else {}
        yield from check_args(engine, str(version) if version else None, args, env, case.matrix, name=name, owned=ours, unknown=unknown)
