"""WHERE."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from dpsql.frozen import replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, conjuncts, predicate
from dpsql.trusted.plan.expr.printing import to_sql
from dpsql.trusted.plan.expr.upper_limits import WholeRange, limit_of
from dpsql.trusted.plan.node import Field, Node, Printing, PublicFacts, SplitBy, Stability, columns_of, known, least
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.numbers import NUMBER, Numbers
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import ENDS, SHIFTS, Window
from dpsql.types import Interval, Type

MOST_VALUES = 100  # more of them say little of an entity's rows, whose number is learned better
MOST_STATED = 2**14  # of a calculated number that is compared with both ends, such as the number of a day in some years
TRUE_OF_VALUES = ("is not null", "=", "<>", "<", "<=", ">", ">=")


class Filter(Node):
    """The rows on which a condition is true. If it is never true while a column is NULL, the column is not NULL here, and
    whole numbers that it compares with constants are within these. That is known of the rows (`Facts.kept`) but of no
    evaluation (`Facts.physical`), as an engine may evaluate an expression above a filter before it filters.

    Proof. Whether a row stays depends on that row alone, so at most as many rows change as below, they keep their owner, and a
    bound on the norm of what an entity contributes still holds for fewer rows. For the same reason it is split as its input is.
    If the condition leaves w values to a whole number n, rows that agree on a set of columns have at most w different values of
    n, so there are at most w times as many of them as of rows that agree on n too: WHERE n <= 3 keeps 3 rows if n is 1, 2, ...
    and different in all rows. For a calculated number, w follows from the condition alone, which is all that the kernel derives
    anew. An entity has at most as many rows as agree on its name.
    """

    input: Node
    condition: Expr

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        known(self.condition, self.input, kind=Type.BOOLEAN)
        parts, limits = conjuncts(self.condition), _limits(self.condition)
        there = {arg.column for part in parts if isinstance(part, Call) and part.function in TRUE_OF_VALUES
                 for arg in part.args if isinstance(arg, Ref)} | {part.column for part in parts if isinstance(part, Ref)}
        return tuple(replace(field, facts=_compared(field.facts, *_ends(field.id, limits))) if field.id in there else field
                     for field in self.input.fields)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        found = dict(self.input.max_frequencies)
        for column, ways in self._values.items():
            found = least(found, {agreed - {column}: rows * ways for agreed, rows in found.items() if column in agreed})
        return found

    @property
    def _values(self) -> Mapping[str, int]:
        """How many values of whole numbers the condition allows, if they are few."""
        limits, env = _limits(self.condition), self.env
        sizes = {column: (env[column].returned.low, env[column].returned.high, MOST_VALUES) if has_ends(self.input, column)
                 else (*_ends(column, limits), MOST_STATED) for column in dict.fromkeys(limit.column for limit in limits)}
        return {column: max(1, int(high - low) + 1) for column, (low, high, most) in sizes.items() if high - low < most}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        most = self.max_frequency([below[0].owner]) if below[0].owner is not None else None
        if most is not None and not below[0].public and (below[0].rows is None or most < below[0].rows):
            return replace(below[0], rows=most, because=f"{most} row{'s' if most > 1 else ''} of each entity remain")
        return replace(below[0], because="a filter reads one row at a time")

    def split_by(self, below: tuple[SplitBy, ...]) -> SplitBy:
        return below[0]

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if isinstance(self.input, Scan):  # an engine compares columns faster where it sees that they are columns
            return self.input.rows_where(self.condition, printing)
        return f"SELECT * FROM ({below[0]}) AS t0 WHERE {to_sql(self.condition, columns_of('t0', self.input))}"


def without_null(node: Node, columns: Iterable[str]) -> Node:
    """The rows in which none of some columns is NULL: only those can match others by `=`."""
    for column in dict.fromkeys(columns):
        node = Filter(input=node, condition=predicate("is not null", node.field(column).ref))
    return node


def _limits(condition: Expr) -> list[WholeRange]:
    return [limit for limit in map(limit_of, conjuncts(condition)) if limit is not None]


def _compared(known: Facts, low: float, high: float) -> Facts:
    """Facts about a value that is not NULL and is between two numbers; its range is unchanged if no number is."""
    if low > high:
        return replace(known, nullable=False)
    ends = Interval(low, high)
    return replace(known, nullable=False, kept=known.returned.within(ends), declared=known.declared.within(ends))


def has_ends(node: Node, column: str) -> bool:
    """Whether the kernel knows the range of a column too: it knows those of columns of tables and of counts, but it does not
    derive those of expressions or of numbers of parts."""
    match node:
        case Scan():
            return True
        case Numbers() if column == NUMBER:
            return True
        case Project():
            expr = next(expr for name, _, expr in node.columns if name == column)
            return isinstance(expr, Ref) and has_ends(node.input, expr.column)
        case UnionAll() | SetOperation():
            at = [name for name, _ in node.columns].index(column)
            return all(has_ends(below, below.fields[at].id) for below in node.inputs)
        case GroupBy() | Window():
            parts: tuple[Fold, ...] = node.folds if isinstance(node, GroupBy) else node.functions
            made = next((part for part in parts if part.id == column), None)
            if made is not None and made.function in (*SHIFTS, *ENDS, "min", "max"):
                return all(has_ends(node.input, name) for name in (made.column, getattr(made, "otherwise", None)) if name)
            if made is not None:
                return made.function not in ("sum", "avg", "ntile")
    return any(has_ends(below, column) for below in node.inputs if column in below.env)


def _ends(column: str, limits: Sequence[WholeRange]) -> tuple[float, float]:
    """The remaining range of a column of whole numbers; its lower end exceeds its upper end if nothing remains."""
    mine = [limit for limit in limits if limit.column == column]
    return (max((limit.low for limit in mine if limit.low is not None), default=-math.inf),
            min((limit.high for limit in mine if limit.high is not None), default=math.inf))
