# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gpufleet-engine-* units run first: the GPU gate, and the watch over an engine. Private to the collection.

engine_gate.py run --gpu UUID … -- COMMAND     becomes COMMAND, or ends with 79, which the unit does not restart
engine_gate.py watch --url URL --unit UNIT     restarts UNIT after so many failures in a row

The first runs as the engine's user, within what the unit allows it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import typing as t

from ._engine_watch import watch
from ._errors import HostError
from ._nvml import Options, Outcome, Session, run_bounded
from ._nvml_errors import NvmlError

EXIT_GPU_LOST = 79
"""As RestartPreventExitStatus of the units says (plugin_utils/_engine_job.py)."""
EXIT_NO_PROGRAM = 127
PROGRAM = "/opt/gpufleet/lib/engine_gate.py"
LAUNCHER = '''"""Written by Ansible (gpufleet.inference, module engine_switch). Changes are overwritten."""

import sys

sys.dont_write_bytecode = True

from gpufleet_engine._engine_gate import main

raise SystemExit(main())
'''
_PAUSE = 2.0
_BLIND = ("no_pynvml", "impostor_pynvml")
"""Without the binding nothing can be said of the GPUs: that is no reason to keep an engine down."""


def _find(session: Session, request: dict[str, t.Any]) -> dict[str, str]:
    """UUID → NVML's name for why it is not there; GPUs that answer are left out."""
    missing = {}
    for uuid in request["gpus"]:
        try:
            # A handle alone is not enough: it may come from a table although the GPU is off the bus.
            session.call("nvmlDeviceGetMemoryInfo", session.call("nvmlDeviceGetHandleByUUID", uuid))
        except NvmlError as exc:
            missing[uuid] = exc.name
    return missing


def look(gpus: t.Sequence[str], options: Options) -> tuple[str, bool]:
    """What is wrong (empty: all answer), and whether waiting may mend it."""
    outcome: Outcome = run_bounded(_find, {"gpus": list(gpus)}, options)
    if outcome.state in _BLIND:
        _say(4, f"starting without a look at the GPUs: {outcome.reason}")
        return "", False
    if outcome.state != "ok":
        return f"{', '.join(gpus)}: {outcome.reason}", outcome.state != "hung"
    return "; ".join(f"{uuid}: {_words(name)}" for uuid, name in outcome.data.items()), True


def run(gpus: t.Sequence[str], command: t.Sequence[str], wait: float, options: Options) -> int:
    """Becomes `command`; the exit status where it cannot."""
    begun, wrong = time.monotonic(), ""
    while gpus:
        before, (wrong, mends) = wrong, look(gpus, options)
        if not wrong:
            break
        if not mends or time.monotonic() - begun + _PAUSE > wait:
            _say(3, f"GPU lost, not started: {wrong} (waited {time.monotonic() - begun:.0f} s; exit status {EXIT_GPU_LOST})")
            return EXIT_GPU_LOST
        if wrong != before:
            _say(5, f"waiting up to {wait:g} s for {wrong}")
        time.sleep(_PAUSE)
    try:
        os.execv(command[0], list(command))  # noqa: S606 - it becomes the engine
    except OSError as exc:
        _say(3, f"cannot run {command[0]}: {exc.strerror}")
        return EXIT_NO_PROGRAM


def _words(name: str) -> str:
    if name == "NOT_FOUND":
        return "no such GPU on this host (NOT_FOUND)"
    return f"{'the GPU has fallen off the bus' if name == 'GPU_IS_LOST' else 'the GPU does not answer'} ({name})"


def _say(level: int, text: str) -> None:
    """One line to the journal, with its priority in systemd's notation."""
    sys.stderr.write(f"<{level}>{text}\n")
    sys.stderr.flush()


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    """Returns the exit status, where it returns."""
    words = list(sys.argv[1:] if argv is None else argv)
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="engine_gate.py")
    commands = parser.add_subparsers(dest="command", required=True)
    gate = commands.add_parser("run")
    gate.add_argument("--gpu", action="append", default=[], help="UUID of a GPU or MIG device; none: nothing is looked for")
    gate.add_argument("--wait", type=float, default=60.0, help="seconds to wait for GPUs that do not answer yet, as after a boot")
    gate.add_argument("--nvml-timeout", type=float, default=20.0)
    over = commands.add_parser("watch")
    over.add_argument("--url", required=True)
    over.add_argument("--unit", required=True)
    over.add_argument("--failures", type=int, default=3)
    over.add_argument("--grace", type=float, default=600.0, help="seconds from its start until an engine must have answered once")
    options = parser.parse_args(words[:split])
    if options.command == "run":
        if not words[split + 1 :]:
            parser.error("run: expected -- COMMAND")
        return run(options.gpu, words[split + 1 :], options.wait, Options(timeout=options.nvml_timeout))
    try:
        return watch(options.url, options.unit, options.failures, options.grace, _say)
    except HostError as exc:
        _say(3, str(exc))
        return 1
