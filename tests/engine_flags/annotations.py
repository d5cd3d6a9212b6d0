"""What a type annotation of a configuration class makes of a flag, by the rules of the engines' own parsers."""

from __future__ import annotations

import ast
import typing as t

from .source import Source

Flag = dict[str, t.Any]
Atom = t.Union[str, tuple[str, t.Any]]

# vLLM reads these whole numbers with suffixes such as 8k or 1M; listed in its arg_utils, not in the annotation.
SIZES = {
    "max_num_batched_tokens",
    "max_num_scheduled_tokens",
    "kv_cache_memory_bytes",
    "safetensors_prefetch_block_size",
    "max_num_queued_tokens",
}


def atoms(source: Source, node: ast.expr | None, depth: int = 0) -> set[Atom]:
    """The kinds of value that an annotation allows."""
    if node is None or depth > 12:
        return {"any"}
    if isinstance(node, ast.Constant):
        if node.value is None:
            return {"none"}
        return atoms(source, ast.parse(node.value, mode="eval").body, depth + 1) if isinstance(node.value, str) else {"any"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return atoms(source, node.left, depth + 1) | atoms(source, node.right, depth + 1)
    if isinstance(node, ast.Attribute):
        return {("class", node.attr)}
    if isinstance(node, ast.Name):
        return _named(source, node.id, depth)
    if isinstance(node, ast.Subscript):
        return _generic(source, node, depth)
    return {"any"}


def _named(source: Source, name: str, depth: int) -> set[Atom]:
    if name in ("bool", "int", "float", "str", "dict"):
        return {name}
    if name in ("list", "List", "tuple", "set"):
        return {("many", ("str",))}
    if name in source.classes:
        return {("enum" if any("Enum" in ast.unparse(base) for base in source.classes[name].bases) else "class", name)}
    if name in source.names:
        return atoms(source, source.names[name], depth + 1)
    return {("class", name)}


def _generic(source: Source, node: ast.Subscript, depth: int) -> set[Atom]:
    outer = ast.unparse(node.value).rpartition(".")[2]
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer == "Literal":
        flat = [
            value
            for item in inner
            for value in (source.values(item.args[0]) if isinstance(item, ast.Call) else _literal(source, item)) or ["?"]
        ]
        return {("literal", tuple(flat))}
    if outer in ("Optional", "Union", "SkipValidation"):
        extra: set[Atom] = {"none"} if outer == "Optional" else set()
        return set().union(*(atoms(source, item, depth + 1) for item in inner), extra)
    if outer == "Annotated":
        return atoms(source, inner[0], depth + 1)
    if outer in ("list", "List", "tuple", "Tuple", "set", "Sequence"):
        return {("many", tuple(sorted(map(str, atoms(source, inner[0], depth + 1)))))} if inner else {("many", ("str",))}
    if outer in ("dict", "Dict", "Mapping"):
        return {"dict"}
    return {("class", outer)}


def _literal(source: Source, item: ast.expr) -> list[t.Any]:
    if isinstance(item, ast.Constant):
        return [item.value]
    found = atoms(source, item)
    return [value for atom in found if isinstance(atom, tuple) and atom[0] == "literal" for value in atom[1]]


def flag(source: Source, name: str, node: ast.expr | None) -> Flag:
    """Type of a vLLM configuration field as a flag: the order of the questions is that of its own code."""
    found = atoms(source, node)
    kinds = {atom if isinstance(atom, str) else atom[0] for atom in found}
    if any(isinstance(atom, tuple) and atom[0] == "class" and _is_config(source, atom[1]) for atom in found):
        return {"type": "json"}
    if kinds == {"bool", "str", "none"}:
        return {"type": "str"}
    if "bool" in kinds:
        return {"type": "bool"}
    if "literal" in kinds:
        values = next(list(atom[1]) for atom in found if isinstance(atom, tuple) and atom[0] == "literal")
        return literal(values, open_ended="str" in kinds or "?" in values)
    if "many" in kinds:
        element = next(atom[1] for atom in found if isinstance(atom, tuple) and atom[0] == "many")
        return {"type": "int" if set(element) == {"int"} else "float" if set(element) == {"float"} else "str", "many": True}
    if "int" in kinds:
        return {"type": "size_or_auto" if name == "max_model_len" else "size" if name in SIZES else "int"}
    if "float" in kinds:
        return {"type": "float"}
    if "dict" in kinds:
        return {"type": "json" if kinds <= {"dict", "none"} else "str"}
    return {"type": "str"}


def literal(values: list[t.Any], open_ended: bool = False) -> Flag:
    kept = [value for value in values if value is not None]
    if open_ended or not kept:
        return {"type": "str"}
    return {"type": "int" if all(isinstance(value, int) for value in kept) else "str", "choices": kept}


def _is_config(source: Source, name: str) -> bool:
    cls = source.classes.get(name)
    return cls is not None and any("config" in ast.unparse(mark) or "dataclass" in ast.unparse(mark) for mark in cls.decorator_list)


def fields(source: Source, name: str) -> dict[str, ast.AnnAssign]:
    """Annotated fields of a class, its bases' first."""
    cls = source.classes.get(name)
    if cls is None:
        return {}
    out: dict[str, ast.AnnAssign] = {}
    for base in cls.bases:
        out.update(fields(source, ast.unparse(base).rpartition(".")[2]))
    out.update({node.target.id: node for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)})
    return out
