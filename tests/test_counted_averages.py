"""Averages of undeclared groups: they rest on the counts by which groups are shown, and on sums from the middle of the bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.policies import policy_of
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.session import Session
from dpsql.estimates import NoiseTerm, fieller, recovered, released
from dpsql.mechanisms.select.shown_counts import shown_counts
from dpsql.trusted.noise.key_selection import GaussianThreshold, KeyRule, TruncatedGeometric, shown
from dpsql.trusted.noise.source import Secure

POLICY = policy_of("people", """
team = {}
height = { bounds = [0, 200], decimals = 1, nullable = false }
weight = { bounds = [0, 300] }
born = { range = [1900-01-01, 2020-12-31], nullable = false }
""", """
[tables.visits]
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 3
[tables.visits.columns]
id = { nullable = false }
clinic = { nullable = false }
cost = { bounds = [-50, 150], nullable = false }
""", price="rho = 1000\ndelta = 0.01")
HALF = 100
OUTSIDE = (-50.0, 500.0, 0.0, 200.0)  # heights of the first people, some beyond the bounds


def session(folder: Path, *, without: Sequence[int] = (), people: int = 400, **how: object) -> Session:
    made = duckdb.connect()
    made.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, team VARCHAR, height DOUBLE NOT NULL, weight DOUBLE, born DATE NOT NULL)")
    made.execute("CREATE TABLE visits (id INTEGER NOT NULL, clinic VARCHAR NOT NULL, cost DOUBLE NOT NULL)")
    draw = np.random.default_rng(5)
    for i in range(people):
        height = OUTSIDE[i] if i < len(OUTSIDE) else round(float(draw.uniform(150, 190)), 1)
        if i not in without:
            made.execute("INSERT INTO people VALUES (?, ?, ?, 80, DATE '1990-01-01')", [i, f"t{i % 2}" if i % 5 else None, height])
            made.execute("INSERT INTO visits VALUES (?, 'a', ?), (?, 'b', 20)", [i, height / 2, i])
    lock_down(made)
    return session_of(folder, reader=DuckReader(made, version="1"), policy=POLICY, **how)  # type: ignore[arg-type]


def statement(text: str, at: Session, price: str = "epsilon = 1, delta = 1e-6") -> PreparedStatement:
    return PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}", at)


@pytest.mark.parametrize("price", ["epsilon = 1, delta = 1e-6", "rho = 0.1, delta = 1e-6"])
@pytest.mark.parametrize("text", ["team, AVG(height) FROM people GROUP BY team", "team, AVG(height), COUNT(*) FROM people GROUP BY team",
                                  "team, COUNT(*), AVG(height * 2), AVG(height) FROM people WHERE height >= 0 GROUP BY team"])
def test_the_count_is_that_of_the_groups(text: str, price: str, tmp_path: Path) -> None:
    """Half of the price shows groups and counts them; the rest is for sums, each value at most half of its range from the middle."""
    at = session(tmp_path, noise=Exact())
    made = statement(text, at, price)
    share = made.program.stages["keys"]
    assert (share.epsilon, share.rho)[share.epsilon is None] == (Fraction(1, 2), Fraction(1, 20))[share.epsilon is None]
    found = {row[0]: row[1:] for row in made.release().rows}
    held = text.split("FROM")[0].replace("height", "LEAST(GREATEST(height, 0), 200)")
    for key, *true in at.kernel._reader.rows(f"SELECT {held} FROM {text.split('FROM')[1]}"):
        assert [float(value) for value in found[key]] == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize("text", [
    "team, AVG(height), SUM(height) FROM people GROUP BY team",  # the sum itself is asked for, which moments know better
    "team, AVG(height), VAR_POP(height) FROM people GROUP BY team",
    "team, AVG(weight) FROM people GROUP BY team",  # rows without a value are shown too
    "team, AVG(height) FILTER (WHERE height > 20) FROM people GROUP BY team",
    "team, AVG(height) FROM people WHERE height > (SELECT AVG(height) FROM people) GROUP BY team"])
def test_elsewhere_averages_rest_on_moments(text: str, tmp_path: Path) -> None:
    made = statement(text, session(tmp_path))
    assert not made.program.counted and made.program.decomposition.parts
    assert made.program.stages["keys"].epsilon == Fraction(3, 10) * (made.program.allotted.epsilon or 0)


def test_rows_of_one_person_in_a_group_of_their_own(tmp_path: Path) -> None:
    """What is counted is rows, also where a person has some in several groups, one in each."""
    at = session(tmp_path, noise=Exact())
    text = "clinic, AVG(cost) FROM (SELECT id, clinic, MAX(cost) AS cost FROM visits GROUP BY id, clinic) AS t GROUP BY clinic"
    made = statement(text, at)
    assert made.program.counted
    found = dict(made.release().rows)
    for key, true in at.kernel._reader.rows(f"SELECT {text.replace('MAX(cost)', 'MAX(LEAST(GREATEST(cost, -50), 150))')}"):
        assert float(found[key]) == pytest.approx(true, rel=1e-9)


def test_no_neighbour_is_further_than_the_noise_is_for(tmp_path: Path) -> None:
    """With sums from the middle, one person moves a sum by half of the range at most, beyond the bounds too."""
    text, sums = "team, AVG(height), COUNT(*) FROM people GROUP BY team", []
    for without in ((), *((i,) for i in range(len(OUTSIDE)))):
        made = statement(text, session(tmp_path / f"{without}", without=without, noise=Exact()))
        told, part = made.release(), made.program.allotted.part(1 - made.program.keys_share)
        sums.append({key: (float(mean) - HALF) * count for key, mean, count in told.rows})  # type: ignore[arg-type, operator]
        noise = float(told.errors[0][1]) * told.rows[0][2]  # type: ignore[operator, arg-type]
        assert part.epsilon is not None and noise >= math.sqrt(2) * HALF / float(part.epsilon) * 0.999
    moved = [max(abs(there[key] - sums[0][key]) for key in there) for there in sums[1:]]
    assert max(moved) == pytest.approx(HALF) and min(moved) > HALF - 1e-6, "each of these four is at an end of the range"


RULES: tuple[tuple[KeyRule, Callable[[int], list[int]], NoiseTerm], ...] = (
    (TruncatedGeometric(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6)), lambda n: Secure().laplace([0] * n, 2.0**11),
     NoiseTerm(kind="laplace", scale=2.0**11)),
    (GaussianThreshold(sigma=3.2, threshold=18), lambda n: Secure().gaussian([0] * n, 2.0**11 * 1.6),
     NoiseTerm(kind="gaussian", scale=2.0**11 * 1.6)))


@pytest.mark.parametrize(("rule", "drawn", "noise"), RULES, ids=["geometric", "gaussian"])
@pytest.mark.parametrize("off", [0.0, -0.2, 0.35, 0.5])
def test_intervals_cover_the_averages_of_what_is_shown(rule: KeyRule, drawn: Callable[[int], list[int]], noise: NoiseTerm,
                                                       off: float, effort: float) -> None:
    """Whether a group is far above the threshold or is shown by chance; `off` is how far its average is from the middle."""
    for n in (rule.threshold - 8, rule.threshold, rule.threshold + 6, 3 * rule.threshold):
        told = [count for count in shown([n] * round(30_000 * effort), rule, Secure()) if count is not None]
        sums = released((1, 0), n * off * 2**11 + np.array(drawn(len(told)), dtype=float), noise) * 2.0**-11
        low, high = sums.over(shown_counts((0, 0), np.array(told), rule)).ends(0.95)
        covered = float(np.mean((low <= off + 1e-9) & (off - 1e-9 <= high)))
        assert 0.95 - 5 * (0.95 * 0.05 / len(told)) ** 0.5 - 0.005 < covered, (n, covered)
        assert covered < 0.996 or len(told) < 1000, (n, covered)


def test_of_gaussian_noise_the_interval_is_fieller_s() -> None:
    draw = np.random.default_rng(2)
    above = released((0, 0), draw.normal(0, 40, 200), NoiseTerm(kind="normal", scale=5.0))
    below = released((1, 0), draw.uniform(60, 90, 200), NoiseTerm(kind="normal", scale=4.0))
    for mine, known in zip(recovered(above, below, 0.95), fieller(above, below, 0.95), strict=True):
        assert mine == pytest.approx(known, rel=1e-9, abs=1e-12)


def test_a_count_that_may_be_none_rules_nothing_out() -> None:
    above, below = (released((i, 0), np.array([value]), NoiseTerm(kind="normal", scale=2.0)) for i, value in ((0, 30.0), (1, 3.0)))
    low, high = recovered(above, below, 0.95)
    assert high[0] == math.inf and low[0] <= 10
