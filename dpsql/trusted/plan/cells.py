"""Keys of groups: the public list of cells of an answer, and their canonical order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import ne
from typing import Any, TypeAlias, overload

from dpsql.frozen import AbstractFrozen
from dpsql.trusted.plan.expr.nodes import Value

MOST_CELLS = 2**21  # groups that are listed because their keys have declared values


class Grid(AbstractFrozen, Sequence[tuple[Value, ...]], kw_only=False):
    """All combinations of the values on some axes, in order, with the last axis changing fastest. A grid of a million cells takes
    no memory."""

    axes: tuple[tuple[Value, ...], ...]

    def __len__(self) -> int:
        return math.prod(map(len, self.axes))

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        return product(*self.axes)

    @overload
    def __getitem__(self, at: int) -> tuple[Value, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[tuple[Value, ...], ...]: ...

    def __getitem__(self, at: int | slice) -> Any:
        places = range(len(self))[at]
        return self._cell(places) if isinstance(places, int) else tuple(map(self._cell, places))

    def _cell(self, place: int) -> tuple[Value, ...]:
        found: list[Value] = []
        for axis in reversed(self.axes):
            place, at = divmod(place, len(axis))
            found.append(axis[at])
        return tuple(reversed(found))

    def column(self, at: int) -> list[Value]:
        """The values of all cells on one axis."""
        times, each = (math.prod(map(len, axes)) for axes in (self.axes[:at], self.axes[at + 1:]))
        return [value for value in self.axes[at] for _ in range(each)] * times


Cells: TypeAlias = tuple[tuple[Value, ...], ...] | Grid
"""The public list of key values of an answer, in order; one empty key where there is no GROUP BY. What GROUPING says of a group
follows its key."""


def different(keys: Iterable[tuple[Any, ...]]) -> bool:
    """Whether no two keys are equal by the equality of cells."""
    found = [cell_of(key) for key in keys]
    return len({*found}) == len(found)


def are_cells(cells: Cells, keys: Sequence[str]) -> bool:
    """Whether each cell has a value for every key, and no two are equal."""
    if isinstance(cells, Grid):
        return len(cells.axes) == len(keys) and all(different(zip(axis)) for axis in cells.axes)
    return all(len(cell) == len(keys) for cell in cells) and different(cells)


def column_of(cells: Cells, at: int) -> list[Value]:
    """One value of every cell."""
    return cells.column(at) if isinstance(cells, Grid) else [cell[at] for cell in cells]


def cell_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key in the form used to find it among the listed cells: NaN, the only value that differs from itself, is replaced by a
    text."""
    return tuple("NaN" if part != part else part for part in key) if any(map(ne, key, key)) else key


def sort_key(key: tuple[Value, ...]) -> tuple[tuple[int, Any], ...]:
    """Canonical order of keys: by value, NaN after numbers, NULL last."""
    parts: list[tuple[int, Any]] = []
    for part in key:
        if part is None:
            parts.append((2, 0))
        elif isinstance(part, float) and part != part:
            parts.append((1, 0))
        else:
            parts.append((0, part))
    return tuple(parts)
