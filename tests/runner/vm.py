"""Tiers `vm` (all tests on machines with a kernel of their own) and `vm-ci` (the small set that fits into `make test`)."""

from __future__ import annotations

import sys

from .step import ROOT, Result, pytest_count, run

TESTS = [sys.executable, "-m", "pytest", "tests/vm", "-rA", "--durations=0"]


def tier() -> list[Result]:
    return [run("vm", TESTS, count=pytest_count, timeout=7200)]


def small() -> list[Result]:
    print(
        "   the rest of tests/vm (enrolment at the console, reboots, kernel upgrade) runs by `make vm`, DKMS builds by `make dkms`:",
        flush=True,
    )
    print("   emulated machines and real builds take 20 minutes and more", flush=True)
    return [run("vm-ci", [*TESTS, "-m", "ci"], count=pytest_count, timeout=900)]


def dkms() -> list[Result]:
    return [run("dkms", [str(ROOT / "tests/dkms/run")], timeout=7200, quiet=False)]
