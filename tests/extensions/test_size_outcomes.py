"""Whether one entity makes more sets of entities than there is room for decides of no outcome: variants of joins and bounds."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest
from support.policies import policy_of

import dpsql
from dpsql.trusted.extensions import cuts
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.measurements.several import sets

POLICY = policy_of("persons", """
note = {}
half = { values = [0, 1], nullable = false }
owed = { bounds = [-4, 4], nullable = false }
paid = { bounds = [0, 9], nullable = false }
""", budget="main")
PEOPLE, ROOM = 9, 25
VICTIM = "(SELECT id, paid, owed, half, CASE WHEN note = 'victim' THEN 1 END AS k FROM persons) v"


def met(owners: int) -> str:
    """The victim brings so many others together, each with each; without the victim nobody meets."""
    others = f"(SELECT id, paid, owed, half, 1 AS k FROM persons WHERE id < {PEOPLE})"
    return VICTIM + "".join(f" JOIN {others} {name} ON v.k = {name}.k" for name in "abcd"[: owners - 1])


@pytest.fixture(params=[False, True], ids=["without", "with"])
def victim(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def connection(victim: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dpsql.Connection:
    monkeypatch.setattr(sets, "MOST_ROWS", ROOM)
    monkeypatch.setattr(cuts, "FEWEST", 20)
    monkeypatch.setattr(cuts, "MOST", 40)
    return opened(tmp_path, 20, 1, victim=victim)


def opened(folder: Path, people: int, epsilon: float, *, victim: bool) -> dpsql.Connection:
    (folder / "policy.toml").write_text(POLICY)
    with duckdb.connect(str(folder / "data.duckdb")) as made:
        made.execute("CREATE TABLE persons (id INTEGER PRIMARY KEY, note VARCHAR, half INTEGER, owed INTEGER, paid INTEGER)")
        made.execute(f"INSERT INTO persons SELECT range, '', range % 2, range % 9 - 4, range % 10 FROM range(1, {people})")
        made.execute(f"INSERT INTO persons VALUES (1000, '{'victim' if victim else ''}', 0, 1, 3)")
    Ledger.create(folder / "ledger").close()
    return dpsql.connect(folder / "data.duckdb", policy=folder / "policy.toml", ledger=folder / "ledger", epsilon=epsilon)


BOUNDS = ["bound = 'balance'", "bound = 'r2t'", "bound = 'removals'", "bound = 'recursive'", "bound = 'extension', clip = 3",
          "bound = 'extension', clip = 40"]
ASKED = ["COUNT(*)", "SUM(a.paid)", "SUM(a.owed)"]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("bound", BOUNDS)
def test_sums_of_either_sign_under_every_bound(bound: str, asked: str, connection: dpsql.Connection) -> None:
    (answer,), = connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({bound}) {asked} FROM {met(3)}").fetchall()
    assert isinstance(answer, int)


@pytest.mark.parametrize("owners", [2, 4, 5])
@pytest.mark.parametrize("bound", ["bound = 'balance'", "bound = 'removals'"])
def test_joins_of_two_and_of_more(owners: int, bound: str, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "MOST_ROWS", 3)
    rows = connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({bound}) COUNT(*) FROM {met(owners)}").fetchall()
    assert len(rows) == 1


@pytest.mark.parametrize("asked", ["COUNT(*)", "SUM(b.owed)"])
@pytest.mark.parametrize("bound", ["bound = 'balance'", "bound = 'r2t'", "bound = 'removals'", "bound = 'recursive'"])
def test_every_cell_of_a_grouping(bound: str, asked: str, connection: dpsql.Connection) -> None:
    rows = connection.execute(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({bound}) a.half, {asked} FROM {met(3)} GROUP BY a.half").fetchall()
    assert [half for half, _ in rows] == [0, 1]


@pytest.mark.parametrize("epsilon", [0.001, 100])
@pytest.mark.parametrize("bound", ["bound = 'balance'", "bound = 'removals'"])
def test_small_and_large_prices(bound: str, epsilon: float, connection: dpsql.Connection) -> None:
    rows = connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, {bound}) COUNT(*) FROM {met(3)}")
    assert len(rows.fetchall()) == 1


def test_averages(connection: dpsql.Connection) -> None:
    rows = connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'balance') AVG(a.paid) FROM {met(3)}").fetchall()
    assert len(rows) == 1


@pytest.mark.parametrize("level", [3, 40])
def test_a_check_of_a_held_sum(level: int, connection: dpsql.Connection) -> None:
    persons = pd.DataFrame({"id": [1, 2, 100], "note": ["", "", "victim"], "half": [0, 1, 0], "owed": [0, 0, 0], "paid": [0, 1, 2]})
    made = connection.validate([f"SELECT COUNT(*) FROM {met(3)}"], synthetic={"persons": persons}, within=50, clip=level)
    assert made is not None


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.001])
def test_sixty_nine_million_rows_that_one_person_makes(epsilon: float, victim: bool, tmp_path: Path) -> None:
    """410 persons who meet only where the victim is, each with each and each: 11.6 million sets, in about a minute."""
    con = opened(tmp_path, 600, epsilon, victim=victim)
    rows = con.execute(f"SELECT COUNT(*) FROM {met(4).replace(f'id < {PEOPLE}', 'id < 411')}").fetchall()
    assert len(rows) == 1 and isinstance(rows[0][0], int)
    con.close()
