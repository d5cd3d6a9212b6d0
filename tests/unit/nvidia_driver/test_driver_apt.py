# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt's own words: what they mean, and what is asked of it. `run` is replaced; the real apt runs in molecule/nvidia_driver."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _apt
from ansible_collections.gpufleet.inference.plugins.module_utils._apt import Apt, PackageError
from ansible_collections.gpufleet.inference.plugins.module_utils._apt_locks import holder
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

SIMULATION = """Reading package lists...
Remv nvidia-fabricmanager-570 [570.133.20-1]
Inst libnvidia-ml1 [570.133.20-1] (580.105.08-1 NVIDIA:x86_64 [amd64])
Inst nvidia-driver-cuda (580.105.08-1 NVIDIA:x86_64 [amd64])
Conf libnvidia-ml1 (580.105.08-1 NVIDIA:x86_64 [amd64])
"""
UNMET = """The following packages have unmet dependencies:
 nvidia-driver-cuda : Depends: libnvidia-ml1 (= 570.133.20-1) but 595.91.07-1 is to be installed
                      Depends: libcuda1 (= 570.133.20-1) but it is not going to be installed
"""
CAUSES = [
    ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)", "locked"),
    ("E: You don't have enough free space in /var/cache/apt/archives/.", "disk_full"),
    ("W: GPG error: http://mirror InRelease: ... NO_PUBKEY A4B469963BF863CC\nE: The repository is not signed.", "repository_signature"),
    ("E: Failed to fetch http://mirror/x.deb  Hash Sum mismatch", "repository_inconsistent"),
    ("E: Failed to fetch http://mirror/x.deb  404  Not Found", "repository_unreachable"),
    ("E: The repository 'http://mirror  Release' does not have a Release file.", "repository_unreachable"),
    ("E: Sub-process /usr/bin/dpkg returned an error code (1)", "dpkg_failed"),
    ("E: Unable to correct problems, you have held broken packages.", "unresolvable"),
    ("E: something new", "failed"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., list[list[str]]]:
    """asked(Result) → the list that collects every command."""

    def install(result: Result) -> list[list[str]]:
        calls: list[list[str]] = []

        def run(argv: t.Sequence[str], **options: t.Any) -> Result:
            assert options["timeout"] > 0
            calls.append(list(argv))
            return result

        monkeypatch.setattr(_apt, "run", run)
        return calls

    return install


@pytest.mark.parametrize(("text", "reason"), CAUSES)
def test_failure_has_a_cause(asked: t.Any, text: str, reason: str) -> None:
    asked(Result("ok", 100, "", text))
    with pytest.raises(PackageError) as error:
        Apt(10).install(["a=1"], downgrade=False)
    assert error.value.reason == reason
    assert text.splitlines()[-1] in str(error.value)


@pytest.mark.parametrize("state", ["timeout", "hung", "missing"])
def test_command_that_does_not_end_is_a_cause_as_well(asked: t.Any, state: str) -> None:
    asked(Result(state, -9, "", ""))
    with pytest.raises(PackageError) as error:
        Apt(10).install(["a=1"], downgrade=False)
    assert error.value.reason == state


def test_repository_that_is_too_slow_has_changed_nothing(asked: t.Any) -> None:
    asked(Result("timeout", -9, "", ""))
    with pytest.raises(PackageError, match="too slow") as error:
        Apt(10).update()
    assert error.value.reason == "repository_unreachable"


def test_killed_command_says_so(asked: t.Any) -> None:
    asked(Result("ok", -9, "Reading package lists...", ""))
    with pytest.raises(PackageError, match="the package transaction was killed by signal 9; the next run finishes it") as error:
        Apt(10).install(["a=1"], downgrade=False)
    assert error.value.reason == "killed"


def test_update_waits_for_another_apt_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Result("ok", 100, "", "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7")] * 2 + [
        Result("ok", 0, "", "")
    ]
    waited: list[float] = []
    monkeypatch.setattr(_apt, "run", lambda argv, **options: answers.pop(0))
    monkeypatch.setattr(_apt.time, "sleep", waited.append)
    Apt(10).update()
    assert waited == [5, 5]
    answers = [Result("ok", 100, "", "E: 404")]
    with pytest.raises(PackageError):
        Apt(10).update()
    assert waited == [5, 5]


def test_update_gives_up_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(_apt, "run", lambda argv, **options: Result("ok", 100, "", "E: Could not get lock x"))
    monkeypatch.setattr(_apt.time, "sleep", waited.append)
    with pytest.raises(PackageError) as error:
        Apt(10).update()
    assert error.value.reason == "locked"
    assert sum(waited) == 120
    waited.clear()
    with pytest.raises(PackageError):
        Apt(10, lock_timeout=3).update()
    assert waited == []


def test_full_disk_below_dpkg_is_a_transaction_that_has_begun(asked: t.Any) -> None:
    text = "dpkg: error processing archive x: No space left on device\nE: Sub-process /usr/bin/dpkg returned an error code (1)"
    asked(Result("ok", 100, "", text))
    with pytest.raises(PackageError) as error:
        Apt(10).install(["a=1"], downgrade=False)
    assert error.value.reason == "dpkg_failed"


def test_simulation_is_read(asked: t.Any) -> None:
    calls = asked(Result("ok", 0, SIMULATION, ""))
    outcome = Apt(10).simulate(["nvidia-driver-cuda=580.105.08-1", "old-"])
    assert outcome.install == {"libnvidia-ml1": "580.105.08-1", "nvidia-driver-cuda": "580.105.08-1"}
    assert outcome.remove == ["nvidia-fabricmanager-570"]
    assert outcome.error == ""
    assert "-s" in calls[0]
    assert calls[0][-3:] == ["install", "nvidia-driver-cuda=580.105.08-1", "old-"]
    assert "--allow-downgrades" not in calls[0]


def test_simulation_says_which_dependency_is_unmet(asked: t.Any) -> None:
    asked(Result("ok", 100, UNMET, "E: Unable to correct problems, you have held broken packages."))
    error = Apt(10).simulate(["nvidia-driver-cuda=570.133.20-1"]).error
    assert error.startswith("nvidia-driver-cuda : Depends: libnvidia-ml1 (= 570.133.20-1) but 595.91.07-1 is to be installed;")
    assert error.endswith("E: Unable to correct problems, you have held broken packages.")


def test_downgrade_is_asked_for_only_if_wanted(asked: t.Any) -> None:
    calls = asked(Result("ok", 0, "", ""))
    Apt(10).install(["a=1"], downgrade=True)
    assert "--allow-downgrades" in calls[0]


def test_what_leaves_takes_its_configuration_along(asked: t.Any) -> None:
    calls = asked(Result("ok", 0, "Purg nvidia-driver-pinning-595 [595-1]\n", ""))
    apt = Apt(10)
    apt.install(["a=1", "old-"], downgrade=False)
    assert apt.simulate(["a=1", "old-"]).remove == ["nvidia-driver-pinning-595"]
    assert apt.install_files(["/kept/a.deb"], True, ["nvidia-driver-pinning-595"], simulate=True).remove == ["nvidia-driver-pinning-595"]
    assert all("--purge" in call for call in calls)


def test_offers_are_read(asked: t.Any) -> None:
    asked(
        Result(
            "ok",
            0,
            " libcuda1 | 580.105.08-1 | http://mirror  Packages\n libcuda1 | 535.1-1 | http://deb bookworm/non-free amd64 Packages\n",
            "",
        )
    )
    assert Apt(10).versions(["libcuda1"])["libcuda1"][0] == ("580.105.08-1", "http://mirror  Packages")


def test_dependencies_are_read(asked: t.Any) -> None:
    asked(Result("ok", 0, "Package: a\nVersion: 1\nDepends: b (= 1), c | d (>= 2), e:any\nDescription: x\n y: z\n\n", ""))
    assert Apt(10).depends({"a": "1"}) == {"a": [["b"], ["c", "d"], ["e"]]}


def test_private_update_touches_no_other_list(asked: t.Any) -> None:
    calls = asked(Result("ok", 0, "", ""))
    Apt(10).update("/tmp/parts")
    assert "Dir::Etc::sourceparts=/tmp/parts" in calls[0]
    assert "APT::Get::List-Cleanup=0" in calls[0]
    assert "--error-on=any" in calls[0]


def test_holder_of_a_lock_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock-frontend"
    lock.touch()
    assert holder([str(tmp_path / "missing"), str(lock)]) == ""
    script = (
        f"import fcntl, time; lock = open({str(lock)!r}, 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        assert holder([str(lock)]).startswith(f"process {other.pid} (python")
        other.kill()
