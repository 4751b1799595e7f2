"""The kernel's own copy of a request, made from its fields alone and checked against their description; nobody else has a
reference to any part of it.

Proofs are about classes: what their methods return and what their fields hold. So every value in a request must be an instance
of one of the classes below, not of a subclass, whose methods could differ. A frozen value can still be forged, by setting a
field or by planting a cached result (`cached_property`). So each is constructed again, with an empty cache; and what the
kernel has checked cannot be changed before it is executed.

The declaration of its fields is the one description of a request (`dpsql.trusted.field_types`). Each field holds exactly what its
annotation says: a whole number is an `int`, never a bool or a float, and the plan of a measurement is of the class that its proof
is about. Numbers lie in the range of their annotation, and what a proof assumes of several fields together, `assumptions`, holds.
The same fields are what a front sends (`server.link.plain_values`), and what forged requests are made of in the tests.

Identity is preserved: values that were one object are one object in the copy. The cost of several tests of one plan depends on
that (`measurements.flip_distance.touched`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import date, datetime
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from dpsql.frozen import Frozen, field_names
from dpsql.trusted.declarations.growth import PeriodRange
from dpsql.trusted.declarations.tables import Domain, Table
from dpsql.trusted.field_types import NumberRange
from dpsql.trusted.kernel.shapes import PARTS, RELATIONS, SUMMARIES
from dpsql.trusted.measurements.all_measurements import MEASUREMENTS, VALUES
from dpsql.trusted.measurements.online_comparisons import Comparisons
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.types import Interval, Span, Type

Script: TypeAlias = Generator[Request, Any, Any]
Any_ = TypeVar("Any_")
Held: TypeAlias = dict[int, tuple[Any, Any]]
Take: TypeAlias = Callable[[Any, Held], Any]
Form: TypeAlias = Mapping[type, Take]
"""The classes of the values that a field may hold, and how a value of each is copied and checked."""
MADE = MEASUREMENTS | VALUES | RELATIONS | SUMMARIES | PARTS | {Comparisons, Facts, Interval, PeriodRange, Span}
"""Frozen values, constructed again from their fields."""
FIELDS = {kind: field_names(kind) for kind in MADE}
HANDED = {Table, Domain, Type}
"""Not copied: the owner's declarations."""
PLAIN = (NoneType, bool, int, float, bytes, date)
MISSING = object()
UNFINISHED = object()


def copied_request(value: Any_, held: Held | None = None) -> Any_:
    """A copy of a value. Raises TypeError for values that cannot be part of a request, ValueError for values outside their
    description.

    `held` maps the ids of copied values to the values and their copies: while a value is held, no other object gets its id.
    """
    try:
        return cast(Any_, _copied(_any_form(), value, {} if held is None else held))
    except RecursionError:
        raise ValueError("the values of a request are nested too deeply") from None


def _copied(form: Form, value: Any, held: Held) -> Any:
    take = form.get(type(value))
    if take is None:
        raise TypeError("private rows are read only by measurements, built from known classes")
    return take(value, held)


def _made(value: Any, held: Held) -> Any:
    kind: Any = type(value)
    if id(value) not in held:
        held[id(value)] = value, UNFINISHED
        copied = {name: _copied(form, getattr(value, name, MISSING), held) for name, form in forms_of(kind)}
        made = kind(**copied)
        for holds, what in getattr(made, "assumptions", tuple)():
            if not holds:
                raise ValueError(what)
        held[id(value)] = value, made
    made = held[id(value)][1]
    if made is UNFINISHED:
        raise TypeError("a value of a request contains itself")
    return made


# -- the forms of fields


@cache
def forms_of(kind: Any) -> tuple[tuple[str, Form], ...]:
    """The fields of a class of `MADE`, each with its form."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, form_of(hints[name], f"{kind.__name__}.{name}")) for name in FIELDS[kind])


@cache
def _any_form() -> Form:
    return form_of(object, "a request")


def form_of(hint: Any, what: str) -> Form:
    """The form that the annotation of a field describes; `what` names the field in errors."""
    origin, given = get_origin(hint), get_args(hint)
    if origin is Annotated:
        exact: dict[type, Take] = {int: _exact} if given[0] is float else {}
        return {kind: InRange(take, given[1], what) for kind, take in {**form_of(given[0], what), **exact}.items()}
    if origin in (Union, UnionType):
        return {kind: take for part in reversed(given) for kind, take in form_of(part, what).items()}
    if origin is Literal:
        return dict.fromkeys(map(type, given), _one_of(given, what))
    if origin is tuple:
        parts = [form_of(part, what) for part in given if part is not ...]
        return {tuple: _in_turn(parts) if len(parts) == len(given) else _all_like(parts[0])}
    if hint in PLAIN:
        return dict.fromkeys((float, int) if hint is float else (hint,), _as_it_is)
    if hint in CHECKED:
        return {hint: CHECKED[hint]}
    return {kind: _made if kind in MADE else _as_it_is for kind in MADE | HANDED if issubclass(kind, hint)}


def _as_it_is(value: Any, held: Held) -> Any:
    return value


def _exact(value: int, held: Held) -> int:
    """Raises ValueError for a whole number that a float could round: the scale of the noise would then differ from the one paid
    for."""
    if abs(value) > 2**53:
        raise ValueError("a whole number given for a float must lie between -2^53 and 2^53")
    return value


def _text(value: str, held: Held) -> str:
    """Raises UnicodeEncodeError, which is a ValueError, for an unpaired surrogate, which no engine can read."""
    value.encode()
    return value


def _fraction(value: Fraction, held: Held) -> Fraction:
    above, below = value.as_integer_ratio()
    if type(above) is not int or type(below) is not int or below < 1:
        raise TypeError("a fraction in a request must consist of whole numbers")
    return Fraction(above, below)


def _moment(value: datetime, held: Held) -> datetime:
    if value.tzinfo is not None:
        raise ValueError("a moment in a request must have no time zone")
    return value


CHECKED: Mapping[Any, Take] = {str: _text, Fraction: _fraction, datetime: _moment}


def _one_of(values: tuple[Any, ...], what: str) -> Take:
    def take(value: Any, held: Held) -> Any:
        if value not in values:
            raise ValueError(f"{what} must be one of {values}")
        return value

    return take


class InRange(Frozen, kw_only=False):
    """Takes a number as `take` does, if it is in the range."""

    take: Take
    numbers: NumberRange
    what: str

    def __call__(self, value: Any, held: Held) -> Any:
        made = self.take(value, held)
        self.check(made)
        return made

    def check(self, *values: Any) -> None:
        if any(value not in self.numbers for value in values):
            raise ValueError(f"{self.what} must be {self.numbers}")


def _in_turn(parts: list[Form]) -> Take:
    def take(value: tuple[Any, ...], held: Held) -> Any:
        return tuple([_copied(form, part, held) for form, part in zip(parts, value, strict=True)])

    return take


def _all_like(form: Form) -> Take:
    whole = form.get(int)

    def take(value: tuple[Any, ...], held: Held) -> Any:
        if isinstance(whole, InRange) and {*map(type, value)} == {int}:  # of which there may be a million
            whole.check(min(value), max(value))
            return value
        return tuple([_copied(form, part, held) for part in value])

    return take


def continue_script(script: Script, begun: Request | StopIteration) -> Script:
    """A script resumed after its first step: `begun` is the request as the kernel copied it, or the end of the script."""
    while not isinstance(begun, StopIteration):
        answer = yield begun
        try:
            begun = script.send(answer)
        except StopIteration as done:
            begun = done
    return begun.value
