"""A copy of the checkout at ansible_collections/gpufleet/inference: ansible-test refuses every other place, links included."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
from pathlib import Path

import yaml

from .step import BUILD, ROOT

COLLECTION = Path("ansible_collections/gpufleet/inference")


def tracked() -> list[str]:
    """Files of the checkout that git knows or would add."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def shipped() -> list[str]:
    """Those of them that the tarball has: what galaxy.yml does not leave out."""
    patterns = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]

    def left_out(name: str) -> bool:
        parents = [*reversed([str(parent) for parent in Path(name).parents if str(parent) != "."]), name]
        return any(fnmatch.fnmatch(part, pattern) or fnmatch.fnmatch(Path(part).name, pattern) for part in parents for pattern in patterns)

    return [name for name in tracked() if not left_out(name)]


def copy(names: list[str] | None = None, folder: str = "tree") -> Path:
    """Make the copy equal to the checkout (or to these files of it); untouched files keep their time, so caches of the tools stay valid."""
    target = BUILD / folder / COLLECTION
    wanted = set(tracked() if names is None else names)
    for name in wanted:
        source, to = ROOT / name, target / name
        if (
            to.exists()
            and not to.is_symlink()
            and to.stat().st_mtime_ns == source.stat().st_mtime_ns
            and to.stat().st_size == source.stat().st_size
        ):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        shutil.copy2(source, to, follow_symlinks=False)
    for path in sorted(target.rglob("*"), reverse=True):
        name = str(path.relative_to(target))
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif name not in wanted and not name.startswith("tests/output/"):
            path.unlink()
    if not (target / ".git").exists():
        # ansible-test asks git which files there are; a repository of its own keeps it from asking the checkout, which ignores .build.
        subprocess.run(["git", "init", "-q"], cwd=target, check=True, timeout=60)
    return target
