"""Which method makes a synthetic table, by public facts alone, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpsql.synthesis.method import Method, SynthesisTask
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.mst import SpanningTree, pairs

MANY_COLUMNS = 100  # AIM looks at all pairs and triples of columns in every round
ALONE = "the workload asks nothing of columns together, and all of the price is for single columns"
BLIND = "it tells nothing of how columns depend on each other; where the price is too low for more, aim does the same"
FEWER = "it measures one tree of pairs, and aim what its model describes worst, which is nearer on most tables"
SLOW = f"more than {MANY_COLUMNS} columns take it minutes"
BY_NAME = "only by its name: no public fact says that it is nearer here"


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodChoice:
    """The method, and the reasons against the others by name; none where it was named."""

    method: Method
    against: Mapping[str, str] = field(default_factory=dict)


def chosen(task: SynthesisTask, name: str, methods: Mapping[str, Method]) -> MethodChoice:
    """The method of this name; for 'auto', the one that is best for such tables as far as public facts tell.

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
