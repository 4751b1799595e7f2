"""Whatever is asked, at whatever price, of whatever data: plans that follow the data end, and cost no more than is charged."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.accounting.cost import FREE, concentrated, pure
from dpsql.batch import dawa, privtree
from dpsql.batch.attributes import Column
from dpsql.batch.group import Group
from dpsql.errors import OptionError
from dpsql.kernel.looks import blocks, partition, tree
from dpsql.kernel.noise.source import Secure
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.expr.nodes import Ref
from dpsql.plan.node import Node, Stability
from dpsql.plan.operators.constants import Constants
from dpsql.plan.operators.summands import Count
from dpsql.requests import Blocks, Partition
from dpsql.strategies.base import Refusal
from dpsql.types import Type
from dpsql.workload.domain import domain
from dpsql.workload.factors import Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload


class Cells:
    """A context whose database holds these counts."""

    def __init__(self, counts: np.ndarray[Any, Any]) -> None:
        at = np.nonzero(counts)
        self.found = [*(np.ma.MaskedArray(axis.astype(np.int64)) for axis in at), np.ma.MaskedArray(counts[at].astype(np.int64))]
        self.noise, self.reader = Secure(), self

    def sql(self, plan: Node) -> str:
        return ""

    def columns(self, sql: str) -> list[Any]:
        return self.found


def factor(n: int, draw: random.Random) -> Factor:
    low, high = sorted((draw.randrange(n), draw.randrange(n)))
    some = np.array([[draw.randrange(2) for _ in range(n)] for _ in range(draw.randint(1, 4))])
    some[0, draw.randrange(n)] = 1
    return draw.choice([Identity(n), Prefix(n), Total(n), Ranges(n, (0, low), (high, high)), Dense(some), Dense(some[:1])])


def drawn(draw: random.Random) -> tuple[Group, np.ndarray[Any, Any]]:
    sizes = [draw.choice([2, 3, 5, 17, 60, 130]) for _ in range(draw.choice([1, 1, 2]))]
    parts = tuple(Product(tuple(factor(n, draw) for n in sizes)) for _ in range(draw.randint(1, 3)))
    columns = tuple(Column(name=f"a{i}", ref=Ref(column=f"a{i}", type=Type.BIGINT), code=Ref(column=f"a{i}", type=Type.BIGINT),
                           values=tuple(range(n)), stands=tuple(range(n))) for i, n in enumerate(sizes))
    numbers = np.random.RandomState(draw.randrange(2**31))
    counts = numbers.poisson(draw.choice([0, 0.1, 5, 1e4]), sizes) * (numbers.random_sample(sizes) < draw.random())
    return Group(view=Constants(columns=(), rows=()), columns=columns, summand=Count(), workload=Workload(domain(*sizes), parts),
                 moved=draw.choice([1, 3, 10**6]), unit=1.0, pure=draw.random() < 0.5), counts


def test_plans_end_and_cost_no_more_than_is_charged(effort: float) -> None:
    draw, ended = random.Random(17), 0
    for _ in range(round(150 * effort)):
        group, counts = drawn(draw)
        plan = (dawa if len(group.columns) == 1 else privtree).plan(group)
        if isinstance(plan, Refusal):
            assert group.smaller.workload.domain.size == 1
            continue
        amount = draw.choice([Fraction(1, 1000), Fraction(1, 50), Fraction(1, 3), Fraction(7), Fraction(900)])
        price = pure(amount) if group.pure else concentrated(amount)
        plan.check(price)
        steps, cells, spent = plan.steps(price), Cells(counts), FREE
        request = next(steps)
        while True:
            spent += request.cost(Certificate(below=Stability(rows=group.moved), summands=(Sensitivity(l1=group.moved, l2=group.moved),)))
            assert price.covers(spent)
            look = blocks.look if isinstance(request, Blocks) else partition.look if isinstance(request, Partition) else tree.look
            try:
                request = steps.send(look(request, cells))  # type: ignore[arg-type]
            except StopIteration as done:
                told = done.value
                break
        assert told.values.shape == told.variances.shape == (group.workload.rows,) and told.kind == "approximate"
        assert np.isfinite(told.values).all() and (told.variances >= 0).all()
        ended += 1
    assert ended > 100


def test_a_price_without_noise_is_refused_before_it_is_charged() -> None:
    draw = random.Random(3)
    for _ in range(20):
        group, _ = drawn(draw)
        plan = (dawa if len(group.columns) == 1 else privtree).plan(group)
        if isinstance(plan, Refusal):
            continue
        try:
            plan.check(pure(Fraction(1, 10**22)))
        except OptionError as fault:
            assert "too small" in fault.reason
        else:
            raise AssertionError("nothing can be drawn for this price")
