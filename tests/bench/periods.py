"""What accounts of periods take in the ledger: milliseconds of charges, the size of checkpoints, and opening.

    python tests/bench/periods.py --data /var/tmp
    python tests/bench/periods.py --data /var/tmp --in-any 365

A table grows by the day, and ten charts are made of each day when it is closed, for some years; in the second kind of lines there
is one more statement each week, over all days so far. The ledger is filled in a few transactions, without reading any row. Then
charges are measured one by one, with their waits for the disk: of one day, and over all days. With `--in-any`, there is a limit in
any so many consecutive days, too.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sqlite3
import tempfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench_clock import milliseconds, table, timed

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, pure

COST = pure(Fraction(1, 1000)).rounded()
WIDE = {None: limit(price(epsilon=1000, delta=0.01)), "ada": limit(price(epsilon=1000, delta=0.01))}
CLOSE = dict.fromkeys((None, "ada"), limit(price(epsilon=6)))  # little more than is spent in any year, so each window is looked at
ADA, SQL = Account(budget="b", analyst="ada"), "SELECT day, COUNT(*) FROM visits GROUP BY day"
FIRST, CHARTS, WEEK = dt.date(2015, 1, 1).toordinal(), 10, 7
SINGLE, OVER_ALL = 100, 20  # charges that are measured


def stated(first: int, last: int) -> str:
    return f"periods day {first} {last} {1 if first == last else 2} closed"


def terms(in_any: int) -> dict[str, Any]:
    if not in_any:
        return {"allows": {}, "incidents": None, "in_periods": WIDE}
    from dpsql.trusted.kernel.period_sums import WindowLimits

    return {"allows": {}, "incidents": None, "in_periods": WIDE, "in_any": WindowLimits(periods=in_any, limits=CLOSE)}


def fill(path: Path, days: int, *, weekly: bool, in_any: int) -> float:
    """A ledger after so many days. Returns the seconds that one charge and its answer took, without waits for the disk."""
    with closing(ReportingLedger.create(path)) as ledger:
        asked = [data for day in range(days) for data in [stated(FIRST + day, FIRST + day)] * CHARTS + (
            [stated(FIRST, FIRST + day)] if weekly and day % WEEK == WEEK - 1 else [])]
        taken = timed(lambda: [ledger._take(lambda leader, at=at: some(leader, asked[at:at + 1000], in_any)) for at in range(0, len(asked), 1000)])
        return taken.wall / len(asked)


def some(ledger: ReportingLedger, asked: list[str], in_any: int) -> int:
    for data in asked:
        ledger._write_checkpoint()
        charge = ledger._chain.charge(ADA, COST, digest=f"{ledger.events}", data=data, sql=SQL, body=None, **terms(in_any))
        ledger._insert(charge)
        ledger._insert(ledger._chain.following(charge, "answer", "x"))
    return ledger.events


def line(path: Path, days: int, *, weekly: bool, in_any: int) -> list[str]:
    filling = fill(path, days, weekly=weekly, in_any=in_any)
    last = FIRST + days - 1

    def charged(ledger: ReportingLedger, data: str, times: int) -> float:
        return min(timed(lambda i=i: ledger.charge(ADA, COST, digest=f"{data} {i}", data=data, sql=SQL, **terms(in_any))).wall for i in range(times))

    opening = min(timed(lambda: ReportingLedger(path).close()).wall for _ in range(3))
    with closing(ReportingLedger(path)) as ledger:
        one, every = charged(ledger, stated(last, last), SINGLE), charged(ledger, stated(FIRST, last), OVER_ALL)
        told = min(timed(lambda: ledger.spent_in_periods("b")).wall for _ in range(5))
        size = len(json.dumps(ledger._chain.sums.as_values()))
    with closing(sqlite3.connect(path)) as file:
        (checkpoints,), = file.execute("SELECT COUNT(*) FROM events WHERE kind = 'checkpoint'").fetchall()
    return [f"{days:,}", "yes" if weekly else "no", milliseconds(filling), milliseconds(one), milliseconds(every), milliseconds(told),
            f"{size / 1000:,.0f}", f"{checkpoints:,}", milliseconds(opening)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, nargs="*", default=[2, 10])
    parser.add_argument("--in-any", type=int, default=0, help="the length of windows, in days; 0 for no limit there")
    parser.add_argument("--data", type=Path, default=Path("/var/tmp"), help="a folder on the disk that is meant")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-", dir=given.data) as folder:
        print(table(f"Ten charts of each day{f', limited in any {given.in_any} days' if given.in_any else ''} (milliseconds; the size of all sums in KB)",
                    ("days", "weekly over all", "each, filling", "a charge of one day", "over all days", "a report", "KB", "checkpoints", "open"),
                    [line(Path(folder) / f"{years}-{weekly}", 365 * years, weekly=weekly, in_any=given.in_any)
                     for years in given.years for weekly in (False, True)]))


if __name__ == "__main__":
    main()
