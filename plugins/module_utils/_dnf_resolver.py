# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One question to dnf's Python interface, or one transaction; its text is run by the system's own Python, which has that interface.

Private to the collection. It imports nothing of it: it is started as `python -c TEXT JSON` and answers with a line that begins with MARK,
since plugins of the site print what they like. Modules use class Dnf (_dnf.py).
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing as t

MARK = "gpufleet-answer "
LOCK_WAIT = 120
NO_DNF = 3
"""Exit status of a Python without dnf's interface."""


class Refused(Exception):
    """Why not: a stable word and a text."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


_OPEN: dict[t.Any, t.Any] = {}


def open_base(request: t.Any, system: bool = True, available: bool = True) -> t.Any:
    """A dnf; while questions are served, one for all of them."""
    if not request.get("serve"):
        return _open_base(request, system, available)
    key = request.get("stream")
    if key not in _OPEN:
        _OPEN[key] = _open_base(request, True, True)
    _OPEN[key].reset(goal=True)
    return _OPEN[key]


def _open_base(request: t.Any, system: bool, available: bool) -> t.Any:
    """The host's dnf with its repositories (or only those of folder `reposdir`), from what is cached unless `fresh`."""
    import dnf  # type: ignore[import-not-found,unused-ignore]
    import dnf.plugin  # type: ignore[import-not-found,unused-ignore]

    base = dnf.Base()
    base.conf.read()
    base.conf.substitutions.update_from_etc(base.conf.installroot, varsdir=base.conf.varsdir)
    base.conf.assumeyes = True
    base.conf.exit_on_lock = True
    base.conf.install_weak_deps = False
    base.conf.clean_requirements_on_remove = False
    base.conf.cacheonly = 0 if request.get("fresh") else 2
    if request.get("reposdir"):
        base.conf.reposdir = [request["reposdir"]]
    # dnf loads its plugins once a process; a second try after a lock, or a second stream, is a second base with plugins of its own.
    sys.modules.pop(dnf.plugin.DYNAMIC_PACKAGE, None)
    base.init_plugins(disabled_glob=["versionlock"])  # locks are read by class Dnf, which tells ours from those of others
    base.pre_configure_plugins()
    base.read_all_repos()
    base.configure_plugins()
    if request.get("expire"):
        for repo in base.repos.iter_enabled():
            repo.skip_if_unavailable = repo.skip_if_unavailable and not request.get("reposdir")
            repo._repo.expire()  # as dnf makecache --refresh does
    base.fill_sack(load_system_repo=system, load_available_repos=available)
    if request.get("stream") and available:
        import dnf.module.module_base  # type: ignore[import-not-found,unused-ignore]

        base.conf.module_stream_switch = True  # the planner has decided
        dnf.module.module_base.ModuleBase(base).enable([request["stream"]])
    return base


def evr(package: t.Any) -> str:
    text = package.version + "-" + package.release
    return text if package.epoch == 0 else f"{package.epoch}:{text}"


def update(request: t.Any) -> t.Any:
    open_base(dict(request, fresh=True, expire=True), system=False)
    return {}


def versions(request: t.Any) -> t.Any:
    """spec (a name, or a name with a version) → [(version, where from)], newest first."""
    base, found = open_base(request, system=False), {}
    for spec in request["names"]:
        packages = sorted(_matching(base, spec).available(), reverse=True)
        origins = [(evr(package), _origin(package.repo)) for package in packages if package.arch != "src"]
        if origins:
            found[spec] = list(dict.fromkeys(origins))
    return found


def _origin(repo: t.Any) -> str:
    return str((list(repo.baseurl) or [repo.metalink or repo.mirrorlist or repo.id])[0])


def _matching(base: t.Any, spec: str) -> t.Any:
    import dnf.subject  # type: ignore[import-not-found,unused-ignore]

    return dnf.subject.Subject(spec).get_best_query(base.sack, with_provides=False, with_filenames=False)


def _exact(base: t.Any, name: str, version: str) -> t.Any:
    """The available package of exactly this version, or none."""
    found = [p for p in base.sack.query().available().filter(name=name) if evr(p) == version and p.arch in (base.conf.basearch, "noarch")]
    return found[0] if found else None


def requires(request: t.Any) -> t.Any:
    """name → [[(package, lowest version), …alternatives], …]; what the files and libraries of the system provide is left out."""
    base, found = open_base(request, system=False), {}
    for name, version in request["specs"].items():
        package = _exact(base, name, version)
        if package is not None:
            groups = [_providers(base, relation) for relation in package.requires]
            found[name] = [group for group in groups if group]
    return found


def _providers(base: t.Any, relation: t.Any) -> list[tuple[str, str]]:
    text = re.match(r"([^\s(]\S*)(?:\s+(>=|=)\s+(\S+))?", str(relation))
    if not text or text.group(1).startswith("/"):
        return []
    names = sorted({p.name for p in base.sack.query().available().filter(provides=relation)})
    bound = (text.group(3) or "") if text.group(1) in names else ""
    own = [text.group(1)] if text.group(1) in names else names
    return [(name, bound) for name in own]


def solve(request: t.Any) -> t.Any:
    """What a transaction would do; with `download` its files are fetched, with `run` it is done."""
    base = open_base(request)
    _goal(base, request)
    return _carry_out(base, request)


def local(request: t.Any) -> t.Any:
    """One transaction from files alone."""
    base = open_base(dict(request, stream=None), available=False)
    coming = base.add_remote_rpms(request["paths"])
    twice = [package for package in _left_twice(base, oldest=False) if package.name in {one.name for one in coming}]
    for package in coming:
        there = [one for one in twice if one.name == package.name]
        for other in there:
            if evr(other) != evr(package):
                base.package_remove(other)
        if not any(evr(one) == evr(package) for one in there):
            _put(base, package, request)
    for name in request["names"]:
        for package in base.sack.query().installed().filter(name=name):
            base.package_remove(package)
    return _carry_out(base, request)


def remove(request: t.Any) -> t.Any:
    base = open_base(request, available=False)
    for name in request["names"]:
        for package in base.sack.query().installed().filter(name=name):
            base.package_remove(package)
    return _carry_out(base, dict(request, erase=True))


def unneeded(request: t.Any) -> t.Any:
    base = open_base(request, available=False)
    return {"names": sorted({p.name for p in base.sack.query()._unneeded(base.history.swdb)})}  # as dnf autoremove


def fetch(request: t.Any) -> t.Any:
    """Exact files into a folder: name → path. What is installed may be of the enabled stream, what is to come of the asked one."""
    for stream in dict.fromkeys(["", request.get("stream") or ""]):
        base = open_base(dict(request, fresh=True, stream=stream))
        packages = {name: _exact(base, name, version) for name, version in request["specs"].items()}
        if all(packages.values()):
            break
    missing = sorted(name for name, package in packages.items() if not package)
    if missing:
        raise Refused("not_available", "no repository of this host offers these versions of " + ", ".join(missing))
    for package in packages.values():
        package.repo.pkgdir = request["folder"]
    base.download_packages(list(packages.values()))
    for package in packages.values():
        if base.package_signature_check(package)[0]:
            _refuse_other_keys(package)
    return {name: package.localPkg() for name, package in packages.items()}


def _goal(base: t.Any, request: t.Any) -> None:
    missing = []
    for name, version in request["install"].items():
        package = _exact(base, name, version) if version else None
        there = [p for p in base.sack.query().installed().filter(name=name) if evr(p) == version]
        if package is not None:
            _put(base, package, request)
        elif version and not there:
            missing.append(f"{name} {version}")
        elif not version:
            base.install(name, strict=True)
    if missing:
        raise Refused("unresolvable", "no repository offers " + ", ".join(missing))
    for name in request["erase"]:
        for package in base.sack.query().installed().filter(name=name):
            base.package_remove(package)
    for older in _left_twice(base):
        base.package_remove(older)


def _put(base: t.Any, package: t.Any, request: t.Any) -> None:
    installed = base.sack.query().installed().filter(name=package.name, arch=[package.arch, "noarch"])
    newest = max(installed, default=None)
    if newest is None or base.sack.query().filterm(name=package.name).installed().filter(provides="installonlypkg(kernel)"):
        base.package_install(package)
    elif package > newest:
        base.package_upgrade(package)
    elif package < newest:
        if not request.get("downgrade"):
            raise Refused("unresolvable", f"{package.name} would go down from {evr(newest)} to {evr(package)}")
        base.package_downgrade(package)


def _left_twice(base: t.Any, oldest: bool = True) -> list[t.Any]:
    """The older of two versions of one package (or both): an update that was killed put the new one there and did not take the old away."""
    groups: dict[tuple[str, str], list[t.Any]] = {}
    for package in base.sack.query().installed():
        groups.setdefault((package.name, package.arch), []).append(package)
    keep = base._get_installonly_query().installed() if hasattr(base, "_get_installonly_query") else ()
    several = {package.name for package in keep} | {"gpg-pubkey"}
    return [p for (name, _arch), packages in groups.items() if len(packages) > 1 and name not in several
            for p in (sorted(packages)[:-1] if oldest else packages)]  # fmt: skip


def _carry_out(base: t.Any, request: t.Any) -> t.Any:
    base.resolve(allow_erasing=bool(request.get("erase")))
    coming = list(base.transaction.install_set)
    names = {package.name for package in coming}
    going = sorted({package.name for package in base.transaction.remove_set} - names)
    out = {"install": {package.name: evr(package) for package in coming}, "remove": going, "error": ""}
    if request.get("download") or request.get("run"):
        remote = [package for package in coming if package.reponame != "@commandline"]  # local files were checked when they were fetched
        base.download_packages(remote)
        _check_signatures(base, remote)
    if request.get("run"):
        _rpm_lock_free()
        base.do_transaction()
    return out


def _check_signatures(base: t.Any, packages: t.Any) -> None:
    for package in packages:
        result, text = base.package_signature_check(package)
        if result == 1:
            _refuse_other_keys(package)
            _rpm_lock_free()
            base.package_import_key(package, fullaskcb=lambda answers: True)
            result, text = base.package_signature_check(package)
        if result:
            raise Refused("repository_signature", "{}: {}".format(package, text or "its signature is not of the repository's key"))


def _refuse_other_keys(package: t.Any) -> None:
    """A key that did not sign the package must not get into rpm's keyring: try it in an empty one."""
    keys = [url[len("file://") :] for url in package.repo.gpgkey]
    if not all(url.startswith("file://") for url in package.repo.gpgkey):
        return  # of somebody else's repository: dnf fetches it, as always
    with tempfile.TemporaryDirectory() as keyring:
        tools = ["rpmkeys", "--dbpath", keyring]
        # Not AnsibleModule.run_command: this runs in the system's own Python, which has no Ansible.
        good = [subprocess.call([*tools, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)  # pylint: disable=ansible-bad-function
                for words in (["--import", *keys], ["--checksig", package.localPkg()])]  # fmt: skip
    if any(good):
        raise Refused("repository_signature", f"{package} has no signature by the repository's key")


def _rpm_lock_free() -> None:
    """librpm waits for another rpm without a bound; dnf's own locks do not know of it."""
    import rpm  # type: ignore[import-not-found,unused-ignore]

    path = os.path.join(rpm.expandMacro("%{_dbpath}"), ".rpm.lock")
    end = time.monotonic() + LOCK_WAIT
    while os.path.exists(path):
        with open(path, "r+") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > end:
                    text = f"another rpm holds {path} for more than {LOCK_WAIT} s"
                    raise Refused("locked", text) from None
        time.sleep(1)


def reason_of(error: t.Any) -> str:
    """A stable word for dnf's exceptions."""
    text = str(error)
    kind = type(error).__name__
    words = (
        ("disk_full", r"[Nn]o space left|needs \d+\s*[KMGT]?B? more space|At least \d+ ?[KMGT]?B more space|not enough (free )?space"),
        ("repository_signature", r"GPG|[Ss]ignature|[Pp]ublic key"),
        ("repository_inconsistent", r"[Cc]hecksum|does not match|incorrect size|[Ii]ntended size|Damaged|no more mirrors.*checksum"),
        (
            "repository_unreachable",
            r"Status code: [45]\d\d|Could ?n[o']t (resolve|connect)|Cannot download|Cache-only enabled|Failed to download|Curl error",
        ),
    )
    if kind in ("LockError", "ProcessLockError", "MetadataLockError", "RpmdbLockError", "DownloadLockError", "ThreadLockError"):
        return "locked"
    for reason, pattern in words:
        if re.search(pattern, text):
            return reason
    if kind in ("DepsolveError", "MarkingError", "MarkingErrors") or re.match(r"Packages?Not", kind):
        return "unresolvable"
    if kind in ("RepoError", "DownloadError"):
        return "repository_unreachable"
    return "dpkg_failed" if kind == "TransactionCheckError" else "failed"


ANSWERS = {"update": update, "versions": versions, "requires": requires, "solve": solve, "local": local, "remove": remove,
           "unneeded": unneeded, "fetch": fetch}  # fmt: skip


def answer(request: t.Any) -> dict[str, t.Any]:
    try:
        return {"ok": ANSWERS[request["do"]](request)}
    except Refused as exc:
        return {"reason": exc.reason, "text": str(exc)}
    except Exception as exc:
        return {"reason": reason_of(exc), "text": f"{type(exc).__name__}: {exc}"}


def main(text: str) -> int:
    """One request as text, or (`serve`) questions from standard input, one a line, until it ends."""
    if importlib.util.find_spec("dnf") is None:
        return NO_DNF
    for line in sys.stdin if text == "serve" else [text]:
        end = time.monotonic() + LOCK_WAIT
        request = dict(json.loads(line), serve=text == "serve")
        found = answer(request)
        while found.get("reason") == "locked" and time.monotonic() < end:
            time.sleep(2)
            found = answer(request)
        sys.stdout.write("\n" + MARK + json.dumps(found) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
