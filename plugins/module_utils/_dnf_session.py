# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that answers one line per line, bounded in time: dnf takes longer to read its metadata than to answer a question.

Private to the collection. It changes nothing on the host and dies with its input.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
import typing as t

from ._subprocess import PATH, Result, exit_code
from ._wait import wait_exit


class Session:
    """One process; a late answer ends it."""

    def __init__(self, argv: t.Sequence[str], env: t.Mapping[str, str]) -> None:
        # Not AnsibleModule.run_command: it starts, feeds and ends a command in one go.
        self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
            env={"PATH": PATH, "LC_ALL": "C", **env},
        )  # fmt: skip
        self._rest = b""

    def ask(self, line: str, mark: str, timeout: float) -> Result:
        """What the process says up to a line that begins with `mark`."""
        stdin, stdout = t.cast(t.BinaryIO, self._process.stdin), t.cast(t.BinaryIO, self._process.stdout)
        end = time.monotonic() + timeout
        with contextlib.suppress(BrokenPipeError):
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        while True:
            said, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                if said.startswith(mark.encode()):
                    return Result("ok", 0, said.decode("utf-8", "replace"), "")
                continue
            if not select.select([stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                self.close()
                return Result("timeout", -signal.SIGKILL, "", "")
            more = os.read(stdout.fileno(), 1 << 20)
            if not more:
                return Result("ok", self.close(), "", "")
            self._rest += more

    def close(self) -> int:
        """End it; its exit status, as subprocess has it."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                t.cast(t.BinaryIO, stream).close()
        status = wait_exit(self._process.pid, 2.0)
        if status is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            status = wait_exit(self._process.pid, 0.3)
        code = exit_code(status)
        self._process.returncode = code  # reaped above
        return code
