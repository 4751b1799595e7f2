"""Where ledgers are that tests of this folder open by paths."""

from __future__ import annotations

import pytest
from support import ledgers

from dpsql.trusted.kernel import ledger as module


@pytest.fixture(autouse=True)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files, or a database where a test is marked by `ledgers.BOTH`."""
    kind: str = getattr(request, "param", "sqlite")
    if kind == "postgres":
        server = ledgers.database()
        monkeypatch.setenv(ledgers.SERVER, server)
        monkeypatch.setattr(module, "SqliteStore", module.SqliteStore)  # and is put back
        ledgers.in_postgres(server)
    return kind
