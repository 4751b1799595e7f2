"""The same statement has the same exact answer where rows that several queries read are kept, the first time and later: of whole
tables, and of each bucket of a store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from golden.test_in_buckets import STATEMENTS, WORLDS, told
from support.golden.comparison import PLENTY, short
from support.sessions import open_ledger, reader_of, session_of
from support.stores import stored

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

BUCKETS = 5


class Keeping(DuckReader):
    """A reader that keeps rows of small tables too, and of the buckets of small stores."""

    keeps = True  # type: ignore[assignment]

    @property
    def keeps_of(self) -> str:
        return "" if self._store is None else self._store.identity


def keeping(reader: DuckReader) -> DuckReader:
    reader.__class__ = Keeping
    return reader


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], list[Session]]]:
    """One ledger, so one salt, for all; first without kept rows, then with them, and finally with those of a store. There is no room
    for those of the crowded one, which are dropped as soon as the next ones are made."""
    ledger, made, readers = open_ledger(tmp_path_factory.mktemp("ledger")), {}, []
    for name, here in WORLDS.items():
        for budget in ("person", "household"):
            database = here.save(tmp_path_factory.mktemp("stores") / "world.duckdb")
            found = [reader_of(here), keeping(reader_of(here)), keeping(stored(database, ledger, budget=budget, buckets=BUCKETS))]
            if name == "crowded":
                found[2]._kept._most = 0
            made[name, budget] = [session_of(tmp_path_factory.mktemp("session"), reader=reader, noise=Exact(), budget=budget, at=PLENTY,
                                             ledger=ledger, analyst=f"ada{at}") for at, reader in enumerate(found)]
            readers += found
    yield made
    for reader in readers:
        reader.close()


@pytest.mark.parametrize(("name", "budget", "text"), [asked[:3] for asked in STATEMENTS[::3]], ids=[
    f"{name}-{budget}-{short(text)}-{at}" for at, (name, budget, text, _) in enumerate(STATEMENTS[::3])])
def test_answers_are_equal_where_rows_are_kept(name: str, budget: str, text: str, sessions: dict[tuple[str, str], list[Session]]) -> None:
    here, *others = sessions[name, budget]
    expected = told(text, here)
    for there in others:
        assert told(text, there) == expected
        if type(parse(text)) is Query:  # others tell of the account
            assert told(text, replace(there, analyst="eve")) == expected


def test_rows_of_every_bucket_are_kept(sessions: dict[tuple[str, str], list[Session]]) -> None:
    there = sessions["dense", "person"][2]
    reader = there.kernel._reader
    assert isinstance(reader, DuckReader)
    with reader._cursor() as cursor:
        reader._kept.forget(cursor)
    told("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (clip = 900) SUM(cost) FROM visits", replace(there, analyst="zoe"))
    assert len(reader._kept._sizes) == BUCKETS
