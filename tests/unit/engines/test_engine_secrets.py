# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that puts secrets into a definition: the instance's own, else the shared one, and never a wrong one."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.inference.plugins.filter.engine_secrets import engine_secrets
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_definition import definition
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_job import Host

from .conftest import Reader

PATH = "/etc/gpufleet/engines/chat/api_key"


def made(read: Reader, **over: t.Any) -> dict[str, t.Any]:
    return definition(read.job(**over), Host())


def test_the_own_key_wins_over_the_shared_one(read: Reader) -> None:
    wanted = made(read, api_key="own")
    instances = [{"name": "other", "api_key": "another"}, {"name": "chat", "api_key": "own"}]
    assert engine_secrets(wanted, instances, {"api_key": "shared"})["files"][PATH]["text"] == "own"
    shared = made(read, api_key="shared")
    assert engine_secrets(shared, [{"name": "chat"}], {"api_key": "shared"})["files"][PATH]["text"] == "shared"


def test_a_key_that_changed_in_between_is_refused(read: Reader) -> None:
    with pytest.raises(AnsibleFilterError, match="not the one that the plan was made with"):
        engine_secrets(made(read, api_key="own"), [{"name": "chat", "api_key": "new"}])


@pytest.mark.parametrize("what", [None, "chat", {"name": "chat"}])
def test_what_is_no_definition_is_said(what: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="expected the definition"):
        engine_secrets(what, [])


def test_an_engine_without_names_is_asked_for_whatever_it_serves(read: Reader) -> None:
    named, unnamed = made(read, served_name="x"), made(read, engine="tensorrt_llm", version="1.2.1", served_name="x")
    assert (named["ready"]["model"], unnamed["ready"]["model"]) == ("x", "")
