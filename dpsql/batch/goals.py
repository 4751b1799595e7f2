"""From the requested accuracy to the largest allowed variance of each number.

A standard error s allows s^2. ERROR WITHIN x with confidence p allows (x / z)^2, where z is the two-sided quantile at p of noise
with standard deviation 1: for Gaussian noise that of the normal distribution; for Laplace noise one that holds for every weighted
sum of it (`estimates.laplaces`). Noise and counts are multiples of the summand's unit u, so an error of at most x is one of at
most u floor(x / u). A continuous distribution stands for each multiple by the half unit on either side of it, so x is replaced by
u (floor(x / u) + 1/2) if that is less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsql.batch.group import Kind
from dpsql.batch.linear_queries import LinearStatement, Recipe
from dpsql.batch.workload_plan import Batch, cells_count, counted
from dpsql.catalog.price import exact
from dpsql.errors import OptionError, ProgrammingError, Unsupported
from dpsql.estimates import laplaces, normal
from dpsql.frozen import Frozen, replace
from dpsql.planning.foreseen_errors import IN_RANKS
from dpsql.questions.all_aggregates import Kind as Aggregated
from dpsql.questions.question import AggregateCall, Output, Question
from dpsql.sql.text.accuracy_clause import MOST
from dpsql.sql.text.statement import Goal, Option
from dpsql.trusted.plan.expr.nodes import Ref, columns
from dpsql.workload.factors import Array


def slopes(one: LinearStatement, recipe: Recipe) -> Array:
    """The absolute derivative of an aggregate with respect to its sum, for each cell."""
    over = recipe.call.over
    cells = np.ones(cells_count(one.question))
    mean = counted(one.question, over) if over is not None and over.mean else 1.0
    return np.asarray(cells * abs(one.sums[recipe.sums[0]].times) / mean)


def read_goal(error_within: object, standard_error: object) -> Goal | None:
    """The accuracy of all statements of a workload, from the arguments of a call; None if they state none. Raises OptionError."""
    if error_within is None and standard_error is None:
        return None
    if error_within is not None and standard_error is not None:
        raise OptionError("give either error_within or standard_error, not both", code="accuracy",
                          subject="standard_error", try_="only one of them, or a clause in each statement")
    name, value = ("error_within", error_within) if standard_error is None else ("standard_error", standard_error)
    return Goal(kind="within" if standard_error is None else "standard",
                amount=exact(value, name, least=Fraction(1, MOST), most=Fraction(MOST)))


def split_goal(options: Sequence[Option]) -> tuple[list[Option], Goal | None]:
    """Split the options of a call into the others and the accuracy that some of them state. Raises OptionError."""
    own = {option.name: option.value for option in options if option.name in ("error_within", "standard_error")}
    goal = read_goal(own.get("error_within"), own.get("standard_error"))
    return [option for option in options if option.name not in own], goal


def goal_clause(goal: Goal, confidence: Fraction) -> str:
    """The clause that states a goal, as it is written in SQL."""
    if goal.kind == "standard":
        return f"STANDARD ERROR {_written(goal.amount)}"
    of = (" ROWS" if goal.kind == "ranks" else " PERCENT OF ROWS" if goal.kind == "share" else "" if goal.of is None
          else f" PERCENT OF {_written(goal.of)}")
    return f"ERROR WITHIN {_written(goal.amount)}{of} CONFIDENCE {_written(goal.confidence or confidence)}"


def _written(number: Fraction) -> str:
    """A number as text that reads back as the same number."""
    return str(number) if number.denominator == 1 else f"{float(number):.15g}"


def allowed(goal: Goal, confidence: Fraction, unit: float, kind: Kind) -> float:
    """The variance that meets a goal, for noise of this kind on multiples of `unit`."""
    size = float(goal.size)
    if goal.kind == "standard":
        return size**2
    sure = float(goal.confidence or confidence)
    whole = unit * (math.floor(size / unit * (1 + 1e-12)) + 0.5)
    return (min(size, whole) / (laplaces(sure) if kind == "laplaces" else normal(sure))) ** 2


class Goals(Frozen):
    """The goals of each statement's aggregates, by their names in its question. `confidence` is that of goals that state none."""

    each: tuple[dict[str, Goal], ...]
    confidence: Fraction

    def targets(self, made: Batch, group: int, kind: Kind) -> Array:
        """The largest variance that each number of a group may have; infinite for those without a goal."""
        workload = made.groups[group].workload
        found, shown = np.full(workload.rows, math.inf), np.zeros(workload.rows, dtype=bool)
        for one, places, goals in zip(made.asked, made.places, self.each, strict=True):
            for recipe in one.recipes:
                if recipe.call.id not in goals or places[recipe.sums[0]].group != group:
                    continue
                times, queries = slopes(one, recipe), places[recipe.sums[0]].queries
                for each in np.unique(times).tolist():
                    most = allowed(goals[recipe.call.id], self.confidence, made.groups[group].unit * each, kind)
                    np.minimum.at(found, queries[(times == each) & (queries >= 0)], most / each**2)
        for places in made.places:
            for place in places:
                if place.group == group:
                    shown[place.queries[place.queries >= 0]] = True
        for part in workload.slices:  # cells of undeclared values, which no statement shows, get the least target of their part
            found[part] = np.where(shown[part], found[part], found[part].min(initial=math.inf))
        return found

    def wider(self, factor: float) -> Goals:
        """The goals with all errors widened by a factor, rounded up to three digits."""
        return replace(self, each=tuple({name: replace(goal, amount=_rounded_up(goal.amount * Fraction(factor)))
                                         for name, goal in goals.items()} for goals in self.each))

    def __str__(self) -> str:
        texts = list(dict.fromkeys(goal_clause(goal, self.confidence) for goals in self.each for goal in goals.values()))
        return ", ".join(texts if len(texts) <= 4 else [*texts[:3], f"and {len(texts) - 3} more"])


def _rounded_up(number: Fraction) -> Fraction:
    grain = Fraction(10) ** (math.floor(math.log10(number)) - 2)
    return math.ceil(number / grain) * grain


def goals_of(question: Question, clauses: Sequence[Goal], general: Goal | None, *, linear: bool = True) -> dict[str, Goal]:
    """The goal of each aggregate of a statement. Raises a located error if a clause is wrong; with `linear`, also for an
    aggregate that is not a COUNT or a SUM."""
    common = next((clause for clause in clauses if clause.column is None), general)
    own = {clause.column: clause for clause in clauses if clause.column is not None}
    found: dict[str, Goal] = {}
    for at, output in enumerate(question.outputs):
        goal = own.get(at, common)
        if goal is None:
            continue
        read = columns(output.expr) & {call.id for call in question.aggregates}
        if not read:
            if at in own:
                raise ProgrammingError(f"{output.name} is exact", code="accuracy", span=goal.span, subject=output.name,
                                       try_="the clause after an aggregate")
            continue
        name = _aggregate(question, output, goal, linear=linear)
        found[name] = goal if name not in found else _tighter(goal, found[name])
    if common is not None and not found:
        raise ProgrammingError("this statement has no aggregate", code="accuracy", span=common.span,
                               try_="COUNT(*) or SUM(x) beside its keys")
    return found


def with_minimum_goal(one: LinearStatement, goals: dict[str, Goal]) -> dict[str, Goal]:
    """The goals, with one for the count by which small groups are withheld, unless another aggregate with a goal is the same
    count. The added goal is a standard error of a quarter of the minimum, so that most groups of twice as many entities are
    shown."""
    if (rule := one.question.minimum) is None:
        return goals
    sums = {recipe.call.id: recipe.sums for recipe in one.recipes}
    if any(sums[name] == sums[rule.count] for name in goals):
        return goals
    return {**goals, rule.count: Goal(kind="standard", amount=Fraction(rule.rows * rule.entities, 4))}


def _aggregate(question: Question, output: Output, goal: Goal, *, linear: bool) -> str:
    """The aggregate that a column shows. Raises Unsupported, located."""
    calls = {call.id: call for call in question.aggregates}
    for name in sorted(columns(output.expr) & set(calls)):
        if linear and not calls[name].aggregate.linear:
            text = calls[name].text or calls[name].function.upper()
            raise Unsupported(f"a workload for an accuracy has COUNT and SUM, and {text} is neither", code="accuracy",
                              span=calls[name].span or goal.span, subject=text, try_="the statement by itself, which may have an "
                              "accuracy too; or SUM and COUNT, each with an accuracy")
        _check_kind(calls[name], goal)
    if not isinstance(output.expr, Ref):
        raise Unsupported(f"{output.name} is computed from aggregates", code="accuracy", span=output.expr.span or goal.span,
                          subject=output.name, try_="each aggregate in a column of its own, with its accuracy")
    return output.expr.column


def _check_kind(call: AggregateCall, goal: Goal) -> None:
    """Raise Unsupported, located, unless the goal of a quantile is in ranks, and that of anything else is not."""
    text = call.text or call.function.upper()
    if call.aggregate.kind is Aggregated.RANK and call.aggregate.place is not None:
        raise Unsupported(f"{text} aims inside the data, and its interval ends at the declared bound", code="accuracy",
                          span=call.span or goal.span, subject=text, try_="QUANTILE_CONT(x, 0.99), or OPTIONS (epsilon = 0.5)")
    if call.aggregate.kind is Aggregated.RANK and goal.kind not in IN_RANKS:
        raise Unsupported(f"how far {text} is off depends on how close the values are; its rank has an error that is known "
                          "beforehand", code="accuracy", span=call.span or goal.span, subject=text,
                          try_="ERROR WITHIN 100 ROWS, or ERROR WITHIN 2 PERCENT OF ROWS, after this column")
    if call.aggregate.kind is not Aggregated.RANK and goal.kind in IN_RANKS:
        raise Unsupported(f"an error in ROWS is for quantiles, and {text} is none", code="accuracy", span=call.span or goal.span,
                          subject=text, try_="ERROR WITHIN 50, or ERROR WITHIN 5 PERCENT OF 1000")


def _tighter(a: Goal, b: Goal) -> Goal:
    if (a.kind, a.confidence) != (b.kind, b.confidence):
        raise ProgrammingError("the same aggregate has two accuracies", code="accuracy", span=a.span, try_="one of them")
    return min(a, b, key=lambda goal: goal.size)
