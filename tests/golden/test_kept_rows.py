"""The same statement has the same exact answer where rows that several queries read are kept, the first time and later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from golden.test_in_buckets import STATEMENTS, WORLDS, told
from support.golden.comparison import PLENTY, short
from support.sessions import open_ledger, reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query


class Keeping(DuckReader):
    """A reader that keeps rows of small tables too, and counts the tables that it made."""

    keeps = True  # type: ignore[assignment]


def keeping(reader: DuckReader) -> DuckReader:
    reader.__class__ = Keeping
    return reader


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], list[Session]]]:
    """One ledger, so one salt, for all; first without kept rows, then with them."""
    ledger, made, readers = open_ledger(tmp_path_factory.mktemp("ledger")), {}, []
    for name, here in WORLDS.items():
        for budget in ("person", "household"):
            found = [reader_of(here), keeping(reader_of(here))]
            made[name, budget] = [session_of(tmp_path_factory.mktemp("session"), reader=reader, noise=Exact(), budget=budget, at=PLENTY,
                                             ledger=ledger, analyst=f"ada{at}") for at, reader in enumerate(found)]
            readers += found
    yield made
    for reader in readers:
        reader.close()


@pytest.mark.parametrize(("name", "budget", "text"), [asked[:3] for asked in STATEMENTS[::3]], ids=[
    f"{name}-{budget}-{short(text)}-{at}" for at, (name, budget, text, _) in enumerate(STATEMENTS[::3])])
def test_answers_are_equal_where_rows_are_kept(name: str, budget: str, text: str, sessions: dict[tuple[str, str], list[Session]]) -> None:
    here, there = sessions[name, budget]
    expected = told(text, here)
    assert told(text, there) == expected
    if type(parse(text)) is Query:  # others tell of the account
        assert told(text, replace(there, analyst="eve")) == expected
