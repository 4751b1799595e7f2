"""What a statement over few rows costs besides its queries: CPU milliseconds of the whole process.

    python tests/bench/small_statements.py --rows 10000 --runs 15

Every run asks another statement, with a number of its own in WHERE, so that no answer is stored, in a session that has answered
others about the same tables before. Beside it are the queries that the statement sends to DuckDB, alone on a connection of their
own, and the same statement asked again, whose answer is stored.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from bench_clock import milliseconds, side_by_side
from bench_data import WIDE, database, opened, plain
from bench_results import Figure, Line, add_arguments, conclude, shown

from dpsql.engine.answering import answer
from dpsql.engine.session import Session

VISITS = "FROM visits WHERE visit_id <> {n}"
STATEMENTS = {
    "count": f"SELECT COUNT(*) {VISITS}",
    "count where": f"SELECT COUNT(*) {VISITS} AND points >= 0 AND year < 2020",
    "count by year": f"SELECT year, COUNT(*) {VISITS} GROUP BY year",
    "sum": f"SELECT SUM(cost) {VISITS}",
    "sum by year": f"SELECT year, SUM(cost) {VISITS} GROUP BY year",
    "average": f"SELECT AVG(cost) {VISITS}",
    "average by year": f"SELECT year, AVG(cost) {VISITS} GROUP BY year",
    "several aggregates by year": f"SELECT year, COUNT(*), SUM(cost), AVG(cost), STDDEV(cost), AVG(points) {VISITS} GROUP BY year",
    "median": f"SELECT MEDIAN(cost) {VISITS}",
    "distinct entities": f"SELECT COUNT(DISTINCT person_id) {VISITS}",
    "join along the foreign key": "SELECT p.sex, COUNT(*) FROM visits v JOIN people p ON v.person_id = p.person_id "
                                  "WHERE v.visit_id <> {n} GROUP BY p.sex",
}
HEADS = ("statement", "limit", "dpsql", "its queries", "number", "the rest", "stored")


class Recorded:
    """The queries that a session sends to its database while this is open."""

    def __init__(self, session: Session) -> None:
        self._reader: Any = session.kernel._reader  # type: ignore[attr-defined]
        self.queries: list[tuple[str, bool]] = []

    def __enter__(self) -> list[tuple[str, bool]]:
        for name in ("rows", "arrays", "columns"):
            setattr(self._reader, name, self._recording(name))
        return self.queries

    def __exit__(self, *_: object) -> None:
        for name in ("rows", "arrays", "columns"):
            delattr(self._reader, name)

    def _recording(self, name: str) -> Callable[..., Any]:
        made = getattr(self._reader, name)

        def recording(sql: str, parts: Sequence[Any] = ()) -> Any:
            self.queries.append((sql, name == "rows"))
            return made(sql, parts)

        return recording


def run_all(connection: duckdb.DuckDBPyConnection, queries: Sequence[tuple[str, bool]]) -> None:
    for sql, as_rows in queries:
        found = connection.cursor().execute(sql)
        found.fetchall() if as_rows else found.fetchnumpy()


def measured(name: str, sql: str, limit: int | None, session: Session, path: Path, runs: int) -> Line:
    texts = [sql.format(n=-run) for run in range(runs + 4)]
    for text in texts[:2]:
        answer(text, session)
    with Recorded(session) as queries:
        answer(texts[2], session)
    with plain(path) as connection:
        asked = lambda run: answer(texts[3 + run], session)
        ours, stored, base = side_by_side([asked, asked, lambda run: run_all(connection, queries)], runs)
    cells = [name, str(limit or "learned"), milliseconds(ours.cpu), milliseconds(base.cpu), str(len(queries)),
             milliseconds(ours.cpu - base.cpu), milliseconds(stored.cpu)]
    return Line(cells, (Figure(line=f"{name}, limit {limit or 'learned'}", ours=ours, base=base, beside="its queries"),))


def report(rows: int, folder: Path, runs: int, only: str = "") -> Iterator[Line]:
    path = database(rows, folder)
    for limit in (WIDE, None):
        session = opened(path, "person", limit)
        for name, sql in STATEMENTS.items():
            if only in name:
                yield measured(name, sql, limit, session, path, runs)
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where data is kept")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--only", default="", help="only the statements whose name contains this")
    add_arguments(parser)
    given = parser.parse_args()
    conclude(lambda: shown(f"{given.rows} rows: CPU milliseconds, median of {given.runs}", HEADS,
                           report(given.rows, given.data, given.runs, given.only)), "small_statements", given.rows, given)


if __name__ == "__main__":
    main()
