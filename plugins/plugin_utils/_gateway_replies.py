# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway answers itself, in the form that clients of the OpenAI API read. Pure; private to the collection."""

from __future__ import annotations

import json


def error(message: str, kind: str, code: int) -> str:
    """One error document; `kind` is its type, which programs look at."""
    return json.dumps({"error": {"message": message, "type": kind, "code": code}})


def model_list(names: list[str]) -> str:
    """What GET /v1/models answers: no engine knows all models."""
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "gateway"} for name in sorted(names)]})


def reply(status: int, body: str, condition: str = "", headers: dict[str, str] | None = None) -> str:
    """The rule that answers with a document if the condition holds."""
    extra = "".join(f" hdr {name} {value}" for name, value in (headers or {}).items())
    return f"http-request return status {status} content-type application/json{extra} string {quote(body)} {condition}".rstrip()


def quote(text: str) -> str:
    """One argument of HAProxy's configuration, taken literally."""
    return "'" + text.replace("'", "'\\''") + "'"
