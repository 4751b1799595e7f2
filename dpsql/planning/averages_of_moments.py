"""Averages under learned limits: from moments of the rows, where that errs less than from a total and a number of rows.

A total and a number of rows that are limited apart lose different rows, so their quotient is off by what one loses more than the
other; and each gets a part of the price. Moments (n, M - n) of a value scaled to [0, M] get the whole price, and an entity's are
scaled down together: the mean of its values stays what it is, only its weight becomes that of the most rows. But each row counts
as much as the bounds are apart, however small its value is. So which errs less depends on the rows: on how far the totals of
entities are below what their rows could add. The histograms from which both limits were learned tell that, and the choice between
them costs nothing more.

With N rows, at most k of an entity, values in a range of width w with their mean at the place p of it, and noise of u for each
unit of sensitivity, moments err by k w u hypot(p, 1 - p) / N (`summands.Moments`); a total that is at most T and a number of rows
by T u / N and k u |mean - centre| / N, at the shares of the price that are best for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpsql.mechanisms.truncation.histogram import LearnedLimit
from dpsql.planning.centred_averages import averages_of, centres_of
from dpsql.questions.parts import Decomposition
from dpsql.questions.question import Question


def moments_err_less(question: Question, parts: Decomposition, found: Mapping[int, LearnedLimit], *, pure: bool) -> bool:
    """Whether moments give averages with smaller errors. False if the statement asks for other aggregates too. `found` has the
    limit of each part."""
    averages = averages_of(question, parts)
    if not averages or len(averages) < len(question.aggregates):
        return False
    off = {centre.average.call.id: centre.off for centre in centres_of(question, parts, found)}
    gains = 0.0
    for average in averages:
        total, rows = found[average.total], found[average.count]
        if rows.total <= 0:
            return False
        grid = parts.total(average.total).grid
        mean, width = total.total / rows.total, grid.most - grid.least
        place = min(max((mean - grid.least) / width, 0.0), 1.0)
        together = rows.limit * width * math.hypot(place, 1 - place)
        apart = _shared(float(total.limit), rows.limit * abs(mean) * off.get(average.call.id, 1.0), pure=pure)
        gains += math.log(apart / together)
    return gains > 0


def _shared(one: float, other: float, *, pure: bool) -> float:
    """The error of two independent measurements with these errors at the whole price, which is divided between them as is best:
    the least of hypot(one / s, other / (1 - s)) over shares s of a pure epsilon, of hypot(one / sqrt(s), ...) over those of rho.
    """
    return (one ** (2 / 3) + other ** (2 / 3)) ** 1.5 if pure else one + other
