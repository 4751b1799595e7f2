"""Grouping sets over rows of several owners: one release for each set, one charge for all of them, rows as SQL has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.chances import too_few
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Unsupported
from dpsql.estimates import Estimate, NoiseTerm, joined

PAIRS = "FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id"
CUBE = f"SELECT GROUPING(a.sex, b.sex) AS level, a.sex, b.sex, COUNT(*) AS n {PAIRS} GROUP BY CUBE (a.sex, b.sex)"


def session(folder: Path, *, exact: bool = False) -> Session:
    return session_of(folder, reader=reader_of(dense(people=200)), noise=Exact() if exact else None)


def rows(text: str, at: Session, options: str = "epsilon = 90") -> tuple[tuple[object, ...], ...]:
    found = answer(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1), at)
    assert isinstance(found, Answer)
    return found.rows


def test_the_groups_of_all_sets_are_there_and_those_of_a_set_once(tmp_path: Path) -> None:
    found = [row[:3] for row in rows(CUBE, session(tmp_path))]
    assert len(found) == len(set(found)) == 16  # f, m and NULL of both, and each summed out
    assert sorted(row[0] for row in found) == [0] * 9 + [1] * 3 + [2] * 3 + [3]


def test_having_order_and_limit_act_on_all_rows(tmp_path: Path) -> None:
    at = session(tmp_path, exact=True)
    whole = sorted((row[3] for row in rows(CUBE, at)), reverse=True)  # type: ignore[type-var]
    assert [row[3] for row in rows(f"{CUBE} HAVING GROUPING(a.sex, b.sex) < 3 ORDER BY n DESC LIMIT 4", at)] == whole[1:5]


def test_a_set_that_is_written_twice_is_released_once(tmp_path: Path) -> None:
    found = rows(f"SELECT a.sex, COUNT(*) {PAIRS} GROUP BY GROUPING SETS ((a.sex), (a.sex))", session(tmp_path), "epsilon = 1")
    assert found[:3] == found[3:]


def test_all_sets_are_one_charge_and_the_answer_is_stored(tmp_path: Path) -> None:
    at = session(tmp_path)
    first, again = rows(CUBE, at, "epsilon = 2"), rows(CUBE.replace("n ", "m ", 1), at, "epsilon = 2")
    assert first == again
    assert [entry.charge.epsilon for entry in at.ledger.entries("person")] == [2 * 10**9]


def test_subqueries_are_released_before_the_sets(tmp_path: Path) -> None:
    at, text = session(tmp_path, exact=True), f"SELECT a.sex, COUNT(*) - (SELECT COUNT(*) {PAIRS}) {PAIRS} GROUP BY ROLLUP (a.sex)"
    found = dict(rows(text, at))
    assert sum(value for key, value in found.items() if key is not None) < 0  # type: ignore[misc]
    assert 0 in [row[1] for row in rows(text, at)]


def test_groups_alone_are_free_and_undeclared_ones_are_refused(tmp_path: Path) -> None:
    at = session(tmp_path)
    assert len(rows(f"SELECT a.sex {PAIRS} GROUP BY ROLLUP (a.sex)", at)) == 4
    assert "nothing: only declared groups" in str(answer(f"EXPLAIN PRIVACY SELECT a.sex {PAIRS} GROUP BY ROLLUP (a.sex)", at))
    assert not at.ledger.entries("person")
    for asked in ("a.nickname", "a.nickname, COUNT(*)"):
        with pytest.raises(Unsupported, match="the values of nickname are not declared"):
            rows(f"SELECT {asked} {PAIRS} GROUP BY ROLLUP (a.nickname)", at)


def test_groups_alone_of_one_entity_each_are_free_if_declared_and_released_if_not(tmp_path: Path) -> None:
    at, declared = session(tmp_path), "SELECT sex, active FROM people GROUP BY ROLLUP (sex, active)"
    assert len(rows(declared, at)) == 13 and not at.ledger.entries("person")
    assert "nothing: only declared groups" in str(answer(f"EXPLAIN PRIVACY {declared}", at))
    undeclared = "SELECT nickname FROM people GROUP BY ROLLUP (nickname)"
    assert "nothing" not in str(answer(f"EXPLAIN PRIVACY {undeclared}", at)) and not at.ledger.entries("person")
    found = rows(undeclared, at, "epsilon = 90, delta = 1e-6")
    assert len(found) > 2 and len(at.ledger.entries("person")) == 1


ALONE = ["sex, MEDIAN(age), COUNT(*) {} GROUP BY ROLLUP (sex)", "sex, active, VAR_POP(weight), COUNT(DISTINCT clinic) {} GROUP BY CUBE (sex, active)",
         "nickname, COUNT(*), AVG(weight) {} GROUP BY ROLLUP (nickname)", "GROUPING(year, sex) AS g, year, sex, MODE(clinic) {} "
         "GROUP BY GROUPING SETS ((year), (sex), ())", "year, MAX(age) {} GROUP BY CUBE (year) HAVING COUNT(*) > 5 ORDER BY 1 LIMIT 2"]


@pytest.mark.parametrize("text", ALONE)
def test_other_aggregates_and_undeclared_keys_of_one_owner_are_those_of_duckdb(text: str, tmp_path: Path) -> None:
    at = session(tmp_path, exact=True)
    asked = f"SELECT {text.format('FROM people JOIN visits USING (person_id)')}"
    ours, theirs = rows(asked, at, "epsilon = 900, delta = 0.004"), at.kernel._reader.rows(asked)
    assert len(ours) == len(theirs) > 1
    for mine, known in zip(sorted(ours, key=str), sorted(theirs, key=str), strict=True):
        assert [value if isinstance(value, str | None) else pytest.approx(value, rel=0.02) for value in known] == list(mine)
    assert [entry.charge.epsilon for entry in at.ledger.entries("person")] == [900 * 10**9]


def test_each_set_of_one_owner_pays_its_share(tmp_path: Path) -> None:
    told = str(answer("EXPLAIN PRIVACY SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3) sex, active, MEDIAN(age) FROM people "
                      "GROUP BY GROUPING SETS ((sex), (active), ())", session(tmp_path)))
    assert told.count("is released, for ε = 1\n") == 3


def test_explain_shows_each_set_and_its_price(tmp_path: Path) -> None:
    told = str(answer(f"EXPLAIN PRIVACY {CUBE}", session(tmp_path)))
    for keys in ("()", "(sex)", "(sex, sex)"):
        assert f"GROUP BY {keys} is released, for" in told
    assert "those of 4 grouping sets, each released separately" in told


def test_estimates_of_different_cells_keep_their_errors() -> None:
    noise = NoiseTerm(kind="gaussian", scale=2.0)
    one = Estimate(values=np.array([1.0, 2.0]), slopes={(0,): (noise, np.array([1.0, 3.0]))})
    other = Estimate(values=np.array([5.0]), slopes={(1,): (noise, np.ones(1))}, above=np.inf)
    found = joined([one, other, one])
    assert found.deviations.tolist() == [2, 6, 2, 2, 6]
    for at, part in ((slice(0, 2), one), (slice(2, 3), other), (slice(3, 5), one)):
        assert [end[at].tolist() for end in found.ends(0.9)] == [end.tolist() for end in part.ends(0.9)]


@pytest.mark.slow
def test_intervals_hold_in_every_set(tmp_path: Path) -> None:
    text, times, held = f"SELECT a.sex, COUNT(*) {PAIRS} WHERE a.sex IS NOT NULL GROUP BY ROLLUP (a.sex)", 60, []
    at = session(tmp_path)
    truth = dict(at.kernel._reader.rows(text))
    for i in range(times):  # a price of its own, so that it is no stored answer
        told = answer(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3.{i:03})", 1), at)
        assert isinstance(told, Answer)
        held += [pair is not None and pair[0] <= truth[row[0]] <= pair[1] for row, (_, pair) in zip(told.rows, told.intervals, strict=True)
                 if row[0] in truth]
    assert len(held) == 3 * times and not too_few(sum(held), len(held), 0.95)
