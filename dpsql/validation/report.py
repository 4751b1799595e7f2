"""A page about a validation, for people to read: one self-contained HTML file, made from released and public values only.

Every check is a row: the verdict, the whole query with what was compared, and a bar on a scale that all share. It says how many
entities would have to be added or removed until the private answer crosses the edge of the tolerance, with an interval.
Statistics are folded away; the probability of mistakes is stated once for all checks with the same noise.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence

from dpsql.answers.display import number
from dpsql.answers.html_page import document, facts, figures, folded, heading, paragraph
from dpsql.validation.findings import INCONCLUSIVE, NO, UNTESTED, YES, Finding, Validation, in_six_digits

COLOURS = {YES: "var(--good)", NO: "var(--bad)", INCONCLUSIVE: "var(--unsure)", UNTESTED: "var(--none)"}
SIGNS = {YES: "✓", NO: "✗", INCONCLUSIVE: "?", UNTESTED: "–"}
MEANINGS = {
    YES: "the private answer is within the tolerance of the synthetic one", NO: "it is not",
    INCONCLUSIVE: "the private answer is so near the edge of the tolerance, or the price so low, that the noise hides it",
    UNTESTED: "the price was used up before"}
EVEN = 3  # entities around which the scale is even; it is logarithmic far from there


def page(made: Validation, title: str = "Is the synthetic table good enough?") -> str:
    """The page as text."""
    scale = _Scale(made.findings)
    parts = [heading(1, title), _counts(made), _head(made), _how_to_read(made),
             *(paragraph(note, "dim") for note in made.notes), "<h2>Every check</h2>", _scale_head(made, scale),
             *(_check(found, scale) for found in made.findings), *_mistakes(made)]
    return document(title, parts, "checks")


def _counts(made: Validation) -> str:
    """How many checks had each decision."""
    counts = "".join(f"<span>{_verdict(word)}: {count} of {len(made.findings)}</span>" for word, count in made.counts.items())
    return f"<div class=counts>{counts}</div>"


def _verdict(word: str) -> str:
    return f"<span class=verdict style='color:{COLOURS[word]}'>{SIGNS[word]} {word}</span>"


def _head(made: Validation) -> str:
    cost = "nothing, as it was answered before" if made.stored else made.cost or "nothing"
    shared = ("suite", f"{made.suite}: how {len(made.findings)} checks shared the price" if len(made.findings) > 1 else "")
    return facts([("cost", cost), shared]) if made.occasion is None else made.occasion.head(cost) + facts([shared])


def _how_to_read(made: Validation) -> str:
    told = "".join(f"<li>{_verdict(word)}: {html.escape(MEANINGS[word])}</li>" for word in made.counts)
    return (f"<ul>{told}</ul>" + paragraph(
        "Each query was asked of the synthetic table, exactly, and it was decided, with noise that protects each "
        f"{_entity(made)}, whether the private answer is near it. Of the decisions called yes, and of those called no, at most "
        f"{made.alpha:.0%} are wrong on average."))


def _entity(made: Validation) -> str:
    return "entity" if made.occasion is None else made.occasion.spending.entity


def _entities(made: Validation) -> str:
    return "entities" if made.occasion is None else f"entities (each a {made.occasion.spending.entity})"


# -- the checks


class _Scale:
    """Places of slacks across a bar, in hundredths of it: even around the edge of the tolerance, and logarithmic far from it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        ends = [end for found in findings for end in found.slacks or ()]
        self.most = max((abs(end) for end in ends), default=0.0) or 1.0

    def at(self, slack: float) -> float:
        return 50 + 49 * math.asinh(slack / EVEN) / math.asinh(self.most / EVEN)


def _scale_head(made: Validation, scale: _Scale) -> str:
    """What the columns are, above them."""
    far = f"{scale.most:,.0f}"
    return ("<div class='check head dim'><span>verdict</span><span>query</span><div class=scale>how many "
            f"{html.escape(_entities(made))} would have to be added or removed until the private answer crosses the edge of the "
            "tolerance, with 95 % intervals; the scale is logarithmic far from the edge"
            f"<div class=ends><span>{far} outside</span><span>edge</span><span>{far} inside</span></div></div></div>")


def _check(found: Finding, scale: _Scale) -> str:
    told = [f"synthetic {_synthetic(found)}", f"tolerance {found.tolerance}"]
    if found.truth is not None:
        told.append(f"private answer between {_shown(found.truth[0])} and {_shown(found.truth[1])}")
    if found.held is not None:
        told.append(f"each entity's contribution is limited to {found.held:,.6g}")
    return (f"<div class=check>{_verdict(found.decision)}<div><code>{html.escape(found.query)}</code><br>"
            f"<span class=dim>{html.escape('; '.join(told))}</span></div><div class=scale>{_bar(found, scale)}"
            f"<span>{_distance(found)}</span></div><div class=more>{folded('statistics', _statistics(found))}</div></div>")


def _synthetic(found: Finding) -> str:
    return _shown(found.synthetic[0]) if len(found.synthetic) == 1 else f"{len(found.synthetic)} groups"


def _shown(value: float) -> str:
    return f"{float(in_six_digits(value)):,.12g}"


def _distance(found: Finding) -> str:
    """What a bar says, in words."""
    if found.decision == UNTESTED:
        return "not tested"
    if found.slack is None:
        return "this method reports no distance"
    side = "inside" if found.slack >= 1 else "outside"
    within = "" if found.margin is None else f" ± {found.margin:,.0f}"
    return f"{abs(found.slack):,}{within} {side}"


def _bar(found: Finding, scale: _Scale) -> str:
    """The two sides of the edge, and where the private answer is, as far as the noise tells."""
    sides = ("<rect x='0' y='4' width='50' height='12' fill='var(--far)'/><rect x='50' y='4' width='50' height='12' "
             "fill='var(--near)'/><path d='M50 1V19' stroke='var(--dim)' vector-effect='non-scaling-stroke'/>")
    label = html.escape(f"{found.decision}: {_distance(found)}")
    return (f"<svg viewBox='0 0 100 20' preserveAspectRatio='none' role='img' aria-label='{label}'><title>{label}</title>{sides}"
            f"{_place(found, scale)}</svg>")


def _place(found: Finding, scale: _Scale) -> str:
    pen = f"stroke='{COLOURS[found.decision]}' fill='none' stroke-width='{{}}' vector-effect='non-scaling-stroke'"
    if found.slack is None:  # decided, but not how far: all of that side
        first, last = {YES: (50, 99), NO: (1, 50)}.get(found.decision, (1, 99))
        return f"<path d='M{first} 10H{last}' {pen.format(2)} stroke-dasharray='3 4'/>"
    low, high = (scale.at(end) for end in found.slacks or (found.slack, found.slack))
    middle = scale.at(found.slack)
    return (f"<path d='M{low:.2f} 10H{high:.2f}M{low:.2f} 6V14M{high:.2f} 6V14' {pen.format(2)}/>"
            f"<path d='M{middle:.2f} 3V17' {pen.format(4)}/>")


# -- statistics


def _statistics(found: Finding) -> str:
    """All that is known of a check."""
    told = [("decided by", found.decider), ("price", found.price)]
    if found.slack is not None and found.spread is not None:
        told.append(("distance", f"{found.slack:,}, with noise of standard deviation {found.spread:,.4g}"))
    if found.p_outside is not None:
        told.append(("if the private answer were outside",
                     f"a result at least this good has probability {found.p_outside:.3g}"))
    if found.p_inside is not None:
        told.append(("if it were inside", f"a result at least this bad has probability {found.p_inside:.3g}"))
    return facts(told) + _groups(found)


def _groups(found: Finding) -> str:
    """The tolerance of each group, as open intervals."""
    keys = len(found.cells[0]) if found.cells else 0
    heads = [*(f"key {i}" if keys > 1 else "group" for i in range(1, keys + 1)), "synthetic", "more than", "less than"]
    return figures(heads, ([*map(number, cell), f"{answer:,.10g}", f"{low:,.10g}", f"{high:,.10g}"] for cell, answer, low, high in
                           zip(found.cells, found.synthetic, found.low, found.high, strict=True)), texts=range(keys))


def _mistakes(made: Validation) -> Iterator[str]:
    """How likely a wrong decision is, by the distance, once for all checks that have it in common."""
    curves: dict[tuple[tuple[int, float], ...], list[int]] = {}
    for i, found in enumerate(made.findings, start=1):
        if found.mistakes:
            curves.setdefault(found.mistakes, []).append(i)
    if not curves:
        return
    yield "<h2>How reliable a single decision is</h2>"
    yield paragraph(f"The farther the private answer is from the edge, as to how many {_entities(made)} would have to come "
                    "or go, the less likely is a wrong yes or a wrong no. A higher price makes it less likely.")
    for curve, checks in curves.items():
        if len(curves) > 1:
            yield f"<h3>Check{'s' if len(checks) > 1 else ''} {', '.join(map(str, checks))}</h3>"
        yield figures(("distance", "probability of a wrong decision, at most"), ((f"{distance:,}", f"{chance:.2g}")
                                                                           for distance, chance in curve), texts=())
