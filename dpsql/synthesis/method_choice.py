"""Which method makes a synthetic table, by public facts alone, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpsql.frozen import Frozen, field, replace
from dpsql.synthesis.method import Method, SynthesisTask
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.synthesis.methods.mst import SpanningTree, pairs
from dpsql.trusted.accounting.cost import Cost

MANY_COLUMNS = 100  # AIM looks at all pairs and triples of columns in every round
ALONE = "the workload contains no combination of columns, so the whole price is spent on single columns"
BLIND = "it shows nothing about how columns depend on each other; if the price allows no more, aim does the same"
FEWER = "it measures one tree of pairs; aim measures what its model describes worst, which is more accurate for most tables"
SLOW = f"with more than {MANY_COLUMNS} columns it takes minutes"
BY_NAME = "used only if named: no public fact suggests that it is more accurate here"


def in_best_account(task: SynthesisTask, method: Method, accounts: Sequence[Cost], parts: int = 1) -> SynthesisTask:
    """The task with the price in the account that gives the least noise. Laplace noise, for a pure epsilon, grows with the number
    of measurements; Gaussian noise grows with its square root, but starts higher. `parts`: into so many equal parts the price is
    divided at least."""
    own = method.parts(task)
    if own is None:
        return replace(task, price=accounts[-1])
    parts = max(parts, own)
    return replace(task, price=min(accounts, key=lambda given: noise_for(task.table, given.part(Fraction(1, parts))).variance))


class MethodChoice(Frozen):
    """The method, and the reasons against the others by name; none if it was named."""

    method: Method
    against: Mapping[str, str] = field(default_factory=dict)


def chosen(task: SynthesisTask, name: str, methods: Mapping[str, Method]) -> MethodChoice:
    """The method with this name; for 'auto', the best one for such tables, judged from public facts.

    Independent columns where the workload has single columns only, MST where there are too many columns for AIM, and else AIM.
    """
    if name != "auto":
        return MethodChoice(method=methods[name])
    aim, mst, independent = AdaptiveMarginals.name, SpanningTree.name, Independent.name
    if not pairs(task):
        best, known = independent, {aim: ALONE, mst: ALONE}
    elif len(task.table.columns) > MANY_COLUMNS:
        best, known = mst, {aim: SLOW, independent: BLIND}
    else:
        best, known = aim, {mst: FEWER, independent: BLIND}
    refused = {other: refusal.why for other, method in methods.items() if (refusal := method.refusal(task)) is not None}
    return MethodChoice(method=methods[best], against={other: refused.get(other, known.get(other, BY_NAME))
                                                       for other in methods if other != best})
