"""DAWA and PrivTree through the whole engine: what is asked, what is paid, what is said, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.audits import Pair, person
from support.sessions import session_of

from dpsql.audit.epsilon import lower_bound
from dpsql.audit.exact import Exact
from dpsql.batch import dawa, privtree
from dpsql.batch.measured import widened
from dpsql.dbapi import Connection
from dpsql.engine.session import Session
from dpsql.engine.together import batched
from dpsql.errors import OptionError
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Option
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.matrices.matrices import Written
from dpsql.trusted.measurements.boxes import Leaves
from dpsql.trusted.measurements.buckets import Buckets
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total, words

AGES = ["SELECT age, COUNT(*) FROM people GROUP BY age", "SELECT COUNT(*) FROM people WHERE age BETWEEN 18 AND 64"]
PLACES = ["SELECT COUNT(*) FROM people WHERE age >= 20 AND income < 60000",
          "SELECT COUNT(*) FROM people WHERE age BETWEEN 30 AND 59 AND income BETWEEN 10000 AND 50000",
          "SELECT age, COUNT(*) FROM people WHERE income > 0 GROUP BY age"]
OPTIONS: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 0.5}]


def made_of(texts: Sequence[str], strategy: str, session: Session, **price: float) -> Any:
    options = [Option(name=name, value=value, span=None) for name, value in {**price, "strategy": strategy}.items()]
    return batched([parse(text) for text in texts], session, options)[0]  # type: ignore[misc]


def served(made: Any, session: Session) -> np.ndarray[Any, Any]:
    """The numbers of all statements, after every cost was checked."""
    found = session.kernel._serve(made.steps(), made.allotted)
    return np.concatenate([next(iter(estimates.values())).values for _, estimates in found.statements])


# -- queries over buckets

FACTORS: list[Factor] = [Identity(9), Total(9), Prefix(9), AllRange(9), Ranges(9, (0, 3, 8), (4, 3, 8)),
                         Dense(np.arange(27).reshape(3, 9) % 4), Dense(np.linspace(-1, 1, 18).reshape(2, 9))]


@pytest.mark.parametrize("ends", [(9,), (2, 3, 9), tuple(range(1, 10)), (8, 9)], ids=str)
@pytest.mark.parametrize("own", FACTORS, ids=lambda own: str(own.key[0]))
def test_buckets_share_their_sums_out(own: Factor, ends: tuple[int, ...]) -> None:
    numbers = np.array(Buckets(ends=ends).numbers)
    share = np.zeros((9, len(ends)))
    for i, number in enumerate(numbers):
        share[i, number] = 1 / (numbers == number).sum()
    assert np.allclose(dawa.shared(own, ends).dense(), own.dense() @ share)


@pytest.mark.parametrize("ends", [(9,), (2, 3, 9), tuple(range(1, 10)), (8, 9)], ids=str)
@pytest.mark.parametrize("own", FACTORS, ids=lambda own: str(own.key[0]))
def test_weights_in_a_bucket_lie_around_their_mean(own: Factor, ends: tuple[int, ...]) -> None:
    below, above = dawa.weights(own, ends)
    table, mean = own.dense(), dawa.shared(own, ends).dense()
    for bucket, (low, high) in enumerate(zip((0, *ends), ends, strict=False)):
        inside = table[:, low:high]
        assert np.allclose(mean[:, bucket] - below[:, bucket], inside.min(axis=1))
        assert np.allclose(mean[:, bucket] + above[:, bucket], inside.max(axis=1))


@pytest.mark.parametrize("texts, strategy", [(AGES, "dawa"), (PLACES, "privtree")], ids=["dawa", "privtree"])
@pytest.mark.parametrize("price", [0.05, 0.5], ids=str)
def test_intervals_cover_rows_that_lie_unevenly(texts: list[str], strategy: str, price: float, tmp_path: Path) -> None:
    """All people have one of three ages, so that no bucket and no leaf of several values is even."""
    world = worlds.world(people=90)
    people = [(*row[:3], (21, 22, 64)[row[0] % 3], *row[4:]) for row in world.rows["people"]]
    world = worlds.World({**world.rows, "people": people})
    plain = Connection(session_of(tmp_path / "exact", world, noise=Exact())).workload(texts, epsilon=1)
    exact = [row[-1] for answer in plain for row in answer.rows]
    covered = []
    for turn in range(12):
        made = Connection(session_of(tmp_path / str(turn), world)).workload(texts, strategy=strategy, epsilon=price)
        ends = [row[-1] for answer in made for row in answer.intervals]
        covered += [low <= truth <= high for (low, high), truth in zip(ends, exact, strict=True)]  # type: ignore[misc, operator]
    assert np.mean(covered) > 0.95


@pytest.mark.parametrize("own", [Identity(3), Total(3), Prefix(3), Ranges(3, (0, 1), (1, 2)), Dense(np.arange(6).reshape(2, 3))],
                         ids=lambda own: str(own.key[0]))
@pytest.mark.parametrize("numbers", [[0, 0, 1, 2, 2], [0, 1, 2], [0, 2, 1, 1], [-1, 0, 1, 2], [0, 1, -1, 2, 2]], ids=str)
def test_merged_values_have_equal_columns(own: Factor, numbers: list[int]) -> None:
    dense = own.dense()
    expected = np.stack([dense[:, number] if number >= 0 else np.zeros(len(dense), dtype=np.int64) for number in numbers], axis=1)
    assert (widened(own, np.array(numbers)).dense() == expected).all()


def test_a_widened_matrix_is_not_copied_for_the_kernel() -> None:
    wide = widened(Dense(np.array([[1, -2, 3], [0, 5, 2**40]])), np.array([2, -1, 0, 0, 1]))
    assert wide.dense().tolist() == [[3, 0, 1, 1, -2], [2**40, 0, 0, 0, 5]] and not wide.dense().flags.writeable
    matrix = wide.matrix_of()
    assert isinstance(matrix, Written) and matrix.entries is words(wide.dense())  # type: ignore[arg-type]
    assert words(wide.dense()[:1]) == wide.dense()[:1].tobytes()


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 47, 60, 101])
def test_a_strategy_is_found_for_any_buckets(size: int, pure: bool, tmp_path: Path) -> None:
    """However the data lie, the second stage goes well, and is right where values in a bucket are alike."""
    session = session_of(tmp_path, worlds.world(), noise=Exact())
    made = made_of(AGES, "dawa", session, **({"epsilon": 1.0} if pure else {"rho": 0.5}))
    (group,), draw = made.groups, np.random.RandomState(size)
    cells = group.workload.domain.size  # 101 ages, those below and above, and NULL
    ends = (*sorted(draw.choice(np.arange(1, cells), size - 1, replace=False).tolist()), cells)
    over = dawa.bucketed(group.smaller, Buckets(ends=ends))
    strategy = dawa.chosen(over.workload, pure=pure)
    assert strategy.noise == ("laplace" if pure else "gaussian")
    totals = draw.poisson(20, size).astype(float)
    answers = [block.measure(totals) for block in strategy.blocks]
    found = strategy.reconstruct([np.asarray(part, dtype=float).reshape(-1) for part in answers], over.workload)
    shared = totals[list(Buckets(ends=ends).numbers)] / np.diff((0, *ends))[list(Buckets(ends=ends).numbers)]
    assert np.allclose(found, group.workload.apply(shared), atol=1e-6)
    assert (strategy.variances(over.workload) > 0).all()


# -- boxes


def test_ranges_get_their_share_of_leaves(tmp_path: Path) -> None:
    """Against cells that are written out."""
    session = session_of(tmp_path, worlds.world())
    made = made_of(PLACES, "privtree", session, epsilon=1.0)
    (group,) = made.groups
    rows, columns = group.smaller.workload.domain.shape
    middle, edge = rows // 3, columns // 2 + 1
    found = Leaves(lows=((0, 0), (middle, 0), (middle, edge)), highs=((middle, columns), (rows, edge), (rows, columns)), counts=(100, -7, 30))
    values, squares, below, above = privtree.summed(group, found, 4.0)
    room = np.outer(privtree.sizes(group, 0), privtree.sizes(group, 1))
    each = []
    for low, high in zip(found.lows, found.highs, strict=True):
        table = np.zeros((rows, columns))
        inside = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        table[inside] = room[inside] / room[inside].sum()
        each.append(group.smaller.workload.apply(table))
    assert np.allclose(values, np.array(found.counts) @ np.array(each)) and np.allclose(squares, (np.array(each) ** 2).sum(axis=0))
    for corner in (0, -1):  # all rows of each leaf in one of its cells
        table = np.zeros((rows, columns))
        for low, high, count in zip(found.lows, found.highs, found.counts, strict=True):
            table[(high[0] - 1, high[1] - 1) if corner else low] = max(count, 0)
        told = group.smaller.workload.apply(table)
        assert (values - below <= told + 1e-9).all() and (told <= values + above + 1e-9).all()


@pytest.mark.parametrize("own", FACTORS, ids=lambda own: str(own.key[0]))
def test_shares_are_those_of_the_matrix(own: Factor) -> None:
    room = np.array([1.0, 2, 1, 0, 3, 1, 1, 2, 5])
    for low, high in [(0, 9), (0, 1), (2, 5), (4, 9), (8, 9)]:
        expected = (own.dense()[:, low:high] * room[low:high]).sum(axis=1) / room[low:high].sum()
        assert np.allclose(privtree.shared(own, room, np.array([low]), np.array([high]))[:, 0], expected)


def test_many_leaves_are_summed_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path, worlds.world())
    (group,) = made_of(PLACES, "privtree", session, epsilon=1.0).groups
    rows, columns = group.smaller.workload.domain.shape
    found = Leaves(lows=tuple((i, 0) for i in range(rows)), highs=tuple((i + 1, columns) for i in range(rows)), counts=tuple(range(rows)))
    at_once = privtree.summed(group, found, 4.0)
    monkeypatch.setattr(privtree, "AT_ONCE", 500)
    assert all(np.allclose(one, other) for one, other in zip(at_once, privtree.summed(group, found, 4.0), strict=True))


# -- through the engine


@pytest.mark.parametrize("price", OPTIONS, ids=str)
@pytest.mark.parametrize("texts, strategy", [(AGES, "dawa"), (PLACES, "privtree")], ids=["dawa", "privtree"])
def test_answers_are_given_and_paid_for(texts: list[str], strategy: str, price: dict[str, Any], tmp_path: Path) -> None:
    connection = Connection(session_of(tmp_path, worlds.world()))
    made = connection.workload(texts, strategy=strategy, **price)
    assert len(made) == len(texts) and all(row[-1] is not None and row[-1] >= 0 for answer in made for row in answer.errors)
    assert strategy in made.notes[0] and "intervals also cover" in made.notes[1]
    (entry,) = connection.session.ledger.entries("person")
    assert entry.charge.epsilon == (10**9 if "epsilon" in price else None) and entry.charge.rho <= 500_000_000
    again = connection.workload(texts, strategy=strategy, **price)
    assert again.stored and [answer.rows for answer in again] == [answer.rows for answer in made]


@pytest.mark.parametrize("text, strategy", [(AGES[0], "dawa"), ("SELECT bin_floor(age) AS band, COUNT(*) FROM people WHERE income < 500 "
                                                                "GROUP BY band", "privtree")], ids=["dawa", "privtree"])
def test_a_statement_may_name_them(text: str, strategy: str, tmp_path: Path) -> None:
    connection = Connection(session_of(tmp_path, worlds.world()))
    named = text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = '{strategy}')", 1)
    told = str(connection.explain(named))
    assert f"strategy '{strategy}'" in told and "depends on the data" in told and not connection.session.ledger.entries("person")
    assert connection.execute(named).fetchall()


def test_sums_are_bucketed_too(tmp_path: Path) -> None:
    session = session_of(tmp_path, worlds.world(), noise=Exact())
    connection = Connection(session)
    text = "SELECT year, SUM(cost) FROM visits GROUP BY year"
    (answer,), (plain,) = connection.workload([text], strategy="dawa", epsilon=900), connection.workload([text], epsilon=1)
    assert sum(row[1] for row in answer.rows) == pytest.approx(sum(row[1] for row in plain.rows), abs=0.05)  # type: ignore[misc]
    assert answer.errors[0][1] > 0  # type: ignore[operator]


WRONG: list[tuple[str, str, dict[str, Any], str]] = [
    ("dawa", "SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age", {}, "it is over 2 columns, not one"),
    ("dawa", "SELECT COUNT(*) FROM people", {}, "it is over 0 columns, not one"),
    ("dawa", "SELECT COUNT(*) FROM people WHERE age < 200", {}, "the number of values that it distinguishes is 1"),
    ("privtree", "SELECT age, COUNT(*) FROM people GROUP BY age", {}, "it is over age, not over two numeric columns"),
    ("privtree", "SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age", {}, "it is over sex, age, not over two numeric columns"),
    ("privtree", "SELECT SUM(cost) FROM visits WHERE year > 2018 AND cost > 3", {}, "it has a SUM, and boxes are split by counts"),
    ("privtreee", "SELECT COUNT(*) FROM people WHERE age > 3", {}, "there is no strategy 'privtreee'"),
]


@pytest.mark.parametrize(("strategy", "text", "options", "reason"), WRONG, ids=[case[3] for case in WRONG])
def test_what_does_not_fit_is_refused_and_costs_nothing(strategy: str, text: str, options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    connection = Connection(session_of(tmp_path, worlds.world()))
    with pytest.raises(OptionError) as caught:
        connection.workload([text], strategy=strategy, **{"epsilon": 1, **options})
    assert reason in caught.value.reason
    assert not connection.session.ledger.entries("person")
    named = text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = '{strategy}')", 1)
    with pytest.raises(OptionError) as caught:
        connection.execute(named)
    assert "strategy" in named[caught.value.span.start: caught.value.span.end]  # type: ignore[union-attr]


# -- the promise


@pytest.fixture
def neighbours(tmp_path: Path) -> Iterator[tuple[Session, Session]]:
    """One person more, the only one there."""
    crowd = [person(i, age=20 + i % 3, income=1000.0) for i in range(1, 5)]
    pair = Pair(people=[person(0, age=90, income=90_000.0), *crowd])
    made = tuple(session_of(tmp_path / name, world) for name, world in zip("ab", pair.worlds(), strict=True))
    yield made  # type: ignore[misc]
    for session in made:
        session.close()


CASES = [(["SELECT age >= 50 AS old, COUNT(*) FROM people GROUP BY old"], "dawa"),
         (["SELECT COUNT(*) FROM people WHERE age >= 50 AND income > 50000"], "privtree")]


def told_apart(neighbours: tuple[Session, Session], texts: list[str], strategy: str, times: int) -> float:
    samples = []
    for session in neighbours:
        made = made_of(texts, strategy, session, epsilon=1.0)
        samples.append(np.array([served(made, session) for _ in range(times)]))
    return lower_bound(*samples, confidence=1 - 1e-8).epsilon


@pytest.mark.slow
@pytest.mark.parametrize("texts, strategy", CASES, ids=["dawa", "privtree"])
def test_the_promise_is_kept(texts: list[str], strategy: str, neighbours: tuple[Session, Session], effort: float) -> None:
    assert told_apart(neighbours, texts, strategy, round(150 * effort)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("texts, strategy", CASES, ids=["dawa", "privtree"])
def test_noise_that_is_too_small_is_found(texts: list[str], strategy: str, neighbours: tuple[Session, Session], effort: float,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.trusted.noise import source

    add = source.laplace
    monkeypatch.setattr(source, "laplace", lambda values, scale: add(values, scale / 20))
    assert any(told_apart(neighbours, texts, strategy, round(times * max(1.0, effort))) > 1 for times in (75, 150, 300))


@pytest.mark.parametrize("texts, strategy", [(AGES, "dawa"), (PLACES, "privtree")], ids=["dawa", "privtree"])
@pytest.mark.parametrize("price", OPTIONS, ids=str)
def test_nearly_all_of_the_price_is_spent(texts: list[str], strategy: str, price: dict[str, Any], tmp_path: Path) -> None:
    """The requests of a script cost what is charged, and not much less."""
    session = session_of(tmp_path, worlds.world())
    made = made_of(texts, strategy, session, **price)
    spent = Cost(epsilon=0, rho=0)  # type: ignore[arg-type]
    steps, context = made.steps(), session.kernel._context()
    request = next(steps)
    for _ in itertools.count():
        certificates = session.kernel._certificates(request)
        spent += request.cost(*certificates)
        try:
            request = steps.send(session.kernel._look(request, certificates, context))
        except StopIteration:
            break
    assert made.allotted.covers(spent)
    share = spent.epsilon / made.allotted.epsilon if made.allotted.epsilon is not None else spent.rho / made.allotted.rho
    assert share > 0.9
