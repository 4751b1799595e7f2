"""A store that is prepared while statements are asked, by another process of lowest priority, if that is expected to pay.

*When.* No store is made before a statement was answered. To make one takes about as many seconds as the largest table has cells
(rows times declared columns), divided by `CELLS`; the store then saves about the share `SAVED` of the seconds that queries take
without it. Both are figures of measurements. What a store would have saved in the statements so far is what it will save in as
many more like them. So one is made as soon as that is as much as it takes to make it. Preparing and all queries then take at most
about three times as long as the better choice in hindsight would have taken. The queries of all connections of this process to
the same data count.

*How.* The process is given paths, and opens the policy, the data and the ledger itself. It ends when its standard input is
closed: when the last of these connections closes, or when this process ends for any reason. An unfinished store is then removed,
by this process or by the next preparation. It cannot be taken for a store: a store is what a manifest names that is remembered
beside the ledger, and the manifest is written last. If the process fails, nothing is said, and this process does not start
another one.

*The change from the source to the store* comes between two statements (`backends.duckdb.DuckReader.adopt`), if the store was made
of the very files that are open. Every query gives the same rows before and after (`measurements.reading.content`), the data have
the same version, and what was found to hold of these files still does. So whether there is a store changes no answer, charge,
error or plan, but only the time, on which private rows have an influence anyway. Stores that another process has put in force,
such as `dpsql prepare`, are adopted in the same way.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import attach_store
from dpsql.backends.source_files import DataOrigin
from dpsql.backends.store import find_store, manifest_of
from dpsql.catalog.model import Budget, Policy
from dpsql.engine.opening import find_ledger, store_folder
from dpsql.engine.preparing import has_room
from dpsql.errors import Error
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger

CELLS = 5_000_000  # that are prepared in a second of two processors, about
SAVED = 0.5  # of the seconds that queries take without a store
PROGRAM = "dpsql.engine.preparing_apart"


class Preparation:
    """The preparation of one store, for all connections of this process to the same data."""

    def __init__(self, told: dict[str, Any], folder: Path, origin: DataOrigin, seconds: float) -> None:
        """`told` is the message to the other process; `seconds` is how long preparing is expected to take."""
        self._told, self._folder, self._files, self._seconds = told, folder, origin.files, seconds
        self._spent, self._users, self._owner = 0.0, 0, os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The process that prepares the store; None if none was started."""
        return self._process

    def join(self) -> None:
        with self._turn:
            self._users += 1

    def leave(self) -> None:
        """One connection less; the last one stops what runs."""
        with self._turn:
            self._users -= 1
            if not self._users:
                self._stop()

    def spend(self, seconds: float) -> None:
        """Count the seconds of queries, and start to prepare if it pays."""
        with self._turn:
            self._spent += seconds
            if self._process is None and self._spent > 0 and self._spent * SAVED >= self._seconds:
                with contextlib.suppress(OSError):
                    if "python" in Path(sys.executable or "").name and has_room(self._folder, self._files):
                        self._start()
            elif self._process is not None:
                self._process.poll()

    def _start(self) -> None:
        others = (path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
        folders = [str(Path(each).absolute()) for each in (str(Path(__file__).parents[2]), *others)]
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", PROGRAM], env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)}, close_fds=True,
            start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._told).encode() + b"\n")
        self._process.stdin.flush()

    def _stop(self) -> None:
        """End the process, and remove what it leaves behind."""
        from dpsql.backends.store_writer import tidy

        process = self._process
        if process is None or self._owner != os.getpid():  # a forked process did not start it
            return
        broken_off = process.poll() is None
        if broken_off:
            process.kill()
        with contextlib.suppress(OSError):  # it has not read what it was told
            process.communicate()
        if process.returncode:
            with (contextlib.suppress(Error, OSError, TimeoutError), contextlib.closing(_ledger_of(self._told)) as book,
                  book.alone("prepare", 0)):
                tidy(self._folder)
        if broken_off:
            self._process = None


def _ledger_of(told: dict[str, Any]) -> ReportingLedger:
    from dpsql.catalog.policy import read_policy

    return ReportingLedger(*find_ledger(read_policy(Path(told["policy"])), told["ledger"]))


_known: dict[str, Preparation] = {}  # by what is prepared, and where
_turn = threading.Lock()


@atexit.register
def _stop_all() -> None:
    for preparation in _known.values():
        preparation._stop()


class StoreOfReader:
    """What the reader of one session waits for."""

    def __init__(self, reader: DuckReader, preparation: Preparation, entity: str, facts: FactsBesideLedger, folder: Path) -> None:
        self._reader, self._entity, self._facts, self._folder = reader, entity, facts, folder
        self.preparation, self._seen, self._open = preparation, "", True
        self._counted: float | None = None  # the seconds that were counted before; none before the first statement
        preparation.join()

    def look(self) -> None:
        """Between two statements: adopt the store if it is there now, otherwise count the seconds of the one before."""
        if self._reader.stored or not self._open:
            return
        seen = ""
        with contextlib.suppress(OSError):
            seen = str(os.stat(manifest_of(self._folder, self._entity)))
        if seen and seen != self._seen:
            self._seen = seen
            store = find_store(self._folder, self._entity, self._reader.origin, self._facts)
            if store is not None:
                with contextlib.suppress(Error):  # it has gone again
                    self._reader.adopt(store, attach_store)
                return
        before, self._counted = self._counted, self._reader.spent
        self.preparation.spend(self._reader.spent - before if before is not None else 0.0)

    def close(self) -> None:
        if self._open:
            self._open = False
            self.preparation.leave()


def await_store(policy: Policy, database: str | Path | None, budget: Budget, ledger: ReportingLedger,
                reader: DuckReader) -> StoreOfReader:
    """What lets a reader of large data adopt a store as soon as there is one, and sees to it that there is one if that pays."""
    folder = store_folder(policy, ledger)
    in_file = ledger.place == str(ledger.path)  # otherwise the policy names it
    told = {"policy": str(Path(policy.path).absolute()), "budget": budget.name, "made_of": reader.origin.read_as,
            "database": None if database is None else str(Path(database).absolute()),
            "ledger": str(ledger.path.absolute()) if in_file else None}
    columns = max((len(table.columns) for table in policy.tables.values() if not table.public), default=1)
    with _turn:
        preparation = _known.setdefault(f"{folder} {json.dumps(told)}", Preparation(
            told, folder, reader.origin, columns * reader.largest() / CELLS))
        return StoreOfReader(reader, preparation, budget.entity, FactsBesideLedger(ledger), folder)
