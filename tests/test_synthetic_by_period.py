"""Synthetic tables of a table that grows, and checks against them: each period is modelled, charged and stored by itself."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path

import duckdb
import pytest
from support.growing_worlds import Clock, add_visits, project
from support.wire_servers import PASSWORD, served
from test_growing_tables import connected, spent

from dpsql.errors import SqlError

MADE = "CREATE SYNTHETIC TABLE syn AS SELECT date_trunc('month', visited_on) AS month, sex, cost FROM visits AS v JOIN people USING (person_id)"
PUBLIC = """
[tables.open_visits]
public = true
[tables.open_visits.columns]
visited_on = {}
cost = {}
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, dt.date(2025, 4, 6))  # March is closed


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Every person has a visit on the 1st and on the 15th of each month; and public rows are the same up to April."""
    made = project(tmp_path)
    days = [dt.date(2025, month, day) for month in range(1, 6) for day in (1, 15)]
    add_visits(made, itertools.product(range(40), days))
    with duckdb.connect(made.parent / "data.duckdb") as connection:
        connection.execute("CREATE TABLE open_visits AS SELECT visited_on, cost FROM visits WHERE visited_on < DATE '2025-04-01'")
    made.write_text(made.read_text() + PUBLIC)
    return made


def test_each_period_is_modelled_once_and_its_rows_stay(policy: Path, clock: Clock) -> None:
    every = "SELECT month, sex, cost FROM syn WHERE month < TIMESTAMP '2025-04-01 00:00:00' ORDER BY month, sex, cost"
    with connected(policy, exact=False, epsilon=2) as connection:
        connection.execute(MADE)
        assert spent(connection) == {"2025-01": 2, "2025-02": 2, "2025-03": 2, "all": 6}
        rows = connection.execute(every).fetchall()
        assert {row[0] for row in rows} == {dt.datetime(2025, month, 1) for month in (1, 2, 3)}
        assert 120 < len(rows) < 360 and {row[1] for row in rows} == {"f", "m"}
        names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        assert {"syn", "syn_2025_01", "syn_2025_02", "syn_2025_03"} <= {*names}
        assert connection.execute("SELECT COUNT(*) FROM syn_2025_02").fetchall() == [(sum(row[0].month == 2 for row in rows),)]
        connection.execute(MADE)
        told = " ".join(str(connection.execute(f"EXPLAIN PRIVACY {MADE}").explanation).split())
        assert "one model for each of 3 periods, 2025-01 to 2025-03" in told and "not made before: 0" in told
        assert spent(connection)["all"] == 6
    add_visits(policy, [(person, dt.date(2025, 2, 9)) for person in range(40)])  # late
    clock.day = dt.date(2025, 5, 6)
    with connected(policy, exact=False, epsilon=2) as connection:
        assert connection.execute(every).fetchall() == rows  # the table is there before it is asked for again
        made = connection.synthesize(MADE.split(" AS ", 1)[1], name="syn")
        assert not made.stored and made.rows > len(rows) and any("unrelated synthetic people" in note for note in made.notes)
        told = " ".join(str(made).split())
        assert "counts were released for each period: syn_2025_01 to syn_2025_04 tell" in told and "Nothing measured" not in told
        assert spent(connection) == {"2025-01": 2, "2025-02": 2, "2025-03": 2, "2025-04": 2, "all": 8}
        assert connection.execute(every).fetchall() == rows
        assert connection.execute("SELECT COUNT(*) FROM syn").fetchall() == [(made.rows,)]


def test_a_dropped_table_is_given_back_at_no_cost(policy: Path, clock: Clock) -> None:
    with connected(policy, exact=False, epsilon=2) as connection:
        connection.execute(MADE)
        rows = connection.execute("SELECT COUNT(*) FROM syn").fetchall()
        connection.execute("DROP SYNTHETIC TABLE syn")
        assert not any("syn" in row[0] for row in connection.execute("SHOW TABLES").fetchall())
        with pytest.raises(SqlError, match="there is no table syn"):
            connection.execute("SELECT COUNT(*) FROM syn")
    add_visits(policy, [(1, dt.date(2025, 4, 9))])  # other data: the table is still dropped
    with connected(policy, exact=False, epsilon=2) as connection:
        assert not any("syn" in row[0] for row in connection.execute("SHOW TABLES").fetchall())
        connection.execute(MADE)
        assert connection.execute("SELECT COUNT(*) FROM syn").fetchall() == rows and spent(connection)["all"] == 6


@pytest.mark.parametrize(("text", "charged"), [
    ("SELECT cost FROM visits WHERE visited_on >= DATE '2025-03-01'", {"2025-03": 1, "all": 1}),
    ("SELECT visited_on, cost FROM visits", {"2025-01": 1, "2025-02": 1, "2025-03": 1, "all": 3}),
    ("SELECT sex, cost FROM people JOIN visits USING (person_id) WHERE cost > 3 OR sex = 'f'", {"2025-01": 1, "2025-02": 1, "2025-03": 1, "all": 3}),
    ("SELECT sex, COUNT(cost) AS n FROM people LEFT JOIN visits USING (person_id) GROUP BY person_id, sex", {"2025-01": 2, "2025-02": 2, "2025-03": 2, "all": 1}),
    ("SELECT COUNT(*) AS visits FROM visits GROUP BY person_id", {"2025-01": 2, "2025-02": 2, "2025-03": 2, "all": 1}),
])
def test_what_is_split_and_what_reads_all_periods(policy: Path, clock: Clock, text: str, charged: dict[str, int]) -> None:
    with connected(policy, exact=False) as connection:
        connection.execute(f"CREATE SYNTHETIC TABLE made AS {text}")
        assert spent(connection) == charged
        connection.execute("SELECT COUNT(*) FROM made")
        assert spent(connection) == charged


@pytest.mark.parametrize("text", [MADE.replace("month, sex, cost", "month, cost"), MADE.replace("TABLE syn", "TABLE open_visits"),
                                  MADE.replace("TABLE syn", "TABLE syn_2025_01")])
def test_names_are_given_once(policy: Path, clock: Clock, text: str) -> None:
    with connected(policy, exact=False) as connection:
        connection.execute(MADE)
        charged = spent(connection)
        with pytest.raises(SqlError, match="already") as caught:
            connection.execute(text)
        assert caught.value.span is not None and spent(connection) == charged


@pytest.mark.parametrize(("where", "charged"), [
    ("visited_on >= DATE '2025-02-01' AND visited_on < DATE '2025-03-01'", {"2025-02": 1, "all": 1}),
    ("visited_on < DATE '2025-03-01'", {"2025-01": 2, "2025-02": 2, "all": 1}),
])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "MEDIAN(cost)", "SUM(cost)"])
def test_checks_are_charged_to_the_periods_that_they_read(policy: Path, clock: Clock, where: str, charged: dict[str, int],
                                                          aggregate: str) -> None:
    with connected(policy) as connection:
        text = f"VALIDATE SELECT {aggregate} FROM visits WHERE {where} AGAINST open_visits WITHIN 5000"
        assert connection.execute(text).fetchall()[0][3] == "yes"
        assert spent(connection) == charged
        assert connection.execute(text).fetchall()[0][3] == "yes" and spent(connection) == charged


@pytest.mark.parametrize("table", ["visits", "visits AS v"])
def test_checks_by_period_are_decided_for_each(policy: Path, clock: Clock, table: str) -> None:
    text = (f"VALIDATE SELECT date_trunc('month', visited_on) AS month, COUNT(*) FROM {table} WHERE cost > 3 GROUP BY month "
            "AGAINST open_visits WITHIN 50")
    with connected(policy) as connection:
        assert "one decision for each of 3 periods" in " ".join(str(connection.execute(f"EXPLAIN PRIVACY {text}").explanation).split())
        first = connection.execute(text).fetchall()
        assert [row[0][-12:] for row in first] == ["(in 2025-01)", "(in 2025-02)", "(in 2025-03)"]
        assert [row[3] for row in first] == ["yes"] * 3 and spent(connection) == {"2025-01": 1, "2025-02": 1, "2025-03": 1, "all": 3}
    clock.day = dt.date(2025, 5, 6)
    with connected(policy) as connection:
        again = connection.execute(text).fetchall()
        assert again[:3] == first and again[3][3] == "no"  # the public table has no visits of April
        assert spent(connection) == {"2025-01": 1, "2025-02": 1, "2025-03": 1, "2025-04": 1, "all": 4}
        one = text.replace("cost > 3", "cost > 3 AND visited_on >= DATE '2025-02-01' AND visited_on < DATE '2025-03-01'")
        assert connection.execute(one).fetchall()[0][3] == "yes"


@pytest.mark.slow
def test_over_the_network(policy: Path, clock: Clock) -> None:
    psycopg = pytest.importorskip("psycopg")
    cube = "SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) GROUP BY CUBE (month, sex)"
    window = "SELECT visited_on, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY visited_on) AS before FROM visits WHERE visited_on < DATE '2025-03-01' GROUP BY visited_on"
    with served(policy, budget="study", price={"epsilon": 1}) as found, psycopg.connect(  # type: ignore[dict-item]
            host="127.0.0.1", port=found.port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as client:
        rows = client.execute(cube).fetchall()
        assert len(rows) > 12 and client.execute(cube).fetchall() == rows
        days = client.execute(window).fetchall()
        assert len(days) == 31 + 28 and [row[2] for row in days[1:]] == [row[1] for row in days[:-1]]
        client.execute(f"{MADE} WHERE visited_on < DATE '2025-03-01'")
        count, = client.execute("SELECT COUNT(*) FROM syn").fetchall()
        assert client.execute("SELECT COUNT(*) FROM syn").fetchone() == count and count[0] > 50
    with connected(policy) as connection:
        charged = spent(connection)
        assert (charged["2025-01"], charged["2025-02"], charged["2025-03"]) == (3, 3, 1)


@pytest.mark.parametrize(("text", "tables"), [
    ("SELECT person_id, sex FROM people", {"syn"}),
    ("SELECT person_id, cost, visited_on FROM visits WHERE visited_on < DATE '2025-03-01'", {"syn", "syn_2025_01", "syn_2025_02"}),
])
def test_keys_are_made_up_in_and_beside_a_growing_table(policy: Path, clock: Clock, text: str, tables: set[str]) -> None:
    with connected(policy, exact=False, epsilon=2) as connection:
        connection.execute(f"CREATE SYNTHETIC TABLE syn AS {text} OPTIONS (made_up = 'person_id')")
        assert tables <= {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
        assert connection.execute("SELECT MIN(person_id) FROM syn").fetchall() == [(1,)]
