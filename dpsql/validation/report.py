"""A page about a validation, for people to read: one self-contained HTML file, made from released and public values only.

Each check is drawn on a line: the tolerance around the synthetic answer as a band, the synthetic answer as a mark, and, where a
noisy slack was told and an entity moves the answer by a known amount, the interval that covers the private answer. All checks
are drawn again on one scale, that of the slack: how many entities would have to come or go until the truth changes.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from statistics import NormalDist

from dpsql.validation.result import INCONCLUSIVE, NO, UNTESTED, YES, Finding, Validation

WIDTH, HEIGHT, EDGE = 640, 34, 10
COLOURS = {YES: "#2c7a4b", NO: "#b3372f", INCONCLUSIVE: "#a0761a", UNTESTED: "#777"}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid #ddd; }
code { font-size: 13px; } .dim { color: #666; } .check { margin: 1rem 0; } .word { font-weight: 600; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; }
svg { display: block; }
"""


def page(made: Validation, title: str = "Is the synthetic table good enough?") -> str:
    """The page as text."""
    counts = "".join(f"<tr><td class=word style='color:{COLOURS[word]}'>{word}</td><td>{count}</td></tr>"
                     for word, count in made.counts.items())
    parts = [f"<h1>{html.escape(title)}</h1>", f"<table>{counts}</table>",
             f"<p class=dim>{html.escape(_terms(made))}</p>", *(f"<p class=dim>{html.escape(note)}</p>" for note in made.notes)]
    for family, findings in _families(made.findings).items():
        parts.append(f"<h2>{html.escape(family)}</h2>")
        parts += [_check(found) for found in findings]
    slacks = [found for found in made.findings if found.slack is not None and found.spread is not None]
    if slacks:
        parts += ["<h2>How far from a change</h2>", "<p class=dim>Entities that would have to come or go until the truth changes,"
                  " with 95 % intervals. Right of the line: within the tolerance.</p>", _slacks(slacks)]
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>"
            f"<body>{''.join(parts)}</body></html>\n")


def _terms(made: Validation) -> str:
    share = f"of those called yes, and of those called no, an expected {made.alpha:.0%} at most are wrong"
    return f"{len(made.findings)} checks, suite: {made.suite}; {share}; cost {made.cost or 'nothing'}"


def _families(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The findings by their aggregate."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        name = re.search(r"\b([a-zA-Z_]+)\s*\(\s*(DISTINCT\b)?", finding.query)
        family = " ".join(part.upper() for part in name.groups() if part) if name else "checks"
        found.setdefault(family, []).append(finding)
    return found


def _check(found: Finding) -> str:
    colour = COLOURS[found.decision]
    sure = "" if found.p_outside is None or found.p_inside is None else (
        f"; chance of such a result if it were outside {found.p_outside:.3g}, if it were within {found.p_inside:.3g}")
    drawn = _values(found) if len(found.synthetic) == 1 else ""
    return (f"<div class=check><code>{html.escape(found.query)}</code><br>"
            f"<span class=word style='color:{colour}'>{found.decision}</span> "
            f"<span class=dim>synthetic {_synthetic(found)}, tolerance {html.escape(found.tolerance)}{sure}</span>{drawn}</div>")


def _synthetic(found: Finding) -> str:
    return f"{found.synthetic[0]:,.6g}" if len(found.synthetic) == 1 else f"{len(found.synthetic)} groups"


def _values(found: Finding) -> str:
    """The band of the tolerance, the synthetic answer, and the interval of the private one."""
    low, high, synthetic = found.low[0], found.high[0], found.synthetic[0]
    ends = [low, high, *(found.truth or ())]
    scale = _Scale(min(ends), max(ends))
    parts = [f"<rect x={scale.at(low):.1f} y=8 width={max(1.0, scale.at(high) - scale.at(low)):.1f} height=14 fill='#dde7f3'/>",
             f"<line x1={scale.at(synthetic):.1f} x2={scale.at(synthetic):.1f} y1=4 y2=26 stroke='#345' stroke-width=2 />"]
    if found.truth is not None:
        parts.append(_whisker(scale, *found.truth, 15, COLOURS[found.decision]))
    return _picture(parts, HEIGHT, "tolerance, synthetic answer, interval of the private answer")


def _slacks(findings: Sequence[Finding]) -> str:
    rows = [(found, *_interval(found)) for found in findings]
    ends = [end for _, low, high in rows for end in (low, high)]
    scale, parts = _Scale(_squeezed(min(0.0, *ends)), _squeezed(max(0.0, *ends))), []
    for i, (found, low, high) in enumerate(rows):
        y, colour = 12 + 16 * i, COLOURS[found.decision]
        parts.append(f"<g><title>{html.escape(found.query)}: {found.slack}</title>"
                     + _whisker(scale, _squeezed(low), _squeezed(high), y, colour)
                     + f"<circle cx={scale.at(_squeezed(found.slack or 0)):.1f} cy={y} r=3 fill='{colour}'/></g>")
    height = 16 * len(rows) + 12
    parts.insert(0, f"<line x1={scale.at(0):.1f} x2={scale.at(0):.1f} y1=0 y2={height} stroke='#999'/>")
    return _picture(parts, height, "slack of every check")


def _interval(found: Finding) -> tuple[float, float]:
    margin = NormalDist().inv_cdf(0.975) * (found.spread or 0.0)
    return (found.slack or 0) - margin, (found.slack or 0) + margin


def _squeezed(slack: float) -> float:
    """Near slacks matter most: a scale that is even around 0 and logarithmic far from it."""
    return math.asinh(slack / 3)


class _Scale:
    """Places across the picture."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._width = low, (high - low) or 1.0

    def at(self, value: float) -> float:
        return EDGE + (WIDTH - 2 * EDGE) * (value - self._low) / self._width


def _whisker(scale: _Scale, low: float, high: float, y: int, colour: str) -> str:
    first, last = scale.at(low), scale.at(high)
    ends = "".join(f"<line x1={x:.1f} x2={x:.1f} y1={y - 4} y2={y + 4} stroke='{colour}'/>" for x in (first, last))
    return f"<line x1={first:.1f} x2={last:.1f} y1={y} y2={y} stroke='{colour}' stroke-width=2 />{ends}"


def _picture(parts: Sequence[str], height: int, label: str) -> str:
    return f"<svg width={WIDTH} height={height} role=img aria-label='{html.escape(label)}'>{''.join(parts)}</svg>"
