"""The notation of flags, and that the rows speak of releases that exist."""

from __future__ import annotations

import re

import pytest
import yaml

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_flag_rows import parse, table, within
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_lifecycle import lifecycle
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._versions import is_version, key

ENGINES = ("vllm", "sglang", "tensorrt_llm")
TABLES = (*ENGINES, "tensorrt_llm_build")


def test_a_line_is_read() -> None:
    line = "dtype, d: str* = auto, half (<0.9.0 or >=0.11.0) | in >=0.7.0 | open in <0.8.0 | deprecated 0.12.0"
    flag, aliases = parse(line, {})
    assert (flag.name, aliases, flag.type, flag.many, flag.deprecated) == ("dtype", ["d"], "str", True, "0.12.0")
    assert flag.values("0.7.1") == []
    assert flag.values("0.10.0") == ["auto"]
    assert flag.values("0.11.0") == ["auto", "half"]
    assert within("0.7.0", flag.releases)
    assert not within("0.6.6", flag.releases)


@pytest.mark.parametrize("line", ["dtype", "dtype: text", "--dtype: str", ": str"])
def test_a_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(line))):
        parse(line, {})


@pytest.mark.parametrize("engine", TABLES)
def test_every_line_of_the_rows_is_read_and_names_releases_in_order(matrix: Matrix, engine: str) -> None:
    known = table(matrix, engine)
    assert known
    assert len(known.flags) > 30
    specs = [
        text for flag in known.flags.values() for text in (flag.releases, flag.open_in, flag.bool_in, *(c[1] for c in flag.choices)) if text
    ]
    specs += [releases for releases, _ in known.variables.values() if releases]
    for text in specs:
        bounds = [bound for part in text.split(" or ") for bound in part.split(",")]
        versions = [bound.lstrip("<>=") for bound in bounds]
        assert all(re.fullmatch(r"(<|>=)[0-9].*", bound) and is_version(version) for bound, version in zip(bounds, versions)), text
        assert versions == sorted(versions, key=key), text
        assert all(key(known.first) <= key(version) <= key(known.last) for version in versions), text


@pytest.mark.parametrize("engine", TABLES)
def test_no_alias_is_the_name_of_another_flag_in_the_same_release(matrix: Matrix, engine: str) -> None:
    known = table(matrix, engine)
    assert known
    newest = set(known.names(known.last))
    clashes = {alias for alias, name in known.aliases.items() if alias in newest and alias != name and name in newest}
    assert not clashes


@pytest.mark.parametrize("engine", ENGINES)
def test_the_life_cycle_names_flags_that_exist(matrix: Matrix, engine: str) -> None:
    known = table(matrix, engine)
    assert known
    for row in matrix.engines[engine]:
        if not known.knows(row["version"]):
            continue
        life = lifecycle(matrix, engine, row["version"])
        assert life.launchers
        assert life.paths()["health"]
        for name in (life.drain_flag, life.part("config")["flag"] if life.key_file else None):
            flag = known.find(name) if name else None
            assert name is None or (flag and within(row["version"], flag.releases)), (row["version"], name)
        assert all(known.find(flag) for flag in life.arguments.values()), row["version"]


def test_hints_name_flags_that_exist(matrix: Matrix) -> None:
    for row in matrix.section("engine_boundaries"):
        known = table(matrix, row["engine"])
        for text in row.get("use", ()):
            assert known
            assert known.find(text.split()[0].lstrip("-")), (row["id"], text)
        for item in row["item"].split(", ") if row["kind"] in ("renamed", "deprecated") and row.get("use") else ():
            assert known
            assert known.find(item.lstrip("-")), f"{row['id']}: a flag that no release had is of kind never"


def test_an_overlay_adds_a_flag_and_a_broken_line_names_its_file(tmp_path: object) -> None:
    from pathlib import Path

    from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import MatrixError

    path = Path(str(tmp_path)) / "site.yml"
    row = {"id": "site.flags", "engine": "vllm", "first": "0.6.6", "last": "0.33.0", "source": "our fork", "confidence": "verified"}
    path.write_text(yaml.safe_dump({"engine_flags": [{**row, "flags": "our-flag: int | in >=0.30.0\nseed: str\n"}]}))
    known = table(load_matrix([str(path)]), "vllm")
    assert known
    assert known.flags["our-flag"].type == "int"
    assert known.flags["seed"].type == "str"
    assert "max-model-len" in known.flags
    path.write_text(yaml.safe_dump({"engine_flags": [{**row, "flags": "our-flag int\n"}]}))
    with pytest.raises(MatrixError, match=r"site\.yml: engine_flags, row site\.flags: flags"):
        load_matrix([str(path)])
