"""The lab's imitation of NVIDIA's package repositories, from tests/lab/repo/nvidia.yml; cached by the hash of all that goes in."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import cuda, deb, rpmrepo, runfile
from .deb import Content, Package
from .payload import ROLE_FILES, STANDIN, Payloads, literal
from .settings import LAB_DIR, LabError, Settings

DESCRIPTION = LAB_DIR / "repo/nvidia.yml"
HOST_URL = "http://repo.lab:8480"
RELATIONS = ("depends", "recommends", "conflicts", "replaces", "provides")


def _inputs() -> list[Path]:
    sources = [path for path in ROLE_FILES.rglob("*") if path.is_file() and path.suffix in {".c", ".h", ".sh", ""}]
    names = ("cuda", "deb", "payload", "repository", "rpm", "rpmrepo", "runfile")
    tools = [LAB_DIR / "labtool" / f"{name}.py" for name in names]
    return [DESCRIPTION, rpmrepo.DESCRIPTION, *tools, *sorted(sources), *sorted(STANDIN.iterdir())]


def fingerprint() -> str:
    hasher = hashlib.sha256()
    for path in _inputs():
        hasher.update(str(path.name).encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()[:12]


def ensure(settings: Settings) -> Path:
    """The built repositories; `www` of this lab points at them."""
    with (settings.cache / "repo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = settings.cache / f"repo-{fingerprint()}"
        if not built.exists():
            part = Path(tempfile.mkdtemp(prefix="repo-part-", dir=settings.cache))
            try:
                _build(part, settings.cache)
                part.chmod(0o755)
                part.rename(built)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    root = settings.state / "www"
    root.mkdir(exist_ok=True)
    for entry in built.iterdir():
        link = root / entry.name
        if link.is_symlink() and link.readlink() == entry:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(entry)
    return built


def public_key(settings: Settings) -> bytes:
    """The key that signs all of the lab's repositories."""
    return (ensure(settings) / "ubuntu/noble/key.asc").read_bytes()


def load() -> dict[str, Any]:
    import yaml

    with DESCRIPTION.open() as handle:
        found: dict[str, Any] = yaml.safe_load(handle)
    found["sets"]["cuda"]["packages"] += cuda.entries(found["cuda_toolkits"])
    return found


def _build(out: Path, cache: Path) -> None:
    description = load()
    gnupg = _key(cache)
    sign = ["gpg", "--homedir", str(gnupg), "--batch", "--yes", "--quiet", "--digest-algo", "SHA256"]
    try:
        binary = subprocess.run([*sign, "--export"], capture_output=True, check=True, timeout=60).stdout
        armoured = subprocess.run([*sign, "--armor", "--export"], capture_output=True, check=True, timeout=60).stdout
        with tempfile.TemporaryDirectory() as work:
            payloads = Payloads(Path(work))
        for repository in description["repositories"]:
            packages = [p for name in repository["sets"] for p in _set(description, repository, description["sets"][name], payloads)]
            if "keyring_package" in repository:
                packages.append(_keyring(description, repository, binary))
            folder = out / repository["path"]
            deb.write_repository(folder, packages, repository["release"], sign)
            (folder / repository["key_file"]).resolve().write_bytes(armoured)
        rpmrepo.Build(description, payloads, sign, armoured).write(out)
        runfile.write_drivers(out / "tesla", description["runfile_drivers"], payloads)
        cuda.write_runfiles(out / "compute/cuda", [toolkit for toolkit in description["cuda_toolkits"] if "runfile" in toolkit])
    finally:
        subprocess.run(["gpgconf", "--homedir", str(gnupg), "--kill", "all"], capture_output=True, timeout=30)


def _key(cache: Path) -> Path:
    """A signing key of this machine's labs; it signs nothing else and never leaves the cache. RSA, as NVIDIA's: every rpm reads it."""
    home = cache / "gnupg-rsa"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        command = [
            "gpg",
            "--homedir",
            str(home),
            "--batch",
            "--quiet",
            "--passphrase",
            "",
            "--quick-gen-key",
            "Test lab (not NVIDIA)",
            "rsa2048",
            "sign",
            "never",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise LabError(f"no signing key for the test repository: {done.stderr.strip()}")
        (home / "ready").touch()
    return home


def _in_range(entry: dict[str, Any], branch: str) -> bool:
    number = int(branch)
    return bool(entry.get("above", 0) <= number < entry.get("below", 10_000))


def _set(description: dict[str, Any], repository: dict[str, Any], entries: dict[str, Any], payloads: Payloads) -> list[Package]:
    versions = entries.get("for", [""])
    if versions == "drivers":
        versions = description["drivers"]
    newest = {version.split(".")[0]: version for version in versions}  # lists are in order: the last of a branch is its newest
    found = []
    for upstream in versions:
        branch = upstream.split(".")[0] or "0"
        if not _in_range(entries, branch) and entries.get("for") == "drivers":
            continue
        for entry in entries["packages"]:
            if entries.get("for") == "drivers" and not _wanted(entry, entries, branch, newest[branch] == upstream):
                continue
            found.append(_package(description, repository, entries, entry, upstream, branch, payloads))
    return found


def _wanted(entry: dict[str, Any], entries: dict[str, Any], branch: str, is_newest: bool) -> bool:
    plain = not entries.get("suffix")
    if (plain and entry.get("only_suffixed")) or (plain and entry.get("unless_plain")):
        return False
    return _in_range(entry, branch) and (is_newest or not entry.get("once_per_branch"))


def _package(
    description: dict[str, Any],
    repository: dict[str, Any],
    entries: dict[str, Any],
    entry: dict[str, Any],
    upstream: str,
    branch: str,
    payloads: Payloads,
) -> Package:
    suffix = entries.get("suffix", "").format(b=branch)
    words = {"u": upstream, "b": branch, "suffix": suffix, "v": upstream + repository["revision"], "open_suffix": "-open"}
    version = entry.get("version", "{v}").format(**words)
    fields = {
        "Package": entry["name"].format(**words),
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": description["maintainer"],
        "Section": "non-free/kernel",
        "Priority": "optional",
    }
    fields.update({name.capitalize(): ", ".join(entry.get(name, [])).format(**words) for name in RELATIONS})
    fields["Description"] = "stand-in of the test lab, not NVIDIA's package"
    payload = entry.get("payload", [])
    files = {**payloads.files(payload, upstream or version, branch), **literal(entry.get("files", {}))}
    return Package({k: v for k, v in fields.items() if v}, files, {**payloads.scripts(payload), **entry.get("scripts", {})})


def _keyring(description: dict[str, Any], repository: dict[str, Any], key: bytes) -> Package:
    wanted = repository["keyring_package"]
    keyring = f"usr/share/keyrings/{wanted['keyring']}"
    source = f"deb [signed-by=/{keyring}] {HOST_URL}/{repository['path']}/ /\n"
    pin = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
    fields = {
        "Package": wanted["name"], "Version": wanted["version"], "Architecture": "all", "Maintainer": description["maintainer"],
        "Section": "utils", "Priority": "optional", "Description": "key and source of the test lab's repository, in the place of NVIDIA's",
    }  # fmt: skip
    files = {
        keyring: Content(key),
        f"etc/apt/sources.list.d/{wanted['source']}.list": Content(source.encode()),
        "etc/apt/preferences.d/cuda-repository-pin-600": Content(pin.encode()),
    }
    return Package(fields, files)
