"""Rules for rows: conditions and dependencies, of the policy and of statements, hold in every row of a synthetic table."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

COUNT, ZIPS, STATES = 8000, 60, 6
POLICY = """version = 1
database = "x.duckdb"
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
rules = ["income = 0 OR hours > 0", "zip DETERMINES state"]
[tables.people.columns]
id = {}
hours = { range = [0, 80], nullable = false }
income = { bounds = [0, 500000], nullable = false }
spending = { bounds = [0, 500000] }
born = { range = [1930, 2005], nullable = false }
died = { range = [1930, 2024] }
zip = { range = [100, 159], nullable = false }
state = { values = ["a", "b", "c", "d", "e", "f"], nullable = false }
[budgets.b]
entity = "person"
rho = 500
delta = 0.001
"""
PRICE = "epsilon = 2, delta = 0.0000001"


def people() -> pd.DataFrame:
    draws = np.random.default_rng(11)
    hours = np.where(draws.random(COUNT) < 0.3, 0, draws.integers(5, 60, COUNT))
    income = np.where(hours == 0, 0, np.round(draws.lognormal(10, 0.5, COUNT))).astype(int)
    born = draws.integers(1930, 2005, COUNT)
    died = np.where(draws.random(COUNT) < 0.2, np.minimum(born + draws.integers(0, 90, COUNT), 2024), np.nan)
    zips = draws.integers(0, ZIPS, COUNT)
    return pd.DataFrame({"id": np.arange(COUNT), "hours": hours, "income": income, "spending": (income * 0.8).astype(int), "born": born,
                         "died": died, "zip": zips + 100, "state": np.array(list("abcdef"))[zips // 10]})


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    folder = tmp_path_factory.mktemp("rules")
    with duckdb.connect(str(folder / "x.duckdb")) as made:
        made.register("frame", people())
        made.execute("CREATE TABLE people AS SELECT * REPLACE (CAST(died AS INTEGER) AS died) FROM frame")
    (folder / "x.toml").write_text(POLICY, encoding="utf-8")
    Ledger.create(folder / "x.ledger", None).close()
    return dpsql.connect(policy=folder / "x.toml", analyst="ada")


def made(connection: dpsql.Connection, name: str, columns: str, options: str = "") -> pd.DataFrame:
    connection.execute(f"CREATE SYNTHETIC TABLE {name} AS SELECT {columns} FROM people OPTIONS ({PRICE}{options})")
    return connection.synthetic_table(name).df()


def test_rules_of_the_policy_hold_in_every_row(connection: dpsql.Connection) -> None:
    frame, real = made(connection, "kept", "hours, income, zip, state"), people()
    assert not ((frame.hours == 0) & (frame.income > 0)).any() and len(frame) > 7000
    assert (frame.hours == 0).mean() == pytest.approx((real.hours == 0).mean(), abs=0.04)
    assert (frame.income == 0).mean() == pytest.approx((real.income == 0).mean(), abs=0.04)
    assert (frame.groupby("zip").state.nunique() == 1).all()
    right = real.groupby("zip").state.first()
    assert (frame.state == frame.zip.map(right)).mean() > 0.95  # 133 rows of each zip, among 360 counts
    assert list(frame.columns) == ["hours", "income", "zip", "state"]


def test_rules_follow_columns_under_other_names_and_only_where_all_are_there(connection: dpsql.Connection) -> None:
    frame = made(connection, "renamed", "hours AS h, income AS i, state AS s")
    assert not ((frame.h == 0) & (frame.i > 0)).any()
    told = connection.explain(f"CREATE SYNTHETIC TABLE alone AS SELECT income, state FROM people OPTIONS ({PRICE})")
    assert "determines" not in str(told)
    assert "zip and state, of which one determines the other" in str(connection.explain(
        f"CREATE SYNTHETIC TABLE pair AS SELECT state, zip FROM people OPTIONS ({PRICE})"))


def test_rules_follow_columns_whose_names_have_quotes(connection: dpsql.Connection) -> None:
    frame = made(connection, "quoted", 'hours AS "h ""A", income AS "I;", zip AS "z""Z", state AS "s""t"',
                 """, rules = '"h ""a" < 70; "z""z" DETERMINES "S""T"'""")
    assert not ((frame['h "A'] == 0) & (frame["I;"] > 0)).any() and frame['h "A'].max() < 70
    assert (frame.groupby('z"Z')['s"t'].nunique() == 1).all()


def test_a_rule_of_a_statement_may_be_about_several_columns_and_null(connection: dpsql.Connection) -> None:
    frame = made(connection, "dates", "born, died, income, spending",
                 ", rules = 'died >= born; spending <= income OR spending IS NULL; born + income % 7 < 2010'")
    assert not (frame.died < frame.born).any() and not (frame.spending > frame.income).any()
    assert not (frame.born + frame.income % 7 >= 2010).any()
    assert frame.died.isna().mean() == pytest.approx(0.8, abs=0.06)
    notes = connection.synthetic_table("dates").notes
    assert any(note.startswith("in every row: died >= born; ") for note in notes)


@pytest.mark.parametrize(("rule", "told"), [
    ("income = 0 OR hors > 0", "hors"), ("income", "needs a condition"), ("income > ", ""), ("zip DETERMINES stat", "no column stat"),
    ("income DETERMINES zip", "the values of income are not listed"), ("1 = 1", "a rule needs a column"), ("", "rules must be a text"),
    ("income IN (SELECT income FROM people)", ""), ("hours > 0 GROUP BY hours", "one condition"), ("SUM(income) > 3", ""),
    ("ROW_NUMBER() OVER () > 1", ""), ("income > $1", ""), ("people.income > 0", "")])
def test_wrong_rules_are_told_before_anything_is_charged(connection: dpsql.Connection, rule: str, told: str) -> None:
    before = connection.execute("SHOW BUDGET").fetchall()
    with pytest.raises(dpsql.Error) as fault:
        connection.execute(f"CREATE SYNTHETIC TABLE wrong AS SELECT hours, income, zip, state FROM people OPTIONS ({PRICE}, rules = '{rule}')")
    assert told in str(fault.value) and connection.execute("SHOW BUDGET").fetchall() == before


def small(folder: Path, rules: str = "", income: str = "{ bounds = [0, 500000] }") -> Path:
    """The policy of a small table, with these rules."""
    with duckdb.connect(str(folder / "x.duckdb")) as made_there:
        made_there.execute("CREATE TABLE people AS SELECT i AS id, i % 3 AS hours, CAST(i AS UTINYINT) AS income FROM range(100) AS r(i)")
    (folder / "x.toml").write_text(POLICY.split("[tables.people]")[0] + f"""[tables.people]
key = "id"
rules = [{rules}]
[tables.people.columns]
id = {{}}
hours = {{ range = [0, 80] }}
income = {income}
[budgets.b]
entity = "person"
epsilon = 10
""", encoding="utf-8")
    Ledger.create(folder / "x.ledger", None).close()
    return folder / "x.toml"


def test_a_wrong_rule_of_the_policy_is_named(tmp_path: Path) -> None:
    with dpsql.connect(policy=small(tmp_path, '"income + hours"'), analyst="ada") as opened, pytest.raises(
            dpsql.Error, match="a rule of people in the policy"):
        opened.execute("CREATE SYNTHETIC TABLE t AS SELECT hours, income FROM people OPTIONS (epsilon = 1)")


@pytest.mark.parametrize(("rule", "told"), [
    ("income >", "a value"), ("income > 0; hours > 0", "one condition"), ("", "one condition"), ("hours > 0 GROUP BY hours", "one condition"),
    ("incom > 0", "try income"), ("hours DETERMINES incom", "try income"), ("income > ?", "one condition"), ("1 = 1 UNION SELECT 1", "one condition"), ("income > 'a", "")])
def test_a_rule_of_the_policy_that_is_wrong_by_itself_is_told_when_it_is_loaded(tmp_path: Path, rule: str, told: str) -> None:
    with pytest.raises(dpsql.PolicyError) as fault:
        dpsql.connect(policy=small(tmp_path, f'"hours >= 0", "{rule}"'), analyst="ada")
    found = fault.value.as_dict()
    assert f"tables.people.rules: in the rule {rule!r}, " in found["reason"] and told in str(fault.value)
    assert found["line"] == 8 and found["source"] == str(tmp_path / "x.toml") and found["code"] == "rule" and 'rules = ["hours' in str(fault.value)


PARTIAL = ["income / hours < 100 OR hours < 200", "hours % (hours - hours) < 3", "income * 4503599627370496 > 3", "income * income * income * income > 0",
           "CAST(income AS TINYINT) < 300", "sqrt(hours - 100) >= 0", "ln(hours - hours) < 0", "CAST(CAST(income AS VARCHAR) AS DATE) > DATE '2000-01-01'",
           "make_date(income, hours, 99) > DATE '2000-01-01'", "exp(income) > 0", "CAST(exp(income) AS BIGINT) > 0", "CAST('x' || hours AS DOUBLE) > 3"]


def test_no_rule_fails_after_the_charge_even_in_rows_that_no_row_is_like(tmp_path: Path) -> None:
    """The declared range is outside what the column's type in the database can hold, which is what expressions rely on."""
    with dpsql.connect(policy=small(tmp_path, income="{ range = [100000, 200000] }"), analyst="ada") as opened:
        rules = "; ".join(PARTIAL).replace("'", "''")
        opened.execute(f"CREATE SYNTHETIC TABLE t AS SELECT hours, income FROM people OPTIONS (epsilon = 1, rows = 50, rules = '{rules}')")
        table = opened.synthetic_table("t")
        assert table.df().income.min() >= 100000 and any(note.startswith("in every row: ") for note in table.notes)
        assert not any("not applied" in note for note in table.notes)


def test_rules_that_nothing_obeys_are_told(connection: dpsql.Connection) -> None:
    frame = made(connection, "never", "hours, income", ", rules = 'income < 0', rows = 100")
    assert len(frame) == 100 and any("not applied" in note for note in connection.synthetic_table("never").notes)


def test_the_statement_again_is_the_same_and_free_and_other_rules_are_another_table(connection: dpsql.Connection) -> None:
    first = made(connection, "same", "born, died", ", rules = 'died >= born'")
    before = connection.execute("SHOW BUDGET").fetchall()
    assert made(connection, "same", "born, died", ", rules = 'died >= born'").equals(first)
    assert connection.execute("SHOW BUDGET").fetchall() == before
    with pytest.raises(dpsql.Error, match="there is a table same already"):
        made(connection, "same", "born, died", ", rules = 'died > born'")


def test_a_workload_may_name_a_dependent_column(connection: dpsql.Connection) -> None:
    told = str(connection.explain(f"CREATE SYNTHETIC TABLE w AS SELECT zip, state, hours FROM people OPTIONS ({PRICE}, "
                                  "workload = 'SELECT state, COUNT(*) FROM w WHERE hours > 20 GROUP BY state')"))
    assert "one determines the other" in told
