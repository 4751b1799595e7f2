"""Products of strategies, one p-Identity strategy for each attribute, for Laplace noise over many cells.

Columns of a Kronecker product have the product of the L1 norms of the factors' columns, and (A'A)^-1 is the product of the
factors' ones. So the total error of a union of products is a sum, over its parts k, of products over attributes of
tr(G_i^k (A_i'A_i)^-1): for a single part each attribute is planned by itself; for several parts each in turn, with the Gram
matrices of its parts weighted by what the others cost.

Source: McKenna, Miklau, Hay and Machanavajjhala, HDMM, PVLDB 2018 (OPT_kron).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.strategies import clock
from dpsql.strategies.integers import bits_of, trivial
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.p_identity import ENDED, LONG, Gram, covariance, descended, measured, starts, whole
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.domain import Attribute, CellDomain
from dpsql.workload.factor_stack import FactorStack
from dpsql.workload.factors import Array, Factor, Total
from dpsql.workload.workload import Workload

ROWS = 10**7  # measurements
ROUNDS = 6  # over the attributes
SETTLED = 1e-4  # relative change of the error in a round
ROUGH_ROUNDS, ROUGH_STEPS = 2, 25  # where errors are only compared


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The best product found."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    if len(workload.domain.attributes) == 1:
        return Refusal("there is only one attribute")
    factors = factors_of(workload)
    if factors is None:
        return Refusal(f"descent is for up to {LONG} values of an attribute")
    if math.prod(factor.rows for factor in factors) > ROWS:
        return Refusal(f"its product has more than {ROWS} rows")
    domain = CellDomain(tuple(Attribute(attribute.name, factor.n)
                              for attribute, factor in zip(workload.domain.attributes, factors, strict=True)))
    found = LeastSquares(name="kronecker", domain=domain, noise="laplace", measured=(one_block(*factors),))
    return valued(found, workload)


def factors_of(workload: Workload) -> Sequence[Factor] | None:
    """An integer strategy for each attribute; None if an attribute has too many values."""
    columns = list(zip(*(part.factors for part in workload.parts), strict=True))
    simple = [column[0] if trivial(column[0]) and len(set(column)) == 1 else None for column in columns]
    bits = bits_of(simple.count(None))
    if any(kept is None and column[0].n > ENDED for kept, column in zip(simple, columns, strict=True)):
        return None
    if len(workload.parts) == 1:
        made = [kept if kept is not None else measured(column[0].gram(), bits)
                for kept, column in zip(simple, columns, strict=True)]
        found = [factor for factor in made if factor is not None]
        return found if len(found) == len(made) else None
    if any(kept is None and column[0].n > LONG for kept, column in zip(simple, columns, strict=True)):
        return None
    rows = by_turns(workload, tuple(i for i, kept in enumerate(simple) if kept is None))[1]
    return [kept if kept is not None else whole(rows[i], bits) for i, kept in enumerate(simple)]


def by_turns(workload: Workload, axes: tuple[int, ...], *, rough: bool = False) -> tuple[float, dict[int, Array]]:
    """Half of the error, and B for each of these attributes; the other attributes are measured as requested."""
    stacks = {i: FactorStack(tuple(dict.fromkeys(part.factors[i] for part in workload.parts))) for i in axes}
    places = {i: {factor: at for at, factor in enumerate(stack.factors)} for i, stack in stacks.items()}
    own = {i: np.array([places[i][part.factors[i]] for part in workload.parts]) for i in axes}  # of the stack's factors
    others = np.array([math.prod(1.0 if isinstance(factor, Total) else float(factor.rows)
                                 for i, factor in enumerate(part.factors) if i not in axes) for part in workload.parts])
    rows = {i: starts(workload.domain.shape[i])[0] * 0.1 for i in axes}
    costs = {i: _errors(stacks[i], rows[i])[own[i]] for i in axes}
    value, steps = math.inf, ROUGH_STEPS if rough else None
    for turn in range(ROUGH_ROUNDS if rough else ROUNDS):
        before = value
        for i in axes:
            weights = others * math.prod(costs[j] for j in axes if j != i)
            total = stacks[i].gram(np.bincount(own[i], weights, minlength=len(places[i])).astype(float))
            mixed, begun = Gram(total / np.trace(total)), starts(len(total))
            tried: list[tuple[float, Array]] = []
            for start in [rows[i]] if turn else begun[:1] if rough else begun:
                if not tried or not clock.over():
                    tried.append(descended(mixed, start, steps))
            rows[i] = min(tried, key=lambda pair: pair[0])[1]
            costs[i] = _errors(stacks[i], rows[i])[own[i]]
        value = float((others * math.prod(costs.values())).sum())
        if value > before * (1 - SETTLED) or clock.over():
            break
    return value, rows


def _errors(stack: FactorStack, rows: Array) -> Array:
    """Half of the error of each factor."""
    kernel = covariance(rows)
    return np.array([float(each.sum()) for each in stack.each(lambda factor: factor.quadratic(kernel))])
