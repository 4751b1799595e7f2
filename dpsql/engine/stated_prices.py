"""The price of one statement that a program gives beside its text, as if the text stated it among its OPTIONS."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar

from dpsql.catalog.price import MOST, exact
from dpsql.engine.guard import guarded
from dpsql.engine.opening import ConnectionTerms
from dpsql.engine.session import Session
from dpsql.errors import OptionError
from dpsql.frozen import replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import (
    CreateStandingQuery,
    Explain,
    Explained,
    OpenModel,
    Option,
    Query,
    Statement,
    Synthesize,
    SynthesizeTables,
    Validate,
)

Priced = TypeVar("Priced", bound=Explained)


@guarded
def at_price(text: str, session: Session, terms: ConnectionTerms) -> Statement:
    """The statement with the price of these terms; an epsilon alone is joined by the budget's usual delta.

    Raises OptionError, located, if the price is impossible, or if the statement states another one or has none.
    """
    statement = parse(text)
    found = terms.price_under(session.budget)
    if terms.price is None or found is None:
        return statement
    given: dict[str, Any] = {
        name: amount for name, amount in (("epsilon", found.epsilon), ("rho", found.rho)) if amount is not None}
    if terms.delta is not None:
        given["delta"] = found.delta
    try:
        if isinstance(statement, Explain):
            return replace(statement, query=_with_options(statement.query, given, found.delta))
        if isinstance(statement, Query | Validate | Synthesize | SynthesizeTables | OpenModel | CreateStandingQuery):
            return _with_options(statement, given, found.delta)
    except OptionError as fault:
        raise fault.located(text) from None
    raise OptionError("this statement costs nothing, so it has no price", code="options", try_="no epsilon").located(text)


def _with_options(statement: Priced, given: dict[str, Any], delta: Fraction) -> Priced:
    stated = {option.name: option for option in statement.options if option.name in ("epsilon", "delta", "rho")}
    for name, option in stated.items():
        amount = given.get(name)
        if (amount is None and name != "delta") or (amount is not None and _amount(option) != amount):
            asked = ", ".join(f"{other} = {float(number):g}" for other, number in given.items())
            raise OptionError(f"the statement states {name} = {option.value}, and execute was given {asked}", span=option.span,
                              code="two-prices", subject=name, try_="one of the two")
    if "delta" not in stated and "epsilon" not in stated and delta:
        given = {**given, "delta": delta}
    added = tuple(Option(name=name, value=amount, span=None) for name, amount in given.items() if name not in stated)
    return replace(statement, options=(*statement.options, *added))


def _amount(option: Option) -> Fraction:
    try:
        return exact(option.value, option.name, least=Fraction(0), most=MOST)
    except OptionError as fault:
        fault.span = option.span
        raise
