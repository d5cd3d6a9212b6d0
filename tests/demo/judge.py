#!/usr/bin/env python3
"""Says whether the demo went as announced: three hosts healthy, the broken one stopped by the gate with its finding."""

from __future__ import annotations

import json
import sys
from pathlib import Path

BROKEN = "broken01"


def complaints(report: dict[str, object], rc: int) -> list[str]:
    rows = {row["host"]: row for row in report["hosts"]}  # type: ignore[attr-defined]
    found = [f"{name} is {row['status']}, expected ok" for name, row in rows.items() if name != BROKEN and row["status"] != "ok"]
    broken = rows.get(BROKEN)
    if broken is None:
        return [*found, f"{BROKEN} is not in the report"]
    if not broken["status"].startswith("stopped"):
        found.append(f"{BROKEN} is {broken['status']}, expected: stopped by the gate")
    if not any(finding["severity"] == "block" and "580.105.08" in finding["message"] + finding["found"] for finding in broken["findings"]):
        found.append(f"{BROKEN} has no blocking finding that names the loaded module 580.105.08")
    if rc == 0:
        found.append("the run ended with 0 although a host was stopped")
    return found


def main() -> int:
    found = complaints(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]))
    for line in found:
        print(f"demo: {line}", file=sys.stderr)
    if not found:
        print(f"As announced: the healthy hosts are done, and the gate stopped {BROKEN} (hence the exit code of the rollout itself).")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
