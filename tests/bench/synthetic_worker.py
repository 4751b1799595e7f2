"""Runs one other program of `synthetic.py`, in an environment of its own: reads a task as JSON, writes the drawn table, and
prints its CPU seconds and memory as JSON.

Each gets a table of whole numbers with known sizes, and (epsilon, delta). DataSynthesizer knows no delta, infers domains from the
rows, and spends twice the epsilon that it is given in its correlated mode; it gets half of it here.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

Task = dict[str, Any]


def by_dpmm(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    price = {"epsilon": task["epsilon"], "delta": task["delta"], "n_jobs": 1}
    makers: dict[str, Callable[[], Any]] = {
        "MST": lambda: MSTGM(**price), "AIM": lambda: AIMGM(**price, degree=3, rounds=2 * len(frame.columns), max_model_size=1, n_iters=200),
        "PrivBayes": lambda: PrivBayesGM(**price, degree=1)}
    model = makers[task["method"]]()
    model.set_domain(dict(task["sizes"]))
    model.set_random_state(np.random.RandomState(task["seed"]))
    model.check_fit(frame)
    model.fit(frame)
    found: pd.DataFrame = model.generate(n_records=len(frame))
    return found


def by_privsyn(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    from privsyn import PrivSynModel

    model = PrivSynModel(epsilon=task["epsilon"], delta=task["delta"], random_state=task["seed"])
    found: pd.DataFrame = model.fit(frame, dict(task["sizes"])).sample(len(frame))
    return found


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
        found: pd.DataFrame = generator.synthetic_dataset
        return found


PEERS = {"dpmm": by_dpmm, "privsyn-core": by_privsyn, "DataSynthesizer": by_datasynthesizer}


def main() -> None:
    task: Task = json.loads(sys.stdin.read())
    frame = pd.DataFrame(np.load(task["table"]), columns=list(task["sizes"]))
    start = time.process_time()
    drawn = PEERS[task["peer"]](frame, task)
    took = time.process_time() - start
    np.save(Path(task["drawn"]), drawn[list(frame.columns)].astype(np.int64).to_numpy())
    print("\n" + json.dumps({"cpu": took, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
