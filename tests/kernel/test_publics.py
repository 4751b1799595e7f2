"""What is read without a charge: relations of public tables, whatever an object says of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import date
from typing import Any

import duckdb
import pytest
from support.sessions import session_of
from support.small_tables import literal, scan, towns

from dpsql.backends.duckdb import DuckReader
from dpsql.errors import OperationalError
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.kernel import plan_size
from dpsql.trusted.kernel.publics import Publics, reads_public_tables
from dpsql.trusted.plan.node import Node, Stability
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import Interval, Type


class Said(Distinct):
    """An operator that says that it is public."""

    def stability(self, below: Any, public: Any) -> Stability:
        return Stability(rows=0, because="it says so")


def scanned(folder: Any) -> tuple[Publics, Scan, Scan]:
    session = session_of(folder)
    found = {table.public: table for table in session.catalog.tables.values()}
    private, public = (Scan(table=found[kind], columns=tuple((f"c{i}", name) for i, name in enumerate(found[kind].columns)), owners=())
                       for kind in (False, True))
    return Publics(session.kernel._reader), private, public


def test_public_tables_are_read(tmp_path: Any) -> None:
    publics, _, public = scanned(tmp_path)
    assert reads_public_tables(public) and len(publics.public_rows(public)) == publics.fanout(public, ())


@pytest.mark.parametrize("make", [
    lambda private: private,
    lambda private: Said(input=private),
    lambda private: Distinct(input=Said(input=private)),
    lambda private: Project(input=Said(input=private), columns=()),
    lambda private: type("Scan", (Scan,), {"stability": lambda self, below, public: Stability(rows=0, because="")})(
        table=private.table, columns=private.columns, owners=()),
])
def test_nothing_else_is_whatever_it_says(make: Callable[[Scan], Node], tmp_path: Any) -> None:
    publics, private, _ = scanned(tmp_path)
    asked = make(private)
    assert not reads_public_tables(asked)
    with pytest.raises(ValueError, match="not public"):
        publics.public_rows(asked)
    with pytest.raises(ValueError, match="not public"):
        publics.fanout(asked, ())


def test_days_that_python_has_not_are_left_out() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE feasts AS SELECT unnest([DATE '2020-01-01', 'infinity', NULL, '-infinity', '9999-12-31']) AS day")
    always = Interval(float("-inf"), float("inf"))
    table = Table(name="feasts", public=True, columns={
        "day": Column(name="day", type=Type.DATE, sql_type="DATE", nullable=True, physical=always, declared=always)})
    assert Publics(DuckReader(connection, "v")).public_rows(scan(table, "f")) == [(date(2020, 1, 1),), (None,), (date(9999, 12, 31),)]


def test_what_is_beside_a_private_relation_is_not_public(tmp_path: Any) -> None:
    publics, private, public = scanned(tmp_path)
    for parts in ((public, private), (private, public)):
        both = UnionAll(parts=tuple(Project(input=part, columns=(("x", "x", literal(1, Type.BIGINT)),)) for part in parts), columns=(("u", "u"),))
        assert not reads_public_tables(both)
        with pytest.raises(ValueError, match="not public"):
            publics.public_rows(both)


def test_a_public_table_that_is_gone_cannot_be_read() -> None:
    publics = Publics(DuckReader(duckdb.connect(), "v"))
    for read in (publics.public_rows, lambda relation: publics.fanout(relation, ())):
        with pytest.raises(OperationalError, match="a public table cannot be read"):
            read(towns("t", "size"))


def test_rows_that_agree_are_counted_once_until_they_are_others() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE towns AS SELECT 'a' AS town, 'b' AS land, 1 AS size")
    publics, rows = Publics(DuckReader(connection, "v")), towns("t")
    assert (publics.fanout(rows, ("t_land",)), publics.fanout(rows, ())) == (1, 1)
    connection.execute("INSERT INTO towns VALUES ('c', 'b', 2)")
    assert publics.fanout(rows, ("t_land",)) == 1
    publics.forget()
    assert (publics.fanout(rows, ("t_land",)), publics.fanout(rows, ("t_land", "t_size")), publics.fanout(rows, ())) == (2, 1, 2)


def test_what_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE towns AS SELECT 'a' AS town, 'b' AS land, 1 AS size")
    small = towns("t", "size")
    twice = UnionAll(parts=(small, small), columns=(("u", "size"),))
    for read in (lambda publics: publics.public_rows(twice), lambda publics: publics.fanout(twice, ())):
        for most in (3, 2):
            monkeypatch.setattr(plan_size, "MOST_RELATIONS", most)
            with pytest.raises(OperationalError, match="too large") if most < 3 else contextlib.nullcontext():
                read(Publics(DuckReader(connection, "v")))
