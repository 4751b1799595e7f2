"""OPTIONS of a statement: what each takes, and how mistakes are told."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.catalog.price import Price, price
from dpsql.errors import OptionError
from dpsql.planning.options import MOST_ROWS, Options, read_options
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

KNOWN = ("laplace", "gaussian", "exponential", "truncated_geometric")
DEFAULT = price(epsilon=0.25)


def read(clause: str, default: Price | None = DEFAULT) -> Options:
    query = parse(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({clause}) COUNT(*) FROM people")
    assert isinstance(query, Query)
    return read_options(query.options, default=default, confidence=Fraction(19, 20), known=KNOWN)


def fault(clause: str, default: Price | None = DEFAULT) -> OptionError:
    with pytest.raises(OptionError) as caught:
        read(clause, default)
    return caught.value


def test_what_is_left_out_is_the_connections() -> None:
    found = read_options((), default=DEFAULT, confidence=Fraction(9, 10), known=KNOWN)
    assert found == Options(price=DEFAULT, confidence=Fraction(9, 10))
    assert read_options((), default=None, confidence=Fraction(9, 10), known=KNOWN).price is None


@pytest.mark.parametrize(("clause", "field", "value"), [
    ("epsilon = 0.5", "price", price(epsilon=0.5)), ("EPSILON = 0.5", "price", price(epsilon=0.5)),
    ("epsilon = 0.1", "price", Price(epsilon=Fraction(1, 10))), ("epsilon = 1e-3", "price", Price(epsilon=Fraction(1, 1000))),
    ("epsilon = 1, delta = 1e-6", "price", Price(epsilon=Fraction(1), delta=Fraction(1, 10**6))),
    ("rho = 0.25", "price", Price(rho=Fraction(1, 4))), ("epsilon = 1, delta = 0", "price", price(epsilon=1)),
    ("confidence = 0.9", "confidence", Fraction(9, 10)), ("mechanism = 'laplace'", "mechanisms", ("laplace",)),
    ("mechanism = 'gaussian, truncated_geometric'", "mechanisms", ("gaussian", "truncated_geometric")),
    ("mechanism = 'auto'", "mechanisms", ()), ("bound = 'clip'", "bound", "clip"), ("bound = 'auto'", "bound", "auto"),
    ("clip = 2.5", "clip", Fraction(5, 2)), ("clip = 2.5", "bound", "auto"), ("bound = 'reservoir'", "bound", "reservoir"),
    ("bound = 'frequency'", "bound", "frequency"), ("max_rows = 7", "max_rows", 7), ("max_frequency = 9", "max_frequency", 9),
    ("rows = 800", "stated_rows", 800), ("spread = 2.5", "stated_spread", Fraction(5, 2)),
    ("max_groups = 3", "max_groups", 3), ("planning = 2.5", "planning", Fraction(5, 2))])
def test_options_are_read_as_they_are_meant(clause: str, field: str, value: object) -> None:
    assert getattr(read(clause), field) == value


@pytest.mark.parametrize(("clause", "suggestion"), [
    ("epsilom = 1", "epsilon"), ("eps = 1", "epsilon"), ("dleta = 1e-6", "delta"), ("max_row = 3", "max_rows"),
    ("mechansim = 'laplace'", "mechanism"), ("mechanism = 'laplas'", "'laplace'"), ("bound = 'clipp'", "'clip'"),
    ("qqq = 1", "one of epsilon, delta"), ("mechanism = 'zzz'", "one of 'laplace', 'gaussian'"), ("bound = 'x'", "one of 'auto', 'clip'")])
def test_a_mistyped_name_is_told_with_what_may_have_been_meant(clause: str, suggestion: str) -> None:
    told = fault(clause)
    assert suggestion in told.try_ and told.subject
    assert told.span is not None


@pytest.mark.parametrize("clause", [
    "epsilon = 0", "epsilon = -1", "epsilon = 1e9", "epsilon = 1e-12", "epsilon = 1e400", "epsilon = 'one'", "epsilon = TRUE",
    "rho = 0", "rho = -0.5", "delta = 1e-6", "epsilon = 1, delta = 1", "epsilon = 1, delta = -1e-9",
    "epsilon = 1, delta = 1e-30", "epsilon = 1, rho = 1", "confidence = 0", "confidence = 1", "confidence = 95", "confidence = 0.4",
    "confidence = 'high'", "max_rows = 0", "max_frequency = 0", "max_rows = -1", "rows = 0", "rows = 2.5", "spread = 0", "spread = 'wide'", "max_rows = 1.5", "max_rows = '3'", "max_rows = TRUE",
    f"max_rows = {MOST_ROWS + 1}", "max_groups = 0", "max_groups = 1e3", "clip = 0", "clip = -5", "planning = 0", "planning = 1e6", "planning = 'long'", "clip = 'much'", "clip = 1e99",
    "bound = 3", "mechanism = 3", "mechanism = ''", "mechanism = 'laplace,'", "mechanism = TRUE",
    "epsilon = 1, epsilon = 2", "bound = 'clip', BOUND = 'rows'"])
def test_impossible_values_are_refused_at_their_place(clause: str) -> None:
    told = fault(clause)
    assert told.span is not None, clause
    name = told.subject
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({clause}) COUNT(*) FROM people"
    assert name.lower() in text[told.span.start : told.span.end].lower(), "the caret is under the option that is wrong"


def test_a_price_of_the_statement_replaces_the_connections_whole() -> None:
    assert read("rho = 0.5", price(epsilon=1, delta=1e-6)).price == price(rho=0.5)
    assert read("epsilon = 2", price(epsilon=1, delta=1e-6)).price == price(epsilon=2), "its delta too"
