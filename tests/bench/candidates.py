"""How many criteria of acceptance synthetic tables meet, by the way in which candidates are made, at the same price.

    python tests/bench/candidates.py --runs 20 --price "epsilon = 4"

Criteria are about the people of the demo. A way takes the first of at most eight candidates whose answers are within the tolerance of
those that were measured with noise, or the closest. The columns of the table: in how many runs a candidate was taken so, in how many
all criteria hold for the private rows, the median of the largest error over its tolerance, and the mean total variation distance of
pairs of columns, of which some are in no criterion.

weighted          candidates of one model, the second and later ones with weights: `accept`
drawn again       the same without weights
one               one table, at the whole price
models            eight models, each for an eighth of what is spent on the one model
Liu and Talwar    in each run a new model and new answers to the criteria, for half of the price
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations, count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow
from bench_clock import table

import dpsql
from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.demo.folder import export
from dpsql.engine.acceptance_criteria import SHARE, MeasuredAnswers
from dpsql.engine.synthesizing import SynthesisStatement, synthesis
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.sql.text.parse import parse
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_plan import ModelledTable
from dpsql.workload.factors import Array

Columns = tuple[SyntheticColumn, ...]
CANDIDATES = 8
COLUMNS = ("health", "female", "income", "education_years", "plan")
CRITERIA = (("COUNT(*)", "female AND health = 'poor'", 25), ("COUNT(*)", "income > 15000", 40), ("AVG(income)", "female", 400),
            ("AVG(education_years)", "health = 'fair'", 0.6))
CUT = "health, female, FLOOR(income / 2500) AS income, FLOOR(education_years / 5) AS education_years, plan"
WIDER = 1000  # times a tolerance: so that no statement is refused for its price


class Measured(Frozen, eq=False):
    """A statement with its model and the answers to its criteria."""

    statement: SynthesisStatement
    modelled: ModelledTable
    known: MeasuredAnswers


class Bench:
    """A connection, and the private rows."""

    def __init__(self, folder: Path, spent: str, method: str) -> None:
        export(folder)
        ReportingLedger.create(folder / "bench.ledger", None).close()
        self.connection = dpsql.connect(policy=folder / "dpsql.toml", budget="study", analyst="ada", ledger=folder / "bench.ledger")
        self.rows, self.method, self.numbers, self.engine = f"'{folder / 'people.parquet'}'", method, count(1), duckdb.connect()
        name, amount = re.fullmatch(r"\s*(epsilon|rho)\s*=\s*(\S+)\s*", spent).groups()  # type: ignore[union-attr]
        self.name, self.amount = name, Fraction(amount)
        self.truth, self.pairs = self.answers(self.rows), self.shares(self.rows)
        self.tolerances = np.array([tolerance for *_, tolerance in CRITERIA])

    def measured(self, share: Fraction = Fraction(1)) -> Measured:
        """A model and criteria for a share of the price; nothing is charged that the bench would run out of."""
        accept = "; ".join(f"SELECT {what} FROM made WHERE {where} WITHIN {WIDER * tolerance:g}" for what, where, tolerance in CRITERIA)
        text = (f"CREATE SYNTHETIC TABLE made AS SELECT {', '.join(COLUMNS)} FROM people OPTIONS ({self.name} = {float(share * self.amount):.9f}, "
                f"method = '{self.method}', accept = '{accept.replace(chr(39), 2 * chr(39))}')")
        session = self.connection.session
        statement = synthesis(parse(text), session)  # type: ignore[arg-type]

        def script() -> Iterator[Any]:
            asked = statement.criteria.measured()  # type: ignore[union-attr]
            modelled = yield from statement.plan.modelled()
            known = yield from asked
            return Measured(statement=statement, modelled=modelled, known=known)

        made: Measured = session.kernel.run(
            script(), cost=statement.allotted, account=session.account, sql=text, digest=f"{next(self.numbers):064x}",  # type: ignore[arg-type]
            limits={None: limit(price(**{self.name: 1000}))}, encode=lambda made: "")
        return made

    def answers(self, rows: str) -> Array:
        """The answers to the criteria, of the rows that these words stand for in SQL."""
        asked = ", ".join(f"{what} FILTER (WHERE {where})" for what, where, _ in CRITERIA)
        return np.array(self.engine.sql(f"SELECT {asked} FROM {rows}").fetchall()[0], dtype=np.float64)

    def shares(self, rows: str) -> dict[tuple[str, str], dict[Any, float]]:
        """The share of each combination of values of two columns, numbers in parts of their ranges."""
        found = {}
        for pair in combinations(COLUMNS, 2):
            counts = self.engine.sql(f"SELECT {', '.join(pair)}, COUNT(*) FROM (SELECT {CUT} FROM {rows}) GROUP BY ALL").fetchall()
            whole = sum(number for *_, number in counts)
            found[pair] = {tuple(key): number / whole for *key, number in counts}
        return found

    # -- ways

    def drawn(self, made: Measured, seed: int, most: int, *, weighted: bool = False) -> Iterator[Columns]:
        """Candidates of one model."""
        draws, plan, criteria = made.statement.plan.draws(f"{seed:016x}"), made.statement.plan, made.statement.criteria
        for number in range(most):
            places = plan.places(made.modelled, draws)
            columns = plan.columns(made.modelled, places, draws)
            if weighted and number and criteria is not None:
                rows = criteria.weighted(columns, made.known, draws, self.connection.session.scratch)
                if rows is not None:
                    columns = plan.columns(made.modelled, places[rows], draws)
            yield columns

    def ways(self, run: int) -> Iterator[tuple[str, Taken]]:
        one = self.measured()
        yield "weighted", self.taken((columns, one.known) for columns in self.drawn(one, run, CANDIDATES, weighted=True))
        yield "drawn again", self.taken((columns, one.known) for columns in self.drawn(one, run, CANDIDATES))
        whole = self.measured(1 / (1 - SHARE))
        yield "one", self.taken((columns, one.known) for columns in self.drawn(whole, run, 1))
        yield "models", self.taken((next(self.drawn(self.measured(Fraction(1, CANDIDATES)), run, 1)), one.known) for _ in range(CANDIDATES))
        runs = (self.measured(Fraction(1, 2)) for _ in range(CANDIDATES))
        yield "Liu and Talwar", self.taken((next(self.drawn(each, run, 1)), each.known) for each in runs)

    def taken(self, candidates: Iterable[tuple[Columns, MeasuredAnswers]]) -> Taken:
        """The first candidate that is within the tolerances of the measured answers, or the closest one."""
        found = list[Taken]()
        for columns, known in candidates:
            drawn = self.engine.from_arrow(pyarrow.table({column.name: list(column.values) for column in columns}))
            drawn.create_view("drawn", replace=True)
            answers, pairs = self.answers("drawn"), self.shares("drawn")
            measured = np.array([float(private.values[0]) for _, private in known])
            far = [sum(abs(own.get(key, 0) - there.get(key, 0)) for key in own | there) / 2
                   for own, there in ((pairs[pair], self.pairs[pair]) for pair in pairs)]
            off, error = (float(np.nan_to_num(np.abs(answers - each) / self.tolerances, nan=np.inf).max()) for each in (measured, self.truth))
            found.append(Taken(off=off, error=error, pairs=float(np.mean(far))))
            if off < 1:
                break
        return min(found, key=lambda each: each.off)


class Taken(Frozen):
    """The table of one way: its largest distance from the measured answers, and from the private ones, over the tolerance; and the mean
    distance of its pairs of columns."""

    off: float
    error: float
    pairs: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--price", default="epsilon = 4")
    parser.add_argument("--method", default="aim")
    options = parser.parse_args()
    found: dict[str, list[Taken]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder) / "study", options.price, options.method)
        for run in range(options.runs):
            for name, taken in bench.ways(run + 1):
                found.setdefault(name, []).append(taken)
        bench.connection.close()
    print(table(f"{options.price}, {options.method}, {options.runs} runs", ("way", "taken", "all hold", "largest error", "pairs"), [
        (name, f"{sum(each.off < 1 for each in own)}", f"{sum(each.error < 1 for each in own)}",
         f"{np.median([each.error for each in own]):.2f}", f"{np.mean([each.pairs for each in own]):.4f}") for name, own in found.items()]))


if __name__ == "__main__":
    main()
