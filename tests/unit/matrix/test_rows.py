"""The rows themselves: closed types, references, and that nothing of the compiled facts was dropped."""

from __future__ import annotations

import json
import re
import typing as t

import jsonschema
import pytest
import yaml

from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_schema import problems
from ansible_collections.gpufleet.inference.plugins.plugin_utils._versions import branch_of, key, major_of, minor_of

from .conftest import ROOT

SCHEMA = json.loads((ROOT / "schemas/matrix.schema.json").read_text())
FILES = sorted((ROOT / "matrix").rglob("*.yml"))

# Rows per section when the facts were compiled on 2026-11-30, corrections included. Rows may be added, never lost.
COUNTS = {
    "gpus": 57,
    "driver_branches": 25,
    "cuda_majors": 3,
    "cuda_minors": 16,
    "cuda_toolkits": 41,
    "cudnn": 11,
    "nccl": 10,
    "torch": 19,
    "toolkit_releases": 13,
    "driver_bulletins": 10,
    "driver_safe": 25,
    "toolkit_advisories": 10,
    "engine_advisories": 35,
    "product_advisories": 8,
    "safe_versions": 4,
    "engine_releases": 89,
    "engine_boundaries": 32,
    "engine_flags": 4,
    "engine_environment": 3,
    "engine_lifecycle": 3,
    "models": 10,
    "model_launch": 3,
    "systems": 17,
    "driver_packages": 8,
    "runfile_options": 30,
    "stacks": 6,
    "deny": 8,
    "rules": 65,
    "snapshots": 5,
    "newest": 13,
}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_file_matches_the_schema(path: t.Any) -> None:
    document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    for section, rows in document.items():
        for row in rows:
            assert list(problems(row, SCHEMA["properties"][section]["items"], SCHEMA)) == []


def test_schema_is_valid_and_uses_only_what_the_own_reader_knows() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    known = {
        "type", "enum", "pattern", "minLength", "minimum", "maximum", "format", "items", "minItems", "properties", "additionalProperties",
        "propertyNames", "required", "minProperties", "$ref", "description",
    }  # fmt: skip

    def walk(schema: t.Any) -> None:
        assert set(schema) <= known, set(schema) - known
        for name in ("items", "additionalProperties", "propertyNames"):
            if isinstance(schema.get(name), dict):
                walk(schema[name])
        for child in schema.get("properties", {}).values():
            walk(child)

    for section in SCHEMA["properties"].values():
        walk(section)
    for definition in SCHEMA["$defs"].values():
        walk(definition)


def test_ids_are_unique_over_all_files(matrix: Matrix) -> None:
    names = [row["id"] for path in FILES for rows in yaml.load(path.read_text(), Loader=yaml.CSafeLoader).values() for row in rows]
    assert sorted(names) == sorted(set(names))
    assert len(names) == len(matrix.rows)


@pytest.mark.parametrize(("section", "least"), COUNTS.items())
def test_no_row_was_dropped(matrix: Matrix, section: str, least: int) -> None:
    assert len(matrix.section(section)) >= least


def test_every_section_is_counted(matrix: Matrix) -> None:
    assert set(matrix.sections) == set(COUNTS)


def test_gpu_names_are_anchored_and_belong_to_one_row(matrix: Matrix) -> None:
    products = [product for row in matrix.section("gpus") for product in (row.get("pci") or {}).values()]
    for row in matrix.section("gpus"):
        for name in row["names"]:
            assert name.startswith("^")
            assert name.endswith("$")
    for product in products:
        assert len({row["id"] for name, row in matrix.gpu_names if name.search(product)}) == 1, product
    pci = [device for row in matrix.section("gpus") for device in row.get("pci") or {}]
    assert sorted(pci) == sorted(set(pci))


def test_branches_that_rows_refer_to_exist(matrix: Matrix) -> None:
    named = {row[name] for row in matrix.section("gpus") for name in ("branch_min", "branch_last") if name in row}
    named |= {branch_of(row[name]) for row in matrix.section("gpus") for name in ("driver_listed", "driver_min") if name in row}
    named |= {int(branch) for row in matrix.section("driver_bulletins") for branch in {**row["fixed"], **row.get("fixed_geforce", {})}}
    named |= {row["backward_from"] for row in matrix.section("cuda_majors") if "backward_from" in row}
    named |= {row["driver"]["branch"] for row in matrix.section("stacks")}
    named |= {row["distribution_driver"]["branch"] for row in matrix.section("systems") if "distribution_driver" in row}
    missing = named - set(matrix.branches)
    assert not missing
    assert set(matrix.driver_safe) == set(matrix.branches), "each branch says whether it has a safe release"


def test_versions_lie_in_their_branch(matrix: Matrix) -> None:
    for row in matrix.section("driver_branches"):
        for name in ("first", "latest"):
            assert branch_of(row.get(name, f"{row['branch']}.0")) == row["branch"]
    for row in matrix.section("driver_bulletins"):
        for branch, version in {**row["fixed"], **row.get("fixed_geforce", {})}.items():
            assert branch_of(version) == int(branch)
    for row in matrix.section("driver_safe"):
        assert ("version" in row) != ("reason" in row), "a branch without a safe release says why"
        for name in ("version", "last_fixed"):
            assert branch_of(row.get(name, f"{row['branch']}.0")) == row["branch"]


def test_cuda_rows_refer_to_each_other(matrix: Matrix) -> None:
    for row in matrix.section("cuda_toolkits"):
        assert minor_of(row["version"]) in matrix.minors
        assert row["driver_min"] == matrix.majors[major_of(row["version"]) or 0]["driver_min"] or row["version"].startswith("11")
    versions = {minor_of(row["version"]) for row in matrix.section("cuda_toolkits")}
    for row in matrix.section("torch"):
        assert row["cuda"] in versions
    for row in matrix.section("engine_releases"):
        for name in ("torch_cuda", "wheel_cuda", "image_cuda"):
            version = row.get(name)
            if version and minor_of(version):
                assert minor_of(version) in matrix.minors, (row["id"], version)


def test_capabilities_that_rows_name_are_known_to_some_cuda(matrix: Matrix) -> None:
    added = {arch for row in matrix.section("cuda_minors") for arch in (*row.get("architectures", ()), *row.get("adds", ()))}
    for row in matrix.section("gpus"):
        assert row["compute_capability"] in added
        assert row["architecture"] in {arch for branch in matrix.section("driver_branches") for arch in branch["architectures"]}


def test_rows_named_by_other_rows_exist(matrix: Matrix) -> None:
    for section, name in (("systems", "nearest"), ("stacks", "nearest")):
        for row in matrix.section(section):
            assert row.get(name, row["id"]) in matrix.rows
    repositories = {row["repository"] for row in matrix.section("systems")} | {"ubuntu1804", "ubuntu2004", "debian11"}
    for row in matrix.section("cuda_minors"):
        assert set(row.get("repositories", ())) <= repositories
    gpus = {row["id"] for row in matrix.section("gpus")}
    for row in matrix.section("models"):
        for parts in row.get("gpus_min", {}).values():
            assert set(parts) <= gpus
    models = {row["id"].removeprefix("model.") for row in matrix.section("models")}
    assert {row["model"] for row in matrix.section("model_launch")} <= models


def test_rows_that_forbid_say_why(matrix: Matrix) -> None:
    for row in matrix.section("gpus"):
        assert "branch_last" not in row or row["reason"]
    for row in matrix.section("systems"):
        assert not row.get("refused") or row["reason"]
    for row in matrix.section("models"):
        assert row.get("exists", True) or row["reason"]
    for row in matrix.section("stacks"):
        assert row["status"] == "supported" or row["reason"]


def test_stacks_in_support_name_known_rows(matrix: Matrix) -> None:
    for row in matrix.section("stacks"):
        for toolkit in row["cuda"]["toolkits"]:
            assert toolkit in matrix.toolkits
        if row["status"] == "supported":
            assert matrix.driver_safe[row["driver"]["branch"]]["version"] == row["driver"]["version"]
            for engine, version in row.get("engines", {}).items():
                assert f"{ {'tensorrt_llm': 'trtllm'}.get(engine, engine) }.{version}" in matrix.rows


def test_sources_name_no_private_place() -> None:
    for path in FILES:
        assert not re.search(r"shared/|/work/|find_string|from memory\)?\s*$", path.read_text(), re.IGNORECASE | re.MULTILINE), path


# What the second reader corrected, one assertion each kind.
def test_corrections_are_in(matrix: Matrix) -> None:
    rows = matrix.rows
    assert rows["l4"]["driver_listed"] == "530.41.03"
    assert rows["h200_sxm"]["driver_listed"] == "550.90.07"
    assert rows["gb10"]["driver_listed"] == "580.119.02"
    assert rows["rtx4090"]["below_listed"] == "warn"
    assert rows["gh200"]["mig"]["profiles"][1] == "1g.12gb+me"
    assert rows["gb200"]["mig"]["profiles"][1] == "1g.23gb+me"
    assert rows["h100_sxm"]["mig"]["driver_min"] == "525.85.12"
    assert "6.2" in rows["cuda_minor.13.0"]["drops"]
    assert "8.8" in rows["cuda_minor.13.0"]["adds"]
    assert {"12.1", "12.2", "12.3", "12.6", "13.2"} <= set(matrix.minors)
    assert "version" not in rows["safe.driver.610"]
    assert rows["torch.2.15.0"]["cuda"] == "13.2"
    assert rows["cudnn.8.9.7.29"]["cuda_majors"] == [12]
    assert rows["cudnn.9.28.1.4"]["cuda_majors"] == [13]
    assert rows["nccl.2.20.5"]["cuda_majors"] == [11, 12]
    assert rows["nccl.2.31.2"]["cuda_majors"] == [12, 13]
    assert rows["vllm.CVE-2025-62164"]["introduced"] == "0.10.2"
    assert rows["vllm.CVE-2026-22778"]["introduced"] == "0.8.3"
    assert rows["vllm.CVE-2026-54236"]["fixed"] == "0.24.0"
    assert rows["vllm.CVE-2026-115911"]["confidence"] == "unverified"
    assert "version" not in rows["safe.sglang"]
    assert rows["sglang.0.5.11"]["glibc_min"] == "2.34"
    assert rows["sglang.0.5.23"]["python"] == ">=3.11,<3.14"
    assert rows["vllm.0.19.1"]["compute_capability_listed"] == "7.5"
    assert rows["trtllm.1.2.1"]["torch_pin"] == ">=2.9.1,<2.10"
    assert "driver_min" not in rows["trtllm.1.2.1"]
    assert rows["model.qwen2-7b"]["engines"]["tensorrt_llm"]["min"] == "0.10.0"
    assert rows["model.nemotron-3-super"]["context"]["max"] == 1048576
    assert rows["model.nemotron-3-nano-omni"]["engines"]["vllm"]["min"] == "0.20.0"
    assert rows["model.nemotron-3-ultra"]["gpus_min"]["nvfp4"]["h100_sxm"] == 8
    assert {"os.fedora44", "os.azl4"} <= set(rows)
    assert key(rows["b200"]["driver_min"]) == key("570.133.20")
    for product in ("NVIDIA A10G", "NVIDIA L20", "NVIDIA H100", "NVIDIA H800", "NVIDIA RTX A5000", "TITAN V", "Tesla P40", "NVIDIA A16"):
        assert matrix.gpu(product), product
