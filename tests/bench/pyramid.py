"""An age pyramid to a given accuracy: what it costs statement by statement, one after the other, and together.

    python tests/bench/pyramid.py [folder of adult.parquet]

The statements of a population report over the Adult table (48,842 people; made up where the file is missing), each with its own
accuracy. *alone* is the sum of the prices of all statements, each the least that a statement needs by itself; *in turn*, one
analyst asks them one after the other, and what was measured serves the later ones; *together* they are one workload. All
prices are read from the ledger. The last column is the root mean square of the widths of all intervals, each over the one that its
clause allows: 1 where nothing is better than it must be.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from bench_clock import table

import dpsql
from dpsql.answers.display import half_width
from dpsql.trusted.kernel.ledger import Ledger

PEOPLE = """
version = 1
[entities.person]
table = "people"
key = "person_id"
[tables.people]
source = "people.parquet"
key = "person_id"
[tables.people.columns]
person_id = {}
age = { range = [17, 90], nullable = false, bins = 8 }
sex = { values = ["Female", "Male"], nullable = false }
[budgets.main]
entity = "person"
"""
BUDGETS = {"ρ": "rho = 100\n", "ε": "epsilon = 1000\n"}
STATEMENTS = [  # and the standard error that each allows, at 95 %
    ("SELECT COUNT(*) FROM people", 60),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex", 60),
    ("SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex", 40),
    ("SELECT age // 10 AS decade, sex, COUNT(*) FROM people WHERE age >= 20 GROUP BY decade, sex", 50),
    ("SELECT age // 5 AS band, COUNT(*) FROM people WHERE age >= 20 GROUP BY band", 50),
    *((f"SELECT COUNT(*) FROM people WHERE age < {age}", 80) for age in range(20, 90, 5)),
    *((f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high} AND sex = 'Female'", 60)
      for low, high in ((18, 64), (25, 54), (65, 90))),
]


def asked() -> list[str]:
    return [f"{text} ERROR WITHIN {width}" for text, width in STATEMENTS]


def people(folder: Path | None) -> pd.DataFrame:
    file = None if folder is None else folder / "adult.parquet"
    if file is not None and file.is_file():
        rows = pd.read_parquet(file, columns=["age", "sex"])
    else:
        dice = np.random.default_rng(1)
        rows = pd.DataFrame({"age": dice.integers(17, 91, 48_842, dtype="int32"), "sex": dice.choice(["Female", "Male"], 48_842)})
    return rows.assign(person_id=np.arange(len(rows)))


@contextmanager
def opened(rows: pd.DataFrame, budget: str) -> Iterator[dpsql.dbapi.Connection]:
    with TemporaryDirectory() as made:
        folder = Path(made)
        rows.to_parquet(folder / "people.parquet")
        (folder / "dpsql.toml").write_text(PEOPLE + BUDGETS[budget], encoding="utf-8")
        Ledger.create(folder / "dpsql.ledger").close()
        with dpsql.connect(policy=folder / "dpsql.toml", ledger=folder / "dpsql.ledger") as connection:
            yield connection


def spent(connection: dpsql.dbapi.Connection) -> float:
    (account, *_) = connection.budget().accounts
    return float((account.spent.epsilon or 0) if account.limit.rho is None else account.spent.rho) / 1e9


def alone(rows: pd.DataFrame, budget: str, texts: Sequence[str]) -> float:
    """Every statement by another analyst, so that nothing is known."""
    total = 0.0
    for text in texts:
        with opened(rows, budget) as connection:
            connection.execute(text)
            total += spent(connection)
    return total


def in_turn(rows: pd.DataFrame, budget: str, texts: Sequence[str]) -> tuple[float, int]:
    with opened(rows, budget) as connection:
        free = sum(connection.execute(text).cost == "" for text in texts)
        return spent(connection), free


def together(rows: pd.DataFrame, budget: str, texts: Sequence[str]) -> tuple[float, float]:
    with opened(rows, budget) as connection:
        answers = connection.workload(texts)
        ratios = [(half_width(answer.intervals[i][-1]) or 0) / width for answer, (_, width) in zip(answers, STATEMENTS, strict=False)
                  for i in range(len(answer.rows))]
        return spent(connection), float(np.sqrt(np.mean(np.square(ratios))))


def lines(rows: pd.DataFrame, texts: Sequence[str]) -> list[list[str]]:
    found = []
    for budget in BUDGETS:
        one_by_one, (turn, free) = alone(rows, budget, texts), in_turn(rows, budget, texts)
        whole, ratio = together(rows, budget, texts)
        found.append([budget, f"{len(texts)}", f"{one_by_one:.4g}", f"{turn:.4g}", f"{free}", f"{whole:.4g}", f"{one_by_one / whole:.3g}",
                      f"{ratio:.2f}"])
    return found


HEADERS = ["account", "statements", "alone", "in turn", "free", "together", "alone / together", "error / allowed"]

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--first", type=int, default=len(STATEMENTS), help="only so many statements")
    given = parser.parse_args()
    print(table("An age pyramid, by accuracy", HEADERS, lines(people(given.folder), asked()[: given.first])))
