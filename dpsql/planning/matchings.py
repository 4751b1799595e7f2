"""Distinct values and entities, counted by a fractional matching where rows belong to several entities each.

COUNT(DISTINCT x) has no bounded sensitivity there: all rows of many values may name one entity. Instead, rows are matched so that
each entity and each value has one row at most. The size of a largest fractional matching is the maximal sum of weights of rows
between 0 and 1 that add up to at most 1 for each entity and for each value. It is never more than the number of values, and equal
to it if every value has a row of entities that no other value needs, as is usual with far fewer values than entities.

Claim: one entity changes it by at most 1 (and the slack of the solver, where a row names three things or more). Proof: it is the
Lipschitz extension at level 1 of the number of rows (`extensions.lipschitz_extension`), where values are treated like entities:
further names only lower the sums (`measurements.several.levels.are_bounded`).

For this, a value is written as a name that no entity is likely to have. If one does, the two share a row, and the number is lower
by 1.

Source: Knop and Steinke, Counting Distinct Elements Under Person-Level Differential Privacy, NeurIPS 2023, for rows of one
entity each, where the matching is one of entities and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.errors import Unsupported
from dpsql.mechanisms.mechanism import Shared
from dpsql.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, predicate, whole
from dpsql.plan.node import Field, Node
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import Count
from dpsql.plan.parts import Decomposition, Matchings
from dpsql.plan.question import AggregateCall, Question
from dpsql.types import Type

VALUE = "matched_value"
MOST_LISTED = 1000  # declared values that are written out in the SQL
FIRST_NAME = -(2**61)  # the name of the first declared value, where entities have numbers


def matching_task(at: int, part: Matchings, view: Node, owners: Sequence[str], keys: Sequence[str]) -> Shared:
    """The task of counting matched rows: rows held to a level of 1."""
    kept = view if part.when is None else Filter(input=view, condition=Ref(column=part.when, type=Type.BOOLEAN))
    named = tuple(owners)
    if part.column is not None:
        present = Filter(input=kept, condition=predicate("is not null", kept.field(part.column).ref))
        name = _name_of(present.field(part.column), present.field(owners[0]).facts.type, part)
        assert name is not None
        columns = tuple((each, view.names[each], present.field(each).ref) for each in dict.fromkeys((*owners, *keys)))
        written = Project(input=present, columns=(*columns, (VALUE, "value", name)))
        kept, named = Filter(input=written, condition=predicate("is not null", written.field(VALUE).ref)), (*named, VALUE)
    return Shared(at=at, input=kept, owners=named, summand=Count(), bound="extension", most=1, level=1)


def _name_of(value: Field, kind: Type, part: Matchings) -> Expr | None:
    """An expression for a value as a name of the type of entities' names; None if it cannot be written so."""
    if kind is Type.VARCHAR:
        text: Expr = value.ref if value.facts.type is Type.VARCHAR else Cast(input=value.ref, target="VARCHAR", type=Type.VARCHAR)
        return Call(function="||", args=(Literal(value="value ", type=Type.VARCHAR), text), type=Type.VARCHAR)
    if kind is not Type.BIGINT:
        return None
    if value.facts.type is Type.BIGINT:
        held: Expr = Call(function="greatest", args=(value.ref, whole(FIRST_NAME)), type=Type.BIGINT)
        held = Call(function="least", args=(held, whole(-FIRST_NAME)), type=Type.BIGINT)
        return Call(function="-", args=(whole(-1), held), type=Type.BIGINT)
    if part.values is None or len(part.values) > MOST_LISTED:
        return None
    return Case(branches=tuple((predicate("=", value.ref, Literal(value=one, type=value.facts.type)), whole(FIRST_NAME + i))
                               for i, one in enumerate(part.values.values)), type=Type.BIGINT,
                otherwise=Literal(value=None, type=Type.BIGINT))


def check_matchings(question: Question, parts: Decomposition, owners: Sequence[str]) -> None:
    """Raises Unsupported, located, where values name entities, or cannot be written like names of entities."""
    for call in question.aggregates:
        for part in (parts.parts[at] for at in parts.uses[call.id]):
            if not isinstance(part, Matchings) or part.column is None:
                continue
            if part.column in owners:
                raise Unsupported(f"{question.view.names[part.column]} names entities, which may all share their rows with one "
                                  "other, so that it could change their number without limit", code="several-owners",
                                  span=call.span, subject=question.view.names[part.column],
                                  try_="COUNT(*), in which each entity is held to a level")
            value, kind = question.view.field(part.column), question.view.field(owners[0]).facts.type
            if _name_of(value, kind, part) is None:
                raise Unsupported("values of rows that belong to several entities are counted by matching both, and "
                                  f"those of {value.name} are not declared, or more than {MOST_LISTED}", code="no-values",
                                  span=call.span, subject=value.name,
                                  try_="values = [...] for the column in the policy")


def held_to_one(question: Question, parts: Decomposition, call: AggregateCall) -> bool:
    """Whether an aggregate is the size of a matching, which may be below the true number."""
    return any(isinstance(parts.parts[at], Matchings) for at in parts.uses[call.id])


def matched(question: Question, parts: Decomposition) -> Iterator[str]:
    """The notes on numbers of distinct values that are counted by matching."""
    for call in question.aggregates:
        if call.function == "count_distinct" and held_to_one(question, parts, call):
            yield f"{call.text} counts values as far as each finds a row of entities of its own; there may be more"
