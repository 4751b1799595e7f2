"""What the ledger takes of a statement: seconds where threads charge and answer at the same time, waits for the disk, and opening.

    python tests/bench/ledger.py --data /var/tmp
    python tests/bench/ledger.py --data /var/tmp --postgres postgresql://owner@host/an_empty_database

A statement here is a look for a stored answer, a charge and an answer, without reading any row; each thread has a ledger of its
own, as each connection has. A sync is a call that waits for the disk: of the log of SQLite, one for each transaction, and of
the anchor. Run it on the disk that is meant: a folder in memory waits for nothing. With `--postgres`, the tables of processes and
of opening have lines for a ledger there too, each in a schema that is removed after.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sqlite3
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench_clock import milliseconds, table, timed

from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel.ledger import anchor_beside
from dpsql.trusted.kernel.marks import MEASURED

COST = pure(Fraction(1, 1000)).rounded()
SQL, BODY = "SELECT COUNT(*) FROM people WHERE age <> 30", "x" * 300


@contextmanager
def syncs_counted() -> Iterator[Counter[str]]:
    """Counts syncs: of the anchor by the call, of SQLite by its commits (one for each; what moves its log is not counted)."""
    found, fsync, connect = Counter[str](), os.fsync, sqlite3.connect

    def counted(handle: int) -> None:
        found["anchor"] += 1
        fsync(handle)

    def traced(*args: object, **kwargs: object) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*args, **kwargs)  # type: ignore[arg-type]
        made.set_trace_callback(lambda text: found.update(log=1) if text == "COMMIT" else None)
        return made

    os.fsync, sqlite3.connect = counted, traced  # type: ignore[assignment]
    try:
        yield found
    finally:
        os.fsync, sqlite3.connect = fsync, connect


def statements(ledger: ReportingLedger, account: Account, many: int) -> None:
    for number in range(many):
        told = f"{account.analyst} {number}"
        if ledger.stored(account, told, "data") is None:
            seq = ledger.charge(account, COST, digest=told, data="data", sql=SQL, allows={}, incidents=20)
            ledger.answer(seq, BODY)


def together(folder: Path, threads: int, many: int) -> list[str]:
    """A line: `many` statements by so many threads."""
    path = folder / f"threads-{threads}"
    ReportingLedger.create(path).close()
    with syncs_counted() as syncs:
        ledgers = [ReportingLedger(path) for _ in range(threads)]
        running = [threading.Thread(target=statements, args=(ledger, Account(budget="b", analyst=f"analyst {i}"), many // threads))
                   for i, ledger in enumerate(ledgers)]
        syncs.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = many // threads * threads
    for ledger in ledgers:
        ledger.close()
    return [str(threads), f"{done / wall:.0f}", milliseconds(wall / done), milliseconds(cpu / done), f"{syncs['log'] / done:.2f}",
            f"{syncs['anchor'] / done:.2f}"]


Place = tuple[Path, Path | None, str | None]


def place_in(server: str | None, path: Path) -> Place:
    return path, None, None if server is None else f"{server}?options=-csearch_path%3Dbench_{path.name.replace('-', '_')}"


def _opened(place: Place, opening: Callable[..., ReportingLedger] = ReportingLedger) -> ReportingLedger:
    path, anchor, uri = place
    if uri is None:
        return opening(path, anchor)
    from dpsql.ledgers.postgres_store import PostgresStore

    return opening(path, anchor, PostgresStore(uri))


@contextmanager
def removed_after(place: Place) -> Iterator[None]:
    """A context after which the schema of a ledger in PostgreSQL is gone."""
    try:
        yield
    finally:
        if place[2] is not None:
            import psycopg

            with psycopg.connect(place[2], autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA {place[2].split('%3D')[1]} CASCADE")


def work(place: Place, number: int, many: int, parent: Connection) -> None:
    """Tells the parent nothing when it is ready, and waits for its word; then what it took, in seconds. A traceback where it fails."""
    try:
        ledger, account = _opened(place), Account(budget="b", analyst=f"analyst {number}")
        parent.send(None)
        parent.recv()
        cpu = time.process_time()
        statements(ledger, account, many)
        parent.send(time.process_time() - cpu)
    except Exception:
        parent.send(traceback.format_exc())


def told(child: Connection) -> float:
    """What a child tells next; 0 when it is ready. Exits with its traceback where it failed, and where it is gone."""
    try:
        found = child.recv()
    except EOFError:
        found = "a process ended and told nothing"
    if isinstance(found, str):
        raise SystemExit(found)
    return float(found or 0)


def apart(folder: Path, server: str | None, processes: int, many: int) -> list[str]:
    """A line: `many` statements by so many processes."""
    place, spawn = place_in(server, folder / f"processes-{processes}{'' if server is None else '-there'}"), multiprocessing.get_context("spawn")
    _opened(place, ReportingLedger.create).close()
    with removed_after(place):
        children = []
        for i in range(processes):
            here, there = spawn.Pipe()
            spawn.Process(target=work, args=(place, i, many // processes, there), daemon=True).start()  # one that waits ends with us
            there.close()  # so that it is known when the child has gone
            children.append(here)
        for child in children:
            told(child)
        begun = time.perf_counter()
        for child in children:
            child.send(None)
        cpu = sum(map(told, children))
        wall, done = time.perf_counter() - begun, many // processes * processes
    return ["file" if server is None else "PostgreSQL", str(processes), f"{done / wall:.0f}", milliseconds(wall / done), milliseconds(cpu / done)]


def copied(path: Path, place: Place) -> None:
    """Put the events of a file into a database, whose ledger is then the same one."""
    import psycopg

    _opened(place, ReportingLedger.create).close()
    assert place[2] is not None
    with closing(sqlite3.connect(path)) as file, psycopg.connect(place[2]) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM meta")
        for table in ("meta", "events"):
            with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                for row in file.execute(f"SELECT * FROM {table}"):
                    copy.write_row(row)
    with psycopg.connect(place[2], autocommit=True) as connection:
        connection.execute("ANALYZE events")
    anchor_beside(place[0]).write_bytes(anchor_beside(path).read_bytes())


def fill(path: Path, events: int) -> None:
    """A ledger with so many events of a hundred analysts, written in a few transactions."""
    with closing(ReportingLedger.create(path)) as ledger:
        while ledger.events < events:
            ledger._take(lambda leader: some(leader, min(events - leader.events, 50_000)))


def some(ledger: ReportingLedger, events: int) -> int:
    for number in range(events // 2):
        ledger._write_checkpoint()
        account = Account(budget="b", analyst=f"analyst {number % 100}")
        charge = ledger._chain.charge(account, COST, digest=f"{ledger.events}", data="data", sql=SQL, allows={}, incidents=None, body=None)
        ledger._insert(charge)
        ledger._insert(ledger._chain.following(charge, "answer", BODY))
    return ledger.events


def opening(folder: Path, events: int, server: str | None) -> Iterator[list[str]]:
    """Lines: how long it takes to open a ledger, to find stored answers in it, to report on it, and to verify all of it."""
    path = folder / f"events-{events}"
    fill(path, events)
    asked = answer_after(path, 0), answer_after(path, events // 2)
    yield ["file", *opened((path, None, None), events, *asked)]
    if server is not None:
        place = place_in(server, folder / f"there-{events}")
        with removed_after(place):
            copied(path, place)
            yield ["PostgreSQL", *opened(place, events, *asked)]


def opened(place: Place, events: int, early: tuple[Account, str, str], middle: tuple[Account, str, str]) -> list[str]:
    opening = timed(lambda: _opened(place).close())
    with closing(_opened(place)) as ledger:
        found = [timed(lambda asked=asked: ledger.stored(*asked)) for asked in (early, middle, middle)]
        found.append(timed(lambda: (ledger.refresh(), ledger.spent("b"), ledger.prices("b"), ledger.last(early[0]))))
        found += [timed(lambda: ledger.entries("b", early[0].analyst)) for _ in range(2)]
        found.append(timed(lambda: ledger.holding(early[0], "data", MEASURED)))
    whole = timed(lambda: _opened(place, partial(ReportingLedger, whole=True)).close())
    return [f"{events:,}", *(milliseconds(each.wall) for each in (opening, *found, whole))]


def answer_after(path: Path, seq: int) -> tuple[Account, str, str]:
    """What the first stored answer after an event is found by."""
    with closing(sqlite3.connect(path)) as connection:
        budget, analyst, digest, data = connection.execute("SELECT budget, analyst, digest, data FROM events WHERE seq > ? AND "
                                                           "kind = 'answer' ORDER BY seq LIMIT 1", (seq,)).fetchone()
    return Account(budget=budget, analyst=analyst), digest, data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=2000)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--postgres", metavar="URI", help="a database of PostgreSQL, without parameters")
    parser.add_argument("--events", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--data", type=Path, default=Path("/var/tmp"), help="a folder on the disk that is meant")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-", dir=given.data) as folder:
        print(table(f"Charged and answered, {given.statements} statements (milliseconds of each, syncs for each)",
                    ("threads", "a second", "wall", "CPU", "syncs of the log", "of the anchor"),
                    [together(Path(folder), threads, given.statements) for threads in given.threads]))
        servers = [None] if given.postgres is None else [None, given.postgres]
        print(table(f"The same by processes, {given.statements} statements (milliseconds of each)",
                    ("ledger", "processes", "a second", "wall", "CPU"),
                    [apart(Path(folder), server, processes, given.statements) for processes in given.processes for server in servers]))
        print(table("A ledger of so many events (milliseconds)",
                    ("ledger", "events", "open", "an early answer", "one in the middle", "again", "a report", "a hundredth listed", "again",
                     "kept measurements", "verify all"),
                    [line for events in given.events for line in opening(Path(folder), events, given.postgres)]))


if __name__ == "__main__":
    main()
