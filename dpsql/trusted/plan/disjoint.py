"""Pairs of conditions that no row can satisfy at the same time."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.functions import MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, conjuncts
from dpsql.types import Type

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
WHOLE = 2**53  # up to here every whole number is a float

Place = tuple[int, Any]
"""The position of a value among those of its type, in the engine's order: numbers before NaN, which is equal to itself."""


class Ends(Frozen, kw_only=False):
    """An interval of values; each end is included or not, and is None if the interval is open there."""

    low: Place | None = None
    low_in: bool = True
    high: Place | None = None
    high_in: bool = True

    @property
    def empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and not (self.low_in and self.high_in))

    def meet(self, other: Ends) -> Ends:
        lows = [(ends.low, not ends.low_in) for ends in (self, other) if ends.low is not None]
        highs = [(ends.high, ends.high_in) for ends in (self, other) if ends.high is not None]
        low, above = max(lows, default=(None, False))
        high, upto = min(highs, default=(None, True))
        return Ends(low, not above, high, upto)


class Said(Frozen, kw_only=False):
    """A restriction on the values of a column: to a finite set (None: any value), and to an interval."""

    places: frozenset[Place] | None = None
    ends: Ends = Ends()

    def meet(self, other: Said) -> Said:
        both = [said.places for said in (self, other) if said.places is not None]
        return Said(frozenset.intersection(*both) if both else None, self.ends.meet(other.ends))

    @property
    def empty(self) -> bool:
        """Whether no value satisfies it."""
        if self.places is None:
            return self.ends.empty
        return all(Ends(place, True, place, True).meet(self.ends).empty for place in self.places)


Known = Mapping[Ref, Said]


def disjoint(first: Known, second: Known) -> bool:
    """Whether no row can satisfy both of two conjunctions, given by what is `known` from each.

    Proof. A row that fulfils a conjunction fulfils each part of it, and then no part is NULL. So where both sides restrict the
    value of one column to sets, and these sets are disjoint, no row of any database fulfils both sides. Values are ordered as the
    engine compares them: NaN is equal to itself and greater than every number, -0.0 is 0.0, a whole number is not rounded, a
    text is its code points (a column of text is read without its collation), a day or moment itself. A constant whose position is
    not certain restricts nothing, and False means only that disjointness was not shown.
    """
    return any(first[column].meet(second[column]).empty for column in first.keys() & second.keys())


def is_simple(side: Known) -> bool:
    """Whether a conjunction restricts columns to intervals and to single values only."""
    return all(said.places is None or len(said.places) == 1 for said in side.values())


def pairs_apart(sides: Sequence[Known]) -> NDArray[np.bool_]:
    """Whether two conjunctions are `disjoint`, for each pair of those that are simple.

    The ends of intervals of one column are replaced by their ranks among all of them, twice, and 1 more (or less) for a lower
    (or upper) end that does not belong to the interval. So two intervals share no value if and only if the larger of their lower
    ends is greater than the smaller of their upper ends.
    """
    found = np.zeros((len(sides), len(sides)), dtype=bool)
    for column in dict.fromkeys(ref for side in sides for ref in side):
        here = [i for i, side in enumerate(sides) if column in side]
        intervals = [_interval(sides[i][column]) for i in here]
        places = {end for ends in intervals for end in (ends.low, ends.high) if end is not None}
        rank = {place: 2 * at for at, place in enumerate(sorted(places))}
        low = np.array([-2 if ends.low is None else rank[ends.low] + (not ends.low_in) for ends in intervals], dtype=np.int64)
        high = np.array([2 * len(rank) if ends.high is None else rank[ends.high] - (not ends.high_in) for ends in intervals],
                        dtype=np.int64)
        apart = np.maximum.outer(low, low) > np.minimum.outer(high, high)
        found[np.ix_(here, here)] |= apart
    return found


def _interval(said: Said) -> Ends:
    """A restriction to an interval, or to one value, as an interval."""
    if said.places is None:
        return said.ends
    (place,) = said.places
    return Ends(place, True, place, True).meet(said.ends)


def known(parts: Sequence[Expr]) -> Known:
    """For each column, the restriction on its values that follows if all parts are true."""
    found: dict[Ref, Said] = {}
    for whole in parts:
        for part in conjuncts(whole):
            told = _told(part)
            if told is not None:
                column, said = told
                found[column] = found.get(column, Said()).meet(said)
    return found


def _told(part: Expr) -> tuple[Ref, Said] | None:
    """A column, and the restriction on its values that follows if the part is true; None if none is known."""
    match part:
        case Ref(type=Type.BOOLEAN):
            return part, _one_of((0, True))
        case Call(function="not", args=(Ref(type=Type.BOOLEAN) as column,)):
            return column, _one_of((0, False))
        case Call(function="or"):
            return _either(part.args)
        case Call(function=name, args=(Ref() as column, *listed)) if name == MEMBERSHIP:
            return _among(column, listed)
        case Call(function=name, args=(Ref() as column, Literal() as value)) if name in MIRRORED:
            return _compared(column, name, value)
        case Call(function=name, args=(Literal() as value, Ref() as column)) if name in MIRRORED:
            return _compared(column, MIRRORED[name], value)
    return None


def _one_of(*places: Place) -> Said:
    return Said(frozenset(places))


def _either(parts: Sequence[Expr]) -> tuple[Ref, Said] | None:
    """The union of several sets of values of one column. An OR is true if one side is, whatever the others are."""
    told = [_told(part) for part in parts]
    sides = [side for side in told if side is not None]
    sets = [said.places for _, said in sides if said.places is not None]
    columns = {column for column, _ in sides}
    if len(sets) != len(parts) or len(columns) != 1:
        return None
    return columns.pop(), Said(frozenset[Place]().union(*sets))


def _among(column: Ref, listed: Sequence[Expr]) -> tuple[Ref, Said] | None:
    """IN is true if the value is equal to one that is listed; nothing is equal to NULL."""
    places = set()
    for item in listed:
        if isinstance(item, Literal) and item.value is None:
            continue
        at = place(item, column.type) if isinstance(item, Literal) else None
        if at is None:
            return None
        places.add(at)
    return column, Said(frozenset(places))


def _compared(column: Ref, function: str, value: Literal) -> tuple[Ref, Said] | None:
    at = place(value, column.type)
    if at is None:
        return None
    match function:
        case "=":
            return column, _one_of(at)
        case "<" | "<=":
            return column, Said(ends=Ends(high=at, high_in=function == "<="))
        case ">" | ">=":
            return column, Said(ends=Ends(low=at, low_in=function == ">="))
    return None


def place(literal: Literal, kind: Type) -> Place | None:
    """The position of a constant among the values of a column of its type; None if that is not certain."""
    value = literal.value
    if literal.type is not kind:
        return None
    match kind:
        case Type.DOUBLE if type(value) is float:
            return (1, 0.0) if math.isnan(value) else (0, value)
        case Type.DOUBLE if type(value) is int and abs(value) <= WHOLE:
            return 0, float(value)
        case Type.VARCHAR if type(value) is str and _is_text(value):
            return 0, value
    plain = {Type.BOOLEAN: bool, Type.BIGINT: int, Type.DATE: dt.date, Type.TIMESTAMP: dt.datetime}
    if type(value) is not plain.get(kind) or (isinstance(value, dt.datetime) and value.tzinfo is not None):
        return None
    return 0, value


def _is_text(value: str) -> bool:
    """Whether an engine stores this text unchanged: it has no NUL and no unpaired surrogate."""
    return not any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in value)
