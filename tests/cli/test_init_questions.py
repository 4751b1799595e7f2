"""`dpsql init` at a terminal: a short conversation about the schema."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import duckdb
import pexpect
import pytest

import dpsql
from dpsql import cli
from dpsql.catalog.column_guesses import ColumnValues, column_guess, rounded_out
from dpsql.catalog.guesses import references_of
from dpsql.catalog.policy import read_policy
from dpsql.frozen import replace
from dpsql.trusted.declarations.tables import ForeignKey, TableSchema

ROOT = str(Path(dpsql.__file__).parents[1])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database that declares no key, as most that come from files."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as con:
        con.execute("CREATE TABLE customers (customer_id INTEGER, country VARCHAR)")
        con.execute("INSERT INTO customers SELECT i, ['fr', 'pe'][1 + i % 2] FROM range(500) t(i)")
        con.execute("CREATE TABLE orders (order_id INTEGER, customer_id INTEGER, price DOUBLE)")
        con.execute("INSERT INTO orders SELECT i, i % 500, i % 90 FROM range(2000) t(i)")
        con.execute("CREATE TABLE countries (country VARCHAR, continent VARCHAR)")
        con.execute("INSERT INTO countries VALUES ('fr', 'Europe'), ('pe', 'America')")
        con.execute("CREATE TABLE order_lines (order_id INTEGER, amount INTEGER)")
    return tmp_path


def converse(folder: Path, *answers: str, end: str = "") -> tuple[str, int]:
    """What is shown, and the exit code; an answer for each question, or Ctrl-C or Ctrl-D."""
    child = pexpect.spawn(sys.executable, ["-m", "dpsql.cli", "init", "shop.duckdb"], cwd=folder, dimensions=(50, 80), encoding="utf-8",
                          timeout=20, env={**os.environ, "PYTHONPATH": ROOT, "TERM": "xterm"})
    shown = ""
    for answer in answers:
        child.expect(r"\] > ")
        shown += child.before + child.after
        child.send(answer + "\r")
    child.send(end)
    child.expect(pexpect.EOF)
    child.close()
    return shown + child.before, child.exitstatus


def test_a_draft_from_defaults_can_be_asked_at_once(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, code = converse(shop, *[""] * 10)
    assert code == 0 and "dpsql.toml is drafted" in shown and "Traceback" not in shown
    policy = read_policy("dpsql.toml")
    assert policy.entities["customer"].table == "customers" and policy.tables["orders"].rows_per_entity == {"customer": 10}
    assert policy.tables["orders"].foreign_keys == (ForeignKey(columns=("customer_id",), table="customers", references=("customer_id",)),)
    assert policy.tables["order_lines"].foreign_keys == (), "nothing guarantees that an order is of one customer"
    assert "no foreign key leads from it" in (shop / "dpsql.toml").read_text()
    assert not any(table.public for table in policy.tables.values()), "nothing becomes public by a default"
    assert policy.budgets["main"].per_statement is not None
    assert cli.main(["check"]) == 0 and cli.main(["budget", "--create"]) == 0
    capsys.readouterr()
    assert cli.main(["query", "SELECT COUNT(*) FROM customers"]) == 0 and "±" in capsys.readouterr().out


def test_a_public_lookup_lists_the_values_of_private_columns(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, code = converse(shop, "people?", "customers", "", "y", "", "", "many", "3", "all of them", "none", "prices",
                           "price = [0, 100", "price = [0, 100]", "0.5", "7", "0.25")
    assert code == 0 and "One of " in shown and "customers.country seems to name a row of it" in " ".join(shown.split()) and "A number above 0 and up to 0.5" in shown
    policy = read_policy("dpsql.toml")
    assert policy.tables["countries"].public and policy.tables["customers"].columns["country"].values_from == ("countries", "country")
    assert policy.tables["orders"].rows_per_entity == {"customer": 3}
    price = policy.tables["orders"].columns["price"]
    assert price.bounds == (0, 100) and not price.nullable and "There is no prices above" in shown
    assert (str(policy.budgets["main"].total), str(policy.budgets["main"].per_statement)) == ("ε = 0.5, δ = 1e-06", "ε = 0.25, δ = 1e-08")
    assert cli.main(["check"]) == 0 and cli.main(["budget", "--create"]) == 0
    capsys.readouterr()
    assert cli.main(["query", "SELECT country, COUNT(*) FROM customers GROUP BY country"]) == 0
    told = capsys.readouterr().out
    assert "fr" in told and "pe" in told and told.count("±") == 3


def test_a_chain_of_tables_is_proposed_where_the_database_keeps_it_unique(shop: Path) -> None:
    with duckdb.connect("shop.duckdb") as con:
        con.execute("ALTER TABLE orders ADD PRIMARY KEY (order_id)")
    shown, code = converse(shop, *[""] * 11)
    policy = read_policy("dpsql.toml")
    assert code == 0 and "order_lines.order_id name a row of orders(order_id)" in shown
    assert policy.tables["order_lines"].foreign_keys[0].table == "orders" and policy.tables["order_lines"].rows_per_entity


def test_the_end_of_the_input_takes_the_defaults(shop: Path) -> None:
    assert converse(shop, "", end="\x04" * 20)[1] == 0
    assert read_policy("dpsql.toml").budgets["main"].per_statement is not None


def test_an_interruption_writes_nothing(shop: Path) -> None:
    shown, code = converse(shop, "", end="\x03")
    assert code == 130 and "nothing is written" in shown and not (shop / "dpsql.toml").exists()


def test_a_file_that_exists_is_told_before_the_questions(shop: Path) -> None:
    (shop / "dpsql.toml").write_text("")
    shown, code = converse(shop)
    assert code == 2 and "dpsql.toml exists" in shown and "] >" not in shown


def test_what_names_suggest() -> None:
    tables = {"people": TableSchema(columns=(("id", "BIGINT"), ("name", "VARCHAR"))),
              "visits": TableSchema(columns=(("visit_id", "BIGINT"), ("person_id", "BIGINT"), ("id", "BIGINT"), ("note", "VARCHAR"))),
              "bills": TableSchema(columns=(("Visit ID", "BIGINT"), ("visit", "VARCHAR")))}
    assert references_of(tables, "people") == []
    assert references_of(tables, "visits") == [ForeignKey(columns=("person_id",), table="people", references=("id",))]
    assert references_of(tables, "bills") == [ForeignKey(columns=("Visit ID",), table="visits", references=("visit_id",))], "of one type"


def test_what_values_suggest_is_round_and_contains_them() -> None:
    for low, high, ends in ((17, 90, (0, 90)), (0, 24_873.5, (0, 30_000)), (1995, 2020, (1990, 2020)), (-3.2, 4.1, (-4, 5)), (0.01, 0.08, (0, 0.08)),
                            (-90, -17, (-90, 0)), (5, 5, (0, 5))):
        first, last = rounded_out(low, high)
        assert (first, last) == ends and first <= low <= high <= last
    few = ColumnValues(rows=100, nulls=0, different=2, low="f", high="m", values=("m", "f"))
    guess = column_guess("sex", "VARCHAR", few)
    assert guess is not None and guess.entries == {"values": ["f", "m"], "nullable": False}
    assert column_guess("name", "VARCHAR", replace(few, different=100, values=())) is None, "each row has another"
    assert column_guess("place", "VARCHAR", replace(few, different=40, nulls=1, values=())) is None, "too many to be listed"
