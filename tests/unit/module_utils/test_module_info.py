# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modinfo says is asked once for each file; whatever changes the file is asked about again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _module_info
from ansible_collections.gpufleet.inference.plugins.module_utils._module_info import read_module
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "schemas/state.schema.json").read_text())
RELEASE, NEXT = "6.1.0-57-amd64", "6.1.0-58-amd64"
KEPT = "run/gpufleet/kernel_modules.json"
FOUND = {"version": "580.159.04", "license": "Dual MIT/GPL"}


def module(release: str, name: str = "nvidia-current") -> str:
    return f"lib/modules/{release}/updates/dkms/{name}.ko.xz"


@pytest.fixture
def asked(host: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that ran, on a host with a compressed module for two kernels."""
    host.write("proc/sys/kernel/osrelease", RELEASE + "\n")
    for release in (RELEASE, NEXT):
        host.write(module(release), "xz")
        dep = f"kernel/drivers/nvidia-old.ko:\nkernel/a.ko: kernel/nvidia.ko.xz\n{module(release).split('/', 3)[3]}: kernel/drm.ko\n"
        host.write(f"lib/modules/{release}/modules.dep", dep)
    calls: list[list[str]] = []

    def run(argv: list[str], timeout: float) -> Result:
        calls.append(argv)
        release = argv[argv.index("-k") + 1] if "-k" in argv else RELEASE
        if argv[-1] != "nvidia-current":
            return Result("ok", 1, "", "modinfo: ERROR: Module nvidia not found.")
        text = f"filename:       {host.root}/{module(release)}\nversion:        580.159.04\nlicense:        Dual MIT/GPL\n"
        return Result("ok", 0, text, "")

    monkeypatch.setattr(_module_info, "run", run)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return calls


def times(asked: list[list[str]]) -> int:
    return len([argv for argv in asked if argv[-1] == "nvidia-current"])


def test_a_module_is_unpacked_once_for_each_kernel(host: Any, asked: list[list[str]]) -> None:
    for _run in range(3):
        assert read_module(host.reader()) == FOUND
        assert read_module(host.reader(), NEXT) == FOUND
    assert times(asked) == 2
    kept = json.loads((host.root / KEPT).read_text())
    jsonschema.validate(kept, SCHEMA["$defs"]["kernel_modules"])
    assert sorted(kept["modules"]) == [f"/{module(RELEASE)}", f"/{module(NEXT)}"]


@pytest.mark.parametrize("what", ["rebuilt", "touched", "gone", "broken", "list", "shape"])
def test_what_changed_is_asked_about_again(host: Any, asked: list[list[str]], what: str) -> None:
    read_module(host.reader())
    path = host.root / module(RELEASE)
    if what == "rebuilt":
        path.unlink()
        path.write_text("xz")
    elif what == "touched":
        os.utime(path, ns=(1, 1))
    elif what == "gone":
        (host.root / KEPT).unlink()
    else:
        texts = {"broken": "{", "list": '{"schema": 1, "modules": []}', "shape": '{"schema": 1, "modules": {"/x": 1}}'}
        (host.root / KEPT).write_text(texts[what])
    assert read_module(host.reader()) == FOUND
    assert times(asked) == 2


def test_a_module_that_depmod_does_not_list_is_not_kept(host: Any, asked: list[list[str]]) -> None:
    host.write(f"lib/modules/{RELEASE}/modules.dep", "kernel/drivers/nvidia-current-open.ko.xz:\n")
    assert read_module(host.reader()) == FOUND
    assert not (host.root / KEPT).exists()


def test_another_file_than_depmods_is_not_kept(host: Any, asked: list[list[str]]) -> None:
    host.write(f"lib/modules/{RELEASE}/modules.dep", "kernel/nvidia-current.ko:\n")
    host.write(f"lib/modules/{RELEASE}/kernel/nvidia-current.ko")
    assert read_module(host.reader()) == FOUND
    assert not (host.root / KEPT).exists()


def test_without_root_nothing_is_written(host: Any, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert read_module(host.reader()) == FOUND
    assert not (host.root / KEPT).exists()
