"""The DP-PQD study rebuilt on data that can be had: 22 counts, 19 sums and 19 medians, over the study's grid.

    python tests/bench/study.py [folder of adult.parquet and acs_ma2019.parquet]

12, 9 and 9 of them are asked of a generated table of the study's shape (1.34 million rows of dependent columns of text, an age
and an income), the others of Adult and of an extract of the American Community Survey, where these are found. Each has a
synthetic table of independent columns: every column of the private one, in an order of its own. Conditions are two or three
equalities, drawn once with a seed, as in the study. Chances are exact, but for r2t and bands, of which 300 runs are made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from deciders import GRID, Chances, count_chances, median_chances, note, shown
from sum_deciders import chances

ROWS = 1_340_703


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table, the columns of its conditions, its summed and its ranked column with their greatest values, and how many queries
    of each kind are asked of it."""

    name: str
    rows: pd.DataFrame
    by: tuple[str, ...]
    summed: str
    bound: float
    ranked: str
    oldest: int
    asked: tuple[int, int, int]


def generated(rows: int = ROWS) -> pd.DataFrame:
    """Dependent columns, as in a census: incomes rise with age and education, work and marriage hang on age."""
    draw = np.random.default_rng(5)
    age = np.clip(draw.gamma(3.2, 13, rows), 0, 85).astype(int)
    educ = np.where(age < 18, 0, np.minimum(5, draw.poisson(1.6, rows)))
    married = draw.random(rows) < np.clip((age - 20) / 40, 0, 0.7)
    income = np.where(age < 16, 0, np.minimum(500_000, draw.lognormal(9.3 + 0.25 * educ + 0.2 * married, 0.9))).astype(int)
    words = {
        "sex": np.array(["Female", "Male"])[(draw.random(rows) < 0.49).astype(int)],
        "race": np.array(["White", "Black", "Asian only", "American Indian", "White-Black"])[draw.choice(
            5, rows, p=(0.79, 0.12, 0.06, 0.02, 0.01))],
        "marst": np.where(married, "Married", np.array(["Never married", "Divorced", "Separated", "Widowed"])[
            np.where(age < 30, 0, draw.choice(4, rows, p=(0.4, 0.35, 0.1, 0.15)))]),
        "citizen": np.array(["Born in U.S", "Naturalized", "Not a citizen"])[draw.choice(3, rows, p=(0.86, 0.06, 0.08))],
        "educ": np.array(["Grades 5 or 6", "High school", "Some college", "Bachelor's", "Master's", "Doctorate"])[educ],
        "workly": np.where((draw.random(rows) < 0.7) & (age > 15) & (age < 67), "Yes", "No")}
    return pd.DataFrame({**words, "age": age, "income": income})


def sources(folder: Path) -> Iterator[Source]:
    yield Source(name="generated", rows=generated(), by=("sex", "race", "marst", "citizen", "educ", "workly"), summed="income",
                 bound=500_000, ranked="age", oldest=85, asked=(12, 9, 9))
    adult, acs = folder / "adult.parquet", folder / "acs_ma2019.parquet"
    if adult.is_file():
        rows = duckdb.sql(f"SELECT age, workclass, education, marital_status, race, sex, capital_gain FROM '{adult}'").df()
        yield Source(name="Adult", rows=rows.fillna("?"), by=("workclass", "education", "marital_status", "race", "sex"),
                     summed="capital_gain", bound=100_000, ranked="age", oldest=90, asked=(5, 5, 5))
    if acs.is_file():
        rows = duckdb.sql("SELECT SEX, MSP, RAC1P, OWN_RENT, EDU, greatest(coalesce(TRY_CAST(PINCP AS INTEGER), 0), 0) AS income, "
                          f"coalesce(TRY_CAST(AGEP AS INTEGER), 0) AS age FROM '{acs}'").df()
        yield Source(name="ACS", rows=rows, by=("SEX", "MSP", "RAC1P", "OWN_RENT", "EDU"), summed="income", bound=500_000,
                     ranked="age", oldest=99, asked=(5, 5, 5))


def independent(rows: pd.DataFrame) -> pd.DataFrame:
    """The synthetic table: the columns of the private one, each in an order of its own."""
    draw = np.random.default_rng(11)
    return pd.DataFrame({name: draw.permutation(rows[name].to_numpy()) for name in rows})


def questions(source: Source, synthetic: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Which rows of either table fulfil the conditions, for one random conjunction after the other that 30 rows of both do."""
    draw = np.random.default_rng(17)
    while True:
        row = source.rows.iloc[int(draw.integers(len(source.rows)))]
        by = draw.choice(len(source.by), int(draw.integers(2, 4)), replace=False)
        masks = [np.logical_and.reduce([(rows[source.by[i]] == row[source.by[i]]).to_numpy() for i in by])
                 for rows in (source.rows, synthetic)]
        if min(mask.sum() for mask in masks) >= 30:
            yield masks[0], masks[1]


def main(folder: Path) -> None:
    found: dict[str, Chances] = {"COUNT": {}, "SUM": {}, "MEDIAN": {}}
    asked = dict.fromkeys(found, 0)
    for source in sources(folder):
        synthetic = independent(source.rows)
        kinds = [kind for kind, many in zip(found, source.asked, strict=True) for _ in range(many)]
        for number, (kind, (here, there)) in enumerate(zip(kinds, questions(source, synthetic), strict=False)):
            asked[kind] += 1
            column = source.ranked if kind == "MEDIAN" else source.summed
            mine, theirs = (np.sort(rows[column].to_numpy()[mask]) for rows, mask in ((source.rows, here), (synthetic, there)))
            for tolerance, epsilon in GRID:
                if kind == "COUNT":
                    count_chances(found[kind], len(mine), len(theirs), tolerance, epsilon)
                elif kind == "MEDIAN":
                    median_chances(found[kind], mine, int(theirs[-(-len(theirs) // 2) - 1]), tolerance, epsilon, source.oldest)
                else:
                    whole = max(1.0, float(theirs.sum()))
                    low, high = whole * (1 - tolerance), whole * (1 + tolerance)
                    for name, chance in chances(mine, theirs, low, high, source.bound, epsilon, number).items():
                        note(found[kind], name, chance, low < mine.sum() < high)
    for kind, some in found.items():
        shown(f"{kind}: {asked[kind]} queries, 5 tolerances and 4 more epsilons", some)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/nowhere"))
