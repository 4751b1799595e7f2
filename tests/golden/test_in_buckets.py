"""The same statement has the same exact answer in buckets of entities as over the whole database, whatever the number of buckets: where
no limit bites, and where limits, clips and bounds do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.golden.comparison import FOLDER, PLENTY, released, short, texts
from support.golden.dense import dense
from support.sessions import open_ledger, reader_of, session_of
from support.stores import BucketReader, stored
from support.worlds import world

from dpsql.audit.exact import Exact
from dpsql.catalog.price import price
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.frozen import replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.measurements.reading import content
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan

ACCEPTED = FOLDER.parents[1] / "grammar" / "accepted.sql"
WORLDS = {"dense": dense(), "crowded": world(seed=5, people=40, most_visits=9)}
BUCKETS = (1, 7, 16)
ASKED = [("dense", "person", text) for text in texts(FOLDER / "answers.sql")]
ASKED += [("dense", "household", text) for text in texts(FOLDER / "answers_of_households.sql")]
ASKED += [("crowded", ("person", "household")[at % 2], text) for at, text in enumerate(texts(ACCEPTED))
          if not text.startswith("SHOW") and not any(word in text.upper() for word in (" SYNTHETIC ", " STANDING "))]  # these tell of accounts, and of what was asked before
STATEMENTS = [(*asked, 1 + at % len(BUCKETS)) for at, asked in enumerate(ASKED)]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], list[Session]]]:
    """One ledger, so one salt, for all; first the world in memory, then its stores."""
    ledger, made, readers = open_ledger(tmp_path_factory.mktemp("ledger")), {}, []
    for name, here in WORLDS.items():
        for budget in ("person", "household"):
            folder = tmp_path_factory.mktemp("stores")
            database = here.save(folder / "world.duckdb")
            found = [reader_of(here), *(stored(database, ledger, budget=budget, buckets=buckets) for buckets in BUCKETS)]
            made[name, budget] = [session_of(folder, reader=reader, noise=Exact(), budget=budget, at=PLENTY, ledger=ledger, analyst=f"ada{at}")
                                  for at, reader in enumerate(found)]
            readers += found
    yield made
    for reader in readers:
        reader.close()


@pytest.mark.parametrize(("name", "budget", "text", "store"), STATEMENTS, ids=[
    f"{name}-{budget}-{short(text)}-{at}" for at, (name, budget, text, _) in enumerate(STATEMENTS)])
def test_answers_are_equal_in_any_number_of_buckets(name: str, budget: str, text: str, store: int,
                                                    sessions: dict[tuple[str, str], list[Session]]) -> None:
    assert told(text, sessions[name, budget][store]) == told(text, sessions[name, budget][0])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "budget"), sorted({asked[:2] for asked in ASKED}))
def test_answers_are_equal_where_parts_of_plans_are_read_in_buckets(name: str, budget: str, sessions: dict[tuple[str, str], list[Session]],
                                                                    monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    """As they are where the rows are nowhere but in buckets elsewhere: no other way to read them is left."""
    monkeypatch.setattr(content, "_pays", lambda part, stored: True)
    monkeypatch.setattr(Scan, "_stored", only_in_one_bucket)
    here, there = sessions[name, budget][0], replace(sessions[name, budget][2], analyst="eve")
    reader = there.kernel._reader
    assert isinstance(reader, BucketReader)
    reader.parts.clear()
    queries = [text for *asked, text in ASKED if asked == [name, budget] and type(parse(text)) is Query]
    for text in queries[::max(1, round(1 / effort))]:
        assert told(text, there) == told(text, here), text
    assert reader.parts


def only_in_one_bucket(self: Scan, carried: dict[str, str], printing: Printing) -> tuple[str, list[str]]:
    if printing.bucket is None:
        raise AssertionError(f"{self.table.name} is read in all buckets at once")
    return stored_of(self, carried, printing)


stored_of = Scan._stored


def told(text: str, session: Session) -> object:
    try:
        if type(parse(text)) is Query:
            found = released(text, session)[0]
            return found.columns, found.rows
        return repr(answer(text, replace(session, price=price(epsilon=1)))).replace(session.analyst, "")
    except Error as fault:
        return str(fault)


def test_most_statements_are_read_in_buckets(sessions: dict[tuple[str, str], list[Session]]) -> None:
    reader = sessions["dense", "person"][2].kernel._reader
    assert isinstance(reader, BucketReader)
    reader.parts.clear()
    statements = texts(FOLDER / "answers.sql")[::4]
    for text in statements:
        told(text, sessions["dense", "person"][2])
    assert len(reader.parts) > 0.7 * len(statements)
