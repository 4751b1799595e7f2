"""Every way to limit what one entity adds to sums, by its name in OPTIONS (bound = '...')."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.mechanisms.base import Mechanism
from dpsql.mechanisms.truncation.balance import Balanced


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A way to limit what one entity adds. A new one is one line of `BOUNDS`.

    name       in OPTIONS (bound = '...')
    does       what it does, in words that follow "what each entity adds is"
    one        whether it is for rows that belong to one entity each
    several    whether it is for rows that belong to several entities each
    needs      options that it cannot do without
    takes      further options that mean something to it
    mechanism  the one that answers its sums, which are then tasks of type `Shared` with one component each; None where rows or
               totals are limited beforehand, and any mechanism will do
    """

    name: str
    does: str
    one: bool = False
    several: bool = False
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    mechanism: Mechanism | None = None


BOUNDS: tuple[Bound, ...] = (
    Bound(name="rows", does="that of a limited number of its rows", one=True, takes=("max_rows",)),
    Bound(name="clip", does="scaled down to a limit of its total", one=True, takes=("clip", "max_rows")),
    Bound(name="balance", does="held to a level that balances what is cut off and the noise", several=True, takes=("clip",),
          mechanism=Balanced()),
)
BY_NAME = {bound.name: bound for bound in BOUNDS}
