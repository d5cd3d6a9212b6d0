"""The pages that are made from rows and catalogue are as those say."""

from __future__ import annotations

from . import render_docs
from .conftest import ROOT


def test_findings_page_is_current() -> None:
    text = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert text == render_docs.findings(), f"run {render_docs.COMMAND}"


def test_driver_tables_are_current() -> None:
    text = (ROOT / "docs/driver_tables.md").read_text(encoding="utf-8")
    assert text == render_docs.driver_tables(), f"run {render_docs.COMMAND}"


def test_tables_of_the_matrix_page_are_current() -> None:
    text = (ROOT / "docs/matrix.md").read_text(encoding="utf-8")
    assert text == render_docs.matrix_page(), f"run {render_docs.COMMAND}"
