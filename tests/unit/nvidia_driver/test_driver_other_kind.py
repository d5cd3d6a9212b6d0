# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules of the other kind leave with the change; Debian's packages of both kinds do not conflict, and both would build."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from driver_hosts import facts, planned, with_driver
from test_driver_resolve import Table, request, table

from ansible_collections.gpufleet.inference.plugins.module_utils import _driver_steps
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_resolve import resolve
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_steps import heal

OPEN, PROPRIETARY = "nvidia-kernel-open-dkms", "nvidia-kernel-dkms"


def changed(**more: t.Any) -> t.Any:
    names = ("nvidia-driver-cuda", PROPRIETARY)
    installed = {"nvidia-driver-cuda": ("580.1.1-1", "installed"), OPEN: ("580.1.1-1", "half-configured")}
    return resolve(request(names=names, same_version=names, **more), table("580.1.1"), installed)


def test_other_kind_is_removed_in_the_same_transaction() -> None:
    done = changed(unwanted=(OPEN, "nvidia-not-installed-dkms"))
    assert f"{OPEN}-" in done.specs
    assert OPEN in done.remove
    assert OPEN not in done.packages
    assert "nvidia-not-installed-dkms-" not in done.specs
    assert OPEN not in changed().remove


def test_what_goes_anyway_is_not_built_once_more_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_driver_steps, "POLICY", str(tmp_path / "policy-rc.d"))

    class Broken(Table):
        configured = 0

        def installed(self) -> dict[str, tuple[str, str]]:
            return {OPEN: ("580.1.1-1", "half-configured")}

        def configure(self) -> None:
            self.configured += 1

    apt = Broken({})
    heal(apt, {OPEN}, (OPEN,))  # type: ignore[arg-type]
    assert apt.configured == 0
    heal(apt, {OPEN})  # type: ignore[arg-type]
    assert apt.configured == 1


def test_planner_names_only_what_is_there() -> None:
    host = facts(with_driver("580.159.04"))
    assert planned(host, branch=580, kernel_modules="proprietary").details["packages"]["unwanted"] == [OPEN]
    assert planned(facts(), branch=580, kernel_modules="proprietary").details["packages"]["unwanted"] == []
