"""The same statement has the same exact answer where Spark reads the buckets as over the whole database.

Each statement takes about a second, so few are taken: every 30th, and with more effort every 8th."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache

import pytest
from golden.test_in_buckets import ASKED, WORLDS, told
from support.clusters import needs_spark, uploaded
from support.golden.comparison import PLENTY
from support.sessions import open_ledger, reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.engine.session import Session

Sessions = Callable[[str, str], list[Session]]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """By world and budget: over the world in memory, and over a store of it that Spark reads."""
    with closing(open_ledger(tmp_path_factory.mktemp("ledger"))) as ledger:

        @cache
        def made(name: str, budget: str) -> list[Session]:
            here, folder = WORLDS[name], tmp_path_factory.mktemp("store")
            readers = reader_of(here), uploaded(here.save(folder / "world.duckdb"), ledger, folder, budget=budget)
            return [session_of(folder, reader=reader, noise=Exact(), budget=budget, at=PLENTY, ledger=ledger, analyst=f"ada{at}")
                    for at, reader in enumerate(readers)]

        yield made


@needs_spark
def test_answers_are_equal_on_spark(sessions: Sessions, effort: float) -> None:
    taken = ASKED[::max(8, round(7.5 / effort))]
    for name, budget, text in taken:
        first, second = (told(text, session) for session in sessions(name, budget))
        assert first == second, f"{name}, {budget}: {text}"
