"""What is remembered about GPUs, and what follows from it."""

from __future__ import annotations

import json
import typing as t

from power_devices import device

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_records import (
    clocks_done,
    clocks_handled,
    clocks_text,
    ecc_to_restore,
    missing,
    refused,
    remember,
    remember_refused,
)
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_targets import Target

NOW = "2026-11-30T12:00:00+00:00"


def target(gpu: dict[str, t.Any], **wanted: t.Any) -> Target:
    return Target(gpu, wanted, frozenset())


def test_first_value_of_ecc_is_kept_whatever_comes_later() -> None:
    on = device(0)
    first = remember(None, [on], [target(on, ecc=False)], NOW)
    off = {**on, "ecc": {"current": True, "pending": False}}
    later = remember(first, [off], [target(off, ecc=True)], "2027-01-01T00:00:00+00:00")
    assert ecc_to_restore(later) == {on["uuid"]: True}
    assert later["gpus"][on["uuid"]]["recorded_at"] == NOW


def test_ecc_that_is_as_wanted_is_not_our_change() -> None:
    gpu = device(0)
    assert ecc_to_restore(remember(None, [gpu], [target(gpu, ecc=True)], NOW)) == {}


def test_a_replaced_gpu_is_forgotten_and_a_moved_one_is_not() -> None:
    old, other = device(0), device(1)
    first = remember(None, [old, other], [], NOW)
    new = {**device(7), "pci_address": old["pci_address"]}
    assert set(remember(first, [new, other], [], NOW)["gpus"]) == {new["uuid"], other["uuid"]}
    moved = {**old, "pci_address": "0000:99:00.0"}
    assert remember(first, [moved, other], [], NOW)["gpus"][old["uuid"]]["pci_address"] == "0000:99:00.0"


def test_missing_is_only_what_is_not_on_the_bus() -> None:
    here, gone = device(0), device(1)
    recorded = remember(None, [here, gone], [], NOW)
    bus = [here["pci_address"]]
    assert list(missing(recorded, [here], bus)) == [gone["uuid"]]
    assert missing(recorded, [here], [*bus, gone["pci_address"]]) == {}
    assert missing(None, [here], bus) == {}
    assert missing(remember(recorded, [here], [], NOW, forget=[gone["uuid"]]), [here], bus) == {}


def test_a_lost_gpu_stays_in_the_record() -> None:
    recorded = remember(None, [device(0)], [], NOW)
    lost = {"index": 0, "uuid": None, "pci_address": None, "product": None, "state": "lost"}
    assert set(remember(recorded, [lost], [], NOW)["gpus"]) == {device(0)["uuid"]}


def test_clock_record_is_the_same_text_for_the_same_content() -> None:
    one = {"b": {"gpu_clocks": "1,2", "memory_clocks": "3,4"}, "a": {"gpu_clocks": "1,2"}}
    other = {"a": {"gpu_clocks": "1,2"}, "b": {"memory_clocks": "3,4", "gpu_clocks": "1,2"}, "c": {}}
    assert clocks_text(one) == clocks_text(other)
    assert clocks_handled(clocks_text(one)) == one
    assert clocks_text({"a": {}}) is None


def test_clock_record_that_says_nothing() -> None:
    for text in (None, "", "[]", "{", '{"schema": 2, "gpus": {"a": {}}}', '{"schema": 1}', "null"):
        assert clocks_handled(text) == {}


def test_only_locked_ranges_are_recorded() -> None:
    gpus = [
        {"uuid": "a", "settings": {"gpu_clocks": {"status": "set", "wanted": "1,2"}, "memory_clocks": {"status": "denied", "wanted": "3"}}},
        {"uuid": "b", "settings": {"gpu_clocks": {"status": "unchanged", "wanted": "1,2"}, "power_limit": {"status": "set", "wanted": 1}}},
    ]
    assert clocks_done(gpus) == {"a": {"gpu_clocks": "1,2"}, "b": {"gpu_clocks": "1,2"}}


def test_refusals_add_up() -> None:
    recorded = remember(None, [device(0)], [], NOW)
    uuid = device(0)["uuid"]
    for key in ("gpu_clocks", "compute_mode"):
        report = [{"uuid": uuid, "settings": {key: {"status": "unsupported", "error": "NOT_SUPPORTED"}}}]
        recorded = remember_refused(recorded, report)
    assert refused(recorded) == {uuid: ["compute_mode", "gpu_clocks"]}
    assert refused(json.loads(json.dumps(remember(recorded, [device(0)], [], NOW)))) == {uuid: ["compute_mode", "gpu_clocks"]}
