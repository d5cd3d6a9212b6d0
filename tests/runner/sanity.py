"""Tier `sanity`: everything that reads the code without running it."""

from __future__ import annotations

from . import ansible_test
from .step import ROOT, Result, environment, run
from .tree import COLLECTION, copy, tracked

DOCS_CHECKS = ("--plugin-docs", "--validate-collection-refs=self", "--check-extra-docs-refs")


def shell_scripts() -> list[str]:
    found = []
    for name in tracked():
        path = ROOT / name
        if path.is_symlink() or path.suffix in {".py", ".yml", ".md", ".json", ".rst"}:
            continue
        with path.open("rb") as handle:
            first = handle.readline(80)
        if first.startswith(b"#!") and first.rstrip().split(b"/")[-1] in {b"sh", b"bash", b"env bash"}:
            found.append(name)
    return found


CONFIG = str(ROOT / "pyproject.toml")


def tier() -> list[Result]:
    tree = copy()
    collections = tree.parents[2]
    env = environment(ANSIBLE_COLLECTIONS_PATH=str(collections))
    return [
        run("ruff", ["ruff", "check", "."]),
        run("mypy-plugins", ["mypy", str(COLLECTION / "plugins"), "--config-file", str(ROOT / "pyproject.toml")], cwd=collections),
        run("mypy-tests", ["mypy", "labtool", "--config-file", str(ROOT / "pyproject.toml")], cwd=ROOT / "tests/lab"),
        run("mypy-runner", ["mypy", "runner", "--config-file", str(ROOT / "pyproject.toml")], cwd=ROOT / "tests"),
        run("mypy-vm", ["mypy", "vmtool", "--config-file", CONFIG], cwd=ROOT / "tests/vm", env=environment(MYPYPATH="../lab")),
        run("vermin", ["vermin", "-q", "--no-tips", "--eval-annotations", "-t=3.9-", "--violations", *_modules()]),
        run("yamllint", ["yamllint", "--strict", "."]),
        run("shellcheck", ["shellcheck", "-x", *shell_scripts()]),
        run("ansible-lint", ["ansible-lint", "--offline", "-q"], cwd=tree, env=env, timeout=900),
        run("antsibull-docs", ["antsibull-docs", "lint-collection-docs", *DOCS_CHECKS, "."], cwd=tree, env=env),
        run("changelog", ["antsibull-changelog", "lint"], cwd=tree),
        ansible_test.sanity(),
    ]  # fmt: skip


def _modules() -> list[str]:
    """Files that travel to hosts: they run on the hosts' Python, 3.9 at least."""
    found = [name for name in tracked() if name.startswith(("plugins/modules/", "plugins/module_utils/")) and name.endswith(".py")]
    return found or ["plugins"]
