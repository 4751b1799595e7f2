"""The common parts of HTML pages: one self-contained file, in light or dark mode, also for phones and paper. Nothing is fetched,
and nothing runs."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

LIGHT = {"text": "#1d2329", "dim": "#5b6570", "line": "#d5dae0", "page": "#fff", "band": "#dde7f3", "bar": "#5f8fc4",
         "mark": "#16324f", "good": "#23703f", "bad": "#b3372f", "unsure": "#8a6414", "none": "#6b7076", "near": "#e3f1e7",
         "far": "#f6d9d5", "model": "#eceef1", "c0": "#1f5fa8", "c1": "#b35000", "c2": "#23703f",
         "c3": "#7a3fa0", "c4": "#b3372f", "c5": "#0f6f78", "c6": "#a8326e", "c7": "#5b6570", "c8": "#6b5f00", "c9": "#4b3a8f"}
DARK = {"text": "#e4e7ea", "dim": "#a3acb5", "line": "#3a424b", "page": "#14181c", "band": "#243447", "bar": "#3f6d9e",
        "mark": "#fff8e6", "good": "#6cc08a", "bad": "#ef8a80", "unsure": "#d9b45c", "none": "#9aa1a8", "near": "#1d3a29",
        "far": "#562a26", "model": "#262c33", "c0": "#7fb2ea", "c1": "#f0a050", "c2": "#6cc08a", "c3": "#c79be8",
        "c4": "#ef8a80", "c5": "#5cc4cf", "c6": "#ee8cbc", "c7": "#a3acb5", "c8": "#d0c350", "c9": "#a9a4f5"}
PAPER = {**LIGHT, "text": "#000", "dim": "#444", "line": "#bbb"}
"""The colours of screens and of paper. What is read or told apart by its colour stands out from the page by 4.5 to 1 or more."""

SVG = "http://www.w3.org/2000/svg"  # by which a picture is one also where it stands alone
MOST_BESIDE = 4  # columns on a narrow screen


def document(title: str, parts: Iterable[str], *styles: str) -> str:
    """A page. `parts` are HTML; `styles` are files in `styles/`, used in addition to the style of all pages."""
    head = ("<meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>"
            f"<title>{html.escape(title)}</title><style>body {{ margin: 0; }}</style>")
    return f"<!doctype html><html lang=en>{head}<body>{fragment(parts, *styles)}</body></html>\n"


def fragment(parts: Iterable[str], *styles: str) -> str:
    """The body of a page, which can be embedded, for example in a notebook."""
    rules = "".join(map(_rules, ("page", *styles)))
    return f"<style>{_colours()}{rules}</style><div class=dpsql>{''.join(parts)}</div>"


@cache
def _rules(name: str) -> str:
    return (Path(__file__).parent / "styles" / f"{name}.css").read_text(encoding="utf-8")


def _colours() -> str:
    """The colours of each medium, as variables."""
    light, dark, paper = (f".dpsql {{ {' '.join(f'--{name}: {colour};' for name, colour in palette.items())} }}"
                          for palette in (LIGHT, DARK, PAPER))
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n@media print {{ {paper} }}\n"


def heading(level: int, text: str) -> str:
    """A heading of plain text."""
    return f"<h{level}>{html.escape(text)}</h{level}>"


def bullets(texts: Iterable[str]) -> str:
    """A list of plain texts."""
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{f' class={kind}' if kind else ''}>{html.escape(text)}</p>"


def picture(parts: Iterable[str], width: int, height: int, label: str) -> str:
    """A picture of SVG parts, with words for those who cannot see it."""
    head = f"<svg xmlns='{SVG}' viewBox='0 0 {width} {height}' width='{width}' role='img' aria-label='{html.escape(label)}'>"
    return f"{head}{''.join(parts)}</svg>"


def facts(told: Iterable[tuple[str, str]]) -> str:
    """Facts about a page, as pairs of plain texts; empty ones are left out."""
    lines = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in told if text)
    return f"<table class=facts>{lines}</table>"


def figures(heads: Sequence[str], lines: Iterable[Sequence[str]], *, texts: Sequence[int] = (0,)) -> str:
    """A table of plain texts; columns are aligned as numbers, except those at the positions `texts`. If it is too wide for a
    narrow screen, each row is shown there as a block with a line for each column."""
    named = [html.escape(head) for head in heads]
    kinds = ["" if i in texts else " class=number" for i in range(len(heads))]
    head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, named, strict=True))
    body = "".join("<tr>" + "".join(f"<td{kind} data-of='{name}'>{html.escape(cell)}</td>"
                                    for kind, name, cell in zip(kinds, named, cells, strict=True)) + "</tr>" for cells in lines)
    return (f"<div class=wide><table class='figures{' many' if len(heads) > MOST_BESIDE else ''}'><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>")


def folded(summary: str, parts: str) -> str:
    """HTML that is shown when its summary, a plain text, is clicked."""
    return f"<details><summary>{html.escape(summary)}</summary>{parts}</details>"


def code(text: str) -> str:
    """A statement or a plan, with its line breaks preserved."""
    return f"<pre>{html.escape(text)}</pre>"
