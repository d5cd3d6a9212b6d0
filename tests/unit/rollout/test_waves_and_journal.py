"""Waves, journal and budget: what may happen, and what follows from a rollout that was killed."""

from __future__ import annotations

import itertools
import random
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._rollout_journal import (
    ENDS,
    PHASES,
    Budget,
    Entry,
    JournalError,
    phases,
    read,
    recovery,
    refused,
)
from ansible_collections.gpufleet.inference.plugins.plugin_utils._rollout_waves import Host, WaveError, waves


def fleet(count: int, models: int = 5, domains: int = 4) -> list[Host]:
    return [Host(f"gpu-{n:03}", (f"model-{n % models}",), f"rack-{n % domains}") for n in range(count)]


def test_canaries_then_shares() -> None:
    hosts = [Host(f"h{n:02}") for n in range(20)]
    assert [len(wave) for wave in waves(hosts, 1, (10, 50, 100))] == [1, 1, 8, 10]
    assert [len(wave) for wave in waves(hosts, 3, (50, 100))] == [3, 7, 10]
    assert waves([], 1) == []
    assert waves([Host("a")], 1) == [["a"]]


def test_replicas_of_a_model_do_not_go_at_once() -> None:
    hosts = [Host(f"h{n}", ("chat",), f"rack-{n}") for n in range(4)]
    assert [len(wave) for wave in waves(hosts, 1, (100,))] == [1, 1, 1, 1]


def test_what_fails_together_goes_together_if_the_model_lives_elsewhere() -> None:
    one_rack = [Host("a", ("chat",), "r1"), Host("b", ("chat",), "r1")]
    assert waves(one_rack, 1, (100,)) == [["a"], ["b"]]
    two = [*one_rack, Host("c", ("chat",), "r2"), Host("d", ("chat",), "r2")]
    assert waves(two, 1, (100,)) == [["a"], ["b"], ["c", "d"]]


@pytest.mark.parametrize("seed", range(20))
def test_a_hundred_hosts_never_break_the_rule(seed: int) -> None:
    draw = random.Random(seed)
    hosts = [
        Host(f"h{n:03}", tuple(f"m{draw.randrange(12)}" for _k in range(draw.randint(1, 2))), f"r{draw.randrange(8)}") for n in range(100)
    ]
    made = waves(hosts, draw.randint(1, 3))
    assert sorted(itertools.chain(*made)) == [host.name for host in hosts]
    by_name = {host.name: host for host in hosts}
    for wave in made:
        for model in {model for name in wave for model in by_name[name].models}:
            gone = [by_name[name] for name in wave if model in by_name[name].models]
            served = [host for host in hosts if model in host.models]
            assert len(gone) == 1 or (len({host.domain for host in gone}) == 1 and len(gone) < len(served))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([Host("a"), Host("a")],), "hosts has a more than once"),
        (([Host("a")], 0), "canaries is 0"),
        (([Host("a")], 1, (50,)), "end with 100"),
        (([Host("a")], 1, (50, 10, 100)), "rising"),
        (([Host("a")], 1, ()), "rising"),
    ],
)
def test_wrong_input_is_named(arguments: t.Any, said: str) -> None:
    with pytest.raises(WaveError, match=said):
        waves(*arguments)


def journal(*steps: tuple[str, str]) -> str:
    return "".join(Entry("r1", host, phase, "2026-11-30T22:00:00Z").line() for host, phase in steps)


def test_a_journal_is_read_back() -> None:
    text = journal(("a", "planned"), ("b", "planned"), ("a", "gated"), ("a", "draining"))
    assert phases(read(text), "r1") == {"a": "draining", "b": "planned"}
    assert phases(read(text), "r2") == {}


def test_a_line_that_was_being_written_did_not_happen() -> None:
    text = journal(("a", "planned"), ("a", "gated"))
    for cut in range(1, len(text.splitlines()[-1]) + 1):
        assert phases(read(text[:-cut]), "r1") == {"a": "planned"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (journal(("a", "gated")), "nothing is followed by planned"),
        (journal(("a", "planned"), ("a", "converging")), "line 2 of the journal, a: planned is followed by gated"),
        (journal(("a", "sleeping")), "no phase"),
        ("{\n" + journal(("a", "planned")), "line 1 of the journal cannot be read"),
        ("[]\n", "line 1"),
        ('{"schema": 2, "run": "r"}\n', "another schema"),
    ],
)
def test_a_journal_that_cannot_be_believed_is_refused(text: str, said: str) -> None:
    with pytest.raises(JournalError, match=said):
        read(text)


def test_every_phase_ends() -> None:
    for phase in PHASES:
        reached, todo = set(), [phase]
        while todo:
            here = todo.pop()
            reached.add(here)
            todo += [after for after in PHASES[here] if after not in reached]
        assert reached & set(ENDS), phase
    assert refused("done", "draining")
    assert refused("rolled_back", "done"), "a host that was rolled back never counts as done"


@pytest.mark.parametrize("phase", PHASES)
def test_recovery(phase: str) -> None:
    """From any phase a killed play is taken up; nobody is undrained unjudged, nobody unreachable is touched."""
    decisions = {
        (reachable, version): recovery(phase, reachable, version) for reachable in (True, False) for version in ("before", "asked", "other")
    }
    if phase in ENDS:
        assert set(decisions.values()) == {"nothing"}
        return
    assert ("undrain" in decisions.values()) == (phase == "returning")
    for (reachable, version), decision in decisions.items():
        if not reachable:
            assert decision == ("start" if phase in ("planned", "gated") else "fail")
        if version == "other" and reachable and phase in ("converging", "rebooting", "verifying", "starting", "judging"):
            assert decision == "roll_back"


def test_the_first_failed_canary_stops_all() -> None:
    budget = Budget(("c",), failures=2)
    assert budget.stop({"a": "failed", "b": "rolled_back", "c": "done"}) == ""
    assert "3 hosts failed" in budget.stop({"a": "failed", "b": "rolled_back"}, ["d"])
    assert budget.stop({"c": "rolled_back"}) == "canary c failed"
    assert budget.stop({}, ["c"]) == "canary c failed"


@pytest.mark.parametrize("seed", range(10))
def test_a_rollout_of_a_hundred_hosts_that_is_killed_anywhere_ends(seed: int) -> None:
    """The state machine alone: random outcomes, random kills, each host ends once, and the journal is always readable."""
    draw = random.Random(seed)
    text, ended = "", set()
    for wave in waves(fleet(100)):
        for host in wave:
            phase = None
            while phase not in ENDS:
                options = ("planned",) if phase is None else PHASES[phase]
                phase = draw.choice(options)
                text += Entry("r1", host, phase, "t").line()
                if draw.random() < 0.05:
                    text = text[: -draw.randint(1, 10)]
                    kept = phases(read(text), "r1").get(host)
                    text = text[: text.rfind("\n") + 1]
                    phase = kept
            ended.add(host)
    assert set(phases(read(text), "r1")) == ended
    assert set(phases(read(text), "r1").values()) <= set(ENDS)
