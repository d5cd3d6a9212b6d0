#!/usr/bin/python3
"""Stand-in of an engine's program: takes the command lines that the roles render and becomes engine_server.py. `setup FOLDER` makes it
look like a venv of each engine: FOLDER/ENGINE/bin/{vllm,sglang,trtllm-serve}.

    vllm serve MODEL --port … --served-model-name … --config secrets.yaml
    sglang serve --model-path MODEL …
    trtllm-serve serve MODEL …

Knobs: STANDIN_FAIL=1 in its environment ends with 1 as an engine that cannot start; STANDIN_LOAD=SECONDS; $HOME/script.json is its script.
Not as in a real engine: it has no parser (flags are only read, never refused) and takes no GPU.
"""

from __future__ import annotations

import os
import pathlib
import stat
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm-serve"}


def setup(folder: pathlib.Path) -> None:
    for engine, program in PROGRAMS.items():
        path = folder / engine / "bin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec /usr/bin/python3 {HERE}/engine_program.py {engine} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def value(words: list[str], *names: str) -> str:
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word.lstrip("-") in names), "")


def key_of(words: list[str], engine: str) -> str:
    file = value(words, "config")
    if not file or engine == "trtllm":
        return ""
    lines = dict(line.split(": ", 1) for line in pathlib.Path(file).read_text().splitlines())
    return lines.get("api-key", "").strip('"')


def main() -> None:
    engine, words = sys.argv[1], sys.argv[2:]
    if engine == "setup":
        setup(pathlib.Path(words[0]))
        return
    model = value(words, "model-path") or words[1]
    if os.environ.get("STANDIN_FAIL"):
        raise SystemExit(f"ValueError: the stand-in of {engine} was told to fail with {model}")
    if not os.path.isfile(f"{model}/config.json"):
        raise SystemExit(f"OSError: {model} has no config.json")
    name = value(words, "served-model-name", "served_model_name") or pathlib.Path(model).name
    sys.path.insert(0, str(HERE))
    import engine_server

    script = pathlib.Path(os.environ.get("HOME", "/nonexistent"), "script.json")
    drain = value(words, "shutdown-timeout") or "5"
    sys.argv = ["engine_server.py", "--engine", engine, "--port", value(words, "port"), "--model", name, "--script", str(script)]
    sys.argv += ["--drain-seconds", drain, "--load-seconds", os.environ.get("STANDIN_LOAD", "0.5"), "--api-key", key_of(words, engine)]
    print(f"stand-in of {engine}: serving {name}", flush=True)
    engine_server.main()


if __name__ == "__main__":
    main()
