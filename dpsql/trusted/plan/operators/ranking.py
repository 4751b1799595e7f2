"""The first rows of each group in an order determined by a secret: the SQL of truncations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, columns_of
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.types import Interval, Type

INTEGER = Interval(-(2**31), 2**31 - 1)


class Ranking(Frozen):
    """At most `rows` rows of each group of rows that agree on `by` (of all, for no columns); NULL is a value of its own.
    `order` are columns that distinguish rows.

    The order is by the terms of `first`, by a keyed hash of the row, of its number among rows equal to it, and of the row
    itself. So which rows are kept is a function of the group's rows as a multiset, and a row that comes in pushes out one
    other at most.

    Why the group and the number are hashed too: by its other values alone every group would keep the same ones, and of equal
    rows all or none, which would bias averages.
    """

    input: Node
    by: tuple[str, ...]
    rows: int
    order: tuple[str, ...]
    first: tuple[Term, ...] = ()

    def check(self) -> None:
        if self.rows < 1 or isinstance(self.rows, bool):
            raise InvalidPlan("a limit on rows must be positive")
        if not self._sorted:
            raise InvalidPlan("truncation needs an order of rows")
        if not {*self.by, *self.order, *(term.column for term in self.first)} <= set(self.input.env):
            raise InvalidPlan("truncation needs known columns to group and order rows")

    @property
    def total(self) -> bool:
        """Whether tied rows are equal in every column; otherwise the engine would choose between them.

        Rows of one group have equal numbers there, but their zeros may differ in sign, which the order alone tells.
        """
        alike = {column for column in self.by if self.input.env[column].type is not Type.DOUBLE}
        return {*self._sorted, *alike} >= set(self.input.env) or any(key <= {*self.order, *self.by} for key in self.input.unique)

    def sql(self, below: str, printing: Printing, groups: list[str] | None = None) -> str:
        """The SQL for the rows that are kept. `groups` names the groups in `below`, if not by their columns."""
        groups, copies = groups or self.groups, list[str]()
        if not self.distinct:
            # Equal rows are numbered, or all rows of one value would go before all of another. Which has which number is open,
            # and makes no difference.
            number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join([*groups, *self._terms])})"
            below, copies = f"SELECT t0.*, {number} AS \"@\" FROM ({below}) AS t0", ['t0."@"']
        ranked = f"SELECT {self._narrowed}, {self.place(printing, groups, copies)} AS \"#\" FROM ({below}) AS t0"
        return f"SELECT {self.widened} FROM ({ranked}) AS t1 WHERE (t1.\"#\" <= {self.rows})"

    def place(self, printing: Printing, groups: Sequence[str], copies: Sequence[str] = ()) -> str:
        """The place of a row of `t0` in the order of its group; `copies` distinguishes equal rows."""
        grouped = f"PARTITION BY {', '.join(groups)} " if groups else ""
        terms = [term.sql(self.input, columns_of("t0", self.input)) for term in self.first] + self.keyed(printing, copies)
        return f"ROW_NUMBER() OVER ({grouped}ORDER BY {', '.join(terms)})"

    def keyed(self, printing: Printing, copies: Sequence[str] = ()) -> list[str]:
        """The keyed order of the rows of `t0` in a group, smallest first.

        Two sort keys: the hash makes the choice unbiased, the row itself makes it unique (and the plan faster).
        """
        return [self._mixed([*(f"t0.{quote(column)}" for column in self._told_apart), *copies], printing), *self._terms, *copies]

    def placed(self, below: str, groups: Sequence[str], beside: Mapping[str, str]) -> str:
        """All rows with their places "#p" in the plain order of their group, and the columns printed `beside` them.

        Rows that share all of their values share their places too: which has which makes no difference.
        """
        parts = [self._narrowed, *(f"{printed} AS {quote(name)}" for name, printed in beside.items())]
        window = f"PARTITION BY {', '.join(groups)} ORDER BY {', '.join(self._terms)}"
        return f"SELECT {', '.join(parts)}, ROW_NUMBER() OVER ({window}) AS \"#p\" FROM ({below}) AS t0"

    @property
    def groups(self) -> list[str]:
        return [part for column in self.by for part in self._group(column)]

    @property
    def widened(self) -> str:
        """The columns of rows in which numbers were narrowed, cast back to their types."""
        return ", ".join(f"CAST(t1.{quote(field.id)} AS {field.facts.type.value}) AS {quote(field.id)}" if _is_narrow(field)
                         else f"t1.{quote(field.id)}" for field in self.input.fields)

    @property
    def _narrowed(self) -> str:
        return ", ".join(f"{_narrow(field)} AS {quote(field.id)}" for field in self.input.fields)

    @property
    def _terms(self) -> list[str]:
        """The terms of the order. The sign breaks ties of 0.0 and -0.0, which are equal, so that the engine does not choose
        between them."""
        order = [_narrow(self.input.field(column)) for column in self._sorted]
        return order + [f"signbit(t0.{quote(column)})" for column in self._sorted if self.input.env[column].type is Type.DOUBLE]

    def _group(self, column: str) -> tuple[str, ...]:
        kind = self.input.env[column].type
        name = settled(_narrow(self.input.field(column)), kind)
        # Numbers tell most names apart faster than their letters.
        return (f"hash({name})", name) if kind is Type.VARCHAR else (name,)

    def _mixed(self, names: list[str], printing: Printing) -> str:
        """A number made from values and the secret; half a word is random enough, and sorts faster."""
        whole = len(names) == 1 and self.input.env[self._told_apart[0]].type is Type.BIGINT
        row, word = (names[0], "BIGINT") if whole else (f"hash({', '.join(names)})", "UBIGINT")
        return f"CAST((hash(xor({row}, CAST({printing.salt % 2**63} AS {word}))) >> 32) AS UINTEGER)"

    @property
    def _sorted(self) -> tuple[str, ...]:
        return self.order or self.by

    @property
    def distinct(self) -> bool:
        """Whether no two rows of a group are equal in the columns by which they are ordered."""
        return any(key <= {*self.by, *self._sorted} for key in self.input.unique)

    @property
    def _told_apart(self) -> tuple[str, ...]:
        """Columns in which no two rows are equal. They include the group's columns, or all groups would keep the same rows."""
        alone = any(key <= set(self._sorted) for key in self.input.unique)
        return self._sorted if alone else tuple(dict.fromkeys((*self.by, *self._sorted)))


def _is_narrow(field: Field) -> bool:
    """Whether a whole number fits into half a word in every database."""
    return field.facts.type is Type.BIGINT and field.facts.physical.inside(INTEGER)


def _narrow(field: Field) -> str:
    """A column in the form in which it is sorted: narrow rows sort faster."""
    name = f"t0.{quote(field.id)}"
    return f"CAST({name} AS INTEGER)" if _is_narrow(field) else name
