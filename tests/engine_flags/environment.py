"""Environment variables that one release reads."""

from __future__ import annotations

import ast
import re

from .source import Source

SGLANG = re.compile(r"""["'`(\s](SGL(?:ANG)?_[A-Z][A-Z0-9_]+)["'`\s=:,)]""")
SGLANG_CLASS = re.compile(r"^    (SGL(?:ANG)?_[A-Z][A-Z0-9_]+)\s*[=:]", re.MULTILINE)


def variables(source: Source) -> set[str]:
    """vLLM has one table of its own variables. SGLang reads its own in many files, so every name in its text counts."""
    if source.engine == "vllm":
        return {name for name in _table(source) if name.startswith("VLLM_")}
    return {
        name for text in source.texts.values() for name in (*SGLANG.findall(text), *SGLANG_CLASS.findall(text)) if not name.endswith("_")
    }


def _table(source: Source) -> list[str]:
    tree = source.trees["vllm/envs.py"]
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id == "environment_variables" and isinstance(value, ast.Dict):
            return [key.value for key in value.keys if isinstance(key, ast.Constant)]
    raise ValueError(f"{source.version}: envs.py has no table environment_variables")
