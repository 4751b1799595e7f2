"""Attacks on synthetic tables and online models: names that come to stand for other rows, statements at once, forged series of
comparisons, adaptive questions whose answers are computed exactly on neighbours, and everything that is seen beside noisy numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pytest
from laws.test_attacks import connected, database
from support.coded_tables import Coded

import dpsql
from dpsql.audit.exact import Exact
from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.engine.decide import decide
from dpsql.errors import Error, Incident, InternalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.models.table_domain import TableDomain
from dpsql.sql.text.parse import parse
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.online_comparisons import ComparisonResult, Comparisons, Opening
from dpsql.trusted.noise.integer import DiscreteLaplace

ADA = Account(budget="main", analyst="ada")
WIDE = {None: limit(price(epsilon=1000))}


# -- names

@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of 3,000 entities with a row each, of three values."""
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i AS id, i % 3 AS k FROM range(3000) AS r(i)")
    (tmp_path / "x.toml").write_text(
        'version = 1\ndatabase = "x.duckdb"\n[entities.e]\ntable = "t"\nkey = "id"\n[tables.t]\nkey = "id"\n[tables.t.columns]\nid = {}\n'
        'k = { values = [0, 1, 2] }\n[budgets.b]\nentity = "e"\nepsilon = 100\n', encoding="utf-8")
    ReportingLedger.create(tmp_path / "x.ledger", None).close()
    return tmp_path


def opened(folder: Path) -> dpsql.Connection:
    return dpsql.connect(policy=folder / "x.toml", analyst="ada")


MAKE = "CREATE SYNTHETIC TABLE made AS SELECT k FROM t OPTIONS (epsilon = 0.1, rows = {})"
JOIN = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t JOIN made ON t.k = made.k"


@pytest.mark.parametrize("dropped", [False, True])
def test_bounds_follow_the_rows_that_a_name_stands_for(folder: Path, dropped: bool) -> None:
    """Where public rows of a name are replaced, what was counted in the former ones bounds nothing any more: joined with one row an
    entity has one row, joined with ten thousand it has thousands."""
    with opened(folder) as one, opened(folder) as other:
        later = decide(parse(MAKE.format(10_000)), other.session)
        one.execute(MAKE.format(1))
        first = one.execute(JOIN)
        assert first.answer is not None and float(first.errors[0][0]) < 3
        if dropped:
            other.execute("DROP SYNTHETIC TABLE made")
        with patch("dpsql.engine.synthesizing.check_name"):  # as if nothing held names together
            later.answer()
        rows = dict(one.execute("SELECT k, COUNT(*) FROM made GROUP BY k").fetchall())
        assert sum(rows.values()) == 10_000
        most = max(rows.values())
        for text in (JOIN, JOIN.replace("COUNT(*)", "COUNT(*) AS again")):
            assert f"{most} rows" in str(one.explain(text))
            found = one.execute(text)
            assert float(found.errors[0][0]) > most


def test_a_name_is_one_however_it_is_spelt(folder: Path) -> None:
    """Also where a column has the spelling that the table had before."""
    with opened(folder) as connection:
        connection.execute(MAKE.format(10).replace("SELECT k", "SELECT k AS made"))
        connection.execute("SELECT made, COUNT(*) FROM made GROUP BY made")
        connection.execute("DROP SYNTHETIC TABLE Made")
        connection.execute(MAKE.format(20).replace("TABLE made", "TABLE MADE").replace("SELECT k", "SELECT k AS made"))
        for text in ("SELECT COUNT(made) FROM made", "SELECT COUNT(made) FROM MADE"):
            assert connection.execute(text).fetchall()[0][0] > 10
        found = connection.execute(JOIN.replace("made.k", "made.made")).fetchall()
        assert abs(found[0][0] - 20_000) < 3000


def test_what_was_answered_of_a_dropped_table_is_no_answer_of_the_next(folder: Path) -> None:
    """Of the same name, and with the same columns and values: only the rows are others."""
    make = MAKE.replace("0.1", "2")
    with opened(folder) as connection:
        for rows in (300, 1000, 300):
            connection.execute(make.format(rows))
            found = connection.execute(JOIN.replace("= 1)", "= 2)")).fetchall()[0][0]
            assert abs(found - 1000 * rows) < 100 * rows
            connection.execute("DROP SYNTHETIC TABLE made")


@pytest.mark.parametrize("online", [False, True])
def test_a_name_is_given_once_by_statements_at_once(folder: Path, online: bool) -> None:
    """Both were planned while the name was free; one is charged, and the other is refused for nothing."""
    text = "CREATE ONLINE MODEL MADE AS SELECT k FROM t OPTIONS (epsilon = 0.2)" if online else MAKE.format(20)
    with opened(folder) as one, opened(folder) as other:
        later = decide(parse(text), other.session)
        table = one.execute(MAKE.format(10)).synthetic
        left = str(one.budget())
        with pytest.raises(dpsql.Error, match="already") as told:
            later.answer()
        assert told.value.span is not None and str(one.budget()) == left
        assert one.execute(MAKE.format(10)).synthetic == table
        assert other.execute("SELECT COUNT(*) FROM made").fetchall() == [(10,)]


def test_odd_names_are_names_of_nothing_else(folder: Path) -> None:
    """Names of the engine's own tables, of what printed statements use, and letters that look alike."""
    with opened(folder) as connection:
        for rows, name in enumerate(["hidden", "k", "t0", "#0_0", "n", "owner", 'a"b', "ｔ", "main", "temp.main.t", "released rows", "sqlite_master",
                                     "duckdb_columns", "information_schema", "the cell", "the rows", "T ", "'; --", "%s"], 10):
            quoted = '"' + name.replace('"', '""') + '"'
            connection.execute(f"CREATE SYNTHETIC TABLE {quoted} AS SELECT k FROM t OPTIONS (epsilon = 0.1, rows = {rows})")
            assert connection.execute(f"SELECT COUNT(*) FROM {quoted}").fetchall() == [(rows,)]
            found = connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t WHERE k IN (SELECT k FROM {quoted})")
            assert abs(found.fetchall()[0][0] - 3000) < 100
        for name in ("t", "T", "'t'"):
            with pytest.raises(dpsql.Error, match=r"already|is expected"):
                connection.execute(f"CREATE SYNTHETIC TABLE {name} AS SELECT k FROM t OPTIONS (epsilon = 0.1)")


# -- the kernel, asked by an engine that is not to be trusted

class Asked:
    """A kernel with a ledger over a table of one column, and a model that is open in it."""

    def __init__(self, path: Path, counts: Sequence[int], noise: Any = None, rows: int = 1, **given: Any) -> None:
        ReportingLedger.create(path).close()
        places = np.repeat(np.arange(len(counts)), counts).reshape(-1, 1)
        coded = Coded(TableDomain(("a",), (len(counts),)), places, rows=rows)
        self.view, self.size, self.ledger = coded.table.view, len(counts), ReportingLedger(path)
        self.kernel = Kernel(coded.kernel._reader, self.ledger, noise)
        self.opening = Opening(view=self.view, **{"updates": 2, "scale_limit": 2.0, "scale_query": 3.0, "noise": DiscreteLaplace(scale=2.0), **given})

        def script() -> Any:
            yield self.opening
            return "opened"

        self.kernel.run(script(), cost=pure(Fraction(100)), account=ADA, limits=WIDE, digest="model", sql="CREATE", encode=str)

    def ask(self, question: Question) -> ComparisonResult | None:
        return self.kernel.compare(Comparisons(
            view=self.view, axes=(Axis(column="c0", values=tuple(range(self.size))),), groups=question.groups, expected=question.expected,
            limit=question.limit), model="model", account=ADA, sql="SELECT")


def test_no_statement_resets_what_a_model_has_used(tmp_path: Path) -> None:
    asked = Asked(tmp_path / "x.ledger", (3, 4))
    with closing(asked.ledger):
        far = Question(groups=(0, 1), expected=(10**6, 10**6), limit=0)
        assert asked.ask(far) is not None and asked.ask(far) is not None and asked.ask(far) is None

        def script(*requests: Any) -> Any:
            yield from requests
            return "done"

        series = f"comparisons of {asked.ledger.answered(ADA, 'model', 'v1')[0]}"  # type: ignore[index]
        before = len(asked.ledger.entries("main"))
        for requests in ((), (asked.opening,)):
            with pytest.raises(ValueError, match="comparisons"):
                asked.kernel.run(script(*requests), cost=pure(Fraction(100)), account=ADA, limits=WIDE, digest=series, sql="SELECT", encode=str)
        with pytest.raises(ValueError, match="no such model was opened"):
            asked.kernel.compare(Comparisons(view=asked.view, axes=(), groups=(0,), expected=(3,), limit=0), model=series, account=ADA, sql="S")
        assert len(asked.ledger.entries("main")) == before
        assert asked.ask(far) is None


# -- adaptive questions, exactly

class Question:
    """Counts of groups of the values of one column, one after the other, and what is expected of them."""

    def __init__(self, groups: Sequence[int], expected: Sequence[int], limit: int) -> None:
        self.groups, self.expected, self.limit = tuple(groups), tuple(expected), limit

    def counts(self, cells: Sequence[int]) -> list[int]:
        return [sum(count for count, group in zip(cells, self.groups, strict=True) if group == at) for at in range(len(self.expected))]


Seen = tuple[tuple[int, int | None], ...]  # for each question how many counts were near, and the one that was measured
Strategy = Callable[[Seen], Question | None]


def strategy_of(seed: int, cells: int, questions: int, limits: Sequence[int] = (-2, 0, 0, 1, 2)) -> Strategy:
    """Questions that depend on all that was seen, with expectations that hit or nearly hit a count, two of them in one question, and
    limits below zero too."""
    def next_question(seen: Seen) -> Question | None:
        if len(seen) == questions:
            return None
        draw = random.Random(f"{seed} {seen}")
        groups = [draw.choice([-1, 0, 0, 1]) for _ in range(cells)]
        return Question(groups, [draw.choice([0, 1, 2, 3, 5]) for _ in range(2)], draw.choice(limits))
    return next_question


LONG, MEASURED = 90, 12  # of noise that is added up; of a measured count, which is told no farther off than this


def one_sided(at: int, scale: float) -> float:
    """The chance of this noise, which is never negative."""
    return math.exp(-at / scale) * (1 - math.exp(-1 / scale)) if at >= 0 else 0.0


def transcripts(cells: Sequence[int], strategy: Strategy, opening: Opening) -> dict[Seen, float]:
    """The chance of everything that a strategy can see, by the definition: the noise of each side is drawn when a run begins, and
    runs end with an update. Counts are told as MEASURED at most above or below the exact ones, which only merges outcomes."""
    found: dict[Seen, float] = {}
    sides = np.exp(-np.arange(LONG) / opening.scale_limit) * (1 - math.exp(-1 / opening.scale_limit))
    fresh = np.outer(sides, sides)  # the chance of each pair of shared noise, together with all that was seen since it was drawn
    shared = np.arange(LONG)

    def near(gap: int) -> np.ndarray[Any, Any]:
        return 1 - np.exp(-np.maximum(gap + shared, 0) / opening.scale_query)  # own noise is below gap + shared

    def follow(seen: Seen, weights: np.ndarray[Any, Any], used: int) -> None:
        question = strategy(seen)
        if question is None or used == opening.updates:
            found[seen] = found.get(seen, 0.0) + float(weights.sum())
            return
        for at, (count, expected) in enumerate(zip(question.counts(cells), question.expected, strict=True)):
            both = np.outer(near(expected - count + question.limit), near(count - expected + question.limit))
            yes, weights = float((weights * (1 - both)).sum()), weights * both
            for told in range(count - MEASURED, count + MEASURED + 1):
                follow((*seen, (at, told)), fresh * (yes * laplace(told - count, opening.noise.scale)), used + 1)  # type: ignore[union-attr]
        follow((*seen, (len(question.expected), None)), weights, used)

    follow((), fresh, 0)
    return found


def laplace(at: int, scale: float) -> float:
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** abs(at)


@pytest.mark.parametrize(("moved", "seed"), [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5)])
def test_adaptive_questions_learn_no_more_than_was_charged(moved: int, seed: int) -> None:
    """All that a strategy of three questions and two updates may see, on a table and on one with an entity more. What was measured is
    cut off far from the truth, so those outcomes are compared that both can show."""
    draw = random.Random(seed)
    opening = Opening(view=Coded(TableDomain(("a",), (2,)), np.zeros((1, 1), dtype=np.int64)).table.view, updates=2, scale_limit=1.5,
                      scale_query=2.5, noise=DiscreteLaplace(scale=3.0))
    epsilon = 2 * moved * (1 / 1.5 + 1 / 2.5 + 1 / 3.0)
    for _ in range(2):
        cells = [draw.randint(0, 3) for _ in range(3)]
        more = list(cells)
        for _ in range(moved):
            more[draw.randrange(3)] += 1
        strategy = strategy_of(draw.randrange(10**6), 3, 3)
        one, two = (transcripts(each, strategy, opening) for each in (cells, more))
        both = one.keys() & two.keys()
        assert len(both) > 100 and sum(one.values()) > 0.9
        worst = max(abs(math.log(one[seen] / two[seen])) for seen in both)
        assert 0.2 * epsilon < worst <= epsilon * (1 + 1e-9)


class Drawn(Exact):
    """Gives numbers that follow from a seed, and keeps them."""

    def __init__(self, seed: int) -> None:
        self.draw, self.kept = random.Random(seed), list[int]()

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        found = [self.draw.choice([-1, 0, 0, 1, 2, 3, 4]) for _ in values]
        self.kept += found
        return [value + number for value, number in zip(values, found, strict=True)]


def test_the_kernel_does_what_was_computed(tmp_path: Path) -> None:
    """Strategies against a kernel whose noise is known, beside the definition fed with the same noise: also over several kernels in
    turn, each of which knows nothing but the ledger."""
    updates = set[int]()
    for seed in range(20):
        source = Drawn(seed)
        cells = [random.Random(seed).randint(0, 3) for _ in range(3)]
        asked = Asked(tmp_path / f"{seed}.ledger", cells, source)
        with closing(asked.ledger):
            strategy, seen = strategy_of(seed, 3, 6, (-1, 2, 4, 6)), Seen()
            while (question := strategy(seen)) is not None:
                asked.kernel = Kernel(asked.kernel._reader, ReportingLedger(asked.ledger.path), source)
                result = asked.ask(question)
                asked.kernel._ledger.close()
                if result is None:
                    break
                seen = (*seen, (result.near, result.count))
            assert seen == definition(cells, strategy, iter(source.kept), asked.opening.updates)
        updates.add(sum(count is not None for _, count in seen))
    assert updates == {1, 2}, "both runs, and runs that do not end"


def definition(cells: Sequence[int], strategy: Strategy, noise: Iterator[int], updates: int) -> Seen:
    """What is seen with this noise, in the order in which it is drawn."""
    def positive() -> int:
        return next(number for number in noise if number >= 0)

    seen: Seen = ()
    for _ in range(updates):
        sides = None
        while (question := strategy(seen)) is not None:
            sides = sides or (positive(), positive())
            for at, (count, expected) in enumerate(zip(question.counts(cells), question.expected, strict=True)):
                gaps = (expected - count + question.limit + sides[0], count - expected + question.limit + sides[1])
                if any(gap <= positive() for gap in gaps):
                    seen = (*seen, (at, count + next(noise)))
                    break
            else:
                seen = (*seen, (len(question.expected), None))
                continue
            break
    return seen


# -- everything that is seen beside noisy numbers

ROWS = ["SELECT kind, age FROM people", "SELECT age, pay, born, seen > TIMESTAMP '2000-01-01' AS late FROM people", "SELECT code, n, cost FROM visits",
        "SELECT v.n, c.word IS NULL AS w FROM visits v LEFT JOIN codes c ON v.code IS NOT DISTINCT FROM c.code",
        "SELECT id % 2 = 0 AS e, COUNT(*) AS k, SUM(n) AS s, MAX(cost) AS c FROM visits GROUP BY id",
        "SELECT CASE WHEN lower(trim(name)) = 'victim' THEN 1 ELSE 0 END AS v, kind FROM people",
        "SELECT COUNT(*) OVER (PARTITION BY id) > 3 AS many, n FROM visits", "SELECT n FROM visits WHERE day > DATE '2020-01-01' OR n > 100",
        "SELECT x.n, y.n AS m FROM visits x JOIN visits y ON x.id = y.id AND x.day = y.day", "SELECT name FROM people", "SELECT day FROM visits"]
AWAY = {"person": {"everybody": (), "7": ("person 7",), "nearly all": tuple(f"person {number}" for number in (2, 3, 7, 8, 9))},
        "house": {"everybody": (), "11": ("house 11",)}}


def seen_of(connection: dpsql.Connection, text: str) -> Any:
    """What is seen of a statement but what noise decides."""
    try:
        cursor = connection.execute(text)
    except Error as fault:
        return type(fault), str(fault)
    if cursor.synthetic is not None:
        fixed = [(each.columns, each.cells, each.error) for each in cursor.synthetic.marginals] if "independent" in text else []
        return fixed, [(column.name, column.type) for column in cursor.synthetic.columns], cursor.synthetic.notes
    if cursor.model is not None:
        return cursor.description, cursor.model.limit, [(column.name, column.values) for column in cursor.model.columns]
    return str(cursor.explanation) if " CREATE " in text else cursor.description


@pytest.mark.slow
@pytest.mark.parametrize("budget", AWAY)
def test_nothing_but_noisy_numbers_tells_who_is_there(budget: str, tmp_path: Path) -> None:
    def everything(folder: Path) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        with connected(folder, budget) as connection:
            for i, rows in enumerate(ROWS):
                texts = [f"CREATE SYNTHETIC TABLE s{i}{method[0]} AS {rows} OPTIONS (epsilon = 0.5, bins = 4, method = '{method}')"
                         for method in ("independent", "aim")[: 2 if i % 3 == 0 else 1]]
                texts += [f"CREATE ONLINE MODEL m{i} AS {rows} OPTIONS (epsilon = 0.5, updates = 1, bins = 4)"]
                asked = [f"SELECT COUNT(*) FROM {name}" for name in (f"s{i}i", *[f"m{i}"] * 2)]
                found += [(text, seen_of(connection, text)) for text in (f"EXPLAIN PRIVACY {texts[-1]}", *texts, *asked, "SHOW TABLES")]
            found.append(("spent", connection.session.ledger.spent(budget)))
        return found

    here, *neighbours = (everything(database(tmp_path / name.replace(" ", "_"), gone)) for name, gone in AWAY[budget].items())
    for there in neighbours:
        assert not [(one, two) for one, two in zip(here, there, strict=True) if one != two]
    faults = [seen[0] for _, seen in here if isinstance(seen, tuple) and isinstance(seen[0], type)]
    assert len(faults) < len(here) / 2 and not any(issubclass(fault, Incident | InternalError) for fault in faults)
