"""What `linked.py` measures of linked tables that were drawn, compared with the real ones.

    t 2-way ...    the total variation distance of marginals of so many columns of a table, mean over all. Numbers and dates are counted
                   in ten parts, between quantiles of the real rows
    t x u 2-way ...  the same of rows joined with those that they refer to, over marginals with columns of both; with tables further up,
                   those of two columns
    t fan-out      the distance of the distributions of the number of rows below a row
    t next row     the distance of the joint distribution of a column and the same column in the next row below the same row, mean
    t groups       counts of rows that have a row below with some values, values of their own, and so many rows below: the relative
                   error, mean over random queries. These are the queries by which PrivPetal and PrivLava are evaluated (one or two
                   columns of each table, a selectivity of .2 without that of the size); small counts count as 1/200 of all rows
    joined counts  the same of rows of the lowest table, joined with all tables above, by one condition on each table

Counts of drawn tables are scaled to the number of real rows of the top table, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pandas as pd
from linked_worlds import Frames, World, WorldTable
from numpy.typing import NDArray

from dpsql.frozen import Frozen

Codes: TypeAlias = NDArray[np.int64]
PARTS, QUERIES, SELECTIVITY, SIZES, LEAST = 10, 300, 0.2, 0.2, 1 / 200


class Coding(Frozen, eq=False):
    """How the values of a column are counted: as these categories, or between these cuts."""

    cuts: NDArray[np.float64] | None
    values: tuple[object, ...] = ()

    @property
    def size(self) -> int:
        """The number of parts, and one for all else."""
        return len(self.values) + 1 if self.cuts is None else len(self.cuts) + 2

    def codes(self, column: pd.Series) -> Codes:
        """The part of each value."""
        if self.cuts is None:
            found = pd.Categorical(column, categories=list(self.values)).codes.astype(np.int64)
            return np.where(found < 0, len(self.values), found)
        numbers = floats(column)
        return np.where(np.isnan(numbers), len(self.cuts) + 1, np.searchsorted(self.cuts, numbers))


def floats(column: pd.Series) -> NDArray[np.float64]:
    """Numbers, and dates as days."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float, na_value=np.nan)
    return np.asarray((pd.to_datetime(column) - pd.Timestamp(0)) / pd.Timedelta(days=1), dtype=float)


def coding(column: pd.Series) -> Coding:
    """How a real column is counted."""
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_string_dtype(column):
        return Coding(cuts=None, values=tuple(sorted(column.dropna().unique())))
    numbers = np.unique(floats(column))
    if len(numbers) <= PARTS:
        return Coding(cuts=(numbers[1:] + numbers[:-1]) / 2)
    return Coding(cuts=np.unique(np.quantile(floats(column), np.arange(1, PARTS) / PARTS, method="inverted_cdf")))


class CodedRows(Frozen, eq=False):
    """Rows of a table with coded columns, and for each the place of its parent; the rows of one parent follow each other."""

    columns: Mapping[str, Codes]
    above: Codes


class Measurer:
    """Measures drawn tables of a world; what is needed of the real ones is computed once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.codings = {name: coding(world.frames[table.name][name]) for table in world.tables for name in table.measured}
        self.real = self._coded(world.frames)
        self.queries = {table.name: [*_group_queries(table, self._up(table)[0], self)] for table in world.tables[1:]}
        self.conditions = [*_conditions(world, self)]

    def measured(self, frames: Frames) -> dict[str, float]:
        """All measures of these tables."""
        drawn, found = self._coded(frames), dict[str, float]()
        for table in self.world.tables:
            real, made = self.real[table.name].columns, drawn[table.name].columns
            for size in (2, 3):
                if len(real) >= size:
                    found[f"{table.name} {size}-way"] = self._distance(real, made, combinations(real, size))
            if table.parent:
                found |= self._between(table, drawn)
        found["joined counts"] = self._joined_counts(drawn)
        return found

    def _coded(self, frames: Frames) -> dict[str, CodedRows]:
        found, keys = dict[str, CodedRows](), dict[str, pd.Index]()
        for table in self.world.tables:
            frame, above = frames[table.name], np.zeros(len(frames[table.name]), dtype=np.int64)
            if table.parent:
                above = keys[table.parent].get_indexer(frame[table.link])
                order = np.argsort(above, kind="stable")
                frame, above = frame.iloc[order], above[order]
            keys |= {table.name: pd.Index(frame[table.key])} if table.key else {}
            found[table.name] = CodedRows(columns={name: self.codings[name].codes(frame[name]) for name in table.measured}, above=above)
        return found

    def _table(self, name: str) -> WorldTable:
        return next(table for table in self.world.tables if table.name == name)

    def _up(self, table: WorldTable) -> list[WorldTable]:
        """The tables above, from the parent on."""
        return [above := self._table(table.parent), *self._up(above)] if table.parent else []

    def _distance(self, real: Mapping[str, Codes], made: Mapping[str, Codes], marginals: Iterable[Sequence[str]]) -> float:
        return float(np.mean([_apart(*([rows[name] for name in columns] for rows in (real, made)), [self._size(name) for name in columns])
                              for columns in marginals]))

    def _size(self, name: str) -> int:
        return self.codings[name.removeprefix("next ")].size

    def _between(self, table: WorldTable, drawn: Mapping[str, CodedRows]) -> dict[str, float]:
        """What is measured of rows below others."""
        found, both = dict[str, float](), [self.real, drawn]
        joined = [rows[table.name].columns for rows in both]
        above = [rows[table.name].columns for rows in both]
        places = [rows[table.name].above for rows in both]
        for level, upper in enumerate(self._up(table)):
            above = [{name: codes[at] for name, codes in rows[upper.name].columns.items()} for rows, at in zip(both, places, strict=True)]
            joined = [{**rows[table.name].columns, **more} for rows, more in zip(both, above, strict=True)]
            for size in (2, 3) if level == 0 else (2,):
                mixed = [columns for columns in combinations(joined[0], size) if 0 < len({*columns} & {*table.measured}) < size]
                found[f"{table.name} x {upper.name} {size}-way"] = self._distance(*joined, mixed)
            places = [rows[upper.name].above[at] for rows, at in zip(both, places, strict=True)]
        parents = [len(next(iter(rows[table.parent].columns.values()))) for rows in both]
        sizes = [np.bincount(rows[table.name].above, minlength=many) for rows, many in zip(both, parents, strict=True)]
        found[f"{table.name} fan-out"] = _apart([sizes[0]], [sizes[1]], [int(max(map(np.max, sizes))) + 1])
        following = [_with_next(rows[table.name]) for rows in both]
        found[f"{table.name} next row"] = self._distance(*following, [(name, f"next {name}") for name in table.measured])
        counts = [[query.count(rows[table.parent], rows[table.name]) for query in self.queries[table.name]] for rows in both]
        found[f"{table.name} groups"] = _off(*counts, *parents)
        return found

    def _joined_counts(self, drawn: Mapping[str, CodedRows]) -> float:
        """The relative error of counts of rows of the lowest table by conditions on all tables."""
        counts, many = [], []
        for rows in (self.real, drawn):
            joined, lowest = dict[str, Codes](), self.world.tables[-1]
            places = np.arange(len(rows[lowest.name].above))
            for table in (lowest, *self._up(lowest)):
                joined |= {name: codes[places] for name, codes in rows[table.name].columns.items()}
                places = rows[table.name].above[places]
            counts.append([float(np.logical_and.reduce([chosen[joined[name]] for name, chosen in query.items()]).sum()) for query in self.conditions])
            many.append(len(next(iter(rows[self.world.tables[0].name].columns.values()))))
        return _off(*counts, *many)


class GroupQuery(Frozen, eq=False):
    """A count of rows with some values that have a row below with some values, and a number of rows between two ends."""

    own: Mapping[str, NDArray[np.bool_]]
    below: Mapping[str, NDArray[np.bool_]]
    least: int
    end: int

    def count(self, parents: CodedRows, rows: CodedRows) -> float:
        many = len(next(iter(parents.columns.values())))
        sizes = np.bincount(rows.above, minlength=many)
        good = (sizes >= self.least) & (sizes < self.end)
        for name, chosen in self.own.items():
            good &= chosen[parents.columns[name]]
        fitting = np.logical_and.reduce([chosen[rows.columns[name]] for name, chosen in self.below.items()])
        return float((good & (np.bincount(rows.above[fitting], minlength=many) > 0)).sum())


def _group_queries(table: WorldTable, parent: WorldTable, measurer: Measurer) -> Iterable[GroupQuery]:
    draws, most = np.random.default_rng(len(table.name)), int(np.bincount(measurer.real[table.name].above).max())
    for number in range(QUERIES):
        each = min(1 + number % 2, len(table.measured), len(parent.measured))
        share = SELECTIVITY ** (1 / (2 * each))
        own, below = ({name: _chosen(measurer.codings[name], share, draws) for name in draws.choice(one.measured, each, replace=False)}
                      for one in (parent, table))
        width = max(int(most * SIZES), 1)
        least = max(int(most * draws.random()) - width + 2, 1)
        yield GroupQuery(own=own, below=below, least=least, end=least + width)


def _conditions(world: World, measurer: Measurer) -> Iterable[dict[str, NDArray[np.bool_]]]:
    draws = np.random.default_rng(1)
    for _ in range(QUERIES):
        yield {name: _chosen(measurer.codings[name], SELECTIVITY ** (1 / len(world.tables)), draws)
               for name in (str(draws.choice(table.measured)) for table in world.tables)}


def _chosen(coding: Coding, share: float, draws: np.random.Generator) -> NDArray[np.bool_]:
    """Which parts a condition accepts: consecutive ones of numbers, any categories."""
    size = coding.size - 1
    many, found = max(int(size * share), 1), np.zeros(size + 1, dtype=bool)
    if coding.cuts is None:
        found[draws.permutation(size)[:many]] = True
    else:
        start = int(draws.integers(0, size - many + 1))
        found[start:start + many] = True
    return found


def _with_next(rows: CodedRows) -> dict[str, Codes]:
    """Rows that have another one of the same parent after them, with columns of that."""
    at = np.flatnonzero(rows.above[1:] == rows.above[:-1])
    return {**{name: codes[at] for name, codes in rows.columns.items()}, **{f"next {name}": codes[at + 1] for name, codes in rows.columns.items()}}


def _apart(one: Sequence[Codes], other: Sequence[Codes], sizes: Sequence[int]) -> float:
    """The total variation distance of two tables of codes."""
    shares = [np.bincount(np.ravel_multi_index(tuple(codes), sizes), minlength=int(np.prod(sizes))) / max(len(codes[0]), 1) for codes in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _off(real: Sequence[float], made: Sequence[float], many: int, others: int) -> float:
    """The mean relative error of counts, of so many rows of the top table or of parents each."""
    one, other = np.array(real), np.array(made) * many / max(others, 1)
    return float(np.mean(np.abs(one - other) / np.maximum(one, many * LEAST)))


def numbers_of_lives(frames: Frames) -> dict[str, float]:
    """Numbers that depend on how rows of one person resemble each other and the person."""
    people, visits = frames["people"], frames["visits"]
    heavy = people["heavy"].astype(bool).to_numpy()
    number = people["id"].map(visits["person"].value_counts()).fillna(0).to_numpy()
    total = people["id"].map(visits.groupby("person")["cost"].sum()).fillna(0)
    of_heavy = visits["person"].map(dict(zip(people["id"], heavy, strict=True))).to_numpy(dtype=bool)
    cost, logs = visits["cost"].astype(float), np.log(visits["cost"].astype(float).clip(lower=0.01))
    return {"correlation of successive costs": _correlation(cost, visits, 1), "of their logarithms": _correlation(logs, visits, 1),
            "of costs two visits apart": _correlation(cost, visits, 2), "visits of heavy people": float(number[heavy].mean()),
            "mean cost of others": float(cost[~of_heavy].mean()), "mean cost of heavy people": float(cost[of_heavy].mean()),
            "sd of totals of people": float(total.std())}


def _correlation(numbers: pd.Series, visits: pd.DataFrame, apart: int) -> float:
    after = numbers.groupby(visits["person"]).shift(-apart)
    there = after.notna()
    return float(np.corrcoef(numbers[there], after[there])[0, 1])
