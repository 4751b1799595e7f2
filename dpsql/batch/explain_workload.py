"""EXPLAIN of statements that are measured as workloads: cells, matrices, strategies, errors. Nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dpsql.batch.consistency import expected_effect
from dpsql.batch.group import Group, GroupPlan
from dpsql.batch.workload_plan import Batch, cells_count, different
from dpsql.budgets.reports import amount
from dpsql.planning.explain import Expected, Explanation, Measurement, Step, steps, withheld
from dpsql.planning.groups import possible_places
from dpsql.strategies.all_strategies import Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.plan.certificate import stabilities
from dpsql.trusted.plan.node import PublicFacts
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.factors import AllRange, Factor, Identity, Prefix, Ranges, Total

MOST_SHOWN = 6  # aggregates, and kinds of parts of a workload, that are listed one by one


def explained_batch(made: Batch, public: PublicFacts, *, entity: str, price: str, left: Sequence[str]) -> Explanation:
    """The explanation of a batch: its measurements and its cost."""
    found = [_measurement(made, at, *share) for at, share in enumerate(made.shares)]
    rewrites = ["measured as a workload: the answers agree with each other"] if len(made.groups) == 1 else [
        f"measured as {len(made.groups)} workloads, one for each summand and source, each for an equal share of the price"]
    cells = [cells_count(one.question) if (there := possible_places(one.question)) is None else len(there) for one in made.asked]
    if made.consistency is not None:
        rewrites.append(f"afterwards {made.consistency}")
    return Explanation(entity=entity, steps=tuple(_steps(made, public, entity)), rewrites=tuple(rewrites), stages=(),
                       measurements=tuple(found), expected=tuple(_expected(made)), left=tuple(left), cost=price,
                       groups=f"{sum(cells)}, all that the policy declares; groups without rows are shown too"
                              + withheld([one.question for one in made.asked]))


def _steps(made: Batch, public: PublicFacts, entity: str) -> Iterator[Step]:
    """The operators of every source, each source once."""
    for source in different([one.source for one in made.asked])[0]:
        yield from steps(source, stabilities(source, public), 0, entity)


def _measurement(made: Batch, at: int, group: Group, plan: GroupPlan, price: Cost) -> Measurement:
    texts = dict.fromkeys(recipe.call.text or recipe.call.function for one, places in zip(made.asked, made.places, strict=True)
                          for recipe in one.recipes if any(places[part].group == at for part in recipe.sums))
    kind = "counts" if isinstance(group.summand, Count) else "sums"
    shown = _shortened(list(texts))
    effect = expected_effect(group, plan, price, made.consistency) if made.consistency is not None else ()
    against = {verdict.name: _why(verdict, plan) for verdict in plan.verdicts if verdict.name != plan.name}
    return Measurement(what=f"{kind}: {plan.note}", aggregates=tuple(shown), price=amount(price), mechanism=plan.name,
                       noise=plan.noise(price), against=against, about=(*_matrix(group), *effect))


def _matrix(group: Group) -> Iterator[str]:
    """The cells, and the matrix of queries over them as a union of products."""
    sizes = " x ".join(f"{column.name} ({len(column.values)})" for column in group.columns)
    yield f"cells: {sizes or 'one'}; {group.smaller.workload.domain.size} that some query distinguishes"
    kinds: dict[str, int] = {}
    for part in group.workload.parts:
        columns = zip(group.columns, part.factors, strict=False)
        asked = " x ".join(f"{_rows(factor)} of {column.name}" for column, factor in columns if not isinstance(factor, Total))
        kinds[asked or "all rows"] = kinds.get(asked or "all rows", 0) + 1
    parts = [kind if times == 1 else f"{times} times {kind}" for kind, times in kinds.items()]
    yield f"matrix: {group.workload.rows} x {group.workload.domain.size}; " + "; ".join(_shortened(parts))


def _rows(factor: Factor) -> str:
    match factor:
        case Identity():
            return "each value"
        case Prefix():
            return "all prefixes"
        case Ranges() | AllRange():
            return f"{factor.rows} ranges" if factor.rows > 1 else "a range"
    return f"{factor.rows} sets of values" if factor.rows > 1 else "some values"


def _shortened(parts: list[str]) -> list[str]:
    return parts if len(parts) <= MOST_SHOWN else [*parts[:MOST_SHOWN], f"{len(parts) - MOST_SHOWN} more"]


def _why(verdict: Verdict, plan: GroupPlan) -> str:
    if verdict.strategy is None or verdict.strategy.certificate is None:
        return verdict.because or "its errors are not known"
    own = next((other.strategy for other in plan.verdicts if other.name == plan.name), None)
    known = own.certificate if own is not None else None
    assert known is not None
    return f"{math.sqrt(verdict.strategy.certificate.value / known.value):.3g} times the error"


def _expected(made: Batch) -> Iterator[Expected]:
    for one, errors in zip(made.asked, made.expected(), strict=True):
        for call in one.question.aggregates:
            found = errors[call.id]
            known = bool(len(found)) and not np.isnan(found).any()
            low, high = (float(found.min()), float(found.max())) if known else (0.0, 0.0)
            yield Expected(aggregate=call.text or call.function, error=high if known else None,
                           named="" if high - low <= 1e-9 * high else f"from {low:.6g}, over {len(found)} cells")
