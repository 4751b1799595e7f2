"""Files of a ledger in SQLite: one that could not be made leaves nothing behind, and one that others write is waited for."""

from __future__ import annotations

import sqlite3
import time
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import LedgerError
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel import sqlite_store
from dpsql.trusted.kernel.ledger import Ledger


def test_a_ledger_that_could_not_be_made_leaves_no_file_that_blocks_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spent.ledger"
    monkeypatch.setattr(sqlite_store, "SCHEMA", sqlite_store.SCHEMA + "; CREATE TABLE events (twice INTEGER);")
    with pytest.raises(LedgerError):
        Ledger.create(path)
    assert not [found for found in tmp_path.iterdir() if found.name.startswith(path.name) and "anchor" not in found.name]
    monkeypatch.undo()
    Ledger.create(path).close()
    assert path.stat().st_size > 0


def test_a_ledger_that_is_there_is_not_made_again_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "spent.ledger"
    Ledger.create(path).close()
    before = path.read_bytes()
    with pytest.raises(LedgerError):
        Ledger.create(path)
    assert path.read_bytes() == before


def test_who_finds_the_file_locked_waits_until_it_is_free_or_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, others, pauses = Ledger.create(tmp_path / "spent.ledger"), sqlite3.connect(tmp_path / "spent.ledger", isolation_level=None), list[float]()

    def charge() -> int:
        return ledger.charge(Account(budget="main", analyst="ada"), pure(Fraction(1, 10)).rounded(), digest="d", data="v", sql="s", allows={})

    def others_end(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            others.execute("ROLLBACK")

    monkeypatch.setattr(time, "sleep", others_end)
    others.execute("BEGIN IMMEDIATE")
    assert charge() == 1 and len(pauses) == 3
    others.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(sqlite_store, "PATIENCE", -1.0)
    with pytest.raises(LedgerError) as caught:
        charge()
    assert caught.value.code == "ledger-access" and len(pauses) == 3
    others.close()
