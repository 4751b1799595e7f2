"""Runs one method of another program for `synthetic.py`, in an environment of its own: reads a task as JSON and writes the drawn rows with
CPU seconds and memory.

Each gets public sizes or bounds of the columns, and (epsilon, delta). DataSynthesizer knows no delta, infers domains from the rows, and
spends twice the epsilon that it is given in its correlated mode; it gets half of it here.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

Task = dict[str, Any]
PART = 0.1  # of epsilon, for the bins of dpmm
ITERATIONS, SHORT = 500, 200  # of fits, and of those between the rounds of AIM


def sizes_of(task: Task) -> dict[str, int]:
    return {column["name"]: column["size"] for column in task["columns"]}


def dpmm_model(task: Task) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a model of dpmm."""
    name = task["line"].split(",")[0].split()[0]
    columns = len(task["columns"])
    return name, {
        "MST": {"n_iters": ITERATIONS}, "AIM": {"degree": 3, "rounds": 2 * columns, "max_model_size": 1, "n_iters": SHORT},
        "PrivBayes": {"degree": 1, "n_iters": ITERATIONS}}[name]


def end_early() -> None:
    """Let dpmm choose the tree of MST after as many iterations as other fits take; its own 2,500 are spent in vain searches of a step."""
    from dpmm.models import mst

    class Fit(mst.FactoredInference):  # type: ignore[name-defined,misc]
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.iters = min(self.iters, ITERATIONS)

    mst.FactoredInference = Fit


def by_dpmm(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    end_early()
    name, settings = dpmm_model(task)
    made: Any = {"MST": MSTGM, "AIM": AIMGM, "PrivBayes": PrivBayesGM}[name]
    model = made(epsilon=task["epsilon"], delta=task["delta"], n_jobs=1, **settings)
    model.set_domain(sizes_of(task))
    model.set_random_state(np.random.RandomState(task["seed"]))
    model.check_fit(frame)
    model.fit(frame)
    return model.generate(n_records=len(frame))


def by_dpmm_in_own_bins(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from dpmm.pipelines.aim import AIMPipeline
    from dpmm.pipelines.mst import MSTPipeline

    end_early()
    name, settings = dpmm_model(task)
    size = {"max_model_size": settings.pop("max_model_size")} if "max_model_size" in settings else {}
    pipeline = {"MST": MSTPipeline, "AIM": AIMPipeline}[name](
        epsilon=(1 - PART) * task["epsilon"], proc_epsilon=PART * task["epsilon"], delta=task["delta"], n_jobs=1, gen_kwargs=settings, **size)
    named, domain = dict[str, str](), dict[str, Any]()
    for column in task["columns"]:
        if column["is_number"]:
            domain[column["name"]] = {"lower": column["low"], "upper": column["high"]}
        else:
            domain[column["name"]] = {"categories": [str(value) for value in range(column["values"])]}
            named[column["name"]] = "category"
    pipeline.fit(frame.astype(named), domain=domain, random_state=np.random.RandomState(task["seed"]))
    return pipeline.generate(n_records=len(frame), random_state=np.random.RandomState(task["seed"]))


def by_private_pgm(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    """The MST of private-pgm's repository, which its package does not contain, over the package. A third of rho each is for single
    columns, for the choice of the tree, and for its pairs."""
    from mbi import Dataset, Domain, LinearMeasurement, estimation
    from mbi.marginal_loss import WeightedQuery

    draws, names = np.random.default_rng(task["seed"]), list(frame.columns)
    sigma = float(np.sqrt(3 / (2 * task["rho"])))
    one, two = sigma * np.sqrt(len(names)), sigma * np.sqrt(len(names) - 1)
    common, sizes, told = dict[str, Any](), dict[str, int](), list[Any]()
    for name, size in sizes_of(task).items():  # values with small counts are merged
        counts = np.bincount(frame[name], minlength=size) + draws.normal(0, one, size)
        is_common = counts >= 3 * one
        common[name], merged = np.flatnonzero(is_common), int((~is_common).sum())
        sizes[name] = len(common[name]) + (merged > 0)
        weights = np.array([1.0] * len(common[name]) + [max(merged, 1) ** -0.5] * (merged > 0))
        short = np.append(counts[is_common], [counts[~is_common].sum()] * (merged > 0))
        told.append(LinearMeasurement(short * weights, (name,), one, WeightedQuery(weights)))
    rows = Dataset({name: _places(frame[name].to_numpy(), common[name]) for name in names}, Domain.fromdict(sizes))

    def counts_of(clique: tuple[str, ...]) -> Any:
        return np.asarray(rows.project(clique).datavector())

    shares = {measured.clique[0]: np.maximum(np.asarray(measured.noisy_measurement) / measured.query.weights, 0) for measured in told}
    scores = {(a, b): np.abs(counts_of((a, b)) - len(frame) * np.outer(shares[a] / shares[a].sum(), shares[b] / shares[b].sum()).ravel()).sum()
              for a, b in combinations(names, 2)}
    groups, epsilon = {name: {name} for name in names}, np.sqrt(8 * task["rho"] / 3 / (len(names) - 1))
    while any(len(group) < len(names) for group in groups.values()):
        open_pairs = [(a, b) for a, b in scores if b not in groups[a]]
        a, b = open_pairs[int(np.argmax([scores[pair] * epsilon / 2 + draws.gumbel() for pair in open_pairs]))]
        for name in (joined := groups[a] | groups[b]):
            groups[name] = joined
        told.append(LinearMeasurement(counts_of((a, b)) + draws.normal(0, two, sizes[a] * sizes[b]), (a, b), two))
    model = estimation.MirrorDescent().estimate(rows.domain, told, iters=ITERATIONS)
    drawn = model.synthetic_data(len(frame)).to_dict()
    return pd.DataFrame({name: _values(np.asarray(drawn[name]), common[name], size, draws) for name, size in sizes_of(task).items()})


def _places(codes: Any, common: Any) -> Any:
    """Codes as places in the list of common ones, or after it."""
    places = np.full(max(int(codes.max(initial=0)), int(common.max(initial=0))) + 1, len(common))
    places[common] = np.arange(len(common))
    return places[codes]


def _values(places: Any, common: Any, size: int, draws: np.random.Generator) -> Any:
    """The codes again; one of the merged ones at random."""
    merged = np.setdiff1d(np.arange(size), common)
    return np.where(places < len(common), np.append(common, 0)[places], draws.choice(merged, len(places)) if len(merged) else 0)


def by_privsyn(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from privsyn import PrivSynModel

    model = PrivSynModel(epsilon=task["epsilon"], delta=task["delta"], random_state=task["seed"])
    return model.fit(frame, sizes_of(task)).sample(len(frame))


def by_smartnoise(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from snsynth import Synthesizer
    from snsynth.transform.table import TableTransformer

    name, sizes = task["line"].split(",")[0].lower(), sizes_of(task)
    public = pd.DataFrame({column: np.arange(max(sizes.values())) % size for column, size in sizes.items()})
    transformer = TableTransformer.create(public, style="cube", categorical_columns=list(sizes))
    transformer.fit(public)
    settings = {"MWEM": {"split_factor": 3}, "AIM": {"delta": task["delta"], "degree": 3, "rounds": 2 * len(sizes), "max_model_size": 1}}
    model = Synthesizer.create(name, epsilon=task["epsilon"], **settings.get(name.upper(), {"delta": task["delta"]}))
    model.fit(frame, transformer=transformer)
    return pd.DataFrame(model.sample(len(frame)), columns=list(sizes))


def by_datasynthesizer(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from DataSynthesizer.DataDescriber import DataDescriber
    from DataSynthesizer.DataGenerator import DataGenerator

    with tempfile.TemporaryDirectory() as folder:
        source, told = f"{folder}/rows.csv", f"{folder}/told.json"
        frame.to_csv(source, index=False)
        describer, generator = DataDescriber(category_threshold=1000), DataGenerator()
        describer.describe_dataset_in_correlated_attribute_mode(
            source, k=1, epsilon=task["epsilon"] / 2, seed=task["seed"], attribute_to_is_categorical=dict.fromkeys(frame.columns, True),
            attribute_to_datatype=dict.fromkeys(frame.columns, "Integer"))
        describer.save_dataset_description_to_file(told)
        generator.generate_dataset_in_correlated_attribute_mode(len(frame), told, seed=task["seed"])
        return generator.synthetic_dataset


def by_sdv(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    kinds = {column["name"]: {"sdtype": "numerical" if column["is_number"] else "categorical"} for column in task["columns"]}
    model = GaussianCopulaSynthesizer(Metadata.load_from_dict({"tables": {"rows": {"columns": kinds}}}))
    model.fit({"rows": frame})
    return model.sample(len(frame))["rows"]


PEERS: dict[str, tuple[Callable[[pd.DataFrame, Task], pd.DataFrame], bool]] = {  # whether it takes numbers and names, or codes
    "PrivTree's bins, dpmm": (by_dpmm_in_own_bins, True), "dpmm": (by_dpmm, False), "private-pgm": (by_private_pgm, False),
    "privsyn-core": (by_privsyn, False), "smartnoise": (by_smartnoise, False), "DataSynthesizer": (by_datasynthesizer, False),
    "SDV": (by_sdv, True)}


def given(task: Task, takes_numbers: bool) -> pd.DataFrame:
    """The rows; with numbers, categories are the names of their codes."""
    names, rows = [column["name"] for column in task["columns"]], np.load(task["rows"])
    if not takes_numbers:
        return pd.DataFrame(rows, columns=names)
    return pd.DataFrame({column["name"]: cells if column["is_number"] else
                         pd.Series([None if cell != cell else str(int(cell)) for cell in cells], dtype=object)
                         for column, cells in zip(task["columns"], rows.T, strict=True)})


def main() -> None:
    task: Task = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_CPU, (task["patience"], task["patience"] + 5))
    make, takes_numbers = next(found for ending, found in PEERS.items() if task["line"].endswith(ending))
    frame = given(task, takes_numbers)
    start = time.process_time()
    drawn = make(frame, task)
    took = time.process_time() - start
    cells = drawn[list(frame.columns)].apply(pd.to_numeric).to_numpy(dtype=float, na_value=np.nan)
    np.savez_compressed(Path(task["drawn"]), drawn=cells if takes_numbers else cells.astype(np.int64), cpu=took,
                        mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
