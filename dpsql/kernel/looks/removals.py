"""Choosing the level by who has to leave, and telling the sums held to it."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.extensions.removals import Removals
from dpsql.kernel.looks.balance import chosen, patience
from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.race import drawn
from dpsql.kernel.looks.sets import Columns, columns_of, held, in_cells
from dpsql.plan.operators.shares import NEAR, UNIT
from dpsql.requests import Held, Recursive, Removed


def look(request: Removed | Recursive, context: Context) -> Held:
    """See `Removed` and `Recursive` for the level and its noise, `Balance` for the sums."""
    columns = columns_of(request.plan, context)
    if columns is None:
        raise MemoryError("there are too many sets of entities")
    removals = Removals(in_cells(columns, request.plan, request.cells), request.levels)
    if isinstance(request, Recursive):
        place = moved(first(removals), request, context)
    elif request.flip:
        place = least(removals, [handicap - patience(request.scale, context) for handicap in request.handicaps])
    else:
        place = chosen(removals, request.handicaps, request.scale, context)
    return told(request, columns, place, context)


def told(request: Removed | Recursive, columns: Columns, place: int, context: Context) -> Held:
    cells = held(columns, request.plan, (request.levels[place],), request.cells)
    totals = [sum(sign * part.value(0) for sign, part in zip((1, -1), parts, strict=False)) for parts in cells]
    return Held(totals=tuple(total + drawn(request.noises[place], context) for total in totals),
                levels=tuple((place,) * len(parts) for parts in cells))


def least(removals: Removals, shifts: Sequence[int]) -> int:
    """The first i with the least Q_i + shifts[i].

    Proof that this is what working out every Q would give: the i whose lower bound and shift are least, the first of several,
    is it if its Q is known, as every other is at least its bound; otherwise a bound is refined, of i or of a level above it.
    """
    while True:
        best = min(range(len(shifts)), key=lambda i: (removals.at_least(i) + shifts[i], i))
        if removals.exact(best):
            return best
        removals.refine_towards(best)


def first(removals: Removals) -> int:
    """The first i with Q_i <= (UNIT + NEAR) i, or the last there is; by halves, as it holds from there on."""
    low, high = 0, len(removals.levels) - 1
    while low < high:
        middle = (low + high) // 2
        if removals.at_most(middle, (UNIT + NEAR) * middle):
            high = middle
        else:
            low = middle + 1
    return low


def moved(place: int, request: Recursive, context: Context) -> int:
    """The noisy place, cut to those there are."""
    noisy = context.noise.laplace([place], request.scale)[0] + request.shift
    return min(max(noisy, 0), len(request.levels) - 1)
