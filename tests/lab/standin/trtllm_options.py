"""trtllm_options.py VERSION > options.json: what the stand-in of trtllm-build takes, by the matrix' rows of that release."""

from __future__ import annotations

import importlib.util
import json
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def options_of(version: str) -> dict[str, t.Any]:
    if "ansible_collections.gpufleet.inference" not in sys.modules:
        spec = importlib.util.spec_from_file_location("root_conftest", ROOT / "conftest.py")
        if not spec or not spec.loader:
            raise ImportError(f"{ROOT}/conftest.py")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_flag_rows import table, within
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix

    known = table(load_matrix(), "tensorrt_llm_build")
    if known is None:
        raise LookupError("the matrix has no rows of trtllm-build")
    aliases: dict[str, list[str]] = {}
    for alias, name in known.aliases.items():
        if alias != name:
            aliases.setdefault(name, []).append(alias)
    return {
        flag.name: {"type": flag.type, "many": flag.many, "choices": flag.values(version), "aliases": aliases.get(flag.name, [])}
        for flag in known.flags.values()
        if within(version, flag.releases)
    }


if __name__ == "__main__":
    print(json.dumps(options_of(sys.argv[1])))
