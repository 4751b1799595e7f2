"""What was found of rows is remembered beside the ledger, for the same files and for nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.worlds import world

import dpsql
from dpsql.backends.duckdb import DuckReader
from dpsql.ledgers.proven_facts import LONGEST, FactsBesideLedger
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
database = "world.duckdb"
[entities.person]
table = "people"
key = "person_id"
[tables.people.columns]
person_id = {}
[tables.visits]
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
rows_per_entity = 5
[tables.visits.columns]
person_id = {}
cost = { bounds = [0, 500], decimals = 2 }
[budgets.b]
entity = "person"
epsilon = 100
"""


def lines(ledger: Ledger) -> list[bytes]:
    return ledger.path.with_name(f"{ledger.path.name}.facts").read_bytes().splitlines()


def test_an_answer_is_recalled_and_not_shown(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger")
    facts = FactsBesideLedger(ledger)
    facts.note("most rows OF these files", "[12345678]")
    assert facts.recall("most rows OF these files") == "[12345678]"
    assert facts.recall("most rows OF other files") is None
    assert FactsBesideLedger(Ledger.create(tmp_path / "b.ledger")).recall("most rows OF these files") is None
    assert b"12345678" not in b"".join(lines(ledger))
    facts.note("short OF these files", "[1]")
    assert len({len(line) for line in lines(ledger)}) == 1
    facts.note("long", "x" * (LONGEST + 1))
    assert facts.recall("long") is None


def test_an_answer_that_was_altered_is_forgotten(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger")
    facts = FactsBesideLedger(ledger)
    facts.note("most", "[9]")
    facts.note("least", "[1]")
    place = ledger.path.with_name("a.ledger.facts")
    most, least = place.read_bytes().splitlines()
    other = b"000" if not most.endswith(b"000") else b"111"  # the end is drawn at random
    for forged in (most[:-3] + other, most.rpartition(b" ")[0] + least[least.rindex(b" "):], most[:64] + least[64:], most[:70], most[:64] + b" a b"):
        place.write_bytes(forged + b"\n")
        assert facts.recall("most") is None
    place.unlink()
    assert facts.recall("most") is None


def test_a_fact_is_known_only_where_it_was_kept(tmp_path: Path) -> None:
    """A sensitivity may rest on it."""
    ledger, another = Ledger.create(tmp_path / "a.ledger"), Ledger.create(tmp_path / "b.ledger")
    facts, others = FactsBesideLedger(ledger), FactsBesideLedger(another)
    assert not facts.known("the key is unique"), "there is no file yet"
    facts.keep("the key is unique")
    facts.keep("the columns are sorted")
    assert facts.known("the key is unique") and facts.known("the columns are sorted") and not facts.known("all is well")
    others.keep("all is well")
    another.path.with_name("b.ledger.facts").write_bytes(b"\n".join(lines(ledger)))
    assert not others.known("the key is unique") and not others.known("all is well")


def test_rows_are_not_counted_again_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world(seed=3, people=30).save(tmp_path / "world.duckdb")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    Ledger.create(tmp_path / "dpsql.ledger").close()
    counted: list[str] = []
    rows = DuckReader.rows

    def told(self: DuckReader, sql: str, parts: Sequence[Any] = ()) -> Any:
        counted.append(sql) if "GROUP BY t0.\"owner\"" in sql else None
        return rows(self, sql, parts)

    monkeypatch.setattr(DuckReader, "rows", told)

    def ask(number: int) -> None:
        with dpsql.connect(policy=tmp_path / "dpsql.toml", epsilon=1) as connection:
            connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'rows') SUM(cost) FROM visits WHERE cost > {number}")

    ask(1)
    ask(2)
    assert len(counted) == 1
    with duckdb.connect(str(tmp_path / "world.duckdb")) as connection:
        connection.execute("INSERT INTO visits SELECT 1000 + i, 1, 2019, 'a', 1, NULL, NULL FROM range(7) AS t(i)")
    ask(3)
    assert len(counted) == 2
