"""Flags of one release: from add_argument() calls and from annotated fields."""

from __future__ import annotations

import ast
import re
import typing as t

from .annotations import Flag, fields, flag, literal
from .source import Source

PARSERS = {
    "int": "int",
    "float": "float",
    "str": "str",
    "json.loads": "json",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size_or_auto",
}
# Checked against a list after parsing, so the parser itself takes any text.
CHECKED_LATER = {"kv-cache-dtype": "CacheDType"}
# In the type, and taken out again before the flag is declared.
NOT_OFFERED = {"all2all-backend": "passthrough"}
DEPRECATED = re.compile(r"\W*(this (flag|argument|option) is )?deprecated|.{0,80}\bis deprecated\b", re.IGNORECASE | re.DOTALL)


def flags(source: Source) -> dict[str, Flag]:
    """Flag → type, choices, aliases."""
    out: dict[str, Flag] = {}
    overrides: dict[tuple[str, str], Flag] = {}
    for tree in source.trees.values() if source.engine == "vllm" else ():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                _override(node, overrides)
    for tree in source.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                _function(source, node, overrides, out)
            if isinstance(node, ast.ClassDef) and source.engine == "sglang":
                _annotated(source, node, out)
    for name, listed in CHECKED_LATER.items():
        if name in out and "choices" not in out[name] and listed in source.names:
            out[name] = flag(source, name, source.names[listed])
    for name, value in NOT_OFFERED.items():
        if value in out.get(name, {}).get("choices", ()):
            out[name]["choices"] = [other for other in out[name]["choices"] if other != value]
    return out


def _function(source: Source, function: ast.FunctionDef, overrides: dict[tuple[str, str], Flag], out: dict[str, Flag]) -> None:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    calls = [node for node in calls if t.cast("ast.Attribute", node.func).attr == "add_argument"]
    of_class = {}
    for node in ast.walk(function) if calls else ():
        match = re.fullmatch(r"(\w+) = (?:\w+\.)*get_kwargs\((\w+)\)", ast.unparse(node)) if isinstance(node, ast.Assign) else None
        if match:
            of_class[match[1]] = match[2]
    for call in calls:
        _call(source, call, of_class, overrides, out)
    for node in ast.walk(function) if calls else ():
        if isinstance(node, ast.For) and isinstance(node.iter, ast.List):  # for name, type in [("--x", str), …]: add_argument(name, …)
            for row in node.iter.elts:
                words = row.elts if isinstance(row, ast.Tuple) else []
                if len(words) == 2 and isinstance(words[0], ast.Constant) and str(words[0].value).startswith("--"):
                    kind = "bool" if ast.unparse(words[1]) == "bool" else _parser(words[1])["type"]
                    _add(out, [words[0].value], {"type": kind, **({"deprecated": True} if "deprecated" in ast.unparse(node) else {})})


def _override(node: ast.Assign, overrides: dict[tuple[str, str], Flag]) -> None:
    """kwargs["field"]["type"] = …, as vLLM writes it between reading its classes and declaring the flags."""
    match = re.fullmatch(r"(\w+)\['(\w+)'\]\['(type|action|choices|nargs)'\] = (.+)", ast.unparse(node), re.DOTALL)
    if match and match[3] == "type":
        overrides.setdefault((match[1], match[2]), {}).update(_parser(node.value))
    elif match and match[3] == "action" and match[4] == "'append'":
        overrides.setdefault((match[1], match[2]), {}).update({"many": True})


def _call(source: Source, call: ast.Call, of_class: dict[str, str], overrides: dict[tuple[str, str], Flag], out: dict[str, Flag]) -> None:
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if any(isinstance(arg, ast.JoinedStr) for arg in call.args):  # vLLM's loop over the fields of its server's class
        for field, node in fields(source, "FrontendArgs").items():
            found = {**flag(source, field, node.annotation), **overrides.get(("frontend_kwargs", field), {})}
            if field in ("middleware", "disable_access_log_for_endpoints", "allowed_origins", "allowed_methods", "allowed_headers"):
                found["many"] = field == "middleware"
            out.setdefault(field.replace("_", "-"), {key: value for key, value in found.items() if value})
        return
    if not names or not names[0].startswith("-"):
        return
    found: Flag = {"type": "str"}
    for keyword in call.keywords:
        if keyword.arg is None and (match := re.match(r"\W*(\w+)(?:\.pop\(|\[)'(\w+)'", ast.unparse(keyword.value))):
            node = fields(source, of_class.get(match[1], "")).get(match[2])
            found = {**flag(source, match[2], node.annotation if node else None), **overrides.get((match[1], match[2]), {})}
    found.update(_keywords(source, {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}))
    _add(out, names, found)


def _keywords(source: Source, given: t.Mapping[str, ast.expr]) -> Flag:
    out: Flag = {}
    if "type" in given:
        out.update(_parser(given["type"]))
    if "choices" in given and (values := source.values(given["choices"])) is not None:
        out.update(literal(values))
    if "nargs" in given and ast.unparse(given["nargs"]) in ("'+'", "'*'"):
        out["many"] = True
    action = ast.unparse(given["action"]) if "action" in given else ""
    if action in ("'store_true'", "'store_false'") or "StoreTrue" in action:
        out["type"] = "flag"
    elif action.endswith("BooleanOptionalAction"):
        out["type"] = "bool"
    elif "StoreBoolean" in action:
        out["type"] = "truth"
    elif action == "'append'":
        out["many"] = True
    text = given.get("help")
    said = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
    if "Deprecated" in action or "deprecated" in given or DEPRECATED.match(said):
        out["deprecated"] = True
    return out


def _parser(node: ast.expr) -> Flag:
    words = re.findall(r"[\w.]+", ast.unparse(node))
    if isinstance(node, ast.Lambda):
        return {"type": "str"}
    for word in words:
        if word in PARSERS:
            return {"type": PARSERS[word]}
    return {"type": "json"} if "json" in ast.unparse(node) else {"type": "str"}


def _annotated(source: Source, cls: ast.ClassDef, out: dict[str, Flag]) -> None:
    """SGLang's fields `name: A[type, help or Arg(…)]`."""
    for node in cls.body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.annotation, ast.Subscript)):
            continue
        inner = node.annotation.slice
        if ast.unparse(node.annotation.value) not in ("A", "Annotated") or not isinstance(inner, ast.Tuple):
            continue
        meta = next((item for item in inner.elts[1:] if isinstance(item, ast.Call) and ast.unparse(item.func) == "Arg"), None)
        if meta is None and not any(isinstance(item, (ast.Constant, ast.JoinedStr, ast.BinOp)) for item in inner.elts[1:]):
            continue
        given = {keyword.arg: keyword.value for keyword in meta.keywords if keyword.arg} if meta else {"help": inner.elts[1]}
        if "no_cli" in given and ast.unparse(given["no_cli"]) == "True":
            continue
        found = flag(source, node.target.id, inner.elts[0])
        found["type"] = {"bool": "flag", "json": "str"}.get(found["type"], found["type"])
        if "type_parser" in given:
            found = _parser(given["type_parser"])
        found.update(_keywords(source, {key: value for key, value in given.items() if key != "type"}))
        name = ast.literal_eval(given["cli_name"]) if "cli_name" in given else "--" + node.target.id.replace("_", "-")
        _add(out, [name, *(source.values(given.get("aliases")) or [])], found)


def _add(out: dict[str, Flag], names: list[str], found: Flag) -> None:
    long = [name for name in names if name.startswith("--")] or names
    name, also = long[0].lstrip("-"), [other.lstrip("-") for other in names if other != long[0]]
    if also:
        found["also"] = also
    known = out.get(name)
    out[name] = found if known is None or known["type"] == "str" else known
