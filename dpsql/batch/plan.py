"""How a workload will be measured: what statements ask of one view becomes one matrix, with one strategy and one share."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.cost import Cost
from dpsql.accounting.filter import purse
from dpsql.batch.attributes import Column, attributes, factor
from dpsql.batch.linear import Linear, Sum, column_of
from dpsql.catalog.price import Price
from dpsql.cells import Cells
from dpsql.errors import OptionError, Unsupported
from dpsql.estimates import Error, Estimate
from dpsql.mechanisms.additive.gaussian import sigma_of
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.plan.certificate import certify
from dpsql.plan.expr.nodes import Expr, Value
from dpsql.plan.node import Node, PublicFacts
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.plan.question import Key
from dpsql.requests import WIDEST, Axis, Blocked, Blocks, Request
from dpsql.sql.domains import Scratch
from dpsql.strategies.base import Block, Strategy
from dpsql.strategies.catalogue import GAUSSIAN, LAPLACE, Verdict, best
from dpsql.workload.domain import Attribute, Domain
from dpsql.workload.factors import Array, Dense, Factor, Total
from dpsql.workload.workload import Product, Reduced, Workload, reduced

MOST_ANSWERS = 2_000_000
SLACK = 1 + 1e-9  # of scales, so that no rounding makes a measurement dearer than its share


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the answers of an aggregate lie: in which group of sums, in which part, and how they become cells in order."""

    group: int
    part: int
    shape: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """All sums of one kind over one source: the workload, its view, and what one entity adds.

    moved   the most that an entity adds to the cells, in the summand's integers
    unit    the value of one of these integers
    """

    view: Node
    columns: tuple[Column, ...]
    summand: Count | GridSum
    workload: Workload
    moved: int
    unit: float
    pure: bool

    @cached_property
    def smaller(self) -> Reduced:
        return reduced(self.workload)

    @cached_property
    def planned(self) -> tuple[Strategy, list[Verdict]]:
        return best(self.smaller.workload, plans=LAPLACE if self.pure else GAUSSIAN)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Statements as workloads, and where each of their aggregates is found. `purse` is what all of it spends."""

    asked: tuple[Linear, ...]
    groups: tuple[Group, ...]
    places: tuple[tuple[Place, ...], ...]
    purse: Cost

    def price(self, group: int) -> Cost:
        """An equal share for every group."""
        return self.purse.part(Fraction(1, len(self.groups)))

    def steps(self) -> Generator[Request, Any, list[tuple[Cells, dict[str, Estimate]]]]:
        """Measure every group once; returns the cells and aggregates of every statement."""
        answers, variances = [], []
        for i, group in enumerate(self.groups):
            strategy, _ = group.planned
            request = request_of(group, strategy, self.price(i))
            told: Blocked = yield request
            given = [np.array(part, dtype=float) for part in told.answers]
            answers.append(strategy.reconstruct(given, group.smaller.workload) * group.unit)
            variances.append(variances_of(group, strategy, self.price(i)))
        return [self._cells(number, answers, variances) for number in range(len(self.asked))]

    @property
    def mean_variance(self) -> float:
        """Of all numbers, each against the largest that one entity adds to it."""
        found = [variances_of(group, group.planned[0], self.price(i)) / group.unit**2 / group.moved**2
                 for i, group in enumerate(self.groups)]
        return float(np.mean(np.concatenate(found)))

    def expected(self) -> list[dict[str, Array]]:
        """The standard errors of every statement's aggregates over its cells, before anything is spent."""
        variances = [variances_of(group, group.planned[0], self.price(i)) for i, group in enumerate(self.groups)]
        made = [self._cells(number, [np.zeros(group.workload.rows) for group in self.groups], variances)
                for number in range(len(self.asked))]
        return [{name: estimate.deviations for name, estimate in found.items()} for _, found in made]

    def _cells(self, number: int, answers: Sequence[Array], variances: Sequence[Array]) -> tuple[Cells, dict[str, Estimate]]:
        asked, found = self.asked[number], {}
        for at, (part, place) in enumerate(zip(asked.sums, self.places[number], strict=True)):
            at_ = self.groups[place.group].workload.slices[place.part]
            values, spread = (np.asarray(whole[at_]).reshape(place.shape).transpose(place.order).reshape(-1)
                              for whole in (answers[place.group], variances[place.group]))
            found[part.call.id] = Estimate(values=values, slopes={(at, place.part): (
                Error(kind="gaussian", scale=1.0), np.sqrt(np.maximum(spread, 0)))})
        return cells_of(asked.question.keys), found


def cells_of(keys: Sequence[Key]) -> Cells:
    """All combinations of declared values."""
    return tuple(product(*map(_values, keys)))


def _values(key: Key) -> list[Value]:
    return [*(key.domain.values if key.domain is not None else ()), *([None] if key.nullable else [])]


def request_of(group: Group, strategy: Strategy, price: Cost) -> Blocks:
    """The strategy's blocks over the view, with scales that this price pays for."""
    unit = price.epsilon if strategy.noise == "laplace" else price.rho
    assert unit is not None
    worst = strategy.sensitivity.value
    if strategy.noise == "laplace":
        stretch = scale_of(worst * group.moved / unit) * SLACK
    else:
        stretch = sigma_of(worst * group.moved**2 / (2 * unit)) * SLACK
    axes = tuple(Axis(column=f"a{i}", values=column.values) for i, column in enumerate(group.columns))
    line = strategy.domain.shape != group.smaller.workload.domain.shape  # all cells are one attribute there
    places = [_in_line(group.smaller)] if line else list(group.smaller.classes)
    blocks = tuple(Block(axes=block.axes, scale=block.scale * stretch, factors=tuple(
        widened(own, places[axis]) for axis, own in zip(block.axes, block.factors, strict=True))) for block in strategy.blocks)
    return Blocks(view=group.view, axes=axes, summand=group.summand, blocks=blocks, noise=strategy.noise, line=line)


def _in_line(smaller: Reduced) -> NDArray[np.int64]:
    """For each cell its number among the cells of the reduced domain; -1 where no query counts it."""
    found, counted = np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool)
    for numbers, size in zip(smaller.classes, smaller.workload.domain.shape, strict=True):
        found = (found[:, None] * size + np.maximum(numbers, 0)[None, :]).reshape(-1)
        counted = (counted[:, None] & (numbers >= 0)[None, :]).reshape(-1)
    return np.where(counted, found, -1)


def widened(own: Factor, numbers: NDArray[np.int64]) -> Factor:
    """A factor over merged values as one over all of them: values that are merged have equal columns, others zeros."""
    if len(numbers) == own.n and (numbers == np.arange(own.n)).all():
        return own
    dense = own.dense()
    wide = np.zeros((dense.shape[0], len(numbers)), dtype=dense.dtype)
    wide[:, numbers >= 0] = dense[:, numbers[numbers >= 0]]
    return Dense(wide)


def variances_of(group: Group, strategy: Strategy, price: Cost) -> Array:
    """The variance of every answer of a group at a price, in the unit of the aggregate."""
    amount = float(price.epsilon if strategy.noise == "laplace" and price.epsilon is not None else price.rho)
    return strategy.variances(group.smaller.workload, amount) * (group.moved * group.unit) ** 2


def check_scales(made: Batch) -> None:
    """Raises OptionError where the price is so small that no noise of 64 bits pays for it."""
    for i, group in enumerate(made.groups):
        if any(not block.scale <= WIDEST for block in request_of(group, group.planned[0], made.price(i)).blocks):
            raise OptionError("the price is too small for this workload", code="price", try_="a larger epsilon or rho")


def identity_of(made: Batch) -> tuple[object, ...]:
    """What tells a workload from others."""
    return "workload", [(one.question, one.source) for one in made.asked], made.purse


def notes_of(made: Batch) -> tuple[str, ...]:
    """How the workloads were measured, for people."""
    found = []
    for group in made.groups:
        strategy, _ = group.planned
        known = strategy.certificate
        sure = f", {known}" if known is not None and known.bound > 0 else ""
        found.append(f"{group.workload.rows} numbers over {group.workload.domain.size} cells by {strategy.name}{sure}")
    return tuple(found)


# -- from statements to groups


def least(asked: Sequence[Linear], price: Price, public: PublicFacts, scratch: Scratch) -> Batch:
    """The batch in the account, a pure epsilon or rho, that promises the smaller errors."""
    accounts = (True,) if price.rho is not None else (False, True) if price.delta else (False,)
    made = [batch(asked, replace(purse(price, concentrated=account), delta=Fraction(0)), public, scratch) for account in accounts]
    best_ = min(made, key=lambda one: one.mean_variance)
    check_scales(best_)
    return best_


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
