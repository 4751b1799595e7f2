"""How often values occur, which determines how the number of distinct values falls as rows are removed."""

from __future__ import annotations

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import all_readable, quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.summands import present
from dpsql.types import Type

TIMES, VALUES = "times", "values"


class Multiplicities(Summary):
    """For each value of `keys` and each number n, how many values of `column` occur in n rows.

    Rows where the column is NULL or NaN or `when` is not true are left out, and those whose keys no client could read; values are
    equal as for DISTINCT, and stay in the engine.

    Proof. It carries no stability as a relation: it is a function of the rows of its input, as a multiset, and what
    is worked out from it is bounded from the stability of that (`flip_distance.DistinctWithin`).
    """

    keys: tuple[str, ...]
    column: str
    when: str | None = None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        _ = self.input.field(self.column)
        if self.when is not None and self.input.field(self.when).facts.type is not Type.BOOLEAN:
            raise InvalidPlan("the condition of a count is not a truth value")
        if {TIMES, VALUES} & {key.lower() for key in self.keys}:
            raise InvalidPlan("a key has the name of a result")
        whole = Facts(type=Type.BIGINT, nullable=False)
        return (*(self.input.field(key) for key in self.keys), Field(id=TIMES, name=TIMES, facts=whole),
                Field(id=VALUES, name=VALUES, facts=whole))

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names, env = columns_of("t0", self.input), self.input.env
        keys = {f"#k{i}": key for i, key in enumerate(self.keys)}
        parts = [f"{settled(names[key], env[key].type)} AS {quote(alias)}" for alias, key in keys.items()]
        parts.append(f"{settled(names[self.column], env[self.column].type)} AS \"#v\"")
        tests = [present(names[self.column], env[self.column].type), *([names[self.when]] if self.when is not None else [])]
        where = " AND ".join([*tests, *filter(None, [all_readable(((names[key], env[key].type) for key in self.keys), word="")])])
        groups = "".join(f"t1.{quote(alias)}, " for alias in keys)
        rows = f"SELECT {', '.join(parts)} FROM ({below[0]}) AS t0 WHERE {where}"
        counted = f"SELECT {groups}COUNT(*) AS \"#n\" FROM ({rows}) AS t1 GROUP BY {groups}t1.\"#v\""
        shown = "".join(f"t2.{quote(alias)} AS {quote(key)}, " for alias, key in keys.items())
        group = "".join(f"t2.{quote(alias)}, " for alias in keys)
        return (f"SELECT {shown}t2.\"#n\" AS {quote(TIMES)}, COUNT(*) AS {quote(VALUES)} FROM ({counted}) AS t2 "
                f"GROUP BY {group}t2.\"#n\"")
