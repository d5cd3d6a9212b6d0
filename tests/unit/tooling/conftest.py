"""The test tools are plain scripts, not part of the collection: put them on the path."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for folder in ("tests", "tests/lab"):
    sys.path.insert(0, str(ROOT / folder))
