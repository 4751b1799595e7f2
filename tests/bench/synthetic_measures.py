"""What `synthetic.py` measures of a table that was drawn, beside the real rows.

    1-way ...  the total variation distance of marginals of so many columns, mean over all. Numbers are counted in ten parts, between
               quantiles of the real rows: one coding for all methods
    means      how far means of numbers are off, in standard deviations of the real column; mean over columns
    quantiles  the same for the quantiles .1, .25, .5, .75 and .9
    corr.      how far correlations are off, mean over all pairs of numbers
    strong     the same over pairs that really correlate by .2 or more
    coef.      how far coefficients of a linear regression are off, in standard errors of the fit to the real rows: the median
    worst      the largest
    AUC        of a classifier that was trained on the drawn rows, where it meets real rows that were held back
    broken     the share of rows that break a rule which all real rows fulfil
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from synthetic_tables import BenchColumn, BenchTable, Floats, broken_by, fulfilled

from dpsql.frozen import Frozen
from dpsql.models.table_domain import TableDomain

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.coded_tables import total_variation

PARTS, STRONG = 10, 0.2
QUANTILES = 0.1, 0.25, 0.5, 0.75, 0.9


class Measure(Frozen):
    name: str
    decimals: int
    best: Literal["least", "most"] = "least"
    of_programs: bool = False  # a matter of the program, compared with other programs only


MEASURES = (Measure(name="1-way", decimals=4), Measure(name="2-way", decimals=4), Measure(name="3-way", decimals=4),
            Measure(name="means", decimals=3), Measure(name="quantiles", decimals=3), Measure(name="corr.", decimals=3),
            Measure(name="strong", decimals=3), Measure(name="coef.", decimals=1), Measure(name="worst", decimals=1),
            Measure(name="AUC", decimals=3, best="most"), Measure(name="broken", decimals=3),
            Measure(name="CPU s", decimals=1, of_programs=True), Measure(name="MB", decimals=0, of_programs=True))


class Classifier(AbstractContextManager["Classifier"]):
    """A process of an environment with scikit-learn, which trains and tests classifiers."""

    def __init__(self, python: Path) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="dpsql-bench-")
        self.process = subprocess.Popen(
            [python, Path(__file__).with_name("synthetic_classifier.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def area(self, table: BenchTable, drawn: pd.DataFrame) -> float:
        """The area under the curve in the rows that were held back."""
        assert table.held is not None and table.classes is not None and self.process.stdin is not None and self.process.stdout is not None
        kept = [at for at, column in enumerate(table.columns) if column.name != table.classes.column]
        paths = {}
        for part, rows in {"train": drawn, "test": table.held}.items():
            paths[part] = str(Path(self.folder.name, f"{part}.npz"))
            np.savez(paths[part], rows=table.floats(rows)[:, kept], classes=fulfilled(table, rows, table.classes.when))
        task = {**paths, "categories": [not table.columns[at].is_number for at in kept]}
        self.process.stdin.write(msgspec.json.encode(task).decode() + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        self.process.communicate()
        self.folder.cleanup()


def measured(table: BenchTable, drawn: pd.DataFrame, classifier: Classifier | None) -> dict[str, float]:
    """All measures of the drawn rows that the table has."""
    floats = table.floats(drawn)
    found = _distances(table, floats)
    if table.numbers:
        found |= _of_numbers(table, floats)
    if len(table.numbers) > 1:
        found |= _of_correlations(table, floats)
    if table.regression is not None:
        off = np.abs(_coefficients(table, floats)[0] - _once(table, "fit", lambda: _coefficients(table, table.real))[0])
        off /= table.kept["fit"][1]
        found |= {"coef.": float(np.median(off)), "worst": float(off.max())}
    if table.classes is not None and table.held is not None and classifier is not None:
        found["AUC"] = classifier.area(table, drawn)
    if table.rules:
        found["broken"] = float(np.mean(np.any([broken_by(table, drawn, rule) for rule in table.rules], axis=0)))
    return found


def _once(table: BenchTable, name: str, compute: Callable[[], Any]) -> Any:
    """What is computed of the real rows, the first time."""
    if name not in table.kept:
        table.kept[name] = compute()
    return table.kept[name]


def _distances(table: BenchTable, drawn: Floats) -> dict[str, float]:
    cuts = _once(table, "cuts", lambda: [_cuts(column, table.real[:, at]) for at, column in enumerate(table.columns)])
    domain = TableDomain(tuple(column.name for column in table.columns), tuple(len(each) + 2 for each in cuts))
    real = _once(table, "places", lambda: _places(table.real, cuts))
    return {f"{size}-way": total_variation(domain, real, _places(drawn, cuts), size) for size in range(1, min(3, len(table.columns)) + 1)}


def _cuts(column: BenchColumn, real: Floats) -> Floats:
    """What separates the values that are counted together: halves between categories, some quantiles of many numbers."""
    if not column.is_number:
        return np.arange(len(column.values) - 1) + 0.5
    numbers = np.unique(real[~np.isnan(real)])
    if len(numbers) <= PARTS:
        return np.asarray((numbers[1:] + numbers[:-1]) / 2)
    return np.unique(np.nanquantile(real, np.arange(1, PARTS) / PARTS, method="inverted_cdf"))


def _places(floats: Floats, cuts: list[Floats]) -> NDArray[np.int64]:
    """The part of each value; NULL has one of its own."""
    return np.stack([np.where(np.isnan(column), len(each) + 1, np.searchsorted(each, column)) for column, each in zip(floats.T, cuts, strict=True)], axis=1)


def _of_numbers(table: BenchTable, drawn: Floats) -> dict[str, float]:
    means, quantiles = [], []
    for at in table.numbers:
        real, made = (column[~np.isnan(column)] for column in (table.real[:, at], drawn[:, at]))
        made, scale = made if len(made) else np.array([table.columns[at].low]), real.std()
        means.append(abs(made.mean() - real.mean()) / scale)
        quantiles.append(np.abs(np.quantile(made, QUANTILES) - np.quantile(real, QUANTILES)).mean() / scale)
    return {"means": float(np.mean(means)), "quantiles": float(np.mean(quantiles))}


def _of_correlations(table: BenchTable, drawn: Floats) -> dict[str, float]:
    real = _once(table, "correlations", lambda: _correlations(table.real[:, table.numbers]))
    off = np.abs(_correlations(drawn[:, table.numbers]) - real)
    strong = np.abs(real) >= STRONG
    return {"corr.": float(off.mean())} | ({"strong": float(off[strong].mean())} if strong.any() else {})


def _correlations(numbers: Floats) -> Floats:
    """Of all pairs of columns, over rows where neither is NULL; a constant correlates with nothing."""
    found = pd.DataFrame(numbers).corr().fillna(0).to_numpy()
    return np.asarray(found[np.triu_indices(len(found), 1)])


def _coefficients(table: BenchTable, floats: Floats) -> tuple[Floats, Floats]:
    """The coefficients of the regression, without that of the constant, and their standard errors; categories are indicators."""
    assert table.regression is not None
    columns = {column.name: (column, floats[:, at]) for at, column in enumerate(table.columns)}
    used = np.all([~np.isnan(columns[name][1]) for name in (table.regression.target, *table.regression.on)], axis=0)
    parts = [np.ones(int(used.sum()))]
    for name in table.regression.on:
        column, cells = columns[name]
        parts += [cells[used]] if column.is_number else [cells[used] == place for place in range(1, len(column.values))]
    design, target = np.stack(parts, axis=1).astype(float), columns[table.regression.target][1][used]
    fitted, *_ = np.linalg.lstsq(design, target, rcond=None)
    left = target - design @ fitted
    spread = left @ left / max(len(target) - design.shape[1], 1)
    return fitted[1:], np.sqrt(np.maximum(np.diag(spread * np.linalg.pinv(design.T @ design)), 0))[1:]
