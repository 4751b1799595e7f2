"""The methods by name. To add one: a file with a function from noisy answers to a fitted table, and a line here."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.errors import Error, OptionError
from dpsql.microdata import max_fit, nnls, ols, reweight, sequential
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers
from dpsql.microdata.rounding import rounded

METHODS: dict[str, Callable[[NoisyAnswers], FittedTable]] = {
    "ols": ols.fit,
    "nnls": nnls.fit,
    "max_fit": max_fit.fit,
    "sequential": sequential.fit,
    "reweight": reweight.fit,
}

FAILURES = (Error, ArithmeticError, MemoryError, RuntimeError, ValueError)
"""What a fit may raise. Its caller then returns the numbers that were paid for as they are: a failure follows from them alone."""


def fit(noisy: NoisyAnswers, method: str = "nnls", *, whole: bool = False) -> FittedTable:
    """The table that a method fits to noisy answers, rounded to whole numbers on request.

    Raises OptionError for a method that is unknown, DataError if exact answers contradict each other, and OperationalError if no
    solver reaches a table whose optimality is confirmed.
    """
    if method not in METHODS:
        raise OptionError(f"there is no method {method} for fitting a table", code="consistency", subject=method,
                          try_=", ".join(METHODS))
    found = METHODS[method](noisy)
    return rounded(noisy, found) if whole else found
