"""Tier `molecule`: every scenario, with the gates that molecule itself lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from .step import ROOT, Count, Result, environment, run

ANSI = re.compile(r"\x1b\[[0-9;]*m")
FRAME = re.compile(r"^\s*[│┌└]\s?", re.M)


LONG = {"engine_vllm"}
"""Not in the tier `molecule`; tests/full has a script for each."""


def scenarios() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml") if path.parent.name != "default")


def problems(text: str) -> list[str]:
    """What is wrong with a run that molecule calls successful."""
    text = FRAME.sub("", ANSI.sub("", text))
    found = []
    recaps = re.findall(
        r"^(\S+)\s*: actions=\d+\s+successful=\d+\s+disabled=\d+\s+skipped=(\d+)\s+missing=(\d+)\s+failed=(\d+)", text, re.M
    )
    if not recaps:
        found.append("no recap: molecule did not come to its end")
    for name, skipped, missing, failed in recaps:
        found += [
            f"{name}: {what}={number}" for what, number in (("skipped", skipped), ("missing", missing), ("failed", failed)) if number != "0"
        ]
    verifies = re.findall(r"> verify\] Executing$", text, re.M)
    tests = [int(number) for number in re.findall(r"(\d+) passed(?:, .*)? in [\d.]+s", text)]
    if not verifies:
        found.append("the scenario verifies nothing")
    elif len(tests) < len(verifies) or 0 in tests:
        found.append(f"{len(verifies)} verify steps, but only {len([t for t in tests if t])} ran tests")
    return found + _last_check(text)


def _last_check(text: str) -> list[str]:
    """The last action of a scenario is a check-mode run, which must foresee nothing."""
    parts = re.split(r"> check\] Executing$", text, flags=re.M)
    if len(parts) < 2:
        return ["no check-mode run"]
    last = re.split(r"> \w+\] Executing$", parts[-1], flags=re.M)[0]
    changed = re.findall(r"^(\S+)\s*: ok=\d+\s+changed=(\d+)", last, re.M)
    if not changed:
        return ["the last check-mode run reached no host"]
    return [f"check mode foresees {number} changes on {host} after all is done" for host, number in changed if number != "0"]


def tests_passed(text: str) -> int:
    return sum(int(number) for number in re.findall(r"(\d+) passed(?:, .*)? in [\d.]+s", ANSI.sub("", text)))


def run_scenario(name: str, destroy: str = "always") -> Result:
    def count(status: int, text: str) -> Count:
        wrong = problems(text) if status == 0 else [f"molecule ended with {status}"]
        for problem in wrong:
            print(f"   {name}: {problem}", flush=True)
        return Count(tests_passed(text) + int(not wrong), len(wrong))

    lab = f"{os.environ.get('LAB_NAME', 'gpulab')}-molecule"  # hosts of a demo stay as they are
    env = environment(LAB_NAME=lab, MOLECULE_GLOB="molecule/*/molecule.yml")
    # What molecule remembers ("prepared") is shared by all scenarios, and outlives hosts that someone removed.
    for scenario in ("default", name):
        reset = ["molecule", "reset", "-s", scenario]
        subprocess.run(reset, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)
    # Ansible wants the inventory file to be there before `create` has filled it.
    subprocess.run([str(ROOT / "tests/lab/lab"), "inventory"], env=env, stdout=subprocess.DEVNULL, check=True, timeout=120)
    return run(f"molecule-{name}", ["molecule", "test", "-s", name, f"--destroy={destroy}"], count=count, env=env, timeout=1800)


def tier(names: list[str] | None = None) -> list[Result]:
    wanted = names or [name for name in scenarios() if name not in LONG]
    return [run_scenario(name) for name in wanted]


def main(arguments: list[str]) -> int:
    keep = "--keep" in arguments
    names = [word for word in arguments if not word.startswith("-")]
    unknown = sorted(set(names) - set(scenarios()))
    if unknown:
        print(f"no scenario {', '.join(unknown)}; there are: {', '.join(scenarios())}", file=sys.stderr)
        return 2
    results = [run_scenario(name, "never" if keep else "always") for name in names or scenarios()]
    total = Count()
    for result in results:
        mark = "FAIL" if result.count.failed else "ok  "
        print(f"{mark} {result.name}: {result.count.line()} ({result.seconds:.0f} s, {_short(result.log)})")
        total.add(result.count)
    print(total.line())
    return int(total.failed > 0)


def _short(path: Path | None) -> str:
    return str(path.relative_to(ROOT)) if path else ""
