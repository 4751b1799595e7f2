"""Bounding the vector that each entity contributes."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Norm, Printing, PublicFacts, Stability, columns_of
from dpsql.trusted.plan.operators.contributions import MOST, TOO_LARGE, added_squares
from dpsql.types import Interval, Type


class Clip(Node):
    """Scale down the contributions of each entity whose `order`-norm (1 or 2), over all its cells, exceeds `bound`.

    Proof. An entity's vector v becomes v if |v| <= C, and otherwise v * C(1 - 2^-40) / |v| with each entry rounded towards
    zero. In exact arithmetic the latter has norm C(1 - 2^-40) or less; the few roundings of the factor and of the product,
    each a relative 2^-53, cannot make up for the 2^-40, and rounding towards zero only shrinks. So the norm is at most C. The
    factor depends on the entity's own rows alone: with the entity its vector leaves, and no other changes. Norms are summed
    and compared with C as integers, so that no order of addition and no rounding matters. Where the sum of squares is so large
    that it is cut off, the entity's vector becomes zero.

    Source: Wilson et al., PoPETs 2020 (clamping per-user totals); scaling to a norm over groups is theirs for one group and
    the standard projection for many.
    """

    input: Node
    owner: str
    columns: tuple[str, ...]
    order: int
    bound: int

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if self.order not in (1, 2) or not 1 <= self.bound <= MOST:
            raise InvalidPlan("a norm is of order 1 or 2, its bound between 1 and 2^50")
        limits = Interval(-MOST, MOST)
        if not self.columns or self.owner in self.columns:
            raise InvalidPlan("a clip applies to contributions, not to the entity's name")
        for column in self.columns:
            known = self.input.field(column).facts
            if known.type is not Type.BIGINT or not known.physical.inside(limits) or known.nullable:
                raise InvalidPlan("only integers within 2^50 can be clipped")
        kept = Interval(-self.bound, self.bound)
        return tuple(replace(field, facts=Facts(type=Type.BIGINT, nullable=False, physical=kept, declared=kept, whole=True))
                     if field.id in self.columns else field for field in self.input.fields)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {agreed: rows for agreed, rows in self.input.max_frequencies.items() if not agreed & set(self.columns)}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].owner != self.owner:
            return Stability(rows=None, because="the rows do not belong to one entity each")
        norm = Norm(order=self.order, bound=self.bound, columns=self.columns)
        return replace(below[0], norm=norm, because=f"each entity's vector is scaled to an l{self.order} norm of {self.bound}")

    @property
    def _one_row(self) -> bool:
        return any(key <= {self.owner} for key in self.input.unique)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if self._one_row and len(self.columns) == 1:
            return self._clamped(below[0])
        size = " + ".join(self._size(f"t0.{quote(column)}") for column in self.columns)
        if self._one_row:
            kept = ", ".join(columns_of("t0", self.input).values())
            inner = f"SELECT {kept}, ({size}) AS \"#\" FROM ({below[0]}) AS t0"
        else:
            owner = f"t0.{quote(self.owner)}"  # what is read twice is planned and worked out once
            total = f"SUM({size})" if self.order == 1 else added_squares(f"({size})")
            norms = f"SELECT {owner} AS \"@\", {total} AS \"#\" FROM \"##\" AS t0 GROUP BY {owner}"
            kept = ", ".join(columns_of("t2", self.input).values())
            inner = (f"WITH \"##\" AS MATERIALIZED ({below[0]}) SELECT {kept}, t3.\"#\" AS \"#\" FROM \"##\" AS t2 "
                     f"JOIN ({norms}) AS t3 ON (t2.{quote(self.owner)} = t3.\"@\")")
        return f"SELECT {self._scaled()} FROM ({inner}) AS t1"

    def _size(self, printed: str) -> str:
        wide = f"CAST(COALESCE({printed}, 0) AS HUGEINT)"
        return f"abs({wide})" if self.order == 1 else f"({wide} * {wide})"

    def _scaled(self) -> str:
        """The SQL that scales vectors. Whether to scale is decided on the exact integer |v|^order; only the factor is rounded."""
        size = "CAST(t1.\"#\" AS DOUBLE)" if self.order == 1 else "sqrt(CAST(t1.\"#\" AS DOUBLE))"
        parts = []
        for field in self.fields:
            name = f"t1.{quote(field.id)}"
            if field.id in self.columns:
                factor = f"CAST({self.bound * (1 - 2**-40)!r} AS DOUBLE) / {size}"
                name = (f"(CASE WHEN t1.\"#\" >= CAST({TOO_LARGE} AS HUGEINT) THEN CAST(0 AS BIGINT) "
                        f"WHEN t1.\"#\" > CAST({self.bound**self.order} AS HUGEINT) "
                        f"THEN CAST(trunc(CAST({name} AS DOUBLE) * ({factor})) AS BIGINT) ELSE {name} END)")
            parts.append(f"{name} AS {quote(field.id)}")
        return ", ".join(parts)

    def _clamped(self, below: str) -> str:
        """The SQL for vectors with one number, where scaling to the bound is clamping."""
        parts = []
        for field in self.fields:
            name = f"t0.{quote(field.id)}"
            if field.id in self.columns:
                high, low = f"CAST({self.bound} AS BIGINT)", f"CAST(({-self.bound}) AS BIGINT)"
                name = f"(CASE WHEN {name} > {high} THEN {high} WHEN {name} < {low} THEN {low} ELSE {name} END)"
            parts.append(f"{name} AS {quote(field.id)}")
        return f"SELECT {', '.join(parts)} FROM ({below}) AS t0"
