"""CREATE SYNTHETIC TABLE, from the text to a table that later statements ask."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql import cli
from dpsql.demo.folder import export
from dpsql.progress import shown_by
from dpsql.synthesis.synthetic_table import SyntheticColumn, SyntheticTable, declared_column, of_json
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.types import Type

SHELL = ["synthesize", "--budget", "study", "--analyst", "ada", "--ledger", "test.ledger", "--name", "made"]
MAKE = "CREATE SYNTHETIC TABLE made AS SELECT health, female, income, education_years FROM people OPTIONS (epsilon = 0.5)"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    export(tmp_path / "study")
    return tmp_path / "study"


def opened(place: Path, analyst: str = "ada", budget: str = "study") -> dpsql.Connection:
    ledger = place / "test.ledger"
    if not ledger.exists():
        Ledger.create(ledger, None).close()
    return dpsql.connect(policy=place / "dpsql.toml", budget=budget, analyst=analyst, ledger=ledger)


@pytest.fixture
def connection(place: Path) -> Iterator[dpsql.Connection]:
    with opened(place) as made:
        yield made


def made_by(connection: dpsql.Connection, text: str = MAKE) -> SyntheticTable:
    cursor = connection.execute(text)
    assert cursor.synthetic is not None and len(cursor.fetchall()) == len(cursor.synthetic.marginals)
    return cursor.synthetic


def spent(connection: dpsql.Connection) -> list[str]:
    return [account.left_exactly() for account in connection.budget().accounts]


def test_it_is_a_public_table_from_then_on(connection: dpsql.Connection) -> None:
    table = made_by(connection)
    left = spent(connection)
    frame = table.df()
    assert list(frame.columns) == ["health", "female", "income", "education_years"] and table.rows == len(frame) > 5000
    assert connection.execute("SELECT COUNT(*), AVG(income) FROM made WHERE female").fetchall() == [
        (int(frame.female.sum()), pytest.approx(frame.income[frame.female].mean()))]
    counts = dict(connection.execute("SELECT health, COUNT(*) FROM made GROUP BY health").fetchall())
    assert counts == {**frame.health.value_counts()}
    assert ("made", "public", "", "health, female, income, education_years") in connection.execute("SHOW TABLES").fetchall()
    assert [row[0] for row in connection.execute("DESCRIBE made").fetchall()] == list(frame.columns)
    assert spent(connection) == left


def test_it_resembles_what_was_measured(connection: dpsql.Connection, place: Path) -> None:
    table = made_by(connection)
    source = f"'{place / 'people.parquet'}'"
    private = dict(duckdb.sql(f"SELECT health, COUNT(*) FROM {source} GROUP BY health").fetchall())
    ours = dict(connection.execute("SELECT health, COUNT(*) FROM made GROUP BY health").fetchall())
    marginal = next(each for each in table.marginals if each.columns == ("health",))
    assert max(abs(private[health] - ours[health]) for health in private) < 6 * marginal.error + 6 * marginal.off + 10
    assert table.total == pytest.approx(sum(private.values()), rel=0.02)


def test_what_was_measured_is_kept(connection: dpsql.Connection) -> None:
    """The noisy counts of each marginal, from which the distance of the drawn rows follows again."""
    table = of_json(made_by(connection).as_json())
    places = {}
    for column in table.columns:
        assert column.counted is not None
        places[column.name] = column.counted.places(column.values)
    for version in table.coarser:
        places[version.name] = np.array(version.merged)[places[version.of]]
    assert any(version.name in each.columns for version in table.coarser for each in table.marginals)
    for each in table.marginals:
        measured = each.measurement
        assert measured.variance == pytest.approx(each.error**2) and measured.values.shape == each.shape
        drawn = np.zeros(each.shape)
        np.add.at(drawn, tuple(places[name] for name in each.columns), table.total / table.rows)
        assert np.abs(drawn - measured.values).mean() == pytest.approx(each.off)


def test_it_stands_beside_private_tables_and_for_them(connection: dpsql.Connection) -> None:
    made_by(connection)
    rows = connection.execute("SELECT p.health, COUNT(*) FROM people p JOIN (SELECT health, COUNT(*) AS n FROM made GROUP BY health) AS m "
                              "ON p.health = m.health WHERE m.n > 400 GROUP BY p.health").fetchall()
    assert len(rows) == 4
    checked = connection.execute("VALIDATE SELECT female, COUNT(*) FROM people GROUP BY female AGAINST made WITHIN 20 PERCENT")
    assert checked.validation is not None and checked.validation.findings[0].decision == "yes"
    assert connection.execute("EXPLAIN PRIVACY SELECT COUNT(*) FROM made").explanation is not None
    checked = connection.validate("SELECT AVG(income) FROM people", synthetic="made", within="30 PERCENT", epsilon=0.5)
    assert checked.findings[0].decision == "yes"
    answers = connection.workload("SELECT COUNT(*) FROM people WHERE health IN (SELECT health FROM made); SELECT COUNT(*) FROM people",
                                  epsilon=0.5)
    assert answers[0].rows[0][0] == pytest.approx(answers[1].rows[0][0], rel=0.1)


def test_the_same_statement_gives_the_same_table_for_nothing(connection: dpsql.Connection, place: Path) -> None:
    first, left = made_by(connection), spent(connection)
    assert made_by(connection) == first and spent(connection) == left
    with opened(place) as later:
        assert made_by(later) == first and spent(later) == left
        assert later.execute("SELECT COUNT(*) FROM made").fetchall() == [(first.rows,)]


def test_its_price_is_charged_and_no_more(connection: dpsql.Connection) -> None:
    before = connection.budget().accounts[0]
    made_by(connection)
    assert "0.5" in connection.execute("SHOW RELEASES").fetchall()[-1][3] and connection.budget().accounts[0] != before


def test_other_accounts_have_tables_of_their_own(connection: dpsql.Connection, place: Path) -> None:
    """In one process, where engines are shared; the rows of the same statement are others, as the noise is."""
    ours = made_by(connection)
    with opened(place, "bea") as other:
        with pytest.raises(dpsql.Error, match="there is no table made"):
            other.execute("SELECT COUNT(*) FROM made")
        theirs = made_by(other)
        assert theirs.columns != ours.columns
        for held, table in ((connection, ours), (other, theirs), (connection, ours)):
            assert held.execute("SELECT AVG(income) FROM made").fetchall()[0][0] == pytest.approx(table.df().income.mean())


def test_two_accounts_of_one_database_file(place: Path, tmp_path: Path) -> None:
    """They share DuckDB's engine, and neither sees the other's table."""
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i AS id, i % 3 AS k FROM range(3000) AS r(i)")
        made.execute("CREATE TABLE other AS SELECT 1 AS x")
    (tmp_path / "x.toml").write_text(
        'version = 1\ndatabase = "x.duckdb"\n[entities.e]\ntable = "t"\nkey = "id"\n[tables.t]\nkey = "id"\n[tables.t.columns]\nid = {}\n'
        'k = { values = [0, 1, 2] }\n[budgets.b]\nentity = "e"\nepsilon = 10\n', encoding="utf-8")
    Ledger.create(tmp_path / "x.ledger", None).close()
    with dpsql.connect(policy=tmp_path / "x.toml", analyst="ada") as one, dpsql.connect(policy=tmp_path / "x.toml", analyst="bea") as two:
        text = "CREATE SYNTHETIC TABLE made AS SELECT k FROM t OPTIONS (epsilon = 0.1, rows = 50)"
        ours, theirs = made_by(one, text), made_by(two, text)
        for connection, table in ((one, ours), (two, theirs)):
            found = dict(connection.execute("SELECT k, COUNT(*) FROM made GROUP BY k").fetchall())
            assert {k: n for k, n in found.items() if n} == Counter(table.columns[0].values)
        with pytest.raises(dpsql.Error, match="there is a table other already"):
            one.execute("CREATE SYNTHETIC TABLE other AS SELECT k FROM t OPTIONS (epsilon = 0.1)")


def test_types_come_back(connection: dpsql.Connection) -> None:
    table = made_by(connection, "CREATE SYNTHETIC TABLE typed AS SELECT y.year, y.age, p.plan, medical_dollars > 100 AS high, p.health, "
                    "CASE WHEN year > 2 THEN DATE '2020-01-01' ELSE DATE '2021-01-01' END AS day, NULLIF(p.health, 'good') AS told FROM person_years y JOIN people p USING (person_id) "
                    "OPTIONS (epsilon = 1, rows = 400)")
    kinds = {column.name: {type(value) for value in column.values} for column in table.columns}
    assert kinds["year"] == kinds["plan"] == {int} and kinds["age"] == {float} and kinds["high"] == {bool}
    assert kinds["day"] == {dt.date} and kinds["told"] == {str, type(None)} and table.rows == 400
    assert {"good"}.isdisjoint(value for column in table.columns if column.name == "told" for value in column.values)
    assert of_json(table.as_json()) == table
    assert connection.execute("SELECT MAX(day), COUNT(told), COUNT(*) FROM typed WHERE high IS NOT NULL").fetchall()[0][2] == 400


def test_one_value_or_bin_is_a_column_too_and_all_numbers_are_none(tmp_path: Path) -> None:
    """A key of a whole number without bounds has no bins: those would be of 2^59 numbers each, and the last one beyond its type."""
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER NOT NULL, i INTEGER); INSERT INTO t SELECT i, 3, i FROM range(100) AS r(i)")
    (tmp_path / "x.toml").write_text(
        'version = 1\ndatabase = "x.duckdb"\n[entities.e]\ntable = "t"\nkey = "id"\n[tables.t]\nkey = "id"\n[tables.t.columns]\nid = {}\n'
        'n = { range = [3, 3] }\ni = {}\n[budgets.b]\nentity = "e"\nepsilon = 10\n', encoding="utf-8")
    Ledger.create(tmp_path / "x.ledger", None).close()
    with dpsql.connect(policy=tmp_path / "x.toml", analyst="ada") as connection:
        for bins in (1, 3):
            table = made_by(connection, f"CREATE SYNTHETIC TABLE s{bins} AS SELECT n, 'x' AS c, n > 1 AS z FROM t OPTIONS (epsilon = 1, bins = {bins})")
            assert set(table.df().n) == {3} and set(table.df().c) == {"x"}
        for column in ("id", "i", "id + 1"):
            for kind in ("SYNTHETIC TABLE", "ONLINE MODEL"):
                with pytest.raises(dpsql.Error, match="are not known") as told:
                    connection.execute(f"CREATE {kind} other AS SELECT n, {column} AS v FROM t OPTIONS (epsilon = 1)")
                assert told.value.span is not None


def test_ends_of_whole_numbers_are_not_rounded() -> None:
    """What rests on them, such as that a sum of two fits into 64 bits, must be true of the rows."""
    for value in (2**53 + 1, -(2**53) - 1, 2**63 - 1):
        ends = declared_column(SyntheticColumn(name="n", type=Type.BIGINT, values=(value, 0))).physical
        assert value in (ends.low, ends.high)


def test_sums_over_the_rows_of_an_entity(connection: dpsql.Connection) -> None:
    table = made_by(connection, "CREATE SYNTHETIC TABLE sums AS SELECT person_id % 2 = 0 AS even, SUM(md_visits) AS visits, COUNT(*) AS years "
                    "FROM person_years GROUP BY person_id OPTIONS (epsilon = 1)")
    assert table.total == pytest.approx(5900, rel=0.05)
    assert set(table.df().years) <= {0, 1, 2, 3, 4, 5}


MISTAKES = {
    "CREATE SYNTHETIC TABLE people AS SELECT health FROM people": "there is a table people already",
    "CREATE SYNTHETIC TABLE made AS SELECT helth FROM people": "there is no column helth",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM peple": "there is no table peple",
    "CREATE SYNTHETIC TABLE made AS SELECT chronic_disease_index FROM people": "the values of chronic_disease_index are not known",
    "CREATE SYNTHETIC TABLE made AS SELECT plan FROM plans": "these rows are public",
    "CREATE SYNTHETIC TABLE made AS SELECT COUNT(*) AS n FROM people": "these rows belong to several entities",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'aimm')": "there is no method",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (epsilom = 1)": "a synthetic table has no option epsilom",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (rows = 0)": "rows must be a whole number",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (epsilon = 9)": "left",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'mwem_pub')": "weights the rows of a public table",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'mwem_pub', public = 'nowhere')": "there is no table nowhere",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'mwem_pub', public = 3)": "public is the name of a public table",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'mwem_pub', public = 'people')": "people is private",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'mwem_pub', public = 'plans')": "plans has no column health",
    "CREATE SYNTHETIC TABLE made AS SELECT site AS coinsurance FROM people OPTIONS (method = 'mwem_pub', public = 'plans')":
        "no row of this one has listed values",
    "CREATE SYNTHETIC TABLE made AS SELECT female AS plan FROM people OPTIONS (method = 'mwem_pub', public = 'plans')": "plan is BIGINT in plans",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (public = 'plans')": "public is an option of the method mwem_pub only",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'aim', queries = 'single')": "queries is an option of the method mwem only",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people OPTIONS (method = 'mwem', queries = 'both')": "there is no queries",
    "CREATE SYNTHETIC TABLE made AS SELECT income, education_years, black, site, health FROM people OPTIONS (method = 'mwem', bins = 100)":
        "combinations of values",
    "CREATE SYNTHETIC TABLE made AS SELECT health FROM people WHERE health = ?": "no value is given for ?",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_cost_nothing_and_are_located(connection: dpsql.Connection, text: str) -> None:
    left = spent(connection)
    with pytest.raises(dpsql.Error, match=MISTAKES[text].replace("?", r"\?")) as told:
        connection.execute(text)
    assert told.value.try_ and told.value.span is not None and spent(connection) == left
    assert [row[0] for row in connection.execute("SHOW TABLES").fetchall()] == ["plans", "people", "person_years", "yearly_claims"]


def test_a_synthetic_table_is_public_for_another_one(connection: dpsql.Connection) -> None:
    """Of other rows, which are a start: half as many females as there are."""
    made_by(connection, "CREATE SYNTHETIC TABLE start AS SELECT health, female FROM people OPTIONS (epsilon = 0.2)")
    made = made_by(connection, "CREATE SYNTHETIC TABLE made AS SELECT health, female FROM people "
                               "OPTIONS (epsilon = 0.4, method = 'mwem_pub', public = 'START')")
    assert made.method == "mwem_pub" and made.rows > 5000 and {each.columns for each in made.marginals} >= {("health", "female")}
    told = connection.execute("EXPLAIN PRIVACY CREATE SYNTHETIC TABLE more AS SELECT health, female FROM people "
                              "OPTIONS (epsilon = 0.4, method = 'mwem_pub', public = 'start')").fetchall()
    assert "public rows" in str(told)


def test_mwem_measures_single_counts(connection: dpsql.Connection) -> None:
    made = made_by(connection, "CREATE SYNTHETIC TABLE made AS SELECT health, female, site FROM people "
                               "OPTIONS (epsilon = 0.4, method = 'mwem', queries = 'single')")
    assert {each.columns for each in made.marginals} == {("health",), ("female",), ("site",)} and made.rows > 5000


def test_answers_are_not_taken_for_tables(connection: dpsql.Connection) -> None:
    """Whatever an analyst writes into the names and texts of an answer."""
    for name in ('"synthetic table": ', '{"synthetic table": "x"', "synthetic table", '{"synthetic table": '):
        quoted, text = name.replace('"', '""'), name.replace("'", "''")
        connection.execute(f"SELECT '{text}' AS \"{quoted}\", COUNT(*) AS \"synthetic table\" FROM people").fetchall()
    assert [row[0] for row in connection.execute("SHOW TABLES").fetchall()] == ["plans", "people", "person_years", "yearly_claims"]


def test_a_table_may_be_read_to_make_one_of_its_name(connection: dpsql.Connection) -> None:
    rows = made_by(connection).df()
    for text in ("WITH made AS (SELECT * FROM made WHERE female) SELECT COUNT(*) FROM made",
                 "WITH a AS (SELECT * FROM made WHERE female), b AS (SELECT * FROM a) SELECT COUNT(*) FROM b"):
        assert connection.execute(text).fetchall() == [(int(rows.female.sum()),)]


def test_a_query_that_is_nested_too_deeply_is_refused(connection: dpsql.Connection) -> None:
    nested = "(SELECT * FROM " * 60 + "people" + ") AS t" * 60
    with pytest.raises(dpsql.Error, match=r"nested|too") as told:
        connection.execute(f"CREATE SYNTHETIC TABLE made AS SELECT female FROM {nested}")
    assert not isinstance(told.value, dpsql.InternalError)


def test_a_name_is_given_once(connection: dpsql.Connection) -> None:
    made_by(connection)
    left = spent(connection)
    with pytest.raises(dpsql.Error, match="there is a table MADE already"):
        connection.execute("CREATE SYNTHETIC TABLE MADE AS SELECT health FROM people OPTIONS (epsilon = 0.1)")
    assert spent(connection) == left


def test_a_table_is_dropped_and_given_back(connection: dpsql.Connection, place: Path) -> None:
    """For nothing, both; the name is free in between, and other sessions see the same."""
    other = "CREATE SYNTHETIC TABLE Made AS SELECT health FROM people OPTIONS (epsilon = 0.1, rows = 9)"
    first = made_by(connection)
    left = spent(connection)
    assert connection.execute("DROP SYNTHETIC TABLE MADE").fetchall() == [("MADE",)] and spent(connection) == left
    for text in ("SELECT COUNT(*) FROM made", "DROP SYNTHETIC TABLE made"):
        with pytest.raises(dpsql.Error, match="there is no (synthetic )?table made"):
            connection.execute(text)
    with pytest.raises(dpsql.Error, match="there is no synthetic table made"):
        connection.synthetic_table("made")
    assert [row[0] for row in connection.execute("SHOW TABLES").fetchall()] == ["plans", "people", "person_years", "yearly_claims"]
    second = made_by(connection, other)
    assert connection.execute("SELECT COUNT(*) FROM made").fetchall() == [(9,)]
    with pytest.raises(dpsql.Error, match="there is a table made already") as told:
        made_by(connection)
    assert "DROP SYNTHETIC TABLE made" in told.value.try_
    with opened(place) as later:
        assert later.synthetic_table("MADE") == second
        later.execute("DROP SYNTHETIC TABLE made")
    left = spent(connection)
    assert connection.explain(MAKE).stored
    assert made_by(connection) == first == connection.synthetic_table("made") and spent(connection) == left
    assert connection.execute("SELECT COUNT(*) FROM made").fetchall() == [(first.rows,)]
    with opened(place) as later:
        assert later.execute("SELECT COUNT(*) FROM made").fetchall() == [(first.rows,)]
        later.execute("DROP SYNTHETIC TABLE made")
        assert made_by(later, other) == second


def test_only_tables_of_the_account_are_dropped(connection: dpsql.Connection, place: Path) -> None:
    made_by(connection)
    with opened(place, "bea") as other, pytest.raises(dpsql.Error, match="there is no synthetic table made"):
        other.execute("DROP SYNTHETIC TABLE made")
    with pytest.raises(dpsql.Error, match="there is no synthetic table people") as told:
        connection.execute("DROP SYNTHETIC TABLE people")
    assert told.value.span is not None and told.value.try_
    with pytest.raises(dpsql.Error, match="only queries are answered"):
        connection.execute("DROP TABLE made")


def test_what_fails_after_the_charge_leaves_no_table(connection: dpsql.Connection) -> None:
    left = spent(connection)
    with patch("dpsql.models.markov_network.MarkovNetwork.draw", side_effect=ValueError("no")), pytest.raises(dpsql.Incident):
        connection.execute(MAKE)
    assert spent(connection) != left
    with pytest.raises(dpsql.Error, match="there is no table made"):
        connection.execute("SELECT COUNT(*) FROM made")


def test_an_interruption_keeps_the_charge_and_leaves_nothing(connection: dpsql.Connection, place: Path, monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    left = spent(connection)
    monkeypatch.chdir(place)
    with patch("dpsql.models.markov_network.MarkovNetwork.draw", side_effect=KeyboardInterrupt):
        assert cli.main([*SHELL, "--report", "page.html", "--to", "made.csv", "SELECT health FROM people"]) == 130
    assert "what was charged stays charged" in capsys.readouterr().err and spent(connection) != left
    assert not Path("page.html").exists() and not Path("made.csv").exists()
    assert [row[0] for row in connection.execute("SHOW TABLES").fetchall()] == ["plans", "people", "person_years", "yearly_claims"]


def test_what_is_measured_is_told_to_whoever_waits(connection: dpsql.Connection) -> None:
    lines: list[str] = []
    with shown_by(lines.append, "waiting"):
        table = made_by(connection)
    told = [line.split(": counting ")[1] for line in lines if "counting" in line]
    assert told == [f"{', '.join(name.split(' in ')[0] for name in each.columns)} ..." for each in table.marginals]
    assert f"drawing {table.rows:,} rows ..." in lines and lines[-1] == "waiting"
    assert any("looking for what the model describes worst" in line for line in lines)


def test_a_limit_on_rows_is_asked_for(place: Path) -> None:
    policy = place / "dpsql.toml"
    policy.write_text(policy.read_text().replace("rows_per_entity", "# rows_per_entity").replace("limits_hold", "# limits_hold"))
    with opened(place) as connection:
        text = "CREATE SYNTHETIC TABLE made AS SELECT year, age FROM person_years"
        with pytest.raises(dpsql.Error, match="there is no limit on the rows of one person") as told:
            connection.execute(text)
        assert "max_rows = " in told.value.try_ and told.value.span is not None
        assert made_by(connection, f"{text} OPTIONS (max_rows = 2, rows = 10)").rows == 10


def test_small_groups_are_a_rule_for_groups(place: Path) -> None:
    policy = place / "dpsql.toml"
    policy.write_text(policy.read_text().replace('key = "person_id"\n', 'key = "person_id"\nminimum_frequency = 10\n', 1))
    with opened(place) as connection, pytest.raises(dpsql.Error, match="minimum frequency"):
        connection.execute(MAKE)


def test_explaining_costs_nothing(connection: dpsql.Connection) -> None:
    left = spent(connection)
    told = str(connection.explain(MAKE))
    assert "4 columns" in told and "cost    ε = 0.5" in told and spent(connection) == left
    for said in ("aim at ε = 0.5", "a model of 131,072 cells at most (1.0 MB)", "not mst: ", "not independent: ", "noise alone",
                 "all 4 marginals of the workload"):
        assert said in told
    told = str(connection.explain(MAKE.replace("0.5", "0.5, workload = 'all 1-way'")))
    assert "independent at ε = 0.5" in told and "not aim, mst" in told and "contains no combination of columns" in told


def test_in_python(connection: dpsql.Connection) -> None:
    query = "SELECT health, income FROM people WHERE income > ?"
    table = connection.synthesize(query, name="made", parameters=[100], epsilon=0.5, rows=200, bins=8)
    assert table.rows == 200 and connection.execute("SELECT COUNT(*) FROM made").fetchall() == [(200,)]
    with pytest.raises(dpsql.Error, match="the name of the table"):
        connection.synthesize(query, name="two words", epsilon=0.5)
    with pytest.raises(dpsql.Error, match="needs a query for rows"):
        connection.synthesize("SHOW TABLES", name="x", epsilon=0.5)


def test_in_the_shell(connection: dpsql.Connection, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    words = [*SHELL, "--rows", "300", "SELECT health, income, general_health_index FROM people"]
    assert cli.main([*words, "--to", "made.csv", "--report", "made.html"]) == 0
    told = capsys.readouterr().out
    assert "made: 300 rows of 3 columns" in told and "what it can be used for" in told
    frame = duckdb.sql("SELECT * FROM 'made.csv'").df()
    assert list(frame.columns) == ["health", "income", "general_health_index"] and len(frame) == 300
    assert "made: a synthetic table" in Path("made.html").read_text(encoding="utf-8")
    left = spent(connection)
    assert cli.main([*words, "--to", "made.parquet"]) == 0 and len(duckdb.sql("SELECT * FROM 'made.parquet'").fetchall()) == 300
    capsys.readouterr()
    assert cli.main([*SHELL, "--again", "--report", "again.html", "--json"]) == 0 and spent(connection) == left
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == 300 and [column["type"] for column in facts["columns"]] == ["VARCHAR", "DOUBLE", "DOUBLE"]
    assert facts["marginals"][0] == {"columns": ["health"], "cells": 4, "error": facts["marginals"][0]["error"], "off": facts["marginals"][0]["off"]}
    assert Path("again.html").read_text(encoding="utf-8") == Path("made.html").read_text(encoding="utf-8")
    words = ["of_pairs" if word == "made" else word for word in words]
    assert cli.main([*words, "--workload", "SELECT health, AVG(income) FROM of_pairs GROUP BY health"]) == 0
    assert "health, income" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "told", "code"), [
    (["--to", "dpsql.toml"], "is not overwritten", 2), (["--to", "made.txt"], "is not named .csv or .parquet", 2),
    (["--to", "no_such_folder/made.csv"], "is in no folder", 2), (["--report", "made.pdf"], "is not named .html", 2),
    (["--method", "aimm"], "there is no method 'aimm'", 2), (["--rows", "0"], "rows must be a whole number", 2),
    (["--epsilon", "50"], "has left", 3), (["--again"], "needs only its name", 2), (["--metod", "aim"], "try --method", 2),
    (["--name", "people"], "there is a table people already", 2), (["--name", "two words"], "the name of the table", 2)])
def test_mistakes_in_the_shell_cost_nothing(words: list[str], told: str, code: int, connection: dpsql.Connection, place: Path,
                                            capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    left = spent(connection)
    try:
        assert cli.main([*SHELL, *words, "SELECT health FROM people"]) == code
    except SystemExit as left_by_argparse:
        assert left_by_argparse.code == code
    assert told in capsys.readouterr().err and spent(connection) == left
    assert not [path for path in place.iterdir() if path.suffix in (".csv", ".html", ".txt", ".pdf")]


def test_a_name_that_no_table_has(connection: dpsql.Connection, place: Path, capsys: pytest.CaptureFixture[str],
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert cli.main([*SHELL, "--again", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["reason"] == "there is no synthetic table made"
