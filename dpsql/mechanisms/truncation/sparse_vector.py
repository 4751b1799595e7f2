"""How much of an entity to keep, learned with the sparse vector technique.

The ladder of powers of two is climbed until few entities are above: what is cut off then weighs no more than the noise that a
higher limit would need. Source: Dwork et al. 2009; as a limit of contributions, Kotsogiannis et al., PrivateSQL, PVLDB 2019.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.plan.expr.nodes import Call, Case, Expr, Literal, Ref
from dpsql.plan.node import Node
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import Count
from dpsql.plan.operators.tally import Tally
from dpsql.requests import Request, Rung, Threshold
from dpsql.types import Type

ROW_RUNGS, TOTAL_RUNGS = 20, 50


def learned_rows(view: Node, owner: str, purse: Cost) -> Generator[Request, Any, int]:
    """A limit on the rows of one entity: a power of two that few entities exceed."""
    owned = Project(input=view, columns=((owner, view.names[owner], view.field(owner).ref),))
    counted = GroupBy(input=owned, keys=(owner,), folds=(Fold(id="n", name="rows", function="count"),))
    rung: int = yield from climbed(counted, "n", 1, ROW_RUNGS, purse)
    return 1 << rung


def learned_total(given: Contributions, base: int, purse: Cost) -> Generator[Request, Any, int]:
    """A limit on the l1 norm of what one entity contributes: `base` times a power of two that few entities exceed."""
    owner, refs = given.owner, [given.field(name).ref for name in given.totals]
    sizes = [Call(function="abs", args=(ref,), type=Type.BIGINT) for ref in refs]
    total: Expr = sizes[0]
    for size in sizes[1:]:
        total = Call(function="+", args=(total, size), type=Type.BIGINT)
    sized: Node = Project(input=given, columns=((owner, given.names[owner], given.field(owner).ref), ("size", "size", total)))
    if given.keys:
        sized = GroupBy(input=sized, keys=(owner,), folds=(Fold(id="all", name="size", function="sum", column="size"),))
    rungs = max(1, TOTAL_RUNGS - base.bit_length() + 1)
    rung: int = yield from climbed(sized, sized.fields[-1].id, base, rungs, purse)
    return min(1 << TOTAL_RUNGS, base << rung)


def climbed(sizes: Node, column: str, base: int, rungs: int, purse: Cost) -> Generator[Request, Any, int]:
    """The rung at which few entities have a size above base * 2^rung."""
    bucket = Project(input=sizes, columns=(("rung", "power of two", _rung(sizes.field(column).ref, [
        base * 2**j for j in range(rungs)])),))
    scale = scale_of(2 / purse.as_epsilon)
    found: Rung = yield Threshold(plan=Tally(input=bucket, keys=("rung",), summands=(Count(),)), rungs=rungs,
                                  limit=limit_of(purse), rise=math.ceil(scale / 3), scale_limit=scale, scale_query=scale)
    return found.rung


def limit_of(purse: Cost) -> int:
    """How many entities may exceed a limit: twice the scale of the noise, so that a rung that nobody exceeds is seldom passed."""
    return math.ceil(Fraction(4) / purse.as_epsilon)


def _rung(size: Ref, steps: Sequence[int]) -> Expr:
    def test(step: int) -> Expr:
        return Call(function="<=", args=(size, Literal(value=step, type=Type.BIGINT)), type=Type.BOOLEAN)

    return Case(branches=tuple((test(step), Literal(value=j, type=Type.BIGINT)) for j, step in enumerate(steps)),
                otherwise=Literal(value=len(steps), type=Type.BIGINT), type=Type.BIGINT)
