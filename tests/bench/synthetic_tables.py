"""The real tables of `synthetic.py`, as `synthetic_tables.toml` declares them: values, public bounds, and what is asked of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.frozen import Frozen, field

DECLARED: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HELD = 0.2  # of the rows, where models are tested
Floats = NDArray[np.float64]


class BenchColumn(Frozen):
    """A column.

    declared  what a policy says of it
    values    its values, where they are listed; otherwise those between `low` and `high`
    whole     only whole numbers
    """

    name: str
    declared: Mapping[str, Any]
    values: tuple[Any, ...]
    low: float
    high: float
    whole: bool

    @property
    def is_number(self) -> bool:
        return not self.values or not isinstance(self.values[0], str)

    @property
    def nullable(self) -> bool:
        return bool(self.declared["nullable"])

    def floats(self, cells: pd.Series[Any]) -> Floats:
        """The numbers, or the places in the list of values; NaN for NULL."""
        if self.is_number:
            return cells.to_numpy(dtype=float, na_value=np.nan)
        places = pd.Index(self.values).get_indexer(pd.Index(cells)).astype(float)
        return np.where(places < 0, np.nan, places)

    def cells(self, floats: Floats) -> pd.Series[Any]:
        """The values of `floats`."""
        if self.is_number:
            return pd.Series(np.round(floats) if self.whole else floats).astype("Int64" if self.whole else "float64")
        return pd.Series([None if place != place else self.values[int(place)] for place in floats], dtype="str")


class Regression(Frozen):
    target: str
    on: tuple[str, ...]


class Classes(Frozen):
    """The rows that a classifier is to tell from the others, by all columns but one."""

    column: str
    when: str


class BenchTable(Frozen, eq=False):
    """The private rows of a table, rows held back to test models, and what all private rows fulfil."""

    name: str
    columns: tuple[BenchColumn, ...]
    rows: pd.DataFrame
    held: pd.DataFrame | None
    delta: Fraction
    rules: tuple[str, ...] = ()
    classes: Classes | None = None
    regression: Regression | None = None
    kept: dict[str, Any] = field(default_factory=dict)  # what measures compute once

    def floats(self, frame: pd.DataFrame) -> Floats:
        return np.stack([column.floats(frame[column.name]) for column in self.columns], axis=1)

    def frame(self, floats: Floats) -> pd.DataFrame:
        return pd.DataFrame({column.name: column.cells(floats[:, at]) for at, column in enumerate(self.columns)})

    @cached_property
    def real(self) -> Floats:
        return self.floats(self.rows)

    @property
    def numbers(self) -> list[int]:
        """The places of the columns of numbers."""
        return [at for at, column in enumerate(self.columns) if column.is_number]


def read_table(name: str, folder: Path, sources: Path) -> BenchTable | str:
    """The table, of a file of the folder or of the tables of packages; or why there is none."""
    declared = DECLARED[name]
    path = folder / declared["file"] if "file" in declared else sources / f"{name}.parquet"
    held = declared.get("held", "")
    missing = [each for each in (path, folder / held if str(held).endswith(".parquet") else path) if not each.exists()]
    if missing:
        return f"{missing[0].name} is not in the folder"
    private, kept = _parts(declared, path, folder)
    columns = tuple(_columns(declared, pd.concat([private, kept]), folder))
    regression = declared.get("regress", "").partition(" ~ ")
    made = BenchTable(
        name=name, columns=columns, rows=_typed(private, columns), held=None if held is False else _typed(kept, columns),
        delta=Fraction(declared.get("delta", "1/1000000")), rules=tuple(declared.get("rules", ())),
        classes=Classes(**declared["classify"]) if "classify" in declared else None,
        regression=Regression(target=regression[0], on=tuple(regression[2].split(" + "))) if regression[0] else None)
    broken = [rule for rule in made.rules if broken_by(made, made.rows, rule).any()]
    assert not broken, f"rows of {name} break {broken}"
    return made


def _parts(declared: Mapping[str, Any], path: Path, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The private rows, and those that are held back."""
    query, held = declared.get("query", "FROM source"), declared.get("held", "")

    def read(source: str) -> pd.DataFrame:
        return duckdb.sql(f"WITH source AS ({source}) {query}").df()

    def rows_of(file: Path, condition: str = "true") -> str:
        return f"FROM read_parquet('{file}', file_row_number = true) WHERE {condition} ORDER BY file_row_number"

    if held is False:
        every = read(rows_of(path))
        return every, every[:0]
    if held.endswith(".parquet"):
        return read(rows_of(path)), read(rows_of(folder / held))
    if held:
        return read(rows_of(path, f"NOT ({held})")), read(rows_of(path, held))
    every = read(rows_of(path))
    order = np.random.default_rng(0).permutation(len(every))
    some = round(HELD * len(every))
    return every.iloc[np.sort(order[some:])].reset_index(drop=True), every.iloc[np.sort(order[:some])].reset_index(drop=True)


def _columns(declared: Mapping[str, Any], rows: pd.DataFrame, folder: Path) -> Iterator[BenchColumn]:
    if "coded" in declared:
        for name, size in json.loads((folder / declared["coded"]).read_text(encoding="utf-8")).items():
            values = [str(value) for value in range(size)]
            yield BenchColumn(name=name, declared={"values": values, "nullable": False}, values=tuple(values), low=0, high=size - 1, whole=True)
        return
    for name, terms in declared["columns"].items():
        occurring = rows[name].dropna()
        told: dict[str, Any] = {"nullable": False, **terms}
        if not {"range", "bounds", "values"} & set(told):
            told["values"] = sorted(map(str, occurring.unique()))
        low, high = told["range"] if "range" in told else told.get("bounds") or (told["values"][0], told["values"][-1])
        listed = told.get("values") or (range(low, high + 1) if "range" in told else ())
        is_number = not listed or not isinstance(listed[0], str)
        yield BenchColumn(name=name, declared=told, values=tuple(listed), low=float(low) if is_number else 0, high=float(high) if is_number else 0,
                          whole=is_number and bool((occurring % 1 == 0).all()))


def _typed(rows: pd.DataFrame, columns: tuple[BenchColumn, ...]) -> pd.DataFrame:
    """The declared columns only: text, whole numbers or floats."""
    return pd.DataFrame({column.name: (rows[column.name].astype("str").where(rows[column.name].notna(), None) if not column.is_number
                                       else rows[column.name].astype("Int64" if column.whole else "float64")) for column in columns})


def fulfilled(table: BenchTable, frame: pd.DataFrame, condition: str) -> NDArray[np.bool_]:
    """Whether each row of the frame fulfils a condition, which may query the private rows as `real`. NULL counts as no."""
    with duckdb.connect() as connection:
        connection.register("drawn", frame.assign(**{"row at": np.arange(len(frame))}))
        connection.register("real", table.rows)
        found = connection.execute(f'SELECT COALESCE({condition}, false) FROM drawn ORDER BY "row at"').fetchnumpy()
    return np.asarray(next(iter(found.values())), dtype=bool)


def broken_by(table: BenchTable, frame: pd.DataFrame, rule: str) -> NDArray[np.bool_]:
    return ~fulfilled(table, frame, rule)
