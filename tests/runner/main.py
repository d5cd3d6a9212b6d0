"""Tiers in order, a summary, and the closing line."""

from __future__ import annotations

import time

from . import build, full, molecule, sanity, unit, vm
from .step import ROOT, Count, Result, out

TIERS = {
    "unit": unit.tier,
    "sanity": sanity.tier,
    "build": build.tier,
    "molecule": molecule.tier,
    "full": full.tier,
    "vm": vm.tier,
    "vm-small": vm.small,
    "vm-left-out": vm.left_out,
    "dkms": vm.dkms,
}


def _summary(tier: str, results: list[Result]) -> Count:
    total = Count()
    for result in results:
        mark = "FAIL" if result.count.failed else "ok  " if result.count.passed else "skip"
        where = f" → {result.log.relative_to(ROOT)}" if result.log and result.count.failed else ""
        out(f"{mark} {tier}/{result.name}: {result.closing or result.count.line()} ({result.seconds:.1f} s){where}")
        total.add(result.count)
    return total


def main(arguments: list[str]) -> int:
    unknown = [name for name in arguments if name not in TIERS]
    if unknown or not arguments:
        out(f"tests/run: tiers are {' '.join(TIERS)}; got {' '.join(unknown) or 'none'}")
        return 2
    total = Count()
    lines = []
    for name in arguments:
        started = time.monotonic()
        out(f"═══ {name}")
        results = TIERS[name]()
        counted = _summary(name, results)
        lines.append(f"{name}: {counted.line()} in {time.monotonic() - started:.0f} s")
        total.add(counted)
    out("═══ all tiers")
    for line in lines:
        out(line)
    out(total.line())
    return int(total.failed > 0)
