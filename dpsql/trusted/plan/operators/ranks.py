"""The ordered values of a column in each cell, from which quantiles are chosen."""

from __future__ import annotations

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.grouped_sums import only_readable
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.types import Interval, Type

VALUE, COUNT = "value", "count"
MOST_COUNTED = 2**20
NARROW = ("USMALLINT", 2**16 - 1), ("INTEGER", 2**31 - 1), ("BIGINT", 2**63 - 1)  # types, and the largest number of each


class Ranks(Summary):
    """For each value of `keys`, the number of rows with each grid value of `column`. Rows with NULL, NaN or false `when` are
    left out, and so are those whose keys no client could read (`grouped_sums.only_readable`).

    With `ties` bits, rows of one grid value are told apart by a hash of the row: the value is then value * 2^ties + hash, so that
    quantiles that fall on one value can split its rows. Dividing by 2^ties, rounded down, gives the value back.

    A value may occur in several rows, whose counts are added: if values are rarely equal, sorting is faster than counting. If the
    embedded engine reads all rows at once (`Printing.native`), the result has another form, which is read faster. With keys there
    is one row for each group, with a list of its values. Without keys the values have no counts if the engine does not count
    them. NULL among the values stands for rows that are left out.

    Proof. Read as a multiset of (keys, value) pairs it is a projection and a filter of the input, row by row, so it moves by as
    many elements as the input by rows. It carries no stability as a relation; scores of ranks are bounded from the
    stability of its input (`measurements.select.Select`, `smooth_quantile.Smooth`).

    Proof that it is merged. Each row adds one pair, whatever other rows there are, and the counts of equal pairs add up.
    """

    keys: tuple[str, ...]
    column: str
    grid: Quantizer
    when: str | None = None
    ties: int = 0

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        kind = self.input.field(self.column).facts.type
        if not self.grid.fits(kind) or not self.grid.from_low:
            raise InvalidPlan("only numbers and dates on a grid from their lower bound are ranked")
        if self.when is not None and self.input.field(self.when).facts.type is not Type.BOOLEAN:
            raise InvalidPlan("the condition of a quantile is not a truth value")
        if {VALUE, COUNT} & {key.lower() for key in self.keys}:
            raise InvalidPlan("a key has the name of a result")
        if not 0 <= self.ties <= 20:
            raise InvalidPlan("ties are broken by at most 20 bits")
        inside = Interval(0, self.most)
        return (*(self.input.field(key) for key in self.keys),
                Field(id=VALUE, name=VALUE, facts=Facts(type=Type.BIGINT, nullable=False, physical=inside, declared=inside)),
                Field(id=COUNT, name=COUNT, facts=Facts(type=Type.BIGINT, nullable=False)))

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        cell = self.grid.to_sql(names[self.column], self.input.env[self.column].type)
        keys = [f"{settled(names[key], self.input.env[key].type)} AS {quote(key)}" for key in self.keys]
        where = only_readable(self.input, self.keys)
        where += f"{' AND' if where else ' WHERE'} {names[self.when]}" if self.when is not None else ""
        if self.ties:
            cell = f"(({cell} * {1 << self.ties}) + CAST((hash({', '.join(names.values())}) >> {64 - self.ties}) AS BIGINT))"
        inner = f"SELECT {', '.join([*keys, f'{cell} AS {quote(VALUE)}'])} FROM ({below[0]}) AS t0{where}"
        if printing.native:
            return self._natively(inner)
        group = ", ".join(f"t1.{quote(name)}" for name in (*self.keys, VALUE))
        count, by = ("COUNT(*)", f" GROUP BY {group}") if self.counted else ("CAST(1 AS BIGINT)", "")
        return f"SELECT {group}, {count} AS {quote(COUNT)} FROM ({inner}) AS t1 WHERE t1.{quote(VALUE)} IS NOT NULL{by}"

    def _natively(self, inner: str) -> str:
        """The statement for the embedded engine, which groups numbers of 16 bits by arrays instead of hash tables."""
        value = f"TRY_CAST(t1.{quote(VALUE)} AS {next(kind for kind, most in NARROW if self.most <= most)})"
        if self.keys:
            group = ", ".join(f"t1.{quote(name)}" for name in self.keys)
            return f"SELECT {group}, list({value}) AS {quote(VALUE)} FROM ({inner}) AS t1 GROUP BY {group}"
        count, by = (f", COUNT(*) AS {quote(COUNT)}", f" GROUP BY {value}") if self.counted else ("", "")
        return f"SELECT {value} AS {quote(VALUE)}{count} FROM ({inner}) AS t1{by}"

    def merge_sql(self, parts: str) -> str:
        names = ", ".join(f"t0.{quote(name)}" for name in (*self.keys, VALUE))
        if not self.counted:
            return f"SELECT {names}, t0.{quote(COUNT)} FROM {parts} AS t0"
        return f"SELECT {names}, CAST(SUM(t0.{quote(COUNT)}) AS BIGINT) AS {quote(COUNT)} FROM {parts} AS t0 GROUP BY {names}"

    @property
    def merge_keys(self) -> tuple[str, ...]:
        return (*self.keys, VALUE) if self.counted else ()

    def combine_sql(self, parts: str) -> str:
        return self.merge_sql(parts)

    @property
    def counted(self) -> bool:
        """Whether the engine counts equal values, which it does unless there are too many different ones."""
        return self.most < MOST_COUNTED

    @property
    def most(self) -> int:
        """The largest value."""
        return ((self.grid.most + 1) << self.ties) - 1
