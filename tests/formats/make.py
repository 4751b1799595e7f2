"""Writes files of all kinds as this version does, for later versions to open: run once for each release.

    PYTHONPATH=.:tests python tests/formats/make.py     # makes tests/formats/VERSION

The folder has a ledger with its anchor, the policy, users of a server, the manifests of a prepared store and of a snapshot, and in
`expected.json` what they say, as read by the version that wrote them. The data themselves are those of the demo, and not kept.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dpsql
from dpsql.answers.answer import of_json as answer_of
from dpsql.batch.workload_answers import of_json as answers_of
from dpsql.demo.folder import export
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.synthesis.online_model import model_of_json
from dpsql.synthesis.released_database import database_of_json
from dpsql.synthesis.synthetic_table import of_json as table_of
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
    (target / "expected.json").write_text(json.dumps(told(target), indent=1, default=str, sort_keys=True) + "\n", encoding="utf-8")


def _ask(folder: Path) -> None:
    with dpsql.connect(policy=folder / "dpsql.toml", budget=BUDGET, analyst="ada") as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.workload(["SELECT health, COUNT(*) FROM people GROUP BY health", "SELECT COUNT(*) FROM people WHERE income > 100"],
                            epsilon=0.1)
        connection.execute("DROP SYNTHETIC TABLE made")
    for words, given in ((("user", "add", "ada", "--budget", BUDGET, "--password-stdin"), "a password of 0.1.0\n"), (("prepare", "--budget", BUDGET), "")):
        subprocess.run([sys.executable, "-m", "dpsql.cli", *words], cwd=folder, input=given, text=True, check=True)


def told(folder: Path) -> dict[str, Any]:
    """What the files of a folder say, read by the code that is there now."""
    with contextlib.closing(ReportingLedger(folder / "dpsql.ledger", folder / "dpsql.ledger.anchor")) as ledger:
        entries = [[entry.seq, entry.at, entry.account.analyst, entry.charge.epsilon, entry.charge.rho, entry.charge.delta, entry.outcome, entry.sql]
                   for entry in ledger.entries(BUDGET)]
        spent = ledger.spent(BUDGET)
        return {"events": ledger.events, "identity": ledger.identity, "entries": entries, "spent": [spent.epsilon, spent.rho, spent.delta],
                "promised": sorted(ledger.promised()), "bodies": [shown(body) for body in bodies(folder / "dpsql.ledger")]}


def bodies(ledger: Path) -> Iterator[str]:
    """The stored answers of a ledger, oldest first."""
    with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro&immutable=1", uri=True)) as connection:
        yield from (body for body, in connection.execute("SELECT body FROM events WHERE kind = 'answer' ORDER BY seq"))


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
