# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the container toolkit: the whole set at one version, one owned source, old sources out of the way. Pure; private."""

from __future__ import annotations

import hashlib
import re
import typing as t

from ..module_utils import _paths
from ._matrix_model import Matrix
from ._toolkit_holds import NAMES, foreign_holds, installed_set, plan_holds
from ._toolkit_input import Draft, Settings
from ._versions import key as version_key
from ._versions import newest

SUPERSEDED = ("nvidia-docker2", "nvidia-container-runtime")
APT_KEY = _paths.TOOLKIT_APT_KEY
APT_SOURCE, DNF_SOURCE = _paths.TOOLKIT_APT_SOURCE, _paths.TOOLKIT_DNF_SOURCE
OWNED = (APT_SOURCE, DNF_SOURCE)
BASE_URL = "https://nvidia.github.io/libnvidia-container"
_ARMOUR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_URL = re.compile(r"libnvidia-container|nvidia-docker|nvidia-container-runtime", re.IGNORECASE)

Info = t.Mapping[str, t.Any]


def target_version(settings: Settings, facts: Info, matrix: Matrix, lock: Info | None) -> str:
    """Asked for, else locked, else what is there, else the newest release that the matrix knows."""
    there = ((facts.get("containers") or {}).get("toolkit") or {}).get("version")
    locked = ((lock or {}).get("container_toolkit") or {}).get("version")
    known = newest(row["version"] for row in matrix.section("toolkit_releases"))
    return settings.version.split("-")[0] or locked or (there if there and there != "unknown" else None) or known or ""


def plan_packages(draft: Draft, settings: Settings, facts: Info, info: Info, version: str) -> None:
    """Source, packages and holds; details `packages` for converge."""
    if not settings.packages:
        return
    manager = (facts.get("packages") or {}).get("manager", "unknown")
    if manager not in ("apt", "dnf"):
        draft.find(
            "package_manager",
            "block",
            f"This role installs the toolkit with apt or dnf; this host has {manager}.",
            found=manager,
            needed="apt or dnf",
            fix="Install the toolkit by other means and set nvidia_container_toolkit_packages: false.",
        )
        return
    _source(draft, settings, info, manager, facts)
    _versions(draft, settings, facts, info, version)
    _superseded(draft, facts, info)
    plan_holds(draft, settings, facts, info, manager)


def _versions(draft: Draft, settings: Settings, facts: Info, info: Info, version: str) -> None:
    installed = {name: _upstream(found) for name, found in installed_set(facts).items() if name in NAMES}
    wanted = dict.fromkeys(NAMES, version)
    revision = settings.version.partition("-")[2] or "1"
    broken = interrupted(facts, info)
    if installed == wanted and not broken:
        return
    older = sorted(name for name, found in installed.items() if version_key(found) > version_key(version))
    if older and not settings.allow_downgrade:
        draft.find(
            "downgrade",
            "block",
            f"Container toolkit {version} is older than the installed {installed[older[0]]}; a downgrade has to be asked for.",
            found=", ".join(f"{name} {installed[name]}" for name in older),
            needed=f"{version} with nvidia_container_toolkit_allow_downgrade: true",
            fix="Set nvidia_container_toolkit_allow_downgrade: true for this run, or ask for the installed version or a newer one.",
        )
    foreign_holds(draft, facts, info)
    before = {name: installed.get(name) for name in NAMES}
    draft.change(
        "packages",
        ", ".join(NAMES),
        before,
        wanted,
        (f"the four packages of the container toolkit go to {version}" if installed else f"install container toolkit {version}")
        + broke_off(broken),
        reload_class(info),
    )
    draft.plan.details["packages"] = {
        "version": version,
        "revision": revision,
        "names": list(NAMES),
        "previous": installed,
        "interrupted": broken,
    }


def interrupted(facts: Info, info: Info) -> list[str]:
    """Packages of the set that a killed transaction left half done: in dpkg's status file, or still in its journal."""
    return sorted(set(NAMES) & {*((facts.get("packages") or {}).get("broken") or ()), *(info.get("dpkg_journal") or ())})


def broke_off(names: t.Sequence[str]) -> str:
    """The end of a change's message."""
    return f"; an earlier transaction broke off at {', '.join(names)}" if names else ""


def _superseded(draft: Draft, facts: Info, info: Info) -> None:
    """nvidia-docker2 brings a daemon.json and wrappers that nobody maintains; without purge the file stays with all that is in it."""
    found = sorted(set(SUPERSEDED) & set(installed_set(facts)))
    if found:
        foreign_holds(draft, facts, info, found)
        message = f"{', '.join(found)} goes away: the toolkit itself does its work (its configuration files stay)"
        draft.change("superseded", ", ".join(found), "installed", None, message, reload_class(info))
        draft.plan.details["superseded"] = found


def reload_class(info: Info) -> t.Literal["none", "host_service_restart"]:
    """A daemon-reload takes GPUs away from containers whose device nodes systemd does not know by /dev/char."""
    return "host_service_restart" if info["running_containers"] and info["cdi"]["dev_char_missing"] else "none"


def _source(draft: Draft, settings: Settings, info: Info, manager: str, facts: Info) -> None:
    owned: Info = info["owned"]
    path = APT_SOURCE if manager == "apt" else DNF_SOURCE
    text = source_text(settings, manager, (facts.get("host") or {}).get("machine_arch") or "x86_64")
    if (owned.get(path) or {}).get("text") != text:
        draft.change(
            "source", path, "different" if owned.get(path) else None, text, "one source of the toolkit's packages, owned by this role"
        )
        draft.plan.details["source"] = {"path": path, "text": text}
    if manager == "apt":
        _apt_key(draft, settings, (owned.get(APT_KEY) or {}).get("text"), bool(owned.get(path) and "source" in draft.plan.details))
    _conflicts(draft, info)


def _apt_key(draft: Draft, settings: Settings, there: str | None, moved: bool) -> None:
    """A key that was given, or one that is fetched: where none is, where no key is in the file (a proxy's page of errors, a killed
    run's empty file), and with a source that says something else: another repository, or its key from elsewhere."""
    before = None if there is None else "different" if _ARMOUR in there else "no key is in it"
    if settings.repository_key:
        if (there or "").strip() != settings.repository_key.strip():
            draft.change("key", APT_KEY, before, "as given", "the repository's key")
            draft.plan.details["key"] = {"path": APT_KEY, "text": settings.repository_key.strip() + "\n", "url": ""}
    elif moved or _ARMOUR not in (there or ""):
        url = settings.repository_key_url or _base(settings, "apt").rsplit("/stable/", 1)[0] + "/gpgkey"
        draft.change("key", APT_KEY, before, url, f"the repository's key comes from {url}")
        draft.plan.details["key"] = {"path": APT_KEY, "text": "", "url": url}


def _conflicts(draft: Draft, info: Info) -> None:
    """Two sources of one repository with different keys stop apt altogether; old ones are switched off, not deleted."""
    migrate = []
    for file in info["sources"]:
        if file["path"] in OWNED:
            continue
        after = disabled_source(file["path"], file["text"])
        if after != file["text"]:
            draft.change("old_source", file["path"], "in use", "switched off", "an older source of the same packages is switched off")
            migrate.append({"path": file["real"], "text": after})
    if migrate:
        draft.plan.details["old_sources"] = migrate
    keys = info.get("old_keys") or []
    if keys:
        draft.find(
            "old_key",
            "info",
            f"apt trusts the key of this repository for every repository ({', '.join(keys)}), as guides with apt-key had it.",
            found=", ".join(keys),
            needed=f"the key for this repository alone ({APT_KEY})",
            fix="If nothing else on the host needs it: remove the file where it holds this key alone; else, with FILE for its path:"
            " gpg --no-default-keyring --keyring FILE --delete-keys F796ECB0 (apt has no apt-key any more).",
        )


def _base(settings: Settings, manager: str) -> str:
    return settings.repository_url.rstrip("/") or f"{BASE_URL}/stable/{'deb' if manager == 'apt' else 'rpm'}"


def source_text(settings: Settings, manager: str, machine: str) -> str:
    base = _base(settings, manager)
    if manager == "apt":
        arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
        return f"X-Managed-By: gpufleet.inference\nTypes: deb\nURIs: {base}/{arch}\nSuites: /\nSigned-By: {APT_KEY}\n" + _key_from(settings)
    key = settings.repository_key_url or base.rsplit("/stable/", 1)[0] + "/gpgkey"
    return (
        "# gpufleet.inference\n[gpufleet-container-toolkit]\nname=NVIDIA Container Toolkit\n"
        f"baseurl={base}/$basearch\nenabled=1\ngpgcheck=0\nrepo_gpgcheck=1\ngpgkey={key}\n"
    )


def _key_from(settings: Settings) -> str:
    """A field that apt does not know: where the key of this source is from, so that another origin is a difference. Nothing stands for the
    place beside the repository. The hash, because the file is readable for everybody and a URL may carry a password."""
    origin = "variable" if settings.repository_key else settings.repository_key_url
    return f"X-Key-From: {hashlib.sha256(origin.encode()).hexdigest()[:16]}\n" if origin else ""


def disabled_source(path: str, text: str) -> str:
    """A package source file with the toolkit's repositories switched off and all else as it was."""
    if path.endswith(".list"):
        return "".join(f"# {line}" if re.match(r"\s*deb", line) and _URL.search(line) else line for line in text.splitlines(keepends=True))
    if path.endswith(".sources"):
        return "\n\n".join(_disabled_stanza(stanza) for stanza in re.split(r"\n\s*\n", text))
    return "".join(_disabled_section(part) for part in re.split(r"(?m)^(?=\[)", text))


def _disabled_stanza(stanza: str) -> str:
    if not _URL.search(stanza) or re.search(r"(?mi)^enabled:\s*no\b", stanza) or not re.search(r"(?mi)^types:", stanza):
        return stanza
    return re.sub(r"(?mi)^(types:)", r"Enabled: no\n\1", re.sub(r"(?mi)^enabled:.*\n", "", stanza), count=1)


def _disabled_section(section: str) -> str:
    if not section.startswith("[") or not _URL.search(section) or re.search(r"(?m)^enabled\s*=\s*0", section):
        return section
    section = re.sub(r"(?m)^enabled\s*=.*\n?", "", section)
    head, newline, rest = section.partition("\n")
    return f"{head}\nenabled=0\n{rest}" if newline else section


def _upstream(version: str) -> str:
    return version.rpartition(":")[2].partition("-")[0]
