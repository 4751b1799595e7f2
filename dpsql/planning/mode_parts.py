"""Modes: the most frequent one of the declared values of a column, by the noisy numbers of rows with each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dpsql.frozen import replace
from dpsql.mechanisms.mechanism import Estimates, Linear, Shared, TaskContext
from dpsql.planning.contribution_bound import BoundedQuestion, call_in_words
from dpsql.planning.part_kind import LimitedRows, PartKind, Reach, linear_task
from dpsql.planning.sum_parts import level_task, sample_sum
from dpsql.questions.parts import Decomposition, Modes
from dpsql.questions.rules import modes
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.summands import Count


class ModesKind(PartKind[Modes]):
    """Numbers of rows with each value of one column."""

    def task(self, at: int, part: Modes, asked: BoundedQuestion, rows: LimitedRows) -> Linear:
        return linear_task(at, rows.view, (*asked.keys, part.column), Count(when=part.when), rows.public)

    def shared_task(self, at: int, part: Modes, asked: BoundedQuestion, view: Node, reach: Reach | None = None) -> Shared:
        return level_task(at, Count(when=part.when), asked, view, reach)

    def sample(self, at: int, part: Modes, asked: BoundedQuestion) -> Linear:
        return sample_sum(at, Count(), asked)

    def words(self, part: Modes, asked: BoundedQuestion) -> str:
        return f"rows with each of the {len(part.values)} values of {asked.view.names[part.column]}"

    def counted(self, part: Modes, asked: BoundedQuestion) -> str:
        return "the value with the most rows, by noisy counts"

    def context(self, part: Modes, context: TaskContext) -> TaskContext:
        """The context with each cell of the answer combined with each of the values."""
        return replace(context, keys=(*context.keys, part.column), cells=tuple(
            (*cell, value) for cell in context.cells for value in part.values))

    def notes(self, asked: BoundedQuestion, parts: Decomposition, view: Node, estimates: Mapping[int, Estimates], *,
              kept: bool) -> Iterator[str]:
        """Notes on the confidence of most frequent values, which have no standard error."""
        confidence = float(asked.options.confidence)
        for call in asked.question.aggregates:
            for at in parts.uses[call.id]:
                part = parts.parts[at]
                if isinstance(part, Modes):
                    rows = modes.shortfall(estimates[at][0], len(part.values), confidence)
                    yield (f"{call_in_words(call)}: {'of the rows that are kept, ' if kept else ''}in each group, with a "
                           f"confidence of {100 * confidence:g} %, no declared value is more frequent than the one that is shown "
                           f"by more than {math.ceil(rows):,} rows")
