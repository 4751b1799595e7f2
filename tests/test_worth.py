"""What numbers are worth: intervals that tell nothing say what would help, ranks that are sure are told, groups come as listed."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.policies import policy_of
from support.sessions import session_of

from dpsql.answers.answer import Answer, of_json
from dpsql.answers.display import as_dict, as_html, legend
from dpsql.answers.worth import Possible, nothing_told, sure_ranks, tells_nothing
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.price import Price
from dpsql.engine.answering import answer
from dpsql.estimates import Estimate, NoiseTerm, released
from dpsql.questions.identity import digest

COLUMNS = """
health = { values = ["good", "fair", "poor"], nullable = false }
sex = { values = ["m", "f"], nullable = false }
income = { bounds = [0, 100], nullable = false }
"""
POLICY = policy_of("people", COLUMNS, price="epsilon = 1000\ndelta = 1e-6")
ROWS = """CREATE TABLE people AS SELECT i AS id, ['good', 'good', 'good', 'fair', 'fair', 'poor'][1 + i % 6] AS health,
    ['f', 'm'][1 + i % 2] AS sex, CAST(i % 50 AS DOUBLE) AS income FROM range(240) t(i)"""


def asked(text: str, folder: Path, policy: str = POLICY, price: str = "epsilon = 1") -> Answer:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(ROWS)
    session = session_of(folder, reader=DuckReader(connection, "v"), policy=policy)
    found = answer(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price})", 1), session)
    assert isinstance(found, Answer)
    return found


def estimate(values: list[float], scale: float = 1.0) -> Estimate:
    return released((0, 0), np.array(values), NoiseTerm(kind="laplace", scale=scale))


# -- intervals that tell nothing


@pytest.mark.parametrize("aggregate", ["MEDIAN(income)", "MAX(income)", "QUANTILE_CONT(income, 0.9)"])
def test_an_interval_that_is_all_that_is_possible_says_so(aggregate: str, tmp_path: Path) -> None:
    draws = (asked(f"SELECT {aggregate} AS x FROM people WHERE health = 'poor'", tmp_path / str(at), price="epsilon = 0.001") for at in range(9))
    found = next((one for one in draws if one.intervals[0][0] == one.columns[0].range), None)  # nine of ten are
    assert found is not None
    assert any(note.startswith("x tells nothing: its interval is all that is possible") for note in found.notes)
    assert "any of: all that is possible" in legend(found) and "any of 0" in as_html(found)
    low, high = found.columns[0].range or (1, 0)
    assert as_dict(found)["columns"][0]["range"] == [low, high] and tells_nothing(found.intervals[0][0], (low, high))
    assert of_json(found.as_json()).columns == found.columns


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(income)", "AVG(income)"])
def test_other_intervals_are_told_as_they_are(aggregate: str, tmp_path: Path) -> None:
    found = asked(f"SELECT health, {aggregate} AS x FROM people GROUP BY health", tmp_path, price="epsilon = 5")
    assert not any("tells nothing" in note for note in found.notes) and "any of" not in legend(found)


def test_answers_that_were_stored_before_have_no_ranges(tmp_path: Path) -> None:
    found = asked("SELECT COUNT(*) FROM people", tmp_path)
    older = found.as_json().replace(', false, [0.0, Infinity]]', ", false]").replace(",false,[0.0,Infinity]]", ",false]")
    assert of_json(older).columns[0].range is None and of_json(found.as_json()).columns[0].range == (0.0, float("inf"))


@pytest.mark.parametrize(("price", "advice"), [
    (Price(epsilon=Fraction(1, 10)), "about epsilon = 0.8, or groups with 8 times as many rows"),
    (Price(rho=Fraction(1, 100)), "about rho = 0.64, or groups with 8 times as many rows"),
    (None, "more rows in each group, or a larger price"),
])
def test_the_price_that_would_help_follows_from_the_noise(price: Price | None, advice: str) -> None:
    """A standard error of 100 and a range of 100: twice that error is eight times a quarter of the range."""
    number = Possible(name="x", low=0.0, high=100.0, noise=estimate([50.0, 50.0], 100 / 2**0.5))
    note, = nothing_told([number], range(2), 0.95, price)
    assert note.startswith("x tells nothing in 2 of 2 rows") and advice in note


def test_a_larger_price_does_not_help_against_a_limit() -> None:
    number = Possible(name="x", low=0.0, high=100.0, noise=estimate([50.0]).beyond(float("inf"), float("inf")))
    note, = nothing_told([number], range(1), 0.95, Price(epsilon=Fraction(1)))
    assert "a larger price does not help" in note


# -- ranks


def test_ranks_are_sure_where_intervals_are_apart() -> None:
    assert sure_ranks(estimate([90, 50, 20, 18, 12]), range(5), 0.95) == "of the ranks, 1 to 2 are sure with 95 % confidence"
    assert sure_ranks(estimate([90, 50, 45, 24, 10, 9]), range(6), 0.95) == "of the ranks, 1 and 4 are sure with 95 % confidence"
    assert sure_ranks(estimate([12, 18, 20, 50, 90]), range(5), 0.95) == "of the ranks, 4 to 5 are sure with 95 % confidence"
    assert sure_ranks(estimate([90, 50, 10]), range(3), 0.95) == "all ranks are sure with 95 % confidence"
    assert "no rank is sure" in (sure_ranks(estimate([3, 2, 1]), range(3), 0.95) or "")
    assert sure_ranks(estimate([90]), range(1), 0.95) is None and sure_ranks(estimate([90, float("nan")]), range(2), 0.95) is None


@pytest.mark.parametrize("gap", [3.0, 8.0, 15.0])
def test_ranks_that_are_sure_are_true_as_often_as_told(gap: float) -> None:
    """Of many rankings by noisy numbers, at most one in twenty says that a rank is sure that is another."""
    draw, truth, wrong = np.random.default_rng(int(gap)), gap * np.arange(12)[::-1], 0
    for _ in range(400):
        noisy = truth + draw.laplace(scale=2.0, size=12)
        order = np.argsort(-noisy).tolist()
        told = sure_ranks(estimate(noisy.tolist(), 2.0), order, 0.95) or ""
        sure = range(1, 13) if told.startswith("all") else _ranks(told)
        wrong += any(order[rank - 1] != rank - 1 for rank in sure)
    assert wrong <= 0.05 * 400 + 3 * (0.05 * 0.95 * 400) ** 0.5


def _ranks(told: str) -> list[int]:
    if not told.startswith("of the ranks, "):
        return []
    parts = told.removeprefix("of the ranks, ").split(" is sure")[0].split(" are sure")[0].replace(" and ", ", ").split(", ")
    ends = [[int(end) for end in part.split(" to ")] for part in parts]
    return list(itertools.chain.from_iterable(range(run[0], run[-1] + 1) for run in ends))


def test_an_answer_in_the_order_of_its_numbers_tells_the_ranks(tmp_path: Path) -> None:
    text = "SELECT health, COUNT(*) AS n FROM people GROUP BY health ORDER BY n DESC LIMIT 2"
    assert "all ranks are sure with 95 % confidence" in asked(text, tmp_path, price="epsilon = 5").notes
    assert not any("rank" in note for note in asked(text.replace("n DESC", "health"), tmp_path / "other").notes)
    having = text.replace("ORDER", "HAVING COUNT(*) > 60 ORDER")
    assert "all ranks are sure with 95 % confidence, among the groups that are shown" in asked(having, tmp_path / "having", price="epsilon = 5").notes


# -- groups in the order of the policy


@pytest.mark.parametrize("more", ["", ", strategy = 'identity'"])
def test_groups_come_in_the_order_in_which_the_policy_lists_their_values(more: str, tmp_path: Path) -> None:
    def keys(text: str, name: str) -> list[tuple[object, ...]]:
        return [row[:-1] for row in asked(text, tmp_path / name, price=f"epsilon = 1{more}").rows]

    health, sex = ("good", "fair", "poor"), ("m", "f")
    assert keys("SELECT health, COUNT(*) FROM people GROUP BY health", "a") == [(one,) for one in health]
    assert keys("SELECT sex, health, COUNT(*) FROM people GROUP BY sex, health", "b") == [*itertools.product(sex, health)]
    assert keys("SELECT health, COUNT(*) FROM people WHERE health <> 'fair' GROUP BY health", "c") == [("good",), ("poor",)]
    assert keys("SELECT health, COUNT(*) FROM people GROUP BY health ORDER BY health", "d") == [("fair",), ("good",), ("poor",)]


def test_the_order_of_values_does_not_make_another_statement() -> None:
    from dpsql.trusted.declarations.tables import Domain

    assert digest(Domain(("a", "b"), listed=("b", "a"))) == digest(Domain(("a", "b"))) != digest(Domain(("a", "b"), closed=True))


# -- columns without other values


def test_a_column_without_other_values_needs_no_cells_for_them(tmp_path: Path) -> None:
    """The statement, twice: what is undeclared has a cell of each column, and no note."""
    text = "SELECT health, sex, COUNT(*) FROM people GROUP BY ROLLUP (health, sex)"
    closed = POLICY.replace('"poor"]', '"poor"], others = false').replace('"f"]', '"f"], others = false')
    usual, sharp = asked(text, tmp_path / "usual"), asked(text, tmp_path / "closed", closed)
    assert "rows with undeclared values of health or sex are not in any group" in usual.notes
    assert not any("undeclared" in note for note in sharp.notes)
    assert any("over 6 cells" in note for note in sharp.notes) and not any("over 6 cells" in note for note in usual.notes)


def test_a_value_that_the_policy_excludes_is_in_no_cell(tmp_path: Path) -> None:
    """Nothing rests on the owner's word but the answer: 120 of 240 rows have a value that is said not to occur."""
    policy = POLICY.replace('values = ["good", "fair", "poor"]', 'values = ["fair", "poor"], others = false')
    found = asked("SELECT health, COUNT(*) FROM people GROUP BY ROLLUP (health)", tmp_path, policy, price="epsilon = 900")
    assert sorted(row[1] for row in found.rows) == [40, 80, 120]  # type: ignore[type-var]


def test_ranks_are_judged_over_rows_that_are_not_shown(tmp_path: Path) -> None:
    """Of a workload, too, whose LIMIT is a part of the statement."""
    text = "SELECT health, COUNT(*) AS n FROM people WHERE id < 12 GROUP BY health ORDER BY n DESC LIMIT 1"
    for at, more in enumerate(("", ", strategy = 'identity'")):
        found = asked(text, tmp_path / str(at), price=f"epsilon = 0.1{more}")
        assert len(found.rows) == 1 and any("no rank is sure" in note for note in found.notes)


@pytest.mark.parametrize(("low", "high"), [(5e-324, 5e-324), (0.0, 5e-324), (-1e308, 1e308), (1e99, 1e99), (0.0, 0.0), (-np.inf, np.inf)])
@pytest.mark.parametrize("price", [Price(epsilon=Fraction(1, 10**9)), Price(rho=Fraction(10**9)), None])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_no_number_is_too_extreme_for_a_note(low: float, high: float, price: Price | None, scale: float) -> None:
    """What fails here would fail after the charge."""
    for values in ([low, high], [float("nan"), low], [float("inf"), low]):
        number = Possible(name="x", low=low, high=high, noise=estimate(values, scale))
        with np.errstate(all="ignore"):
            list(nothing_told([number], range(2), 0.95, price))
            sure_ranks(number.noise, range(2), 0.95)


def test_public_groups_that_the_policy_does_not_list_come_last(tmp_path: Path) -> None:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(ROWS)
    connection.execute("CREATE TABLE grades AS SELECT unnest(['good', 'fair', 'other', 'good', NULL]) AS grade")
    policy = POLICY.replace("[budgets", '[tables.grades]\npublic = true\n[tables.grades.columns]\ngrade = { values = ["good", "fair"] }\n[budgets', 1)
    found = answer("SELECT grade, COUNT(*) FROM grades GROUP BY grade", session_of(tmp_path, reader=DuckReader(connection, "v"), policy=policy))
    assert isinstance(found, Answer) and dict(found.rows) == {"good": 2, "fair": 1, "other": 1, None: 1}
    assert [row[0] for row in found.rows][:2] == ["good", "fair"]
