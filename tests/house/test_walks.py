"""How far statements walk, so that one can be followed by a reader: counted on the demo, and printed with `-s`.

Aims are 60 files, 2,500 calls and 4 pairs of files that call each other. Where a number is not met yet the bound here is what was
reached, so that no change walks further unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from support.walks import Walk, milliseconds, walked

import dpsql
from dpsql.dbapi import Connection
from dpsql.demo.folder import BUDGET, export

STATEMENTS = {
    "COUNT by group": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) female, COUNT(*) FROM people GROUP BY female",
    "self-join under balance": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}, bound = 'balance') COUNT(*) FROM people a "
                               "JOIN people b ON a.site = b.site AND a.income = b.income WHERE a.person_id < b.person_id",
    "CUBE": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) health, female, COUNT(*) FROM people GROUP BY CUBE (health, female)",
    "VALIDATE": "VALIDATE SELECT COUNT(*) FROM people AGAINST plans WITHIN 5 PERCENT OPTIONS (epsilon = {})",
}
PRICES = count(1001)
# Of the files, fourteen are of the ledger, and nine of periods, as the demo has a table that grows: six of what that needs, and three
# that all statements pass. Limits of a day are of the session. The fourth pair is the rule that limits rows in periods.
MOST_CALLS, MOST_FILES, MOST_TWO_WAY = 2_500, 106, 4


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    policy: Path = export(tmp_path_factory.mktemp("walks") / "demo")
    with dpsql.connect(policy=policy, budget=BUDGET, analyst="auditor") as made:
        yield made


def steps(statement: str, connection: Connection) -> tuple[Walk, float]:
    """The walk of the second statement of a shape, and the CPU milliseconds of others; each has a price of its own, so that none
    was stored."""
    def run() -> None:
        assert connection.execute(statement.format(f"0.0{next(PRICES)}")).fetchall()

    before = len(connection.session.ledger.entries(BUDGET))
    run()
    found = walked(run), min(milliseconds(run) for _ in range(3))
    assert len(connection.session.ledger.entries(BUDGET)) == before + 5
    return found


def test_a_count_by_group_is_a_short_walk(connection: Connection) -> None:
    walk, _ = steps(STATEMENTS["COUNT by group"], connection)
    assert walk.calls <= MOST_CALLS, walk.functions.most_common(20)
    assert len(walk.files) <= MOST_FILES, walk.files
    assert len(walk.two_way) <= MOST_TWO_WAY, walk.two_way


def test_the_walks_of_four_statements_are_told(connection: Connection) -> None:
    print(f"\n{'statement':26}{'calls':>8}{'files':>8}{'switches':>10}{'two-way':>9}{'CPU ms':>9}")
    for name, statement in STATEMENTS.items():
        walk, cpu = steps(statement, connection)
        print(f"{name:26}{walk.calls:8}{len(walk.files):8}{walk.switches:10}{len(walk.two_way):9}{cpu:9.1f}")
        assert walk.calls and not any(file.startswith("audit/") for file in walk.files)
