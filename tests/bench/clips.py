"""How far SUM and AVG are off where totals of entities have heavy tails, beside the best clip in hindsight.

    python tests/bench/clips.py --entities 4000 --runs 40 --adult adult.parquet

`rows` keeps a limit of rows, each at its declared bound; `clip` scales totals down to a limit that is learned; `default` is what is
chosen. Each is told as root mean square errors in those of the best clip in hindsight: the limit for which what is cut off and
noise that the whole price buys are smallest together, if it were known and cost nothing. `off` is that error in percent of the truth.
`at least` says how many of the 95 % intervals of `default` hold the truth.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import table
from bench_data import answers_of

from dpsql.answers.answer import Answer
from dpsql.frozen import Frozen

POLICY = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {{}}
[tables.payments]
foreign_keys = [{{ columns = "id", references = "people(id)" }}]
{limit}
[tables.payments.columns]
id = {{}}
amount = {{ bounds = [0, {bound}], decimals = 2, nullable = false }}
[budgets.person]
entity = "person"
rho = 1000
delta = 0.1
"""
HEADS = ("table", "limit of rows", "asked", "truth", "off, %", "rows", "clip", "default", "at least")
LIMIT = 60


class Payments(Frozen):
    """Whose rows they are, what is paid, and the bound that is declared."""

    name: str
    owners: np.ndarray
    amounts: np.ndarray
    bound: float


def tables(entities: int, adult: Path | None, *, seed: int = 5) -> Iterator[Payments]:
    draw = np.random.default_rng(seed)
    rows = np.minimum(draw.geometric(0.2, entities), LIMIT)
    owners, many = np.repeat(np.arange(entities), rows), int(rows.sum())
    yield Payments(name="lognormal, sigma 2", owners=owners, amounts=draw.lognormal(4, 2, many), bound=1e6)
    yield Payments(name="Pareto 1.5", owners=owners, amounts=10 * (1 + draw.pareto(1.5, many)), bound=1e6)
    yield Payments(name="mixed", owners=owners, bound=1e6, amounts=np.where(
        draw.random(many) < 0.02, draw.exponential(2e4, many), draw.exponential(50, many)))
    for column, bound in (("medical_dollars", 5000), ("outpatient_dollars", 2000)):
        found = duckdb.sql(f"SELECT person_id, {column} FROM '{files('dpsql.demo') / 'person_years.parquet'}'").fetchnumpy()
        yield Payments(name=f"demo, {column}", owners=found["person_id"], amounts=found[column], bound=bound)
    if adult is not None:
        found = duckdb.sql(f"SELECT * FROM '{adult}'").fetchnumpy()
        name = next(column for column in found if column.replace("-", "_").replace(".", "_") == "capital_gain")
        amounts = np.asarray(found[name], dtype=float)
        yield Payments(name="Adult, capital_gain", owners=np.arange(len(amounts)), amounts=amounts, bound=99_999)


def hindsight(given: Payments, *, mean: bool) -> tuple[float, float]:
    """The truth of SUM or AVG, and the error of the best clip of totals (for AVG, with rows known)."""
    _, places = np.unique(given.owners, return_inverse=True)
    totals = np.bincount(places, weights=np.clip(given.amounts, 0, given.bound))
    limits = np.unique(np.quantile(totals, np.linspace(0.2, 1, 400)))
    errors = [math.hypot(np.maximum(totals - limit, 0).sum(), limit * math.sqrt(2)) for limit in limits]
    rows = len(given.amounts) if mean else 1
    return float(totals.sum()) / rows, min(errors) / rows


def stored(given: Payments, folder: Path) -> Path:
    path = folder / "payments.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        held = {"id": np.asarray(given.owners, dtype=np.int64), "amount": np.asarray(given.amounts, dtype=float)}
        for name, values in held.items():
            connection.execute(f"CREATE TABLE {name}_ AS SELECT row_number() OVER () AS r, x AS {name} FROM (SELECT unnest(?) AS x)",
                               [values.tolist()])
        connection.execute("CREATE TABLE payments AS SELECT id, amount FROM id_ JOIN amount_ USING (r)")
        connection.execute("CREATE TABLE people AS SELECT DISTINCT id FROM payments")
    return path


def error(found: list[Answer], truth: float) -> float:
    return math.sqrt(np.mean([(float(one.rows[0][0]) - truth) ** 2 for one in found]))


def report(entities: int, runs: int, adult: Path | None, folder: Path) -> list[list[str]]:
    lines = []
    for given in tables(entities, adult):
        path = stored(given, folder)
        limits = {"not declared": "", f"{LIMIT}": f"rows_per_entity = {LIMIT}"}
        for limit, line in limits.items():
            policy = POLICY.format(limit=line, bound=given.bound)
            for asked in ("SUM", "AVG"):
                truth, best = hindsight(given, mean=asked == "AVG")
                found = {bound: answers_of(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = '{bound}') {asked}(amount) FROM payments",
                                           path, policy, runs) for bound in ("rows", "clip", "auto")}
                ends = [one.intervals[0][0] for one in found["auto"]]
                covered = np.mean([pair is not None and pair[0] <= truth <= pair[1] for pair in ends])
                lines.append([given.name, limit, asked, f"{truth:.4g}", f"{100 * best / truth:.2f}",
                              *(f"{error(each, truth) / best:.2f}" for each in found.values()), f"{100 * covered:.0f} %"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--adult", type=Path, help="a Parquet file of the Adult data with a column capital_gain")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        lines = report(given.entities, given.runs, given.adult, Path(folder))
    print(table(f"{given.entities} entities, epsilon = 1, {given.runs} runs", HEADS, lines))


if __name__ == "__main__":
    main()
