"""Exact aggregates of a public relation."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote, readable, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.grouped_sums import only_readable, saturated
from dpsql.types import Type

# The SQL of each aggregate. It is run over public relations alone; nothing else about an aggregate is trusted.
_AS_IN_SQL = "CAST({name}({columns}){when} AS {type})"
EXACT = {
    "count": "COUNT({columns}){when}", "count_distinct": "COUNT(DISTINCT {columns}){when}", "sum": "SUM({columns}){when}",
    "geomean": "exp(AVG({columns}){when})",  # of logarithms
    "quantile": "CAST(quantile_{form}({columns}, {fraction}){when} AS {type})",
    **dict.fromkeys((
        "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "min", "max", "mode",
        "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2",
    ), _AS_IN_SQL),
}


class ExactAggregate(Frozen):
    """One aggregate over a public relation: the value of `EXACT[function]` for its columns, over the rows where the column `when`
    holds.

    fraction, discrete   of a quantile: its place among the values, and whether it is one of them
    """

    id: str
    function: str
    columns: tuple[str, ...] = ()
    when: str | None = None
    fraction: Fraction | None = None
    discrete: bool = False
    type: Type = Type.DOUBLE
    name: str = ""


class Statistics(Summary):
    """For each value of `keys`, the aggregates as in plain SQL. Without keys there is one row, even if there are no rows.
    Groups whose keys no client could read are left out, and an aggregate that is a day outside the years 1 to 9999 is NULL.

    Proof. Over a public relation nothing moves: 0. Over anything else it has no bound, and the kernel reads it only where it
    is public.
    """

    keys: tuple[str, ...]
    calls: tuple[ExactAggregate, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        for call in self.calls:
            if not {*call.columns, *([call.when] if call.when is not None else [])} <= set(self.input.env):
                raise InvalidPlan("an aggregate reads an unknown column")
        return (*(self.input.field(key) for key in self.keys),
                *(Field(id=call.id, name=call.name, facts=Facts(type=call.type)) for call in self.calls))

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {frozenset(self.keys): 1}

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        keys = {key: settled(names[key], self.input.env[key].type) for key in self.keys}
        parts = [f"{printed} AS {quote(key)}" for key, printed in keys.items()]
        parts += [f"{self._readable(call, names)} AS {quote(call.id)}" for call in self.calls]
        group = f" GROUP BY {', '.join(keys.values())}" if keys else ""
        return f"SELECT {', '.join(parts) or '1'} FROM ({below[0]}) AS t0{only_readable(self.input, self.keys)}{group}"

    def _readable(self, call: ExactAggregate, names: dict[str, str]) -> str:
        found = self._aggregate(call, names)
        test = readable(found, call.type)
        return f"(CASE WHEN {test} THEN {found} END)" if test else found

    def _aggregate(self, call: ExactAggregate, names: dict[str, str]) -> str:
        when = f" FILTER (WHERE {names[call.when]})" if call.when is not None else ""
        column = ", ".join(names[one] for one in call.columns) or "*"
        found = EXACT[call.function].format(
            name=call.function.upper(), columns=column, when=when, type=call.type.value,
            form="disc" if call.discrete else "cont", fraction=repr(float(call.fraction or 0)))
        whole = call.function == "sum" and call.type is Type.BIGINT
        return f"(CASE WHEN {found} IS NOT NULL THEN {saturated(found)} END)" if whole else found
