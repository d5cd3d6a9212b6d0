"""One command of a tier: run it, keep its output, count it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build"
VENV = ROOT / ".venv"


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def line(self) -> str:
        return f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else "")


@dataclass
class Result:
    name: str
    count: Count
    seconds: float
    closing: str = ""
    log: Path | None = None
    skipped_because: list[str] = field(default_factory=list)


def environment(**more: str) -> dict[str, str]:
    """The tools of .venv first on PATH; no colours, since output is read; nothing of the caller's Ansible settings."""
    found = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_", "PYTEST_"))}
    found.update(
        {"PATH": f"{VENV}/bin:{found['PATH']}", "NO_COLOR": "1", "PY_COLORS": "0", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"}, **more
    )
    return found


def run(
    name: str,
    command: Sequence[str],
    *,
    count: Callable[[int, str], Count] | None = None,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 900,
    quiet: bool = True,
) -> Result:
    """Run a command; without `count` it is one test that passes with exit status 0. Output goes to .build/logs, shown when it fails."""
    log = BUILD / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"── {name} …", flush=True)
    started = time.monotonic()
    with log.open("w") as handle:
        try:
            status = subprocess.run(
                command,
                cwd=cwd,
                env=dict(env or environment()),
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            ).returncode
        except subprocess.TimeoutExpired:
            handle.write(f"\nno end after {timeout:.0f} s\n")
            status = 124
        except FileNotFoundError as error:
            handle.write(f"{error}\n")
            status = 127
    text = log.read_text(errors="replace")
    counted = count(status, text) if count else Count(int(status == 0), int(status != 0))
    if status != 0 and counted.failed == 0:
        counted.failed = 1
    result = Result(name, counted, time.monotonic() - started, closing_line(text), log)
    if counted.failed or not quiet:
        print("\n".join(text.splitlines()[-80:]), flush=True)
    return result


def note(name: str, problems: Sequence[str], checked: int = 1) -> Result:
    """The result of a check that needed no command."""
    for problem in problems:
        print(f"   {problem}", flush=True)
    return Result(name, Count(checked - min(checked, len(problems)) if problems else checked, len(problems)), 0.0)


CLOSING = re.compile(r"^=* ?((?:\d+ (?:passed|failed|skipped|errors?|deselected|xfailed|warnings?)(?:, )?)+) in [\d.]+s.*$", re.M)


def closing_line(text: str) -> str:
    """A runner's own last word (pytest's, so far)."""
    found = CLOSING.findall(text)
    return found[-1] if found else ""


def pytest_count(status: int, text: str) -> Count:
    """From pytest's closing line; a run without a single test is a failure."""
    found_words = re.findall(r"(\d+) (passed|failed|errors?|skipped)", closing_line(text))
    words = {word.rstrip("s"): int(number) for number, word in found_words}
    found = Count(words.get("passed", 0), words.get("failed", 0) + words.get("error", 0), words.get("skipped", 0))
    if found.passed + found.failed == 0:
        found.failed = 1
    return found


def missing(program: str) -> bool:
    return shutil.which(program, path=f"{VENV}/bin:{os.environ['PATH']}") is None


def out(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
