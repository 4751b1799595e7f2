"""The columns that decide which rows count, each with the values that some query distinguishes.

Every row has one of these values, so totals count all rows. A column with declared values has these, NULL, and cells for values
that are not declared (`batch.undeclared`). Any other column of numbers is cut at the constants that conditions compare it with:
every query treats the numbers between two cuts alike, so one of them represents all, and each cut represents itself. If a query
does more with the column, such as GROUP BY floor(income / 1000), all of its values are taken as undeclared, and rows are
distinguished by the results of the expressions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.conditions import truths
from dpsql.batch.linear_queries import column_of
from dpsql.batch.undeclared import COMPARISONS, Cell, UndeclaredCells, cuts_of, undeclared_cells
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, field
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref, Value, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.types import INT64, Type

MOST_VALUES = 100_000
NO_VALUES = Domain(())
NO_OTHERS = partial(UndeclaredCells, below=(), others=(), rest=None)
AT_ONCE = 100  # expressions that are evaluated by one statement
Bits: TypeAlias = NDArray[np.uint8]  # a truth value for each value of a column, eight in a byte


class AttributeColumn(Frozen):
    """A column of the source as an attribute, or several whose values go together.

    name    its name in messages
    refs    the columns
    code    what rows are grouped by: the column, or the number of the interval that its value lies in
    values  the values of `code`, NULL among them
    stands  for each column, the value of it that represents each of these
    rest    the index of the value that represents all values of `code` that are not among them
    told    for expressions whose result on a representative may differ from that on what it represents: the latter, by index
    """

    name: str
    refs: tuple[Ref, ...]
    code: Expr
    values: tuple[Value, ...]
    stands: tuple[tuple[Value, ...], ...]
    rest: int | None = None
    told: Mapping[Expr, Mapping[int, Value]] = field(default_factory=dict, compare=False)

    @property
    def _given(self) -> dict[str, tuple[Type, tuple[Value, ...]]]:
        return {ref.column: (ref.type, stands) for ref, stands in zip(self.refs, self.stands, strict=True)}

    def where_true(self, tests: Sequence[Expr], scratch: Scratch) -> dict[Expr, Bits]:
        """For which of `values` each condition on the columns is true."""
        found: dict[Expr, Bits] = {}
        for test, here in truths(tests, self._given, scratch):
            for place, value in self.told.get(test, {}).items():
                here[place] = value is True
            found[test] = np.packbits(here)
        return found

    def results(self, exprs: Sequence[Expr], scratch: Scratch) -> dict[Expr, list[Value]]:
        """The results of expressions over the columns, one for each of `values`."""
        given, found = self._given, dict[Expr, list[Value]]()
        for first in range(0, len(exprs), AT_ONCE):
            part = exprs[first : first + AT_ONCE]
            rows = scratch.evaluate(part, given)
            found |= {expr: [row[i] for row in rows] for i, expr in enumerate(part)}
        for expr, values in found.items():
            for place, value in self.told.get(expr, {}).items():
                values[place] = value
        return found

    def is_read_by(self, expr: Expr) -> bool:
        """Whether an expression reads one of the columns."""
        ref = column_of(expr)
        return ref is not None and any(ref.column == own.column for own in self.refs)


def attributes(source: Node, exprs: Sequence[tuple[Expr, Sequence[Value]]], scratch: Scratch,
               running: Collection[Expr] = (), together: Sequence[AttributeColumn] = ()) -> tuple[AttributeColumn, ...]:
    """The attributes of keys and tests over one source: those of columns that vary `together`, and then one for each other
    column, in order of first use. Raises Unsupported.

    Each expression is given with those of its values that must be distinguished. Window sums run over the values of `running`
    keys in order, from the declared values to NULL, so no other values may lie between these.
    """
    read: dict[str, dict[Expr, dict[Value, None]]] = {}
    for expr, values in exprs:
        ref = column_of(expr)
        if ref is not None and not any(column.is_read_by(expr) for column in together):
            read.setdefault(ref.column, {}).setdefault(expr, {}).update(dict.fromkeys(values))
    found = [source.field(name) for name in read]
    alone = [_attribute(each.ref, each.facts, each.name, {expr: tuple(values) for expr, values in own.items()}, scratch,
                        running) for each, own in zip(found, read.values(), strict=True)]
    return (*together, *alone)


def _attribute(ref: Ref, known: Facts, name: str, exprs: Mapping[Expr, Sequence[Value]], scratch: Scratch,
               running: Collection[Expr]) -> AttributeColumn:
    if known.type is Type.BOOLEAN:
        return AttributeColumn(name=name, refs=(ref,), code=ref, values=(False, True, None), stands=((False, True, None),))
    if known.domain is not None and len(known.domain) <= MOST_VALUES:
        closed = known.domain.closed
        other = NO_OTHERS(code=ref) if closed else undeclared_cells(ref, known, known.domain, exprs, scratch)
        nulls_within = any(expr in running and None in values for expr, values in exprs.items())
        return _declared(name, ref, known.domain, other, nulls_within=nulls_within, nullable=known.nullable or not closed)
    if known.type.numeric:
        found = [cuts_of(expr, ref, COMPARISONS) for expr in exprs]
        compared = [own for own in found if own is not None]
        if len(compared) < len(found) and not any(expr in running for expr in exprs):
            return _declared(name, ref, NO_VALUES, undeclared_cells(ref, known, NO_VALUES, exprs, scratch), nulls_within=False,
                             nullable=True)
        cuts = _places(compared, known.type)
        if len(compared) == len(found) and cuts and len(cuts) < MOST_VALUES // 2:
            return _cut(name, ref, cuts)
    why = f"the values of {name} are not declared, and a workload needs declared values" if known.domain is None else (
        f"{name} has {len(known.domain):,} declared values, and a workload distinguishes at most {MOST_VALUES:,} of a "
        "column")
    raise Unsupported(why, code="workload", span=next(iter(exprs)).span, subject=name, try_="values = [...] or range = [...] "
                      f"for {name} in the policy, or comparisons with constants")


def _declared(name: str, ref: Ref, domain: Domain, other: UndeclaredCells, *, nulls_within: bool,
              nullable: bool) -> AttributeColumn:
    """The cells below the declared values, these values, the other cells, and NULL. A row may have NULL even if only the policy
    excludes it, and not the database; it then counts wherever queries count NULL, unless the policy excludes all other values
    too: then no row has others, or it is in no cell."""
    others = [*other.others]
    after = ([None] * nullable, others) if nulls_within else (others, [None] * nullable)
    cells: list[Cell | None] = [*other.below, *(None for _ in domain.values), *after[0], *after[1]]
    first = len(other.below)
    values = [cell.value if cell is not None else None for cell in cells]
    stands = [cell.stand if cell is not None else None for cell in cells]
    values[first : first + len(domain)] = stands[first : first + len(domain)] = domain.values
    told: dict[Expr, dict[int, Value]] = {}
    for place, cell in enumerate(cells):
        for expr, value in cell.told.items() if cell is not None else ():
            told.setdefault(expr, {})[place] = value
    rest = values.index(other.rest) if other.rest is not None else None
    return AttributeColumn(name=name, refs=(ref,), code=other.code, values=tuple(values), rest=rest, told=told,
                           stands=(tuple(stands),))


def _places(found: Iterable[Iterable[Value]], kind: Type) -> list[float]:
    """The cuts in order: the constants, or in a column of whole numbers the whole numbers on either side of each."""
    cuts = [cut for own in found for cut in own if isinstance(cut, int | float) and math.isfinite(cut)]
    ends = [end for cut in cuts for end in (math.floor(cut), math.ceil(cut))] if kind is Type.BIGINT else cuts
    return sorted({_held(end, kind) for end in ends})


def _cut(name: str, ref: Ref, cuts: Sequence[float]) -> AttributeColumn:
    """Alternating intervals and cuts: below the first, the first, between it and the second, the second, ..., above the last.

    The number of a value is found by bisection. (NaN is above all cuts, as it is in comparisons.)
    """
    ends = [Literal(value=int(cut) if ref.type is Type.BIGINT and float(cut).is_integer() else float(cut), type=ref.type)
            for cut in cuts]

    def halved(first: int, last: int) -> Expr:
        if first == last:
            return whole(2 * first)
        middle = (first + last) // 2
        return Case(branches=((predicate("<", ref, ends[middle]), halved(first, middle)),
                              (predicate("=", ref, ends[middle]), whole(2 * middle + 1))),
                    otherwise=halved(middle + 1, last), type=Type.BIGINT)

    code = Case(branches=((predicate("is null", ref), Literal(value=None, type=Type.BIGINT)),), otherwise=halved(0, len(cuts)),
                type=Type.BIGINT)
    stands: list[Value] = []
    for before, cut, end in zip([-math.inf, *cuts], cuts, ends, strict=False):
        stands += [_between(before, cut, ref.type), end.value]
    stands.append(_between(cuts[-1], math.inf, ref.type))
    return AttributeColumn(name=name, refs=(ref,), code=code, values=(*range(2 * len(cuts) + 1), None),
                           stands=((*stands, None),))


def _held(cut: float, kind: Type) -> float:
    """A constant, moved into the range of the column's type: there are no values beyond it to distinguish."""
    return min(max(cut, INT64.low), INT64.high) if kind is Type.BIGINT else cut


def _between(low: float, high: float, kind: Type) -> Value:
    """A number between two cuts; if there is none, no row lies there either, and any number will do."""
    if kind is Type.BIGINT:
        return int(_held(math.floor(low) + 1 if math.isfinite(low) else math.ceil(high) - 1, kind))
    middle, least = low / 2 + high / 2, math.nextafter(low, high)
    return middle if math.isfinite(middle) and low < middle < high else least if least < high or high == math.inf else low
