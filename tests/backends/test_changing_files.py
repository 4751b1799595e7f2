"""Public files that change under an open connection: a statement is refused before its charge, or answered with the rows that it began
with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.dbapi import Connection
from dpsql.errors import Error, OperationalError
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.kernel.publics import Publics

POLICY = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
source = "people.parquet"
key = "id"
[tables.people.columns]
id = {{}}
place = {{ values_from = "places.place", nullable = false }}
[tables.places]
source = "places.{kind}"
public = true
key = "place"
[tables.places.columns]
place = {{ {text} }}
beds = {{ {number} }}
[budgets.person]
entity = "person"
epsilon = 1000
"""
PRICE = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {})"
STATEMENTS = {
    f"SELECT {PRICE} place, COUNT(*) AS n FROM people JOIN places USING (place) WHERE beds > 5 GROUP BY place ORDER BY place":
        [("a", 20), ("b", 20)],  # a condition on public rows leaves no c
    f"SELECT {PRICE} place, COUNT(*) AS n FROM people GROUP BY place ORDER BY place": [("a", 20), ("b", 20), ("c", 20)],
    f"SELECT {PRICE} COUNT(*) FROM people JOIN places USING (place) WHERE beds > 5": [(40,)],
    f"SELECT {PRICE} SUM(LEAST(GREATEST(beds, 0), 20)) FROM people JOIN places USING (place)": [(700,)],
    f"SELECT {PRICE} COUNT(*) FROM people WHERE place IN (SELECT place FROM places WHERE beds < 20)": [(40,)],
    "SELECT place, beds FROM places ORDER BY place -- {}": [("a", 10), ("b", 20), ("c", 5)],
}
Change = Callable[[Path], Any]


def written(path: Path, rows: str, columns: str = "place, beds") -> None:
    form = "parquet" if path.suffix == ".parquet" else "csv, header"
    with duckdb.connect() as connection:
        if path.suffix == ".duckdb":
            path.unlink(missing_ok=True)
            connection.execute(f"ATTACH '{path}' AS made")
            connection.execute(f"CREATE TABLE made.places AS SELECT * FROM (VALUES {rows}) AS t({columns})")
        else:
            connection.execute(f"COPY (SELECT * FROM (VALUES {rows}) AS t({columns})) TO '{path}' (FORMAT {form})")


def replaced(path: Path) -> None:
    other = path.with_name(f"other{path.suffix}")
    written(other, "('a', 1), ('x', 2)")
    os.replace(other, path)


def in_place(rows: str, columns: str = "place, beds") -> Change:
    """The same file with the bytes of another."""
    def change(path: Path) -> None:
        other = path.with_name(f"other{path.suffix}")
        written(other, rows, columns)
        path.write_bytes(other.read_bytes())
    return change


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


CHANGES: dict[str, Change] = {
    "other rows": in_place("('a', 7), ('b', 8), ('c', 9)"), "more rows": in_place(", ".join(f"('{i}', {i})" for i in range(5000))),
    "no rows that fit": in_place("('x', 1)"), "other columns": in_place("(1, 2, 3)", "p, q, r"),
    "other types": in_place("(1, 'a'), (2, 'b')"), "NULLs": in_place("(NULL, NULL), ('a', NULL)"), "doubled keys": in_place("('a', 1), ('a', 1)"),
    "replaced": replaced, "removed": lambda path: path.unlink(), "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2), "cut by a byte": lambda path: os.truncate(path, path.stat().st_size - 1),
    "garbage": lambda path: path.write_bytes(os.urandom(500)), "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"), "unreadable": lambda path: path.chmod(0), "a folder": as_folder,
    "a loop of links": as_loop, "a link to nothing": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "one byte": lambda path: path.write_bytes(path.read_bytes()[:60] + b"\xff" + path.read_bytes()[61:]),
    "touched": lambda path: os.utime(path, (1, 1)), "another kind": lambda path: path.write_text("place,beds\na,1\n"),
}
FEW = ("other rows", "replaced", "removed", "truncated", "garbage", "a folder")
CASES = [*(("parquet", change) for change in CHANGES), *((kind, change) for kind in ("csv", "duckdb") for change in FEW)]


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Connection:
    kind = request.param
    with duckdb.connect() as connection:
        connection.execute("COPY (SELECT i AS id, chr(CAST(97 + i % 3 AS INTEGER)) AS place FROM range(60) AS t(i)) "
                           f"TO '{tmp_path / 'people.parquet'}'")
    written(tmp_path / f"places.{kind}", "('a', 10), ('b', 20), ('c', 5)")
    types = {"text": 'type = "VARCHAR"', "number": 'type = "BIGINT"'} if kind == "csv" else {"text": "", "number": ""}
    (tmp_path / "dpsql.toml").write_text(POLICY.format(kind=kind, **types))
    Ledger.create(tmp_path / "dpsql.ledger").close()
    connection = dpsql.connect(policy=tmp_path / "dpsql.toml")
    request.addfinalizer(connection.close)
    return connection


def is_refused_or_right(statement: str, number: int, connection: Connection) -> str:
    """What came out: "answered" or the code of the refusal. Noise is below 9, and other rows would change counts by 20."""
    ledger = connection._session.ledger
    before = ledger.events
    try:
        rows = connection.execute(statement.format(100 + number)).fetchall()
    except OperationalError as refused:
        assert (ledger.events, refused.code) == (before, "data-changed")
        return refused.code
    assert [row[:-1] for row in rows] == [row[:-1] for row in STATEMENTS[statement]]
    assert all(abs(row[-1] - right[-1]) < 9 for row, right in zip(rows, STATEMENTS[statement], strict=True)), rows
    return "answered"


@pytest.mark.parametrize(("opened", "change"), CASES, indirect=["opened"])
def test_between_statements(change: str, opened: Connection, tmp_path: Path) -> None:
    statements = list(STATEMENTS)
    assert is_refused_or_right(statements[0], 0, opened) == "answered"
    CHANGES[change](next(tmp_path.glob("places.*")))
    for number, statement in enumerate(statements, 1):
        is_refused_or_right(statement, number, opened)


MOMENTS = ("bound", "counted", "charged", "read")


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("opened", "change"), CASES[::3], indirect=["opened"])
def test_within_a_statement(moment: str, change: str, opened: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first reading of public rows, at the first count of them, right before the charge, and right after it."""
    path, statements = next(tmp_path.glob("places.*")), list(STATEMENTS)
    statement = statements[(list(CHANGES).index(change) + MOMENTS.index(moment)) % len(statements)]
    changed: list[bool] = []

    def once() -> None:
        if not changed:
            changed.append(True)
            CHANGES[change](path)

    def before(step: Any) -> Any:
        def inner(*args: Any, **kwargs: Any) -> Any:
            once()
            return step(*args, **kwargs)
        return inner

    def after(step: Any) -> Any:
        def inner(*args: Any, **kwargs: Any) -> Any:
            made = step(*args, **kwargs)
            once()
            return made
        return inner

    where, name, wrap = {"bound": (Publics, "public_rows", before), "counted": (Publics, "fanout", after), "charged": (Ledger, "charge", before),
                         "read": (Ledger, "charge", after)}[moment]
    monkeypatch.setattr(where, name, wrap(getattr(where, name)))
    outcome = is_refused_or_right(statement, 0, opened)
    if moment in ("charged", "read"):  # what is under way ends with the rows that it began with
        assert outcome == "answered"
    if changed and path.suffix != ".csv":  # which is loaded, and not looked at again
        with pytest.raises(Error) as refused:
            opened.execute("SELECT COUNT(*) FROM people")
        assert refused.value.code == "data-changed"
