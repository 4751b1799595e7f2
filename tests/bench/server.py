"""What a server takes of a statement of its clients: CPU of its two processes, answers a second, waits, and syncs of the ledger.

    python tests/bench/server.py --data /var/tmp
    python tests/bench/server.py --data /var/tmp --soak 200000

`dpsql serve` is run over a generated database, with its ledger on the disk of `--data`; clients are sockets of one process, each
of which asks the next statement when it has its answer. Statements are new (no two have the same value of weight), or all of them
were answered before and are asked for the second time (shown the second time) or for the third time and more (shown lately);
simple messages, or those of the extended protocol with a parameter: prepared once, or parsed each time. A commit is a wait for the disk, by the
records of the anchor, which are one for each. All on one machine: answers a second are of what is left of it, CPU hardly depends
on that.

`--soak` goes on, at the end, with so many new statements, nine in ten of them counts, and prints memory and the ledger's size at
intervals.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from bench_clock import table
from bench_data import POLICY, database

from dpsql.kernel.ledger import Ledger
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.server.vault import passwords

PASSWORD = "correct horse"
ACCOUNTS = 16
COUNT = "SELECT COUNT(*) FROM visits WHERE weight < $1"
SUMS = "SELECT year, COUNT(*), SUM(points) FROM visits WHERE weight < $1 GROUP BY year"
AVERAGE = "SELECT AVG(cost) FROM visits WHERE weight < $1"
LOGIN_SECONDS, OVERLOAD_SECONDS = 120, 20  # what so many logins, one after the other, and statements may take
MANY = ServerLimits(statements_of_account=1000, statements_a_minute=10**9, connections_of_account=1000)
PROGRAM = """
import json, sys
from pathlib import Path
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.server.start.serving import serve
serve(Path(sys.argv[1]), "127.0.0.1:0", limits=ServerLimits(**json.loads(sys.argv[2])), ready=lambda at: print(at[1], flush=True))
"""
HEADS = ("", "answers", "a second", "p50 ms", "p99 ms", "max ms", "front ms", "vault ms", "client ms", "commits", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs: its port, the processes of vault and front, and the ledger."""

    port: int
    vault: int
    front: int
    ledger: Path

    def cpu(self) -> tuple[float, float]:
        """Seconds of the front and of the vault."""
        return _cpu(self.front), _cpu(self.vault)

    def memory(self) -> tuple[float, float]:
        """Megabytes of the front and of the vault."""
        return _memory(self.front), _memory(self.vault)

    def commits(self) -> int:
        return self.ledger.with_name(self.ledger.name + ".anchor").read_bytes().count(b" ")


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else 0.0


def _child(process: int) -> int:
    """The process that this one started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # of a process that is gone
            if int(status.read_text(encoding="ascii").rpartition(")")[2].split()[1]) == process:
                return int(status.parent.name)
    raise LookupError("the server has no front")


@contextlib.contextmanager
def served(path: Path, folder: Path, limits: ServerLimits, pace: str) -> Iterator[Server]:
    """A server of a database, with a new ledger; its answers leave at steps of `pace`, as a policy says."""
    folder.mkdir()
    policy = folder / "policy.toml"
    declared = POLICY.format(visit_limit="rows_per_entity = 1000", claim_limit="")
    policy.write_text(f"database = \"{path}\"\npace = \"{pace}\"\n{declared}", encoding="utf-8")
    Ledger.create(folder / "policy.ledger").close()
    proven = passwords.verifier(PASSWORD)
    for account in accounts(ACCOUNTS):
        passwords.add_user(passwords.users_file(policy), passwords.User(
            name=account, verifier=proven, budget="person", price={"rho": Decimal("0.0001"), "delta": Decimal("0.00000001")}))
    with subprocess.Popen([sys.executable, "-c", PROGRAM, policy, json.dumps(asdict(limits))], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield Server(port=port, vault=process.pid, front=_child(process.pid), ledger=folder / "policy.ledger")
        finally:
            process.terminate()


def accounts(number: int) -> list[str]:
    return [f"analyst{at % ACCOUNTS}" for at in range(number)]


class Clients:
    """A process with the connections of so many clients."""

    def __init__(self, server: Server, number: int) -> None:
        self._server, self.number = server, number
        self._process = subprocess.Popen([sys.executable, Path(__file__).with_name("server_client.py")], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self.turned_away = self._told({"connect": accounts(number), "port": server.port, "password": PASSWORD,
                                       "seconds": LOGIN_SECONDS})["refused"]

    def _told(self, task: dict[str, Any]) -> dict[str, Any]:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        _sent(to, task)
        said: dict[str, Any] = json.loads(back.readline())
        return said

    def ask(self, name: str, sql: Sequence[str], numbers: Sequence[int], mode: str, seconds: float = 3600) -> list[str]:
        """A line: each client asks the statements of these numbers, as far as it gets in so many seconds."""
        before, commits = self._server.cpu(), self._server.commits()
        met = self._told({"sql": sql, "numbers": list(numbers), "mode": mode, "seconds": seconds})
        front, vault = (after - at for after, at in zip(self._server.cpu(), before, strict=True))
        waits, refused = met["waits"], {**met["refused"]}
        for state, times in self.turned_away.items():
            refused[f"{state} at login"] = times
        all_asked = len(waits) + sum(met["refused"].values()) or 1
        line = [name, str(len(waits)), f"{len(waits) / met['wall']:.0f}", *(f"{1000 * _at(waits, part):.1f}" for part in (0.5, 0.99, 1)),
                *(f"{1000 * each / all_asked:.2f}" for each in (front, vault, met["cpu"])),
                f"{(self._server.commits() - commits) / all_asked:.2f}",
                ", ".join(f"{times} x {state}" for state, times in sorted(refused.items()))]
        print(*line, sep="; ", file=sys.stderr)  # as it may take long until the table is there
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _sent(to: IO[str], task: dict[str, Any]) -> None:
    to.write(json.dumps(task) + "\n")
    to.flush()


def _at(waits: Sequence[float], part: float) -> float:
    return waits[min(len(waits) - 1, int(part * len(waits)))] if waits else 0.0


def lines(server: Server, number: int, each: int) -> Iterator[list[str]]:
    """`each` statements of every client in every line."""
    clients = Clients(server, number)
    clients.ask("", [COUNT, SUMS, AVERAGE], range(900_000, 900_006), "simple")  # libraries are loaded at the first statement
    first, simple = 0, "simple"
    for name, sql, mode in (("new: count", [COUNT], simple), ("new: count, parsed each time", [COUNT], "extended"),
                            ("new: count, prepared", [COUNT], "prepared"), ("new: counts and sums by year", [SUMS], simple),
                            ("new: average", [AVERAGE], simple)):
        yield clients.ask(name, sql, range(first, first + each), mode)
        first += each
    for at, (name, sql, mode) in enumerate((("count", COUNT, simple), ("count, parsed each time", COUNT, "extended"),
                                            ("count, prepared", COUNT, "prepared"), ("counts and sums by year", SUMS, simple))):
        asked = range(at * each, (at + 1) * each)
        yield clients.ask(f"shown the second time: {name}", [sql], asked, mode)
        yield clients.ask(f"shown lately: {name}", [sql], [*asked] * 8, mode)
    tenth = [first + at // 10 if at % 10 == 0 else at % each for at in range(2 * each)]
    yield clients.ask("mixed: one count in ten is new", [COUNT], tenth, simple)
    clients.close()


def overload(server: Server, number: int, each: int) -> Iterator[list[str]]:
    """More clients than a server takes by its own limits; none of them waits before it asks again, answered or refused."""
    clients = Clients(server, number)
    yield clients.ask(f"overload: {number} clients", [COUNT], range(each), "simple", OVERLOAD_SECONDS)
    clients.close()


def soak(server: Server, number: int, statements: int) -> Iterator[list[str]]:
    """Memory and the ledger, every so many statements."""
    clients, each, begun = Clients(server, number), max(1, statements // number // 20), time.perf_counter()
    done = 0
    for first in range(0, statements // number, each):
        line = clients.ask("", [*[COUNT] * 18, SUMS, AVERAGE], range(first, first + each), "simple")
        done += int(line[1])
        front, vault = server.memory()
        size = sum(path.stat().st_size for path in server.ledger.parent.glob("policy.ledger*"))
        print(f"soak {done:,}: {front:.0f} and {vault:.0f} MB", file=sys.stderr)
        yield [f"{done:,}", f"{time.perf_counter() - begun:.0f}", line[2], line[4], line[6], line[7], f"{front:.0f}", f"{vault:.0f}",
               f"{size / 2**20:.0f}", line[-1]]
    clients.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--each", type=int, default=50, help="new statements of each client in each line")
    parser.add_argument("--overload", type=int, default=256, help="how many clients are too many")
    parser.add_argument("--soak", type=int, default=0, help="go on with so many new statements")
    parser.add_argument("--pace", default="none", help="of the grid of times at which answers leave")
    parser.add_argument("--data", type=Path, default=Path("/var/tmp"), help="a folder on the disk that is meant")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-", dir=given.data) as made:
        folder = Path(made)
        path = database(given.rows, folder / "data")
        found: list[list[str]] = []
        if given.each:
            with served(path, folder / "many", MANY, given.pace) as server:
                found += lines(server, given.clients, given.each)
                if given.soak:
                    soaked = [*soak(server, given.clients, given.soak)]
        if given.overload:
            with served(path, folder / "usual", replace(ServerLimits(), statements_a_minute=10**9), given.pace) as server:
                found += overload(server, given.overload, given.each // 2 or 5)
        print(table(f"{given.clients} clients, {given.rows} rows; CPU milliseconds and commits of each statement", HEADS, found))
        if given.soak:
            print(table("Soak", ("answers", "seconds", "a second", "p99 ms", "front ms", "vault ms", "front MB", "vault MB", "ledger MB",
                                 "refused"), soaked))


if __name__ == "__main__":
    main()
