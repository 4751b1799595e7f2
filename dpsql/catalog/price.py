"""Prices and totals as exact numbers.

What a person writes is read as the decimal they meant (0.1 is one tenth, not the nearest binary fraction), so that ten
statements of 0.1 fit a budget of 1.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpsql.errors import OptionError
from dpsql.frozen import Frozen

LEAST, MOST = Fraction(1, 10**9), Fraction(1000)
LEAST_DELTA, MOST_DELTA = Fraction(1, 10**18), Fraction(1, 10)


class Price(Frozen):
    """The price of a statement, or a total: a pure epsilon, (epsilon, delta), or rho with an optional delta."""

    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def __str__(self) -> str:
        main = f"ε = {short(self.epsilon)}" if self.epsilon is not None else f"ρ = {short(self.rho or Fraction(0))}"
        return main + (f", δ = {float(self.delta):g}" if self.delta else "")


def short(number: Fraction) -> str:
    """A fraction as a short decimal, as text for people."""
    return f"{float(number):.6g}"


def in_policy(amount: Price) -> str:
    """A price as a policy states it, such as { epsilon = 0.5, delta = 1e-6 }."""
    parts = (("epsilon", amount.epsilon), ("rho", amount.rho), ("delta", amount.delta or None))
    return "{ " + ", ".join(f"{name} = {short(part)}" for name, part in parts if part is not None) + " }"


def exact(value: object, name: str, *, least: Fraction, most: Fraction) -> Fraction:
    """A number exactly as a person wrote it: a float is read as the decimal that it prints as.

    Raises OptionError for anything else: text, booleans, NaN, infinities, and numbers out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        kind = {str: "text", bool: "true or false"}.get(type(value), type(value).__name__)
        raise OptionError(f"{name} must be a number, not {kind}", subject=name)
    written = Decimal(str(value)) if isinstance(value, float) else value
    if isinstance(written, Decimal):
        if not written.is_finite():
            raise OptionError(f"{name} must be a finite number", subject=name)
        if abs(written.adjusted()) > 99:
            written = most + 1  # equally out of range, and evaluated at once
    number = Fraction(written)
    if number < least or number > most:
        raise OptionError(f"{name} must be between {float(least):g} and {float(most):g}", subject=name)
    return number


def price(*, epsilon: object = None, delta: object = None, rho: object = None) -> Price | None:
    """A price from what a person wrote; None if nothing was written.

    Raises OptionError if both epsilon and rho, only delta, or an impossible number is given.
    """
    if epsilon is None and rho is None:
        if delta is not None:
            raise OptionError("delta alone is not a price", try_="epsilon = 0.5, delta = 1e-6", subject="delta")
        return None
    if epsilon is not None and rho is not None:
        raise OptionError("a price is either epsilon or rho, not both", subject="rho", try_="one of them")
    some_delta = Fraction(0) if delta is None else exact(delta, "delta", least=Fraction(0), most=MOST_DELTA)
    if some_delta:
        exact(delta, "delta", least=LEAST_DELTA, most=MOST_DELTA)
    if epsilon is not None:
        return Price(epsilon=exact(epsilon, "epsilon", least=LEAST, most=MOST), delta=some_delta)
    return Price(rho=exact(rho, "rho", least=LEAST, most=MOST), delta=some_delta)


def misfit(amount: Price, total: Price) -> tuple[str, str, str] | None:
    """Why an amount of this kind cannot be a part of a total: the number at fault, the reason, and what to write instead; None if
    it can."""
    if amount.rho is not None and total.rho is None and not total.delta:
        return "rho", "is a pure epsilon, and a price in rho is not", "epsilon = 0.5"
    if amount.epsilon is not None and amount.delta and not total.delta:
        return "delta", "has no delta", "a price without delta"
    return None


def excess(amount: Price, total: Price) -> tuple[str, str] | None:
    """The number of an amount that exceeds the total, and its largest allowed value; None if none does."""
    pairs = (("epsilon", amount.epsilon, total.epsilon), ("rho", amount.rho, total.rho), ("delta", amount.delta, total.delta))
    return next(((name, f"{name} = {short(whole)}, at most") for name, part, whole in pairs
                 if part is not None and whole is not None and part > whole), None)
