# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One NVML session over `pynvml`, bounded in time. Private to the collection.

The interface for every module that talks to GPUs:

    def work(session: Session, request: dict) -> JSON-able data      # runs in the child, NVML initialised
    outcome = run_bounded(work, request, Options(timeout=10))

`work` is any function, a nested one or a lambda too (the child is forked). It calls NVML by name,
`session.call("nvmlDeviceGetName", handle)`, and gets `NvmlError` (with .code and .name) for whatever NVML,
an old pynvml or an old driver cannot do. Whatever it raises, hangs in or dies of becomes a state of the
outcome, never an exception here.
"""

from __future__ import annotations

import time
import types
import typing as t

from . import _paths
from ._bounded import Answer, Slot, bounded
from ._hung import leave_mark, read_mark
from ._nvml_errors import FUNCTION_NOT_FOUND, NvmlError, state_of
from ._nvml_load import LoadError, load

Work = t.Callable[["Session", dict[str, t.Any]], t.Any]


class Options(t.NamedTuple):
    """How to reach NVML; the shared options of all modules of the group `gpu` fill it."""

    timeout: float = 10.0
    """Seconds for import, initialisation and work together."""
    library: t.Optional[str] = None
    """Path of libnvidia-ml.so.1; None: as the loader finds it."""
    python_dir: str = _paths.PYTHON_DIR
    """Where nvidia-ml-py is looked for first."""
    run_dir: str = _paths.RUN_DIR


class Outcome(t.NamedTuple):
    """What came of a session."""

    state: str
    """ok, or hung | no_pynvml | impostor_pynvml | no_library | module_not_loaded | mismatch | lost | error"""
    data: t.Any = None
    """What `work` returned; None unless ok."""
    reason: str = ""
    """One sentence for people; empty when ok."""
    error: t.Optional[dict[str, t.Any]] = None
    """{code, name, text} if NVML itself refused."""
    pynvml: t.Optional[dict[str, t.Any]] = None
    """{version, path} of the module used."""
    timings_ms: dict[str, float] = {}  # noqa: RUF012 - a NamedTuple default, never changed
    """import, init, query, total"""
    hung: t.Optional[dict[str, t.Any]] = None
    """{pid, since, call} of the process that hangs."""


class Session:
    """An initialised NVML, inside the child."""

    def __init__(self, nvml: types.ModuleType, slot: Slot) -> None:
        self.nvml = nvml
        self._slot = slot

    def call(self, name: str, *args: t.Any) -> t.Any:
        """`pynvml.NAME(*args)`; NvmlError when it fails in NVML's own terms."""
        self._slot.note(name)
        try:
            return getattr(self.nvml, name)(*args)
        except self.nvml.NVMLError as exc:
            raise NvmlError(int(exc.value), str(exc)) from None
        except AttributeError as exc:  # pynvml older than the function
            raise NvmlError(FUNCTION_NOT_FOUND, str(exc)) from None

    def attribute(self, name: str) -> t.Any:
        """A constant or structure of `pynvml`; NvmlError where this pynvml does not know it."""
        try:
            return getattr(self.nvml, name)
        except AttributeError as exc:
            raise NvmlError(FUNCTION_NOT_FOUND, str(exc)) from None


def run_bounded(work: Work, request: dict[str, t.Any], options: t.Optional[Options] = None) -> Outcome:
    """Run `work` in a child with an initialised session; come back within the timeout plus a moment."""
    options = options or Options()
    mark = read_mark(options.run_dir)
    if mark:
        return _hung(mark, "an earlier NVML call still hangs in the driver")
    answer = bounded(lambda slot: _session(slot, work, request, options), options.timeout)
    if answer.status == "hung":
        mark, trouble = leave_mark(options.run_dir, answer.pid, answer.start_time, answer.call)
        return _hung(mark, answer.text + (f" (no mark left: {trouble})" if trouble else ""), answer)
    if answer.status == "timeout":
        return Outcome("hung", reason="NVML gave {} in {}".format(answer.text, answer.call or "the child"), timings_ms=_total({}, answer))
    if answer.status != "ok":
        return Outcome("error", reason="NVML child: {} (in {})".format(answer.text, answer.call or "start"), timings_ms=_total({}, answer))
    result = dict(answer.data)
    return Outcome(**{**result, "timings_ms": _total(result["timings_ms"], answer)})


def _total(timings: dict[str, float], answer: Answer) -> dict[str, float]:
    return {**timings, "total": round(answer.seconds * 1000, 3)}


def _hung(mark: dict[str, t.Any], why: str, answer: t.Optional[Answer] = None) -> Outcome:
    call = mark.get("call")
    where = f" in {call}" if call else ""
    reason = f"the NVIDIA driver hangs: {why}, process {mark['pid']} since {mark['since']}{where}; it ends with a reboot"
    hung = {"pid": mark["pid"], "since": mark["since"], "call": call}
    return Outcome("hung", reason=reason, hung=hung, timings_ms=_total({}, answer) if answer else {})


def _session(slot: Slot, work: Work, request: dict[str, t.Any], options: Options) -> dict[str, t.Any]:
    """In the child: the fields of the outcome."""
    begin = time.perf_counter()
    slot.note("import pynvml")
    try:
        nvml, found = load(options.python_dir)
    except LoadError as exc:
        return {"state": exc.state, "reason": exc.text, "pynvml": exc.found, "timings_ms": {"import": _ms(begin)}}
    timings = {"import": _ms(begin)}
    out: dict[str, t.Any] = {"pynvml": found, "timings_ms": timings}
    session = Session(nvml, slot)
    begin = time.perf_counter()
    try:
        if options.library:
            _use_library(session, slot, options.library)
        session.call("nvmlInitWithFlags", 0)
    except NvmlError as exc:
        state, reason = state_of(exc.code)
        timings["init"] = _ms(begin)
        return {**out, "state": state, "reason": reason, "error": exc.to_dict()}
    timings["init"] = _ms(begin)
    begin = time.perf_counter()
    try:
        return {**out, "state": "ok", "data": work(session, request)}
    except NvmlError as exc:
        state, reason = state_of(exc.code)
        return {**out, "state": state, "reason": reason, "error": exc.to_dict()}
    finally:
        timings["query"] = _ms(begin)


def _use_library(session: Session, slot: Slot, path: str) -> None:
    """Load NVML from `path`: pynvml takes a library that is already there."""
    import ctypes

    slot.note("dlopen " + path)
    try:
        session.nvml.nvmlLib = ctypes.CDLL(path)  # type: ignore[attr-defined]
    except OSError as exc:
        raise NvmlError(12, str(exc)) from None


def _ms(begin: float) -> float:
    return round((time.perf_counter() - begin) * 1000, 3)
