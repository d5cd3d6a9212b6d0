"""Run by a Python that has an engine: what its own argument parser has, and what it says of command lines. Knows nothing of the collection.

python real_parser.py vllm|sglang < [["--flag", "value"], …]      →  {"version": …, "options": […], "verdicts": [null or the error, …]}
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import typing as t


def vllm() -> tuple[str, argparse.ArgumentParser]:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for place in ("common", "launchers", "openai"):  # it has moved twice
        try:
            make = importlib.import_module(f"vllm.entrypoints.{place}.cli_args").make_arg_parser
        except ImportError:
            continue
        return importlib.import_module("vllm").__version__, make(FlexibleArgumentParser())
    raise SystemExit("no make_arg_parser where it was known to be")


def sglang() -> tuple[str, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return importlib.import_module("sglang.version").__version__, parser


def verdict(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    """None, or why the parser refuses the words."""

    def refuse(message: str) -> t.NoReturn:
        raise ValueError(message)

    parser.error = refuse  # type: ignore[method-assign]
    try:
        parser.parse_args(words)
    except (ValueError, SystemExit, argparse.ArgumentError) as error:
        return str(error)
    return None


def main() -> int:
    version, parser = {"vllm": vllm, "sglang": sglang}[sys.argv[1]]()
    options = sorted(option for action in parser._actions for option in action.option_strings)
    verdicts = [verdict(parser, words) for words in json.load(sys.stdin)]
    print("\n" + json.dumps({"version": version, "options": options, "verdicts": verdicts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
