"""What the matrix says of a build: releases without a builder, and its options."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_build import check_build, check_gpu, words
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

from .conftest import options_of, standin


def found(matrix: Matrix, version: str, args: t.Any = None, unknown: t.Any = "block") -> list[tuple[str, str, str]]:
    return [
        (one.id, one.severity, f"{one.message} {one.fix} {one.nearest}")
        for one in check_build(matrix, version, args or {}, "llama", unknown)
    ]


@pytest.mark.parametrize("version", ["1.3.0rc22", "1.4.0rc1", "2.0.0"])
def test_a_release_without_the_builder_is_refused_with_what_to_do_instead(matrix: Matrix, version: str) -> None:
    ((identity, severity, text),) = found(matrix, version, {"gemm_plugin": "auto"})
    assert (identity, severity) == ("engine.build_gone", "block")
    assert "trtllm-serve" in text
    assert "1.2.1" in text


def test_between_the_last_with_and_the_first_without_nobody_knows(matrix: Matrix) -> None:
    assert [severity for _id, severity, _text in found(matrix, "1.3.0rc17")] == ["block"]
    assert [severity for _id, severity, _text in found(matrix, "1.3.0rc17", unknown="warn")] == ["warn"]


def test_a_version_before_all_rows_is_unknown(matrix: Matrix) -> None:
    assert [identity for identity, _severity, _text in found(matrix, "0.5.0")] == ["engine.version_unknown"]


REFUSED: list[tuple[str, t.Any, str, str]] = [
    ("1.2.1", {"max_output_len": 512}, "engine.argument_gone", "--max_seq_len"),
    ("1.2.1", {"tp_size": 2}, "engine.argument_gone", "converted for as many GPUs"),
    ("0.12.0", "--use_custom_all_reduce enable", "engine.argument_gone", "removed in 0.12.0"),
    ("0.14.0", {"builder_opt": 3}, "engine.argument_gone", "removed in 0.14.0"),
    ("1.2.1", {"strongly_typed": True}, "engine.argument_gone", "removed in 0.11.0"),
    ("0.11.0", {"fast_build": True}, "engine.argument_new", "0.12.0"),
    ("1.2.1", {"gemm_plugin": "fp16"}, "engine.argument_value", "float16"),
    ("1.2.1", {"max_batch_size": "many"}, "engine.argument_value", "whole number"),
    ("1.2.1", {"max_batchsize": 4}, "engine.argument_unknown", "--max_batch_size"),
    ("1.2.1", {"output_dir": "/tmp"}, "engine.argument_owned", "the store"),
    ("1.2.1", {"checkpoint_dir": "/tmp"}, "engine.argument_owned", "by the module"),
]


@pytest.mark.parametrize(("version", "args", "identity", "text"), REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_an_option_that_would_stop_the_build_is_refused_before(matrix: Matrix, version: str, args: t.Any, identity: str, text: str) -> None:
    ((have, severity, words_of),) = found(matrix, version, args)
    assert (have, severity) == (identity, "block")
    assert text in words_of


def test_options_become_words_in_one_order_and_truth_becomes_what_the_builder_wants(matrix: Matrix) -> None:
    args = {"multiple_profiles": True, "context_fmha": False, "strip_plan": True, "dry_run": False, "lora_dir": ["/a", "/b"]}
    assert found(matrix, "1.2.1", args) == []
    assert words(matrix, "1.2.1", args) == [
        ["--context_fmha", "disable"],
        ["--lora_dir", "/a", "/b"],
        ["--multiple_profiles", "enable"],
        ["--strip_plan"],
    ]
    assert words(matrix, "1.2.1", "--max_multimodal_len 7 --gemm_plugin=auto") == [
        ["--gemm_plugin", "auto"],
        ["--max_prompt_embedding_table_size", "7"],
    ]


@pytest.mark.parametrize("version", ["0.11.0", "0.15.0", "1.2.1"])
def test_all_options_of_a_release_pass_a_parser_that_has_these(matrix: Matrix, version: str) -> None:
    flags = options_of(version)
    own = ("checkpoint_dir", "output_dir")
    sample = {"int": 4, "float": 0.5, "str": "x", "flag": True}
    args = {name: (flag["choices"] or [sample[flag["type"]]])[0] for name, flag in flags.items() if name not in own}
    assert [one for one in found(matrix, version, args) if one[1] == "block"] == []
    line = [word for option in words(matrix, version, args) for word in option]
    parsed = vars(standin._parser(flags).parse_args(line))
    assert {name: value for name, value in parsed.items() if value not in (None, False)}.keys() == args.keys()


def test_a_gpu_that_the_release_does_not_know_is_refused(matrix: Matrix) -> None:
    assert [one.id for one in check_gpu(matrix, "1.2.1", "7.0", "llama")] == ["engine.compute_capability"]
    assert check_gpu(matrix, "1.2.1", "9.0", "llama") == []
