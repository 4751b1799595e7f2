"""IN, EXISTS, SEMI JOIN and their opposites: a mark on each row, or the rows with one mark."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import field, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.nodes import Expr, Ref
from dpsql.trusted.plan.expr.printing import quote, to_sql
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, SplitBy, Stability, columns_of, known
from dpsql.trusted.plan.operators.filter import without_null
from dpsql.types import Span, Type

LISTED = "(listed)"


class Lookup(Node):
    """Every input row, with a column `mark` that says whether some row of `listed` agrees with it; if `keep` is given, only
    the rows with that mark.

    `keys` pairs an expression over the input with a column of `listed`; two rows agree where all pairs are equal and not NULL,
    and `condition`, over the columns of both, is true. So input rows in which a key is NULL agree with no listed row.

    Write a, b for the rows that one entity can change in the input and in the list, and n for the most input rows that agree on
    the columns that are keys, in every database.

    Proof. Each row stays once at most. (1) *The list is public.* The mark depends on the row alone: as many rows change as
    below, with their owners and norm. (2) *The keys pair every owner of the listed row with an owner of the row.* The mark
    depends on the row and on listed rows of its own entities. With an entity its rows and its listed rows leave, and no other
    mark changes: as many rows change as below. (3) *Any other list.* Go to the neighbour by one changed row at a time, in each
    input first those that leave, so that n holds on the way. A row of the input comes or goes with its mark: 1. A listed row
    that comes or goes changes the marks of those that agree with it and with no other listed row, n at most: where one mark is
    kept, each of them comes or goes, b n; where marks are shown, each leaves and comes with another mark, 2 b n. Together
    a + b n, or a + 2 b n. Marks depend on rows of other entities, so rows have no owner.

    SplitBy. In a public list a row is looked up by itself, so it is split as the input.

    What NOT IN does with a NULL in the list (nothing is outside of it) is no mark of this kind: one listed row would change all
    input rows.
    """

    input: Node
    listed: Node
    keys: tuple[tuple[Expr, str], ...]
    mark: str
    condition: Expr | None = None
    keep: bool | None = None
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        for expr, column in self.keys:
            if known(expr, self.input).type is not self.listed.field(column).facts.type:
                raise InvalidPlan("a key of a lookup is compared with another type")
        if self.mark.lower() in {column.lower() for column in (*self.input.env, *self.listed.env)}:
            raise InvalidPlan("a lookup needs a new mark")
        if self.condition is None and not self.keys:
            raise InvalidPlan("a lookup needs keys or a condition")
        if self.condition is not None:
            self._check(self.condition)
        return (*self.input.fields, Field(id=self.mark, name=LISTED, facts=Facts(type=Type.BOOLEAN, nullable=False)))

    def _check(self, condition: Expr) -> None:
        if set(self.input.env) & set(self.listed.env):
            raise InvalidPlan("both sides of a lookup have a column of one name")
        try:
            kind = facts(condition, {**self.input.env, **self.listed.env}).type
        except (NotTotal, KeyError) as fault:
            raise InvalidPlan(f"the condition of a lookup is not safe: {fault}") from None
        if kind is not Type.BOOLEAN:
            raise InvalidPlan("the condition of a lookup is not a truth value")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.listed)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return self.input.max_frequencies

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The columns of the input that are used as keys unchanged."""
        return tuple(expr.column for expr, _ in self.keys if isinstance(expr, Ref))

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[1].public:
            return replace(below[0], because="each row is looked up in a public list")
        told = {column for expr, column in self.keys if isinstance(expr, Ref) and expr.column in below[0].owners}
        if below[1].owners and set(below[1].owners) <= told:
            return replace(below[0], because="each row is looked up among the rows of its own entity")
        most = self.input.max_frequency(self.looked_up)
        if below[0].public and (most is None or most > 1):
            seen = public.fanout(without_null(self.input, self.looked_up), tuple(dict.fromkeys(self.looked_up)))
            most = seen if most is None else min(seen, most)
        if most is None or below[0].rows is None or below[1].rows is None:
            return Stability(rows=None, because="the list depends on private rows")
        flips = below[1].rows * most
        return Stability(rows=below[0].rows + (2 if self.keep is None else 1) * flips,
                         because=f"a listed row determines {most} row{'s' if most != 1 else ''} at most")

    def split_by(self, below: tuple[SplitBy, ...]) -> SplitBy:
        return below[0] if below[1] is SplitBy.PUBLIC else SplitBy.WHOLE

    # -- printing

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        input, listed = below
        if self.condition is None:
            return self._joined(input, listed)
        marks = (True, False) if self.keep is None else (self.keep,)
        return " UNION ALL ".join(self._tested(input, listed, mark) for mark in marks)

    def _joined(self, input: str, listed: str) -> str:
        """The input joined to the distinct keys of the list."""
        names, mark = columns_of("t0", self.input), quote(self.mark)
        keep = ", ".join(f"{printed} AS {quote(column)}" for column, printed in names.items())
        columns = list(dict.fromkeys(column for _, column in self.keys))
        keys = ", ".join(f"t2.{quote(column)} AS {quote(column)}" for column in columns)
        grouped = ", ".join(f"t2.{quote(column)}" for column in columns)
        test = " AND ".join(f"({to_sql(expr, names)} = t1.{quote(column)})" for expr, column in self.keys)
        kept = {None: "", True: f" WHERE (t1.{mark} IS NOT NULL)", False: f" WHERE (t1.{mark} IS NULL)"}[self.keep]
        return (f"SELECT {keep}, (t1.{mark} IS NOT NULL) AS {mark} FROM ({input}) AS t0 LEFT JOIN "
                f"(SELECT {keys}, 1 AS {mark} FROM ({listed}) AS t2 GROUP BY {grouped}) AS t1 ON {test}{kept}")

    def _tested(self, input: str, listed: str, mark: bool) -> str:
        """The rows with one mark, found by testing each row."""
        ours, theirs = columns_of("t0", self.input), columns_of("t1", self.listed)
        keep = ", ".join(f"{printed} AS {quote(column)}" for column, printed in ours.items())
        tests = [f"({to_sql(expr, ours)} = {theirs[column]})" for expr, column in self.keys]
        tests += [to_sql(self.condition, {**ours, **theirs})] if self.condition is not None else []
        found = f"EXISTS (SELECT 1 FROM ({listed}) AS t1 WHERE {' AND '.join(tests)})"
        return (f"SELECT {keep}, {'TRUE' if mark else 'FALSE'} AS {quote(self.mark)} FROM ({input}) AS t0 "
                f"WHERE {found if mark else f'(NOT {found})'}")
