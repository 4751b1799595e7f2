"""The options of a statement: its price, and how it is answered."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from dpsql.catalog.price import Price, exact, price
from dpsql.errors import OptionError
from dpsql.frozen import Frozen, field, replace
from dpsql.mechanisms.named_bounds import BY_NAME
from dpsql.sql.text.statement import Option
from dpsql.types import Span

NAMES = ("epsilon", "delta", "rho", "confidence", "mechanism", "bound", "max_rows", "max_frequency", "clip", "max_groups",
         "prefer", "strategy", "planning", "consistency", "rounding", "total", "rows", "spread")
FORMS = {"epsilon": "epsilon = 0.5", "delta": "delta = 1e-6", "rho": "rho = 0.01", "confidence": "confidence = 0.95",
         "clip": "clip = 100", "spread": "spread = 10", "planning": "planning = 60"}
ACCURACY, SPEED = "accuracy", "speed"
MOST_PLANNING = 86_400  # seconds
MOST_ROWS, MOST_GROUPS, MOST_TOTAL = 10**6, 1000, 10**12


class Options(Frozen):
    """The choices of one statement.

    price        what it may cost; None if neither the statement nor its connection says
    confidence   of the intervals, a probability
    mechanisms   names of mechanisms that must be used for the tasks they can do; empty: the best is chosen
    bound        how the contribution of an entity to sums is limited: a name of `mechanisms.named_bounds`, or auto
    max_rows     the most rows of one entity that are kept
    max_frequency  the most rows of one value of a join key that are kept, where rows of many entities are joined on it
    clip         the most that one entity adds, in the unit of the aggregate; None: it is learned
    max_groups   in how many groups of an undeclared key one entity counts, and in how many groups at all if a bound needs that
    prefer       accuracy: limits are learned where that makes errors smaller; or speed: declared limits are used as they are, so
                 that the rows of each entity need not be counted
    strategy     how a workload is measured; None: a single statement is answered by itself if it can be
    planning     about how many seconds to search for a strategy; None: the default
    consistency  the method of `microdata.all_fits` by which a table is fitted to the numbers of a workload, or none
    rounding     whether the table has whole numbers: none or whole
    total        the number of rows that a workload counts, if it is public: the table has as many
    stated_rows, stated_spread   the values of `rows` and `spread`: how many rows each group has at least, and how large the
                 standard deviation of its values is at least, as the analyst says; only the price of an accuracy rests on them
    span         where in the text each option is
    """

    price: Price | None
    confidence: Fraction = Fraction(19, 20)
    mechanisms: tuple[str, ...] = ()
    bound: str = "auto"
    max_rows: int | None = None
    max_frequency: int | None = None
    clip: Fraction | None = None
    max_groups: int | None = None
    prefer: str = ACCURACY
    strategy: str | None = None
    planning: Fraction | None = None
    consistency: str = "none"
    rounding: str = "none"
    total: int | None = None
    stated_rows: int | None = None
    stated_spread: Fraction | None = None
    span: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def inside(self, *, outer_public: bool) -> Options:
        """The options for scalar subqueries. Options on limits and bounds apply to the outermost query only, or to its subqueries
        if that reads no private rows."""
        if outer_public:
            return self
        return replace(self, bound="auto", max_rows=None, max_frequency=None, clip=None, max_groups=None,
                       strategy=None, planning=None)


Names: TypeAlias = Callable[[], Sequence[str]]
"""The names that an option may have as its value; asked for where the option is given, as rooms are imported for them."""


def none() -> Sequence[str]:
    """An empty list of names."""
    return ()


def read_options(given: Sequence[Option], *, default: Price | None, confidence: Fraction, known: Sequence[str],
                 strategies: Names = none, fits: Names = none) -> Options:
    """The options of a statement, with the connection's defaults. `known` are the names of mechanisms, `strategies` those of
    the strategies for workloads, and `fits` those of the methods that fit tables to noisy answers.

    Raises OptionError, located, for an unknown name, a repeated one, or an impossible value.
    """
    values: dict[str, Option] = {}
    for option in given:
        if option.name not in NAMES:
            close = difflib.get_close_matches(option.name, NAMES, n=1)
            raise OptionError(f"there is no option {option.name}", code="unknown-option", span=option.span, subject=option.name,
                              try_=close[0] if close else "one of " + ", ".join(NAMES))
        if option.name in values:
            raise OptionError(f"{option.name} is given twice", span=option.span, subject=option.name, try_="only one of them")
        values[option.name] = option
    return _Values(values, tuple(known), strategies, fits).read(default, confidence)


def own_options(given: Sequence[Option], own: Sequence[str], shared: Sequence[str], whose: str) -> dict[str, Option]:
    """The options that only this kind of statement has, by name, apart from those it shares with SELECT.

    Raises OptionError, located, for a name that is in neither list, or that is given twice.
    """
    found: dict[str, Option] = {}
    for option in given:
        if option.name not in (*own, *shared):
            close = difflib.get_close_matches(option.name, (*own, *shared), n=1)
            raise OptionError(f"{whose} has no option {option.name}", code="unknown-option", span=option.span,
                              subject=option.name, try_=close[0] if close else "one of " + ", ".join((*own, *shared)))
        if option.name in found:
            raise OptionError(f"{option.name} is given twice", span=option.span, subject=option.name, try_="only one of them")
        found[option.name] = option
    return {name: option for name, option in found.items() if name in own}


def named_option(option: Option | None, known: Sequence[str]) -> str:
    """The value of an option that names one of these; 'auto' if it is not given. Raises OptionError, located."""
    if option is None:
        return "auto"
    if not isinstance(option.value, str) or option.value not in (*known, "auto"):
        text = option.value if isinstance(option.value, str) else type(option.value).__name__
        close = difflib.get_close_matches(text, known, n=1)
        raise OptionError(f"there is no {option.name} {text!r}", span=option.span, subject=option.name,
                          try_=f"'{close[0]}'" if close else "one of " + ", ".join(f"'{word}'" for word in known))
    return option.value


class _Values:
    def __init__(self, values: dict[str, Option], known: tuple[str, ...], strategies: Names, fits: Names) -> None:
        self._values, self._known, self._strategies, self._fits = values, known, strategies, fits

    def read(self, default: Price | None, confidence: Fraction) -> Options:
        consistency = self._name("consistency", lambda: ("none", *self._fits())) or "none"
        for name in ("rounding", "total"):
            if name in self._values and consistency == "none":
                raise self._fail(name, f"{name} applies only to a fitted table", "consistency = 'nnls' beside it")
        return Options(
            price=self._price(default), mechanisms=self._mechanisms(),
            bound=self._name("bound", lambda: ("auto", *BY_NAME)) or "auto",
            prefer=self._name("prefer", lambda: (ACCURACY, SPEED)) or ACCURACY,
            strategy=self._name("strategy", lambda: ("auto", *self._strategies())),
            consistency=consistency, rounding=self._name("rounding", lambda: ("none", "whole")) or "none",
            total=self._count("total", MOST_TOTAL, least=0), stated_rows=self._count("rows", MOST_TOTAL),
            stated_spread=self._fraction("spread", Fraction(1, 10**9), Fraction(10**15)),
            confidence=self._fraction("confidence", Fraction(1, 2), 1 - Fraction(1, 10**9)) or confidence,
            max_rows=self._count("max_rows", MOST_ROWS),
            max_frequency=self._count("max_frequency", MOST_ROWS), max_groups=self._count("max_groups", MOST_GROUPS),
            planning=self._fraction("planning", Fraction(1, 100), Fraction(MOST_PLANNING)),
            clip=self._fraction("clip", Fraction(1, 10**9), Fraction(10**15)),
            span={name: option.span for name, option in self._values.items() if option.span is not None})

    def _fail(self, name: str, reason: str, try_: str = "") -> OptionError:
        return OptionError(reason, span=self._values[name].span, subject=name, try_=try_)

    def _value(self, name: str) -> object:
        return self._values[name].value if name in self._values else None

    def _price(self, default: Price | None) -> Price | None:
        try:
            found = price(**{name: self._value(name) for name in ("epsilon", "delta", "rho")})
        except OptionError as fault:
            place = self._values.get(fault.subject)
            fault.span, fault.try_ = place.span if place is not None else None, fault.try_ or FORMS.get(fault.subject, "")
            raise
        return found if found is not None else default

    def _fraction(self, name: str, least: Fraction, most: Fraction) -> Fraction | None:
        if name not in self._values:
            return None
        try:
            return exact(self._value(name), name, least=least, most=most)
        except OptionError as fault:
            fault.span, fault.try_ = self._values[name].span, fault.try_ or FORMS[name]
            raise

    def _count(self, name: str, most: int, *, least: int = 1) -> int | None:
        value = self._value(name)
        if name not in self._values:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._fail(name, f"{name} must be a whole number from {least} to {most}", f"{name} = 10")
        return value

    def _name(self, name: str, allowed: Names) -> str | None:
        """The value of an option whose value is one of the names that are allowed; None if it is not given."""
        if name not in self._values:
            return None
        names, value = allowed(), self._value(name)
        if not isinstance(value, str):
            raise self._fail(name, f"{name} must be a text, not {type(value).__name__}", "one of " + ", ".join(
                f"'{known}'" for known in names))
        if value not in names:
            close = difflib.get_close_matches(value, names, n=1)
            raise self._fail(name, f"there is no {name} {value!r}", f"'{close[0]}'" if close else
                             "one of " + ", ".join(f"'{known}'" for known in names))
        return str(value)

    def _mechanisms(self) -> tuple[str, ...]:
        value = self._value("mechanism")
        if value is None or value == "auto":
            return ()
        names = tuple(name.strip() for name in str(value).split(",")) if isinstance(value, str) else ()
        for name in names or ("",):
            if name not in self._known:
                close = difflib.get_close_matches(name, self._known, n=1)
                raise self._fail("mechanism", f"there is no mechanism {name!r}", f"'{close[0]}'" if close else
                                 "one of " + ", ".join(f"'{known}'" for known in self._known))
        return names
