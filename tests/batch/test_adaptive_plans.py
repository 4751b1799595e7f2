"""Whatever is asked, at whatever price, of whatever data: plans that follow the data end, and cost no more than is charged."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
from bench.bench_cells import Cells, group, told

from dpsql.batch import dawa, privtree
from dpsql.batch.group import Group
from dpsql.errors import OptionError
from dpsql.strategies.strategy import Refusal
from dpsql.trusted.accounting.cost import FREE, concentrated, pure
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability
from dpsql.workload.domain import domain
from dpsql.workload.factors import Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload


def factor(n: int, draw: random.Random) -> Factor:
    low, high = sorted((draw.randrange(n), draw.randrange(n)))
    some = np.array([[draw.randrange(2) for _ in range(n)] for _ in range(draw.randint(1, 4))])
    some[0, draw.randrange(n)] = 1
    return draw.choice([Identity(n), Prefix(n), Total(n), Ranges(n, (0, low), (high, high)), Dense(some), Dense(some[:1])])


def drawn(draw: random.Random) -> tuple[Group, np.ndarray[Any, Any]]:
    sizes = [draw.choice([2, 3, 5, 17, 60, 130]) for _ in range(draw.choice([1, 1, 2]))]
    parts = tuple(Product(tuple(factor(n, draw) for n in sizes)) for _ in range(draw.randint(1, 3)))
    numbers = np.random.RandomState(draw.randrange(2**31))
    counts = numbers.poisson(draw.choice([0, 0.1, 5, 1e4]), sizes) * (numbers.random_sample(sizes) < draw.random())
    return group(Workload(domain(*sizes), parts), moved=draw.choice([1, 3, 10**6]), pure=draw.random() < 0.5), counts


def test_plans_end_and_cost_no_more_than_is_charged(effort: float) -> None:
    draw, ended = random.Random(17), 0
    for _ in range(round(150 * effort)):
        made, counts = drawn(draw)
        plan = (dawa if len(made.columns) == 1 else privtree).plan(made)
        if isinstance(plan, Refusal):
            assert made.smaller.workload.domain.size == 1
            continue
        amount = draw.choice([Fraction(1, 1000), Fraction(1, 50), Fraction(1, 3), Fraction(7), Fraction(900)])
        price, spent = pure(amount) if made.pure else concentrated(amount), [FREE]
        known = Certificate(below=Stability(rows=made.moved), summands=(Sensitivity(l1=made.moved, l2=made.moved),))

        def spend(request: Any) -> None:
            spent.append(spent[-1] + request.cost(known))
            assert price.covers(spent[-1])

        plan.check(price)
        found = told(plan, price, Cells(counts), spend)
        assert found.values.shape == found.variances.shape == (made.workload.rows,) and found.kind == "approximate"
        assert np.isfinite(found.values).all() and (found.variances >= 0).all()
        ended += 1
    assert ended > 100 * min(1, effort)


def test_a_price_without_noise_is_refused_before_it_is_charged() -> None:
    draw = random.Random(3)
    for _ in range(20):
        made, _ = drawn(draw)
        plan = (dawa if len(made.columns) == 1 else privtree).plan(made)
        if isinstance(plan, Refusal):
            continue
        try:
            plan.check(pure(Fraction(1, 10**22)))
        except OptionError as fault:
            assert "too small" in fault.reason
        else:
            raise AssertionError("nothing can be drawn for this price")
