"""What the pages that people read have in common: one self-contained file, light or dark as the reader's screen is, also on a
phone and on paper. Nothing is fetched, and nothing runs."""

from __future__ import annotations

import html
from collections.abc import Iterable

STYLE = """
.dpsql { --text: #1d2329; --dim: #5b6570; --line: #d5dae0; --page: #fff; --band: #dde7f3; --bar: #8fb3dc; --mark: #16324f;
  --good: #23703f; --bad: #b3372f; --unsure: #8a6414; --none: #6b7076; --near: #e3f1e7; --far: #f6d9d5; --model: #eceef1;
  font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 62rem; margin: 0 auto;
  padding: 1rem; box-sizing: border-box; overflow-wrap: break-word; }
@media (prefers-color-scheme: dark) { .dpsql { --text: #e4e7ea; --dim: #a3acb5; --line: #3a424b; --page: #14181c; --band: #243447;
  --bar: #3f6d9e; --mark: #f0d9a8; --good: #6cc08a; --bad: #ef8a80; --unsure: #d9b45c; --none: #9aa1a8; --near: #1d3a29;
  --far: #562a26; --model: #262c33; } html:has(> body > .dpsql) { background: #14181c; } }
.dpsql h1 { font-size: 1.5rem; line-height: 1.25; } .dpsql h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem;
  border-bottom: 1px solid var(--line); } .dpsql h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
.dpsql code, .dpsql pre { font-size: 13px; } .dpsql pre { white-space: pre-wrap; } .dpsql .dim { color: var(--dim); }
.dpsql .check { margin: 1rem 0; } .dpsql .word { font-weight: 600; }
.dpsql table { border-collapse: collapse; } .dpsql td, .dpsql th { padding: .15rem .8rem .15rem 0; text-align: left;
  vertical-align: top; color: inherit; } .dpsql .wide { overflow-x: auto; }
.dpsql svg { display: block; max-width: 100%; height: auto; font-family: inherit; } .dpsql svg text { fill: var(--text); }
.dpsql svg .dim { fill: var(--dim); } .dpsql .wide > svg { min-width: 48rem; }
@media print { .dpsql { --text: #000; --dim: #444; --line: #bbb; --page: #fff; --band: #dde7f3; --bar: #8fb3dc; --mark: #16324f;
  --good: #23703f; --bad: #b3372f; --unsure: #8a6414; --none: #6b7076; --near: #e3f1e7; --far: #f6d9d5; --model: #eceef1;
  max-width: none; padding: 0; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .dpsql .check, .dpsql figure, .dpsql tr { break-inside: avoid; } .dpsql h2, .dpsql h3 { break-after: avoid; } }
"""


def document(title: str, parts: Iterable[str], style: str = "") -> str:
    """A page. The parts are HTML already; `style` is added to that of all pages."""
    head = ("<meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>"
            f"<title>{html.escape(title)}</title><style>body {{ margin: 0; }}</style>")
    return f"<!doctype html><html lang=en>{head}<body>{fragment(parts, style)}</body></html>\n"


def fragment(parts: Iterable[str], style: str = "") -> str:
    """The body of a page, to stand among other things, as in a notebook."""
    return f"<style>{STYLE}{style}</style><div class=dpsql>{''.join(parts)}</div>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{f' class={kind}' if kind else ''}>{html.escape(text)}</p>"


def picture(parts: Iterable[str], width: int, height: int, label: str) -> str:
    """A picture of SVG parts, with words for those who cannot see it."""
    head = f"<svg viewBox='0 0 {width} {height}' width='{width}' role='img' aria-label='{html.escape(label)}'>"
    return f"{head}{''.join(parts)}</svg>"
