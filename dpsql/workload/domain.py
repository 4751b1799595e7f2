"""The cells that queries are over: one for each combination of values of a few attributes."""

from __future__ import annotations

import math

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen

DENSE = 4096  # cells up to which matrices over all pairs of cells are written out
ROOM = 2**28  # bytes of one array: what is larger is not made, however much memory there is
WORD = 8


class Attribute(Frozen, kw_only=False):
    """A name, and how many values it has."""

    name: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("an attribute has at least one value")


class CellDomain(Frozen, kw_only=False):
    """All combinations of values of some attributes, the last attribute changing fastest."""

    attributes: tuple[Attribute, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """The number of cells, as a Python integer, because it may far exceed 64 bits."""
        return math.prod(self.shape)

    def small(self, what: str) -> int:
        """The size, if matrices over pairs of cells fit; otherwise raises Unsupported, stating the size."""
        if self.size > DENSE:
            raise too_large(what, self.size, DENSE)
        return self.size


def domain(*sizes: int) -> CellDomain:
    """A domain of unnamed attributes with these sizes.

    >>> domain(2, 3).size
    6
    """
    return CellDomain(tuple(Attribute(f"a{i}", size) for i, size in enumerate(sizes)))


def has_room(*shape: int) -> bool:
    """Whether an array of this shape is not too large."""
    return math.prod(shape) * WORD <= ROOM


def room(what: str, *shape: int) -> None:
    """Raise Unsupported if an array of this shape would be too large. Called before it is allocated: sizes are public, and
    nothing has been charged."""
    if not has_room(*shape):
        raise Unsupported(f"{what} has {' x '.join(map(str, shape))} numbers, more than {ROOM // WORD}", code="too-large",
                          try_="fewer values, wider ranges, or keys whose groups are ranges of a column's values")


def too_large(what: str, size: int, limit: int) -> Unsupported:
    return Unsupported(f"{what} is possible for up to {limit} cells, and here there are {float(size):.4g}" if size > 10**9 else
                       f"{what} is possible for up to {limit} cells, and here there are {size}", code="too-large",
                       try_="fewer values or wider ranges")
