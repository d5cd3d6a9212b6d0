"""Python sources of one release of an engine, read from its sdist or wheel without importing anything."""

from __future__ import annotations

import ast
import re
import tarfile
import typing as t
import zipfile
from pathlib import Path

# Where flags, their types and the environment are declared, by engine; everything else is not read.
WANTED = {
    "vllm": r"vllm/(engine/arg_utils|scripts|envs|config|config/[^/]+|entrypoints/(openai|common|launchers)/cli_args|entrypoints/cli/serve"
    r"|entrypoints/openai/api_server|v1/attention/backends/registry|utils/argparse_utils)\.py",
    "sglang": r"sglang/(srt/(?!multimodal_gen).*|cli/.*|launch_server)\.py",
}
# SGLang reads its environment all over; flags come from these.
SGLANG_FLAGS = r"sglang/srt/(server_args|arg_groups/.+|function_call/function_call_parser|(parser/)?reasoning_parser|lora/.+registry)\.py"


class Source:
    """Syntax trees of the files that matter, with an index of classes and module-level names."""

    def __init__(self, engine: str, archive: Path) -> None:
        self.engine = engine
        self.version = archive.name.removesuffix(".tar.gz").split("-")[1]
        self.texts = dict(_read(archive, re.compile(r"(?:[^/]+-[^/]+/)?(" + WANTED[engine] + ")")))
        flags = re.compile(SGLANG_FLAGS if engine == "sglang" else ".*")
        self.trees = {path: ast.parse(text) for path, text in self.texts.items() if flags.fullmatch(path)}
        self.classes: dict[str, ast.ClassDef] = {}
        self.names: dict[str, ast.expr] = {}
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
            for node in _statements(tree.body):
                self._name(node)

    def _name(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.names.setdefault(node.targets[0].id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            self.names.setdefault(node.target.id, node.value)

    def values(self, node: ast.expr | None) -> list[t.Any] | None:
        """The constants of a list expression, or None where it is computed at run time."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            parts = [self.values(item.value) if isinstance(item, ast.Starred) else self._one(item) for item in node.elts]
            return None if any(part is None for part in parts) else [value for part in parts for value in part or ()]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.values(node.left), self.values(node.right)
            return None if left is None or right is None else left + right
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.values(self.names[node.id])
        if isinstance(node, ast.Dict):
            return (
                None
                if any(not isinstance(key, ast.Constant) for key in node.keys)
                else [t.cast("ast.Constant", key).value for key in node.keys]
            )
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.classes:
            return self.values(_attribute(self.classes[node.value.id], node.attr))
        if isinstance(node, ast.Call):
            inner = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "keys" else None
            if isinstance(node.func, ast.Name) and node.func.id in ("list", "sorted", "tuple") and len(node.args) == 1:
                inner = node.args[0]
            return self.values(inner) if inner is not None else None
        return None

    @staticmethod
    def _one(item: ast.expr) -> list[t.Any] | None:
        return [item.value] if isinstance(item, ast.Constant) else None


def _attribute(cls: ast.ClassDef, name: str) -> ast.expr | None:
    for node in cls.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == name:
            return t.cast("ast.Assign | ast.AnnAssign", node).value
    return None


def _statements(body: list[ast.stmt]) -> t.Iterator[ast.stmt]:
    """Module-level statements, those under if/else and try included."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body)
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)
        else:
            yield node


def _read(archive: Path, wanted: re.Pattern[str]) -> t.Iterator[tuple[str, str]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as bundle:
            for name in bundle.namelist():
                if match := wanted.fullmatch(name):
                    yield match[1], bundle.read(name).decode("utf-8")
    else:
        with tarfile.open(archive) as tape:
            for member in tape:
                if (match := wanted.fullmatch(member.name)) and (file := tape.extractfile(member)):
                    yield match[1], file.read().decode("utf-8")
