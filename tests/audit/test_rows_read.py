"""`dpsql explain --rows`: the owner is told how many rows a statement reads; analysts, and the ledger, are not."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from audit.test_policy_on_rows import built

import dpsql
from dpsql import cli
from dpsql.audit.rows_read import TableRead, TablesRead, reading
from dpsql.catalog.policy import read_policy
from dpsql.errors import LedgerError
from dpsql.ledgers.ledger_reports import ReportingLedger


def served(folder: Path, files: str = "", spoil: str = "") -> Path:
    """A project with a ledger."""
    policy = built(folder, files=files, spoil=spoil)
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return policy


def read(policy: Path, *named: str) -> TablesRead:
    declared = read_policy(policy)
    return reading(declared, declared.budgets["main"], None, None, named=named)


@pytest.mark.parametrize("files", ["", "parquet", "csv"])
def test_private_tables_are_counted_where_they_are(files: str, tmp_path: Path) -> None:
    made = read(served(tmp_path, files), "VISITS", "towns", "bills", "nothing")
    assert [(one.table, one.rows, one.buckets) for one in made.tables] == [("visits", 500, 0), ("bills", 500, 0)]
    assert made.seconds is not None and 0 < made.seconds[0] < made.seconds[1]
    assert str(made).startswith("PRIVATE: reads 500 rows of visits, where they are; 500 rows of bills")
    assert str(read(tmp_path / "dpsql.toml", "towns")) == "PRIVATE: no private rows are read"


def test_rows_with_an_owner_are_counted_in_a_store(tmp_path: Path) -> None:
    policy = served(tmp_path, "parquet", "UPDATE visits SET person = NULL WHERE visit < 50")
    dpsql.prepare(policy=policy, buckets=3)
    made = read(policy, "visits")
    assert [(one.rows, one.buckets) for one in made.tables] == [(450, 3)]
    assert "in 3 buckets of a store" in str(made)


def test_a_cluster_tells_no_time() -> None:
    made = TablesRead(tables=(TableRead(table="visits", rows=5, buckets=16, seconds=None),), memory="1 GiB")
    assert made.seconds is None and "the time depends on the cluster" in str(made)


def test_the_shell_shows_it_to_the_owner_who_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = str(served(tmp_path))
    ask = ["explain", "--policy", policy, "--epsilon", "0.1", "SELECT COUNT(*) FROM visits WHERE cost > 50"]
    cli.main(ask)
    alone = capsys.readouterr().out
    assert "500" not in alone and "PRIVATE" not in alone
    cli.main([*ask, "--rows"])
    assert capsys.readouterr().out.removeprefix(alone).startswith("PRIVATE: reads 500 rows of visits, where they are")
    cli.main([*ask, "--rows", "--json"])
    assert json.loads(capsys.readouterr().out)["private"]["tables"][0]["rows"] == 500
    with contextlib.closing(ReportingLedger(tmp_path / "dpsql.ledger")) as book:
        assert not book.entries("main")


def test_mistakes_are_told_as_everywhere(tmp_path: Path) -> None:
    policy = built(tmp_path)
    (tmp_path / "dpsql.ledger").write_text("no ledger", encoding="utf-8")
    with pytest.raises(LedgerError):
        read(policy, "visits")
