"""Tables of standing queries: `standing.name` has the numbers that were measured, for free, for whoever may know them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.growing_worlds import Clock, project_of_seven_months
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql.dbapi import Connection
from dpsql.engine.publishing import measured_so_far, publish
from dpsql.engine.standing_queries import kept
from dpsql.errors import BudgetExhausted, Error, SqlError, Unsupported

BY_SEX = ("SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n, AVG(cost) AS cost FROM visits JOIN people "
          "USING (person_id) GROUP BY month, sex")
CREATE = f"CREATE STANDING QUERY by_sex AS {BY_SEX} OPTIONS (epsilon = 0.4)"
TITLES = ["month", "sex", "n", "n_error", "n_low", "n_high", "cost", "cost_error", "cost_low", "cost_high"]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return project_of_seven_months(tmp_path)


@pytest.fixture
def shared(policy: Path) -> Path:
    policy.write_text(policy.read_text(encoding="utf-8") + "share_answers = true\n", encoding="utf-8")
    return policy


def connected(policy: Path, analyst: str = "ada", **terms: Any) -> Connection:
    return dpsql.connect(policy=policy, budget="study", analyst=analyst, **{"epsilon": 1, **terms})


def published(connection: Connection, name: str = "by_sex") -> list[tuple[Any, ...]]:
    """Publish a standing query; returns the rows of its series."""
    series = publish(kept(connection.session)[name], connection.session).series
    assert series is not None
    return [*series.answer.rows]


def titles(cursor: Any) -> list[str]:
    return [column[0] for column in cursor.description]


def events(connection: Connection) -> int:
    """The number of all events of the ledger."""
    connection.session.ledger.refresh()
    return connection.session.ledger.state().events


def charged(connection: Connection) -> int:
    connection.session.ledger.refresh()
    return connection.session.ledger.spent("study").epsilon or 0


def test_a_table_has_the_numbers_of_all_measured_periods_with_their_errors(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        rows = published(connection)
        before = events(connection)
        cursor = connection.execute("SELECT * FROM standing.by_sex ORDER BY month, sex")
        found = cursor.fetchall()
        assert titles(cursor) == TITLES and len(found) == 12
        assert [(row[0], row[1], row[2], row[6]) for row in found] == [(*row[:3], row[3]) for row in rows]
        series = measured_so_far(kept(connection.session)["by_sex"], connection.session)
        assert series is not None
        for at, row in enumerate(found):
            assert row[3] == series.answer.errors[at][2]
            low, high = series.answer.ends(at, 2) or (None, None)
            assert row[4] == low and (row[5] == high or (row[5] is None and high == math.inf))
        assert cursor.answer.cost == "" and any("n_error is the standard error of n" in note for note in cursor.answer.notes)
        assert events(connection) == before  # nothing is charged, and nothing is written


@pytest.mark.parametrize(("sql", "rows"), [
    ("SELECT month FROM standing.by_sex WHERE sex = 'f' AND month >= DATE '2025-05-01' ORDER BY month",
     [(dt.datetime(2025, 5, 1),), (dt.datetime(2025, 6, 1),)]),
    ("SELECT sex, COUNT(*) FROM standing.by_sex GROUP BY sex ORDER BY sex", [("f", 6), ("m", 6)]),
    ("SELECT b.sex, standing.by_sex.sex FROM standing.by_sex JOIN standing.by_sex AS b USING (month, n) "
     "WHERE by_sex.sex = 'f' AND b.sex = 'f' AND month = DATE '2025-01-01'", [("f", "f")]),
    ("WITH by_sex AS (SELECT 1 AS one) SELECT COUNT(*) FROM standing.by_sex", [(12,)]),
    ("SELECT COUNT(*) FROM (SELECT n - LAG(n) OVER (PARTITION BY sex ORDER BY month) AS d FROM standing.by_sex) AS s "
     "WHERE d IS NOT NULL", [(10,)]),
    ("SELECT COUNT(*) FROM Standing.BY_SEX AS s(a, b)", [(12,)]),
])
def test_any_sql_reads_it(sql: str, rows: list[Any], policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        published(connection)
        before = events(connection)
        assert connection.execute(sql).fetchall() == rows and events(connection) == before


def test_it_grows_with_each_period_and_is_empty_before_the_first(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        cursor = connection.execute("SELECT * FROM standing.by_sex")
        assert titles(cursor) == TITLES and cursor.fetchall() == []
        assert "no period of standing.by_sex is measured yet" in cursor.answer.notes[0]
        published(connection)
        old = connection.execute("SELECT month, sex, n FROM standing.by_sex").fetchall()
        clock.day = dt.date(2025, 8, 6)
    with connected(policy) as connection:
        assert len(connection.execute("SELECT month FROM standing.by_sex").fetchall()) == 12  # July is closed, and not measured
        published(connection)
        new = connection.execute("SELECT month, sex, n FROM standing.by_sex").fetchall()
        assert len(new) == 14 and {*old} < {*new}


def test_what_was_asked_before_in_another_statement_is_there_as_in_the_files(policy: Path) -> None:
    with connected(policy) as connection:
        told = connection.execute(BY_SEX, epsilon=0.4).fetchall()
        connection.execute(CREATE)
        before = charged(connection)
        assert connection.execute("SELECT month, sex, n, cost FROM standing.by_sex").fetchall() == told
        assert published(connection) == told and charged(connection) == before


def test_it_stays_when_the_policy_no_longer_allows_the_query(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        published(connection)
        rows = connection.execute("SELECT * FROM standing.by_sex ORDER BY month, sex").fetchall()
    policy.write_text(policy.read_text(encoding="utf-8").replace("cost = { bounds = [0, 100], decimals = 0 }\n", ""), encoding="utf-8")
    with connected(policy) as connection:
        cursor = connection.execute("SELECT * FROM standing.by_sex ORDER BY month, sex")
        assert titles(cursor) == TITLES and cursor.fetchall() == rows


def test_private_rows_beside_it_are_charged(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        published(connection)
        before = charged(connection)
        connection.execute("SELECT COUNT(*) FROM people JOIN (SELECT DISTINCT sex FROM standing.by_sex) AS s USING (sex)")
        assert charged(connection) - before == 10**9  # epsilon = 1


def test_numbers_of_another_account_need_a_budget_that_shares_answers(policy: Path) -> None:
    """Without it the limit of each analyst bounds what they know."""
    with connected(policy) as ada, connected(policy, "bob") as bob:
        ada.execute(CREATE)
        published(ada)
        before = events(bob)
        for sql in ("SELECT * FROM standing.by_sex", "SELECT 1 FROM standing.by_sex", "EXPLAIN PRIVACY SELECT n FROM standing.by_sex",
                    "SELECT COUNT(*) FROM people JOIN standing.by_sex USING (sex)"):
            with pytest.raises(Unsupported, match="measured for ada, and analysts of the budget study do not share") as refusal:
                bob.execute(sql)
            assert refusal.value.code == "standing-shared" and "share_answers = true" in (refusal.value.try_ or "")
            assert refusal.value.span is not None and sql[refusal.value.span.start:refusal.value.span.end] == "by_sex"
        with pytest.raises(SqlError, match="there is no standing query by_sex whose numbers could be read"):
            bob.execute("DESCRIBE standing.by_sex")
        assert "standing.by_sex" not in {row[0] for row in bob.execute("SHOW TABLES").fetchall()}
        assert events(bob) == before
        assert measured_so_far(kept(bob.session)["by_sex"], bob.session) is None  # nor by any other way


def test_shared_numbers_are_told_to_the_account_first(shared: Path) -> None:
    with connected(shared) as ada, connected(shared, "bob") as bob:
        ada.execute(CREATE)
        published(ada)
        spent, before = charged(ada), events(bob)
        mine = ada.execute("SELECT * FROM standing.by_sex ORDER BY month, sex").fetchall()
        assert "standing.by_sex" in {row[0] for row in bob.execute("SHOW TABLES").fetchall()}
        assert bob.execute("DESCRIBE standing.by_sex").fetchall()[2][0] == "n"
        assert events(bob) == before  # columns are known of the text
        assert bob.execute("SELECT * FROM standing.by_sex ORDER BY month, sex").fetchall() == mine
        told = [entry for entry in bob.session.ledger.entries("study", "bob") if entry.told is not None]
        assert len(told) == 6 and {entry.sql for entry in told} == {CREATE}  # one for each month
        bob.execute("SELECT * FROM standing.by_sex WHERE sex = 'f'")
        assert events(bob) == before + 6 and charged(bob) == spent  # each once, and free
        assert bob.session.ledger.spent("study", "bob").epsilon in (0, None)


def test_it_cannot_be_dropped_published_or_read_by_another_standing_query(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        with pytest.raises(Unsupported, match="cannot read the numbers of standing queries"):
            connection.execute("CREATE STANDING QUERY two AS SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits "
                               "JOIN standing.by_sex USING (cost) GROUP BY month OPTIONS (epsilon = 0.1)")
        with pytest.raises(Error):
            connection.execute("DROP SYNTHETIC TABLE by_sex")
        connection.execute("DROP STANDING QUERY by_sex")
        with pytest.raises(SqlError, match="there is no standing query by_sex"):
            connection.execute("SELECT * FROM standing.by_sex")


def test_a_used_up_budget_does_not_matter(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        published(connection)
        with pytest.raises(BudgetExhausted):
            for number in range(2):
                connection.execute(f"SELECT COUNT(*) FROM people WHERE person_id > {number}", epsilon=900)
        assert len(connection.execute("SELECT n FROM standing.by_sex").fetchall()) == 12


def test_sqlalchemy_finds_it(policy: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    with connected(policy) as connection:
        connection.execute(CREATE)
        rows = published(connection)
    engine = sqlalchemy.create_engine(f"dpsql:///{policy}?budget=study&analyst=ada&epsilon=1")
    with engine.connect() as connection:
        looked = sqlalchemy.inspect(connection)
        assert looked.get_table_names(schema="standing") == ["by_sex"] and "by_sex" not in looked.get_table_names()
        table = sqlalchemy.Table("by_sex", sqlalchemy.MetaData(), schema="standing", autoload_with=connection)
        found = connection.execute(sqlalchemy.select(table.c.month, table.c.sex, table.c.n, table.c.cost).where(
            table.c.n_error > 0).order_by(table.c.month, table.c.sex)).fetchall()
        assert [tuple(row) for row in found] == rows
    engine.dispose()


# -- over the wire


@pytest.fixture
def port(shared: Path) -> Iterator[int]:
    with connected(shared, "bob") as bob:
        bob.execute(CREATE)
        published(bob)
    with served(shared, budget="study", price={"epsilon": 1}) as found:  # type: ignore[dict-item]
        yield found.port


@pytest.mark.slow
def test_clients_of_postgresql_find_it_and_read_it(port: int, shared: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with connected(shared, "bob") as bob:
        rows = bob.execute("SELECT * FROM standing.by_sex ORDER BY month, sex").fetchall()
    with psycopg.connect(host="127.0.0.1", port=port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as client:
        assert client.execute("SELECT table_schema, table_name FROM information_schema.tables WHERE table_name = 'by_sex'").fetchall() == [
            ("standing", "by_sex")]
        assert [row[0] for row in client.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'standing.by_sex'::regclass ORDER BY attnum").fetchall()] == TITLES
        assert client.execute("SELECT nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE relname = 'by_sex' AND "
                              "NOT pg_table_is_visible(c.oid)").fetchall() == [("standing",)]
        assert client.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = 'standing'").fetchall() == [(1,)]
        cursor = client.execute("SELECT * FROM standing.by_sex ORDER BY month, sex")
        assert titles(cursor) == TITLES and cursor.fetchall() == rows
        assert client.execute('SELECT n FROM "study"."standing"."by_sex" WHERE month > %s AND sex = %s ORDER BY month',
                              (dt.datetime(2025, 4, 15), "f")).fetchall() == [(row[2],) for row in rows if row[1] == "f"][4:]
        assert client.execute("SELECT * FROM standing.by_sex LIMIT 0").fetchall() == []
    with connected(shared) as ada:
        assert len([entry for entry in ada.session.ledger.entries("study", "ada") if entry.told is not None]) == 6
        assert ada.session.ledger.spent("study", "ada").epsilon in (0, None)
