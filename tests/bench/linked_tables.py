"""Errors of synthetic tables that hang together, beside independent ones joined at random, and beside the data drawn again.

    python tests/bench/linked_tables.py
    python tests/bench/linked_tables.py --data made --epsilon 1 --runs 3

The data are people of the demo with their years, or `made`: accounts with up to six payments, whose kind and size are alike within
an account. Each line of the table is a mean over `runs` statements, with the kernel's noise. Errors are total variation distances:
means over all columns, or all pairs of columns, of

    parents     one table: single columns, and pairs
    children    the other: single columns, and pairs
    across      a column of the parent and one of the child, in the join
    next        a column of a row, and one of the next row of the same parent
    over next   the same of a row and the second one after it
    rows        how many rows a parent has

`averages` is the mean distance of a join query's groups, in shares of the true values: the average of two columns of the child by one
of the parent. Independent tables have half of the price each, and every row of the child gets a parent at random.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_clock import table

sys.path.insert(0, str(Path(__file__).parents[1]))

import dpsql
from dpsql.demo.folder import export
from dpsql.kernel.ledger import Ledger
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.synthetic_table import SyntheticTable

HEAD = ["", "epsilon", "parents 1", "2", "children 1", "2", "across", "next", "over next", "rows", "averages", "seconds"]


@dataclass(frozen=True, kw_only=True)
class Data:
    """A parent and a child table with the columns that are drawn; `order` is the child's column that tells a parent's rows apart."""

    policy: Path
    budget: str
    key: str
    parents: pd.DataFrame
    children: pd.DataFrame
    names: tuple[str, str]
    order: str
    asked: tuple[str, tuple[str, str]]

    def query(self, at: int) -> str:
        frame = (self.parents, self.children)[at]
        return f"SELECT {', '.join(frame.columns)} FROM {self.names[at]}"


def demo(folder: Path) -> Data:
    policy = export(folder / "demo")
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("epsilon = 10\ndelta = 1e-6", "epsilon = 1000\ndelta = 1e-3").replace(
        "per_analyst = { epsilon = 5, delta = 1e-6 }", ""), encoding="utf-8")
    parents = ["person_id", "site", "coinsurance", "health", "female", "income"]
    children = ["person_id", "year", "age", "medical_dollars", "md_visits", "admissions"]
    return Data(policy=policy, budget="study", key="person_id", names=("people", "person_years"), order="year",
                parents=pd.read_parquet(policy.parent / "people.parquet")[parents],
                children=pd.read_parquet(policy.parent / "person_years.parquet")[children], asked=("health", ("admissions", "md_visits")))


def made(folder: Path, number: int = 8000) -> Data:
    """Accounts in regions. Their kind and wealth, which are not in the data, decide on all of their payments."""
    draws = np.random.default_rng(3)
    region, kind = draws.integers(0, 6, number), draws.integers(0, 4, number)
    wealth = np.clip(draws.normal(2 + kind, 1), 0, 7.99)
    segment = np.where(draws.random(number) < 0.8, kind, draws.integers(0, 4, number))
    rows = np.clip(draws.poisson(1.5 + kind / 2), 0, 6)
    parents = pd.DataFrame({"account": np.arange(number), "region": region, "segment": segment, "wealth": np.floor(wealth).astype(int)})
    account = np.repeat(np.arange(number), rows)
    place = np.concatenate([np.arange(count) for count in rows])
    purpose = np.where(draws.random(len(account)) < 0.85, kind[account], draws.integers(0, 8, len(account)))
    amount = np.clip(100 * wealth[account] + draws.normal(0, 60, len(account)), 0, 999)
    late = draws.random(len(account)) < 0.05 + 0.4 * (wealth[account] < 1.5)
    children = pd.DataFrame({"account": account, "number": place + 1, "purpose": purpose, "amount": amount, "late": late})
    parents.to_parquet(folder / "accounts.parquet")
    children.to_parquet(folder / "payments.parquet")
    policy = folder / "made.toml"
    policy.write_text("""version = 1
[entities.account]
table = "accounts"
key = "account"
[tables.accounts]
key = "account"
source = "accounts.parquet"
[tables.accounts.columns]
account = {}
region = { range = [0, 5], nullable = false }
segment = { range = [0, 3], nullable = false }
wealth = { range = [0, 7], nullable = false }
[tables.payments]
key = ["account", "number"]
source = "payments.parquet"
foreign_keys = [{ columns = "account", references = "accounts(account)" }]
rows_per_entity = 6
[tables.payments.columns]
account = {}
number = { range = [1, 6], nullable = false }
purpose = { range = [0, 7], nullable = false }
amount = { bounds = [0, 1000], nullable = false }
late = { nullable = false }
[budgets.all]
entity = "account"
epsilon = 1000
delta = 1e-3
""", encoding="utf-8")
    return Data(policy=policy, budget="all", key="account", names=("accounts", "payments"), order="number", parents=parents,
                children=children, asked=("segment", ("amount", "late")))


@dataclass(frozen=True)
class Pair:
    """A parent and a child table, as drawn or private."""

    parents: pd.DataFrame
    children: pd.DataFrame


def linked(data: Data, connection: dpsql.Connection, epsilon: float) -> tuple[Pair, dict[str, CountedValues]]:
    database = connection.synthesize({"parents_syn": data.query(0), "children_syn": data.query(1)}, epsilon=epsilon, delta=1e-7, bins=32)
    first, second = database.tables
    return Pair(first.df(), second.df()), counted(first, second)


def counted(*tables: SyntheticTable) -> dict[str, CountedValues]:
    return {column.name: column.counted for each in tables for column in each.columns if column.counted is not None}


def apart(data: Data, connection: dpsql.Connection, epsilon: float, draws: np.random.Generator) -> Pair:
    columns = [[name for name in frame.columns if name != data.key] for frame in (data.parents, data.children)]
    frames = [connection.synthesize(f"SELECT {', '.join(columns[at])} FROM {data.names[at]}", name=f"apart_{at}", epsilon=epsilon / 2,
                                    delta=5e-8, bins=32).df() for at in (0, 1)]
    frames[0].insert(0, data.key, np.arange(len(frames[0])))
    frames[1].insert(0, data.key, draws.integers(0, len(frames[0]), len(frames[1])))
    return Pair(*frames)


def again(data: Data, draws: np.random.Generator) -> Pair:
    """As many parents with their rows, drawn from the data with replacement."""
    chosen = draws.choice(data.parents[data.key].to_numpy(), len(data.parents))
    numbered = pd.DataFrame({data.key: chosen, "new": np.arange(len(chosen))})
    frames = [numbered.merge(frame, on=data.key).drop(columns=data.key).rename(columns={"new": data.key})
              for frame in (data.parents, data.children)]
    return Pair(*frames)


def distance(one: Sequence[np.ndarray[Any, Any]], other: Sequence[np.ndarray[Any, Any]], sizes: Sequence[int]) -> float:
    """The total variation distance of the joint shares of some columns of places."""
    shares = [np.bincount(np.ravel_multi_index(tuple(columns), tuple(sizes)), minlength=int(np.prod(sizes))) / max(len(columns[0]), 1)
              for columns in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def errors(data: Data, drawn: Pair, lists: dict[str, CountedValues]) -> list[float]:
    """The columns of the table, from `parents 1` to `averages`."""
    both = [_coded(data, pair, lists) for pair in (Pair(data.parents, data.children), drawn)]
    size = {name: each.size for name, each in lists.items()}
    above, below = ([name for name in frame.columns if name in lists] for frame in (data.parents, data.children))

    def mean(at: int, groups: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> float:
        return float(np.mean([distance(*([each[at][name] for name in names] for each in both), [size[name.partition(" ")[0]] for name in names])
                              for names in groups]))

    found = [mean(0, [(name,) for name in above]), mean(0, list(combinations(above, 2))), mean(1, [(name,) for name in below]),
             mean(1, list(combinations(below, 2))), mean(1, list(product(above, below)))]
    for step in (2, 3):
        found.append(mean(step, [(one, f"{other} after") for one, other in product(below, below)]))
    most = max(int(each[4].max()) for each in both) + 1
    found.append(distance([both[0][4]], [both[1][4]], [most]))
    return [*found, _averages(data, drawn)]


def _coded(data: Data, pair: Pair, lists: dict[str, CountedValues]) -> tuple[Any, ...]:
    """Places of the parents; of the joined rows; of rows beside the next one and beside the second next; and numbers of rows."""
    parents, children = (frame.assign(**{name: lists[name].places(frame[name].tolist()) for name in frame.columns if name in lists})
                         for frame in (pair.parents, pair.children))
    joined = children.merge(parents, on=data.key).sort_values([data.key, data.order], kind="stable")
    ranked = joined.assign(place=joined.groupby(data.key).cumcount())
    pairs = [ranked.merge(ranked.assign(place=ranked.place - step), on=[data.key, "place"], suffixes=("", " after")) for step in (1, 2)]
    rows = np.bincount(parents[data.key].map(children[data.key].value_counts()).fillna(0).astype(int))
    counts = np.repeat(np.arange(len(rows)), rows)
    return ({name: parents[name].to_numpy() for name in parents}, {name: joined[name].to_numpy() for name in joined},
            *({name: each[name].to_numpy() for name in each} for each in pairs), counts)


def _averages(data: Data, drawn: Pair) -> float:
    by, names = data.asked
    means = [pair.children.merge(pair.parents, on=data.key).groupby(by)[list(names)].mean() for pair in (Pair(data.parents, data.children), drawn)]
    return float((np.abs(means[1].reindex(means[0].index).fillna(0) - means[0]) / means[0]).to_numpy().mean())


def lines(data: Data, epsilons: Sequence[float], runs: int, folder: Path) -> Iterator[list[str]]:
    lists: dict[str, CountedValues] = {}
    for epsilon in epsilons:
        found: dict[str, list[list[float]]] = {"linked": [], "apart": []}
        for run in range(runs):
            ledger = folder / f"{epsilon}-{run}.ledger"
            Ledger.create(ledger, None).close()
            with dpsql.connect(policy=data.policy, budget=data.budget, analyst=f"run{run}", ledger=ledger) as connection:
                start = time.process_time()
                pair, lists = linked(data, connection, epsilon)
                found["linked"].append([*errors(data, pair, lists), time.process_time() - start])
                start = time.process_time()
                pair = apart(data, connection, epsilon, np.random.default_rng(run))
                found["apart"].append([*errors(data, pair, lists), time.process_time() - start])
        for name, told in (("tables that hang together", "linked"), ("independent, joined at random", "apart")):
            yield [name, f"{epsilon:g}", *_shown(found[told])]
    yield ["the data drawn again", "", *_shown([[*errors(data, again(data, np.random.default_rng(run)), lists), 0.0] for run in range(runs)])]


def _shown(found: list[list[float]]) -> list[str]:
    *means, seconds = np.mean(found, axis=0)
    return [*(f"{mean:.4f}".lstrip("0") for mean in means), f"{seconds:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=("demo", "made"), default="demo")
    parser.add_argument("--epsilon", default="0.5,1,4")
    parser.add_argument("--runs", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = {"demo": demo, "made": made}[chosen.data](Path(name))
        print(table(f"{len(data.parents)} {data.names[0]} with {len(data.children)} {data.names[1]}: total variation distance", HEAD,
                    list(lines(data, [float(each) for each in chosen.epsilon.split(",")], chosen.runs, Path(name)))))


if __name__ == "__main__":
    main()
