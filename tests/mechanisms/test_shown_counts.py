"""Counts that come with undeclared groups: their intervals, for what is shown, and that they take no price of their own."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.policies import policy_of

import dpsql
from dpsql.dbapi import Connection
from dpsql.mechanisms.select.shown_counts import noise_of, shown_counts
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.noise.key_selection import GaussianThreshold, KeyRule, TruncatedGeometric, shown
from dpsql.trusted.noise.source import Secure

RULES = (TruncatedGeometric(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
         TruncatedGeometric(epsilon=Fraction(1, 10), delta=Fraction(1, 1000)),
         TruncatedGeometric(epsilon=Fraction(1, 1000), delta=Fraction(1, 100)), GaussianThreshold(sigma=3.0, threshold=15),
         GaussianThreshold(sigma=0.4, threshold=4), GaussianThreshold(sigma=2.0, threshold=-3))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_intervals_of_what_is_shown_cover_the_truth(rule: KeyRule, effort: float) -> None:
    """Whether a group is far above the threshold or is shown by chance alone."""
    tried = 0
    for n in sorted({1, 2, 5, *(max(1, rule.threshold + d) for d in (-12, -5, -2, 0, 1, 4, 30, 1000))}):
        told = [count for count in shown([n] * round(40_000 * effort), rule, Secure()) if count is not None]
        if len(told) >= 75:
            low, high = shown_counts((0, 0), np.array(told), rule).ends(0.9)
            covered = float(np.mean((low <= n) & (n <= high)))
            assert covered > 0.9 - 5 * (0.9 * 0.1 / len(told)) ** 0.5, (n, covered)
            assert (low >= 1).all() and (low <= high).all()
            tried += 1
    assert tried >= 4


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_far_above_the_threshold_intervals_are_those_of_the_noise(rule: KeyRule) -> None:
    told = shown_counts((0, 0), np.array([rule.threshold + 10**6]), rule)
    low, high = told.ends(0.95)
    drawn = np.array(Secure().gaussian([0] * 40_000, rule.sigma) if isinstance(rule, GaussianThreshold) else [
        number - 10**6 for number in Secure().above([10**6] * 40_000, rule.scale, rule.reach) if number is not None])
    ends = rule.threshold + 10**6 + np.quantile(drawn, [0.025, 0.975])
    assert abs(np.array([low[0], high[0]]) - ends).max() <= 1 + 0.05 * float(told.deviations[0])
    spread = noise_of(rule).variance ** 0.5  # of narrow Gaussian noise it is a bound
    assert drawn.std() < 1.05 * spread and (drawn.std() > 0.95 * spread or spread < 1)


POLICY = policy_of("people", """
nick = {}
team = {}
age = { bounds = [0, 120] }
""", budget="study", price="epsilon = 900\ndelta = 0.01")


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Connection]:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as made:
        made.execute("CREATE TABLE people AS SELECT i AS id, CASE WHEN i % 7 = 0 THEN NULL ELSE 'n' || CAST(sqrt(i % 900) AS INT) END "
                     "AS nick, i % 3 AS team, i % 90 AS age FROM range(6000) t(i)")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    Ledger.create(tmp_path / "study.ledger").close()
    with dpsql.connect(tmp_path / "people.duckdb", policy=tmp_path / "dpsql.toml", budget="study", analyst="ada",
                       ledger=tmp_path / "study.ledger") as made:
        yield made


PAID = "OPTIONS (epsilon = 1, delta = 1e-6)"


@pytest.mark.parametrize("counted", ["COUNT(*)", "COUNT(DISTINCT id)", "COUNT(id)"])
def test_the_whole_price_finds_groups_and_counts_them(people: Connection, counted: str) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY {PAID} nick, {counted} AS n FROM people GROUP BY nick"
    told = people.explain(text).as_dict()
    assert told["stages"][0].startswith("groups that enough entities have are selected at ε = 1,")
    assert [part["mechanism"] for part in told["measurements"]] == ["truncated_geometric"]
    assert told["expected"][0]["error"] == pytest.approx(1.357, abs=0.01)
    answer = people.execute(text).fetchall()
    exact = {None if not n % 7 else f"n{round((n % 900) ** 0.5)}": 0 for n in range(6000)}
    for i in range(6000):
        exact[None if i % 7 == 0 else f"n{round((i % 900) ** 0.5)}"] += 1
    assert {key for key, _ in answer} >= {key for key, count in exact.items() if count > 45}
    assert None in {key for key, _ in answer}, "NULL is a group too"
    assert all(abs(count - exact[key]) <= 15 for key, count in answer)


@pytest.mark.parametrize("text", [
    f"SELECT WITH DIFFERENTIAL_PRIVACY {PAID} nick, COUNT(age) FILTER (WHERE team = 1) FROM people GROUP BY nick",  # some of the rows
    f"SELECT WITH DIFFERENTIAL_PRIVACY {PAID} nick, SUM(age) FROM people GROUP BY nick",
    f"SELECT WITH DIFFERENTIAL_PRIVACY {PAID} nick, age // 50 AS old, COUNT(*) FROM people GROUP BY ALL",  # declared ones beside
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, mechanism = 'laplace') nick, COUNT(*) FROM people "
    "GROUP BY nick"])
def test_other_numbers_have_a_price_of_their_own(people: Connection, text: str) -> None:
    told = people.explain(text).as_dict()
    assert "ε = 0.3," in told["stages"][0] and [part["mechanism"] for part in told["measurements"]] == ["laplace"]
    assert people.execute(text).fetchall()


def test_beside_other_numbers_half_is_for_groups_and_their_counts(people: Connection) -> None:
    told = people.explain(f"SELECT WITH DIFFERENTIAL_PRIVACY {PAID} nick, COUNT(*), MEDIAN(age) FROM people GROUP BY nick").as_dict()
    assert "ε = 0.5," in told["stages"][0] and len(told["measurements"]) == 2
