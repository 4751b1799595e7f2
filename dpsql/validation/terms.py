"""The terms of a suite: OPTIONS of VALIDATE."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.catalog.price import Price, exact
from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.planning.options import Options, named_option, own_options, read_options
from dpsql.sql.text.statement import Option

OWN = ("decider", "suite", "alpha", "failures")
SHARED = ("epsilon", "delta", "rho", "max_rows", "clip")  # with SELECT


class ValidationTerms(Frozen):
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
    """Read the options of VALIDATE. Raises OptionError, located, for an unknown name, a repeated one, or an impossible value."""
    own = own_options(given, OWN, SHARED, "VALIDATE")
    options = read_options([option for option in given if option.name in SHARED], default=default,
                           confidence=Fraction(19, 20), known=())
    return ValidationTerms(options=options, decider=named_option(own.get("decider"), deciders),
                           suite=named_option(own.get("suite"), suites), alpha=_alpha(own), failures=_failures(own))


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
        raise OptionError("failures must be a whole number from 1 to 10000", span=option.span, subject="failures",
                          try_="failures = 5")
    return option.value
