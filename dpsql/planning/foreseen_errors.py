"""The errors that the answer to a statement will have, computed from its program before anything is spent.

The recipes that compute an aggregate from noisy parts are applied to imagined parts: those of `rows` rows with means, and
variances, at the ends and in the middle of what the declared bounds allow, moved by as much noise as is likely to be drawn. The
widest interval is the error. An interval of a mean widens with the distance of the mean from where it is measured, and one of a
variance or its root is widest at the ends as well, so no other rows have a wider one. The root of a small variance has a far
wider interval than that of a large one, so a standard deviation costs much less if it is known to be above some `spread`.

Ranks. The error of a quantile is the number of rows between it and the ends of its interval. It depends on the price only, if
rows are spread evenly (see `mechanisms.select.quantiles`). How far apart the values of these rows are depends on private rows.
The error of quantiles from counts (`mechanisms.select.rank_counts`) depends on how many rows share a bin, so for an accuracy
quantiles are chosen by selection: `engine.solved_price` names it in the program that is priced, which is the one that runs.

Nothing here reads rows: `rows` is what the analyst states, or follows from released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import numpy as np

from dpsql.errors import OptionError, Unsupported
from dpsql.estimates import Estimate, NoiseTerm, Numbers, margin
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.additive_noise import Gaussian, Laplace, error_of
from dpsql.mechanisms.mechanism import Linear, Ordered, Shared
from dpsql.mechanisms.select.exponential import Exponential
from dpsql.mechanisms.select.permute_and_flip import PermuteAndFlip, coarser
from dpsql.mechanisms.select.quantiles import ENOUGH, EndSide, QuantileSearch
from dpsql.mechanisms.truncation.declared_level import DeclaredLevel
from dpsql.mechanisms.truncation.level_selection import LevelSelection
from dpsql.planning.account_choice import assign, tasks_of
from dpsql.planning.centred_averages import AverageCentre, centred
from dpsql.planning.choose import Choice
from dpsql.planning.contribution_bound import call_in_words
from dpsql.planning.cut_off import cuts_off, open_ends
from dpsql.planning.declared_rows import declared_rows
from dpsql.planning.groups import cells_declared
from dpsql.planning.program import Program
from dpsql.planning.rows_beyond import missing
from dpsql.planning.shared_centres import to_centre
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.parts import Decomposition, Part, Sums
from dpsql.questions.question import AggregateCall
from dpsql.questions.rules.squares import centre_of, square_of
from dpsql.sql.text.statement import Goal
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.node import PublicFacts
from dpsql.trusted.plan.operators.owner_sets import UNIT
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments

LIKELY = 0.98  # the probability that a piece of noise is no larger than it is imagined, in either direction
FAR_ENDS = Fraction(1, 4)  # of 1 - confidence: the probability that one end of a quantile's interval is further off than foreseen
PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of means within their bounds
SPREADS = (0.0, 0.5, 1.0)  # of variances, relative to the largest that is possible at a mean
PRICE = "a price in place of the accuracy: OPTIONS (epsilon = 0.5)"
IN_RANKS = ("ranks", "share")  # the kinds of goals for quantiles

Total: TypeAlias = Callable[[float, float], float]


class AskedError(Frozen):
    """An aggregate, the error that its interval may have at a confidence, and the number of rows of each group, None if it is
    not known. Standard deviations are at least `spread`, as the analyst says."""

    call: AggregateCall
    goal: Goal
    confidence: float
    rows: float | None
    spread: float = 0.0

    @property
    def target(self) -> float:
        """The largest error: in the unit of the aggregate, or for a quantile in rows."""
        if self.goal.kind == "share":
            return float(self.goal.amount) / 100 * self.size
        return float(self.goal.size)

    @property
    def size(self) -> float:
        """The number of rows. Raises Unsupported, located, if it is not known."""
        if self.rows is None:
            raise Unsupported(f"the error of {call_in_words(self.call)} depends on the number of rows, which is not known",
                              code="accuracy-size", span=self.call.span, subject=call_in_words(self.call),
                              try_="OPTIONS (rows = 10000) if you know about how many there are at least, or first a COUNT "
                              "of the same rows and groups")
        return self.rows


def strain(program: Program, public: PublicFacts, asked: Sequence[AskedError]) -> float:
    """The largest ratio of a foreseen error to its target: at most 1 if the price of the program suffices.

    Raises Unsupported, located, if an error depends on private rows.
    """
    for one in asked:
        _check_ends(program, one.call)
    return max(_error(program, parts, choices, one) / one.target
               for parts, choices in _plans(program, public) for one in asked)


def open_side(program: Program, call: AggregateCall) -> bool:
    """Whether one end of the aggregate's interval is open, so that its error is known on the other side only."""
    return any(open_ends(program, call, missing(program.view)))


def _depends(call: AggregateCall, because: str, try_: str) -> Unsupported:
    return Unsupported(f"how accurate {call_in_words(call)} is depends on the data: {because}", code="accuracy", span=call.span,
                       subject=call_in_words(call), try_=try_)


def _check_ends(program: Program, call: AggregateCall) -> None:
    """Raise Unsupported if the interval of an aggregate will be open on both sides."""
    known = program.learned_limit in (None, "centres") and not program.searched
    if known and cuts_off(program) and all(open_ends(program, call, missing(program.view))):
        raise _depends(call, f"bound = '{program.bound.name}' may cut off any part of what an entity contributes", PRICE)
    if known and all(open_ends(program, call, missing(program.view))):
        raise _depends(call, "a limit may leave out any number of rows", "limits_hold = true beside rows_per_entity in the "
                       "policy, if no row is beyond these limits, and no limit in the statement")


def _plans(program: Program, public: PublicFacts) -> Iterator[tuple[Decomposition, Sequence[Choice]]]:
    """The parts and the mechanisms of a program. Where averages are measured from centres that are found first: for each place
    where these may be."""
    call = program.question.aggregates[0]
    if program.undeclared_keys:
        name = program.undeclared_keys[0].name
        raise _depends(call, f"the groups are chosen privately, as the values of {name} are not declared",
                       f"values = [...] for {name} in the policy, or {PRICE}")
    if program.first:
        raise _depends(call, f"{program.first[0][0].awaited.text} is released first", "that value as a number")
    if program.searched:
        name = program.view.names[program.searched[0]]
        raise _depends(call, f"bounds of {name} are searched for", f"bounds = [low, high] for {name} in the policy, or "
                       f"LEAST(GREATEST({name}, 0), 1000)")
    if program.learned_limit not in (None, "centres") or program.degrees is not None:
        raise _depends(call, "a limit on what an entity contributes is learned first",
                       f"rows_per_entity in the policy, or {PRICE}")
    if program.learned_limit is None:
        assert program.chosen is not None
        yield program.decomposition, program.chosen
        return
    averages = to_centre(program.question, program.decomposition)
    for place in PLACES[::2]:
        centres = []
        for average in averages:
            grid = program.decomposition.total(average.total).grid
            at = round((grid.low + place * (grid.high - grid.low)) / grid.step)
            centres.append(AverageCentre(average=average, value=float(at * grid.step)))
        parts, view = centred(program.question, program.decomposition, program.view, centres)
        found = assign(program, tasks_of(program, parts, view, public, {}), cells_declared(program.question))
        yield parts, [choice for choice in found if choice is not None]


def _error(program: Program, parts: Decomposition, choices: Sequence[Choice], one: AskedError) -> float:
    """The foreseen error of an aggregate: infinite if the price is too small for any."""
    used = {choice.task.at: choice for choice in choices if choice.task.at in parts.uses[one.call.id]}
    if one.call.aggregate.kind is Kind.RANK:
        (choice,) = used.values()
        return _in_ranks(program, choice, one)
    if one.call.aggregate.kind in (Kind.PAIR, Kind.MODE, Kind.RELEASED):
        raise _depends(one.call, "its error is known from the answer only", PRICE)
    if one.goal.kind == "standard" and one.call.function.startswith("stddev"):
        raise _depends(one.call, "the standard error of a root grows as it approaches 0", "ERROR WITHIN 50")
    estimate = parts.recipes[one.call.id](_imagined(program, parts, used, one))
    if one.goal.kind == "standard":
        return float(np.max(estimate.deviations))
    low, high = estimate.ends(one.confidence)
    with np.errstate(invalid="ignore"):
        off = np.maximum(estimate.values - low, high - estimate.values)
    return float(np.max(np.where(np.isnan(off), math.inf, off)))


# -- sums


def _imagined(program: Program, parts: Decomposition, used: dict[int, Choice], one: AskedError) -> dict[int, list[Estimate]]:
    """The estimates of the parts that an aggregate uses, each over all imagined rows and noises."""
    linear = one.call.aggregate.linear or one.call.aggregate.kind is Kind.DISTINCT
    shapes = [(0.5, 0.0)] if linear else _shapes(program, one)
    rows = 0.0 if linear else one.size
    cells = max(1, cells_declared(program.question))
    exact = {at: [np.array([total(place, spread) for place, spread in shapes]) * rows
                  for total in _totals(program, parts.parts[at], one.call)] for at in used}
    terms = {at: _term(program, choice, one.call, cells) for at, choice in used.items()}
    names = [(at, i) for at in used for i in range(len(exact[at])) if not linear and i < _moved(parts.parts[at])]
    signs = list(product((-1.0, 0.0, 1.0), repeat=len(names)))
    found: dict[int, list[Estimate]] = {}
    for at in used:
        term, unit = terms[at]
        found[at] = []
        for i, total in enumerate(exact[at]):
            size = margin((term,), (unit,), LIKELY)
            noise = np.array([each[names.index((at, i))] * size if (at, i) in names else 0.0 for each in signs])
            values: Numbers = (total[:, None] + noise[None, :]).reshape(-1)
            found[at].append(Estimate(values=values, slopes={(at, i): (term, np.full(values.shape, unit))}))
    return found


def _shapes(program: Program, one: AskedError) -> list[tuple[float, float]]:
    """The means of imagined rows, as shares of the range of the column, each with variances, as shares of the largest at that
    mean. Raises OptionError if no rows are spread as much as is stated."""
    if not one.call.aggregate.squared:
        return [(place, 0.0) for place in PLACES]
    ends = program.question.view.field(one.call.columns[0]).facts.declared
    least = (one.spread / (float(ends.high) - float(ends.low))) ** 2 if one.spread else 0.0
    if least > 0.25:
        raise OptionError(f"values from {ends.low:g} to {ends.high:g} cannot have a standard deviation of {one.spread:g}",
                          code="accuracy-size", subject="spread", span=program.options.span.get("spread"),
                          try_=f"spread = {(float(ends.high) - float(ends.low)) / 10:g}")
    first = (1 - math.sqrt(1 - 4 * least)) / 2  # the nearest that such a mean may be to an end
    found = []
    for place in (first + part * (1 - 2 * first) for part in PLACES):
        lowest = min(1.0, least / (place * (1 - place))) if 0 < place < 1 else 0.0
        found += [(place, lowest + part * (1 - lowest)) for part in SPREADS]
    return found


def _moved(part: Part) -> int:
    """The number of components of a part that aggregates of one column use."""
    return part.summand.degree + 1 if isinstance(part, Sums) and isinstance(part.summand, Moments) else 1


def _totals(program: Program, part: Part, call: AggregateCall) -> list[Total]:
    """What one row adds to each component of a part, as a function of the mean, as a share of the range, and of the variance, as
    a share of the largest at that mean."""
    if not isinstance(part, Sums) or isinstance(part.summand, Count):
        return [lambda place, spread: 1.0]
    summand = part.summand
    if isinstance(summand, Moments):
        return _of_moments(summand)
    assert isinstance(summand, GridSum)
    step, low, high = float(summand.grid.step), float(summand.grid.low), float(summand.grid.high)
    if call.columns and summand.column == square_of(call.columns[0]):
        known = program.question.view.field(call.columns[0]).facts
        centre = centre_of(known, call.columns[0], {})
        least, width = float(known.declared.low) - centre, float(known.declared.high) - float(known.declared.low)
        return [lambda place, spread: ((least + place * width) ** 2 + spread * place * (1 - place) * width**2) / step]
    return [lambda place, spread: (low + place * (high - low)) / step]


def _of_moments(summand: Moments) -> list[Total]:
    """The Bernstein polynomials of the place of a value in the range, times the total of a row."""
    def square(place: float, spread: float) -> float:
        return place**2 + spread * place * (1 - place)

    whole = float(summand.total)
    found: list[Total] = [lambda place, spread: whole * place, lambda place, spread: whole * (1 - place)]
    if summand.degree == 2:
        found = [lambda place, spread: whole * square(place, spread),
                 lambda place, spread: whole * 2 * (place - square(place, spread)),
                 lambda place, spread: whole * (1 - 2 * place + square(place, spread))]
    return [*found, lambda place, spread: 0.0] if summand.missing else found


def _term(program: Program, choice: Choice, call: AggregateCall, cells: int) -> tuple[NoiseTerm, float]:
    """The noise of each component of a part, and its unit. Raises Unsupported if it depends on private rows."""
    task, mechanism = choice.task, choice.mechanism
    noise: Noise | None = None
    if isinstance(task, Linear) and isinstance(mechanism, Laplace | Gaussian):
        noise = mechanism.noise(task, choice.allotted)
    elif isinstance(task, Shared) and isinstance(mechanism, DeclaredLevel):
        noise = mechanism.noise(task, choice.allotted, cells)
    elif isinstance(task, Shared) and isinstance(mechanism, LevelSelection) and (
            program.known.rows or declared_rows(program.view) or program.options.clip):
        noise = mechanism.largest_noise(task, choice.allotted, cells)
    error = error_of(noise) if noise is not None else None
    if error is None:
        raise _depends(call, f"it is answered by {mechanism.name}", f"rows_per_entity in the policy, or {PRICE}")
    return error, 1 / UNIT if isinstance(task, Shared) else 1.0


# -- ranks


def _in_ranks(program: Program, choice: Choice, one: AskedError) -> float:
    """The number of rows from a quantile to the further end of its interval, which more are between with a small probability
    only."""
    task, call = choice.task, one.call
    if not isinstance(task, Ordered) or not isinstance(choice.mechanism, Exponential | PermuteAndFlip):
        raise _depends(call, f"it is answered by {choice.mechanism.name}", PRICE)
    flip = isinstance(choice.mechanism, PermuteAndFlip)
    search = QuantileSearch(task=replace(task, part=coarser(task.part)) if flip else task, price=choice.allotted, flip=flip)
    at, sure = search.fractions.index(call.fraction or call.aggregate.place or Fraction(0)), program.options.confidence
    far = 0.0
    for sign in (-1, 1):
        side = EndSide(search=search, sign=sign, confidence=sure)
        place, end = side.order.index(at), side.choices[at]
        if place:
            between = float(abs(search.fractions[at] - search.fractions[side.order[place - 1]])) * _counted(search, one)
            if between < end.rows + ENOUGH * end.outer:
                return math.inf  # the end is that of the next quantile
        far = max(far, end.beyond_target(float((1 - sure) * FAR_ENDS)))
    return far


def _counted(search: QuantileSearch, one: AskedError) -> float:
    """What the search will take for the number of rows, or less."""
    noise = search.count_noise
    error = error_of(noise)
    return one.size - 2 * math.sqrt(noise.variance) - (margin((error,), (1.0,), LIKELY) if error is not None else 0.0)
