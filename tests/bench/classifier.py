"""A classifier trained on synthetic rows, tested on real ones: what the methods of synthetic tables keep for machine learning.

    python tests/bench/classifier.py --adult adult.parquet

Who earns more than 50,000 dollars, from 13 columns of Adult. Synthetic tables of the training part are made in SQL, end to end,
under a policy with declared values and bounds, in which a row is an entity. A gradient-boosted tree and a logistic regression are
trained on each, and on the real training part, and tested on the real rows of the test part, which nothing else has seen. What is
printed is the area under the ROC curve, as a mean over runs with its spread: .5 is chance.

The file has the columns of UCI Adult, and `split`, which is 'train' or 'test'. scikit-learn is needed: pip install -e '.[bench]'.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from bench_clock import table

import dpsql
from dpsql.kernel.ledger import Ledger

NUMBERS = {"age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 100000), "capital_loss": (0, 4500), "hours_per_week": (1, 99)}
BINS = {"capital_gain": [0, 1, 3000, 5000, 7500, 15000, 100000], "capital_loss": [0, 1, 1500, 1800, 2000, 2300, 4500]}
TEXTS = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")
TARGET = "income"
METHODS, EPSILONS, DELTA = ("independent", "mst", "aim"), ("0.1", "1", "10"), "1e-9"


def policy(adult: str) -> str:
    """Values of texts are those of the whole file, which stands for what is public of them."""
    def values(column: str) -> list[str]:
        return sorted(value for value, in duckdb.sql(f"SELECT DISTINCT {column} FROM {adult}").fetchall())

    lines = [f'{name} = {{ bounds = {list(ends)}, nullable = false{f", bins = {BINS[name]}" if name in BINS else ""} }}'
             for name, ends in NUMBERS.items()]
    lines += [f"{name} = {{ values = {values(name)}, nullable = false }}" for name in (*TEXTS, TARGET)]
    told = "\n".join(lines)
    return f"""version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
source = "people.parquet"
key = "id"
[tables.people.columns]
id = {{}}
{told}
[budgets.main]
entity = "person"
epsilon = 1000
delta = 1e-3
"""


def synthetic(folder: Path, method: str, epsilon: str, run: int) -> pd.DataFrame:
    """The rows, by a new analyst each time: what one has measured before would be used again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each run's ledger is another
        connection = dpsql.connect(policy=folder / "dpsql.toml", analyst=f"{method}-{epsilon}-{run}")
    with connection:
        columns = ", ".join((*NUMBERS, *TEXTS, TARGET))
        return connection.synthesize(f"SELECT {columns} FROM people", name="made", method=method, epsilon=Decimal(epsilon),
                                     delta=Decimal(DELTA)).df()


def areas(training: pd.DataFrame, test: pd.DataFrame) -> list[float]:
    """The area under the ROC curve of each classifier."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    texts, numbers = list(TEXTS), list(NUMBERS)
    known = [sorted(set(training[name]) | set(test[name])) for name in texts]
    trees = make_pipeline(
        make_column_transformer((OrdinalEncoder(categories=known), texts), (StandardScaler(), numbers)),
        HistGradientBoostingClassifier(random_state=0, categorical_features=range(len(texts))))
    linear = make_pipeline(
        make_column_transformer((OneHotEncoder(categories=known), texts), (StandardScaler(), numbers)), LogisticRegression(max_iter=2000))
    target, truth = training[TARGET] == ">50K", test[TARGET] == ">50K"
    if target.nunique() < 2:
        return [0.5, 0.5]
    return [float(roc_auc_score(truth, model.fit(training, target).predict_proba(test)[:, 1])) for model in (trees, linear)]


def lines(folder: Path, test: pd.DataFrame, real: pd.DataFrame, runs: int, methods: list[str], epsilons: list[str]) -> Iterator[list[str]]:
    shown = [f"{area:.3f}" for area in areas(real, test)]
    yield ["real rows", "", *shown, ""]
    for method in methods:
        for epsilon in epsilons:
            start, found = time.process_time(), []
            made = [synthetic(folder, method, epsilon, run) for run in range(runs)]
            seconds = (time.process_time() - start) / runs
            found = [areas(rows, test) for rows in made]
            yield [method, epsilon, *(spread(np.array(column)) for column in zip(*found, strict=True)), f"{seconds:.1f}"]


def spread(found: Any) -> str:
    return f"{found.mean():.3f}" + (f" ± {found.std(ddof=1):.3f}" if len(found) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--adult", type=Path, default=Path("adult.parquet"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of the training part (default: all)")
    parser.add_argument("--epsilon", action="append", help="the price of a table; may be repeated (default: 0.1, 1 and 10)")
    parser.add_argument("--method", action="append", help="may be repeated (default: independent, mst and aim)")
    options = parser.parse_args()
    if not options.adult.exists():
        print(f"{options.adult} is not here")
        return
    adult = f"'{options.adult.absolute()}'"
    columns = ", ".join((*NUMBERS, *TEXTS, TARGET))
    real, test = (duckdb.sql(f"SELECT {columns} FROM {adult} WHERE split = '{part}'{limit}").df()
                  for part, limit in (("train", f" LIMIT {options.rows}" if options.rows else ""), ("test", "")))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect() as engine:
            engine.register("real", real)
            engine.execute(f"COPY (SELECT row_number() OVER () AS id, * FROM real) TO '{folder / 'people.parquet'}' (FORMAT PARQUET)")
        (folder / "dpsql.toml").write_text(policy(adult), encoding="utf-8")
        Ledger.create(folder / "dpsql.ledger", None).close()
        print(table(f"{len(real)} rows to train, {len(test)} to test; {options.runs} runs, delta = {DELTA}: area under the ROC curve",
                    ["trained on", "epsilon", "boosted trees", "logistic regression", "CPU s"],
                    list(lines(folder, test, real, options.runs, options.method or list(METHODS),
                               options.epsilon or list(EPSILONS)))))


if __name__ == "__main__":
    main()
