"""What limits cut off: how far the truth may lie beyond all that noise explains.

A limit that a statement gives, or that is learned, takes away from what entities add, and how much it takes from these rows
nobody knows. Of what is left a COUNT, and a SUM of values that are not negative, are no more than those of all rows, so their
intervals are open above. Limits that the policy declares are the owner's word for what the rows are like (`dpsql check --rows`
holds it against them), and what they take is told in a note.

A quotient, a sum of values of both signs, and whatever else does not grow with each row, may be moved either way. Its interval
is that of the noise, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from dpsql.plan.node import Node
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import GroupBy
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.set_operation import SetOperation
from dpsql.plan.operators.window import Window
from dpsql.plan.question import AggregateCall
from dpsql.planning.contribution_bound import told
from dpsql.planning.degree_questions import DegreeQuestion
from dpsql.planning.program import Program
from dpsql.types import ANY_NUMBER


def open_ends(program: Program, call: AggregateCall) -> tuple[float, float]:
    """How far the truth of an aggregate may lie below and above what is left: 0, or infinitely far."""
    if program.degrees is not None:
        return _of_degrees(program.degrees, program, call)
    sign = _sign(program, call)
    if not sign or not cuts_off(program):
        return 0.0, 0.0
    if _inside(program):
        return math.inf, math.inf
    return (0.0, math.inf) if sign > 0 else (math.inf, 0.0)


def _sign(program: Program, call: AggregateCall) -> int:
    """1 for what grows with each row, -1 for what falls, 0 for what may do either."""
    if call.function in ("count", "count_distinct"):
        return 1
    ends = program.question.view.field(call.columns[0]).facts.declared if call.function == "sum" else ANY_NUMBER
    return 1 if ends.low >= 0 else -1 if ends.high <= 0 else 0


def _of_degrees(degrees: DegreeQuestion, program: Program, call: AggregateCall) -> tuple[float, float]:
    """Degrees are brought down, not left out: what rises with them rises no less on the whole, if no degree is left out."""
    if not cuts_off(program):
        return 0.0, 0.0
    values = [degrees.rows[degree][call.columns[0]] if call.columns else 1 for degree in sorted(degrees.rows)]
    rising = all(before is not None and after is not None and before <= after  # type: ignore[operator]
                 for before, after in pairwise(values))
    whole = not program.question.keys and call.when is None and not any(
        isinstance(node, Filter) for node in _nodes(degrees.graph.view, degrees.graph.groups))
    return (0.0 if whole and rising and call.function in ("count", "sum", "avg") else math.inf), math.inf


def uncovered(program: Program) -> str:
    """What a note of a limit adds about intervals that are those of the noise alone."""
    if not cuts_off(program) or program.degrees is not None:
        return ""
    names = dict.fromkeys(told(call) for call in program.question.aggregates if not _sign(program, call))
    return f"; the interval of {' and '.join(names)} does not cover what is cut off" if names else ""


def _inside(program: Program) -> bool:
    """Whether rows are left out below an operator of which more rows may come out then, or other ones."""
    return program.bound.name == "frequency" and any(
        isinstance(node, GroupBy | Window | Lookup | SetOperation)
        or (isinstance(node, Join) and (node.keep_left or node.keep_right)) for node in _nodes(program.question.view))


def _nodes(node: Node, end: Node | None = None) -> Iterator[Node]:
    """A plan's operators, down to `end`."""
    if node != end:
        yield node
        for below in node.inputs:
            yield from _nodes(below, end)


def cuts_off(program: Program) -> bool:
    """Whether something is taken off that is not known: by a limit that the policy does not declare."""
    options, bound = program.options, program.bound
    if program.known.public:
        return False
    if program.degrees is not None:
        return program.learn is not None or not program.degrees.declared
    given = options.max_rows is not None and program.known.rows == options.max_rows
    declared = bound.name == "extension" and options.clip is None
    held = bound.mechanism is not None and not bound.decomposes and bound.name != "bands" and not declared
    return given or held or program.learn is not None or bound.name in ("clip", "reservoir") or (
        bound.name == "frequency" and options.max_frequency is not None)
