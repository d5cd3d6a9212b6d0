"""`ansible-test sanity --local`, without the download of a pip bootstrap script that it makes by itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from .step import VENV, Count, Result, environment, note, run
from .tree import copy, shipped

CACHE = Path.home() / ".ansible/test/cache"

BOOTSTRAP = '''\
"""Stands in for get-pip.py: installs with the pip wheel that lies beside it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.expanduser("~/.ansible/test/cache"), "{wheel}"))
arguments = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
from pip._internal.cli.main import main

raise SystemExit(main(["install", *arguments]))
'''


def pip_version(venv: Path) -> str:
    source = next(venv.glob("lib/python3*/site-packages/ansible_test/_internal/python_requirements.py")).read_text()
    found = re.search(r"pip='([\d.]+)'", source)
    if not found:
        raise RuntimeError(
            "ansible-test no longer says which pip it bootstraps (python_requirements.py); adapt tests/runner/ansible_test.py"
        )
    return found.group(1)


def prepare(venv: Path) -> None:
    version = pip_version(venv)
    script = CACHE / f"get_pip_{version.replace('.', '_')}.py"
    wheel = f"pip-{version}-py3-none-any.whl"
    CACHE.mkdir(parents=True, exist_ok=True)
    if not (CACHE / wheel).exists():
        command = [str(venv / "bin/python"), "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE), f"pip=={version}"]
        subprocess.run(command, check=True, timeout=300)
    text = BOOTSTRAP.format(wheel=wheel)
    if not script.exists() or script.read_text() != text:
        script.write_text(text)


def interpreters() -> str:
    """PATH with every Python that this machine has, so that compile and import tests run on the real oldest one too."""
    folders = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin"))
    return ":".join(str(folder) for folder in folders)


def sanity(venv: Path = VENV) -> Result:
    """Over what users get. The tests' own code has ruff and mypy; rules for modules (shebangs, names) do not fit it."""
    try:
        prepare(venv)
    except (RuntimeError, OSError, subprocess.SubprocessError, StopIteration) as error:
        return note("ansible-test", [f"pip bootstrap: {error}"])
    env = environment()
    path = f"{venv}/bin:{env['PATH']}:{interpreters()}"
    return run(
        f"ansible-test-{venv.name.lstrip('.')}", ["ansible-test", "sanity", "--local", "--color", "no"],
        cwd=copy(shipped(), "shipped"), env={**env, "PATH": path}, count=_count, timeout=1500,
    )  # fmt: skip


def _count(status: int, text: str) -> Count:
    """One for each test that ran on each Python."""
    ran = set(re.findall(r"^Running sanity test \"(.+)\"", text, re.M))
    failed = set(re.findall(r"^ERROR: The (?:test \".*\"|\d+ sanity test\(s\).*)$", text, re.M))
    bad = re.search(r"The (\d+) sanity test\(s\) listed below", text)
    failures = int(bad.group(1)) if bad else len(failed)
    if not ran:
        failures = max(failures, 1)
    return Count(max(len(ran) - failures, 0), failures)
