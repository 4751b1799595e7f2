"""A request as the kernel takes it: a copy that is made of its fields alone, of which nobody else holds a part.

Proofs speak of classes: of what their methods say and of what their fields hold. So every value in a request has to be of one of
the classes below, and no subclass, whose methods could say something else. A frozen value can still be forged, be it that a field
is set or that what its class remembers of it (`cached_property`) is planted. So each is made again, which checks its fields as at
birth and remembers nothing; and what the kernel has checked nobody can change before it is executed.

Values that were one object are one object again: what tests of one plan cost rests on that
(`measurements.flip_distance.touched`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from dpsql.catalog.model import Domain, Table
from dpsql.kernel.shapes import PARTS, RELATIONS, SUMMARIES
from dpsql.measurements import MEASUREMENTS, VALUES, Request
from dpsql.measurements.listed import PLAIN
from dpsql.plan.expr.facts import Facts
from dpsql.types import Interval, Span, Type
from dpsql.workload.blocks import CLOSED

Script: TypeAlias = Generator[Request, Any, Any]
Any_ = TypeVar("Any_")
MADE = MEASUREMENTS | VALUES | RELATIONS | SUMMARIES | PARTS | {Facts, Interval, Span}
"""Frozen values, made again of their fields."""
FIELDS = {kind: tuple(item.name for item in fields(kind)) for kind in MADE}
HANDED = CLOSED | {Table, Domain, Type}
"""Passed on as they are: what the owner declares, and factors, of which `workload.blocks` makes matrices anew each time."""


def taken(value: Any_, held: dict[int, tuple[Any, Any]] | None = None) -> Any_:
    """The copy. Raises TypeError for what no request is made of, ValueError for fields that their class does not take.

    `held` are the values that were copied, with their copies: as long as a value is held no other gets its number.
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
    if kind is tuple:
        return tuple([taken(part, held) for part in value])
    if kind is Fraction:
        return Fraction(*taken(value.as_integer_ratio(), held))
    if kind in MADE:
        return kind(**{name: taken(getattr(value, name), held) for name in FIELDS[kind]})
    raise TypeError("private rows are read by measurements only, made of their own values")


def resumed(script: Script, begun: Request | Exception) -> Script:
    """A script from the first that it did: a request, as the kernel has taken it, its end or a fault."""
    while not isinstance(begun, Exception):
        answer = yield begun
        try:
            begun = script.send(answer)
        except StopIteration as done:
            begun = done
    if isinstance(begun, StopIteration):
        return begun.value
    raise begun
