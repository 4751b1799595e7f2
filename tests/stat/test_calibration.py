"""Answers know their own errors: standard errors are those of many releases, and intervals cover the truth as often as they say.

Those of quantiles may be too wide, as they hold whatever the ties are, and with few rows; they must not be too narrow.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.chances import too_few, too_many
from support.golden.dense import dense
from support.sessions import reader_of, session_of
from support.worlds import World

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import Batched, PreparedStatement, Remembering
from dpsql.frozen import Frozen
from dpsql.mechanisms.select import quantiles
from dpsql.mechanisms.select.quantiles import EndChoice, QuantileSearch

pytestmark = pytest.mark.stat

MEAN = 6  # standard deviations: what chance alone does once in 10^9
# The mean of 1000 squares of Laplace noise, the most uneven of the kinds there are, is above 1 + 6.5 of its standard deviations
# less than once in 10^7, by convolution of its distribution; the mean of squares of normal noise hardly ever.
SQUARES = 6.5


def releases(text: str, times: int, folder: Path, *, people: int = 300, world: World | None = None) -> tuple[np.ndarray, ...]:
    """For each release, of each column: its value, its standard error, whether its interval holds the truth; and the truth.

    Of several groups it is the first."""
    reader = reader_of(dense(people=people) if world is None else world)
    (folder / "true").mkdir()
    true = PreparedStatement(text, session_of(folder / "true", reader=reader, noise=Exact(), at={"epsilon": 900, "delta": 1e-6})).release()
    statement = PreparedStatement(text, session_of(folder, reader=reader, around=Remembering, noise=Batched()))
    values, errors, covered = [], [], []
    for _ in range(times):
        made = statement.release()
        values.append([math.nan if value is None else float(value) for value in made.rows[0]])  # type: ignore[arg-type]
        errors.append(made.errors[0])
        ends = [made.intervals[0][i] for i in range(len(made.columns))]
        covered.append([pair is not None and pair[0] <= truth <= pair[1]  # type: ignore[operator]
                        for pair, truth in zip(ends, true.rows[0], strict=True)])
    return np.array(values), np.array(errors, dtype=float), np.array(covered), np.array(true.rows[0], dtype=float)


LINEAR = [
    ("epsilon = 0.7", "COUNT(*) FROM people"),
    ("epsilon = 0.7", "SUM(age), SUM(cost) FILTER (WHERE clinic = 'a') FROM people JOIN visits USING (person_id)"),
    ("epsilon = 0.7", "COUNT(DISTINCT person_id), COUNT(DISTINCT note) FROM visits"),
    ("epsilon = 0.7", "SUM(cost) - 100 * COUNT(*) FROM visits"),
    ("epsilon = 0.7", "SUM(cost - 100) FROM visits"),
    ("rho = 0.2", "SUM(income), COUNT(*) - COUNT(income) FROM people"),
    ("rho = 0.2", "COUNT(*), SUM(cost) FROM visits"),
]


@pytest.mark.parametrize(("price", "text"), LINEAR, ids=[case[1] for case in LINEAR])
def test_linear_answers_are_unbiased_and_know_their_error(price: str, text: str, tmp_path: Path, effort: float) -> None:
    times = int(1000 * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}", times, tmp_path)
    for i in range(values.shape[1]):
        off, error = values[:, i] - true[i], errors[0, i]
        assert (errors[:, i] == error).all(), "the error of a linear answer is public"
        assert abs(off.mean()) < MEAN * error / math.sqrt(times) + 1e-6 * abs(true[i])
        spread = (off**2).mean()  # its own variance is at most 5 error^4 / times: a Laplace kurtosis of 6
        assert abs(spread / error**2 - 1) < SQUARES * math.sqrt(5 / times) + 0.02
        covers(covered[:, i], 0.95, 0.975)


def covers(covered: np.ndarray, least: float, most: float = 1.0) -> None:
    hits, times = int(covered.sum()), len(covered)
    assert not too_few(hits, times, least), f"intervals cover {hits / times}"
    assert not too_many(hits, times, most), f"intervals are too wide, as they cover {hits / times}"


def halfway(off: np.ndarray, least: float, most: float) -> None:
    """Half of the errors are larger than the one, and half smaller than the other."""
    assert not too_many(int((off < least).sum()), len(off), 0.5), f"errors are told as more than {least}"
    assert not too_few(int((off <= most).sum()), len(off), 0.5), f"errors are told as less than {most}"


APPROXIMATE = [
    ("AVG(age) FROM people", 800),
    ("AVG(income), STDDEV(age) FROM people", 800),
    ("SUM(cost) / COUNT(cost) FROM visits", 800),
    ("AVG(weight) FROM people", 600),
    ("CORR(income, age) FROM people", 600),
    ("GEOMEAN(age + 1) FROM people", 800),
    ("COVAR_POP(income, age), COVAR_SAMP(age, income) FROM people", 600),
    ("REGR_SLOPE(age, income), REGR_INTERCEPT(age, income) FROM people", 600),
]
VALUES = [
    ("epsilon = 1", "COUNT(DISTINCT year), COUNT(DISTINCT clinic) FROM visits"),
    ("epsilon = 0.2", "COUNT(DISTINCT clinic) FROM visits"),
    ("epsilon = 0.5", "COUNT(DISTINCT age) FROM people WHERE age < 40"),
    ("epsilon = 0.5", "COUNT(DISTINCT points) FROM scores"),
    ("rho = 0.01", "COUNT(DISTINCT year) FROM visits"),
]
QUANTILES = [  # with the number of people
    ("MEDIAN(age) FROM people", 300, 200),
    ("MEDIAN(income) FROM people", 300, 150),
    ("MEDIAN(income) FROM people", 40, 200),
    ("MIN(income), MAX(income) FROM people", 100, 100),
    ("quantile_cont(income, 0.25), quantile_cont(income, 0.75) FROM people", 300, 80),
]


@pytest.mark.parametrize(("text", "times"), APPROXIMATE, ids=[case[0] for case in APPROXIMATE])
def test_approximate_intervals_cover_about_what_they_say(text: str, times: int, tmp_path: Path, effort: float) -> None:
    times = int(times * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) {text}", times, tmp_path)
    for i in range(values.shape[1]):
        covers(covered[:, i], 0.93, 0.97)
        told = float(np.median(errors[:, i]))
        halfway(np.abs(values[:, i] - true[i]), 0.3 * told, 1.2 * told)


@pytest.mark.parametrize(("price", "text"), VALUES)
def test_intervals_of_numbers_of_declared_values_are_not_too_narrow(price: str, text: str, tmp_path: Path, effort: float) -> None:
    _, _, covered, _ = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}", int(150 * effort), tmp_path)
    for i in range(covered.shape[1]):
        covers(covered[:, i], 0.95)


@pytest.mark.parametrize(("text", "people", "times"), QUANTILES, ids=[f"{case[0]} ({case[1]})" for case in QUANTILES])
def test_intervals_of_quantiles_are_not_too_narrow(text: str, people: int, times: int, tmp_path: Path, effort: float) -> None:
    """Also where there are fewer rows than noise, and for the extremes, which are chosen well inside."""
    times = int(times * effort)
    values, errors, covered, true = releases(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text}", times, tmp_path,
                                             people=people)
    for i in range(values.shape[1]):
        covers(covered[:, i], 0.95)
        told = float(np.median(errors[:, i]))
        halfway(np.abs(values[:, i] - true[i]), 0.05 * told - 1, 1.2 * told + 1)


# -- quantiles of many kinds of values


def with_people(people: int, sex: Callable[[random.Random], str], age: Callable[[random.Random], int],
                income: Callable[[random.Random], float]) -> World:
    """The dense world with other people, none of whom lacks a value."""
    draw, made = random.Random(people), dense(people=people)
    persons = [(person, home, sex(draw), age(draw), income(draw), *rest) for person, home, _, _, _, *rest in made.rows["people"]]
    return World({**made.rows, "people": persons})


def either(draw: random.Random) -> str:
    return draw.choice("fm")


def incomes(draw: random.Random) -> float:
    return min(100_000.0, draw.lognormvariate(10.0, 0.8))


def months(draw: random.Random) -> int:
    """Months of a year in work: most people all of them or none."""
    return draw.choice([0, 0, 0, 0, 12, 12, 12, *range(1, 12)])


class OfQuantiles(Frozen):
    """Quantiles of people; `smooth` says that there are many different values and rows enough to see an interval's end."""

    text: str
    people: int
    price: str = "epsilon = 1"
    times: int = 200
    smooth: bool = False
    least: float = 0.95
    sex: Callable[[random.Random], str] = either
    age: Callable[[random.Random], int] = months
    income: Callable[[random.Random], float] = incomes

    @property
    def world(self) -> World:
        return with_people(self.people, self.sex, self.age, self.income)


QUARTILES = "quantile_cont({x}, 0.25), MEDIAN({x}), quantile_cont({x}, 0.75) FROM people"
MANY_KINDS = {
    "incomes": OfQuantiles(text="MEDIAN(income) FROM people", people=1500, smooth=True),
    "incomes, rho": OfQuantiles(text="MEDIAN(income) FROM people", people=1500, price="rho = 0.1", smooth=True),
    "incomes, surer": OfQuantiles(text="MEDIAN(income) FROM people", people=1500, price="rho = 0.1, confidence = 0.999", smooth=True,
                                  least=0.999),
    "nine tenths": OfQuantiles(text="quantile_cont(income, 0.9) FROM people", people=3000, smooth=True),
    "quartiles": OfQuantiles(text=QUARTILES.format(x="income"), people=2500, smooth=True),
    "quartiles, rho": OfQuantiles(text=QUARTILES.format(x="income"), people=2500, price="rho = 0.1", smooth=True),
    "months": OfQuantiles(text="MEDIAN(age) FROM people", people=1000),
    "months, quartiles": OfQuantiles(text=QUARTILES.format(x="age"), people=2000),
    "months, by permute-and-flip": OfQuantiles(text="MEDIAN(age) FROM people", people=1000,
                                               price="epsilon = 1, mechanism = 'permute_and_flip'"),
    "half of them zero": OfQuantiles(text="MEDIAN(age) FROM people", people=999, age=lambda draw: draw.choice([0, draw.randint(1, 100)])),
    "two values": OfQuantiles(text="MEDIAN(age) FROM people", people=801, age=lambda draw: draw.choice([5, 6])),
    "one value": OfQuantiles(text="MEDIAN(income) FROM people", people=600, income=lambda draw: 33_333.3),
    "round incomes": OfQuantiles(text="MEDIAN(income) FROM people", people=1500, income=lambda draw: round(incomes(draw), -2)),
    "5 rows": OfQuantiles(text="MEDIAN(income) FROM people WHERE person_id < 5", people=6),
    "20 rows": OfQuantiles(text="MEDIAN(income) FROM people", people=20),
    "20 rows, quartiles": OfQuantiles(text=QUARTILES.format(x="income"), people=20),
    "20 rows, extremes": OfQuantiles(text="MIN(income), MAX(income) FROM people", people=20),
    "200 rows": OfQuantiles(text="MEDIAN(income) FROM people", people=200),
    "MIN": OfQuantiles(text="MIN(income) FROM people", people=1500),
    "MAX, far below the bound": OfQuantiles(text="MAX(income) FROM people", people=1500, income=lambda draw: draw.uniform(0, 2500)),
    "MIN, MEDIAN, MAX": OfQuantiles(text="MIN(income), MEDIAN(income), MAX(income) FROM people", people=1500),
    "a small group": OfQuantiles(text="MEDIAN(income) FROM people GROUP BY sex", people=1500,
                                 sex=lambda draw: "f" if draw.random() < 0.005 else "m"),
    "a large group": OfQuantiles(text="MEDIAN(income) FROM people GROUP BY sex", people=1500, smooth=True,
                                 sex=lambda draw: "m" if draw.random() < 0.005 else "f"),
    "several rows of each": OfQuantiles(text="MEDIAN(cost) FROM visits", people=1500, smooth=True),
    "several rows of each, few": OfQuantiles(text="MEDIAN(cost) FROM visits", people=30),
    "few values of several rows": OfQuantiles(text="MEDIAN(year) FROM visits", people=600),
}


@pytest.mark.parametrize("name", MANY_KINDS)
def test_intervals_of_quantiles_hold_for_all_kinds_of_values(name: str, tmp_path: Path, effort: float) -> None:
    """And the standard error is that of many releases, where rows are spread so that it can be seen."""
    case = MANY_KINDS[name]
    holds(case, int(case.times * effort), tmp_path)


def holds(case: OfQuantiles, times: int, folder: Path) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({case.price}) {case.text}"
    values, errors, covered, true = releases(text, times, folder, world=case.world)
    for i in range(values.shape[1]):
        covers(covered[:, i], case.least)
        if case.smooth:
            off, told = values[:, i] - true[i], float(np.median(errors[:, i]))
            halfway(np.abs(off), 0.2 * told, 1.1 * told)
            assert 0.5 * told < math.sqrt((off**2).mean()) < 2 * told or times < 60  # of fewer it varies by as much


@pytest.mark.parametrize("text", ["MEDIAN(income) FROM people", "MIN(income), MAX(income) FROM people", "MEDIAN(year), MAX(cost) FROM visits",
                                  QUARTILES.format(x="age")])
@pytest.mark.parametrize("price", ["epsilon = 0.01", "rho = 0.0001", "epsilon = 1, delta = 1e-6, mechanism = 'smooth_sensitivity'"])
def test_intervals_of_quantiles_stay_in_the_declared_range(text: str, price: str, tmp_path: Path) -> None:
    """Also with hardly any price."""
    if "MIN" in text and "smooth" in price:
        pytest.skip("the extremes have no smooth bound")
    session = session_of(tmp_path, reader=reader_of(dense(people=60)))
    ranges = {"income": (0, 100_000), "year": (2018, 2021), "cost": (0, 500), "age": (0, 100)}
    made = PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}", session).release()
    for column, value, ends in zip(made.columns, made.rows[0], made.intervals[0], strict=True):
        low, high = next(range_ for name, range_ in ranges.items() if name in column.name)
        assert ends is not None and low <= ends[0] <= value <= ends[1] <= high  # type: ignore[operator]


@pytest.mark.parametrize("inside", [1, 3, 5])
@pytest.mark.parametrize(("error", "rows", "scale"), [(1.1, 30, 60), (4, 10, 12), (5, 0, 9), (0.5, 2.2, 6.6), (2, 40, 15), (20, 7, 60)])
def test_how_often_an_end_is_nearer_than_the_error(error: float, rows: float, scale: float, inside: int) -> None:
    """The mean of exp(-x / error) over places x > 0, by the midpoints of small steps; a row weighs `inside` up to the target, and
    beyond it what is left of 6."""
    choice = EndChoice(inside=inside, scale=scale, rows=rows)
    x = np.arange(0.001, rows + 40 * scale, 0.002)
    weights = np.exp(-np.abs(x - rows) * np.where(x < rows, inside, 6 - inside) / scale)
    assert choice.missed(error) == pytest.approx(float((weights * np.exp(-x / error)).sum() / weights.sum()), rel=1e-3)
    assert choice.usual == pytest.approx(float((weights * x).sum() / weights.sum()), rel=1e-3)


@pytest.mark.parametrize("chance", [0.3, 0.04, 1e-3, 1e-9])
@pytest.mark.parametrize(("error", "scale"), [(1.1, 60), (6, 9), (30, 20), (1, 1e4)])
def test_an_end_is_as_near_as_the_confidence_allows(error: float, scale: float, chance: float) -> None:
    for inside in range(1, 6):
        choice = EndChoice(inside=inside, scale=scale).beyond_error(error, chance)
        assert choice.missed(error) <= chance
        assert choice.rows < choice.outer / 4 or choice.away(choice.rows - choice.outer / 4).missed(error) > chance


def test_an_order_of_quantiles_finds_each_of_them_once_between_its_neighbours() -> None:
    for count in range(1, 40):
        levels = quantiles.order(count)
        assert sorted(step.at for level in levels for step in level) == list(range(count))
        assert len(levels) == (count if count <= 2 else count.bit_length())
        known: set[int | None] = {None}
        for level in levels:
            for step in level:
                assert {step.below, step.above} <= known
                assert (-1 if step.below is None else step.below) < step.at < (count if step.above is None else step.above)
            known |= {step.at for step in level}


def nearer(patch: pytest.MonkeyPatch) -> None:
    """Ends at half their distance."""
    end = QuantileSearch.end
    patch.setattr(QuantileSearch, "end", lambda self, i, confidence: (found := end(self, i, confidence)).away(found.rows / 8))


def nothing_beyond(patch: pytest.MonkeyPatch) -> None:
    """No room for an end that says nothing."""
    patch.setattr(QuantileSearch, "beyond", lambda self, confidence: 1)


def every_end_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpsql.mechanisms.select.quantiles.ENOUGH", -math.inf)


# Intervals miss the truth with chances of about 0.056, 0.31, and 0.36 and 0.63 with these faults, so that fewer than one run in
# 10^9 finds none.
@pytest.mark.slow
@pytest.mark.parametrize(("fault", "name", "times"), [(nearer, "incomes, surer", 1000), (nothing_beyond, "5 rows", 300),
                                                      (every_end_believed, "20 rows, quartiles", 200)],
                         ids=lambda given: getattr(given, "__name__", None))
def test_intervals_of_quantiles_that_are_too_narrow_would_be_found(fault: Callable[[pytest.MonkeyPatch], None], name: str, times: int,
                                                                   tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError, match="cover"):
        holds(MANY_KINDS[name], times, tmp_path)


def test_ends_are_told_for_the_confidence_that_they_were_chosen_for(tmp_path: Path) -> None:
    """And for lower ones; for higher ones nothing is known but the range."""
    session = session_of(tmp_path, reader=reader_of(dense(people=1000)))
    made = PreparedStatement("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, confidence = 0.9) MEDIAN(age) FROM people", session)
    estimate, = made.measure().aggregates.values()
    for confidence in (0.5, 0.9):
        assert [end.tolist() for end in estimate.ends(confidence)] == [end.tolist() for end in estimate.ends(0.9)]
    assert [end.tolist() for end in estimate.ends(0.95)] == [[0.0], [100.0]]


@pytest.mark.slow
def test_an_error_that_is_told_too_small_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.estimates import NoiseTerm

    variance = NoiseTerm.variance.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(NoiseTerm, "variance", property(lambda self: variance(self) / 2))
    with pytest.raises(AssertionError):
        test_linear_answers_are_unbiased_and_know_their_error("epsilon = 0.7", "COUNT(*) FROM people", tmp_path, 2.0)


def test_quantiles_among_many_places_say_what_their_intervals_rest_on(tmp_path: Path) -> None:
    """Of 300 incomes in tens of thousands the median is chosen between two of them as often as not, and by far."""
    session = session_of(tmp_path, reader=reader_of(dense()), at={"epsilon": 1, "delta": 1e-6})
    for text, fine in [("MEDIAN(income) FROM people", True), ("COUNT(*), quantile_cont(cost, 0.9) FROM visits", True),
                       ("MEDIAN(age), MAX(points) FROM people JOIN scores USING (person_id)", False), ("AVG(income) FROM people", False)]:
        notes = PreparedStatement(f"SELECT {text}", session).release().notes
        assert any("intervals of quantiles" in note for note in notes) is fine, text
