"""For which values of a column conditions are true, without evaluating every condition at every value.

Where a condition only compares a column with constants, it is the same for all values between two neighbouring constants
(`undeclared.cuts_of`). So the engine evaluates it at one value of each such stretch, at the constants themselves, and at NULL. Of
texts only equality with constants is used in this way. All other conditions are evaluated at every value.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.undeclared import COMPARISONS, EQUALITIES, LINES, cuts_of
from dpsql.frozen import Frozen
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.plan.expr.nodes import Expr, Ref, Value
from dpsql.types import Type

AT_ONCE = 100  # conditions that are evaluated by one statement
Flags = NDArray[np.bool_]
_KINDS: dict[Type, tuple[type, ...]] = {  # of the values of a type
    Type.BIGINT: (int,), Type.DOUBLE: (int, float), Type.VARCHAR: (str,), Type.DATE: (dt.date,), Type.TIMESTAMP: (dt.datetime,)}


def truths(tests: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Value]]], scratch: Scratch) -> Iterator[tuple[
        Expr, Flags]]:
    """Each condition, with whether it is true for each of the rows that are given column by column."""
    line = _sorted(columns)
    cuts = {test: line.cuts(test) for test in tests} if line is not None else {}
    settled = [test for test in tests if cuts.get(test) is not None]
    if line is not None:
        for first in range(0, len(settled), AT_ONCE):
            some = settled[first : first + AT_ONCE]
            starts = line.stretches([cut for test in some for cut in cuts[test] or ()])
            found = scratch.truths(some, line.at(starts))
            yield from zip(some, line.spread(found, starts), strict=True)
    others = [test for test in tests if cuts.get(test) is None]
    for first in range(0, len(others), AT_ONCE):
        some = others[first : first + AT_ONCE]
        yield from zip(some, scratch.truths(some, columns), strict=True)


class _Sorted(Frozen, eq=False):
    """The values of one column in order.

    places     their positions on a line, sorted; NULL is not among them
    order      the indices of the values in that order, those of NULL last
    positions  the position of each text, if positions are only numbers of texts
    """

    ref: Ref
    values: Sequence[Value]
    places: NDArray[np.int64] | NDArray[np.float64]
    order: NDArray[np.intp]
    positions: Mapping[Value, int] | None

    def cuts(self, test: Expr) -> list[float] | None:
        """The positions at which a condition may change; None if they do not follow from its text."""
        found = cuts_of(test, self.ref, COMPARISONS if self.positions is None else EQUALITIES)
        if found is None or not all(_comparable(cut, self.ref.type) for cut in found):
            return None
        if self.positions is not None:
            return [self.positions[cut] for cut in found if cut in self.positions]
        return [place for cut in found for place in LINES[self.ref.type].around(cut)]

    def stretches(self, cuts: Sequence[float]) -> NDArray[np.intp]:
        """Where stretches of values begin that no condition with these cuts distinguishes, in sorted order."""
        ends = np.array(sorted(set(cuts)), dtype=self.places.dtype)
        found = np.concatenate([[0], *(np.searchsorted(self.places, ends, side=side) for side in ("left", "right")),
                                [len(self.places)]])
        return np.unique(found[found < len(self.order)])

    def at(self, starts: NDArray[np.intp]) -> dict[str, tuple[Type, list[Value]]]:
        """The first value of each stretch."""
        return {self.ref.column: (self.ref.type, [self.values[at] for at in self.order[starts].tolist()])}

    def spread(self, found: Flags, starts: NDArray[np.intp]) -> Flags:
        """Truth values of stretches as those of all values, in the order in which these were given."""
        wide = np.repeat(found, np.diff(starts, append=len(self.order)), axis=1)
        if (self.order[:-1] < self.order[1:]).all():
            return wide
        back = np.empty_like(wide)
        back[:, self.order] = wide
        return back


def _sorted(columns: Mapping[str, tuple[Type, Sequence[Value]]]) -> _Sorted | None:
    """The values in order, if there is one column and its type has an order."""
    if len(columns) != 1:
        return None
    ((name, (kind, values)),) = columns.items()
    known = [value for value in values if value is not None]
    places = _places(known, kind)
    if places is None:
        return None
    missing = np.fromiter((value is None for value in values), dtype=bool, count=len(values))
    told, positions = np.flatnonzero(~missing), None
    if kind is Type.VARCHAR:
        positions = dict[Value, int](zip(known, places.tolist(), strict=True))
    order = np.argsort(places, kind="stable")
    return _Sorted(ref=Ref(column=name, type=kind), values=values, places=places[order],
                   order=np.concatenate([told[order], np.flatnonzero(missing)]), positions=positions)


def _places(values: Sequence[Value], kind: Type) -> NDArray[np.int64] | NDArray[np.float64] | None:
    """The positions of values on a line, those of texts in order of first use; None if some have none."""
    if not set(map(type, values)) <= {*_KINDS.get(kind, ())}:
        return None
    if kind is Type.DOUBLE:
        numbers = np.array(values, dtype=np.float64)
        return numbers if np.isfinite(numbers).all() else None
    if kind is Type.VARCHAR:
        positions = {text: at for at, text in enumerate(dict.fromkeys(values))}
        return np.array([positions[text] for text in values], dtype=np.int64)
    return np.array(values if kind is Type.BIGINT else [LINES[kind].place(value) for value in values], dtype=np.int64)


def _comparable(constant: Value, kind: Type) -> bool:
    """Whether a constant has a place among the values of a type."""
    return type(constant) in (_KINDS[Type.DOUBLE] if kind.numeric else _KINDS.get(kind, ())) and (
        not isinstance(constant, float) or math.isfinite(constant))
