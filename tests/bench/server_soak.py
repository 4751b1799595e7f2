"""A server under many clients for a long time: what is answered, how fast, and whether anything grows, hangs or fails.

    python tests/bench/server_soak.py --minutes 20
    python tests/bench/server_soak.py --minutes 60 --clients 48 --accounts 8 --rate 10

`dpsql serve` runs in processes of its own, over the demo study, at the pace of its policy unless `--pace` sets another. Clients ask at
the same time: by psycopg_pool and a pool of asyncpg, by HTTP in JSON and Arrow, and as agents at `/mcp`. They ask new statements,
stored ones and the system catalogue, fetch by cursors, cancel, make mistakes, and disconnect while they wait; connections of pools
are replaced after a minute. All clients of an account together send `--rate` requests a second at most, by asyncpg a third of that.

Printed are samples of the two processes over time, the requests by kind, what was refused without being meant to, and findings: each
says `ok` or `look`. Growth is that of the least squares line through the samples of the last two thirds of the time, and is one if it
is more than three standard errors of that line and 2 % of the level. At the end all clients leave, and the processes are compared with
what they were before the first one came. (While one is connected, SQLite keeps the files of ledgers that others have closed.)
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_clock import table
from bench_server import Listening, serving
from bench_traffic import (
    BY_KIND,
    PASSWORD,
    Ended,
    Requests,
    Size,
    add_user,
    by_kind,
    command,
    in_milliseconds,
    megabytes,
    refusals,
    size_of,
    slope,
)
from server_rate import children_of

from dpsql.catalog.model import Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import find_ledger
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.clients_catalogue import questions

BUDGET = "soak"
TERMS = """
[budgets.soak]
entity = "person"
rho = 1000
delta = 0.1
per_statement = { rho = 0.0001, delta = 1e-9 }

[budgets.soak.agents.robot]
confirm_above = { rho = 1, delta = 1e-6 }
"""
NEW = (
    "SELECT health, COUNT(*) AS n FROM people WHERE income > {n} GROUP BY health",
    "SELECT year, SUM(medical_dollars) AS dollars FROM person_years WHERE medical_dollars > {n} GROUP BY year",
    "SELECT plan, AVG(income) AS income FROM people WHERE income > {n} GROUP BY plan",
    "SELECT p.health, COUNT(*) AS n FROM people p JOIN person_years y USING (person_id) WHERE y.drug_dollars > {n} GROUP BY p.health",
    "SELECT quantile_disc(income, 0.5) AS middle FROM people WHERE income > {n}",
)
STORED = tuple(sql.format(n=number) for sql in NEW for number in (-1, -2))
WRONG = ("SELECT COUNT(* FROM people", "SELECT COUNT(*) FROM poeple", "SELECT helth, COUNT(*) FROM people GROUP BY helth", "SELEC 1",
         "SELECT income FROM people", "SELECT COUNT(*) FROM people WHERE health = 3 +")
CATALOGUE = tuple(text for title, text in questions().items() if title.startswith(("psql", "SQLAlchemy", "DBeaver", "pgjdbc"))
                  and "{" not in text and "%(" not in text and "$1" not in text)
WEIGHTS = {"new": 30, "stored": 30, "catalogue": 10, "cursor": 8, "typo": 8, "cancelled": 6, "gone": 6}
OVER_HTTP = {"new, JSON": 20, "new, Arrow": 10, "stored, JSON": 25, "stored, Arrow": 20, "typo, HTTP": 10, "gone, HTTP": 10, "budget, HTTP": 5}
OF_AGENTS = {"ask, agent": 40, "price, agent": 30, "catalogue, agent": 30}
MEANT = ("typo", "cancelled", "gone")
ARROW = "application/vnd.apache.arrow.stream"
SLOWER = 3  # clients by asyncpg: their pool sends six statements for each one that it is asked, and an account has 1,200 a minute
TIMEOUT = 120.0  # seconds after which a client no longer waits, which is a finding
COLUMNS = ("minute", "a second", "new p50 ms", "new p95 ms", "stored p50 ms", "stored p95 ms", "vault MB", "files", "threads", "front MB",
           "files", "threads", "ledger MB", "failed", "waits s")


class Sample(Frozen):
    """What is seen at one moment: the seconds since the start, the requests that ended since the sample before, the processes, the
    charged statements, those that failed, and the longest minimum time that late answers give to those of an account while others
    ask."""

    at: float
    ended: list[Ended]
    vault: Size
    front: Size
    ledger: float
    asked: int
    failed: int
    waits: float


class Typo(Exception):
    """A refusal that the client asked for."""


class Traffic:
    """What all clients share."""

    def __init__(self, server: Listening, accounts: Sequence[str], rate: float) -> None:
        self.server, self.accounts, self.rate = server, accounts, rate
        self.requests, self.over = Requests(), threading.Event()
        self._numbers, self.chance = itertools.count(1), random.Random(5)

    def new(self) -> str:
        """A statement that was never asked."""
        return self.chance.choice(NEW).format(n=f"0.{next(self._numbers):07d}")

    def dsn(self, account: str) -> str:
        return f"host=127.0.0.1 port={self.server.port} user={account} password='{PASSWORD}' dbname=study"

    def kinds(self, weights: Mapping[str, int], clients: int) -> Iterator[tuple[str, float]]:
        """The kinds of the requests of one client, and when each is to be sent, until the end: as one of so many of an account."""
        due = time.monotonic() + self.chance.random() * clients / self.rate
        while not self.over.is_set():
            yield self.chance.choices([*weights], [*weights.values()])[0], due
            due = max(due + clients / self.rate * (0.5 + self.chance.random()), time.monotonic())


# -- clients by psycopg


def told_by_psycopg(kind: str) -> Callable[[Exception], str]:
    def told(fault: Exception) -> str:
        state = getattr(fault, "sqlstate", None)
        if isinstance(fault, Typo):
            return "typo"
        return "cancelled" if kind == "cancelled" and state == "57014" else f"{type(fault).__name__} {state or ''}: {str(fault).partition(chr(10))[0]}"

    return told


def by_psycopg(traffic: Traffic, pool: Any, account: str, clients: int) -> None:
    for kind, due in traffic.kinds(WEIGHTS, clients):
        if traffic.over.wait(max(0.0, due - time.monotonic())):
            return
        with traffic.requests.one(kind, told_by_psycopg(kind)):
            if kind == "gone":
                leave(traffic, account)
            else:
                with pool.connection(timeout=TIMEOUT) as connection:
                    ask(traffic, kind, connection)


def ask(traffic: Traffic, kind: str, connection: Any) -> None:
    import psycopg

    match kind:
        case "catalogue":
            connection.execute(traffic.chance.choice(CATALOGUE)).fetchall()
        case "cursor":
            with connection.transaction(), connection.cursor("some") as cursor:
                cursor.itersize = 2
                cursor.execute(traffic.new())
                list(cursor)
        case "typo":
            try:
                connection.execute(traffic.chance.choice(WRONG)).fetchall()
            except psycopg.errors.DatabaseError as fault:
                if (fault.sqlstate or "")[:2] in ("42", "0A"):
                    raise Typo from None
                raise
        case "cancelled":
            with concurrent.futures.ThreadPoolExecutor(1) as canceller:
                cancelled = canceller.submit(cancel_soon, connection, traffic.chance.random() * 0.1)
                try:
                    connection.execute(traffic.new()).fetchall()
                finally:
                    cancelled.result()
        case _:
            connection.execute(traffic.new() if kind == "new" else traffic.chance.choice(STORED)).fetchall()


def cancel_soon(connection: Any, seconds: float) -> None:
    time.sleep(seconds)
    connection.cancel_safe(timeout=TIMEOUT)


def leave(traffic: Traffic, account: str) -> None:
    """Send a statement by a connection of its own, and go without a word while it runs."""
    import psycopg

    with contextlib.closing(psycopg.connect(traffic.dsn(account), autocommit=True, connect_timeout=int(TIMEOUT))) as connection:
        connection.pgconn.send_query(traffic.new().encode())
        connection.pgconn.flush()
        time.sleep(traffic.chance.random() * 0.1)
        with socket.socket(fileno=os.dup(connection.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)


# -- clients by asyncpg


async def by_asyncpg(traffic: Traffic, account: str, clients: int) -> None:
    import asyncpg

    async with asyncpg.create_pool(host="127.0.0.1", port=traffic.server.port, user=account, password=PASSWORD, database="study", ssl=False,
                                   min_size=clients, max_size=20, max_inactive_connection_lifetime=60, max_queries=300, timeout=TIMEOUT) as pool:
        await asyncio.gather(*(_one_by_asyncpg(traffic, pool, clients) for _ in range(clients)))


async def _one_by_asyncpg(traffic: Traffic, pool: Any, clients: int) -> None:
    import asyncpg

    for kind, due in traffic.kinds(WEIGHTS, clients * SLOWER):
        await asyncio.sleep(max(0.0, due - time.monotonic()))

        def told(fault: Exception, kind: str = kind) -> str:
            if kind == "cancelled" and isinstance(fault, TimeoutError | asyncpg.QueryCanceledError):
                return "cancelled"
            if kind == "gone" and isinstance(fault, asyncpg.ConnectionDoesNotExistError | ConnectionError | AttributeError):  # of its own, when it ends
                return "gone"
            return told_by_psycopg(kind)(fault)

        with traffic.requests.one(f"{kind}, asyncpg", told):
            async with asyncio.timeout(TIMEOUT), pool.acquire() as connection:
                match kind:
                    case "catalogue":
                        await connection.fetch(traffic.chance.choice(CATALOGUE))
                    case "cursor":
                        async with connection.transaction():
                            assert [row async for row in connection.cursor(traffic.new(), prefetch=2)]
                    case "typo":
                        try:
                            await connection.fetch(traffic.chance.choice(WRONG))
                        except (asyncpg.SyntaxOrAccessError, asyncpg.FeatureNotSupportedError):
                            raise Typo from None
                    case "cancelled":
                        await connection.fetch(traffic.new(), timeout=traffic.chance.random() * 0.1)
                    case "gone":
                        leaving = asyncio.get_running_loop().call_later(traffic.chance.random() * 0.1, connection.terminate)
                        try:
                            await connection.fetch(traffic.new())
                        finally:
                            leaving.cancel()
                    case _:
                        await connection.fetch(traffic.new() if kind == "new" else traffic.chance.choice(STORED))


# -- clients by HTTP, and agents


class OverHttp:
    """A client that keeps its connection and its session."""

    def __init__(self, port: int, account: str) -> None:
        self._port, self._account, self._token, self._connection = port, account, "", http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def ask(self, path: str, body: Any, *, accept: str = "application/json") -> tuple[int, bytes]:
        """The status and the content of an answer; logs in first if necessary."""
        if not self._token:
            self._token = json.loads(self._sent("/api/login", {"name": self._account, "password": PASSWORD}, "application/json")[1])["token"]
        return self._sent(path, body, accept)

    def close(self) -> None:
        if self._token:
            self._sent("/api/logout", {}, "application/json")
        self._token = ""
        self._connection.close()

    def leave(self, sql: str, seconds: float) -> None:
        """Send a statement by a connection of its own, and go while it runs."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        connection.request("POST", "/api/query", json.dumps({"sql": sql}).encode(), self._headers("application/json"))
        time.sleep(seconds)
        connection.close()

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Content-Type": "application/json", "Accept": accept} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _sent(self, path: str, body: Any, accept: str) -> tuple[int, bytes]:
        try:
            self._connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body).encode(), self._headers(accept))
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except Exception:
            self._connection.close()  # the next request opens another
            raise


def told_by_http(fault: Exception) -> str:
    return "typo" if isinstance(fault, Typo) else f"{type(fault).__name__}: {fault}"


def by_http(traffic: Traffic, account: str, clients: int) -> None:
    with contextlib.closing(OverHttp(traffic.server.http_port, account)) as client:
        for number, (kind, due) in enumerate(traffic.kinds(OVER_HTTP, clients)):
            if traffic.over.wait(max(0.0, due - time.monotonic())):
                return
            if number % 100 == 99:
                client.close()
            with traffic.requests.one(kind, told_by_http):
                if kind.startswith("gone"):
                    client.ask("/api/budget", None)
                    client.leave(traffic.new(), traffic.chance.random() * 0.1)
                elif kind.startswith("budget"):
                    answered(client.ask("/api/budget", None))
                else:
                    sql = traffic.new() if kind.startswith("new") else traffic.chance.choice(WRONG if kind.startswith("typo") else STORED)
                    answered(client.ask("/api/query?errors=true", {"sql": sql}, accept=ARROW if "Arrow" in kind else "application/json"),
                             typo=kind.startswith("typo"))


def answered(reply: tuple[int, bytes], *, typo: bool = False) -> None:
    """Raises Typo if a mistake was refused, and AssertionError for what is not as it should be."""
    status, content = reply
    if typo and status in (400, 422):
        raise Typo
    assert status == 200 and content and not typo, f"{status} {content[:200]!r}"


def by_agent(traffic: Traffic, account: str, clients: int) -> None:
    with contextlib.closing(OverHttp(traffic.server.http_port, account)) as client:
        for kind, due in traffic.kinds(OF_AGENTS, clients):
            if traffic.over.wait(max(0.0, due - time.monotonic())):
                return
            with traffic.requests.one(kind, told_by_http):
                given = {"catalogue, agent": {}, "price, agent": {"sql": traffic.chance.choice(STORED)},
                         "ask, agent": {"sql": traffic.new(), "purpose": "compare health for the annual report"}}[kind]
                call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": kind.partition(",")[0], "arguments": given}}
                status, content = client.ask("/mcp", call, accept="application/json, text/event-stream")
                assert status == 200 and not json.loads(content)["result"].get("isError"), f"{status} {content[:200]!r}"


# -- all of them


@contextlib.contextmanager
def clients_running(traffic: Traffic, clients: int, agents: str) -> Iterator[None]:
    """A context in which so many clients ask: three of eight by asyncpg as the first account, one of eight by HTTP, one of sixteen
    as an agent, and the others by psycopg, with a pool for each account."""
    from psycopg_pool import ConnectionPool

    first, *others = traffic.accounts
    agent, web, asynchronous = max(1, clients // 16), max(1, clients // 8), max(1, clients * 3 // 8)
    some = max(1, clients - agent - web - asynchronous)
    of = [others[number % len(others)] for number in range(some + web)]
    with contextlib.ExitStack() as inside:
        pools = {account: inside.enter_context(ConnectionPool(traffic.dsn(account), min_size=2, max_size=max(2, of[:some].count(account)), timeout=TIMEOUT,
                                                              max_lifetime=60, kwargs={"autocommit": True})) for account in {*of[:some]}}
        work: list[Callable[[], object]] = [lambda: asyncio.run(by_asyncpg(traffic, first, asynchronous))]
        work += [lambda account=account: by_psycopg(traffic, pools[account], account, of.count(account)) for account in of[:some]]
        work += [lambda account=account: by_http(traffic, account, of.count(account)) for account in of[some:]]
        work += [lambda: by_agent(traffic, agents, agent)] * agent
        with concurrent.futures.ThreadPoolExecutor(len(work)) as threads:
            futures = [threads.submit(each) for each in work]
            try:
                yield
            finally:
                traffic.over.set()
            for future in futures:
                future.result()


def front_of(server: Listening) -> int:
    """The number of the process that is the front."""
    return children_of(server.process)[-1]


class Watch:
    """Samples of a server, with what an overseer sees of it and what its ledger says."""

    def __init__(self, traffic: Traffic, policy: Policy, ledger: ReportingLedger, connection: Any) -> None:
        self._traffic, self._policy, self._ledger, self._connection = traffic, policy, ledger, connection
        self._front = front_of(traffic.server)
        self._seen, self._begun = 0, time.monotonic()

    def sample(self) -> Sample:
        states = self._connection.execute("SHOW ANALYSTS").fetchall()
        self._ledger.refresh()
        ended = self._traffic.requests.ended(self._seen)
        self._seen += len(ended)
        beside = [self._ledger.path.with_name(self._ledger.path.name + end) for end in ("", "-wal")]
        return Sample(at=time.monotonic() - self._begun, ended=ended, vault=size_of(self._traffic.server.process), front=size_of(self._front),
                      ledger=megabytes(*beside), asked=states[0][1], failed=sum(state[7] or 0 for state in states),
                      waits=max((self._waits(state[0]) for state in states if state[0]), default=0.0))

    def _waits(self, analyst: str) -> float:
        first = self._ledger.first_step(Account(budget=BUDGET, analyst=analyst), self._policy.budgets[BUDGET].late, crowded=True)
        return (self._policy.pace or 0.0) * 2.0**first if first else 0.0


# -- what is printed


def line(sample: Sample, before: Sample) -> list[str]:
    taken = {kind: [each.seconds for each in sample.ended if each.kind.partition(",")[0] == kind and each.how == "answered"] for kind in ("new", "stored")}
    return [f"{sample.at / 60:.1f}", f"{len(sample.ended) / (sample.at - before.at):.1f}",
            *(in_milliseconds(taken[kind], share) for kind in ("new", "stored") for share in (0.5, 0.95)),
            *(cell for size in (sample.vault, sample.front) for cell in (f"{size.megabytes:.1f}", str(size.files), str(size.threads))),
            f"{sample.ledger:.1f}", str(sample.failed), f"{sample.waits:.2f}"]


def merged(samples: Sequence[Sample], most: int = 24) -> list[list[str]]:
    """The lines of so many samples at most: each tells of the requests since the line before."""
    step, lines, before = max(1, -(-(len(samples) - 1) // most)), [], samples[0]
    for at in range(step, len(samples), step):
        some = samples[at - step + 1:at + 1]
        last = some[-1]
        lines.append(line(Sample(at=last.at, ended=[each for one in some for each in one.ended], vault=last.vault, front=last.front, ledger=last.ledger,
                                 asked=last.asked, failed=last.failed, waits=last.waits), before))
        before = last
    return lines


def growth(samples: Sequence[Sample], name: str, seen: Callable[[Sample], float], unit: str) -> list[str]:
    """Whether a figure grows in the last two thirds of the time."""
    late = samples[len(samples) // 3:]
    level = statistics.fmean(map(seen, late))
    if len(late) < 3:
        return [name, "ok", f"{level:.1f} {unit}; too few samples for a line"]
    found = slope([(sample.at, seen(sample)) for sample in late])
    over = late[-1].at - late[0].at
    grows = found.slope > 3 * found.error and found.slope * over > 0.02 * level
    return [name, "look" if grows else "ok", f"{level:.1f} {unit}; {found.slope * 3600:+.1f} ± {found.error * 3600:.1f} {unit} an hour"]


def findings(samples: Sequence[Sample], rest: Sample, empty: Sequence[tuple[str, Size, Size]], traffic: Traffic, policy: Path,
             ledger: ReportingLedger) -> Iterator[list[str]]:
    """`empty` has the size of each process before the first client came, and after the last one left."""
    first, ended = samples[0], traffic.requests.ended()
    wrong = [each for each in ended if each.how != "answered" and each.how not in MEANT]
    incidents, late = ledger.failures(BUDGET), ledger.late(BUDGET)
    yield ["statements that failed after a charge", "look" if incidents else "ok", str(len(incidents))]
    yield ["refused or broken, but for typos", "look" if wrong else "ok", f"{len(wrong)} of {len(ended):,} requests"]
    slowest = max(ended, key=lambda each: each.seconds, default=None)
    if slowest is not None:
        yield ["longest request", "look" if slowest.seconds > 30 else "ok", f"{slowest.seconds:.1f} s ({slowest.kind})"]
    yield ["late answers", "ok", f"{sum(number for _, _, number in late):,}; the longest minimum time that they cause is {rest.waits:.2f} s"]
    for name, seen in (("vault", lambda sample: sample.vault), ("front", lambda sample: sample.front)):
        yield growth(samples, f"memory of the {name}", lambda sample, seen=seen: seen(sample).megabytes, "MB")
        yield growth(samples, f"files of the {name}", lambda sample, seen=seen: seen(sample).files, "files")
        yield growth(samples, f"threads of the {name}", lambda sample, seen=seen: seen(sample).threads, "threads")
    for name, before, after in empty:
        yield [f"{name} when all clients have left", "look" if after.files > before.files + 2 else "ok",
               f"{before.megabytes:.1f} MB, {before.files} files, {before.threads} threads before; {after.megabytes:.1f} MB, {after.files} files, "
               f"{after.threads} threads after"]
    charged = max(1, rest.asked - first.asked)
    yield ["a charged statement", "ok", f"{(rest.ledger - first.ledger) * 1024 / charged:.2f} kB of the ledger; {charged:,} statements"]
    told = [each.strip() for each in traffic.server.log if "WARNING" in each or "ERROR" in each or "Traceback" in each]
    yield ["warnings and errors in the log", "look" if told else "ok", f"{len(told)}{': ' + told[0] if told else ''}"]
    verified = command("ledger", "verify", "--policy", policy)
    yield ["the ledger verified", "ok", verified.strip().splitlines()[0]]


def soaked(folder: Path, given: argparse.Namespace) -> Iterator[str]:
    """The tables."""
    import psycopg

    command("demo", "--to", folder / "study")
    policy = folder / "study" / "dpsql.toml"
    head, rest = policy.read_text(encoding="utf-8").split("version = 1\n", 1)
    pace = f'pace = "{given.pace}"\n' if given.pace else ""
    policy.write_text(f"{head}version = 1\n{pace}{rest}{TERMS}", encoding="utf-8")
    accounts = [f"u{number}" for number in range(given.accounts)]
    for name in (*accounts, "robot"):
        add_user(policy, name, "--budget", BUDGET)
    add_user(policy, "overseer", "--budget", BUDGET, "--role", "auditor")
    declared = read_policy(policy)
    with serving(policy, "--http", "127.0.0.1:0", "--mcp") as server, contextlib.closing(ReportingLedger(*find_ledger(declared))) as ledger:
        traffic, processes = Traffic(server, accounts, given.rate), {"vault": server.process, "front": front_of(server)}
        before = {name: size_of(process) for name, process in processes.items()}
        with psycopg.connect(traffic.dsn("overseer"), autocommit=True) as overseer:
            watch = Watch(traffic, declared, ledger, overseer)
            samples = [watch.sample()]
            end = time.monotonic() + given.minutes * 60
            with clients_running(traffic, given.clients, "robot"):
                while (left := end - time.monotonic()) > 0:
                    time.sleep(min(given.every, left))
                    samples.append(watch.sample())
                    waited, kind = traffic.requests.longest()
                    if waited > 60:
                        print(f"minute {samples[-1].at / 60:.1f}: a request ({kind}) has waited for {waited:.0f} s", flush=True)
            wall = time.monotonic() - end + given.minutes * 60
            time.sleep(given.rest)
            rested = watch.sample()
        time.sleep(min(given.rest, 5.0))
        empty = [(name, before[name], size_of(process)) for name, process in processes.items()]
        ended = traffic.requests.ended()
        title = f"{given.clients} clients of {given.accounts} accounts for {given.minutes:g} minutes"
        yield table(f"{title}: samples, with the requests since the one before", COLUMNS, merged(samples))
        yield table("Requests by kind", BY_KIND, by_kind(ended, wall, MEANT))
        yield table("Refused without being meant to", ("how", "kind", "number"), refusals(ended, MEANT))
        yield "Findings\n\n" + "".join(f"{verdict:6}{name}: {told}\n" for name, verdict, told in findings(samples, rested, empty, traffic, policy, ledger))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--accounts", type=int, default=4, help="from 2 to 8")
    parser.add_argument("--rate", type=float, default=8.0, help="the most requests a second of all clients of an account")
    parser.add_argument("--pace", default="", help='the pace of the server, such as "30 ms"')
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--rest", type=float, default=15.0, help="seconds after all clients have left until the last sample")
    given = parser.parse_args()
    if not 2 <= given.accounts <= 8:
        parser.error("--accounts is from 2 to 8")
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as name:
        for text in soaked(Path(name), given):
            print(text, flush=True)


if __name__ == "__main__":
    main()
