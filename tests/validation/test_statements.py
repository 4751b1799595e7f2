"""VALIDATE from text to findings: synthetic tables in the database, as files and as frames; and what people do wrong."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from support import worlds
from support.grammar_sentences import accepted, refused
from support.html_pages import texts_of
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.backends.upload_folders import Uploads
from dpsql.dbapi import Connection
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, Error, OperationalError, OptionError, SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.planning.explain import Explanation
from dpsql.validation import check_plan
from dpsql.validation.findings import INCONCLUSIVE, NO, UNTESTED, YES, Finding, Validation, of_json
from dpsql.validation.report import page

SYNTHETIC = """
[tables.people_syn]
public = true
[tables.people_syn.columns]
person_id = {}
household_id = {}
sex = {}
age = {}
income = {}
active = {}
nickname = {}

[tables.visits_syn]
public = true
[tables.visits_syn.columns]
visit_id = {}
person_id = {}
year = {}
clinic = {}
cost = {}
"""
POLICY = worlds.POLICY.replace("[budgets.person]", SYNTHETIC + "\n[budgets.person]", 1)


def reader() -> DuckReader:
    """The small world, with synthetic tables that are copies of the private ones."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    worlds.world().fill(connection)
    connection.execute("CREATE TABLE people_syn AS SELECT * FROM people WHERE age IS NOT NULL AND sex IN ('f', 'm')")
    connection.execute("CREATE TABLE visits_syn AS SELECT * FROM visits WHERE year BETWEEN 2018 AND 2021 AND clinic IN ('a', 'b')")
    lock_down(connection)
    return DuckReader(connection, "v1")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = session_of(tmp_path, reader=reader(), policy=POLICY)
    yield made
    made.close()


@pytest.fixture
def connection(session: Session) -> Connection:
    return Connection(session)


def frame(**changes: Any) -> pd.DataFrame:
    columns = worlds.SCHEMA["people"]
    names = [part.split()[0] for part in columns.replace("PRIMARY KEY", "").split(", ")]
    made = pd.DataFrame([row for row in worlds.world().rows["people"] if row[2] in ("f", "m")], columns=names)
    return made.assign(**changes)


STATEMENTS = [text for text in accepted() if "VALIDATE" in text]


@pytest.mark.parametrize("text", STATEMENTS)
def test_accepted_statements_are_decided(text: str, session: Session) -> None:
    made = answer(text, session)
    assert isinstance(made, Validation | Explanation)
    if isinstance(made, Validation):
        assert all(found.decision in ("yes", "no", "inconclusive") for found in made.findings)
        assert len(made.as_table().rows) == len(made.findings) == text.count("SELECT")
        assert of_json(made.as_json()).findings == made.findings
    else:
        assert not session.ledger.entries("person")
        assert "flip_distance" in str(made)


@pytest.mark.parametrize(("kind", "code", "reason", "text"), [block for block in refused() if "VALIDATE" in block[-1]])
def test_refused_statements_cost_nothing(kind: str, code: str, reason: str, text: str, session: Session) -> None:
    with pytest.raises(Error) as caught:
        answer(text, session)
    assert (type(caught.value).__name__, caught.value.code) == (kind, code)
    assert caught.value.reason.startswith(reason) and "^" in str(caught.value)
    assert not session.ledger.entries("person")


def test_columns_may_be_named_with_the_private_table(connection: Connection) -> None:
    """The synthetic table is read under the name of the one that it stands for."""
    cur = connection.execute("VALIDATE SELECT people.sex, COUNT(*) FROM people WHERE people.sex IN ('f', 'm') GROUP BY people.sex "
                             "AGAINST people_syn WITHIN 8", epsilon=50)
    assert [row[3] for row in cur.fetchall()] == ["yes"]


def test_a_copy_is_found_good_and_a_bad_table_is_not(connection: Connection) -> None:
    queries = ["SELECT COUNT(*) FROM people WHERE sex IN ('f', 'm')", "SELECT sex, COUNT(*) FROM people GROUP BY sex"]
    made = connection.validate(queries, synthetic=frame(), within=8, epsilon=50)
    assert [found.decision for found in made.findings] == ["yes", "yes"] and made.counts == {"yes": 2}
    bad = pd.concat([frame()] * 3)
    made = connection.validate(queries, synthetic=bad, within=8, epsilon=50)
    assert [found.decision for found in made.findings] == ["no", "no"]
    assert all(found.p_inside is not None and found.p_inside < 0.01 for found in made.findings)


@pytest.mark.parametrize("query", ["COUNT(*)", "SUM(age)", "COUNT(DISTINCT age)", "SUM(CASE WHEN active THEN -age ELSE age END)"])
@pytest.mark.parametrize("factor", [0.5, 0.95, 1.0, 1.05, 2.0])
def test_the_interval_of_the_private_answer_covers_it(query: str, factor: float, tmp_path: Path) -> None:
    """Without noise, wherever the synthetic answer lies: a slack is told, and the interval is what follows from it."""
    session = session_of(tmp_path, reader=reader(), policy=POLICY, noise=Exact())
    text, table = f"SELECT {query} FROM people WHERE age < 60 AND sex IN ('f', 'm')", frame()
    rows = table.dropna(subset=["age"])
    kept = rows[rows["age"] < 60]
    part = pd.concat([kept] * 2).iloc[: int(len(kept) * factor)]
    found = Connection(session).validate(text, synthetic=part, within="12 PERCENT OR 3", epsilon=100).findings[0]
    ages, active = kept["age"].astype(int), kept["active"].astype(bool)
    truth = {"COUNT(*)": len(kept), "SUM(age)": ages.sum(), "COUNT(DISTINCT age)": ages.nunique()}.get(query, ages.where(~active, -ages).sum())
    assert found.truth is not None and found.truth[0] - 1 <= truth <= found.truth[1] + 1
    session.close()


def test_files_frames_and_tables_say_the_same(session: Session, tmp_path: Path) -> None:
    connection = Connection(replace(session, uploads=Uploads(folders=(tmp_path,))))
    query, made = "SELECT SUM(income) FROM people", frame()
    made.to_csv(tmp_path / "people.csv", index=False)
    made.to_parquet(tmp_path / "people.parquet")
    found = [connection.validate(query, synthetic=source, within=1000, epsilon=1).findings[0].synthetic
             for source in (made, str(tmp_path / "people.csv"), tmp_path / "people.parquet", {"people": made})]
    assert len(set(found)) == 1


def test_a_page_shows_what_was_told_and_nothing_else(connection: Connection) -> None:

    queries = ["SELECT COUNT(*) FROM people WHERE sex = 'f'", "SELECT COUNT(*) FROM people", "SELECT AVG(age) FROM people",
               "SELECT sex, COUNT(*) FROM people GROUP BY sex"]
    made = connection.validate(queries, synthetic=frame(), within=9, epsilon=9)
    text = page(made)
    told = texts_of(text)
    assert text.count("<svg") == len(queries) and all(f"<code>{html.escape(query)}</code>" in text for query in queries)
    for found in made.findings:
        assert found.slack is not None and found.margin is not None
        side = "inside" if found.slack >= 1 else "outside"
        assert f"{abs(found.slack):,} ± {found.margin:,.0f} {side}" in told and found.tolerance in told
    for part in ("private answer between", "cost ε = 9", "groups", "asked by", "protects each person", "UTC", "given in Python",
                 "How reliable a single decision is"):
        assert part in told, part
    assert told.count("probability of a wrong decision, at most") == len({found.mistakes for found in made.findings})
    for path in re.findall(r"<path d='M([\d.]+) 10H([\d.]+)", text):
        assert all(0 <= float(end) <= 100 for end in path)


def test_the_report_shows_every_decision_of_every_kind() -> None:
    """Also those of deciders that tell no distance, and checks for which the price was used up."""
    base = Finding(query="SELECT 1 -- <b>&", cells=((),), synthetic=(1.5e7,), low=(1e7,), high=(2e7,), decision=YES, decider="toy")
    words = [YES, NO, INCONCLUSIVE, UNTESTED]
    found = [replace(base, decision=word) for word in words] + [replace(base, slack=slack, spread=3.0, margin=6.0, decision=NO)
                                                                 for slack in (-10**9, -1, 0, 1, 10**9)]
    text = page(Validation(findings=tuple(found), suite="toy", alpha=0.05, cost="ε = 1", notes=("a note < 1",)))
    told = texts_of(text)
    assert text.count("<svg") == len(found) and told.count("SELECT 1 -- <b>&") == len(found) and "a note < 1" in told
    assert all(word in told for word in words) and "15,000,000" in told and "e+07" not in told
    assert "1,000,000,000 ± 6 outside" in told and "0 ± 6 outside" in told and "1 ± 6 inside" in told


def test_the_same_validation_again_is_free(connection: Connection, session: Session) -> None:
    first = connection.validate("SELECT AVG(age) FROM people", synthetic=frame(), within=10, epsilon=1)
    again = connection.validate("select avg(age) from people", synthetic=frame(), within=10, epsilon=1)
    assert again.stored and again.findings[0].query == "select avg(age) from people"
    assert again.named([first.findings[0].query]).findings == first.findings
    assert len(session.ledger.entries("person")) == 1
    other = connection.validate("SELECT AVG(age) FROM people", synthetic=frame(age=50), within=10, epsilon=1)
    assert not other.stored and len(session.ledger.entries("person")) == 2


def test_a_whole_suite_costs_its_price_once(connection: Connection, session: Session) -> None:
    queries = [f"SELECT COUNT(*) FROM people WHERE age < {age}" for age in range(20, 80, 10)]
    for i, suite in enumerate(("independent", "conjunction", "sparse"), start=1):
        made = connection.validate(queries, synthetic=frame(), within=20, epsilon=0.25, suite=suite)
        assert len(made.findings) == len(queries) and made.suite == suite
        charge = session.ledger.entries("person")[-1].charge
        assert len(session.ledger.entries("person")) == i and charge.epsilon == 250_000_000


def test_a_suite_of_too_many_checks_is_refused_before_the_charge(connection: Connection, session: Session,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_plan, "MOST_TESTS", 5)
    queries = [f"SELECT COUNT(*) FROM people WHERE age < {age}" for age in range(20, 80, 10)]
    for suite in ("independent", "conjunction"):
        with pytest.raises(Unsupported, match="a suite can have at most 5 checks"):
            connection.validate(queries, synthetic=frame(), within=20, epsilon=0.25, suite=suite)
    assert not session.ledger.entries("person")
    assert len(connection.validate(queries[:5], synthetic=frame(), within=20, epsilon=0.25).findings) == 5


def test_failures_that_use_up_a_sparse_suite_leave_the_rest_untested(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=reader_of(worlds.world()), noise=Exact())
    queries = [f"SELECT COUNT(*) FROM people WHERE age >= 0 AND age < {100 + i}" for i in range(6)]
    made = Connection(session).validate(queries, synthetic=pd.concat([frame()] * 3), within=1, epsilon=1, suite="sparse",
                                        failures=2)
    assert [found.decision for found in made.findings] == ["no", "no", *["not tested"] * 4]
    assert made.counts == {"no": 2, "not tested": 4} and "4 not tested" in made.summary[0]


def test_checks_of_disjoint_rows_share_a_price(connection: Connection) -> None:
    def spread(queries: list[str]) -> float:
        found = connection.validate(queries, synthetic=frame(), within=20, epsilon=0.5).findings
        assert len({finding.spread for finding in found}) == 1 and found[0].spread is not None
        return found[0].spread

    alone = spread(["SELECT COUNT(*) FROM people"])
    assert spread([f"SELECT COUNT(*) FROM people WHERE sex = '{sex}'" for sex in "fm"]) == alone
    assert spread([f"SELECT AVG(age) FROM people WHERE age >= {low} AND age < {low + 20}" for low in range(0, 100, 20)]) == alone
    assert spread(["SELECT COUNT(*) FROM people WHERE sex = 'f'", "SELECT COUNT(*) FROM people WHERE active"]) > 1.9 * alone
    touching = [f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {low + 20}" for low in range(0, 100, 20)]
    assert 1.9 * alone < spread(touching) < 2.2 * alone  # two of five meet at each end


SCORES = {"scores": pd.DataFrame({"points": [1.0] * 40})}
WRONG: list[tuple[Any, dict[str, Any], type[Error], str]] = [
    ("SELECT COUNT(*) FROM peple", {}, SqlError, "there is no table peple"),
    ("SELECT AVG(incom) FROM people", {}, SqlError, "there is no column incom"),
    ("SELECT AVG(income), COUNT(*) FROM people", {}, Unsupported, "a query of VALIDATE must have exactly one aggregate"),
    ("SELECT AVG(income) + 1 FROM people", {}, Unsupported, "a query of VALIDATE must have exactly one aggregate"),
    ("SELECT VAR_SAMP(age) FROM people", {}, Unsupported, "VAR_SAMP(age) cannot be checked"),
    ("SELECT MAX(age) FROM people", {}, Unsupported, "MAX(age) cannot be checked"),
    ("SELECT COUNT(*) FROM people HAVING COUNT(*) > 3", {}, Unsupported, "HAVING, LIMIT and OFFSET have no meaning"),
    ("SELECT nickname, COUNT(*) FROM people GROUP BY nickname", {}, Unsupported, "the values of nickname are not declared"),
    ("SELECT COUNT(*) FROM people GROUP BY age, age + 1, age + 2, age + 3, age + 4, age + 5", {}, Unsupported,
     "the declared values of the keys make 1061520150601 groups"),
    ("SELECT COUNT(*) FROM clinics", {}, Unsupported, "this query reads public tables only"),
    ("SELECT AVG(points) FROM scores", {"synthetic": SCORES}, Unsupported, "AVG(points) can only be checked if the rows of an entity"),
    ("SELECT SUM(points) FROM scores", {"synthetic": SCORES}, Unsupported, "SUM(points) can only be limited to a level if values"),
    ("SELECT COUNT(*) FROM scores", {"synthetic": SCORES, "suite": "conjunction"}, Unsupported, "an entity's rows are not"),
    ("SELECT COUNT(*) FROM scores", {"synthetic": SCORES, "decider": "additive"}, Unsupported, "additive: the rows of an entity"),
    ("SELECT COUNT(*) FROM people", {"clip": 3}, OptionError, "clip is only for rows without a limit"),
    ("SELECT SUM(weight) FROM people", {}, Unsupported, "weight has no declared bounds"),
    ("SELECT 1", {}, Unsupported, ""),
    ("DELETE FROM people", {}, Unsupported, "only queries are answered"),
    ("SELECT AVG(income) FROM people WHERE age > 1000", {}, OptionError, "the synthetic table has no rows for this query"),
    ("SELECT COUNT(*) FROM people WHERE age > 1000", {"within": "5 PERCENT"}, OptionError, "a percentage of 0 gives no tolerance"),
    ("SELECT COUNT(*) FROM people", {"within": None}, OptionError, "no tolerance is given"),
    ("SELECT COUNT(*) FROM people", {"within": "much"}, OptionError, "'much' is not a tolerance"),
    ("SELECT COUNT(*) FROM people", {"within": -3}, OptionError, "within must be between"),
    ("SELECT COUNT(*) FROM people", {"within": float("nan")}, OptionError, "within must be a finite number"),
    ("SELECT COUNT(*) FROM people", {"decidr": "flip_distance"}, OptionError, "VALIDATE has no option decidr"),
    ("SELECT COUNT(*) FROM people", {"decider": "flip"}, OptionError, "there is no decider 'flip'"),
    ("SELECT AVG(age) FROM people", {"decider": "histogram"}, Unsupported, "histogram: it decides MEDIAN"),
    ("SELECT COUNT(*) FROM people", {"suite": "sprase"}, OptionError, "there is no suite 'sprase'"),
    ("SELECT COUNT(*) FROM people", {"alpha": 0.9}, OptionError, "alpha must be between"),
    ("SELECT COUNT(*) FROM people", {"failures": 3}, OptionError, "failures needs suite"),
    ("SELECT COUNT(*) FROM people", {"failures": 0, "suite": "sparse"}, OptionError, "failures must be a whole number"),
    ("SELECT COUNT(*) FROM people", {"synthetic": "peple_syn"}, SqlError, "peple_syn is not declared"),
    ("SELECT COUNT(*) FROM people", {"synthetic": "visits"}, SqlError, "visits is private"),
    ("SELECT COUNT(*) FROM people", {"synthetic": "nowhere.csv"}, OperationalError, "nowhere.csv is not in a folder for uploads"),
    ("SELECT COUNT(*) FROM people", {"synthetic": 7}, OperationalError, "a synthetic table must be a pandas frame"),
    ("SELECT COUNT(*) FROM people", {"synthetic": {"clinics": frame()}}, OptionError, "there is no private table clinics"),
    ("SELECT COUNT(*) FROM people JOIN visits USING (person_id)", {}, OptionError, "the queries name people and visits"),
    ("SELECT COUNT(*) FROM people JOIN visits USING (person_id)", {"synthetic": {"people": frame()}}, OptionError,
     "no synthetic table replaces visits"),
    ("SELECT AVG(income) FROM people", {"synthetic": frame().drop(columns="income")}, OptionError,
     "the synthetic table has no column income"),
    ("VALIDATE SELECT COUNT(*) FROM people", {}, SqlError, "give only the query here"),
    ("SELECT COUNT(*) FROM people", {"synthetic": pd.DataFrame({"other": [1]})}, OptionError, "the synthetic table has no column of"),
    ("SELECT AVG(income) FROM people", {"synthetic": frame(income="much")}, OperationalError, "column income of the synthetic frame"),
    ("SELECT COUNT(*) FROM people", {"synthetic": frame(sex="x")}, OptionError, "column sex of the synthetic people has values"),
    ([], {}, Error, "there is no query to validate"),
    ("", {}, SqlError, "there is no query"),
]


@pytest.mark.parametrize(("queries", "options", "kind", "reason"), WRONG, ids=[f"{i}: {case[3][:40]}" for i, case in enumerate(WRONG)])
def test_mistakes_are_told_and_cost_nothing(queries: Any, options: dict[str, Any], kind: type[Error], reason: str,
                                            connection: Connection, session: Session) -> None:
    with pytest.raises(kind) as caught:
        connection.validate(queries, **{"synthetic": frame(), "within": 10, "epsilon": 1, **options})
    assert caught.value.reason.startswith(reason), caught.value
    assert not session.ledger.entries("person")


def test_what_the_budget_does_not_hold_is_refused(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=reader(), policy=POLICY.replace("epsilon = 1000\ndelta = 0.01", "epsilon = 1"))
    connection = Connection(session)
    connection.validate("SELECT COUNT(*) FROM people", synthetic=frame(), within=10, epsilon=0.75)
    with pytest.raises(BudgetExhausted):
        connection.validate("SELECT AVG(age) FROM people", synthetic=frame(), within=10, epsilon=0.75)
    assert len(session.ledger.entries("person")) == 1


def test_parameters_are_values_of_the_queries_in_order(session: Session) -> None:
    text = ("VALIDATE (SELECT COUNT(*) FROM people WHERE age > ?), (SELECT COUNT(*) FROM people WHERE age > ? AND sex = ?) "
            "AGAINST people_syn WITHIN 10 OPTIONS (epsilon = 1)")
    made = answer(text, session, [20, 30, "f"])
    direct = answer(text.replace("?", "20", 1).replace("?", "30", 1).replace("?", "'f'"), session)
    assert isinstance(made, Validation) and isinstance(direct, Validation)
    assert direct.stored and [found.slack for found in made.findings] == [found.slack for found in direct.findings]


def test_the_budget_is_looked_up_when_a_page_is_wanted(tmp_path: Path) -> None:
    connection = Connection(session_of(tmp_path, reader=reader(), policy=POLICY))
    made = connection.validate("SELECT COUNT(*) FROM people", synthetic=frame(), within=10, epsilon=1)
    connection.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(*) FROM people")
    assert "99.7 % left" in texts_of(page(made)) and made.occasion is made.occasion, "once for a page"
    late = connection.validate("SELECT COUNT(*) FROM people", synthetic=frame(), within=11, epsilon=1)
    connection.close()
    assert "cost ε = 1" in texts_of(page(late)) and "asked by" not in texts_of(page(late))


def test_a_statement_has_a_report_that_names_what_stands_for_what(connection: Connection, tmp_path: Path) -> None:
    cursor = connection.execute("VALIDATE (SELECT COUNT(*) FROM people) AGAINST people_syn WITHIN 9 OPTIONS (epsilon = 1)")
    cursor.report(tmp_path / "report.html")
    told = texts_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "synthetic table people_syn" in told and "SELECT COUNT(*) FROM people" in told and "cost ε = 1" in told
