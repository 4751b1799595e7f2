"""Statements a second of a server: new counts, sums by year and stored answers, with the CPU time of its two processes.

    python tests/bench/server_rate.py --rows 10000 --clients 8
    python tests/bench/server_rate.py --only stored --pace "100 ms"
    python tests/bench/server_rate.py --clients 32 --accounts 2 --pace "30 ms" --only "new counts"

`dpsql serve` runs in processes of its own. Each client is a connection by psycopg, and asks one statement after the other. It has an
account of its own, unless there are fewer `--accounts`: then statements of one account wait for turns, and those beyond 1,200 a minute
are refused, which ends the benchmark. Every new statement has a number of its own in WHERE, so that no answer is stored.

A slow machine slows everything, so each line has a bare loop of the same work beside it, which runs before and after: for new
statements the queries that dpsql sends to DuckDB, and as many draws of noise, in one process without dpsql; for stored answers the
same clients, and a process that sends a constant answer of the same form. The ratio is the CPU time of both processes of the server
over that of the loop. Clients run on the same processors, and their CPU time is told too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import shutil
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
from bench_clock import milliseconds, ratio, table
from bench_data import POLICY, database, opened, plain
from bench_server import Listening, serving
from small_statements import Recorded

from dpsql.engine.answering import answer
from dpsql.frozen import Frozen
from dpsql.server.vault import passwords
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.noise.source import Secure

PASSWORD = "correct horse"
COUNT = "SELECT COUNT(*) FROM visits WHERE visit_id <> {n}"
STATEMENTS = {  # each with how many a client asks
    "new counts": (COUNT, 60),
    "sums by year": ("SELECT year, SUM(cost) FROM visits WHERE visit_id <> {n} GROUP BY year", 25),
    "averages by year": ("SELECT year, AVG(cost) FROM visits WHERE visit_id <> {n} GROUP BY year", 20),
    "stored answers": (COUNT.format(n=-1), 600),
}
HEADS = ("statement", "a second", "p50 ms", "p99 ms", "vault ms", "front ms", "clients ms", "bare ms", "ratio")
TICK = os.sysconf("SC_CLK_TCK")


class Taken(Frozen):
    """Of many statements: the seconds that each took, the seconds of all together, and the CPU seconds of the processes."""

    each: tuple[float, ...]
    wall: float
    vault: float
    front: float
    clients: float


@contextlib.contextmanager
def served(path: Path, accounts: int, pace: str) -> Iterator[Listening]:
    """A server of a database, with so many users."""
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as name:
        folder = Path(name)
        shutil.copy(path, folder / "rows.duckdb")
        policy = folder / "dpsql.toml"
        head, rest = POLICY.format(visit_limit="rows_per_entity = 1000", claim_limit="").split("version = 1", 1)
        policy.write_text(f'{head}version = 1\ndatabase = "rows.duckdb"\npace = "{pace}"\n{rest}', encoding="utf-8")
        with policy.open("a", encoding="utf-8") as file:
            file.write('[budgets.person.per_statement]\nepsilon = 0.01\ndelta = 1e-9\n')
        Ledger.create(folder / "dpsql.ledger").close()
        proven = passwords.verifier(PASSWORD)
        for number in range(accounts):
            passwords.add_user(passwords.users_file(policy), passwords.User(name=f"u{number}", verifier=proven, budget="person"))
        with serving(policy) as listening:
            yield listening


def spent_by(process: int) -> float:
    """The CPU seconds of a process with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def children_of(process: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == process:
                child = int(stat.parent.name)
                found += [child, *children_of(child)]
    return found


def asked(connections: Sequence[Any], texts: Sequence[Sequence[str]], vault: int) -> Taken:
    """Each connection asks its own texts, one after the other, at the same time as all others."""
    seconds: list[list[float]] = [[] for _ in connections]
    fronts = children_of(vault)

    def ask(at: int) -> None:
        for text in texts[at]:
            begun = time.perf_counter()
            connections[at].execute(text).fetchall()
            seconds[at].append(time.perf_counter() - begun)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(connections))]
    before = spent_by(vault), sum(map(spent_by, fronts)), time.process_time(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = spent_by(vault), sum(map(spent_by, fronts)), time.process_time(), time.perf_counter()
    assert sum(map(len, seconds)) == sum(map(len, texts)), "a client failed"
    spent = [b - a for a, b in zip(before, after, strict=True)]
    return Taken(each=tuple(sorted(second for own in seconds for second in own)), wall=spent[3], vault=spent[0], front=spent[1],
                 clients=spent[2])


# -- bare loops


def queries_of(sql: str, path: Path) -> list[tuple[str, bool]]:
    session = opened(path, "person", 1000)
    for number in (-1, -2):
        answer(sql.format(n=number), session)
    with Recorded(session) as queries:
        answer(sql.format(n=-3), session)
    session.close()
    return queries


def bare_queries(connection: duckdb.DuckDBPyConnection, queries: Sequence[tuple[str, bool]], times: int) -> float:
    """The CPU seconds of the queries with noise on each number, for one statement."""
    noise, begun = Secure(), time.process_time()
    for _ in range(times):
        for sql, _ in queries:
            *_, last = connection.cursor().execute(sql).fetchnumpy().values()
            noise.laplace([int(value) for value in last], Fraction(100))
    return (time.process_time() - begun) / times


def constant_server(port: Any) -> None:
    """A process that answers every query of PostgreSQL's protocol with one row."""
    def packet(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!I", len(body) + 4) + body

    ready = packet(b"Z", b"I")
    row = (packet(b"T", struct.pack("!H", 1) + b"count\0" + struct.pack("!IHIhih", 0, 0, 20, 8, -1, 0)) + packet(
        b"N", b"SNOTICE\0VNOTICE\0C00000\0Mcost: nothing, as this was answered before\0\0")
           + packet(b"D", struct.pack("!HI", 1, 4) + b"9987") + packet(b"C", b"SELECT 1\0") + ready)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def received() -> bytes:
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4)) - 4)

        with contextlib.suppress(asyncio.IncompleteReadError):
            while (await received())[:4] != struct.pack("!I", 0x30000):  # it asks for encryption first
                writer.write(b"N")
            writer.write(packet(b"R", struct.pack("!I", 0)) + packet(b"S", b"client_encoding\0UTF8\0") + ready)
            while await reader.readexactly(1) != b"X":
                await received()
                writer.write(row)
                await writer.drain()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextlib.contextmanager
def constant() -> Iterator[tuple[int, int]]:
    """The port and the number of a process that answers all queries with one row."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=constant_server, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv(), process.pid or 0
    finally:
        process.terminate()


@contextlib.contextmanager
def connected(port: int, clients: int, accounts: int) -> Iterator[list[Any]]:
    import psycopg

    dsn = f"host=127.0.0.1 port={port} password='{PASSWORD}' dbname=person user="
    with contextlib.ExitStack() as open_:
        yield [open_.enter_context(psycopg.connect(f"{dsn}u{number % accounts}", autocommit=True, prepare_threshold=None))
               for number in range(clients)]


# -- the table


def report(path: Path, clients: int, accounts: int, pace: str, only: str, share: float) -> Iterator[list[str]]:
    with served(path, accounts, pace) as server, connected(server.port, clients, accounts) as connections, plain(path) as rows:
        vault = server.process
        numbers = iter(range(-1000, -10**9, -1))
        for name, (sql, each) in STATEMENTS.items():
            if only not in name:
                continue
            many, new = max(2, int(each * share)), "{n}" in sql

            def texts(times: int, sql: str = sql) -> list[list[str]]:
                return [[sql.format(n=next(numbers)) for _ in range(times)] for _ in range(clients)]

            asked(connections, texts(2), vault)
            bare = bare_loop(sql, path, rows, clients, many) if new else bare_answers(sql, clients, many)
            first = bare()
            taken = asked(connections, texts(many), vault)
            yield line(name, taken, statistics.fmean((first, bare())))


def bare_loop(sql: str, path: Path, rows: duckdb.DuckDBPyConnection, clients: int, many: int) -> Callable[[], float]:
    queries = queries_of(sql, path)
    return lambda: bare_queries(rows, queries, max(3, clients * many // 8))


def bare_answers(sql: str, clients: int, many: int) -> Callable[[], float]:
    def bare() -> float:
        with constant() as (port, process), connected(port, clients, clients) as connections:
            return asked(connections, [[sql] * many] * clients, process).vault / (clients * many)

    return bare


def line(name: str, taken: Taken, bare: float) -> list[str]:
    number = len(taken.each)
    p50, p99 = (taken.each[min(number - 1, number * part // 100)] for part in (50, 99))
    each = [spent / number for spent in (taken.vault, taken.front, taken.clients)]
    return [name, f"{number / taken.wall:,.0f}", milliseconds(p50), milliseconds(p99), *(f"{spent * 1000:.2f}" for spent in each),
            f"{bare * 1000:.2f}", ratio(each[0] + each[1], bare)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--accounts", type=int, help="how many accounts the clients share; by default, each has its own")
    parser.add_argument("--pace", default="none", help='the pace of the server, such as "100 ms"')
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where data is kept")
    parser.add_argument("--only", default="", help="only the statements whose name contains this")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the statements that are asked")
    given = parser.parse_args()
    path = database(given.rows, given.data)
    accounts = min(given.accounts or given.clients, given.clients)
    shared = "" if accounts == given.clients else f" of {accounts} accounts"
    print(table(f"{given.rows:,} rows, {given.clients} clients{shared}, pace {given.pace}: of all clients together, and each statement",
                HEADS, list(report(path, given.clients, accounts, given.pace, given.only, given.share))))


if __name__ == "__main__":
    main()
