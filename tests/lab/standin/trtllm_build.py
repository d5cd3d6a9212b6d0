"""Stand-in of trtllm-build: takes the options that its release has, writes what the real one writes, and fails on demand.

`make_venv` puts it into a venv whose package metadata says TensorRT-LLM, TensorRT and CUDA, without any of them. In the venv lie
options.json, made from the matrix' rows of that release, and behaviour.json, read at each start: {"seconds": 3, "fail": "memory",
"status": 1, "skip": "rank1.engine", "config": {…}}. Not as in the real one: time, size, and that any engine would run.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
import typing as t

FAILURES = {
    "memory": "[TRT-LLM] [E] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "disk": "OSError: [Errno 28] No space left on device",
    "other": "AssertionError: Engine building failed, please check error log.",
}


def make_venv(folder: pathlib.Path, flags: t.Mapping[str, t.Any], versions: t.Mapping[str, str]) -> None:
    """`flags`: {name: {type, many, choices, aliases}}; `versions`: tensorrt_llm, tensorrt, cuda."""
    packages = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    if not (folder / "bin/python3").exists():  # what `python -m venv` makes, in a hundredth of its time
        packages.mkdir(parents=True)
        (folder / "bin").mkdir()
        python = pathlib.Path(sys.executable).resolve()
        (folder / "bin/python3").symlink_to(python)
        (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    program = folder / "bin/trtllm-build"
    program.write_text(f"#!{folder}/bin/python3\n" + pathlib.Path(__file__).read_text())
    program.chmod(0o755)
    (folder / "options.json").write_text(json.dumps(flags))
    for old in packages.glob("tensorrt*.dist-info"):
        (old / "METADATA").unlink()
        old.rmdir()
    for name in ("tensorrt_llm", "tensorrt"):
        info = packages / f"{name}-{versions[name]}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {versions[name]}\n")
    (packages / "torch").mkdir(exist_ok=True)
    (packages / "torch/__init__.py").write_text("raise ImportError('no GPU here')\n")
    (packages / "torch/version.py").write_text(f"from typing import Optional\ncuda: Optional[str] = '{versions['cuda']}'\n")


def checkpoint(folder: pathlib.Path, tensor: int = 1, pipeline: int = 1, seed: int = 1) -> pathlib.Path:
    """A TensorRT-LLM checkpoint of a model that nobody could use."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {"world_size": tensor * pipeline, "tp_size": tensor, "pp_size": pipeline}
    (folder / "config.json").write_text(json.dumps({"architecture": "LlamaForCausalLM", "dtype": "bfloat16", "mapping": mapping}))
    for rank in range(tensor * pipeline):
        data = bytes([seed, rank]) * 100_000
        header = json.dumps({"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
        (folder / f"rank{rank}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    return folder


def _parser(flags: t.Mapping[str, t.Any]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trtllm-build")
    for name, flag in flags.items():
        names = [f"--{word}" for word in (name, *flag["aliases"])]
        if flag["type"] == "flag":
            parser.add_argument(*names, action="store_true")
        else:
            kind = {"int": int, "float": float}.get(flag["type"], str)
            parser.add_argument(*names, type=kind, nargs="+" if flag["many"] else None, choices=flag["choices"] or None)
    return parser


def main() -> int:
    root = pathlib.Path(sys.argv[0]).resolve().parents[1]
    args = _parser(json.loads((root / "options.json").read_text())).parse_args()
    behaviour = json.loads((root / "behaviour.json").read_text()) if (root / "behaviour.json").exists() else {}
    source, target = pathlib.Path(args.checkpoint_dir), pathlib.Path(args.output_dir)
    pretrained = json.loads((source / "config.json").read_text())
    ranks = pretrained["mapping"]["world_size"]
    (root / "calls.log").open("a").write(json.dumps(sys.argv[1:]) + "\n")
    for rank in range(ranks):
        print(f"[TRT-LLM] [I] Building engine for rank {rank}", flush=True)
        time.sleep(float(behaviour.get("seconds", 0)) / ranks)
        if behaviour.get("fail"):
            print(FAILURES[behaviour["fail"]], file=sys.stderr, flush=True)
            return int(behaviour.get("status", 1))
        if behaviour.get("skip") != f"rank{rank}.engine":
            (target / f"rank{rank}.engine").write_bytes(b"ptrt" + bytes(4096))
    pathlib.Path("model.cache").write_bytes(b"timing cache")  # as the real one: where it stands
    version = next((root / "lib").glob("python3*/site-packages/tensorrt_llm-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    limits = {name: getattr(args, name, None) for name in ("max_batch_size", "max_seq_len", "max_beam_width", "max_num_tokens")}
    config = {"version": version, "pretrained_config": pretrained, "build_config": limits, **behaviour.get("config", {})}
    (target / "config.json").write_text(json.dumps(config))
    print("[TRT-LLM] [I] Total time of building all engines: 00:00:01", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
