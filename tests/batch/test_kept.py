"""Measurements that are kept: what they answer is free, best unbiased, of one analyst, and of the data that they were made of."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.sessions import open_ledger, reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.batch import records
from dpsql.batch.combine import ColumnCells, Combined, fitting, given, weighted
from dpsql.batch.records import MeasuredQueries, Record, decoded, encoded
from dpsql.dbapi import Connection
from dpsql.ledgers.ledger_reports import KeptAnswer
from dpsql.strategies.strategy import Block
from dpsql.workload.factors import Dense, Identity, Prefix, Ranges, Total

TABLE = "SELECT sex, bin_floor(age) AS band, COUNT(*) FROM people GROUP BY sex, band STANDARD ERROR 2"
FOLLOWING = [
    "SELECT COUNT(*) FROM people STANDARD ERROR {}",
    "SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR {}",
    "SELECT bin_floor(age) AS b, COUNT(*) FROM people WHERE sex = 'f' GROUP BY b STANDARD ERROR {}",
    "SELECT COUNT(*) FILTER (WHERE sex <> 'f') FROM people p STANDARD ERROR {}",
]


def listed() -> worlds.World:
    """The small world without rows that have undeclared values."""
    rows = dict(worlds.world().rows)
    rows["people"] = [row for row in rows["people"] if row[2] in ("f", "m", None) and 0 <= row[3] <= 100]
    return worlds.World(rows)


def connected(folder: Path, budget: str = "person", **more: Any) -> Connection:
    return Connection(session_of(folder, listed(), budget=budget, at={}, **more))


def charges(connection: Connection, budget: str = "person") -> list[Any]:
    return [entry.charge for entry in connection.session.ledger.entries(budget)]


# -- free answers


@pytest.mark.parametrize("budget", ["person", "pure"])
@pytest.mark.parametrize("text", FOLLOWING)
def test_what_a_table_says_already_is_free_and_exact_without_noise(text: str, budget: str, tmp_path: Path) -> None:
    connection = connected(tmp_path, budget, noise=Exact())
    connection.execute(TABLE.replace("bin_floor(age) AS band", "age AS band"))
    before = len(charges(connection, budget))
    cursor = connection.execute(text.format(60))
    assert len(charges(connection, budget)) == before and cursor.cost == ""
    assert cursor.notes[0].startswith("nothing, as earlier measurements meet STANDARD ERROR 60")
    plain = Connection(session_of(tmp_path / "plain", listed(), budget=budget, noise=Exact(), at={"epsilon": 1}))
    assert cursor.fetchall() == plain.execute(text.format(60).split(" STANDARD")[0]).fetchall()


def test_variances_are_those_of_the_sums(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute(TABLE)
    found = [connection.execute(text.format(40)).errors for text in FOLLOWING]
    assert found[0][0][-1] == pytest.approx(2 * math.sqrt(52), rel=1e-6)  # ten bands, below, above, NULL; of three sexes and others
    assert [row[-1] for row in found[1]] == [pytest.approx(2 * math.sqrt(13), rel=1e-6)] * 3
    assert [row[-1] for row in found[2]] == [pytest.approx(2, rel=1e-6)] * 10
    assert found[3][0][-1] == pytest.approx(2 * math.sqrt(26), rel=1e-6)
    assert len(charges(connection)) == 1


def test_answers_of_one_table_agree_with_it(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    table = connection.execute(TABLE).fetchall()
    by_sex = dict(connection.execute(FOLLOWING[1].format(40)).fetchall())
    for sex, total in by_sex.items():
        outside = 2 * math.sqrt(3)  # the noise of those below all bands, above them, and without an age
        assert abs(total - sum(row[2] for row in table if row[0] == sex)) <= 6 + 6 * outside  # each is rounded to a whole number


def test_a_stricter_accuracy_costs_what_is_missing(tmp_path: Path) -> None:
    """Of variance K known and T wanted, 1 / T - 1 / K has to be bought."""
    connection = connected(tmp_path)
    connection.execute("SELECT COUNT(*) FROM people STANDARD ERROR 5")
    cursor = connection.execute("SELECT COUNT(*) FROM people STANDARD ERROR 3")
    assert charges(connection)[1].rho == pytest.approx(1e9 / 2 * (1 / 9 - 1 / 25), rel=1e-3)
    assert cursor.errors[0][0] == pytest.approx(3, rel=1e-3) and cursor.errors[0][0] <= 3 * (1 + 1e-9)
    assert "combined with an earlier measurement" in cursor.notes[1]
    assert connection.execute("SELECT COUNT(*) FROM people STANDARD ERROR 3.001").cost == ""


def test_what_is_new_is_combined_with_what_was_there(tmp_path: Path) -> None:
    """A marginal known well, and then the table: its numbers, and their sums, are those of least squares over both."""
    connection = connected(tmp_path)
    connection.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 1")
    connection.execute("SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 6")
    cell = connection.execute("SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 6.001").errors[0][-1]
    total = connection.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex STANDARD ERROR 1.001").errors[0][-1]
    assert cell is not None and total is not None
    noise = next(s for s in (x / 1000 for x in range(5000, 9000)) if _with_marginal(s)[0] >= cell)  # of the new cells
    assert total == pytest.approx(_with_marginal(noise)[1], rel=1e-3)
    assert noise > 6.5 and cell <= 6 * (1 + 1e-9)  # less was bought than without the marginal


def _with_marginal(noise: float) -> tuple[float, float]:
    """Standard errors of a cell and of the sum of three, of which each was measured, and the sum with 1."""
    normal = np.eye(3) / noise**2 + np.ones((3, 3))
    covariance = np.linalg.inv(normal)
    return math.sqrt(covariance[0, 0]), math.sqrt(covariance.sum())


def test_workloads_with_a_price_are_kept_too(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.workload(["SELECT age, COUNT(*) FROM people GROUP BY age"], rho=0.5)
    assert connection.execute("SELECT COUNT(*) FROM people WHERE age < 50 STANDARD ERROR 8").cost == ""
    assert len(charges(connection)) == 1


# -- whose, and of which data


def test_only_the_analyst_who_paid_is_served(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    ada, bea = (Connection(session_of(tmp_path, listed(), analyst=name, ledger=ledger, at={})) for name in ("ada", "bea"))
    ada.execute(TABLE)
    assert bea.execute(FOLLOWING[1].format(40)).cost != "" and ada.execute(FOLLOWING[1].format(40)).cost == ""
    assert [entry.account.analyst for entry in ledger.entries("person")] == ["ada", "bea"]


def test_other_budgets_and_policies_are_other_measurements(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    Connection(session_of(tmp_path, listed(), ledger=ledger, at={})).execute(TABLE)
    other = Connection(session_of(tmp_path, listed(), budget="concentrated", ledger=ledger, at={}))
    assert other.execute(FOLLOWING[0].format(60)).cost != ""
    visits = "SELECT COUNT(*) FROM visits STANDARD ERROR 9"
    Connection(session_of(tmp_path, listed(), ledger=ledger, at={})).execute(visits)
    fewer = worlds.POLICY.replace("rows_per_entity = { person = 3", "rows_per_entity = { person = 2")
    assert fewer != worlds.POLICY
    changed = Connection(session_of(tmp_path, listed(), ledger=ledger, policy=fewer, digest="other", at={}))
    assert changed.execute(visits).cost != ""


def test_changed_data_are_charged_again(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    Connection(session_of(tmp_path, reader=reader_of(listed(), "v1"), ledger=ledger, at={})).execute(TABLE)
    later = Connection(session_of(tmp_path, reader=reader_of(listed(), "v2"), ledger=ledger, at={}))
    assert later.execute(FOLLOWING[0].format(60)).cost != "" and len(ledger.entries("person")) == 2


def test_other_rows_are_other_measurements(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute(TABLE)
    for text in ("SELECT COUNT(income) FROM people STANDARD ERROR 60", "SELECT COUNT(*) FROM visits STANDARD ERROR 60",
                 "SELECT COUNT(*) FROM people WHERE active STANDARD ERROR 60"):
        assert connection.execute(text).cost != "", text


# -- records


def asked(*blocks: Block, noise: str = "gaussian", line: bool = False) -> MeasuredQueries:
    return MeasuredQueries(sums="s", columns=("a", "b"), sizes=(3, 4), blocks=blocks, noise=noise, line=line)  # type: ignore[arg-type]


BLOCKS = [
    Block(axes=(0, 1), factors=(Identity(3), Prefix(4)), scale=0.1),
    Block(axes=(1,), factors=(Ranges(4, (0, 2), (1, 3)),), scale=7.0),
    Block(axes=(), factors=(), scale=2.0),
    Block(axes=(1, 0), factors=(Total(4), Dense(np.array([[1, -2, 3], [0, 5, 2**40]]))), scale=3.5),
]
RECORD = Record(asked=asked(*BLOCKS), answers=(tuple(range(12)), (-5, 2**70), (9,), (1, 2)))


def test_records_are_read_as_they_were_written() -> None:
    (again,) = decoded(json.dumps({"answers": [], "measured": encoded([RECORD])}))
    assert again.answers == RECORD.answers and again.asked.noise == "gaussian" and again.asked.columns == ("a", "b")
    for block, other in zip(again.asked.blocks, RECORD.asked.blocks, strict=True):
        assert (block.axes, block.scale) == (other.axes, other.scale)
        assert all((a.dense() == b.dense()).all() for a, b in zip(block.factors, other.factors, strict=True))


def test_large_measurements_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_NUMBERS", 10)
    assert encoded([RECORD]) == []


DAMAGE: dict[str, Any] = {
    "another scale": lambda told: told["blocks"][0].update(scale="nan"),
    "no scale": lambda told: told["blocks"][0].update(scale=(0.0).hex()),
    "a letter": lambda told: told["blocks"][0].update(scale="x"),
    "fewer answers": lambda told: told["answers"].pop(),
    "too few numbers": lambda told: told["answers"].__setitem__(2, [1, 2]),
    "another axis": lambda told: told["blocks"][1].update(axes=[0]),
    "an axis twice": lambda told: told["blocks"][0].update(axes=[0, 0]),
    "no such axis": lambda told: told["blocks"][1].update(axes=[7]),
    "another size": lambda told: told.update(sizes=[3, 5]),
    "another noise": lambda told: told.update(noise="none"),
    "another factor": lambda told: told["blocks"][0]["factors"][0].__setitem__(0, "Path"),
    "cut off": lambda told: told["blocks"][3]["factors"][1].__setitem__(3, "eJw="),
    "no columns": lambda told: told.pop("columns"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_records_are_none(damage: Any) -> None:
    whole, broken = encoded([RECORD, RECORD])
    damage(broken)
    assert len(decoded(json.dumps({"measured": [broken, whole]}))) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"measured": 3}', '{"measured": [3, null]}', '"measured"'])
def test_text_that_is_no_answer_has_no_records(text: str) -> None:
    assert decoded(text) == []


def test_a_ledger_without_readable_records_charges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connected(tmp_path)
    connection.execute(TABLE)
    monkeypatch.setattr(type(connection.session.ledger), "holding", lambda *_: [
        KeptAnswer(body=body, shared=False) for body in ('{"measured": [{"sums": 1}]}', "{")])
    assert connection.execute(FOLLOWING[0].format(60)).cost != "" and len(charges(connection)) == 2


# -- least squares


def test_combining_is_least_squares_over_all_cells() -> None:
    dice = np.random.default_rng(5)
    wide = ColumnCells(("a", "b"), (3, 4))
    first = MeasuredQueries(sums="s", columns=("b", "a"), sizes=(4, 3), noise="laplace", line=True,
                            blocks=(Block(axes=(0,), factors=(Dense(dice.integers(-3, 4, (9, 12))),), scale=2.0),))
    second = MeasuredQueries(sums="s", columns=("b",), sizes=(4,), noise="gaussian", line=False,
                             blocks=(Block(axes=(0,), factors=(Identity(4),), scale=3.0),))
    cells = dice.integers(0, 50, (3, 4))
    rows = [first.blocks[0].factors[0].dense() @ np.moveaxis(np.eye(12).reshape(12, 3, 4), 2, 1).reshape(12, 12).T / (2 * math.sqrt(2)),
            np.kron(np.ones((1, 3)), np.eye(4)) / 3]
    for own, expected in zip((first, second), rows, strict=True):
        assert np.allclose(weighted(own, wide), expected)
    queries = np.concatenate([rows[0][:3] + rows[1][:3], np.eye(12)[:1]])
    combined = Combined.of(queries, np.concatenate(rows))
    design = np.concatenate(rows)
    covariance = np.linalg.pinv(design.T @ design)
    within = np.abs(queries - queries @ covariance @ (design.T @ design)).max(axis=1) < 1e-9
    assert combined.variances()[within] == pytest.approx(np.diag(queries @ covariance @ queries.T)[within], rel=1e-8)
    assert np.isinf(combined.variances()[~within]).all() and within[:3].all()
    truth = cells.reshape(-1)
    answers = [tuple(int(x) for x in first.blocks[0].factors[0].dense() @ cells.T.reshape(-1)), tuple(int(x) for x in cells.sum(axis=0))]
    noisy = np.concatenate([given(own, [found]) for own, found in zip((first, second), answers, strict=True)])
    assert combined.answers(noisy)[within] == pytest.approx((queries @ truth)[within], rel=1e-8)


def test_measurements_that_do_not_fit_are_left_out() -> None:
    own = ColumnCells(("a",), (10,))
    def over(columns: tuple[str, ...], sizes: tuple[int, ...]) -> MeasuredQueries:
        return MeasuredQueries(sums="s", columns=columns, sizes=sizes, blocks=(), noise="gaussian", line=False)
    cells, chosen = fitting(own, 10, [over(("b",), (1000,)), over(("a",), (10,)), over(("a", "c"), (10, 20))])
    assert chosen == [1, 2] and cells.columns == ("a", "c") and cells.size == 200
