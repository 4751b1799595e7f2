"""Numbering the rows that agree on a key."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability, columns_of
from dpsql.trusted.plan.operators.groupby import MOST_ROWS
from dpsql.types import Interval, Type

NUMBER = "number"


class Numbers(Node):
    """For each row, its values of `keys` and its number among the rows that agree on them: 1, 2, 3 and so on, in no particular
    order.

    Rows of a number above m are as many as a limit of m rows for each value would leave out. Rows agree as frequencies count it,
    so those of keys hold above too.

    Proof. For a value that n rows have, the result has the rows (value, 1) ... (value, n), whichever row is given which number.
    So a row that comes below adds one row to the result, the one with the highest number, and one that leaves takes it: as many
    rows change as below. A row of the result belongs to no entity, so it has no owner.
    """

    input: Node
    keys: tuple[str, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if not self.keys or not set(self.keys) <= set(self.input.env) or NUMBER in self.input.env:
            raise InvalidPlan("rows are numbered for each value of some columns")
        counted = Facts(type=Type.BIGINT, nullable=False, physical=Interval(1, MOST_ROWS), whole=True)
        return (*(self.input.field(key) for key in self.keys), Field(id=NUMBER, name=NUMBER, facts=counted))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {**{agreed: rows for agreed, rows in self.input.max_frequencies.items() if agreed <= set(self.keys)},
                frozenset((*self.keys, NUMBER)): 1}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return Stability(rows=below[0].rows, because="one number for each row")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        keys = {key: settled(names[key], self.input.env[key].type) for key in self.keys}
        shown = [f"{printed} AS {quote(key)}" for key, printed in keys.items()]
        shown.append(f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys.values())}) AS {quote(NUMBER)}")
        return f"SELECT {', '.join(shown)} FROM ({below[0]}) AS t0"
