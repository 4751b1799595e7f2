"""Whom a draft protects, as names and rows of files suggest: what a person would say who looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dpsql.backends.csv_drafts import drafted
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.row_evidence import RowEvidence
from dpsql.backends.source_files import files_of
from dpsql.catalog.guesses import Guess, guess_of, references_of


def evidence(folder: Path, tables: Mapping[str, Mapping[str, list[object]]]) -> RowEvidence:
    opened = []
    for name, columns in tables.items():
        path = folder / f"{name}.csv"
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in [[*columns], *zip(*columns.values(), strict=True)]), encoding="utf-8")
        found = drafted(path, name)
        opened.append(FileTable(source=files_of(name, path), csv=found.csv, cells=found.readings))
    return RowEvidence(open_files(opened))


def guessed(folder: Path, tables: Mapping[str, Mapping[str, list[object]]]) -> Guess | None:
    seen = evidence(folder, tables)
    return guess_of(seen._reader.schema(), seen)


N = range(40)
ONE = {  # by what it is: the columns of a file, and the key of the entity; "row" where each row is one
    "a key": ({"id": [*N], "x": [i % 3 for i in N]}, "id"),
    "people in several rows each": ({"Subject": [i // 4 for i in N], "day": [i % 4 for i in N]}, "Subject"),
    "a number of each of them": ({"id_patient": [i // 4 for i in N], "y": list(N)}, "id_patient"),
    "numbers that repeat": ({"rownames": [*N], "id": [i // 4 for i in N]}, "id"),
    "households": ({"hhid": [i // 2 for i in N], "age": list(N)}, "hhid"),
    "whether somebody is one": ({"student": ["Yes" if i % 3 else "No" for i in N], "x": [*N]}, "row"),
    "a code of who it is": ({"customer": [f"type {i % 3}" for i in N], "x": [*N]}, "row"),
    "how many there are": ({"workers": [i // 2 for i in N], "passengers": [i * 7 for i in N]}, "row"),
    "an event": ({"flight": [i // 4 for i in N], "carrier": [f"C{i % 5}" for i in N]}, "row"),
    "days": ({"index": [f"2020-01-01 {i % 24:02}:{i:02}:00" for i in N], "x": [*N]}, "row"),
    "measurements": ({"x": [i / 7 for i in N]}, "row"),
    "a key of households": ({"rownames": [*N], "HHID": [i * 3 for i in N]}, "HHID"),
    "names of rows": ({"row_name": [f"car {i}" for i in N], "x": [*N]}, "row_name"),
}


@pytest.mark.parametrize("kind", ONE)
def test_of_one_file(kind: str, tmp_path: Path) -> None:
    columns, key = ONE[kind]
    found = guessed(tmp_path, {"t": columns})
    assert found is not None and found.entity.key == key
    assert (found.by_row, found.several) == (key == "row", key not in ("row", "row_name") and not kind.startswith("a key"))


def test_of_several_files_the_one_that_others_refer_to(tmp_path: Path) -> None:
    shop: dict[str, dict[str, list[object]]] = {
        "regions": {"region": [f"r{i}" for i in range(4)], "name": [f"n{i}" for i in range(4)]},
        "accounts": {"code": [f"a{i}" for i in N], "region": [f"r{i % 4}" for i in N]},
        "orders": {"no": [*range(80)], "code": [f"a{i % 30}" for i in range(80)], "region": [f"r{i % 4}" for i in range(80)]}}
    seen = evidence(tmp_path, shop)
    found = guess_of(seen._reader.schema(), seen)
    assert found is not None and (found.entity.table, found.entity.key) == ("accounts", "code"), "a list of four regions hides nobody"
    assert {key.columns[0]: key.table for key in references_of(seen._reader.schema(), "orders", seen)} == {"code": "accounts", "region": "regions"}


def test_of_several_files_without_references_each_row_of_the_largest(tmp_path: Path) -> None:
    found = guessed(tmp_path, {"airlines": {"carrier": ["AA", "B6"], "name": ["American", "JetBlue"]},
                               "flights": {"carrier": [("AA", "B6")[i % 2] for i in N], "delay": [i % 7 for i in N]}})
    assert found is not None and (found.entity.table, found.by_row) == ("flights", True)
