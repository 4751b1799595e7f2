"""Writes files of all kinds as this version does, for later versions to open: run once for each release.

    PYTHONPATH=.:tests python tests/formats/make.py     # makes tests/formats/VERSION

The folder has a ledger with its anchor, in a file and as a dump of PostgreSQL; the policy; users of a server; the manifest of a
prepared store; a snapshot of another database with its policy; and in `expected.json` what all of them say, as read by the version
that wrote them. The rows of the demo and of the prepared store are not kept.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from support import postgres, snapshots
from support.worlds import world

import dpsql
from dpsql.answers.answer import of_json as answer_of
from dpsql.batch.workload_answers import of_json as answers_of
from dpsql.catalog.policy import read_policy
from dpsql.demo.folder import export
from dpsql.engine.opening import open_reader
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.synthesis.online_model import model_of_json
from dpsql.synthesis.released_database import database_of_json
from dpsql.synthesis.synthetic_table import of_json as table_of
from dpsql.trusted.kernel.event_store import EventStore
from dpsql.validation.findings import of_json as validation_of

HERE = Path(__file__).parent
BUDGET = "study"
STATEMENTS = (
    "SELECT health, COUNT(*), AVG(income) FROM people GROUP BY health",
    "SELECT site, MEDIAN(income) FROM people GROUP BY site",
    "SELECT COUNT(*) FROM people ERROR WITHIN 25",
    "CREATE SYNTHETIC TABLE made AS SELECT health, site, income FROM people OPTIONS (epsilon = 0.5, rows = 40)",
    "VALIDATE SELECT COUNT(*) FROM people AGAINST made WITHIN 50 PERCENT",
    "CREATE SYNTHETIC TABLES people_syn AS SELECT person_id, health FROM people, years_syn AS SELECT person_id, age FROM person_years "
    "OPTIONS (epsilon = 0.5, rows = 20)",
    "CREATE ONLINE MODEL counts AS SELECT health, site FROM people OPTIONS (epsilon = 0.5)",
)


def main() -> None:
    target = HERE / dpsql.__version__
    target.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        folder = export(Path(temporary) / "study").parent
        _ask(folder)
        for name in ("dpsql.toml", "dpsql.ledger", "dpsql.ledger.anchor", "dpsql.users.json"):
            shutil.copy(folder / name, target / name)
        for at, manifest in enumerate(sorted(folder.rglob("manifest-*.json"))):
            text = manifest.read_text(encoding="utf-8").replace(str(folder), "/data")
            (target / f"store-{at}.json").write_text(text, encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        _charge_in_postgres(export(Path(temporary) / "study").parent, target)
    with tempfile.TemporaryDirectory() as temporary:
        _take_snapshot(Path(temporary), target / "snapshot")
    with in_postgres(target) as store:
        found = {"files": contents(target), "postgres": contents(target, "postgres", store), "snapshot": rows_of_snapshot(target)}
    (target / "expected.json").write_text(json.dumps(found, indent=1, default=str, sort_keys=True) + "\n", encoding="utf-8")


def _ask(folder: Path) -> None:
    with dpsql.connect(policy=folder / "dpsql.toml", budget=BUDGET, analyst="ada") as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.workload(["SELECT health, COUNT(*) FROM people GROUP BY health", "SELECT COUNT(*) FROM people WHERE income > 100"],
                            epsilon=0.1)
        connection.execute("DROP SYNTHETIC TABLE made")
    for words, given in ((("user", "add", "ada", "--budget", BUDGET, "--password-stdin"), "a password of 0.1.0\n"), (("prepare", "--budget", BUDGET), "")):
        subprocess.run([sys.executable, "-m", "dpsql.cli", *words], cwd=folder, input=given, text=True, check=True)


def _charge_in_postgres(folder: Path, target: Path) -> None:
    """Answer a few statements with a ledger in PostgreSQL, and dump its tables as SQL."""
    from dpsql.ledgers.postgres_store import TABLES, USUAL_SCHEMA, PostgresStore

    database = postgres.fresh(postgres.DURABLE)
    for path in (folder / "dpsql.ledger", folder / "dpsql.ledger.anchor"):
        path.unlink()
    ReportingLedger.create(folder / "dpsql.ledger", None, PostgresStore(database.uri)).close()
    with dpsql.connect(policy=folder / "dpsql.toml", budget=BUDGET, analyst="ada", ledger=database.uri) as connection:
        for statement in STATEMENTS[:3]:
            connection.execute(statement)
    shutil.copy(folder / "dpsql.ledger.anchor", target / "postgres.ledger.anchor")
    lines = [f"CREATE SCHEMA {USUAL_SCHEMA}", f"SET search_path TO {USUAL_SCHEMA}", *TABLES]
    with psycopg.connect(database.uri) as connection:
        for table, order in (("meta", "key"), ("events", "seq")):
            rows = connection.execute(f"SELECT * FROM {USUAL_SCHEMA}.{table} ORDER BY {order}")
            lines += [f"INSERT INTO {table} VALUES ({', '.join(map(postgres.literal, row))})" for row in rows]
    (target / "postgres.sql").write_text(";\n".join(lines) + ";\n", encoding="utf-8")


def _take_snapshot(folder: Path, target: Path) -> None:
    """Take a snapshot of the tables of a small database of SQLite, whose path becomes one that exists nowhere."""
    uri = snapshots.in_sqlite(folder / "clinic.sqlite", snapshots.tables_of(world(people=4)))
    kept = folder / "kept"
    snapshots.snapshot_of(uri, kept).close()
    shutil.copytree(kept, target, ignore=shutil.ignore_patterns("refreshing"))
    for path in (target / "dpsql.toml", *target.rglob("manifest.json")):
        path.write_text(path.read_text(encoding="utf-8").replace(str(folder), "/data"), encoding="utf-8")


@contextlib.contextmanager
def in_postgres(folder: Path) -> Iterator[EventStore]:
    """The store of a ledger whose dump is in a folder, in a new database. Skips the test where there is no PostgreSQL."""
    from dpsql.ledgers.postgres_store import PostgresStore

    database = postgres.fresh(postgres.DURABLE)
    with psycopg.connect(database.uri) as connection:
        connection.execute((folder / "postgres.sql").read_text(encoding="utf-8"))
    yield PostgresStore(database.uri)


def contents(folder: Path, name: str = "dpsql", store: EventStore | None = None) -> dict[str, Any]:
    """Everything a ledger of a folder records, read by the code that is there now."""
    with contextlib.closing(ReportingLedger(folder / f"{name}.ledger", folder / f"{name}.ledger.anchor", store, whole=True)) as ledger:
        entries = [[entry.seq, entry.at, entry.account.analyst, entry.charge.epsilon, entry.charge.rho, entry.charge.delta, entry.outcome, entry.sql]
                   for entry in ledger.entries(BUDGET)]
        spent = ledger.spent(BUDGET)
        return {"events": ledger.events, "identity": ledger.identity, "entries": entries, "spent": [spent.epsilon, spent.rho, spent.delta],
                "promised": sorted(ledger.promised()), "bodies": [shown(body) for body in bodies(ledger)]}


def bodies(ledger: ReportingLedger) -> list[str]:
    """The stored answers of a ledger, oldest first."""
    return [body for body, in ledger._store.rows("SELECT body FROM events WHERE kind = 'answer' ORDER BY seq")]


def rows_of_snapshot(folder: Path) -> dict[str, list[Any]]:
    """The rows of each table of a snapshot, as strings."""
    policy = read_policy(folder / "snapshot" / "dpsql.toml")
    with contextlib.closing(open_reader(policy, None)) as reader:
        return {table: sorted(str(row) for row in reader.rows(f"SELECT * FROM {table}")) for table in sorted(policy.tables)}


def shown(body: str) -> list[Any]:
    """A stored answer as rows, and its kind."""
    begins = (('{"synthetic tables": ', database_of_json), ('{"synthetic table": ', table_of), ('{"online model": ', model_of_json))
    for mark, read in begins:
        if body.startswith(mark):
            made = read(body)
            return [type(made).__name__, [list(row) for row in made.as_table().rows]]
    if body.startswith('{"synthetic table note"'):
        return ["TableNote", body]
    for reader in (answer_of, validation_of, answers_of):
        with contextlib.suppress(Exception):
            found = reader(body)
            parts = found.answers if hasattr(found, "answers") else [found if hasattr(found, "rows") else found.as_table()]
            return [type(found).__name__, [[list(row) for row in part.rows] for part in parts]]
    raise ValueError(body[:200])


if __name__ == "__main__":
    main()
