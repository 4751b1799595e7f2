"""Forgeries of requests: values that the classes never made, as whoever captured the front could send them.

Most are near the real request, so that they are not refused for something else: one more, twice as many, a float for a whole
number, what stands in the same field of another request.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from forging.corpus import Base, Corpus, Path, Slot
from support.forged import fields_of, made_of, tampered

from dpsql.frozen import Frozen, field_names, is_frozen
from dpsql.trusted.accounting.cost import FREE
from dpsql.trusted.kernel.shapes import RELATIONS, SUMMARIES
from dpsql.trusted.measurements.all_measurements import MEASUREMENTS
from dpsql.trusted.plan.expr.nodes import Call, Literal
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import Type

DEEP, MANY, LARGE, HUGE = 1500, 10**4, 10**5, 10**6  # operators in one another, and values in a list
SLOW = {"Balance": 0.4, "Removed": 0.2, "RecursiveSums": 0.4, "Race": 0.6, "Comparisons": 0.6}  # shares of what takes longest


class Forgery(Frozen, kw_only=False):
    """A forged request, from which one it was made, and what was forged in it."""

    request: Any
    base: Base
    what: str
    planned: bool = True  # a plan was forged, too


class Whole(int):
    """A whole number that compares as it likes."""

    def __le__(self, other: object) -> bool:
        return True

    __lt__ = __ge__ = __gt__ = __le__

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True


class Real(float):
    """A number that is as large as it has to be."""

    def __gt__(self, other: object) -> bool:
        return True

    __ge__ = __lt__ = __le__ = __gt__


class Text(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Listed(tuple[Any, ...]):
    """A list that is as long as it has to be, and has nothing in it."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Ratio(Fraction):
    def __le__(self, other: object) -> bool:
        return True

    __lt__ = __ge__ = __gt__ = __le__


def put(value: Any, path: Path, part: Any) -> Any:
    """A value with something else at a place; all that is not on the way is the same object. Raises LookupError where there is no
    such place, as another forgery took it away."""
    if not path:
        return part
    at = path[0]
    if isinstance(at, int):
        if type(value) is not tuple or at >= len(value):
            raise LookupError
        return (*value[:at], put(value[at], path[1:], part), *value[at + 1:])
    if not is_frozen(value) or not hasattr(value, at):
        raise LookupError
    return made_of(type(value), {**fields_of(value), at: put(getattr(value, at), path[1:], part)})


def at(value: Any, path: Path) -> Any:
    """What is at a place now. Raises LookupError as `put` does."""
    for step in path:
        if isinstance(step, int):
            if type(value) is not tuple or step >= len(value):
                raise LookupError
            value = value[step]
        elif hasattr(value, step):
            value = getattr(value, step)
        else:
            raise LookupError
    return value


class Forger:
    """Makes forgeries of the requests of a corpus, of which each follows from its number."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._kinds: dict[type, list[Base]] = {}
        for base in corpus.bases:
            self._kinds.setdefault(type(base.request), []).append(base)
        self._names = sorted(self._kinds, key=lambda kind: kind.__name__)
        self._shares = [SLOW.get(kind.__name__, 1.0) for kind in self._names]
        self._near = {id(base): [slot for slot in base.slots if not slot.deep] for base in corpus.bases}
        self._within = {id(base): [slot for slot in base.slots if slot.deep] for base in corpus.bases}

    def forgery(self, number: int) -> Forgery:
        """The forgery of a number: all classes of measurements have the same share."""
        dice = random.Random(number)
        kind, = dice.choices(self._names, self._shares)
        base = dice.choice(self._kinds[kind])
        if dice.random() < 0.03:
            return self._exchanged(base, dice)
        request, done, planned = base.request, [], False
        for _ in range(dice.choice([1, 1, 1, 1, 2, 2, 3])):
            near, within = self._near[id(base)], self._within[id(base)]
            slot = dice.choice(near if near and (not within or dice.random() < 0.7) else within)
            try:
                value = at(request, slot.path)
                forged, how = self._forged(value, slot, dice)
                request = put(request, slot.path, forged)
            except (LookupError, TypeError, ValueError, OverflowError, ArithmeticError, AttributeError):
                continue
            done.append(f"{slot} {how}")
            planned = planned or slot.deep
        if dice.random() < 0.004:
            request, how = _tangled(request, dice)
            done.append(how)
        return Forgery(request, base, "; ".join(done) or "nothing", planned)

    def _exchanged(self, base: Base, dice: random.Random) -> Forgery:
        """Another measurement of the fields of this one, with those that it does not have from a real one."""
        kind = dice.choice(sorted(MEASUREMENTS, key=lambda kind: kind.__name__))
        others = self._kinds.get(kind)
        if not others:
            return Forgery(base.request, base, "nothing")
        fields, mine = fields_of(dice.choice(others).request), fields_of(base.request)
        shared = [name for name in fields if name in mine]
        taken = dice.sample(shared, dice.randint(1, len(shared))) if shared else []
        return Forgery(made_of(kind, {**fields, **{name: mine[name] for name in taken}}), base,
                       f"{kind.__name__}: {', '.join(taken)} of {base.name}")

    def _forged(self, value: Any, slot: Slot, dice: random.Random) -> tuple[Any, str]:
        """Something in the place of a value, and how it was forged."""
        if dice.random() < 0.15 and len(others := self.corpus.by_field[slot.field]) > 1:
            return dice.choice(others), "of another request"
        if dice.random() < 0.01:
            return dice.choice(STRANGE)(), "something strange"
        match value:
            case bool():
                return _chosen(dice, value, TRUTHS)
            case int():
                return _chosen(dice, value, NUMBERS)
            case float():
                return _chosen(dice, value, REALS)
            case Fraction():
                return _chosen(dice, value, RATIOS)
            case None:
                return dice.choice([0, 1, True, "n", "x", (), Fraction(1, 2), 2]), "something for nothing"
            case str():
                return self._text(value, dice)
            case tuple():
                return self._list(value, slot, dice)
            case Type():
                return dice.choice([*Type]), "another type"
            case bytes():
                return _words(value, dice)
        if is_frozen(value):
            return self._value(value, slot, dice)
        return dice.choice(STRANGE)(), "something strange"

    def _text(self, value: str, dice: random.Random) -> tuple[Any, str]:
        names = [text for pool in ("column", "owner", "keys", "when", "noise", "way", "function", "tail") for text in self.corpus.by_field.get(pool, ())
                 if isinstance(text, str)]
        return dice.choice([lambda: (dice.choice(names), "another name"), lambda: ("", "no name"), lambda: (value.upper(), "capitals"),
                            lambda: (Text(value), "a text of its own"), lambda: (value + '" --', "a quote"), lambda: ([value], "a list"),
                            lambda: (None, "no text"), lambda: (value + "x" * 10**5, "a long name"), lambda: (value.encode(), "bytes")])()

    def _list(self, value: tuple[Any, ...], slot: Slot, dice: random.Random) -> tuple[Any, str]:
        n = len(value)
        pick = dice.randrange(n) if n else 0
        pool = [part for other in self.corpus.by_field[slot.field] if type(other) is tuple for part in other[:3]] or [None]
        ways: list[Callable[[], tuple[Any, str]]] = [
            lambda: (value[:-1], "shorter"), lambda: (value[1:], "shorter"), lambda: (value + value[-1:], "the last twice"),
            lambda: (value + value, "twice"), lambda: (value[::-1], "in reverse"), lambda: ((), "nothing in it"),
            lambda: ((*value[:pick], *value[pick:pick + 1], *value[pick:]), "one twice"),
            lambda: ((*value, dice.choice(pool)), "longer"), lambda: ((*value[:pick], dice.choice(pool), *value[pick + 1:]), "another part"),
            lambda: (value * dice.choice([5, 40, 300]), "many times"), lambda: ((value,), "a list in a list"),
            lambda: (_shuffled(value, dice), "in another order"), lambda: ((value[pick],) * n if n else (), "one for all")]
        if dice.random() < 0.05:  # the longest take as much time as all others together
            ways = [lambda: (list(value), "a list"), lambda: (Listed(value), "a list of its own"), lambda: (iter(value), "an iterator"),
                    lambda: (set(map(repr, value)), "a set"), lambda: (np.array([1, 2]), "an array"), lambda: (value * (dice.choices((HUGE, LARGE, MANY), (1, 19, 80))[0] // max(1, n)), "huge")]
        elif n and is_frozen(value[pick]) and dice.random() < 0.3:
            ways = [lambda: ((*value[:pick], *_crumbs(value[pick], dice), *value[pick + 1:]), "crumbs of one")]
        return dice.choice(ways)()

    def _value(self, value: Any, slot: Slot, dice: random.Random) -> tuple[Any, str]:
        kind = type(value)
        alike = self.corpus.by_class.get(kind, [value])
        if kind in RELATIONS or kind in SUMMARIES:
            group = SUMMARIES if kind in SUMMARIES else RELATIONS
            ways: list[Callable[[], tuple[Any, str]]] = [lambda: (dice.choice(alike), "another plan of its class"), lambda: self._plan(dice, group),
                                                         lambda: self._plan(dice, group), lambda: self._recast(value, dice, group)]
            if kind in RELATIONS:
                ways.append(lambda: _wrapped(value, dice))
        else:
            ways = [lambda: (dice.choice(alike), "another of its class"), lambda: self._other(dice)]
        ways.append(lambda: (_impostor(value, dice), "an impostor"))
        if dice.random() < 0.3:
            ways = [lambda: self._recast(value, dice, self._like(value))]
        return dice.choice(ways)()

    def _plan(self, dice: random.Random, group: Any) -> tuple[Any, str]:
        kind = dice.choice(sorted((kind for kind in group if kind in self.corpus.by_class), key=lambda kind: kind.__name__))
        return dice.choice(self.corpus.by_class[kind]), f"a {kind.__name__}"

    def _other(self, dice: random.Random) -> tuple[Any, str]:
        kind = dice.choice(sorted((kind for kind in self.corpus.by_class if is_frozen(kind)), key=lambda kind: kind.__name__))
        return dice.choice(self.corpus.by_class[kind]), f"a {kind.__name__}"

    def _like(self, value: Any) -> frozenset[type]:
        """The classes that share a field with the class of a value."""
        names = set(fields_of(value))
        return frozenset(kind for kind in self.corpus.by_class if is_frozen(kind) and kind.__name__ not in ("Table", "Domain")
                         and names & set(field_names(kind))) | {type(value)}

    def _recast(self, value: Any, dice: random.Random, group: Any) -> tuple[Any, str]:
        """A value of another class, of as many of the fields as it has."""
        kind = dice.choice(sorted((kind for kind in group if kind in self.corpus.by_class), key=lambda kind: kind.__name__))
        mine = fields_of(value)
        fields = fields_of(dice.choice(self.corpus.by_class[kind]))
        return made_of(kind, {name: mine.get(name, other) for name, other in fields.items()}), f"as a {kind.__name__}"


def _chosen(dice: random.Random, value: Any, ways: list[Callable[[Any], Any]]) -> tuple[Any, str]:
    made = dice.choice(ways)(value)
    return made, f"{_short(value)} -> {_short(made)}"


def _short(value: Any) -> str:
    return f"{type(value).__name__} {value!s}"[:40]


STRANGE: list[Callable[[], Any]] = [lambda: None, object, dict, lambda: (lambda: 1), lambda: 1 + 1j, lambda: b"x", lambda: range(3), lambda: {1},
                                    lambda: dt.date(2000, 1, 1), lambda: Decimal("NaN"), lambda: int, lambda: math]
TRUTHS: list[Callable[[Any], Any]] = [lambda v: not v, lambda v: not v, int, np.bool_, lambda v: None, str, lambda v: Whole(v), float, lambda v: ()]
NUMBERS: list[Callable[[Any], Any]] = [
    *([lambda v: v + 1, lambda v: v - 1, lambda v: v * 2, lambda v: v // 2, lambda v: -v, lambda v: v + 0.5, lambda v: v + 0.1] * 2), float,
    lambda v: 0, lambda v: 1, lambda v: 2, lambda v: -1, lambda v: 10, lambda v: v + 1000, lambda v: v * 1000,
    lambda v: 2**31, lambda v: 2**53 + 1, lambda v: 2**62, lambda v: 2**63, lambda v: 2**64, lambda v: -(2**63), lambda v: 2**200, lambda v: 10**400,
    lambda v: v * (1 + 1e-12), lambda v: v / 2, Fraction, lambda v: Fraction(2 * v + 1, 2), Decimal, np.int64, np.float64, lambda v: np.array(v), Whole, bool,
    lambda v: math.nan, lambda v: math.inf, lambda v: -math.inf, lambda v: 1e300, lambda v: 1e-300, str, lambda v: None, lambda v: (v,)]
REALS: list[Callable[[Any], Any]] = [
    *([lambda v: v * 2, lambda v: v / 2, lambda v: v * 10, lambda v: v / 10, lambda v: -v, lambda v: v * (1 + 1e-12), lambda v: v + 1] * 2),
    lambda v: 0.0, lambda v: -0.0, lambda v: math.nan, lambda v: math.inf, lambda v: -math.inf, lambda v: 1e-300, lambda v: 5e-324, lambda v: 1e300,
    lambda v: 1e-9, lambda v: 1e-3, lambda v: 2.0**40, lambda v: 2.0**41, lambda v: 2.0**55, lambda v: 2.0**56, lambda v: 2.0**70, lambda v: 1e15, round,
    Fraction, Decimal, np.float64, np.float32, lambda v: np.array(v), Real, bool, str, lambda v: None, lambda v: (v,), lambda v: 2**80, lambda v: 1,
    lambda v: 3]
RATIOS: list[Callable[[Any], Any]] = [
    *([lambda v: v * 2, lambda v: v / 2, lambda v: -v, lambda v: v + 1, lambda v: 1 - v, lambda v: v * Fraction(1001, 1000), lambda v: v + Fraction(1, 7)] * 2),
    lambda v: Fraction(0), lambda v: Fraction(1), lambda v: Fraction(1001, 1000), lambda v: Fraction(-1, 1000), lambda v: Fraction(1, 10**40),
    lambda v: Fraction(10**40), lambda v: Fraction(1, 2**60), lambda v: Fraction(2**60 + 1, 2**60), lambda v: Fraction(1, 3), float, int, Decimal,
    lambda v: 1 / v, lambda v: Fraction(v.numerator * 10**9 + 1, v.denominator * 10**9), Ratio, lambda v: math.nan, lambda v: math.inf, str,
    lambda v: None, lambda v: np.float64(v), lambda v: _ratio(v.numerator, -v.denominator), lambda v: _ratio(v.numerator, 0),
    lambda v: _ratio(0.5, 1), lambda v: _ratio(Whole(0), 1), lambda v: _ratio(2 * v.numerator, 2 * v.denominator)]


def _ratio(numerator: Any, denominator: Any) -> Fraction:
    made = Fraction(1)
    made._numerator, made._denominator = numerator, denominator  # type: ignore[attr-defined]
    return made


def _shuffled(value: tuple[Any, ...], dice: random.Random) -> tuple[Any, ...]:
    return tuple(dice.sample(value, len(value)))


def _crumbs(value: Any, dice: random.Random) -> Iterator[Any]:
    """Many values in place of one, whose whole numbers are next to each other instead of equal."""
    fields = fields_of(value)
    numbers = [name for name, part in fields.items() if type(part) is int]
    if not numbers:
        return
    start, many, step = fields[dice.choice(numbers)] + dice.choice([0, 0, 1]), dice.choice([3, 20, 399]), dice.choice([0.001, 0.001, 1])
    for i in range(many):
        low = start + i * step
        yield made_of(type(value), {**fields, **{name: low if at == 0 else low + step / 2 for at, name in enumerate(numbers[:2])}})


def _wrapped(value: Any, dice: random.Random) -> tuple[Any, str]:
    """An operator above an operator."""
    def wrap(below: Any) -> Any:
        condition = Literal(value=True, type=Type.BOOLEAN)
        return dice.choice([
            lambda: Filter(input=below, condition=condition), lambda: Distinct(input=below),
            lambda: Filter(input=below, condition=Call(function="not", args=(condition,), type=Type.BOOLEAN)),
            lambda: UnionAll(parts=(below, below), columns=tuple((field.id, field.name) for field in below.fields))])()

    try:
        if dice.random() < 0.02:
            for _ in range(DEEP):
                value = made_of(Filter, {"input": value, "condition": Literal(value=True, type=Type.BOOLEAN)})
            return value, f"{DEEP} filters"
        return wrap(value), "below another operator"
    except Exception:
        return value, "as it is"


def _impostor(value: Any, dice: random.Random) -> Any:
    """What passes for a value, and may do as it likes."""
    cheap = type(type(value).__name__, (type(value),), {"cost": lambda self, *given: FREE, "apart": lambda self: 0, "l1": 0, "check": lambda self, *given: None,
                                                        "__slots__": ()})
    fields = fields_of(value)
    return dice.choice([lambda: made_of(cheap, fields), lambda: SimpleNamespace(**fields),
                        lambda: made_of(type(value), dict(list(fields.items())[1:]))])()


def _words(value: bytes, dice: random.Random) -> tuple[Any, str]:
    numbers = np.frombuffer(value, dtype=np.int64)
    return dice.choice([lambda: ((numbers * 2).tobytes(), "doubled"), lambda: ((-numbers).tobytes(), "negated"), lambda: (value[:-8], "shorter"),
                        lambda: (value[:-1], "half a word"), lambda: (value + value, "twice"), lambda: (bytes(len(value)), "zeros"),
                        lambda: (b"\xff" * len(value), "all ones"), lambda: (numbers[::-1].tobytes(), "in reverse"), lambda: (b"", "nothing"),
                        lambda: (bytearray(value), "bytes that change"), lambda: (tuple(numbers.tolist()), "numbers"),
                        lambda: (numbers.copy(), "an array"), lambda: (numbers.astype(float).tobytes(), "floats"),
                        lambda: (memoryview(value), "a view")])()


def _tangled(request: Any, dice: random.Random) -> tuple[Any, str]:
    """A request in which something is part of itself, or one object in several places."""
    slots = [(name, value) for name, value in fields_of(request).items() if is_frozen(value)]
    if not slots:
        return request, "nothing"
    name, value = dice.choice(slots)
    inner = [field for field, part in fields_of(value).items() if is_frozen(part) and type(part).__name__ not in ("Table", "Domain")]
    own = made_of(type(value), fields_of(value))
    if inner:
        tampered(own, **{dice.choice(inner): own})
    return put(request, (name,), own), f"{name} within itself"
