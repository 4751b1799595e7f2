"""bound = 'elastic' and bound = 'residual', from the text to the answer: exact without noise, refused with a way out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import joined_worlds
from support.joined_worlds import POLICY, Small
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer, explain
from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError, Unsupported
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

PEOPLE = joined_worlds.people(random.Random(6), 40)
WORLD = Small({**PEOPLE.rows, "likes": [(i, i % 3, i % 2) for i in range(40)], **joined_worlds.edges(random.Random(6), 60, 12).rows})
EXACT = [
    ("edge", "COUNT(*) FROM edges a JOIN edges b ON a.v = b.u JOIN edges c ON b.v = c.u AND c.v = a.u"),
    ("edge", "COUNT(*) FROM edges a, edges b WHERE a.v = b.u AND a.u < b.v"),
    ("person", "COUNT(*) FROM people a JOIN people b ON a.town = b.town"),
    ("person", "COUNT(b.size), COUNT(*) FILTER (WHERE a.size > 1) FROM people a JOIN people b USING (town)"),
    ("person", "SUM(LEAST(GREATEST(a.size, -2), 4)), AVG(LEAST(GREATEST(b.size, -2), 4)) FROM people a JOIN people b USING (town)"),
    ("person", "COUNT(*) FROM people p JOIN likes l ON p.person = l.person JOIN likes m ON m.thing = l.thing JOIN tags t ON t.thing = m.thing"),
    ("person", "t.tag, COUNT(*) FROM likes a JOIN tags t ON a.thing = t.thing JOIN likes b ON b.how = t.tag WHERE t.tag < 2 GROUP BY t.tag "
               "ORDER BY t.tag"),
    ("person", "COUNT(*) FROM likes"),
]


def session(folder: Path, entity: str, **more: object) -> Session:
    return session_of(folder, reader=WORLD.reader(), policy=POLICY, budget=entity, **more)  # type: ignore[arg-type]


def asked(text: str, bound: str = "residual", price: str = "epsilon = 2", more: str = "") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}, bound = '{bound}'{more}) {text}"


@pytest.mark.parametrize("bound", ["elastic", "residual"])
@pytest.mark.parametrize(("entity", "text"), EXACT)
def test_without_noise_it_is_what_duckdb_says(entity: str, text: str, bound: str, tmp_path: Path) -> None:
    found = answer(asked(text, bound), session(tmp_path, entity, noise=Exact()))
    assert isinstance(found, Answer)
    plain = WORLD.connection().execute("SELECT " + text).fetchall()
    shown = [row for row in found.rows if len(row) == 1 or row[0] in [other[0] for other in plain]]
    assert plain and any(value for row in plain for value in row)
    for ours, theirs in zip(shown, plain, strict=True):
        assert ours == pytest.approx(tuple(float(value) for value in theirs), rel=1e-9)


@pytest.mark.parametrize("price", ["epsilon = 2", "rho = 0.25", "epsilon = 2, delta = 1e-6"])
def test_exactly_the_price_is_charged_and_no_delta(price: str, tmp_path: Path) -> None:
    """A price of epsilon and delta is held as epsilon: heavy tails need no delta."""
    here = session(tmp_path, "person")
    found = answer(asked("COUNT(*), SUM(a.size) FROM people a JOIN people b USING (town)", price=price), here)
    assert isinstance(found, Answer) and found.columns[0].approximate and all(error > 0 for error in found.errors[0])
    assert "residual sensitivity" in found.notes[0] and "cut off" not in found.notes[0]
    charge = here.ledger.spent("person", None)
    assert charge.delta == 0
    assert charge.epsilon == (None if "rho" in price else 2 * 10**9)
    assert charge.rho == (25 * 10**7 if "rho" in price else 2 * 10**9)


def test_errors_fall_with_the_price(tmp_path: Path) -> None:
    errors = [answer(asked(EXACT[0][1], price=f"epsilon = {epsilon}"), session(tmp_path, "edge")).errors[0][0]  # type: ignore[union-attr]
              for epsilon in (1, 100)]
    assert errors[0] > 10 * errors[1]


def test_a_limit_in_the_statement_is_enforced(tmp_path: Path) -> None:
    world = Small({**WORLD.rows, "calls": [(0, 0)] * 30 + [(i, 0) for i in range(1, 4)], "people": [(i, 0, 0) for i in range(4)]})
    here = session_of(tmp_path, reader=world.reader(), policy=POLICY, budget="person", noise=Exact())
    found = answer(asked("COUNT(*) FROM calls c JOIN people p ON c.town = p.town", more=", max_rows = 5"), here)
    assert isinstance(found, Answer) and found.rows == ((4 * (5 + 3),),)


def test_explain_tells_the_bound_and_the_noise(tmp_path: Path) -> None:
    query = parse(asked(EXACT[0][1], "elastic"))
    assert isinstance(query, Query)
    told = str(explain(query, session(tmp_path, "edge")))
    assert "elastic sensitivity" in told and "Student's t" in told and "COUNT(*): depends on the data" in told
    assert "not residual: bound = 'residual' asks for it" in told


SAME = "FROM people a JOIN people b ON a.town = b.town"
REFUSED: list[tuple[str, type[Error], str, str, str]] = [
    # statement, error, what it points at, why, what else
    (asked("COUNT(*) FROM friends a JOIN friends b ON a.b = b.a"), Unsupported, "friends b ON a.b = b.a",
     "friends belongs to several entities", "balance"),
    (asked("COUNT(*) FROM calls c JOIN people p ON c.town = p.town"), Unsupported, "people p", "calls has none", "max_rows = 10"),
    (asked(f"COUNT(*) {SAME.replace('JOIN', 'LEFT JOIN')}", "elastic"), Unsupported, "people b", "inner joins", "JOIN in place"),
    (asked(f"COUNT(*) {SAME.replace('JOIN', 'FULL JOIN')}", "elastic"), Unsupported, "people b", "inner joins", "JOIN in place"),
    (asked("COUNT(*) FROM people a JOIN (SELECT b.town FROM people b LEFT JOIN people c ON b.size = c.size) AS d ON a.town = d.town"),
     Unsupported, "people c", "inner joins", "JOIN in place"),
    (asked("COUNT(*) FROM " + ", ".join(f"people p{i}" for i in range(7))), Unsupported, "SELECT", "7 relations, more than 6", "balance"),
    (asked(f"COUNT(*) {SAME} WHERE a.town IN (SELECT thing FROM likes)"), Unsupported, "IN (SELECT", "depends on private rows", "max_frequency"),
    (asked(f"MEDIAN(a.size) {SAME}"), OptionError, "MEDIAN(a.size)", "COUNT, SUM", "bound = 'auto'"),
    (asked(f"COUNT(DISTINCT a.size) {SAME}"), OptionError, "COUNT(DISTINCT", "COUNT, SUM", "bound = 'auto'"),
    (asked(f"COUNT(*) {SAME}", more=", clip = 3"), OptionError, "clip", "clip has no effect", "bound = 'clip'"),
    (asked(f"COUNT(*) {SAME}", price="epsilon = 0.00000001"), OptionError, "", "price is too small", "larger epsilon"),
    (asked(f"COUNT(*) {SAME}", "residul"), OptionError, "'residul'", "no bound 'residul'", "'residual'"),
]


@pytest.mark.parametrize(("text", "kind", "at", "why", "hint"), REFUSED, ids=[f"{case[1].__name__} {case[3]}" for case in REFUSED])
def test_refusals_point_at_their_reason_and_tell_a_way_out(text: str, kind: type[Error], at: str, why: str, hint: str,
                                                           tmp_path: Path) -> None:
    here = session(tmp_path, "person")
    with pytest.raises(kind) as caught:
        answer(text, here)
    fault = caught.value
    assert why in str(fault) and hint in fault.try_
    assert not at or (fault.span is not None and at in text[fault.span.start:fault.span.end])
    assert here.ledger.entries("person") == []


@pytest.mark.parametrize("text", [EXACT[0][1]])
def test_balance_is_a_way_out(text: str, tmp_path: Path) -> None:
    assert isinstance(answer(asked(text, "balance"), session(tmp_path, "edge")), Answer)


@pytest.mark.parametrize("text", [f"MEDIAN(a.size) {SAME}", f"COUNT(DISTINCT a.size) {SAME}"])
def test_the_way_out_is_answered(text: str, tmp_path: Path) -> None:
    assert answer(asked(text, "auto"), session(tmp_path, "person"))
