"""Notes on answers from synthetic tables: how far they may be off, from what was released."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql.demo.folder import export
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.synthesis.answer_errors import ColumnsRead, about_answer
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.measured_counts import MeasuredCounts, measured_counts
from dpsql.synthesis.released_table import CoarserColumn, SyntheticColumn, released
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.synthesis.value_errors import QUANTILE, NumberError, error_of_mean, error_of_sum
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.types import Type
from dpsql.workload.factors import Array

A = SyntheticColumn(name="a", type=Type.VARCHAR, values=("x", "x", "y", "y"), counted=CountedValues(listed=("x", "y")))
B = SyntheticColumn(name="b", type=Type.DOUBLE, values=(1.0, 11.0, 21.0, 31.0), counted=CountedValues(listed=(0, 1, 2, 3), edges=(0, 10, 20, 30, 40)))
C = SyntheticColumn(name="c", type=Type.BOOLEAN, values=(True, False, True, False), counted=CountedValues(listed=(False, True)))
HALVES = CoarserColumn(name="b in 2 parts", of="b", merged=(0, 0, 1, 1))


def marginal(*columns: str, values: Any, variance: float = 1.0) -> MarginalMeasurement:
    return MarginalMeasurement(columns=columns, values=np.array(values, dtype=float), variance=variance)


def counts(*marginals: MarginalMeasurement, total: float = 4.0) -> MeasuredCounts:
    return measured_counts(SyntheticTable(name="made", method="mst", price="1", total=total, columns=(A, B, C), coarser=(HALVES,),
                                          marginals=tuple(released(each, 1.0) for each in marginals)))


ONES = [marginal("a", values=[2, 2]), marginal("b", values=[1, 1, 1, 1]), marginal("c", values=[2, 2])]
PAIR = marginal("a", "b in 2 parts", values=[[2, 0], [0, 2]], variance=4)


def read(*counted: str, fixed: tuple[str, ...] = (), values: tuple[str, ...] = (), means: tuple[str, ...] = (),
         sums: tuple[str, ...] = ()) -> ColumnsRead:
    return ColumnsRead(counted=frozenset(counted), fixed=frozenset(fixed), values=frozenset(values), means=frozenset(means),
                       sums=frozenset(sums))


def test_counts_in_the_finest_versions_are_used() -> None:
    made = counts(*ONES, PAIR)
    pair, alone = made.by(["a", "b"]), made.by(["b"])
    assert pair is not None and pair.columns == ("a", "b in 2 parts") and pair.drawn.tolist() == [[2, 0], [0, 2]]
    assert alone is not None and alone.columns == ("b",) and made.by(["a", "c"]) is None


def test_the_error_is_that_of_measuring_and_of_the_distance() -> None:
    made = counts(marginal("a", values=[5, 2], variance=16))
    found = made.by(["a"])
    assert found is not None and made.error(found) == pytest.approx((16 + 9 / 2) ** 0.5)
    assert made.error(found, ["a"]) == pytest.approx((2 * (16 + 9 / 2)) ** 0.5)
    twice = counts(marginal("a", values=[4, 4], variance=16), total=8.0)
    found = twice.by(["a"])
    assert found is not None and twice.error(found) == pytest.approx(4 / 2)


@pytest.mark.parametrize("pull", [0.0, 0.5, 1.0])
def test_no_fit_between_the_truth_and_the_counts_errs_more(pull: float) -> None:
    """A model that follows the noise by any part of it has a mean square error of at most what is said."""
    noise = np.random.default_rng(1).normal(0, 5, 100_000)
    drawn = pull * noise
    assert np.square(drawn).mean() <= 25 + np.square(noise - drawn).mean()


def test_measured_counts_are_told_with_their_error() -> None:
    told = about_answer(counts(*ONES, PAIR, total=4.0), read("a", fixed=("a",)))
    assert told == "made is a synthetic table; counts by a were measured, each is off by up to about 2 of 4 rows (95 %)"
    told = about_answer(counts(*ONES), read())
    assert told.startswith("made is a synthetic table; the number of rows is off by up to about ")


def test_bins_are_named() -> None:
    told = about_answer(counts(*ONES, PAIR), read("a", "b"))
    assert "counts by a and b in 2 parts were measured" in told and told.endswith("if values within a bin are spread as in this table")
    assert "counts by b in 4 bins were measured" in about_answer(counts(*ONES, PAIR), read("b"))


def test_columns_that_were_not_counted_together_may_err_by_any_amount() -> None:
    told = about_answer(counts(*ONES, PAIR), read("a", "c"))
    assert "a and c were not counted together: how they depend on each other follows from the model only" in told
    assert "a, b and c were not counted together (only a and b)" in about_answer(counts(*ONES, PAIR), read("a", "b", "c"))
    assert "c was not counted and follows from the model only" in about_answer(counts(ONES[0]), read("c"))
    assert about_answer(counts(), read("a", "c")) == "made is a synthetic table; how far its answers are off is not known"


def test_errors_of_other_aggregates_are_not_known() -> None:
    assert about_answer(counts(*ONES, PAIR), read("a", values=("b",))).endswith("how far aggregates of b are off is not known")
    told = about_answer(counts(*ONES, PAIR), read("c", values=("b",), means=("b",)))
    assert told.endswith("how b depends on c follows from the model only, so aggregates of b may be off by any amount")


def test_the_error_of_an_average_follows_from_that_of_counts() -> None:
    """Independent errors of counts move an average by as much as is said."""
    made = counts(marginal("b", values=[1, 1, 1, 1], variance=0.01))
    found = error_of_mean(made, "b", [])
    assert found is not None and found.rows == 4
    noisy = 1 + np.random.default_rng(3).normal(0, 0.1, (20_000, 4))
    averages = noisy @ [1.0, 11.0, 21.0, 31.0] / noisy.sum(axis=1)
    assert QUANTILE * averages.std() == pytest.approx(found.margin, rel=0.05)
    told = about_answer(made, read(values=("b",), means=("b",)))
    assert told.endswith("the average of b is off by up to about 1.2 (95 %), and by up to 9 more if values within a bin are not spread "
                         "as in this table")
    by_a = error_of_mean(counts(*ONES, PAIR), "b", ["a"])
    assert by_a is not None and (by_a.columns, by_a.rows) == (("a", "b in 2 parts"), 3)


def test_the_margin_of_an_average_over_more_rows_is_right_where_that_over_few_is_the_range() -> None:
    """It is in inverse proportion to the rows, so it is told for a number of rows at which it is no more than the range."""
    found = error_of_mean(counts(marginal("a", "b", values=[[1, 1, 0, 0], [0, 0, 1, 1]], variance=10_000)), "b", ["a"])
    assert found is not None and found.rows == 10 ** (len(str(found.rows)) - 1) * int(str(found.rows)[0]) > 4
    assert 20 < found.margin <= 40 and found.margin * found.rows > QUANTILE * 100 * (5**2 + 5**2) ** 0.5


def test_the_error_of_a_sum_follows_from_that_of_counts() -> None:
    made = counts(marginal("b", values=[1, 1, 1, 1], variance=0.01))
    found = error_of_sum(made, "b", [])
    assert found is not None and found.margin == pytest.approx(QUANTILE * 0.1 * (1 + 121 + 441 + 961) ** 0.5) and found.more == 4 * 9
    told = about_answer(made, read(values=("b",), sums=("b",)))
    assert told.endswith("the sum of b is off by up to about 8.3 (95 %), and by up to 36 more if values within a bin are not spread as "
                         "in this table")
    farther = error_of_sum(counts(marginal("b", values=[1, 1, 1, 2], variance=0.01)), "b", [])
    assert farther is not None and farther.margin == pytest.approx(found.margin + 31)
    told = about_answer(counts(*ONES, PAIR), read("a", fixed=("a",), values=("b",), sums=("b",)))
    assert "each sum of b by a is off by up to about" in told


def test_counts_of_earlier_statements_may_have_correlated_errors() -> None:
    both, one = marginal("a", "b", values=np.ones((2, 4)), variance=0.01), marginal("b", values=[1, 1, 1, 1], variance=0.01)
    own, known = (SyntheticTable(name="made", method="mst", price="1", total=4.0, columns=(A, B, C), coarser=(HALVES,), known=known,
                                 marginals=tuple(released(each, 1.0) for each in (one, both))) for known in (1, 2))
    mine, theirs = (error_of_sum(measured_counts(table), "b", []) for table in (own, known))
    assert mine is not None and mine.margin == pytest.approx(QUANTILE * 0.1 * (1 + 121 + 441 + 961) ** 0.5)
    assert theirs is not None and theirs.margin == pytest.approx(QUANTILE * 0.1 * (1 + 11 + 21 + 31))
    pair = error_of_sum(measured_counts(known), "b", ["a"])
    assert pair is not None and pair.margin == pytest.approx(21 + 31 + QUANTILE * 0.1 * (1 + 11 + 21 + 31))


NUMBERS = (0.0, 10.0, 25.0, 100.0)


def made_of(drawn: Array, measured: Array, variance: float) -> MeasuredCounts:
    """A table with as many rows of each group and number as are drawn."""
    rows = [(group, number) for group, own in zip("xyz", drawn, strict=True) for number, many in zip(NUMBERS, own, strict=True)
            for _ in range(int(many))]
    columns = (SyntheticColumn(name="g", type=Type.VARCHAR, values=tuple(group for group, _ in rows),
                               counted=CountedValues(listed=tuple("xyz"))),
               SyntheticColumn(name="v", type=Type.DOUBLE, values=tuple(number for _, number in rows),
                               counted=CountedValues(listed=NUMBERS)))
    return measured_counts(SyntheticTable(name="made", method="mst", price="1", total=float(len(rows)), columns=columns,
                                          marginals=(released(marginal("g", "v", values=measured, variance=variance), 1.0),)))


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("pull", [0.0, 0.4, 1.0, "elsewhere"])
def test_sums_and_averages_are_within_their_margins(pull: float | str, *, laplace: bool) -> None:
    """Of tables that are drawn from noisy counts, 95 % have sums and averages within the margins: of each group, of all rows, and
    of groups that a condition chooses."""
    truth = np.array([[300, 200, 100, 50], [500, 0, 400, 10], [60, 60, 60, 60]], dtype=float)
    random, times, missed = np.random.default_rng(7), 300, dict.fromkeys(("sum", "group", "chosen", "average", "of a group"), 0)
    means = np.array(NUMBERS)
    for _ in range(times):
        noise = random.laplace(0, 8, truth.shape) if laplace else random.normal(0, 8, truth.shape)
        wrong = [[40, -40, 0, 0], [0, 30, -30, 0], [0, 0, 0, 15]] if pull == "elsewhere" else np.zeros_like(truth)
        drawn = np.maximum(np.rint(truth + wrong + (0 if isinstance(pull, str) else pull) * noise), 0)
        made = made_of(drawn, truth + noise, 128 if laplace else 64)
        missed["sum"] += abs((drawn - truth).sum(axis=0) @ means) > margin_of(error_of_sum(made, "v", []))
        missed["group"] += abs((drawn - truth)[0] @ means) > margin_of(error_of_sum(made, "v", ["g"]))
        missed["chosen"] += abs((drawn - truth)[:2].sum(axis=0) @ means) > margin_of(error_of_sum(made, "v", ["g"], ["g"]))
        off = abs(average(drawn.sum(axis=0)) - average(truth.sum(axis=0)))
        missed["average"] += off > margin_of(error_of_mean(made, "v", []))
        by_group = error_of_mean(made, "v", ["g"])
        assert by_group is not None
        missed["of a group"] += abs(average(drawn[2]) - average(truth[2])) > by_group.margin * by_group.rows / drawn[2].sum()
    assert all(many <= 0.05 * times + 2.5 * (0.05 * 0.95 * times) ** 0.5 for many in missed.values()), missed


def margin_of(found: NumberError | None) -> float:
    assert found is not None
    return found.margin


def average(counts: Array) -> float:
    return float(counts @ np.array(NUMBERS) / counts.sum())


# -- statements


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    place = tmp_path_factory.mktemp("place") / "study"
    export(place)
    Ledger.create(place / "test.ledger", None).close()
    with dpsql.connect(policy=place / "dpsql.toml", budget="study", analyst="ada", ledger=place / "test.ledger") as made:
        made.synthesize("SELECT health, female, income FROM people", name="made", epsilon=1, method="independent")
        made.synthesize("SELECT health, female FROM people", name="small", epsilon=1, rows=1000)
        yield made


SURE = "VALIDATE SELECT ... AGAINST made WITHIN 5 PERCENT decides, for a price, whether an answer is close to the private one"


def notes(connection: dpsql.Connection, text: str) -> tuple[str, ...]:
    answer = connection.execute(text).answer
    assert answer is not None
    return answer.notes


@pytest.mark.parametrize(("text", "told"), [
    ("SELECT COUNT(*) FROM made", "the number of rows is off by"),
    ("SELECT health, COUNT(*) FROM made GROUP BY health", "counts by health were measured"),
    ("SELECT COUNT(*) FROM made WHERE health = 'good'", "counts by health were measured"),
    ("WITH m AS (SELECT female AS f FROM made) SELECT f, COUNT(*) FROM m GROUP BY f", "counts by female were measured"),
    ("SELECT COUNT(*) FROM made WHERE income > 5000", "counts by income in 10 bins were measured"),
    ("SELECT AVG(income) FROM made", "made is a synthetic table; the average of income is off by up to about"),
    ("SELECT AVG(income), COUNT(*) FROM made", "rows (95 %); the average of income is off by up to about"),
    ("SELECT AVG(income) FROM made WHERE income > 5000", "counts by income in 10 bins were measured"),
    ("SELECT AVG(income + 1) FROM made", "how far aggregates of income are off is not known"),
    ("SELECT SUM(income) FROM made", "the sum of income is off by up to about"),
    ("SELECT SUM(income) FROM made", "more if values within a bin are not spread as in this table"),
    ("SELECT SUM(income), AVG(income) FROM made", "in this table; the average of income is off by up to about"),
    ("SELECT SUM(income * 2) FROM made", "how far aggregates of income are off is not known"),
    ("SELECT AVG(income), MAX(income) FROM made", "how far other aggregates of income are off is not known"),
    ("SELECT health, COUNT(*) FROM made GROUP BY ROLLUP (health)", "counts by health were measured"),
    ("SELECT health, SUM(income) FROM made GROUP BY health", "how income depends on health follows from the model only"),
    ("SELECT SUM(income) FILTER (WHERE female) FROM made", "how income depends on female follows from the model only"),
    ("SELECT health, AVG(income) FROM made GROUP BY health", "how income depends on health follows from the model only"),
    ("SELECT health, COUNT(*) FROM made WHERE female GROUP BY health", "health and female were not counted together"),
    ("SELECT AVG(n) FROM (SELECT health, COUNT(*) AS n FROM made GROUP BY health)", "counts by health were measured"),
    ("SELECT health FROM made UNION ALL SELECT health FROM made", "counts by health were measured")])
def test_an_answer_says_how_far_it_may_be_off(connection: dpsql.Connection, text: str, told: str) -> None:
    first, last = notes(connection, text)
    assert first.startswith("made is a synthetic table; ") and told in first and last == SURE


def test_every_table_is_named_once(connection: dpsql.Connection) -> None:
    told = notes(connection, "SELECT COUNT(*) FROM made AS a JOIN small AS b ON a.health = b.health JOIN small AS c ON a.health = c.health")
    assert [note.split(";")[0] for note in told] == [
        "made is a synthetic table", "small is a synthetic table",
        "how rows of several synthetic tables belong together follows from their models only",
        "VALIDATE decides, for a price, whether an answer is close to the private one"]
    assert "of 1,000 rows (95 %)" in told[1] and "the private rows number about" in told[1]


def test_rows_belong_to_nobody(connection: dpsql.Connection) -> None:
    assert notes(connection, "SELECT * FROM made LIMIT 3") == ("made is a synthetic table: its rows belong to no real person",)


def test_only_answers_from_the_table_have_the_note(connection: dpsql.Connection) -> None:
    assert not any("synthetic" in note for note in notes(connection, "SELECT COUNT(*) FROM people WHERE health IN (SELECT health FROM made)"))
    assert not any("synthetic" in note for note in notes(connection, "SELECT COUNT(*) FROM plans"))
    mixed = notes(connection, "SELECT health, COUNT(*), (SELECT COUNT(*) FROM people) FROM made GROUP BY health")
    assert any("counts by health were measured" in note for note in mixed)


def test_explain_has_the_note(connection: dpsql.Connection) -> None:
    assert "note    made is a synthetic table; the number of rows" in str(connection.explain("SELECT COUNT(*) FROM made"))


def test_what_is_said_holds(connection: dpsql.Connection, tmp_path: Path) -> None:
    """The counts of the made table differ from the private ones by less than twice what the note says."""
    import duckdb

    export(tmp_path / "again")
    private = dict(duckdb.sql(f"SELECT health, COUNT(*) FROM '{tmp_path / 'again' / 'people.parquet'}' GROUP BY health").fetchall())
    text = "SELECT health, COUNT(*) FROM made GROUP BY health"
    margin = float(notes(connection, text)[0].split("up to about ")[1].split(" of ")[0])
    made = dict(connection.execute(text).fetchall())
    assert 0 < margin < 300 and max(abs(private[health] - made[health]) for health in private) < 2 * margin


def test_what_is_said_of_a_sum_holds(connection: dpsql.Connection, tmp_path: Path) -> None:
    import duckdb

    export(tmp_path / "again")
    private, = duckdb.sql(f"SELECT SUM(LEAST(income, 25000)) FROM '{tmp_path / 'again' / 'people.parquet'}'").fetchall()
    told = notes(connection, "SELECT SUM(income) FROM made")[0].split("up to ")
    margin, more = (float(part.removeprefix("about ").split(" ")[0].replace(",", "")) for part in told[1:])
    made, = connection.execute("SELECT SUM(income) FROM made").fetchall()
    assert 0 < margin < 0.1 * private[0] and abs(made[0] - private[0]) < margin + more
