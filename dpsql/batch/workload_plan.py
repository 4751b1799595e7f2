"""How a workload will be measured: the queries of all statements about one view become one matrix, with one plan and one share of
the price."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.column_factors import in_frames
from dpsql.batch.compiling import NumberedSum, group_of
from dpsql.batch.consistency import Consistency, consistency_of, made_consistent
from dpsql.batch.group import Group, GroupPlan, Told
from dpsql.batch.linear_queries import LinearStatement, Recipe
from dpsql.batch.plan_choice import planned, takes
from dpsql.catalog.model import Catalog
from dpsql.errors import OptionError, Unsupported
from dpsql.estimates import Estimate, NoiseTerm
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.begun import begun
from dpsql.planning.choose import budgets_by_account
from dpsql.planning.groups import cells_over, check_values, kept_keys, possible_places
from dpsql.planning.left_out import clamping_note, ownerless, rows_kept, undeclared
from dpsql.planning.options import Options
from dpsql.progress import working
from dpsql.questions.question import OverGroups, Question
from dpsql.sql.binding.domains import Scratch
from dpsql.strategies import clock
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.types import Span
from dpsql.workload.factors import Array

MOST_ANSWERS = 2_000_000


class Place(Frozen):
    """Where a sum of a statement is measured: its group, and for each cell of the statement the number of its query there; -1 if
    no row can be in the cell, so that the sum is 0, and -2 if there is nothing to sum."""

    group: int
    queries: NDArray[np.int64]

    def estimate(self, told: Told, at: int) -> Estimate:
        """The sum in every cell, NaN where there is none, computed from the group's answers; `at` is the sum's number in the
        statement."""
        error = NoiseTerm(kind=told.kind, scale=1.0, together=self.group)
        deviations = np.sqrt(np.maximum(self._in_cells(told.variances), 0))
        found = Estimate(values=self._in_cells(told.values), slopes={(at, self.group): (error, deviations)})
        if told.off is not None:
            found = found.beyond(*map(self._in_cells, told.off))
        return found if told.shown is None else found.shown_as(self._in_cells(told.shown))

    def _in_cells(self, numbers: Array) -> Array:
        return np.where(self.queries >= 0, numbers[self.queries], np.where(self.queries == -1, 0.0, np.nan))

    def weights(self, mixed: Array) -> Array:
        """The weights of noise terms in the error of each cell, (cells, terms); zeros where nothing is measured."""
        return np.where((self.queries >= 0)[:, None], mixed[self.queries], 0.0)


class WorkloadRelease(Frozen):
    """The cells and aggregates of every statement, and notes on the measurements."""

    statements: list[tuple[Cells, dict[str, Estimate]]]
    notes: tuple[str, ...]


class Batch(Frozen):
    """Statements as workloads.

    places    for each statement, where each of its sums is measured
    allotted  the total that is spent
    strategy  the name of the plan; `span` is where the statement names it
    consistency  how a table is fitted to the numbers, if it is
    """

    asked: tuple[LinearStatement, ...]
    groups: tuple[Group, ...]
    places: tuple[tuple[Place, ...], ...]
    allotted: Cost
    strategy: str = "auto"
    span: Span | None = None
    consistency: Consistency | None = None

    @cached_property
    def plans(self) -> tuple[GroupPlan, ...]:
        """One plan for each group, each with an equal share of the planning time."""
        return tuple(self._planned(at) for at in range(len(self.groups)))

    def _planned(self, at: int) -> GroupPlan:
        with clock.part(1 / (len(self.groups) - at)):
            return planned(self.groups[at], self.strategy, self.span)

    def price(self, group: int) -> Cost:
        """The price of a group: the groups have equal shares."""
        return self.allotted.part(Fraction(1, len(self.groups)))

    @property
    def shares(self) -> Iterator[tuple[Group, GroupPlan, Cost]]:
        """Every group with its plan and its price."""
        return zip(self.groups, self.plans, map(self.price, range(len(self.groups))), strict=True)

    def paid(self, allotted: Cost) -> Batch:
        """The same batch with another price."""
        groups = tuple(replace(group, pure=allotted.epsilon is not None) for group in self.groups)
        return replace(self, allotted=allotted, groups=groups)

    def steps(self) -> Generator[Request, Any, WorkloadRelease]:
        """Answer every group; returns the cells and aggregates of every statement, and notes on the measurements."""
        told = []
        for group, plan, price, steps in [(*share, begun(share[1].steps(share[2]))) for share in self.shares]:
            told.append(made_consistent(group, plan, price, (yield from steps), self.consistency))
        return WorkloadRelease(statements=[_possible(one.question, found) for one, found in zip(
                                   self.asked, self._aggregates(told), strict=True)],
                               notes=tuple(dict.fromkeys(note for one in told for note in one.notes)))

    @property
    def mean_variance(self) -> float:
        """The mean of the variances, each divided by the square of the most that one entity adds. Variances that depend on the
        data are ignored; 0 if all do."""
        found = [variances / group.unit**2 / group.moved**2 for group, plan, price in self.shares
                 if (variances := plan.variances(price)) is not None]
        return float(np.mean(np.concatenate(found))) if found else 0.0

    def expected(self) -> list[dict[str, Array]]:
        """The standard errors of every statement's aggregates over its cells, before anything is spent; NaN where they depend on
        the data."""
        return [{name: estimate.deviations for name, estimate in found.items()} for found in self.foreseen()]

    def foreseen(self) -> list[dict[str, Estimate]]:
        """The aggregates of every statement over its cells, before anything is spent: only their errors mean something."""
        told = []
        for group, plan, price in self.shares:
            empty, variances = np.zeros(group.workload.rows), plan.variances(price)
            told.append(Told(values=empty, variances=empty + math.nan if variances is None else variances))
        return self._aggregates(told)

    def _aggregates(self, told: Sequence[Told]) -> list[dict[str, Estimate]]:
        """The aggregates of every statement by their names, from the answers to the groups."""
        found = []
        for one, places in zip(self.asked, self.places, strict=True):
            sums = [estimate.scaled(part.times) for part, estimate in zip(one.sums, estimates_of(places, told), strict=True)]
            found.append({recipe.call.id: made_of(recipe, sums, one.question) for recipe in one.recipes})
        return found


def _possible(question: Question, aggregates: dict[str, Estimate]) -> tuple[Cells, dict[str, Estimate]]:
    """The groups that there can be by the rows of public tables, with their aggregates."""
    cells, places = cells_of(question), possible_places(question)
    if places is None:
        return cells, aggregates
    chosen = np.array(places, dtype=np.intp)
    return tuple(cells[place] for place in places), {name: found.at(chosen) for name, found in aggregates.items()}


def estimates_of(places: Sequence[Place], told: Sequence[Told]) -> list[Estimate]:
    """The sums of a statement over its cells. The errors of sums in one group are dependent: with exact correlations if the
    weights of the noise are known, and in an unknown way otherwise (`NoiseTerm.together`)."""
    found = [place.estimate(told[place.group], at) for at, place in enumerate(places)]
    for group in {place.group for place in places}:
        mine, mixed = [at for at, place in enumerate(places) if place.group == group], told[group].mixed
        if len(mine) > 1 and mixed is not None:
            rewritten = with_uncorrelated_errors(mine, [found[at] for at in mine], [places[at].weights(mixed()) for at in mine],
                                                 NoiseTerm(kind=told[group].kind, scale=1.0))
            for at, estimate in zip(mine, rewritten, strict=True):
                found[at] = estimate
    return found


def with_uncorrelated_errors(names: Sequence[int], sums: Sequence[Estimate], weights: Sequence[Array],
                             error: NoiseTerm) -> list[Estimate]:
    """Rewrite the errors of the sums as combinations of uncorrelated noise terms, as many as there are sums, by a root of each
    cell's covariance matrix. Combinations of the sums are then combinations of these terms, with the right variance."""
    table = np.stack(weights, axis=1)
    values, vectors = np.linalg.eigh(np.einsum("cik,cjk->cij", table, table))
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    return [replace(one, slopes={(name, -1): (error, roots[:, at, piece]) for piece, name in enumerate(names)})
            for at, one in enumerate(sums)]


def made_of(recipe: Recipe, sums: Sequence[Estimate], question: Question) -> Estimate:
    """An aggregate computed from its sums, over the cells of a statement."""
    found = sums[recipe.sums[0]]
    if len(recipe.sums) > 1:
        rows = sums[recipe.sums[1]]
        found = (found / rows).where(rows.values > 0)
        found = found.within(recipe.among.low, recipe.among.high) if recipe.among is not None else found
    over = recipe.call.over
    return found.scaled(1 / counted(question, over)) if over is not None and over.mean else found


def counted(question: Question, over: OverGroups) -> Array:
    """The number of groups that an aggregate over groups sums over, for each cell; at least 1."""
    shape = [len(key.values) for key in question.keys]
    _check_count(math.prod(shape))
    places = possible_places(question)
    there = np.ones(math.prod(shape)) if places is None else np.zeros(math.prod(shape))
    there[places if places is not None else slice(None)] = 1
    found = there.reshape(shape)
    for axis, key in enumerate(question.keys):
        if key.column == over.order:
            found = in_frames(found, axis, key.values, over)
        elif key.column not in over.within:
            found = np.broadcast_to(found.sum(axis=axis, keepdims=True), found.shape)
    return np.maximum(found.reshape(-1), 1)


def cells_of(question: Question) -> Cells:
    """The groups of a statement: all combinations of declared values, for each grouping set. Raises Unsupported for too many."""
    _check_count(cells_count(question))
    return cells_over([key.values for key in question.keys], question)


def identity_of(statements: Sequence[LinearStatement]) -> tuple[object, ...]:
    """A value that identifies statements: what is asked of which sources, with each source once."""
    sources, places = different([one.source for one in statements])
    asked = [(place, one.keys, one.sums, one.recipes, [(key.values, key.type) for key in one.question.keys], one.question.outputs,
              one.question.having, one.question.ordering, one.question.limit, one.question.offset, one.question.distinct,
              one.question.sets, one.question.levels) for place, one in zip(places, statements, strict=True)]
    return sources, asked


def different(sources: Sequence[Node]) -> tuple[list[Node], list[int]]:
    """The distinct sources among these, and for each source its index in that list."""
    found: list[Node] = []
    places = []
    for source in sources:
        if source not in found:
            found.append(source)
        places.append(found.index(source))
    return found, places


def notes_of(made: Batch) -> tuple[str, ...]:
    """How the workloads are measured, as text for people."""
    return tuple(plan.note for plan in made.plans)


def left_out_of(made: Batch, catalog: Catalog) -> tuple[str, ...]:
    """Notes on rows that the answers of a batch do not count, or count in totals only."""
    sources = different([one.source for one in made.asked])[0]
    kept = [note for source in sources for note in rows_kept(source, catalog.entity.name)]
    questions = [one.question for one in made.asked]
    return tuple(dict.fromkeys([*kept, *ownerless(sources, catalog), *clamping_note(questions), *undeclared(questions)]))


# -- from statements to groups


def check_fitting(options: Options) -> None:
    """Raise OptionError for an option that only applies to statements answered on their own."""
    given = {"mechanism": bool(options.mechanisms), "bound": options.bound not in ("auto", "rows"),
             "clip": options.clip is not None,
             "rows": options.stated_rows is not None, "spread": options.stated_spread is not None,
             "max_groups": options.max_groups is not None, "max_frequency": options.max_frequency is not None}
    for name in (name for name, is_given in given.items() if is_given):
        raise OptionError(f"a workload cannot have the option {name}", code="workload", subject=name, span=options.span.get(name),
                          try_="strategy = 'auto' and max_rows, or the statement by itself")


def least(asked: Sequence[LinearStatement], options: Options, public: PublicFacts, scratch: Scratch) -> Batch:
    """The batch charged as a pure epsilon or as rho, whichever has smaller expected errors. Raises OptionError or Unsupported,
    with a span, if anything is wrong."""
    price, strategy, span = options.price, options.strategy or "auto", options.span.get("strategy")
    assert price is not None
    fitting = [replace(held, delta=Fraction(0)) for held in budgets_by_account(price) if takes(strategy,
                                                                                               pure=held.epsilon is not None)]
    if not fitting:
        other = "a pure epsilon, and this price is in rho" if price.rho is not None else "rho, and this price is a pure epsilon"
        raise OptionError(f"the strategy {strategy!r} is for {other}", code="strategy", subject="strategy", span=span,
                          try_="epsilon = 0.5" if price.rho is not None else "delta = 1e-6 beside it, or rho = 0.05")
    first = replace(batch(asked, fitting[0], public, scratch), strategy=strategy, span=span, consistency=consistency_of(options))
    made, values = [first, *map(first.paid, fitting[1:])], []
    with time_for(options):
        for at, one in enumerate(made):
            with clock.part(1 / (len(made) - at)):
                values.append(one.mean_variance)
    best = made[int(np.argmin(values))]
    for _, plan, share in best.shares:
        plan.check(share)
    return best


@contextmanager
def time_for(options: Options) -> Iterator[None]:
    """A context that limits the time for strategy searches to the default, or to the statement's own limit."""
    seconds = float(options.planning) if options.planning is not None else clock.USUAL
    with clock.limited(seconds), working(f"looking for a strategy, at most {seconds:g} s ..."):
        yield


def batch(asked: Sequence[LinearStatement], allotted_: Cost, public: PublicFacts, scratch: Scratch) -> Batch:
    """The workloads of some statements. Raises Unsupported, located, for a statement that is not linear in the cells."""
    for one in asked:
        check_values(one.question)
    _check_count(sum(cells_count(one.question) * max(1, len(one.sums)) for one in asked))  # without sums: only groups
    if not any(one.sums and cells_count(one.question) for one in asked):
        raise Unsupported("these statements contain no aggregates", code="workload", try_="COUNT(*)")
    kinds: dict[object, list[NumberedSum]] = {}  # sums of one expression over one source
    _, places_of = different([one.source for one in asked])
    for number, (one, source) in enumerate(zip(asked, places_of, strict=True)):
        for at, part in enumerate(one.sums):
            kinds.setdefault((part.summand, part.expr, source), []).append(NumberedSum(statement=one, number=number, at=at))
    made = [group_of(members, public, scratch, pure=allotted_.epsilon is not None) for members in kinds.values()]
    places = {(member.number, member.at): Place(group=i, queries=queries) for i, (members, (_, found)) in enumerate(
        zip(kinds.values(), made, strict=True)) for member, queries in zip(members, found, strict=True)}
    return Batch(asked=tuple(asked), groups=tuple(group for group, _ in made), allotted=allotted_, places=tuple(
        tuple(places[number, at] for at in range(len(one.sums))) for number, one in enumerate(asked)))


def _check_count(answers: int) -> None:
    if answers > MOST_ANSWERS:
        raise Unsupported(f"these are {answers} numbers together, more than {MOST_ANSWERS}", code="too-large",
                          try_="fewer keys or grouping sets, coarser keys, or several workloads")


def cells_count(question: Question) -> int:
    """The number of groups that a statement has."""
    sizes = [len(key.values) for key in question.keys]
    return sum(math.prod(sizes[i] for i in kept) for kept in kept_keys(question))
