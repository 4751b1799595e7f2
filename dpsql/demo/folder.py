"""The demo as a project of one's own: data, policy and statements in a folder, with a ledger beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import file_named, find_ledger
from dpsql.errors import OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger

HERE = Path(__file__).parent
FILES = ("people.parquet", "person_years.parquet", "plans.parquet", "yearly_claims.parquet", "dpsql.toml", "queries.sql",
         "NOTE.md")
BUDGET = "study"


def statements() -> str:
    """The SQL that the demo runs."""
    return (HERE / "queries.sql").read_text(encoding="utf-8")


def export(folder: Path) -> Path:
    """Copy the demo into an empty or new folder and start a ledger; returns the path of the policy."""
    if file_named(folder).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OperationalError(f"{folder} is not an empty folder", code="not-empty", try_="a folder that does not exist yet")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(HERE / name, folder / name)
    except OSError as fault:
        raise OperationalError(f"{folder} cannot be written ({type(fault).__name__})", code="file",
                               try_="a folder that you may write to") from None
    ReportingLedger.create(*find_ledger(read_policy(folder / "dpsql.toml"))).close()
    return folder / "dpsql.toml"
