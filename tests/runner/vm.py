"""Tiers `vm` (all tests on machines with a kernel of their own), `vm-small` (one of them) and `dkms`; what `make test` says of them."""

from __future__ import annotations

import re
import sys

from .step import ROOT, Count, Result, out, pytest_count, run

TESTS = [sys.executable, "-m", "pytest", "tests/vm", "-rA", "--durations=0"]


def tier() -> list[Result]:
    return [run("vm", TESTS, count=pytest_count, timeout=7200)]


def small() -> list[Result]:
    return [run("vm-small", [*TESTS, "-m", "small"], count=pytest_count, timeout=1800)]


def left_out() -> list[Result]:
    """What `make test` says instead. Each test counts as skipped, so that its closing line shows that something was not run."""
    text = "".join(path.read_text() for path in sorted((ROOT / "tests/vm").glob("test_*.py")))
    tests = re.findall(r"^def (test_\w+)", text, re.M)
    out("   NOT RUN HERE: tests on machines with a kernel of their own (real reboots, initramfs, Secure Boot), and real DKMS builds.")
    out("   Why: without KVM a machine is emulated: over two processor minutes for a boot with Secure Boot; a build takes six to eight.")
    out("   Run them: `make vm`, `make dkms` (docs/testing_vm.md).")
    for name in tests:
        out(f"   skipped: {name}")
    return [Result("vm", Count(skipped=len(tests)), 0.0), Result("dkms", Count(skipped=1), 0.0)]


def dkms() -> list[Result]:
    return [run("dkms", [str(ROOT / "tests/dkms/run")], timeout=7200, quiet=False)]
