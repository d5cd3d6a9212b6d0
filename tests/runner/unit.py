"""Tier `unit`: pytest over tests/unit."""

from __future__ import annotations

import sys

from .step import Result, pytest_count, run


def tier() -> list[Result]:
    return [run("unit", [sys.executable, "-m", "pytest"], count=pytest_count, timeout=900)]
