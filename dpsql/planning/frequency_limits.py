"""Limits on the rows of each entity and of each value of a key, where rows of many entities are joined or mixed.

A limit is given by the statement or by the policy. With `bound = 'frequency'` the others are learned privately, one after the
other, before anything else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.frozen import Frozen
from dpsql.planning.options import Options
from dpsql.questions.question import Question
from dpsql.questions.rules.limit_keys import Meeting, limit_keys
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.push_filters import push_filters
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node, PublicFacts, Stability
from dpsql.trusted.plan.operators.scan import Scan

FREQUENCY = "frequency"


class Unknown(Frozen):
    """A limit that is not given, and is learned privately: on the rows of each entity, or of each value of `keys`, of a relation.

    Limits further down are enforced in the relation. `mutual` says that the rows it is joined with have the same limit, so that
    each row left out would have matched as many.
    """

    relation: Node
    keys: tuple[str, ...]
    of: str
    mutual: bool = False


def unknown_limits(question: Question, options: Options, public: PublicFacts) -> int:
    """The number of limits to be learned before limits on keys bound the rows that the question reads."""
    here = stability(limit_rows(prune_columns(question.view)), public)
    return len(with_limits(question, options, public)[1]) if not here.public and mixed(here, options) else 0


def with_limits(question: Question, options: Options, public: PublicFacts,
                learned: Sequence[int] = ()) -> tuple[Node, list[Unknown]]:
    """The rows that a question reads, with limits on the rows of each entity and of each value of the join keys.

    Also the limits that neither statement nor policy gives, in an order in which they can be learned: each depends on those
    before it. `learned` are the first of them; the others are 1.
    """
    unknown: list[Unknown] = []
    rows: dict[str, int] = {}

    def ask(of: Unknown) -> int:
        unknown.append(of)
        return learned[len(unknown) - 1] if len(unknown) <= len(learned) else 1

    def of_entity(scan: Scan) -> int | None:
        if options.max_rows is not None or scan.table.rows is not None or options.bound != FREQUENCY:
            return options.max_rows
        if scan.table.name not in rows:
            rows[scan.table.name] = ask(Unknown(relation=scan, keys=(), of=f"each entity in {scan.table.name}"))
        return rows[scan.table.name]

    def of_key(meeting: Meeting) -> int | None:
        given = [meeting.declared, options.max_frequency if options.bound == FREQUENCY else None]
        known = [most for most in given if most is not None]
        if known or options.bound != FREQUENCY:
            return min(known, default=None)
        if stability(meeting.side, public).rows is None:
            return None  # it cannot be learned, and there is no bound anyway
        return ask(Unknown(relation=meeting.side, keys=meeting.keys, of=f"each {meeting.label} in {meeting.at}",
                           mutual=meeting.mutual))

    return limit_keys(limit_rows(push_filters(prune_columns(question.view)), of_entity), public, of_key), unknown


def mixed(here: Stability, options: Options) -> bool:
    """Whether rows of many entities are joined or mixed, so that limits apply to keys."""
    return here.rows is None and here.owner is None and (not here.owners or options.bound == FREQUENCY)
