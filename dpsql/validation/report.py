"""A page about a validation, for people to read: one self-contained HTML file, made from released and public values only.

The checks of a family, which have the same aggregate, stand together. Those for which a noisy slack was told, and of which an
entity moves the answer by a known amount, are drawn, one on a line: in the middle the synthetic answer, around it the tolerance
as a band, and the interval that covers the private answer. All checks are drawn again on one scale, that of the slack: how many
entities would have to come or go until the truth changes.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

from dpsql.answers.html_page import document, paragraph, picture
from dpsql.validation.findings import INCONCLUSIVE, NO, UNTESTED, YES, Finding, Validation

WIDTH, LEFT, LINE, EDGE = 860, 400, 24, 14
FARTHEST = 2.5  # tolerances from the synthetic answer; what lies beyond is drawn at the end
LONGEST = 46  # letters of a query beside its line
COLOURS = {YES: "var(--good)", NO: "var(--bad)", INCONCLUSIVE: "var(--unsure)", UNTESTED: "var(--none)"}


def page(made: Validation, title: str = "Is the synthetic table good enough?") -> str:
    """The page as text."""
    counts = "".join(f"<tr><td class=word style='color:{COLOURS[word]}'>{word}</td><td>{count}</td></tr>"
                     for word, count in made.counts.items())
    parts = [f"<h1>{html.escape(title)}</h1>", f"<table>{counts}</table>", paragraph(_terms(made), "dim"),
             *(paragraph(note, "dim") for note in made.notes)]
    for family, findings in _families(made.findings).items():
        placed = [found for found in findings if found.truth is not None]
        parts += [f"<h2>{html.escape(family)}</h2>", _plot(placed) if placed else "", *(_check(found) for found in findings)]
    slacks = [found for found in made.findings if found.slack is not None and found.spread is not None]
    if slacks:
        parts += ["<h2>How far from a change</h2>", "<p class=dim>Entities that would have to come or go until the truth changes,"
                  " with 95 % intervals. Right of the line: within the tolerance. The scale is logarithmic far from it.</p>",
                  _slacks(slacks)]
    return document(title, parts)


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
    facts = [f"synthetic {_synthetic(found)}", f"tolerance {html.escape(found.tolerance)}"]
    if found.slack is not None and found.margin is not None:
        facts.append(f"slack {found.slack:,} ± {found.margin:,.0f}")
    if found.truth is not None:
        facts.append(f"private answer between {found.truth[0]:,.6g} and {found.truth[1]:,.6g}")
    if found.held is not None:
        facts.append(f"what each entity adds is limited to {found.held:,.6g}")
    if found.p_outside is not None and found.p_inside is not None:
        facts.append(f"chance of such a result if it were outside {found.p_outside:.3g}, if it were within {found.p_inside:.3g}")
    if found.mistakes:
        facts.append(f"chance of a wrong decision, by the number of entities until the truth changes: {found.chances}")
    return (f"<div class=check><code>{html.escape(found.query)}</code><br>"
            f"<span class=word style='color:{COLOURS[found.decision]}'>{found.decision}</span> "
            f"<span class=dim>{'; '.join(facts)}</span></div>")


def _synthetic(found: Finding) -> str:
    return f"{found.synthetic[0]:,.6g}" if len(found.synthetic) == 1 else f"{len(found.synthetic)} groups"


def _plot(findings: Sequence[Finding]) -> str:
    """The checks of a family, each in units of its tolerance."""
    scale, height = _Scale(-FARTHEST, FARTHEST), LINE * len(findings)
    band = f"<rect x='{scale.at(-1):.1f}' y='0' width='{scale.at(1) - scale.at(-1):.1f}' height='{height}' fill='var(--band)'/>"
    parts = [band, f"<line x1='{scale.at(0):.1f}' x2='{scale.at(0):.1f}' y1='0' y2='{height}' stroke='var(--mark)'/>"]
    for i, found in enumerate(findings):
        y = LINE * i + LINE // 2
        parts.append(f"<g><title>{html.escape(found.query)}</title>{_label(found, y)}")
        if found.truth is not None:
            ends = [(end - found.synthetic[0]) / ((found.high[0] - found.low[0]) / 2) for end in found.truth]
            low, high = (max(-FARTHEST, min(FARTHEST, end)) for end in ends)
            parts.append(_whisker(scale, low, high, y, COLOURS[found.decision], cut=(ends[0] < low, ends[1] > high)))
        parts.append("</g>")
    names = {-1: "- tolerance", 0: "synthetic answer", 1: "+ tolerance"}
    parts += [_tick(scale.at(at), height, name) for at, name in names.items()]
    return _wide(parts, height + 20, "tolerance around the synthetic answer, and interval of the private one, of every check")


def _label(found: Finding, y: int) -> str:
    """The query and its decision, left of its line."""
    text = found.query if len(found.query) <= LONGEST else found.query[: LONGEST - 1] + "…"
    return (f"<text x='{LEFT - 80}' y='{y + 4}' font-size='11' text-anchor='end'>{html.escape(text)}</text>"
            f"<text x='{LEFT - 72}' y='{y + 4}' font-size='11' style='fill: {COLOURS[found.decision]}'>{found.decision}</text>")


def _slacks(findings: Sequence[Finding]) -> str:
    rows = [(found, *(found.slacks or (0.0, 0.0))) for found in findings]
    ends = [end for _, low, high in rows for end in (low, high)]
    scale, parts = _Scale(_squeezed(min(0.0, *ends)), _squeezed(max(0.0, *ends))), []
    height = LINE * len(rows)
    for i, (found, low, high) in enumerate(rows):
        y, colour = LINE * i + LINE // 2, COLOURS[found.decision]
        parts.append(f"<g><title>{html.escape(found.query)}: {found.slack}</title>{_label(found, y)}"
                     + _whisker(scale, _squeezed(low), _squeezed(high), y, colour)
                     + f"<circle cx='{scale.at(_squeezed(found.slack or 0)):.1f}' cy='{y}' r='3' fill='{colour}'/></g>")
    shown = sorted({0, round(min(0.0, *ends)), round(max(0.0, *ends))})
    parts += [_tick(scale.at(_squeezed(at)), height, f"{at:,}") for at in shown]
    parts.insert(0, f"<line x1='{scale.at(0):.1f}' x2='{scale.at(0):.1f}' y1='0' y2='{height}' stroke='var(--dim)'/>")
    return _wide(parts, height + 20, "slack of every check")


def _squeezed(slack: float) -> float:
    """Near slacks matter most: a scale that is even around 0 and logarithmic far from it."""
    return math.asinh(slack / 3)


class _Scale:
    """Places across the picture."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._width = low, (high - low) or 1.0

    def at(self, value: float) -> float:
        return LEFT + EDGE + (WIDTH - LEFT - 2 * EDGE) * (value - self._low) / self._width


def _whisker(scale: _Scale, low: float, high: float, y: int, colour: str, cut: tuple[bool, bool] = (False, False)) -> str:
    """An interval; an end that lies beyond the picture has an arrow."""
    first, last = scale.at(low), scale.at(high)
    drawn = f"<line x1='{first:.1f}' x2='{last:.1f}' y1='{y}' y2='{y}' stroke='{colour}' stroke-width='2'/>"
    for x, beyond, way in ((first, cut[0], -1), (last, cut[1], 1)):
        back = x - 6 * way if beyond else x
        drawn += f"<path d='M{back:.1f},{y - 4} L{x:.1f},{y} L{back:.1f},{y + 4}' fill='none' stroke='{colour}'/>"
    return drawn


def _tick(x: float, height: int, name: str) -> str:
    return f"<text x='{x:.1f}' y='{height + 15}' font-size='11' class='dim' text-anchor='middle'>{name}</text>"


def _wide(parts: Sequence[str], height: int, label: str) -> str:
    """A picture that does not shrink below what can be read: on a narrow screen it is moved sideways."""
    return f"<div class=wide>{picture(parts, WIDTH, height, label)}</div>"
