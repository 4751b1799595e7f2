"""The data vector: integer sums for each cell of a GROUP BY. It is the last operator of a private plan, and noise is added to its
result."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import all_readable, quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.summands import Summand
from dpsql.types import Type

SATURATION = 2**62
OF_PARTS = 2**110  # no sum of 2^50 rows of numbers of 53 bits is beyond it, and those of 2^16 parts can be added in 128 bits


def saturated(total: str, bound: int = SATURATION) -> str:
    """A HUGEINT sum as a BIGINT, clamped to ±bound.

    Clamping a total is 1-Lipschitz, so sensitivities still hold; and no total raises, whatever the rows are.
    """
    return f"CAST(LEAST(GREATEST(COALESCE({total}, 0), -{bound}), {bound}) AS BIGINT)"


def clamped_total(total: str, printing: Printing) -> str:
    """A HUGEINT sum as a BIGINT; or as a HUGEINT, if it is first added to others."""
    if printing.hold:
        return saturated(total)
    return f"CAST(LEAST(GREATEST(COALESCE({total}, 0), -{OF_PARTS}), {OF_PARTS}) AS HUGEINT)"


def check_summands(input: Node, summands: tuple[Summand, ...]) -> None:
    """Raises InvalidPlan if a summand reads a missing column, or if its sum could fail."""
    if not summands:
        raise InvalidPlan("nothing is summed")
    for summand in summands:
        if not set(summand.columns) <= set(input.env):
            raise InvalidPlan("a summand reads an unknown column")
        if summand.when is not None and input.env[summand.when].type is not Type.BOOLEAN:
            raise InvalidPlan("the condition of a summand is not a truth value")
        if not summand.accepts(input.env):
            raise InvalidPlan("a summand adds up values that are not numbers on its grid")


def grouped_sums(input: Node, below: str, keys: tuple[str, ...], summands: tuple[Summand, ...], totals: tuple[str, ...],
                 printing: Printing, where: str = "", hold: Callable[[str, Printing], str] = clamped_total) -> str:
    """The SELECT that sums the components of all summands for each value of `keys`, over the rows that satisfy the condition
    `where`; `hold` clamps a sum."""
    names, kinds = columns_of("t0", input), printing.seen(input)
    sums: list[str] = []
    inner = [f"{settled(names[key], input.env[key].type)} AS {quote(key)}" for key in keys]
    for i, summand in enumerate(summands):
        cells = summand.cells(names, kinds)
        aliases = [f"#{i}_{j}" for j in range(len(cells))]
        inner += [f"{cell} AS {quote(alias)}" for cell, alias in zip(cells, aliases, strict=True)]
        sums += summand.sums(tuple(f"t1.{quote(alias)}" for alias in aliases))
    parts = [f"t1.{quote(key)} AS {quote(key)}" for key in keys]
    parts += [f"{hold(total, printing)} AS {quote(name)}" for total, name in zip(sums, totals, strict=True)]
    group = " GROUP BY " + ", ".join(f"t1.{quote(key)}" for key in keys) if keys else ""
    return f"SELECT {', '.join(parts)} FROM (SELECT {', '.join(inner) or '1'} FROM ({below}) AS t0{where}) AS t1{group}"


def only_readable(input: Node, keys: tuple[str, ...], alias: str = "t0") -> str:
    """The clause that excludes rows with keys that no client could read."""
    return all_readable((f"{alias}.{quote(key)}", input.env[key].type) for key in keys)


class GroupedSums(Summary):
    """For each value of `keys`, the sums of all summands, as integers `m<i>_<j>`. Without keys there is one row, even if there
    are no rows.

    Rows of which a key is a day outside the years 1 to 9999 are left out, as a client would read their group as another one;
    unless `in_engine` says that the keys stay in the engine, where all rows must count.

    Proof. It is not itself a relation that may be asked about: it carries no stability. Its sensitivity is derived by
    `certificate.certify` from the stability of its input and the norms of its summands. Whether a row is left out rests on
    its own keys, so no more of them move.

    Proof that it is merged. Where the rows of the input are those over disjoint sets of entities put together, the sum over a
    cell is the sum of the sums, which are of integers and within 128 bits; keys are settled, and grouped as they were. What
    holds a total within 64 bits is applied once, to the whole; so some of the sums may be added up before others, in any order.
    """

    keys: tuple[str, ...]
    summands: tuple[Summand, ...]
    in_engine: bool = False

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        check_summands(self.input, self.summands)
        sums = tuple(Field(id=name, name=name, facts=Facts(type=Type.BIGINT, nullable=False)) for name in self.totals)
        return (*(self.input.field(key) for key in self.keys), *sums)

    @property
    def totals(self) -> tuple[str, ...]:
        """The identifiers of the sums, summand by summand."""
        return tuple(f"m{i}_{j}" for i, summand in enumerate(self.summands) for j in range(summand.components))

    @property
    def conditional(self) -> bool:
        """Whether a condition decides which rows are summed."""
        return any(summand.when is not None for summand in self.summands)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        where = "" if self.in_engine else only_readable(self.input, self.keys)
        return grouped_sums(self.input, below[0], self.keys, self.summands, self.totals, printing, where)

    def merge_sql(self, parts: str) -> str:
        return self._added(parts, saturated)

    @property
    def merge_keys(self) -> tuple[str, ...]:
        return self.keys

    def combine_sql(self, parts: str) -> str:
        return self._added(parts, lambda total: f"CAST({total} AS HUGEINT)")

    def _added(self, parts: str, hold: Callable[[str], str]) -> str:
        keys = "".join(f"t0.{quote(key)}, " for key in self.keys)
        totals = ", ".join(f"{hold(f'SUM(t0.{quote(total)})')} AS {quote(total)}" for total in self.totals)
        return f"SELECT {keys}{totals} FROM {parts} AS t0" + (f" GROUP BY {keys[:-2]}" if keys else "")
