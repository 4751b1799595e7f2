"""Exact aggregates of a public relation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.aggregate_calls import AggregateCall
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote, readable, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.grouped_sums import only_readable, saturated
from dpsql.types import Type


@dataclass(frozen=True, kw_only=True)
class Statistics(Summary):
    """For each value of `keys` the aggregates as plain SQL gives them; no key: one row, even over no rows. Groups whose keys no
    client could read are left out, and an aggregate that is a day outside the years 1 to 9999 is NULL.

    Proof. Over a public relation nothing moves: 0. Over anything else it has no bound, and the kernel reads it only where it
    is public.
    """

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        for call in self.calls:
            if not {*call.columns, *([call.when] if call.when is not None else [])} <= set(self.input.env):
                raise InvalidPlan("an aggregate reads an unknown column")
        return (*(self.input.field(key) for key in self.keys),
                *(Field(id=call.id, name=call.text or call.function, facts=Facts(type=call.type)) for call in self.calls))

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

    def _readable(self, call: AggregateCall, names: dict[str, str]) -> str:
        found = self._aggregate(call, names)
        test = readable(found, call.type)
        return f"(CASE WHEN {test} THEN {found} END)" if test else found

    def _aggregate(self, call: AggregateCall, names: dict[str, str]) -> str:
        when = f" FILTER (WHERE {names[call.when]})" if call.when is not None else ""
        column = ", ".join(names[one] for one in call.columns[:2]) or "*"  # a third one is made of two
        match call.function:
            case "count":
                return f"COUNT({column}){when}"
            case "count_distinct":
                return f"COUNT(DISTINCT {column}){when}"
            case "sum":
                total = f"SUM({column}){when}"
                return f"(CASE WHEN {total} IS NOT NULL THEN {saturated(total)} END)" if call.type is Type.BIGINT else total
            case "quantile" if call.fraction is not None:
                kind = "quantile_disc" if call.discrete else "quantile_cont"
                return f"CAST({kind}({column}, {float(call.fraction)!r}){when} AS {call.type.value})"
            case "geomean":
                return f"exp(AVG({column}){when})"
            case name:
                return f"CAST({name.upper()}({column}){when} AS {call.type.value})"
