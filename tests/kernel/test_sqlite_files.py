"""Files of a ledger in SQLite: one that could not be made leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.errors import LedgerError
from dpsql.kernel import sqlite_store
from dpsql.kernel.ledger import Ledger


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
