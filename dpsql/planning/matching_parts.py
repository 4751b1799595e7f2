"""Distinct values counted as far as entities vouch for them, by a matching of values and entities.

COUNT(DISTINCT x) has no bounded sensitivity where one entity may have any number of rows. Instead, a value is vouched for by an
entity that has it, and an entity vouches for at most t values. The largest number of values vouched for is the size of a largest
fractional matching: the maximal sum of weights of rows between 0 and 1 that add up to at most t for each entity, and to at most 1
for each value. It is never more than the number of values, and equal to it if there are enough entities for every value, as is
usual even for t = 1 if there are far fewer values than entities.

Claim: one entity changes it by at most t (and the slack of the solver, where a row names three things or more). Proof: it is the
Lipschitz extension at level t of the number of rows (`extensions.lipschitz_extension`), in which a value has room for one row.

*Rows of one entity each* (`vouched_task`): t is a power of two chosen privately, which balances what is left out against the
noise. A limit on rows would have to be as large as nearly all entities need, and the noise for it may hide the number: with 2,000
entities of up to 30 rows the error is 2 to 13 values in place of 30 to 60 (`tests/bench/distinct.py`).

*Rows of several entities each* (`matching_task`): t = 1. If the values are names of one of these entities, such as the riders of
trips, all of them may share rows with a few others, so t is chosen privately here too (`names_task`). The number of entities in a
group is bounded likewise: each has at most one row.

Source: Knop and Steinke, Counting Distinct Elements Under Person-Level Differential Privacy, NeurIPS 2023, for rows of one entity
each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.mechanisms.mechanism import Estimates, Shared
from dpsql.planning.contribution_bound import BoundedQuestion, call_in_words
from dpsql.planning.part_kind import USUAL_MOST_ROWS, LimitedRows, PartKind, Reach
from dpsql.questions.parts import Decomposition, Matchings
from dpsql.trusted.plan.expr.nodes import Ref, predicate
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type


class MatchingsKind(PartKind[Matchings]):
    """Numbers of values for which entities vouch, and of entities that have a row of their own."""

    matched = True

    def task(self, at: int, part: Matchings, asked: BoundedQuestion, rows: LimitedRows) -> Shared:
        return vouched_task(at, part, rows.view, asked.owner, asked.known.rows or USUAL_MOST_ROWS)

    def shared_task(self, at: int, part: Matchings, asked: BoundedQuestion, view: Node, reach: Reach | None = None) -> Shared:
        names = part.column is not None and part.column in asked.known.owners
        return names_task(at, part, view, asked.known.owners) if names else matching_task(at, part, view, asked.known.owners)

    def sample(self, at: int, part: Matchings, asked: BoundedQuestion) -> Shared:
        return vouched_task(at, part, asked.view, asked.owner, 1)

    def words(self, part: Matchings, asked: BoundedQuestion) -> str:
        if part.column is None:
            return "entities, as far as each has its own row"
        one = asked.known.owner is None and part.column not in asked.known.owners
        far = ", as far as entities vouch for them, each for one" if one else ""
        return f"distinct values of {asked.view.names[part.column]}{far}"

    def counted(self, part: Matchings, asked: BoundedQuestion) -> str:
        if part.column is None:
            return ""
        return "distinct values that entities vouch for" if asked.known.owner is None else "distinct values of all entities"

    def counts_once(self, part: Matchings, asked: BoundedQuestion) -> bool:
        return True

    def notes(self, asked: BoundedQuestion, parts: Decomposition, view: Node, estimates: Mapping[int, Estimates], *,
              kept: bool) -> Iterator[str]:
        for call in asked.question.aggregates:
            if call.columns and any(isinstance(parts.parts[at], Matchings) for at in parts.uses[call.id]):
                chosen = asked.known.owner is not None or call.columns[0] in asked.known.owners
                far = "at most a number chosen privately" if chosen else "one"
                yield f"{call_in_words(call)} counts values as far as entities vouch for them, each for {far}; there may be more"


def vouched_task(at: int, part: Matchings, view: Node, owner: str, most: int) -> Shared:
    """The task of counting the values for which entities vouch. Each entity vouches for at most a number that is chosen
    privately, up to `most` rounded up to a power of two."""
    present = _present(view, part.column, part.when)
    return Shared(at=at, input=present, owners=(owner,), once=part.column, summand=Count(), bound="balance",
                  most=1 << (most - 1).bit_length())


def matching_task(at: int, part: Matchings, view: Node, owners: Sequence[str]) -> Shared:
    """The task of counting the rows that are matched, or the values for which entities vouch, one each."""
    return Shared(at=at, input=_present(view, part.column, part.when), owners=tuple(owners), once=part.column, summand=Count(),
                  bound="extension", most=1, level=1)


def names_task(at: int, part: Matchings, view: Node, owners: Sequence[str]) -> Shared:
    """The task of counting one of the owners of rows, such as the riders of trips: each rider needs a trip, and each entity has
    room for a number of them that is chosen privately."""
    assert part.column is not None
    below = _present(view, part.column, part.when)
    whole = tuple((field.id, field.name, field.ref) for field in below.fields)
    counted = ("counted", view.names[part.column], view.field(part.column).ref)  # one column cannot be an owner and a value
    return Shared(at=at, input=Project(input=below, columns=(*whole, counted)), owners=tuple(owners), once="counted",
                  summand=Count(), bound="balance", most=1 << (USUAL_MOST_ROWS - 1).bit_length())


def _present(view: Node, column: str | None, when: str | None) -> Node:
    """The rows that count and have a value."""
    kept = view if when is None else Filter(input=view, condition=Ref(column=when, type=Type.BOOLEAN))
    return kept if column is None else Filter(input=kept, condition=predicate("is not null", kept.field(column).ref))
