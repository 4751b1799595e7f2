"""Seconds of statements whose buckets are read by Spark, beside a store on this machine.

    python tests/bench/spark.py --rows 5000000 --buckets 16 --master 'local[2]'

People have about ten visits each, spread at random over Parquet files, as in `scale.py`; both stores are prepared from these. That of
Spark includes its start. Lines of statements are medians of some runs on open connections, each by another
analyst, so that of the smallest, the count of people, is what a query by Spark costs by itself.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import scale
from bench_clock import table

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

LINES = {
    "count of people": "SELECT COUNT(*) FROM people",
    "sum, five rows of each": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'rows') SUM(cost) FROM visits",
    "sum, clip of totals": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') SUM(cost) FROM visits",
    "people with visits": "SELECT COUNT(DISTINCT person_id) FROM visits",
    "average by clinic": "SELECT clinic, AVG(cost) FROM visits GROUP BY clinic",
    "numbers of visits": "SELECT COUNT(*) FROM (SELECT n FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t GROUP BY n)",
}


def policies(folder: Path, memory: str, master: str) -> list[Path]:
    """The policy of a store that is here, and of one that Spark reads."""
    text = scale.POLICY.format(memory=memory, name="-here", key='key = "visit_id"', limit=5)
    here, there = folder / "here.toml", folder / "there.toml"
    here.write_text(text)
    there.write_text(f'{text}\n[spark]\nmaster = "{master}"\nstore = "file://{folder.resolve()}/far"\n')
    return [here, there]


def lines(policy: Path, buckets: int, runs: int) -> Iterator[float]:
    """Seconds to prepare, to connect for the first time and again, and of every statement."""
    ledger = policy.with_suffix(".ledger")
    for file in policy.parent.glob(f"{ledger.name}*"):
        if file.is_file():
            file.unlink()
    Ledger.create(ledger).close()
    yield seconds(lambda: dpsql.prepare(policy=policy, ledger=ledger, buckets=buckets))
    opened: list[dpsql.Connection] = []
    for run in range(runs):
        took = seconds(lambda run=run: opened.append(dpsql.connect(policy=policy, ledger=ledger, epsilon=1, analyst=f"bench{run}")))
        if run in (0, runs - 1):
            yield took
    for text in LINES.values():
        yield statistics.median(seconds(lambda one=one, text=text: one.execute(text).fetchall()) for one in opened)
    for one in opened:
        one.close()


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="of visits")
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="2GB", help="of this machine's engine, and of a task")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench")
    chosen = parser.parse_args()
    folder = chosen.data / f"visits-{chosen.rows}"
    scale.make(folder, chosen.rows)
    names = ["prepare", "connect for the first time", "connect again", *LINES]
    here, there = (list(lines(policy, chosen.buckets, max(2, chosen.runs))) for policy in policies(folder, chosen.memory, chosen.master))
    print(table(f"{chosen.rows:,} visits in {chosen.buckets} buckets, {chosen.master}: seconds", ["", "here", "spark", "ratio"], [
        [name, f"{ours:.2f}", f"{far:.2f}", f"{far / ours:.1f}"] for name, ours, far in zip(names, here, there, strict=True)]))


if __name__ == "__main__":
    main()
