"""Tier `full`: what takes long. Each executable tests/full/* is one test."""

from __future__ import annotations

import os

from .step import ROOT, Result, note, run


def tier() -> list[Result]:
    scripts = [path for path in sorted((ROOT / "tests/full").glob("*")) if path.is_file() and os.access(path, os.X_OK)]
    if not scripts:
        return [note("full", ["tests/full holds no executable"])]
    return [run(f"full-{path.name}", [str(path)], timeout=3600) for path in scripts]
