# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of trtllm-build: output to a file, progress, a bound, and what its failure means. Private to the collection."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import typing as t

from ._errors import WorkError
from ._trtllm_runtime import Runtime

_LOOK = 1.0
_SHOWN = 20
"""Lines of the log in the answer to a failure."""
_CAUSES = (
    ("out_of_memory", re.compile(r"out of memory|cudaErrorMemoryAllocation|OutOfMemory", re.IGNORECASE)),
    ("disk_full", re.compile(r"No space left on device")),
    ("bad_argument", re.compile(r"error: (unrecognized arguments|argument .*|ambiguous option)")),
)
_FIXES = {
    "out_of_memory": "; end what uses these GPUs, or build for smaller batches or with fewer workers",
    "disk_full": "; make room",
    "bad_argument": "; the matrix does not know this release well enough: correct args",
}


def build(job: t.Mapping[str, t.Any], output: str, scratch: str, log: str, publish: t.Callable[[dict[str, t.Any]], None]) -> None:
    """WorkError: reason out_of_memory | disk_full | bad_argument | no_runtime | timeout | build_failed, with the log's last lines."""
    runtime, name = Runtime(job["runtime"], job["place"]), f"gpufleet-trtllm-{job['name']}"
    words = [word for option in job["words"] for word in option]
    command = runtime.command(name, words, job["devices"], job["checkpoint"], output, scratch)
    runtime.clear(name)
    begun = time.time()
    with open(log, "wb") as target:
        try:
            # Not AnsibleModule.run_command: this is the unit, and the output of an hour goes to a file.
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
                command,
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=runtime.environment(job["devices"], scratch),
                start_new_session=True,
            )
        except OSError as exc:
            raise WorkError("no_runtime", f"{command[0]} cannot be started: {exc.strerror}") from exc
    try:
        while process.poll() is None:
            elapsed = time.time() - begun
            publish({"seconds": round(elapsed), "text": (_tail(log, 1) or [""])[0][:200]})
            if elapsed > job["build_timeout"]:
                raise WorkError(
                    "timeout", f"trtllm-build was ended after {job['build_timeout']} s (build_timeout)", {"log": _tail(log, _SHOWN)}
                )
            time.sleep(_LOOK)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        runtime.clear(name)
    if process.returncode:
        raise _failure(process.returncode, log)


def _failure(status: int, log: str) -> WorkError:
    lines = _tail(log, 400)
    text = "\n".join(lines)
    reason = next((word for word, pattern in _CAUSES if pattern.search(text)), "build_failed")
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    last = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "it said nothing")
    return WorkError(reason, f"trtllm-build {how}: {last[:300]}{_FIXES.get(reason, '')}; all of it is in {log}", {"log": lines[-_SHOWN:]})


def _tail(path: str, count: int) -> list[str]:
    """Last lines that are not empty, of the last 64 KiB."""
    try:
        with open(path, "rb") as source:
            source.seek(max(0, os.path.getsize(path) - (64 << 10)))
            lines = source.read().decode("utf-8", "replace").replace("\r", "\n").splitlines()
    except OSError:
        return []
    return [line.rstrip() for line in lines if line.strip()][-count:]
