"""What limits cut off: how far the truth may lie beyond what the noise explains.

A limit takes away an unknown part of what entities contribute, whether the policy declares it, a statement gives it, or it is
learned. A COUNT, or a SUM of values that are not negative, can only become smaller that way, so their intervals are open above.
Where the policy says that its limits hold (`limits_hold`, which `dpsql check --rows` compares with the rows), nothing is missing.

A mean, a median, a sum of values of both signs, and whatever else does not grow with each row, may be moved either way. No
finite interval around the released number can be valid: one entity may have any number of rows beyond the limit, and the
promise is that nobody can tell. So all that is known of the truth is the range declared in the policy for its values, and the
interval extends to its ends; the standard error is that of the noise. The same holds for bounds that are searched for, as
nobody knows which values lie beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from dpsql.frozen import replace
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.contribution_bound import call_in_words
from dpsql.planning.declared_rows import declared_rows
from dpsql.planning.degree_questions import DegreeQuestion
from dpsql.planning.program import Program
from dpsql.planning.rows_beyond import Missing, RowsLeft, missing
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, Question
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter

EITHER = (math.inf, math.inf)


def open_ends(program: Program, call: AggregateCall, lost: Missing) -> tuple[float, float]:
    """How far the true value of an aggregate may be below and above its value over the rows kept; each is 0 or infinity. `lost`
    is what the limits in the program's view do to its rows."""
    if program.degrees is not None:
        return _of_degrees(program.degrees, program, call)
    kind = call.aggregate.kind
    if call.aggregate.bounded and kind is not Kind.RANK and set(call.columns) & set(program.searched):
        return EITHER  # the intervals of a RANK end at bounds that were searched for
    if _is_matched(program, call):
        return 0.0, math.inf
    below, above = beyond_limits(program.question, call, lost)
    if cuts_off(program) and not _all_ranked(program, call):
        further = beyond_kept(program.question, call)
        return max(below, further[0]), max(above, further[1])
    return below, above


def beyond_limits(question: Question, call: AggregateCall, lost: Missing) -> tuple[float, float]:
    """How far the true value may be beyond the value over the rows of a view in which limits have left out some."""
    if lost.nothing:
        return 0.0, 0.0
    used = {*call.columns, *([call.when] if call.when is not None else []), *(key.column for key in question.keys)}
    if lost.rows is RowsLeft.OTHER or used & lost.moved:
        return EITHER
    counts_reached = call.aggregate.kind is Kind.DISTINCT and used <= lost.reached and len(used) == 1
    return (0.0, 0.0) if lost.rows is RowsLeft.ALL or counts_reached else beyond_kept(question, call)


def with_values_beyond(question: Question, lost: Missing) -> Question:
    """The question, in which aggregates are marked whose arguments may have values beyond what their facts say."""
    if not lost.moved:
        return question
    return replace(question, aggregates=tuple(replace(call, beyond=not lost.moved.isdisjoint(call.columns))
                                              for call in question.aggregates))


def _is_matched(program: Program, call: AggregateCall) -> bool:
    """Whether an aggregate is the size of a matching, which may be less than what was asked for."""
    parts = program.decomposition
    return any(KINDS[type(parts.parts[at])].matched for at in parts.uses[call.id])


def _all_ranked(program: Program, call: AggregateCall) -> bool:
    """Whether a quantile uses as many rows of each entity as the policy declares, whatever the limit for sums is."""
    return (call.aggregate.kind is Kind.RANK and program.bound.each and program.options.clip is None
            and declared_rows(program.view) is not None)


def beyond_kept(question: Question, call: AggregateCall) -> tuple[float, float]:
    """How far the true value of an aggregate may be below and above its value over the rows kept, if rows are left out."""
    match _sign(question, call):
        case 1:
            return 0.0, math.inf
        case -1:
            return math.inf, 0.0
    return EITHER


def _sign(question: Question, call: AggregateCall) -> int:
    """1 for what no additional row lowers, -1 for what none raises, 0 for what may be moved either way."""
    if call.aggregate.kind is not Kind.TOTAL:
        return call.aggregate.rising
    ends = question.view.field(call.columns[0]).facts.declared
    return 1 if ends.low >= 0 else -1 if ends.high <= 0 else 0


def _of_degrees(degrees: DegreeQuestion, program: Program, call: AggregateCall) -> tuple[float, float]:
    """The same for sums over degrees. Degrees above the limit are lowered to it, not left out, so a sum whose terms increase with
    the degree can only become smaller, if it counts all degrees."""
    if not cuts_off(program):
        return 0.0, 0.0
    values = [degrees.rows[degree][call.columns[0]] if call.columns else 1 for degree in sorted(degrees.rows)]
    rising = all(before is not None and after is not None and before <= after  # type: ignore[operator]
                 for before, after in pairwise(values))
    whole = not program.question.keys and call.when is None and not any(
        isinstance(node, Filter) for node in _nodes(degrees.graph.view, degrees.graph.groups))
    return (0.0 if whole and rising and call.aggregate.plain else math.inf), math.inf


def uncovered(program: Program) -> str:
    """The text added to the note about a limit for numbers that the limit may move in either direction."""
    if not cuts_off(program) or program.degrees is not None:
        return ""
    names = dict.fromkeys(call_in_words(call) for call in program.question.aggregates
                          if not _sign(program.question, call) and not _all_ranked(program, call))
    return f"; it may move {' and '.join(names)} either way, by as much as the declared bounds allow" if names else ""


def _nodes(node: Node, end: Node) -> Iterator[Node]:
    """A plan's operators, down to `end`."""
    if node != end:
        yield node
        for below in node.inputs:
            yield from _nodes(below, end)


def cuts_off(program: Program) -> bool:
    """Whether a limit beside those in the program's view cuts off an unknown amount."""
    options, bound = program.options, program.bound
    if program.known.public or program.limit_unused:
        return False
    if program.degrees is not None:
        return (program.learned_limit is not None or not program.degrees.declared
                or not missing(program.degrees.graph.arcs.input).nothing)
    declared = bound.name == "extension" and options.clip is None
    held = bound.mechanism is not None and not bound.decomposes and not declared
    return held or program.learned_limit not in (None, "centres", "frequencies") or bound.name in ("clip", "reservoir")
