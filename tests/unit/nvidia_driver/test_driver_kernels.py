# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next kernel's module, verified before any reboot; and the compiler of a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from driver_hosts import blocking, facts, found, ids, planned, with_driver

OLD, NEW = "6.1.0-57-amd64", "6.1.0-58-amd64"
OURS = {"version": "580.159.04", "kernel_modules": "open"}
UPGRADED = {"host": {"kernel": {"release": OLD, "next_boot": NEW, "next_boot_by": "grub", "headers": [OLD, NEW]}}}
STALE = with_driver("580.159.04", loaded="570.133.20")


def modules(new: dict[str, str] | None, *dkms: tuple[str, str]) -> dict[str, Any]:
    built = [{"name": "nvidia", "version": "580.159.04", "kernel": kernel, "state": state} for kernel, state in dkms]
    return {"driver": {"installed": {"modules": {OLD: OURS, NEW: new}, "dkms": built}}}


@pytest.mark.parametrize(
    ("new", "dkms", "text"),
    [
        (None, (), "there is no nvidia module"),
        (None, ((OLD, "installed"), (NEW, "built")), "there is no nvidia module"),
        ({"version": "570.133.20", "kernel_modules": "open"}, (), "only nvidia module 570.133.20 is there, not 580.159.04"),
    ],
)
def test_no_reboot_into_a_kernel_without_the_module(new: dict[str, str] | None, dkms: tuple[tuple[str, str], ...], text: str) -> None:
    host = facts(STALE, UPGRADED, modules(new, *dkms))
    plan = planned(host, reboot="if_needed")
    assert blocking(plan) == ["driver.module_missing_next_boot"]
    finding = found(plan, "module_missing_next_boot")
    assert f"kernel {NEW} (told by grub), for which {text}" in finding.message
    # Who does not reboot here is told so: somebody else will.
    assert found(planned(host, reboot="delegate"), "module_missing_next_boot").severity == "warn"


@pytest.mark.parametrize(("new", "dkms"), [(OURS, ()), (None, ((NEW, "installed"),))])
def test_reboot_into_one_that_has_it(new: dict[str, str] | None, dkms: tuple[tuple[str, str], ...]) -> None:
    plan = planned(facts(STALE, UPGRADED, modules(new, *dkms)), reboot="if_needed")
    assert (blocking(plan), ids(plan)) == ([], ["driver.reboot"])


def test_kernel_upgraded_between_two_runs_is_told_before_somebody_reboots() -> None:
    host = facts(with_driver("580.159.04"), UPGRADED, modules(None))
    plan = planned(host)
    assert (plan.decision, blocking(plan)) == ("nothing", [])
    assert "headers present" in found(plan, "module_missing_next_boot").message
    assert planned(facts(with_driver("580.159.04"), UPGRADED, modules(OURS))).findings == []


def test_running_kernel_without_and_next_one_with_a_module() -> None:
    nothing_runs = {"driver": {"loaded": None, "installed": {"module_version": None}}}
    here = facts(with_driver("580.159.04"), UPGRADED, modules(OURS), nothing_runs, {"driver": {"installed": {"modules": {OLD: None}}}})
    plan = planned(here, reboot="delegate")
    assert plan.details["reboot"]["reasons"][0]["id"] == "driver.kernel_changed"


COMPILERS = {"kernels": {OLD: "gcc 12.2.0", NEW: "gcc 13.2.0"}, "default": "12", "available": ["11", "12"]}


def test_compiler_mismatch_is_named_before_dkms_builds() -> None:
    host = facts(UPGRADED, {"host": {"kernel": {"compilers": COMPILERS}}})
    finding = found(planned(host, branch=580), "compiler_mismatch")
    assert (finding.subject, finding.severity, finding.needed) == (NEW, "warn", "gcc 13.2.0")
    assert "gcc-13" in finding.fix


@pytest.mark.parametrize(
    "over",
    [{"available": []}, {"available": ["12", "13"]}, {"kernels": {}}],
)
def test_no_compiler_mismatch(over: dict[str, Any]) -> None:
    host = facts(UPGRADED, {"host": {"kernel": {"compilers": {**COMPILERS, **over}}}})
    assert not [finding for finding in planned(host, branch=580).findings if finding.id == "driver.compiler_mismatch"]


def test_kernel_of_another_compiler_family() -> None:
    host = facts(UPGRADED, {"host": {"kernel": {"compilers": {**COMPILERS, "kernels": {NEW: "clang 18.1.3"}}}}})
    assert "built with clang 18.1.3, here is gcc 11, gcc 12" in found(planned(host, branch=580), "compiler_mismatch").message


def test_compiler_is_named_where_the_next_module_is_missing() -> None:
    host = facts(with_driver("580.159.04"), UPGRADED, modules(None), {"host": {"kernel": {"compilers": COMPILERS}}})
    assert "built with gcc 13.2.0, here is gcc 11, gcc 12" in found(planned(host), "module_missing_next_boot").message
