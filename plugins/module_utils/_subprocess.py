# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run an external command with a bound. Private to the collection.

Output goes to anonymous files, not pipes: what a command leaves behind may keep them open as long as it likes.
A command that ignores SIGKILL (uninterruptible sleep) is left alone and reported as `hung`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import typing as t

from ._wait import wait_exit

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KILL_GRACE = 0.3


class Result(t.NamedTuple):
    """`state` is ok (it ran; look at rc) | missing (no such command) | timeout (killed) | hung (cannot be killed)."""

    state: str
    rc: int
    out: str
    err: str

    @property
    def success(self) -> bool:
        return self.state == "ok" and self.rc == 0


def run(argv: t.Sequence[str], timeout: float = 10.0, env: t.Optional[t.Mapping[str, str]] = None) -> Result:
    """Run `argv` without a shell, with LC_ALL=C, no input and a fixed PATH."""
    environment = {"PATH": PATH, "LC_ALL": "C", "HOME": "/", **(env or {})}
    with _anonymous() as out, _anonymous() as err:
        try:
            # Not AnsibleModule.run_command: it waits for a killed command without a bound, and this runs at boot too.
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd="/", env=environment, start_new_session=True
            )
        except OSError as exc:
            return Result("missing", 127, "", f"{argv[0]}: {exc.strerror}")
        status = wait_exit(process.pid, timeout)
        state = "ok"
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)
            status = wait_exit(process.pid, _KILL_GRACE)
            state = "hung" if status is None else "timeout"
        rc = exit_code(status)
        process.returncode = rc  # reaped above; else its destructor would wait again
        return Result(state, rc, _content(out), _content(err))


def exit_code(status: t.Optional[int]) -> int:
    if status is None:
        return -signal.SIGKILL
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _anonymous() -> t.BinaryIO:
    try:
        return t.cast(t.BinaryIO, os.fdopen(os.memfd_create("output"), "w+b"))
    except (AttributeError, OSError):
        return t.cast(t.BinaryIO, tempfile.TemporaryFile())


def _content(source: t.BinaryIO) -> str:
    source.seek(0)
    return source.read().decode("utf-8", "replace")
