# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf's answers and rpm's rows: what they mean. `run` is replaced; the real dnf runs in molecule/nvidia_driver_rpm."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _dnf, _dnf_locks, _dnf_resolver, _dnf_session, _package_manager
from ansible_collections.gpufleet.inference.plugins.module_utils._apt import Apt, PackageError
from ansible_collections.gpufleet.inference.plugins.module_utils._dnf import Dnf
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

CAUSES = [
    ("ProcessLockError", "Failed to obtain the rpmdb lock", "locked"),
    ("Error", "Failed to download metadata for repo 'x': Cannot download repomd.xml: Status code: 404", "repository_unreachable"),
    ("RepoError", "Cache-only enabled but no cache for 'el-base'", "repository_unreachable"),
    ("DownloadError", "x.rpm: Interrupted by header callback: Inconsistent server data, incorrect size", "repository_inconsistent"),
    ("Error", "Public key for nvidia-modprobe.rpm is not installed", "repository_signature"),
    ("Error", "At least 12MB more space needed on the / filesystem.", "disk_full"),
    ("DepsolveError", "nothing provides dkms needed by kmod-nvidia-open-dkms", "unresolvable"),
    ("Oddity", "something new", "failed"),
]
ROWS = """nvidia-modprobe\t3\t595.91.07-1.el9\tx86_64\t200
nvidia-modprobe\t3\t580.178.04-1.el9\tx86_64\t100
kernel-devel\t0\t5.14.0-570.el9\tx86_64\t100
kernel-devel\t0\t5.14.0-611.el9\tx86_64\t200
glibc\t0\t2.34-1\ti686\t100
glibc\t0\t2.34-1\tx86_64\t100
"""
LIST = """# Added lock on Mon Nov 30 18:00:00 2026
nvidia-modprobe-3:580.178.04-1.el9.*
!vim-enhanced-2:9.0-1.*
# kept by the site
kernel-0:5.14.0-570.el9.*
"""


@pytest.mark.parametrize(("kind", "text", "reason"), CAUSES)
def test_failure_has_a_cause(kind: str, text: str, reason: str) -> None:
    assert _dnf_resolver.reason_of(type(kind, (Exception,), {})(text)) == reason


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[Result], list[list[str]]]:
    def install(result: Result) -> list[list[str]]:
        calls: list[list[str]] = []

        def run(argv: t.Sequence[str], **options: t.Any) -> Result:
            assert options["timeout"] > 0
            assert options["env"]["SYSTEMD_OFFLINE"] == "1"
            calls.append(list(argv))
            return result

        class Session:
            """One process for many questions."""

            def __init__(self, argv: t.Sequence[str], env: t.Mapping[str, str]) -> None:
                self.argv = list(argv)

            def ask(self, line: str, mark: str, timeout: float) -> Result:
                return run([*self.argv[:-1], line], timeout=timeout, env=_dnf.ENVIRONMENT)

            def close(self) -> None: ...

        monkeypatch.setattr(_dnf, "run", run)
        monkeypatch.setattr(_dnf, "Session", Session)
        return calls

    return install


def said(answer: t.Any) -> Result:
    return Result("ok", 0, f"Updating Subscription Management repositories.\n{_dnf_resolver.MARK}{json.dumps(answer)}\n", "")


def test_question_goes_to_a_python_of_the_system_and_its_answer_is_found_among_other_words(answers: t.Any) -> None:
    calls = answers(said({"ok": {"nvidia-open": [["3:580.65.06-1.el9", "http://mirror"]]}}))
    assert Dnf(10, "nvidia-driver:580-open").versions(["nvidia-open"]) == {"nvidia-open": [("3:580.65.06-1.el9", "http://mirror")]}
    python, option, source, request = calls[0]
    assert python in _dnf.PYTHONS
    assert option == "-c"
    compile(source, "resolver", "exec")
    assert json.loads(request) == {"do": "versions", "names": ["nvidia-open"], "stream": "nvidia-driver:580-open"}


def test_specs_of_the_resolvers_are_taken_apart(answers: t.Any) -> None:
    calls = answers(said({"ok": {"install": {}, "remove": [], "error": ""}}))
    Dnf(10).install(["--purge", "nvidia-open=3:580.65.06-1.el9", "kernel-devel-5.14.0", "nvidia-imex-"], downgrade=True)
    request = json.loads(calls[0][-1])
    assert request["install"] == {"nvidia-open": "3:580.65.06-1.el9", "kernel-devel-5.14.0": ""}
    assert (request["erase"], request["run"], request["downgrade"]) == (["nvidia-imex"], True, True)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (said({"reason": "locked", "text": "another rpm"}), "locked"),
        (Result("ok", -9, "", ""), "killed"),
        (Result("timeout", -9, "", ""), "timeout"),
        (Result("ok", 1, "", "Traceback\nSyntaxError"), "failed"),
        (Result("ok", _dnf_resolver.NO_DNF, "", ""), "no_dnf"),
    ],
)
def test_no_answer_has_a_cause(answers: t.Any, result: Result, reason: str) -> None:
    answers(result)
    with pytest.raises(PackageError) as error:
        Dnf(10).update()
    assert error.value.reason == reason


def test_what_cannot_be_solved_is_a_simulation_and_a_dead_repository_is_none(answers: t.Any) -> None:
    answers(said({"reason": "unresolvable", "text": "nothing provides dkms"}))
    assert "nothing provides dkms" in Dnf(10).simulate(["x=1-1"]).error
    answers(said({"reason": "repository_unreachable", "text": "404"}))
    with pytest.raises(PackageError):
        Dnf(10).simulate(["x=1-1"])


def test_a_package_left_in_two_versions_is_not_whole(answers: t.Any) -> None:
    answers(Result("ok", 0, ROWS, ""))
    installed = Dnf(10).installed()
    assert installed["nvidia-modprobe"] == ("3:595.91.07-1.el9", "duplicate")
    assert installed["kernel-devel"] == ("5.14.0-611.el9", "installed")
    assert installed["glibc"][1] == "installed"


@pytest.fixture
def lock_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "conf").write_text(f"[main]\nenabled = 1\nlocklist = {tmp_path}/list\n")
    (tmp_path / "list").write_text(LIST)
    monkeypatch.setattr(_dnf_locks, "CONF", str(tmp_path / "conf"))
    return tmp_path / "list"


def test_a_lock_that_its_package_has_left_behind_is_written_anew(answers: t.Any, lock_list: Path) -> None:
    answers(Result("ok", 0, "nvidia-modprobe\t3\t595.91.07-1.el9\tx86_64\t1\n", ""))
    dnf = Dnf(10)
    assert dnf.holds() == {"kernel"}  # of no installed package: whatever came would violate it
    dnf.set_holds(add=["nvidia-modprobe"])
    assert dnf.holds() == {"kernel", "nvidia-modprobe"}
    text = lock_list.read_text()
    assert text.count("nvidia-modprobe") == 1
    assert "!vim-enhanced-2:9.0-1.*\n# kept by the site\nkernel-0:5.14.0-570.el9.*\n" in text
    dnf.set_holds(remove=["nvidia-modprobe"])
    assert "nvidia-modprobe" not in lock_list.read_text()
    assert "Added lock" not in lock_list.read_text()


@pytest.mark.parametrize("text", ["[main]\nenabled = 0\n", None])
def test_without_the_plugin_nothing_can_be_held(lock_list: Path, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = lock_list.parent / "conf"
    conf.unlink() if text is None else conf.write_text(text)
    dnf = Dnf(10)
    monkeypatch.setattr(dnf, "_ask", lambda what, **more: {} if text is None else {_dnf_locks.PLUGIN: [("4.3-1", "")]})
    with pytest.raises(PackageError) as error:
        dnf.check_holds()
    assert error.value.reason == "no_versionlock"
    assert "python3-dnf-plugin-versionlock" in str(error.value)
    assert Dnf(10).holds() == set()


def test_a_plugin_on_offer_comes_with_the_set(lock_list: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lock_list.parent / "conf").unlink()
    dnf = Dnf(10, "nvidia-driver:580-open")
    # The stream is not known before the driver's repository is.
    monkeypatch.setattr(dnf, "_ask", lambda what, **more: {_dnf_locks.PLUGIN: [("4.3-1", "")]} if more.get("stream") == "" else {})
    assert dnf.check_holds() == ("python3-dnf-plugin-versionlock",)
    # Where no package of the set moves, it is fetched for the lock alone.
    done: list[str] = []
    monkeypatch.setattr(dnf, "download", lambda specs, downgrade: done.append(f"download {specs}"))
    monkeypatch.setattr(dnf, "install", lambda specs, downgrade: done.append(f"install {specs}"))
    dnf.set_holds(add=["nvidia-modprobe"])
    assert done == [f"{what} ['python3-dnf-plugin-versionlock']" for what in ("download", "install")]


@pytest.mark.parametrize(("release", "kind"), [("ID=rocky\nID_LIKE='rhel fedora'\n", Dnf), ("ID=debian\n", Apt)])
def test_manager_is_that_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, kind: type) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(release)
    monkeypatch.setattr(_package_manager, "APT", "/bin/sh")
    assert isinstance(_package_manager.package_manager(10, root=str(tmp_path)), kind)


SERVER = "import sys\nfor line in sys.stdin:\n    print('a plugin talks')\n    print('MARK ' + line.strip(), flush=True)\n"


def test_a_session_answers_many_questions_and_ends_with_its_input() -> None:
    session = _dnf_session.Session([sys.executable, "-c", SERVER], {})
    assert [session.ask(word, "MARK ", 10).out for word in ("one", "two")] == ["MARK one", "MARK two"]
    assert session.close() == 0


def test_a_session_that_does_not_answer_is_ended() -> None:
    session = _dnf_session.Session([sys.executable, "-c", "import time; time.sleep(60)"], {})
    assert session.ask("one", "MARK ", 0.2).state == "timeout"


def test_a_session_that_dies_says_how() -> None:
    session = _dnf_session.Session([sys.executable, "-c", "import sys; sys.exit(3)"], {})
    assert session.ask("one", "MARK ", 10).rc == 3
