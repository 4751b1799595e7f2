"""Make a synthetic table from private answers, and ask in SQL for which queries it is good enough.

    python examples/check_synthetic.py            # with the name of a file, a page with pictures is written there

The table is made from noisy histograms, one for each column, as if the columns had nothing to do with each other. So it
answers questions about one column well, and others badly; VALIDATE tells which, without showing a private number.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dpsql
from dpsql.demo import folder as project
from dpsql.validation.report import page

COLUMNS = ("health", "female", "site", "bin_floor(income)", "bin_floor(education_years)")
SUITE = [
    "SELECT COUNT(*) FROM people WHERE female",
    "SELECT health, COUNT(*) FROM people GROUP BY health",
    "SELECT AVG(income) FROM people",
    "SELECT MEDIAN(income) FROM people",
    "(SELECT AVG(income) FROM people WHERE health = 'poor') WITHIN 5 PERCENT",
    "(SELECT AVG(education_years) FROM people WHERE income > 15000) WITHIN 3 PERCENT",
    "SELECT COUNT(DISTINCT site) FROM people",
]


def synthetic(con: dpsql.Connection, rows: int = 6000) -> pd.DataFrame:
    """Independent columns, drawn from noisy histograms; numbers are drawn evenly from their bins."""
    dice, made = np.random.default_rng(7), {"person_id": np.arange(rows)}
    for column in COLUMNS:
        found = con.execute(f"SELECT {column}, COUNT(*) FROM people GROUP BY 1").fetchall()
        found = [(value, max(count, 0)) for value, count in found if value is not None]
        picked = dice.choice(len(found), rows, p=np.array([count for _, count in found]) / sum(count for _, count in found))
        values = np.array([value for value, _ in found])[picked]
        if column.startswith("bin_floor"):
            starts = sorted(value for value, _ in found)
            widths = dict(zip(starts, np.diff([*starts, starts[-1] + (starts[-1] - starts[-2])]), strict=True))
            values = values + dice.random(rows) * np.array([widths[value] for value in values])
        made[column.removeprefix("bin_floor(").removesuffix(")")] = values
    return pd.DataFrame(made)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = project.export(Path(folder) / "study")
        with dpsql.connect(policy=policy, budget="study", analyst="ada", epsilon=0.2) as con:
            table = synthetic(con)
            print(f"{len(table)} synthetic people, made from noisy histograms of {len(COLUMNS)} columns\n")
            made = con.validate(SUITE, synthetic=table, within="5 PERCENT OR 150", epsilon=2)
            for found in made.findings:
                print(f"{found.decision:12}  {found.query}  (within {found.tolerance})")
            print("\n" + "\n".join(made.summary))
            print(f"of the yes, and of the no, an expected {made.alpha:.0%} at most are in error\n")

            try:
                con.validate("SELECT STDDEV(income) FROM people", synthetic=table, within=100)
            except dpsql.Unsupported as refusal:
                print(refusal)
            if len(sys.argv) > 1:
                Path(sys.argv[1]).write_text(page(made), encoding="utf-8")


if __name__ == "__main__":
    main()
