"""What limits cut off: how far the truth may lie beyond all that noise explains.

A limit that a statement gives, or that is learned, takes away from what entities add, and how much it takes from these rows
nobody knows. Of what is left a COUNT, and a SUM of values that are not negative, are no more than those of all rows, so their
intervals are open above. Limits that the policy declares are the owner's word for what the rows are like (`dpsql check --rows`
holds it against them), and what they take is told in a note.

A mean, a median, a sum of values of both signs, and whatever else does not grow with each row, may be moved either way. No
finite interval holds it that rests on the released numbers: whatever these are, one entity may have any number of rows beyond
the limit, and the promise is that nobody can tell. So all that is known of it is the range that the policy declares for its
values, and its interval is open up to there; its standard error is that of the noise. The same is true of bounds that are
searched for: what values are beyond them nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from dpsql.plan.node import Node, Stability
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import GroupBy
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.set_operation import SetOperation
from dpsql.plan.operators.window import Window
from dpsql.plan.question import AggregateCall, Question
from dpsql.planning.contribution_bound import told
from dpsql.planning.declared_rows import declared_rows
from dpsql.planning.degree_questions import DegreeQuestion
from dpsql.planning.matchings import held_to_one
from dpsql.planning.options import Options
from dpsql.planning.program import Program
from dpsql.types import ANY_NUMBER

RISING = {"count": 1, "count_distinct": 1, "count_entities": 1, "max": 1, "min": -1}
UNBOUNDED = ("count", "count_distinct", "mode", "min", "max", "quantile")
"""What rests on no bounds, or tells itself where an interval ends at one that was searched for."""
EITHER = (math.inf, math.inf)


def open_ends(program: Program, call: AggregateCall) -> tuple[float, float]:
    """How far the truth of an aggregate may lie below and above what is left: 0, or infinitely far."""
    if program.degrees is not None:
        return _of_degrees(program.degrees, program, call)
    if call.function not in UNBOUNDED and set(call.columns) & set(program.searched):
        return EITHER
    if program.bound.each and held_to_one(program.question, program.decomposition, call):
        return 0.0, math.inf
    if not cuts_off(program) or _all_ranked(program, call):
        return 0.0, 0.0
    return EITHER if _inside(program) else beyond_kept(program.question, call)


def _all_ranked(program: Program, call: AggregateCall) -> bool:
    """Whether a quantile rests on as many rows of each entity as the policy declares, whatever sums are held to."""
    return (call.function in ("min", "max", "quantile") and program.bound.each and program.options.clip is None
            and declared_rows(program.view) is not None)


def beyond_kept(question: Question, call: AggregateCall) -> tuple[float, float]:
    """How far the truth of an aggregate may lie below and above that of the rows that are kept."""
    match _sign(question, call):
        case 1:
            return 0.0, math.inf
        case -1:
            return math.inf, 0.0
    return EITHER


def limits_rows(options: Options, known: Stability) -> bool:
    """Whether the statement itself says how many rows of an entity are kept."""
    return options.max_rows is not None and known.rows == options.max_rows


def _sign(question: Question, call: AggregateCall) -> int:
    """1 for what no further row brings down, -1 for what none raises, 0 for what may be moved either way."""
    if call.function in RISING:
        return RISING[call.function]
    ends = question.view.field(call.columns[0]).facts.declared if call.function == "sum" else ANY_NUMBER
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
    """What a note of a limit adds about numbers that it may move either way."""
    if not cuts_off(program) or program.degrees is not None:
        return ""
    names = dict.fromkeys(told(call) for call in program.question.aggregates
                          if not _sign(program.question, call) and not _all_ranked(program, call))
    return f"; it may move {' and '.join(names)} either way, by as much as the declared bounds allow" if names else ""


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
    given = limits_rows(options, program.known)
    declared = bound.name == "extension" and options.clip is None
    held = bound.mechanism is not None and not bound.decomposes and not declared and (
        bound.name != "bands" or program.known.rows is None)
    return given or held or program.learn not in (None, "centres") or bound.name in ("clip", "reservoir") or (
        bound.name == "frequency" and options.max_frequency is not None)
