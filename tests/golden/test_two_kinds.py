"""Entities of two kinds: a customer or a supplier may leave, and rows may hang on one of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.sessions import session_of
from support.worlds import insert

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.answering import answer, explain
from dpsql.engine.session import Session
from dpsql.errors import PolicyError
from dpsql.sql.text.parse import parse
from dpsql.trusted.plan.certificate import stabilities

POLICY = """
version = 1
[entities.customer]
table = "customers"
key = "customer"
[entities.supplier]
table = "suppliers"
key = "supplier"
[entities.party]
any_of = ["customer", "supplier"]
[tables.customers]
key = "customer"
[tables.customers.columns]
customer = {}
nation = { range = [0, 2], nullable = false }
[tables.suppliers]
key = "supplier"
[tables.suppliers.columns]
supplier = {}
nation = { range = [0, 2], nullable = false }
[tables.orders]
key = "number"
foreign_keys = [{ columns = "customer", references = "customers(customer)" }]
rows_per_entity = { customer = 100 }
[tables.orders.columns]
number = {}
customer = {}
[tables.lines]
foreign_keys = [{ columns = "number", references = "orders(number)" }, { columns = "supplier", references = "suppliers(supplier)" }]
[tables.lines.columns]
number = {}
supplier = {}
price = { bounds = [0, 100], decimals = 0 }
[budgets.party]
entity = "party"
epsilon = 1000
[budgets.customer]
entity = "customer"
epsilon = 1000
"""
KINDS = ["INTEGER", "BIGINT", "VARCHAR"]
JOINED = "customers c JOIN orders o ON c.customer = o.customer JOIN lines l ON l.number = o.number JOIN suppliers s ON s.supplier = l.supplier"


def rows(name: Callable[[int], Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Suppliers have the same names as customers."""
    return {
        "customers": [(name(i), i % 3) for i in range(1, 9)], "suppliers": [(name(i), i % 3) for i in range(1, 5)],
        "orders": [(10 + i, name(1 + i % 8)) for i in range(20)],
        "lines": [(10 + i % 20, name(1 + i % 4), i % 7) for i in range(60)]}


@cache
def filled(kind: str, without: tuple[str, int] | None = None) -> duckdb.DuckDBPyConnection:
    """The database; without one entity, and all that hangs on it."""
    name: Callable[[int], Any] = str if kind == "VARCHAR" else int
    tables = rows(name)
    if without is not None:
        table, gone = without[0], name(without[1])
        tables[table] = [row for row in tables[table] if row[0] != gone]
        if table == "customers":
            lost = {row[0] for row in tables["orders"] if row[1] == gone}
            tables["orders"] = [row for row in tables["orders"] if row[0] not in lost]
            tables["lines"] = [row for row in tables["lines"] if row[0] not in lost]
        else:
            tables["lines"] = [row for row in tables["lines"] if row[1] != gone]
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(f"CREATE TABLE customers (customer {kind} PRIMARY KEY, nation INTEGER)")
    connection.execute(f"CREATE TABLE suppliers (supplier {kind} PRIMARY KEY, nation INTEGER)")
    connection.execute(f"CREATE TABLE orders (number INTEGER PRIMARY KEY, customer {kind})")
    connection.execute(f"CREATE TABLE lines (number INTEGER, supplier {kind}, price INTEGER)")
    for table, found in tables.items():
        insert(connection, table, found)
    lock_down(connection)
    return connection


def session(folder: Path, kind: str, **more: Any) -> Session:
    return session_of(folder, reader=DuckReader(filled(kind), "v"), policy=POLICY, budget="party", at={"epsilon": 1000}, **more)


TEXTS = {  # a statement, and how many columns name its owners
    "SELECT COUNT(*) FROM lines": 2,
    f"SELECT COUNT(*) FROM {JOINED}": 2,
    f"SELECT COUNT(*), SUM(l.price) FROM {JOINED} WHERE c.nation = s.nation": 2,
    "SELECT COUNT(*) FROM customers, orders, lines, suppliers WHERE customers.customer = orders.customer AND lines.number = "
    "orders.number AND suppliers.supplier = lines.supplier AND customers.nation <> suppliers.nation": 2,
    f"SELECT c.nation, SUM(l.price) FROM {JOINED} GROUP BY c.nation ORDER BY 1": 2,
    "SELECT COUNT(*) FROM customers c JOIN suppliers s ON c.customer = s.supplier": 2,  # of one name, and not one entity
    "SELECT COUNT(*) FROM lines a JOIN lines b ON a.number = b.number": 3,
    "SELECT COUNT(*) FROM orders o JOIN customers c USING (customer)": 1,
    "SELECT nation, COUNT(*) FROM suppliers GROUP BY nation ORDER BY 1": 1,
    "SELECT COUNT(*) FROM (SELECT nation FROM customers UNION ALL SELECT nation FROM suppliers) AS all_of_them": 1,
}


CASES = [(text, kind) for i, text in enumerate(TEXTS) for kind in (KINDS if i in (1, 5, 9) else KINDS[:1])]


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_without_noise_it_is_what_duckdb_says(text: str, kind: str, tmp_path: Path) -> None:
    made = answer(text, session(tmp_path, kind, noise=Exact()))
    assert isinstance(made, Answer)
    for ours, theirs in zip(made.rows, filled(kind).execute(text).fetchall(), strict=True):
        assert [float(value) for value in ours] == pytest.approx([float(value) for value in theirs], rel=0.02)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_row_has_as_many_owners_as_entities_it_hangs_on(text: str, tmp_path: Path) -> None:
    program = PreparedStatement(text, session(tmp_path, "INTEGER")).program
    assert len(program.known.owners) == TEXTS[text]


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_with_an_entity_leave_exactly_the_rows_that_name_it(text: str, kind: str, tmp_path: Path) -> None:
    """What every operator says of its owners, in the printed plan, for each customer and each supplier."""
    made = session(tmp_path, kind)
    view = PreparedStatement(text, made).program.view
    sql, owners = made.kernel._context().query(view)[0], stabilities(view, made.kernel)[id(view)].owners
    places = [list(view.env).index(owner) for owner in owners]
    before = filled(kind).execute(sql).fetchall()
    assert before
    for table, count, number in (("customers", 8, 0), ("suppliers", 4, 1)):
        for entity in range(1, count + 1):
            gone = entity * 2 + number if kind == "INTEGER" else f"{number}:{entity}"
            after = filled(kind, without=(table, entity)).execute(sql).fetchall()
            assert sorted(after) == sorted(row for row in before if gone not in [row[place] for place in places])


def test_two_sides_of_a_union_keep_their_limits_apart(tmp_path: Path) -> None:
    """Customer 1 and supplier 1 have one name in the database: with one limit between them, rows of one would make room."""
    text = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 1) COUNT(*) FROM (SELECT nation FROM customers UNION ALL "
            "SELECT nation FROM suppliers) AS all_of_them")
    made = answer(text, session(tmp_path, "INTEGER", noise=Exact()))
    assert isinstance(made, Answer) and made.rows == ((12,),)


def test_explanations_name_the_kinds(tmp_path: Path) -> None:
    told = str(explain(parse("SELECT COUNT(*) FROM lines"), session(tmp_path, "INTEGER")))  # type: ignore[arg-type]
    assert "what one party can change" in told and "owned by lines -> orders.customer and lines.supplier" in told and "2 of party" in told


def test_limits_of_a_kind_hold_for_its_rows(tmp_path: Path) -> None:
    made = session(tmp_path, "INTEGER")
    assert made.catalog.tables["orders"].rows == 100 and made.catalog.tables["customers"].rows == 1




@pytest.mark.parametrize(("old", "new", "told"), [
    ('any_of = ["customer", "supplier"]', 'any_of = ["customer", "supplyer"]', "supplyer is not an entity"),
    ('any_of = ["customer", "supplier"]', 'any_of = ["customer", "party"]', "party is not an entity"),
    ('any_of = ["customer", "supplier"]', 'any_of = ["customer"]', "different kinds"),
    ('any_of = ["customer", "supplier"]', 'any_of = ["customer", "customer"]', "different kinds"),
    ('any_of = ["customer", "supplier"]', 'any_of = ["customer", "supplier"]\ntable = "customers"', "tables and keys of their own"),
])
def test_mistakes_are_told_at_their_place(old: str, new: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=told) as caught:
        session_of(tmp_path, reader=DuckReader(filled("INTEGER"), "v"), policy=POLICY.replace(old, new), budget="party")
    assert caught.value.span is not None and "any_of" in caught.value.text[caught.value.span.start :].split("[")[0] or (
        caught.value.text[caught.value.span.start :].startswith("table"))
