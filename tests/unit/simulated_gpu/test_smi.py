"""nvidia-smi against what the real one printed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import FIDELITY, FILES, LIBRARIES, Sim

# What moves by itself, or was anonymised differently in the texts than in the NVML recording.
MOVES = r"Timestamp|Serial Number|GPU PDI|(Average|Instantaneous) Power Draw|[TR]x Throughput"
CALLS = json.loads((FIDELITY / "h200x2-nvidia-smi-calls.json").read_text(encoding="utf-8"))["calls"]
READINGS = re.compile(r"timestamp|power\.draw|temperature|serial")
# Sampling statistics, and the whole field list in one call (its parts are compared one by one).
LEFT_OUT = ("-d UTILIZATION", "-d POWER", "-d CLOCK", "-d TEMPERATURE", "-d SUPPORTED_CLOCKS", "vgpu_device_capability", "power_smoothing")


def settle(text: str) -> list[str]:
    return [re.sub(rf"^(\s*(?:{MOVES})\s*:).*", r"\1", line) for line in text.splitlines()]


def test_full_report(sim: Sim) -> None:
    assert settle(sim.smi("-q")) == settle((FIDELITY / "h200x2-nvidia-smi-q.txt").read_text(encoding="utf-8"))


def test_summary_table(sim: Sim) -> None:
    recorded = (FIDELITY / "h200x2-nvidia-smi.txt").read_text(encoding="utf-8").splitlines()
    got = sim.smi().splitlines()
    assert [re.sub(r" \d\dW ", " 78W ", line) for line in got[1:]] == recorded[1:]
    assert re.fullmatch(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}       ", got[0])


def comparable(call: dict[str, Any]) -> bool:
    words = " ".join(call["arguments"])
    return call["user"] == "root" and not any(word in words for word in LEFT_OUT) and len(words) < 200


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, library: Path) -> dict[str, Any]:
    """All recorded calls on one machine and in one process; none of them changes it."""
    root = tmp_path_factory.mktemp("smi")
    (root / LIBRARIES).mkdir(parents=True)
    sim = Sim(root, library)
    for words in (["profile", "h200x2"], ["driver", "580.159.04", "--library", str(library)], ["boot"]):
        sim.sg(*words)
    code = (
        "import json, sys\nfrom simulated_gpu.smi import run\n"
        "print(json.dumps({' '.join(words): run(words) for words in json.load(open(sys.argv[1]))}))"
    )
    (root / "calls.json").write_text(json.dumps([call["arguments"] for call in CALLS if comparable(call)]), encoding="utf-8")
    result: dict[str, Any] = json.loads(sim.run(sys.executable, "-c", code, str(root / "calls.json"), PYTHONPATH=str(FILES / "lib")).stdout)
    return result


@pytest.mark.parametrize("call", [c for c in CALLS if comparable(c)], ids=lambda call: " ".join(call["arguments"])[:60])
def test_recorded_call(answers: dict[str, Any], call: dict[str, Any]) -> None:
    got, status = answers[" ".join(call["arguments"])]
    assert status == call["status"]
    if READINGS.search(" ".join(call["arguments"])):
        assert got.splitlines()[0] == call["text"].splitlines()[0]
        assert len(got.splitlines()) == len(call["text"].splitlines())
        return
    assert settle(got) == settle(call["text"])


def test_setters_talk_as_the_real_one(make: Any) -> None:
    sim = make("h100-sxm", count=1)
    warning = "Warning: persistence mode is disabled on device 00000000:1B:00.0. "
    assert sim.smi("-pl", "400").startswith("Power limit for GPU 00000000:1B:00.0 was set to 400.00 W from 700.00 W.\n" + warning)
    assert sim.smi("-pm", "1") == "Enabled persistence mode for GPU 00000000:1B:00.0.\nAll done.\n"
    assert sim.smi("-pm", "1") == "Persistence mode is already Enabled for GPU 00000000:1B:00.0.\nAll done.\n"
    assert sim.smi("-pl", "400") == "Power limit for GPU 00000000:1B:00.0 was set to 400.00 W from 700.00 W.\nAll done.\n"
    assert sim.smi("-e", "0") == "Disabled ECC support for GPU 00000000:1B:00.0.\nReboot required.\nAll done.\n"
    assert sim.smi("-e", "0") == "ECC mode is already Disabled for GPU 00000000:1B:00.0.\nAll done.\n"
    assert sim.smi("-lgc", "345,1200") == 'GPU clocks set to "(gpuClkMin 345, gpuClkMax 1200)" for GPU 00000000:1B:00.0\nAll done.\n'
    assert sim.query("ecc.mode.current,ecc.mode.pending") == ["Enabled, Disabled"]
    assert sim.smi("--gpu-reset") == "GPU 00000000:1B:00.0 was successfully reset.\nAll done.\n"
    assert sim.query("ecc.mode.current,ecc.mode.pending,power.limit") == ["Disabled, Disabled, 700.00"]


def test_xml(sim: Sim) -> None:
    def settled(text: str) -> list[str]:
        return [
            re.sub(r"<(timestamp|serial|pdi|[tr]x_util|average_power_draw|instant_power_draw)>.*<", r"<\1>moves<", line)
            for line in text.splitlines()
        ]

    assert settled(sim.smi("-q", "-x")) == settled((FIDELITY / "h200x2-nvidia-smi-q.xml").read_text(encoding="utf-8"))
