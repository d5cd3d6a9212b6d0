"""The runner's own logic: a green molecule run that proved nothing must not count as one."""

from __future__ import annotations

import re

import pytest
from runner import build, molecule
from runner.main import main
from runner.step import ROOT, closing_line, pytest_count

GOOD = """\
INFO     [power > prepare] Executing
INFO     [power > prepare] Executed: Successful
INFO     [power > check] Executing
  │ PLAY RECAP ****
  │ h1                         : ok=3    changed=2    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
INFO     [power > converge] Executing
INFO     [power > verify] Executing
  │ 12 passed in 1.27s
INFO     [power > check] Executing
  │ PLAY RECAP ****
  │ h1                         : ok=3    changed=0    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
INFO     [default > destroy] Executing
  │ localhost                  : ok=1    changed=1    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0

SCENARIO RECAP
default                   : actions=1  successful=1  disabled=0  skipped=0  missing=0  failed=0
power                     : actions=10  successful=8  disabled=0  skipped=0  missing=0  failed=0
"""


def test_good_run_has_no_problems() -> None:
    assert molecule.problems(GOOD) == []
    assert molecule.tests_passed(GOOD) == 12


def test_colours_do_not_matter() -> None:
    assert molecule.problems(GOOD.replace("INFO", "\x1b[36mINFO\x1b[0m")) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("missing=0  failed=0\npower", "missing=1  failed=0\npower", "default: missing=1"),
        ("successful=8  disabled=0  skipped=0", "successful=8  disabled=0  skipped=2", "power: skipped=2"),
        ("  │ 12 passed in 1.27s\n", "", "1 verify steps, but only 0 ran tests"),
        ("[power > verify] Executing", "[power > verify] Skipping", "verifies nothing"),
        ("changed=0 ", "changed=4 ", "check mode foresees 4 changes on h1"),
        ("[power > check] Executing", "[power > nothing] Executing", "no check-mode run"),
    ],
)
def test_hollow_run_is_seen(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    assert [found for found in molecule.problems(GOOD.replace(old, new)) if problem in found] != []


def test_no_recap_is_a_failure() -> None:
    assert molecule.problems(GOOD.split("SCENARIO RECAP")[0]) != []


@pytest.mark.parametrize(
    ("text", "passed", "failed", "skipped"),
    [
        ("..\n12 passed in 0.02s\n", 12, 0, 0),
        ("=== 1 failed, 12 passed, 3 skipped in 0.02s ===\n", 12, 1, 3),
        ("1 failed, 2 passed, 2 errors in 1.0s\n", 2, 3, 0),
        ("no tests ran in 0.01s\n", 0, 1, 0),
        ("", 0, 1, 0),
    ],
)
def test_pytest_closing_line(text: str, passed: int, failed: int, skipped: int) -> None:
    found = pytest_count(0, text)
    assert (found.passed, found.failed, found.skipped) == (passed, failed, skipped)


def test_last_closing_line_counts() -> None:
    assert closing_line("1 passed in 1.0s\nthen\n2 passed, 1 skipped in 2.0s\n") == "2 passed, 1 skipped"


def test_tarball_check_sees_strangers_and_gaps() -> None:
    names = [*(name + ("x" if name.endswith("/") else "") for name in build.NEEDED)]
    assert build.tarball_problems(names) == []
    assert build.tarball_problems([*names, "tests/unit/test_x.py"]) == ["tests/unit/test_x.py is in the tarball"]
    assert build.tarball_problems(names[1:]) == [f"{build.NEEDED[0]} is missing in the tarball"]


@pytest.mark.parametrize("scenario", molecule.scenarios())
def test_scenario_follows_the_convention(scenario: str) -> None:
    folder = ROOT / "molecule" / scenario
    assert [name for name in ("prepare.yml", "converge.yml") if not (folder / name).is_file()] == []
    assert list(folder.glob("tests/test_*.py")), "no testinfra tests"
    named = re.findall(r"side_effect (\S+)", (folder / "molecule.yml").read_text())
    assert [name for name in named if not (folder / name).is_file()] == []


def test_what_is_left_out_is_named_and_never_counts_as_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vm-left-out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line for line in lines if line.startswith("   skipped: test_")]
    assert named
    assert lines[-1] == f"0 passed, 0 failed, {len(named) + 1} skipped"
    assert not [line for line in lines if line.startswith("ok")]
