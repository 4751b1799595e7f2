"""Where the embedded engine reads a large table, the values of each cell come in other forms. They are the same values."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from support.small_tables import ref, visits
from support.worlds import insert

from dpsql.frozen import replace
from dpsql.questions.chosen_grids import quantizer
from dpsql.trusted.measurements.reading.content import Content, KeptStatements, Learned, printed
from dpsql.trusted.measurements.reading.sorted_values import Ranked, ranked, read
from dpsql.trusted.plan.expr.nodes import predicate, real
from dpsql.trusted.plan.node import Node, Printing
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Interval

SCAN = visits("v")
VIEW = Project(input=SCAN, columns=(
    ("c0", "visit", ref(SCAN, "v_visit")), ("c1", "person", ref(SCAN, "v_person")), ("c2", "town", ref(SCAN, "v_town")),
    ("c3", "cost", ref(SCAN, "v_cost")), ("c4", "dear", predicate(">", ref(SCAN, "v_cost"), real(1.0)))))
CELLS = (("a",), (None,), ("nowhere",), ("b",))
COARSE, MIDDLE, FINE = (quantizer(VIEW.env["c3"], bounds=Interval(0.0, 10.0), from_low=True, most_steps=most)
                        for most in (2**6, 2**19, 2**24))


class Rows:
    """The tables of one connection, and the texts that were run."""

    keeps = True
    stored: dict[str, Any] = {}
    content = ""

    def __init__(self) -> None:
        self.connection, self.texts = duckdb.connect(), list[str]()
        self.connection.execute("CREATE TABLE visits (visit INTEGER PRIMARY KEY, person INTEGER, town VARCHAR, cost DOUBLE)")
        draw = random.Random(11)
        insert(self.connection, "visits", [
            (i, draw.choice([None, *range(9)]), draw.choice([None, "a", "a", "b", "c"]),
             draw.choice([None, float("nan"), float("inf"), -3.0, -0.0, 0.0, 2.5, 9.999, 10.0, draw.uniform(0, 10)])) for i in range(400)])

    def columns(self, sql: str, parts: Any = ()) -> list[Any]:
        self.texts.append(sql)
        for part in parts:
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {part.name} AS {part.statements[0]}")
        return list(self.connection.execute(sql).fetchnumpy().values())

    def rows(self, sql: str, parts: Any = ()) -> list[Any]:
        columns = self.columns(sql, parts)
        return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.fixture(scope="module")
def tables() -> Rows:
    return Rows()


def found(plan: Ranks, tables: Rows, cells: Any, *, native: bool) -> list[Ranked]:
    content = Content(tables)  # type: ignore[arg-type]

    def columns(plan: Node) -> list[Any]:
        if native:
            return tables.columns(*content.query(plan, Printing(salt=9), lambda plan: ()))
        return tables.columns(printed(plan, content.learned(plan), Printing(salt=9)))

    return read(plan, cells, SimpleNamespace(columns=columns, last=SimpleNamespace(asked=None)))  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [None, 2, 30, 1000])
@pytest.mark.parametrize("ties", [0, 3])
@pytest.mark.parametrize("when", [None, "c4"])
@pytest.mark.parametrize("keys", [(), ("c2",)])
@pytest.mark.parametrize("grid", [COARSE, MIDDLE, FINE])
def test_values_are_the_same(grid: Any, keys: tuple[str, ...], when: str | None, ties: int, limit: int | None, tables: Rows) -> None:
    view: Node = VIEW if limit is None else Truncate(input=VIEW, rows=limit, owner="c1", order=("c0",))
    plan, cells = Ranks(input=view, keys=keys, column="c3", grid=grid, when=when, ties=ties), CELLS if keys else ((),)
    plain, native = found(plan, tables, cells, native=False), found(plan, tables, cells, native=True)
    assert [(each.values.tolist(), each.counts.tolist()) for each in plain] == [
        (each.values.tolist(), each.counts.tolist()) for each in native]
    assert all(each.values.dtype == each.counts.dtype == np.int64 for each in native)
    assert sum(each.total for each in native) > 3 or when is not None


def test_an_idle_limit_does_not_hide_that_rows_can_be_read_twice(tables: Rows) -> None:
    """Entities with few rows are not numbered, where a limit that nobody exceeds is below one that some do."""
    declared = Truncate(input=SCAN, rows=1000, owner="v_person", order=("v_visit",))
    limited = Truncate(input=declared, rows=20, owner="v_person", order=("v_visit",))
    learned = Learned(most={("visits", SCAN.table.owner, None): 400}, ends={})
    text = printed(limited, learned, Printing(salt=9))
    assert "UNION ALL" in text
    whole = printed(limited, replace(learned, most={("visits", SCAN.table.owner, None): 1001}), Printing(salt=9))
    assert text != whole and sorted(map(repr, tables.rows(text))) == sorted(map(repr, tables.rows(whole)))


def test_rows_of_entities_are_counted_once_for_all_statements() -> None:
    """The number of rows of each entity is read in the same way, whatever else a statement reads of its table."""
    narrow = visits("w", "visit", "person")
    kept = KeptStatements()
    for scan in (SCAN, narrow):
        owner, visit = scan.owners[0], next(column for column, name in scan.columns if name == "visit")
        limited = Truncate(input=scan, rows=2, owner=owner, order=(visit,))
        printed(limited, Learned(most={}, ends={}), Printing(native=True, keep=kept.keep))
    counted = [table for table in kept.tables if "COUNT(*)" in table.statements[0]]
    assert len(counted) == 1 and len(kept.tables) == 3, "the rows of entities with many rows have other columns"


def test_few_values_are_counted_and_many_sorted() -> None:
    for values in (np.array([], dtype=np.uint16), np.array([7], dtype=np.uint16), np.array([3, 1, 3, 0, 3], dtype=np.int32),
                   np.array([2**40, 5, 2**40])):
        told = ranked(values)
        assert told.values.tolist() == sorted(set(values.tolist()))
        assert told.counts.tolist() == [values.tolist().count(value) for value in told.values.tolist()]
