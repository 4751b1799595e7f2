"""The size of a plan for an engine, counted before the charge, so that no statement can fill the memory of the vault.

A plan is printed as a tree: a part that is used in several places is written once for each, and functions write some of their
arguments several times. An optimizer then replaces a column by the expression that it stands for, in order to test conditions
earlier; so short texts can become very long ones: if each of n nested queries doubles the column of the one below, the result
has 2^n parts. The optimizer also takes each part of a conjunction by itself, and compares all equated expressions with each
other. No limit of the engine covers this memory, and none of this work can be interrupted.

The following are counted, each thing as often as it would be written in the end: relations; parts of one expression; over all
conditions together, the parts of their conjunctions, and those parts that equate two expressions; and the items that one relation
lists, such as columns. All counts are functions of the plan alone. Each value is visited once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field_names
from dpsql.trusted.kernel.shapes import inputs
from dpsql.trusted.plan.expr.functions import overload, times
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, children
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.union import UnionAll

MOST_RELATIONS = 10_000
MOST_PARTS = 100_000  # of an expression
MOST_CONJUNCTS = 1000
MOST_LISTED = 10_000  # columns, keys or sums of a relation
MOST_CONSTANTS = 100_000  # rows that a plan lists
MOST_EQUATED = 200
EQUALITIES = ("=", "is not distinct from")


class ExprSize(Frozen):
    """The number of parts of an expression when printed, the number of its conjuncts, and how many of these equate two others."""

    parts: int = 1
    conjuncts: int = 1
    equated: int = 0


ONE = ExprSize()  # of a column of a table, or of what is made of several rows


class RelationSize(Frozen):
    """The numbers of relations, conjuncts and equalities in a relation and those below it; and the sizes of its columns that are
    expressions."""

    relations: int
    conjuncts: int
    equated: int
    columns: Mapping[str, ExprSize]


def check_size(plan: Node, counted: dict[int, RelationSize] | None = None) -> None:
    """Raises OperationalError for a plan that is too large. `counted` contains the sizes of existing relations, by identity; new
    sizes are added to it."""
    _relation(plan, {} if counted is None else counted)


def _relation(node: Node, found: dict[int, RelationSize]) -> RelationSize:
    """The size of a relation; `found` contains the sizes of relations, by identity."""
    if id(node) not in found:
        made = _counted(node, [_relation(part, found) for part in inputs(node)])
        if made.relations > MOST_RELATIONS or made.conjuncts > MOST_CONJUNCTS or made.equated > MOST_EQUATED:
            raise _too_large()
        found[id(node)] = made
    return found[id(node)]


def _counted(node: Node, below: Sequence[RelationSize]) -> RelationSize:
    """The size of one operator. Conditions are combined in a join, and are separate in each part of a union."""
    most = MOST_CONSTANTS if isinstance(node, Constants) else MOST_LISTED
    if any(len(listed) > most for name in field_names(type(node)) if type(listed := getattr(node, name)) is tuple):
        raise _too_large()
    columns = dict[str, ExprSize]()
    for name, size in (shown for part in below for shown in part.columns.items()):  # parts of a union may share names of columns
        columns[name] = _largest([columns[name], size]) if name in columns else size
    known: dict[int, ExprSize] = {}
    own = [_size(expr, columns, known) for expr in expressions(node)]
    conditions = [] if isinstance(node, Project) else own
    together = max if isinstance(node, UnionAll | SetOperation) else sum
    return RelationSize(
        relations=1 + sum(part.relations for part in below),
        conjuncts=together([0, *(part.conjuncts for part in below)]) + sum(size.conjuncts for size in conditions),
        equated=together([0, *(part.equated for part in below)]) + sum(size.equated for size in conditions),
        columns=_shown(node, columns, known))


def _shown(node: Node, columns: Mapping[str, ExprSize], known: dict[int, ExprSize]) -> Mapping[str, ExprSize]:
    match node:
        case Project():
            return {name: _size(expr, columns, known) for name, _, expr in node.columns}
        case UnionAll() | SetOperation():  # each column as the largest that it may be one of
            return {name: _largest([ONE, *columns.values()]) for name, _ in node.columns}
        case Join():
            return {**columns, **{made.id: _largest([columns.get(made.left, ONE), columns.get(made.right, ONE)], 2)
                                  for made in node.merged}}
    return columns


def _largest(sizes: Sequence[ExprSize], times: int = 1) -> ExprSize:
    return ExprSize(parts=1 + times * max(size.parts for size in sizes), conjuncts=max(size.conjuncts for size in sizes),
                    equated=max(size.equated for size in sizes))


def expressions(node: Node) -> Iterator[Expr]:
    """The expressions of an operator, those inside tuples too."""
    waiting = [getattr(node, name) for name in field_names(type(node))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Expr):
            yield part
        elif isinstance(part, tuple):
            waiting += part


def _size(expr: Expr, columns: Mapping[str, ExprSize], known: dict[int, ExprSize]) -> ExprSize:
    """The size of an expression. Raises OperationalError if it has too many parts."""
    if isinstance(expr, Ref):
        return columns.get(expr.column, ONE)
    if id(expr) not in known:
        below = [_size(part, columns, known) for part in children(expr)]
        parts = 1 + sum([often * part.parts for often, part in zip(_times(expr, len(below)), below, strict=True)])
        if parts > MOST_PARTS:
            raise _too_large()
        if isinstance(expr, Call) and expr.function == "and":
            known[id(expr)] = ExprSize(parts=parts, conjuncts=sum(part.conjuncts for part in below),
                                       equated=sum(part.equated for part in below))
        else:
            known[id(expr)] = ExprSize(parts=parts, equated=int(_equates(expr)))
    return known[id(expr)]


def _times(expr: Expr, below: int) -> tuple[int, ...]:
    """How often each sub-expression is printed."""
    row = overload(expr.function, [part.type for part in expr.args]) if isinstance(expr, Call) else None
    return (1,) * below if row is None else times(row.sql, below)


def _equates(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function in EQUALITIES and not any(isinstance(part, Literal) for part in expr.args)


def _too_large() -> OperationalError:
    return OperationalError("the statement is too large after columns are replaced by their expressions; nothing was charged",
                            code="too-large", try_="fewer conditions, and fewer queries inside others that repeat a column")
