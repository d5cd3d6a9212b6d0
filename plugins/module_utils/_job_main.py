# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a unit of _job runs: the work, and its progress and end in the status file. Private to the collection."""

from __future__ import annotations

import json
import sys
import typing as t

from ._errors import HostError, WorkError
from ._files import read_text, remove, write_text

Work = t.Callable[[dict[str, t.Any], dict[str, str], t.Callable[[dict[str, t.Any]], None]], t.Mapping[str, t.Any]]


def main(work: Work, argv: t.Optional[t.Sequence[str]] = None) -> int:
    """JOB SECRETS STATUS; the exit status of the unit."""
    job_file, secrets_file, status_file = (argv or sys.argv[1:])[:3]

    def say(**status: t.Any) -> None:
        write_text(status_file, json.dumps(status) + "\n", mode=0o600)

    def progress(counts: dict[str, t.Any]) -> None:
        say(state="running", progress=counts)

    try:
        job = json.loads(read_text(job_file) or "{}")
        secrets = json.loads(read_text(secrets_file) or "{}")
        progress({})
        result = work(job, secrets, progress)
    except HostError as exc:
        known = exc if isinstance(exc, WorkError) else WorkError("failed", str(exc))
        say(state="failed", reason=known.reason, text=str(exc), details=known.details)
        return 1
    except OSError as exc:
        say(state="failed", reason="failed", text=f"{exc.filename or 'the host'}: {exc.strerror or exc}", details={})
        return 1
    except Exception as exc:  # the only witness of what went wrong is this file
        say(state="failed", reason="failed", text=f"{type(exc).__name__}: {exc}", details={})
        raise
    finally:
        remove(secrets_file)
    say(state="done", result=dict(result))
    return 0
