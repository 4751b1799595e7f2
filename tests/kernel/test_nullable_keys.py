"""Keys whose columns may be NULL let in any number of rows with NULL, so they are no keys of a plan.

The catalog drops them (the first wall); and where it did not, the second derivation does not take them for keys either.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

import duckdb
import pytest
from support.policies import policy_of

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.frozen import replace
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel import checker
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan

POLICY = policy_of("people", """
""", """
[tables.visits]
foreign_keys = [{ columns = "id", references = "people(id)" }]
[tables.visits.columns]
id = {}
place = {}
day = {}
x = {}
""", budget="main", price="epsilon = 1")
COLUMNS = ("id", "place", "day", "x")
KEYS = ("id, place", "id, day", "place", "place, day", "x", "id, x", "id")


@pytest.fixture(params=[*itertools.product(KEYS, ("", " NOT NULL"))], ids=lambda told: f"{told[0]}{told[1]}".replace(" ", "_"))
def tables(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """A table with one key, whose columns may be NULL or not; and as many equal rows as it lets in."""
    key, strict = request.param
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO people VALUES (1), (2)")
    connection.execute(f"CREATE TABLE visits (id INTEGER{strict}, place VARCHAR{strict}, day DATE{strict}, x DOUBLE{strict}, UNIQUE ({key}))")
    for values in itertools.product(("1", "2"), ("'a'", "NULL"), ("DATE '2000-01-01'", "NULL"), ("CAST('nan' AS DOUBLE)", "-0.0", "NULL")):
        for _ in range(3):
            try:
                connection.execute(f"INSERT INTO visits VALUES ({', '.join(values)})")
            except duckdb.ConstraintException:
                break
    yield connection
    connection.close()


def tables_of(connection: duckdb.DuckDBPyConnection) -> tuple[Table, Table]:
    """The table as the catalog has it; and with all keys of the database, as if the catalog dropped none. (Of floating columns the
    derivation is not told what the database says about NULL: there the catalog alone decides.)"""
    schema = DuckReader(connection, "v").schema()
    table = fit(parse_policy(POLICY), "main", schema, lambda *_: []).tables["visits"]
    return table, replace(table, unique=tuple(key for key in schema["visits"].unique if "x" not in key or key in table.unique))


def keys_that_fail(connection: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """The sets of columns of which more rows agree than an operator says of the catalog's table, or the second derivation of either."""
    (table, every), found = tables_of(connection), set()
    for kept in (COLUMNS, ("id", "place", "x")):
        scan, unwary = (Scan(table=one, columns=tuple((f"c_{name}", name) for name in kept), owners=("c_id",)) for one in (table, every))
        rows = [tuple(map(repr, row)) for row in connection.execute(scan.render((), Printing())).fetchall()]
        names = [field.id for field in scan.fields]
        claimed = (("operator", scan.max_frequencies), ("derivation", derived(scan)), ("derivation", derived(unwary)))
        for whose, frequencies in claimed:
            for agreed, most in frequencies.items():
                alike = Counter(tuple(row[names.index(name)] for name in sorted(agreed)) for row in rows)
                found |= {(whose, " ".join(sorted(agreed)))} if max(alike.values()) > most else set()
    return found


def derived(scan: Scan) -> Mapping[frozenset[str], float]:
    return checker.known(scan, lambda *told: 1, {}).frequencies  # type: ignore[arg-type]


def test_no_more_rows_agree_than_is_said_of_keys(tables: duckdb.DuckDBPyConnection) -> None:
    assert not keys_that_fail(tables)


def test_a_key_that_may_be_null_is_found_if_the_derivation_takes_it_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_keys(node: Scan) -> Iterator[frozenset[str]]:
        names = {name: column for column, name in node.columns}
        yield from (frozenset(names[name] for name in key) for key in node.table.unique if key <= names.keys())

    monkeypatch.setattr(checker, "keys_of", all_keys)
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
    connection.execute("CREATE TABLE visits (id INTEGER, place VARCHAR, day DATE, x DOUBLE, UNIQUE (id, place))")
    connection.execute("INSERT INTO visits VALUES (1, NULL, NULL, NULL), (1, NULL, NULL, NULL)")
    assert keys_that_fail(connection) == {("derivation", "c_id c_place")}
    connection.close()


def test_a_key_that_is_never_null_is_one(tables: duckdb.DuckDBPyConnection) -> None:
    """By both; an owner is not NULL where it is read, and a floating column counts as one that may be."""
    table, _ = tables_of(tables)
    scan = Scan(table=table, columns=tuple((f"c_{name}", name) for name in COLUMNS), owners=("c_id",))
    for key in table.unique:
        assert scan.max_frequencies[frozenset(f"c_{name}" for name in key)] == 1
    assert scan.max_frequencies.keys() <= derived(scan).keys()
    assert table.unique or any(column.nullable for column in table.columns.values())
