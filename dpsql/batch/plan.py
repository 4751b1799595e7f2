"""How a workload will be measured: what statements ask of one view becomes one matrix, with one plan and one share."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from dpsql.accounting.cost import Cost
from dpsql.accounting.filter import purse
from dpsql.batch.attributes import Column, attributes, factor
from dpsql.batch.group import Group, Plan, Told
from dpsql.batch.linear import Linear, Sum, column_of
from dpsql.batch.plans import planned, takes
from dpsql.catalog.price import Price
from dpsql.cells import Cells
from dpsql.errors import OptionError, Unsupported
from dpsql.estimates import Error, Estimate
from dpsql.options import Options
from dpsql.plan.certificate import certify
from dpsql.plan.expr.nodes import Expr, Value
from dpsql.plan.node import Node, PublicFacts
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.plan.question import Key
from dpsql.requests import Request
from dpsql.sql.domains import Scratch
from dpsql.types import Span
from dpsql.workload.domain import Attribute, Domain
from dpsql.workload.factors import Array, Factor, Total
from dpsql.workload.workload import Product, Workload

MOST_ANSWERS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the answers of an aggregate lie: in which group of sums, in which part, and how they become cells in order."""

    group: int
    part: int
    shape: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The cells and aggregates of every statement, and what was learned on the way."""

    statements: list[tuple[Cells, dict[str, Estimate]]]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Statements as workloads, and where each of their aggregates is found.

    purse     what all of it spends
    strategy  the name of the plan, with the place where it is asked for
    """

    asked: tuple[Linear, ...]
    groups: tuple[Group, ...]
    places: tuple[tuple[Place, ...], ...]
    purse: Cost
    strategy: str = "auto"
    span: Span | None = None

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """One for each group."""
        return tuple(planned(group, self.strategy, self.span) for group in self.groups)

    @property
    def price(self) -> Cost:
        """An equal share for every group."""
        return self.purse.part(Fraction(1, len(self.groups)))

    def steps(self) -> Generator[Request, Any, Found]:
        """Answer every group; returns the cells and aggregates of every statement, and what was learned on the way."""
        told = []
        for plan in self.plans:
            told.append((yield from plan.steps(self.price)))
        return Found(statements=[self._cells(number, told) for number in range(len(self.asked))],
                     notes=tuple(note for one in told for note in one.notes))

    @property
    def mean_variance(self) -> float:
        """Of all numbers, each against the largest that one entity adds to it; 0 where it depends on the data."""
        found = [variances / group.unit**2 / group.moved**2 for group, plan in zip(self.groups, self.plans, strict=True)
                 if (variances := plan.variances(self.price)) is not None]
        return float(np.mean(np.concatenate(found))) if found else 0.0

    def expected(self) -> list[dict[str, Array]]:
        """The standard errors of every statement's aggregates over its cells, before anything is spent; NaN where they depend on
        the data."""
        told = []
        for group, plan in zip(self.groups, self.plans, strict=True):
            empty, variances = np.zeros(group.workload.rows), plan.variances(self.price)
            told.append(Told(values=empty, variances=empty + math.nan if variances is None else variances))
        made = [self._cells(number, told) for number in range(len(self.asked))]
        return [{name: estimate.deviations for name, estimate in found.items()} for _, found in made]

    def _cells(self, number: int, told: Sequence[Told]) -> tuple[Cells, dict[str, Estimate]]:
        asked, found = self.asked[number], {}
        for at, (part, place) in enumerate(zip(asked.sums, self.places[number], strict=True)):
            at_ = self.groups[place.group].workload.slices[place.part]
            group = told[place.group]
            values, spread = (np.asarray(whole[at_]).reshape(place.shape).transpose(place.order).reshape(-1)
                              for whole in (group.values, group.variances))
            found[part.call.id] = Estimate(values=values, slopes={(at, place.part): (
                Error(kind=group.kind, scale=1.0), np.sqrt(np.maximum(spread, 0)))})
        return cells_of(asked.question.keys), found


def cells_of(keys: Sequence[Key]) -> Cells:
    """All combinations of declared values."""
    return tuple(product(*map(_values, keys)))


def _values(key: Key) -> list[Value]:
    return [*(key.domain.values if key.domain is not None else ()), *([None] if key.nullable else [])]


def identity_of(made: Batch) -> tuple[object, ...]:
    """What tells a workload from others."""
    return "workload", [(one.question, one.source) for one in made.asked], made.purse


def notes_of(made: Batch) -> tuple[str, ...]:
    """How the workloads are measured, for people."""
    return tuple(plan.note for plan in made.plans)


# -- from statements to groups


def check_fitting(options: Options) -> None:
    """Raise OptionError for an option that says how a statement is answered by itself."""
    given = {"mechanism": bool(options.mechanisms), "bound": options.bound not in ("auto", "rows"),
             "clip": options.clip is not None,
             "max_groups": options.max_groups is not None, "max_frequency": options.max_frequency is not None}
    for name in (name for name, is_given in given.items() if is_given):
        raise OptionError(f"a workload takes no {name}", code="workload", subject=name, span=options.span.get(name),
                          try_="strategy = 'auto' and max_rows, or the statement by itself")


def least(asked: Sequence[Linear], price: Price, public: PublicFacts, scratch: Scratch, *, strategy: str = "auto",
          span: Span | None = None) -> Batch:
    """The batch in the account, a pure epsilon or rho, that promises the smaller errors."""
    accounts = [True] if price.rho is not None else [False, True] if price.delta else [False]
    fitting = [concentrated for concentrated in accounts if takes(strategy, pure=not concentrated)]
    if not fitting:
        other = "a pure epsilon, and this price is in rho" if accounts[0] else "rho, and this price is a pure epsilon"
        raise OptionError(f"the strategy {strategy!r} is for {other}", code="strategy", subject="strategy", span=span,
                          try_="epsilon = 0.5" if accounts[0] else "delta = 1e-6 beside it, or rho = 0.05")
    made = [replace(batch(asked, replace(purse(price, concentrated=account), delta=Fraction(0)), public, scratch),
                    strategy=strategy, span=span) for account in fitting]
    best = min(made, key=lambda one: one.mean_variance)
    for plan in best.plans:
        plan.check(best.price)
    return best


def batch(asked: Sequence[Linear], purse_: Cost, public: PublicFacts, scratch: Scratch) -> Batch:
    """The workloads of some statements. Raises Unsupported, located, for what is not linear in cells."""
    answers = sum(math.prod(len(_values(key)) for key in one.question.keys) * len(one.sums) for one in asked)
    if answers > MOST_ANSWERS:
        raise Unsupported(f"these statements ask for {answers} numbers together, more than {MOST_ANSWERS}", code="workload",
                          try_="fewer groups, or several workloads")
    kinds: list[list[tuple[int, int, Sum]]] = []  # sums of one expression over one source
    for number, one in enumerate(asked):
        for at, part in enumerate(one.sums):
            same = next((members for members in kinds if _alike(members[0], asked, one, part)), None)
            if same is None:
                kinds.append([(number, at, part)])
            else:
                same.append((number, at, part))
    groups: list[Group] = []
    places: dict[tuple[int, int], Place] = {}
    for members in kinds:
        group, found = _group(len(groups), asked, members, public, scratch, pure=purse_.epsilon is not None)
        groups.append(group)
        places |= found
    return Batch(asked=tuple(asked), groups=tuple(groups), purse=purse_, places=tuple(
        tuple(places[number, at] for at in range(len(one.sums))) for number, one in enumerate(asked)))


def _alike(member: tuple[int, int, Sum], asked: Sequence[Linear], one: Linear, part: Sum) -> bool:
    number, _, other = member
    return (part.summand, part.expr) == (other.summand, other.expr) and one.source == asked[number].source


def _group(number: int, asked: Sequence[Linear], members: Sequence[tuple[int, int, Sum]], public: PublicFacts,
           scratch: Scratch, *, pure: bool) -> tuple[Group, dict[tuple[int, int], Place]]:
    source, part = asked[members[0][0]].source, members[0][2]
    columns = attributes([Linear(question=asked[at].question, source=source, keys=asked[at].keys, sums=(sum_,))
                          for at, _, sum_ in members])
    parts: list[Product] = []
    places: dict[tuple[int, int], Place] = {}
    for at, place, sum_ in members:
        made, shape, order = _part(asked[at], sum_, columns, scratch)
        places[at, place] = Place(group=number, part=len(parts), shape=shape, order=order)
        parts.append(made)
    if not columns:  # nothing tells rows apart: one attribute of one value
        parts, domain = [Product((Total(1),))] * len(parts), Domain((Attribute("all", 1),))
    else:
        domain = Domain(tuple(Attribute(column.ref.column, len(column.values)) for column in columns))
    view = _view(source, columns, part.expr)
    moved = certify(Tally(input=view, keys=(), summands=(part.summand,)), public).summands[0].l1
    assert moved is not None
    unit = float(part.summand.grid.step) if isinstance(part.summand, GridSum) else 1.0
    return Group(view=view, columns=columns, summand=part.summand, workload=Workload(domain, tuple(parts)), moved=moved,
                 unit=unit, pure=pure), places


def _view(source: Node, columns: Sequence[Column], value: Expr | None) -> Node:
    """The columns that cells are made of, and the value that is summed."""
    shown = [(f"a{i}", column.ref.column, column.code) for i, column in enumerate(columns)]
    if value is not None:
        shown.append(("value", "value", value))
    if not shown:
        return source
    return Project(input=source, columns=tuple(shown))


def _part(one: Linear, part: Sum, columns: Sequence[Column],
          scratch: Scratch) -> tuple[Product, tuple[int, ...], tuple[int, ...]]:
    """The product of one aggregate's factors; the shape of its answers by key, as they lie; and the order that puts the keys
    into that of the statement."""
    factors: list[Factor] = []
    shape: list[int] = []
    lying: list[int] = []
    for column in columns:
        mine = [i for i, key in enumerate(one.keys) if (ref := column_of(key)) is not None and ref.column == column.ref.column]
        tests = [test for test in part.tests if (ref := column_of(test)) is not None and ref.column == column.ref.column]
        lists = [_values(one.question.keys[i]) for i in mine]
        groups = list(product(*lists)) if mine else None
        factors.append(factor(column, groups, [one.keys[i] for i in mine], tests, scratch))
        shape += [len(values) for values in lists]
        lying += mine
    constant = [i for i in range(len(one.keys)) if i not in lying]
    shape += [len(_values(one.question.keys[i])) for i in constant]
    lying += constant
    if any(not any(made.column_powers(1)) for made in factors):
        raise Unsupported("no declared value fulfils these conditions", code="workload", span=part.call.span,
                          try_="conditions that some values fulfil")
    return Product(tuple(factors)), tuple(shape), tuple(int(i) for i in np.argsort(lying))
