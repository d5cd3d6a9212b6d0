"""Tier `build`: the tarball, what is in it, and whether it runs in an environment that has nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

from .step import BUILD, Result, environment, note, run
from .tree import copy

FORBIDDEN = (
    "tests/",
    "molecule/",
    ".ci/",
    ".config/",
    ".github/",
    "Makefile",
    "conftest.py",
    "pyproject.toml",
    "requirements-dev.txt",
    "inventories/demo/",
)
NEEDED = (
    "README.md",
    "COPYING",
    "LICENSES/GPL-3.0-or-later.txt",
    "meta/runtime.yml",
    "plugins/modules/",
    "roles/",
    "playbooks/",
    "matrix/",
    "CHANGELOG.rst",
)


def tarball_problems(names: list[str]) -> list[str]:
    found = [f"{name} is in the tarball" for name in names if name.startswith(FORBIDDEN) or "__pycache__" in name]
    return found + [f"{wanted} is missing in the tarball" for wanted in NEEDED if not any(name.startswith(wanted) for name in names)]


def _empty_venv() -> Path:
    """Only ansible-core, same version and Python as in .venv; kept between runs."""
    venv = BUILD / "empty-venv"
    pins = [line for line in (copy() / "requirements-dev.txt").read_text().splitlines() if line.startswith("ansible-core")]
    if (venv / "stamp").exists() and (venv / "stamp").read_text() == "\n".join(pins):
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    python = BUILD.parent / ".venv/bin/python"
    subprocess.run([str(python), "-m", "venv", str(venv)], check=True, timeout=120)
    subprocess.run([str(venv / "bin/pip"), "install", "-qq", *pins], check=True, timeout=600)
    (venv / "stamp").write_text("\n".join(pins))
    return venv


def tier() -> list[Result]:
    dist = BUILD / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    built = run("galaxy-build", ["ansible-galaxy", "collection", "build", "--output-path", str(dist)], cwd=copy())
    tarballs = list(dist.glob("*.tar.gz"))
    if built.count.failed or len(tarballs) != 1:
        return [built]
    with tarfile.open(tarballs[0]) as archive:
        contents = note("tarball-contents", tarball_problems(archive.getnames()))

    installed = BUILD / "empty"
    shutil.rmtree(installed, ignore_errors=True)
    venv = _empty_venv()
    # An inventory of its own: one host, this machine, with the very Python that has nothing but ansible-core.
    inventory = BUILD / "localhost.json"
    host = {"ansible_connection": "local", "ansible_python_interpreter": str(venv / "bin/python")}
    inventory.write_text(json.dumps({"all": {"hosts": {"localhost": host}}}))
    env = environment(ANSIBLE_COLLECTIONS_PATH=str(installed), ANSIBLE_INVENTORY=str(inventory), ANSIBLE_HOME=str(BUILD / "empty-home"))
    env["PATH"] = f"{venv}/bin:{env['PATH']}"
    name = "gpufleet.inference"
    return [
        built,
        contents,
        run(
            "install-offline",
            ["ansible-galaxy", "collection", "install", "--offline", str(tarballs[0]), "-p", str(installed)],
            env=env,
            cwd=BUILD,
        ),
        run("installed-module", ["ansible", "localhost", "-m", f"{name}.gpu_info"], env=env, cwd=BUILD),
        run("installed-doc", ["ansible-doc", "-t", "module", f"{name}.gpu_info"], env=env, cwd=BUILD),
        run("installed-playbook", ["ansible-playbook", f"{name}.audit", "--syntax-check"], env=env, cwd=BUILD),
    ]
