"""SQL over released rows: its price, its identity, its errors, and what is refused before anything is charged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.sessions import session_of
from test_scalars import asked, exact, people

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.backends.scratch import ScratchTables
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError
from dpsql.estimates import NoiseTerm, Numbers, released
from dpsql.planning.explain import Explanation
from dpsql.postprocessing.around_released import AroundReleased, bind_around
from dpsql.postprocessing.around_rows import composed
from dpsql.postprocessing.moved_rows import LoadedColumn
from dpsql.postprocessing.versioned_tables import SHOWN
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.reader import ReaderFault
from dpsql.types import Interval, Type

SHARES = "SELECT clinic, n, 1.0 * n / SUM(n) OVER () AS share FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t"
UNION = "SELECT 'all' AS who, COUNT(*) AS n FROM people UNION ALL SELECT 'women', COUNT(*) FROM people WHERE sex = 'f'"
TWICE = ("WITH c AS (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) "
         "SELECT a.year, a.n, a.n - b.n AS change FROM c AS a JOIN c AS b ON a.year = b.year + 1")
ABOVE = "WITH c AS (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) SELECT clinic, n FROM c WHERE n > (SELECT AVG(n) FROM c)"


def spent(session: Session) -> list[Any]:
    return [entry.sql for entry in session.ledger.entries("person")]


# -- the price


def test_one_released_part_costs_and_errs_as_it_does_by_itself(tmp_path: Path) -> None:
    session = exact(tmp_path)
    alone = asked("SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic", session)
    around = asked(SHARES, session)
    assert around.cost == alone.cost and [row[:2] for row in around.rows] == list(alone.rows)
    assert [row[1] for row in around.errors] == [row[1] for row in alone.errors]
    assert [row[1] for row in around.intervals] == [row[1] for row in alone.intervals]


def test_where_no_group_is_found_there_are_no_rows(tmp_path: Path) -> None:
    found = asked("SELECT n, LAG(n) OVER (ORDER BY note) AS before FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost < -5 GROUP BY note) AS t",
                  exact(tmp_path))
    assert found.rows == () and not any("could not be computed" in note for note in found.notes)


def test_parts_share_the_price_and_one_that_is_named_twice_is_paid_once(tmp_path: Path) -> None:
    session = exact(tmp_path)
    one = asked("SELECT COUNT(*) FROM people", session).errors[0][0]
    assert one is not None
    for error in [row[1] for row in asked(UNION, session).errors]:
        assert error == pytest.approx(2 * one, rel=0.1)  # each at half the epsilon
    year = asked("SELECT year, COUNT(*) AS n FROM visits GROUP BY year", session).errors[0][1]
    made = asked(TWICE, session)
    assert year is not None
    assert [row[1] for row in made.errors] == [year] * 3 and [row[2] for row in made.errors] == pytest.approx([year * 2**0.5] * 3)


def test_the_price_is_told_beforehand_and_charged_once(tmp_path: Path) -> None:
    session = exact(tmp_path)
    told = answer(f"EXPLAIN PRIVACY {UNION}", session)
    assert isinstance(told, Explanation) and "cost    ε = 1" in str(told) and spent(session) == []
    assert str(told).count("is released, for ε = 0.5") == 2
    first = asked(UNION, session)
    again = asked(UNION.replace("AS who", "AS whom").replace("union", "UNION"), session)
    assert again.stored and again.rows == first.rows and again.columns[0].name == "whom" and len(spent(session)) == 1


@pytest.mark.parametrize(("text", "other"), [
    (SHARES, SHARES.replace("1.0 *", "2.0 *")), (SHARES, SHARES + " ORDER BY n DESC"), (SHARES, SHARES + " LIMIT 2"),
    (SHARES, SHARES.replace("OVER ()", "OVER (ORDER BY n)")), (ABOVE, ABOVE.replace("AVG", "MIN")), (UNION, UNION.replace("'f'", "'m'")),
    (UNION, UNION.replace("UNION ALL", "EXCEPT"))])
def test_other_sql_around_the_same_parts_is_another_statement(text: str, other: str, tmp_path: Path) -> None:
    session = exact(tmp_path)
    asked(text, session)
    assert not asked(other, session).stored and len(spent(session)) == 2


def test_the_same_noisy_rows_have_the_same_errors(tmp_path: Path) -> None:
    text = SHARES.replace("n, 1.0", "RANK() OVER (ORDER BY n) AS place, 1.0")
    first, second = (asked(text, exact(tmp_path / name)) for name in "ab")
    assert first.rows == second.rows and first.errors == second.errors and first.intervals == second.intervals


# -- what it is computed of


def test_private_rows_never_come_near_the_sql_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: dict[str, list[Any]] = {}
    load = ScratchTables.load

    def watched(self: ScratchTables, name: str, columns: Any, versions: Any = None) -> None:
        loaded[name] = [column for column in columns if column != "#"]
        load(self, name, columns, versions)

    monkeypatch.setattr(ScratchTables, "load", watched)
    asked("SELECT t.clinic, n, beds FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t JOIN clinics AS c "
          "ON t.clinic = c.clinic", exact(tmp_path))
    assert loaded == {"released 1": ["clinic", "n"], "clinics": ["clinic", "city", "beds"], SHOWN: ["0", "1"]}  # places of both


def test_the_scratch_engine_reads_no_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    tables = ScratchTables()
    for text in (f"SELECT * FROM read_csv('{tmp_path}/rows.csv')", f"SELECT * FROM '{tmp_path}/rows.csv'"):
        with pytest.raises(ReaderFault):
            tables.rows(text)


def test_groups_that_the_policy_withholds_stay_so(tmp_path: Path) -> None:
    policy = worlds.POLICY.replace('key = "person_id"\n', 'key = "person_id"\nminimum_frequency = 1000\n', 1)
    made = asked(SHARES, exact(tmp_path, policy=policy))
    assert made.rows == () and any("withheld" in note for note in made.notes)


def test_what_was_released_is_told_where_the_sql_around_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ScratchTables, sql: str, version: int = 0) -> list[Any]:
        raise ReaderFault

    monkeypatch.setattr(ScratchTables, "rows", broken)
    made = asked(UNION, exact(tmp_path))
    assert made.rows == () and [column.name for column in made.columns] == ["who", "n"]
    assert "('all', 300)" in " ".join(made.notes) and made.cost


def test_expressions_of_released_rows_do_not_fail(tmp_path: Path) -> None:
    made = asked("SELECT n / 0, n // (n - n), CAST(sex AS BIGINT), ln(-n), n * n * n * n * n * n * n * n, RANK() OVER () FROM "
                 "(SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t", exact(tmp_path))
    assert all(row[:4] == (None, None, None, None) and row[5] == 1 for row in made.rows)


# -- what is refused, before anything is charged


@pytest.mark.parametrize(("text", "reason", "place"), [
    (SHARES.replace("1.0 * n", "1.0 * m"), "there is no column m", "m"),
    (UNION.replace("COUNT(*) FROM people WHERE", "COUNT(*), 1 FROM people WHERE"), "the parts of this UNION have 2 and 3", ""),
    (UNION + " ORDER BY n + 1", "ORDER BY after a set operation", "n + 1"),
    (SHARES + " LIMIT -1", "", ""), (SHARES.replace("SUM(n)", "SUM(clinic)"), "SUM needs numbers", "clinic"),
    (f"SELECT DISTINCT clinic, RANK() OVER (ORDER BY n) FROM ({SHARES}) AS u ORDER BY n", "terms of ORDER BY must be in the list of SELECT DISTINCT", "n"),
    ("SELECT p.sex, n FROM people AS p JOIN (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t ON p.sex = t.sex", "rows are", ""),
    ("SELECT AVG(n) FROM (SELECT nickname, COUNT(*) AS n FROM people GROUP BY nickname) AS t", "", ""),
    ("SELECT clinic FROM clinics WHERE beds IN (SELECT n FROM (SELECT x FROM people) AS t) UNION SELECT 'a'", "", ""),
    ("SELECT COUNT(active) OVER t NOT LIKE 'a' FROM people GROUP BY ALL", "a window function is answered", "COUNT(active) OVER t")])
def test_what_is_wrong_is_told_before_a_charge(text: str, reason: str, place: str, tmp_path: Path) -> None:
    session = exact(tmp_path)
    with pytest.raises(Error) as fault:
        answer(text, session)
    assert fault.value.reason.startswith(reason) and fault.value.text == text and spent(session) == []
    assert fault.value.span is not None and place in text[fault.value.span.start : fault.value.span.end]


def test_an_accuracy_is_not_asked_of_sql_around(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="an accuracy applies to released numbers"):
        answer(SHARES + " ERROR WITHIN 5", exact(tmp_path))


# -- errors


def counts(values: Numbers, scale: float) -> LoadedColumn:
    estimate = released((0, 0), values, NoiseTerm(kind="laplace", scale=scale))
    return LoadedColumn(type=Type.BIGINT, values=[int(value) for value in values], noisy=scale > 0, estimate=estimate,
                        physical=Interval(-(2**50), 2**50))


class Simulated:
    """SQL over the counts of some groups, with noise that the test draws."""

    def __init__(self, items: str, session: Session, truth: list[int]) -> None:
        query = parse(f"SELECT {items} FROM (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) AS t")
        assert isinstance(query, Query)
        around = bind_around(query, session.catalog, session.kernel, session.scratch, {})
        assert around is not None
        self.around: AroundReleased = around
        self.session, self.truth = session, np.array(truth, dtype=float)

    def answer(self, moved: Numbers, scale: float, seed: int) -> Answer:
        groups = LoadedColumn(type=Type.BIGINT, values=list(range(len(self.truth))), noisy=False, estimate=None,
                              physical=Interval(0, 999))
        return composed(self.around, {"released 1": {"year": groups, "n": counts(self.truth + moved, scale)}}, self.session.kernel,
                        confidence=0.95, price="", notes=(), seed=seed)


LINEAR = ("year, SUM(n) OVER (ORDER BY year) AS running, n - LAG(n) OVER (ORDER BY year) AS change, "
          "AVG(n) OVER (ORDER BY year ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth, 3 * n + 1 AS more")


@pytest.mark.parametrize("size", [4, 730])
def test_errors_of_linear_sql_are_exact(size: int, tmp_path: Path) -> None:
    """Also of two years of days."""
    made = Simulated(LINEAR, exact(tmp_path), [100 + 37 * k % 200 for k in range(size)]).answer(np.zeros(size), 3.0, 1)
    one = math.sqrt(NoiseTerm(kind="laplace", scale=3.0).variance)
    assert [row[1] for row in made.errors] == pytest.approx([one * k**0.5 for k in range(1, size + 1)])
    assert [row[2] for row in made.errors[1:]] == pytest.approx([one * 2**0.5] * (size - 1))
    assert [row[3] for row in made.errors] == pytest.approx([one / k**0.5 for k in (2, *[3] * (size - 2), 2)])
    assert [row[4] for row in made.errors] == pytest.approx([3 * one] * size)
    assert made.errors[0][2] is None and made.rows[0][2] is None and not any(column.approximate for column in made.columns)


def test_errors_of_linear_sql_stay_when_rows_are_added(tmp_path: Path) -> None:
    """To the last digit, as numbers do: probes are others then."""
    asks, moved = Simulated(LINEAR, exact(tmp_path), [100 + 37 * k % 200 for k in range(40)]), np.zeros(40)
    before = asks.answer(moved, 3.0, 1)
    asks.truth, moved = np.append(asks.truth, 70.0), np.zeros(41)
    after = asks.answer(moved, 3.0, 2)
    assert after.errors[:39] == before.errors[:39] and after.intervals[:39] == before.intervals[:39]


BENT = ("year, 1.0 * n / SUM(n) OVER () AS share, RANK() OVER (ORDER BY n DESC) AS place, MAX(n) OVER () AS most, n * n AS square, "
        "SUM(CASE WHEN n > 60 THEN n ELSE 0 END) OVER () AS large, n - LAG(n) OVER (ORDER BY n) AS gap")


@pytest.mark.parametrize("truth", [[40, 55, 90, 140, 300, 600], [58, 59, 60, 60, 61, 63]], ids=["apart", "alike"])
def test_intervals_of_other_sql_cover_the_truth(truth: list[int], tmp_path: Path) -> None:
    asks, rng, runs = Simulated(BENT, exact(tmp_path), truth), np.random.default_rng(7), 40
    true = {row[0]: row for row in asks.answer(np.zeros(6), 1e-9, 0).rows}
    hits = np.zeros(7)
    for run in range(runs):
        odds = -math.expm1(-1 / 5)
        made = asks.answer((rng.geometric(odds, 6) - rng.geometric(odds, 6)).astype(float), 5.0, run)
        for row, ends in zip(made.rows, made.intervals, strict=True):
            for column in range(1, 7):
                value, found = true[row[0]][column], ends[column]
                hits[column] += found is None or value is None or found[0] - 1e-9 <= value <= found[1] + 1e-9
    assert (hits[1:] >= 0.9 * runs * 6).all(), hits / runs / 6


def test_what_has_a_bias_that_is_not_known_has_no_end(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=people(), noise=Exact())
    text = SHARES.replace("SELECT clinic, n,", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 1) clinic, n, n * n AS square,")
    made = asked(text, session)
    assert all(ends[1] is not None and ends[1][1] == math.inf for ends in made.intervals)
    assert all(ends[2] == (-math.inf, math.inf) for ends in made.intervals)


def test_a_row_that_a_condition_may_drop_keeps_its_error(tmp_path: Path) -> None:
    session = exact(tmp_path)
    made = asked(f"SELECT clinic, n FROM ({SHARES}) AS u WHERE n > (SELECT 0) AND share > 0.2 ORDER BY n DESC LIMIT 2", session)
    free = {row[0]: error[1] for row, error in zip(*(lambda a: (a.rows, a.errors))(asked(SHARES, session)), strict=True)}
    assert [error[1] for error in made.errors] == [free[row[0]] for row in made.rows]


def test_parts_that_select_their_groups_share_the_delta(tmp_path: Path) -> None:
    session = exact(tmp_path)
    text = ("SELECT nickname, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM people GROUP BY nickname "
            "UNION ALL SELECT note, COUNT(*), 0 FROM visits GROUP BY note")
    made = asked(text, session)
    asked("SELECT nickname, COUNT(*) AS n FROM people GROUP BY nickname", session)
    both, one = (entry.charge for entry in session.ledger.entries("person"))
    assert {row[0] for row in made.rows} >= {"al", "bo", "ill", "well"} and made.cost == "ε = 1, δ = 4.375e-07"
    assert both == one and 0 < one.delta <= 10**12 and one.epsilon == 10**9  # atto-delta and nano-epsilon


def test_a_part_that_is_answered_by_itself_is_not_cut_further(tmp_path: Path) -> None:
    text = "SELECT COUNT(*) AS n FROM (SELECT DISTINCT sex FROM people) AS t UNION ALL SELECT COUNT(*) FROM people ORDER BY n"
    assert asked(text, exact(tmp_path)).rows[1][0] == 300
