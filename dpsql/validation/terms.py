"""The terms of a suite: OPTIONS of VALIDATE."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.catalog.price import Price, exact
from dpsql.errors import OptionError
from dpsql.planning.options import Options, read_options
from dpsql.sql.text.statement import Option

OWN = ("decider", "suite", "alpha", "failures")
SHARED = ("epsilon", "delta", "rho", "max_rows", "clip")  # with SELECT


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationTerms:
    """The choices of one VALIDATE.

    options   price and limits, as of a SELECT
    decider   the name of a decider, or 'auto'
    suite     how several checks share the price
    alpha     a decision is "yes" or "no" where the other truth has at most this chance of such a result, else
              "inconclusive"; over a suite, the expected share of mistakes among the "yes", and among the "no"
    failures  how many failed checks a sparse-vector suite may report
    """

    options: Options
    decider: str = "auto"
    suite: str = "auto"
    alpha: Fraction = Fraction(1, 20)
    failures: int | None = None


def read_terms(given: Sequence[Option], *, default: Price | None, deciders: Sequence[str],
               suites: Sequence[str]) -> ValidationTerms:
    """Raises OptionError, located, for an unknown name, a repeated one, or an impossible value."""
    own: dict[str, Option] = {}
    for option in given:
        if option.name not in (*OWN, *SHARED):
            close = difflib.get_close_matches(option.name, (*OWN, *SHARED), n=1)
            raise OptionError(f"VALIDATE has no option {option.name}", code="unknown-option", span=option.span,
                              subject=option.name, try_=close[0] if close else "one of " + ", ".join((*OWN, *SHARED)))
        if option.name in own:
            raise OptionError(f"{option.name} is given twice", span=option.span, subject=option.name)
        if option.name in OWN:
            own[option.name] = option
    options = read_options([option for option in given if option.name in SHARED], default=default,
                           confidence=Fraction(19, 20), known=())
    return ValidationTerms(options=options, decider=_one_of(own, "decider", deciders), suite=_one_of(own, "suite", suites),
                           alpha=_alpha(own), failures=_failures(own))


def _one_of(own: dict[str, Option], name: str, known: Sequence[str]) -> str:
    option = own.get(name)
    if option is None:
        return "auto"
    if not isinstance(option.value, str) or option.value not in (*known, "auto"):
        text = option.value if isinstance(option.value, str) else type(option.value).__name__
        close = difflib.get_close_matches(text, known, n=1)
        raise OptionError(f"there is no {name} {text!r}", span=option.span, subject=name,
                          try_=f"'{close[0]}'" if close else "one of " + ", ".join(f"'{word}'" for word in known))
    return str(option.value)


def _alpha(own: dict[str, Option]) -> Fraction:
    option = own.get("alpha")
    if option is None:
        return Fraction(1, 20)
    try:
        return exact(option.value, "alpha", least=Fraction(1, 10**6), most=Fraction(1, 2))
    except OptionError as fault:
        fault.span = option.span
        raise


def _failures(own: dict[str, Option]) -> int | None:
    option = own.get("failures")
    if option is None:
        return None
    if isinstance(option.value, bool) or not isinstance(option.value, int) or not 1 <= option.value <= 10_000:
        raise OptionError("failures is a whole number from 1 to 10000", span=option.span, subject="failures", try_="failures = 5")
    return option.value
