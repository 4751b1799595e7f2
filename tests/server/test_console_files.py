"""The files of the console, without a browser: what a reader of their source would look for first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_chart_svg import SHAPES, charts_of, drawn

from dpsql.answers.chart_svg import WIDE
from dpsql.answers.html_page import DARK, LIGHT

FOLDER = Path(__file__).parents[2] / "dpsql" / "server" / "console"
MODULES = sorted(FOLDER.glob("*.js"))
OF_PICTURES = "picture.js"  # makes anew what it parsed
AS_MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\(.style")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_takes_no_text_for_markup_or_program(module: Path) -> None:
    """It says what it is for, and imports what is there."""
    text = module.read_text(encoding="utf-8")
    assert text.startswith("/** ")
    assert {found.group() for found in AS_MARKUP.finditer(text)} == ({"DOMParser"} if module.name == OF_PICTURES else set())
    assert [name for name in re.findall(r'from "(.*?)"', text) if not (FOLDER / name).is_file()] == []
    assert len(text.splitlines()) <= 200


def test_pages_hold_no_program_and_no_style_of_their_own() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|https?://", page) == []


def test_lines_are_short_enough() -> None:
    for path in FOLDER.glob("*.*"):
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 130, path.name


def test_pictures_are_of_what_the_console_knows_and_look_as_in_pages() -> None:
    """Whatever is drawn, nothing of it is left out; and the colours of both are the same."""
    script, style = ((FOLDER / name).read_text(encoding="utf-8") for name in (OF_PICTURES, "console.css"))
    elements, attributes = re.findall(r"new Set\(\s*[\[`](.*?)[\]`]", script, re.DOTALL)
    for name in SHAPES:
        for chart in charts_of(name):
            picture = drawn(chart, WIDE)
            assert {part.tag for part in picture.iter()} <= {*re.findall(r"\w+", elements)}
            assert {key for part in picture.iter() for key in part.attrib} <= {*attributes.split()}
    told = {name: tuple(colours) for name, *colours in re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", style)}
    assert {name: told[name] for name in LIGHT if re.fullmatch(r"bar|mark|c\d", name)} == {
        name: (LIGHT[name], DARK[name]) for name in LIGHT if re.fullmatch(r"bar|mark|c\d", name)}


def test_what_was_written_elsewhere_is_small_and_has_its_licence() -> None:
    vendored = {path.name: path for path in (FOLDER / "vendor").iterdir()}
    assert set(vendored) == {"codemirror.js", "codemirror.LICENSE.txt"}
    assert sum(path.stat().st_size for path in vendored.values()) < 450_000
    assert "Permission is hereby granted" in vendored["codemirror.LICENSE.txt"].read_text(encoding="utf-8")
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", vendored["codemirror.js"].read_text(encoding="utf-8"))
