"""What a store is made of, as its manifest tells it: every field counts, and none by the name that it has in this version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpsql.backends.file_tables import FileTable
from dpsql.backends.source_files import FileState, SourceFiles
from dpsql.backends.spark_tables import SparkTable
from dpsql.backends.store import origin_text
from dpsql.catalog.reading import CellReading, CsvFormat
from dpsql.frozen import field_names, replace
from dpsql.trusted.declarations.tables import OwnerPath, OwnerStep, Table
from dpsql.trusted.plan.stored import shape_of
from dpsql.types import Type

FILE = FileState(path=Path("/data/people.csv"), device=1, number=2, size=3, changed=4, touched=5)
SOURCE = SourceFiles(table="people", reader="read_csv", files=(FILE,))
TABLE = FileTable(source=SOURCE)
SPARK = SparkTable(name="people", source="s3a://people", public=False, key=(), columns=("id",))
STEP = OwnerStep(columns=("person",), table="people", references=("id",), types=(Type.BIGINT,))
PATH = OwnerPath(steps=(STEP,), column="id", type=Type.BIGINT)
ORIGINS: list[tuple[Any, dict[str, Any]]] = [
    (FILE, {"path": Path("/data/other.csv"), "device": 9, "number": 9, "size": 9, "changed": 9, "touched": 9}),
    (SOURCE, {"table": "visits", "reader": "read_parquet", "files": (FILE, FILE), "root": Path("/data"), "told_by": FILE,
              "relation": ("main", "people")}),
    (TABLE, {"source": replace(SOURCE, table="visits"), "key": ("id",), "row_key": "id", "csv": CsvFormat(delimiter=";"),
             "cells": {"id": CellReading(trim=True)}, "columns": ("id",), "public": True, "grows_by": "seen"}),
    (SPARK, {"name": "visits", "source": "s3a://other", "public": True, "key": ("id",), "columns": ("id", "age")}),
    *((FileTable(source=SOURCE, csv=CsvFormat(**{name: value})), {"csv": CsvFormat()}) for name, value in {
        "delimiter": ";", "quote": "'", "escape": "\\", "header": False, "names": ("a",), "skip": 1, "comment": "#", "encoding": "latin-1"}.items()),
    *((FileTable(source=SOURCE, cells={"a": CellReading(**{name: value})}), {"cells": {"a": CellReading()}}) for name, value in {
        "trim": True, "null": ("-",), "case": "lower", "aliases": {"f": "female"}, "decimal_mark": ",", "format": "%d", "zone": "CET",
        "type": "BIGINT"}.items())]


@pytest.mark.parametrize(("origin", "others"), ORIGINS)
def test_no_two_origins_are_told_alike(origin: Any, others: dict[str, Any]) -> None:
    told = {json.dumps(origin.as_plain()), *(json.dumps(replace(origin, **{name: value}).as_plain()) for name, value in others.items())}
    assert len(told) == 1 + len(others)


def test_every_field_is_told() -> None:
    for origin, others in ORIGINS[:4]:
        assert others.keys() == set(field_names(type(origin)))
    given = {kind: {name for table, _ in ORIGINS[4:] for how in (table.csv, *table.cells.values()) if type(how) is kind
                    for name in field_names(kind) if getattr(how, name) != getattr(kind(), name)} for kind in (CsvFormat, CellReading)}
    assert given == {kind: set(field_names(kind)) for kind in given}


def test_a_shape_tells_the_whole_path_to_the_owner() -> None:
    steps = {"columns": ("other",), "table": "others", "references": ("key",), "types": (Type.VARCHAR,)}
    paths = {"steps": (), "column": "key", "type": Type.VARCHAR, "not_null": True, "beside": ("b",), "kind": 1, "kinds": 2}
    assert (steps.keys(), paths.keys()) == (set(field_names(OwnerStep)), set(field_names(OwnerPath)))
    others = [PATH, *(replace(PATH, **{name: value}) for name, value in paths.items()),
              *(replace(PATH, steps=(replace(STEP, **{name: value}),)) for name, value in steps.items())]
    assert len({shape_of(Table(name="visits", public=False, columns={}, owners=(path,))) for path in others}) == len(others)


def test_a_database_and_what_a_cluster_found_are_told() -> None:
    assert len({origin_text([], []), origin_text([SOURCE], []), origin_text([], [TABLE.as_plain()]), origin_text([], [], "found")}) == 4
