"""The kernel's own copy of a request, made from its fields alone; nobody else has a reference to any part of it.

Proofs are about classes: what their methods return and what their fields hold. So every value in a request must be an instance
of one of the classes below, not of a subclass, whose methods could differ. A frozen value can still be forged, by setting a
field or by planting a cached result (`cached_property`). So each is constructed again, which checks its fields and starts with
an empty cache; and what the kernel has checked cannot be changed before it is executed.

Identity is preserved: values that were one object are one object in the copy. The cost of several tests of one plan depends on
that (`measurements.flip_distance.touched`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from dpsql.catalog.model import Domain, Table
from dpsql.kernel.shapes import PARTS, RELATIONS, SUMMARIES
from dpsql.measurements import MEASUREMENTS, VALUES, Comparisons, Request
from dpsql.measurements.listed import PLAIN
from dpsql.plan.expr.facts import Facts
from dpsql.types import Interval, Span, Type
from dpsql.workload.blocks import CLOSED

Script: TypeAlias = Generator[Request, Any, Any]
Any_ = TypeVar("Any_")
MADE = MEASUREMENTS | VALUES | RELATIONS | SUMMARIES | PARTS | {Comparisons, Facts, Interval, Span}
"""Frozen values, constructed again from their fields."""
FIELDS = {kind: tuple(item.name for item in fields(kind)) for kind in MADE}
HANDED = CLOSED | {Table, Domain, Type}
"""Not copied: the owner's declarations, and factors, from which `workload.blocks` builds new matrices each time."""


def taken(value: Any_, held: dict[int, tuple[Any, Any]] | None = None) -> Any_:
    """The copy. Raises TypeError for values that cannot be part of a request, ValueError for fields that their class rejects.

    `held` maps the ids of copied values to the values and their copies: while a value is held, no other object gets its id.
    """
    held = {} if held is None else held
    if type(value) in PLAIN:
        return value
    if id(value) not in held:
        held[id(value)] = value, _made(value, held)
    made: Any_ = held[id(value)][1]
    return made


def _made(value: Any, held: dict[int, tuple[Any, Any]]) -> Any:
    kind = type(value)
    if kind in HANDED:
        return value
    if kind is tuple:  # one of plain values, of which there may be a million, has nothing that could be forged
        return value if PLAIN.issuperset(map(type, value)) else tuple([taken(part, held) for part in value])
    if kind is Fraction:
        return Fraction(*taken(value.as_integer_ratio(), held))
    if kind in MADE:
        return kind(**{name: taken(getattr(value, name), held) for name in FIELDS[kind]})
    raise TypeError("private rows are read only by measurements, built from known classes")


def resumed(script: Script, begun: Request | Exception) -> Script:
    """A script resumed after its first step: a request as the kernel copied it, its end, or a fault."""
    while not isinstance(begun, Exception):
        answer = yield begun
        try:
            begun = script.send(answer)
        except StopIteration as done:
            begun = done
    if isinstance(begun, StopIteration):
        return begun.value
    raise begun
