"""The files of the console, without a browser: what a reader of their source would look for first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "dpsql" / "server" / "console"
MODULES = sorted(FOLDER.glob("*.js"))
AS_MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\(.style")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_takes_no_text_for_markup_or_program(module: Path) -> None:
    """It says what it is for, and imports what is there."""
    text = module.read_text(encoding="utf-8")
    assert text.startswith("/** ") and AS_MARKUP.search(text) is None
    assert [name for name in re.findall(r'from "(.*?)"', text) if not (FOLDER / name).is_file()] == []
    assert len(text.splitlines()) <= 200


def test_pages_hold_no_program_and_no_style_of_their_own() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|https?://", page) == []


def test_lines_are_short_enough() -> None:
    for path in FOLDER.glob("*.*"):
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 130, path.name


def test_what_was_written_elsewhere_is_small_and_has_its_licence() -> None:
    vendored = {path.name: path for path in (FOLDER / "vendor").iterdir()}
    assert set(vendored) == {"codemirror.js", "codemirror.LICENSE.txt"}
    assert sum(path.stat().st_size for path in vendored.values()) < 450_000
    assert "Permission is hereby granted" in vendored["codemirror.LICENSE.txt"].read_text(encoding="utf-8")
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", vendored["codemirror.js"].read_text(encoding="utf-8"))
