"""What must hold for every role and module, checked on the files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir()) if (ROOT / "roles").is_dir() else []


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) or {}


@pytest.mark.parametrize("role", ROLES)
def test_defaults_equal_argument_specs(role: str) -> None:
    folder = ROOT / "roles" / role
    defaults = set(_yaml(folder / "defaults/main.yml"))
    specs = _yaml(folder / "meta/argument_specs.yml")["argument_specs"]
    documented = {name for entry in specs.values() for name, option in entry.get("options", {}).items() if not option.get("required")}
    assert defaults - documented == set(), "in defaults, not in argument_specs"
    assert documented - defaults == set(), "in argument_specs, without a default (and not required)"


@pytest.mark.parametrize("role", ROLES)
def test_role_variables_have_its_prefix(role: str) -> None:
    strangers = [name for name in _yaml(ROOT / "roles" / role / "defaults/main.yml") if not name.startswith(f"{role}_")]
    assert strangers == []


@pytest.mark.parametrize("role", [role for role in ROLES if (ROOT / "roles" / role / "tasks/check.yml").exists()])
def test_time_bounds_are_judged_by_the_roles_check(role: str) -> None:
    """Else a wrong one is found out between two changes of the host."""
    check = (ROOT / "roles" / role / "tasks/check.yml").read_text()
    bounds = [name for name in _yaml(ROOT / "roles" / role / "defaults/main.yml") if name.endswith("_timeout")]
    assert [name for name in bounds if f"{{{{ {name} }}}}" not in check] == []


@pytest.mark.parametrize("role", ROLES)
def test_role_files(role: str) -> None:
    folder = ROOT / "roles" / role
    assert [name for name in ("README.md", "meta/main.yml", "tasks/main.yml") if not (folder / name).is_file()] == []
    assert not _yaml(folder / "meta/main.yml").get("dependencies"), "roles have no meta dependencies"


@pytest.mark.parametrize("role", ROLES)
def test_no_handlers_and_no_set_fact(role: str) -> None:
    folder = ROOT / "roles" / role
    assert not (folder / "handlers").exists()
    bad = re.compile(r"^\s*(notify:|(ansible\.builtin\.)?set_fact:|ignore_errors:)", re.M)
    assert [str(path.relative_to(ROOT)) for path in folder.rglob("*.yml") if bad.search(path.read_text())] == []


def _modules_with_fragment(fragment: str) -> set[str]:
    wanted = re.compile(rf"^\s*- gpufleet\.inference\.{re.escape(fragment)}$", re.M)
    return {path.stem for path in (ROOT / "plugins/modules").glob("*.py") if wanted.search(path.read_text())}


def test_action_group_equals_modules() -> None:
    """Every module that shares the NVML options is in the group, and nothing else (but stack_check, which reads facts through them)."""
    group = set(_yaml(ROOT / "meta/runtime.yml")["action_groups"]["gpu"])
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    assert group - modules == set(), "in the group, but no module"
    assert _modules_with_fragment("_nvml") - group == set(), "uses the NVML options, but is not in the group"


def test_action_plugins_have_modules() -> None:
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    actions = {path.stem for path in (ROOT / "plugins/action").glob("*.py")}
    assert actions - modules == set()


def test_collection_needs_no_other_collection() -> None:
    galaxy = _yaml(ROOT / "galaxy.yml")
    assert galaxy["dependencies"] == {}
    used = set()
    for folder in ("roles", "playbooks"):
        for path in (ROOT / folder).rglob("*.yml"):
            used |= set(re.findall(r"^\s+(?:- )?([a-z_]+\.[a-z_]+)\.[a-z_0-9]+:", path.read_text(), re.M))
    assert used - {"ansible.builtin", "gpufleet.inference"} == set()
