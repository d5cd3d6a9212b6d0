# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A compute tray of an NVLink rack, as far as the simulated one goes: from NVML over the facts to IMEX, and never to a fabric manager."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver import plan

OTHER = "11111111-2222-3333-4444-555555555555"
DEBIAN = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\n'


@pytest.fixture(name="tray")
def tray_fixture(machine: Any, tmp_path: Path) -> Any:
    def make(name: str, cluster: str = "", imex: bool = True) -> dict[str, Any]:
        """Facts of one tray."""
        sim = machine("gb200-nvl72", root=tmp_path / name)
        sim.write("etc/os-release", DEBIAN)
        packages = ["libnvidia-compute 580.159.04-1", "nvidia-kernel-open-dkms 580.159.04-1"]
        sim.dpkg(*packages, *(["nvidia-imex-580 580.159.04-1"] if imex else []))
        if cluster:
            sim.simulate("set", "fabric.cluster", cluster, "--gpu", "all")
        return dict(sim.collect())

    return make


def planned(facts: dict[str, Any], **desired: Any) -> Plan:
    return plan(desired, facts, load_matrix(), Context(today=datetime.date(2026, 11, 30)))


def rack(*trays: dict[str, Any]) -> dict[str, Any]:
    names = [f"t{number}" for number, _tray in enumerate(trays, 1)]
    addresses = [f"10.0.0.{number}" for number, _tray in enumerate(trays, 1)]
    empty = [""] * len(trays)
    gpus = [one["gpus"] for one in trays]
    return {"group": "rack", "member": "t1", "hosts": names, "addresses": addresses, "fallbacks": empty, "gpus": gpus}


def test_a_tray_is_known_by_its_domain_and_has_no_fabric_manager(tray: Any) -> None:
    facts = tray("a")
    assert len(facts["gpus"]) == 4
    assert {(gpu["product"], gpu["nvlink"]["links"]) for gpu in facts["gpus"]} == {("NVIDIA GB200", 18)}
    assert {gpu["fabric"]["cluster_uuid"] for gpu in facts["gpus"]} == {"6f1c2f0e-52a4-4c39-9c7e-0b7a3c5d1e72"}
    assert (facts["fabric"]["kind"], facts["fabric"]["manager"]) == ("imex", None)
    assert (facts["pci"]["nvlink5"], facts["pci"]["nvswitches"]) == (False, [])
    alone = planned(facts, branch=580, source="nvidia")
    assert "driver.imex_nodes_unknown" in [finding.id for finding in alone.findings]
    assert not [change for change in alone.changes if change.id == "driver.fabric_manager"]


def test_its_group_brings_imex_with_all_of_the_domain(tray: Any) -> None:
    facts = tray("a", imex=False)
    assert facts["fabric"]["kind"] == "none"  # no IMEX, no fabric to wait for yet
    bare = planned(facts, branch=580, source="nvidia", imex=rack(facts, tray("b")))
    assert "nvidia-imex-580" in bare.details["packages"]["names"]
    assert not [name for name in bare.details["packages"]["names"] if "fabricmanager" in name]
    assert bare.details["imex"]["content"].splitlines()[1:] == ["10.0.0.1", "10.0.0.2"]


def test_a_tray_of_another_domain_is_refused(tray: Any) -> None:
    facts, stranger = tray("a"), tray("b", cluster=OTHER)
    refused = planned(facts, branch=580, source="nvidia", imex=rack(facts, stranger))
    (finding,) = [finding for finding in refused.findings if finding.id == "driver.bad_input"]
    assert finding.severity == "block"
    assert f"t2 is in {OTHER}, t1 in 6f1c2f0e-52a4-4c39-9c7e-0b7a3c5d1e72" in finding.message
    assert "imex" not in refused.details
