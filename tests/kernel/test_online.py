"""Online models in the kernel: what was paid for is what can be asked, by whom, and how often; and nothing tells the shared noise."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from support.coded_tables import Coded

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import Incident
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.models.table_domain import TableDomain
from dpsql.trusted.accounting.cost import NOTHING, Account, pure
from dpsql.trusted.kernel.ledger import Closed
from dpsql.trusted.kernel.model_progress import SERIES
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.online_comparisons import Comparisons, Opening
from dpsql.trusted.noise.integer import DiscreteLaplace

ADA, BOB = Account(budget="main", analyst="ada"), Account(budget="main", analyst="bob")
WIDE = {None: limit(price(epsilon=1000))}
PLACES = np.random.default_rng(0).integers(0, 3, (600, 2))


class World:
    """A kernel with a ledger of its own over a table of two columns."""

    def __init__(self, path: Path, rows: int = 1) -> None:
        if not path.exists():
            ReportingLedger.create(path).close()
        coded = Coded(TableDomain(("a", "b"), (3, 3)), PLACES, rows=rows)
        self.view, self.ledger = coded.table.view, ReportingLedger(path)
        self.kernel = Kernel(coded.kernel._reader, self.ledger)

    def opening(self, **given: Any) -> Opening:
        return Opening(**{"view": self.view, "updates": 3, "scale_limit": 2.0, "scale_query": 3.0, "noise": DiscreteLaplace(scale=5.0), **given})

    def open(self, digest: str = "model", account: Account = ADA, epsilon: Fraction = Fraction(100), **given: Any) -> Any:
        def script() -> Any:
            yield self.opening(**given)
            return "opened"

        return self.kernel.run(script(), cost=pure(epsilon), account=account, limits=WIDE, digest=digest, sql="CREATE", encode=str)

    def ask(self, *expected: int, model: str = "model", account: Account = ADA, **given: Any) -> Any:
        made = Comparisons(**{"view": self.view, "axes": (Axis(column="c0", values=(0, 1, 2)),), "groups": (0, 1, 2), "expected": expected,
                              "limit": 60, **given})
        return self.kernel.compare(made, model=model, account=account, sql="SELECT")


TRUTH = tuple(int(count) for count in np.bincount(PLACES[:, 0]))
FAR = (10_000, 10_000, 10_000)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "x.ledger")
    yield made
    made.ledger.close()


def test_near_counts_are_free_and_far_ones_are_measured_as_often_as_was_paid_for(world: World) -> None:
    assert world.open() == "opened"
    spent = world.ledger.spent("main")
    for _ in range(20):
        assert (world.ask(*TRUTH).near, world.ask(*TRUTH).count) == (3, None)
    for _ in range(3):
        found = world.ask(TRUTH[0], *FAR[1:])
        assert found.near == 1 and abs(found.count - TRUTH[1]) < 100
    assert world.ask(*TRUTH) is None and world.ask(*FAR) is None, "even what is near is not looked at any more"
    assert world.ledger.spent("main") == spent != NOTHING


def test_only_what_was_opened_can_be_asked(world: World) -> None:
    with pytest.raises(ValueError, match="no such model"):
        world.ask(*TRUTH)
    world.open()
    for given in ({"model": "other"}, {"account": BOB}):
        with pytest.raises(ValueError, match="no such model"):
            world.ask(*TRUTH, **given)
    with patch.object(world.kernel._reader, "_version", "v2"), pytest.raises(ValueError, match="no such model"):
        world.ask(*TRUTH)
    assert [entry.sql for entry in world.ledger.entries("main")] == ["CREATE"]


def test_a_statement_that_measures_opens_nothing(world: World) -> None:
    from dpsql.trusted.measurements.noisy_sums import NoisySums
    from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
    from dpsql.trusted.plan.operators.summands import Count

    def script() -> Any:
        yield NoisySums(plan=GroupedSums(input=world.view, keys=(), summands=(Count(),)), cells=((),), noises=(DiscreteLaplace(scale=5.0),))
        return "measured"

    world.open("another")  # what was opened before is not what this statement pays for
    world.kernel.run(script(), cost=pure(Fraction(1)), account=ADA, limits=WIDE, digest="model", sql="SELECT", encode=str)
    with pytest.raises(ValueError, match="no such model"):
        world.ask(*TRUTH)


def test_no_statement_has_the_name_of_the_comparisons_of_a_model(world: World) -> None:
    """Its charge would be the newest of them, and the updates that were made would be forgotten."""
    world.open()
    for number in (1, 2):
        with pytest.raises(ValueError, match="online model"):
            world.open(digest=f"{SERIES}{number}")
    assert [entry.sql for entry in world.ledger.entries("main")] == ["CREATE"]


def test_what_was_not_paid_for_opens_nothing(world: World) -> None:
    with pytest.raises(ValueError, match="more than was charged"):
        world.open(epsilon=Fraction(1))
    with pytest.raises(ValueError, match="no such model"):
        world.ask(*TRUTH)


def test_comparisons_are_no_measurement_and_of_no_other_class(world: World) -> None:
    asked = Comparisons(view=world.view, axes=(), groups=(0,), expected=(5,), limit=3)

    def script() -> Any:
        yield asked

    with pytest.raises(TypeError, match="by measurements"):
        world.kernel.run(script(), cost=pure(Fraction(1)), account=ADA, limits=WIDE, digest="d", sql="SELECT", encode=str)
    world.open()

    class Milder(Comparisons):
        def check(self, *_: Any) -> None:
            pass

    for other in (Milder(view=world.view, axes=(), groups=(0,), expected=(5,), limit=3), world.opening()):
        with pytest.raises(TypeError):
            world.kernel.compare(other, model="model", account=ADA, sql="SELECT")  # type: ignore[arg-type]


def test_a_view_with_more_rows_of_an_entity_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path / "x.ledger", rows=4)
    world.open()
    four = world.view
    for rows, refused in ((3, False), (5, True)):
        world.view = replace(four, rows=rows)  # type: ignore[call-arg]
        if refused:
            with pytest.raises(ValueError, match="can change more than"):
                world.ask(*TRUTH)
        else:
            assert world.ask(*FAR) is not None


def test_a_comparison_that_failed_counts_as_an_update(world: World) -> None:
    world.open()
    with patch.object(world.kernel._reader, "columns", side_effect=RuntimeError("1234")), pytest.raises(Incident) as found:
        world.ask(*TRUTH)
    assert "1234" not in str(found.value)
    progress = [json.loads(body) for body in secrets_of(world.ledger.path)]
    world.ask(*TRUTH)
    assert [json.loads(body)["used"] for body in secrets_of(world.ledger.path)] == [0, 1] and progress[0]["used"] == 0
    for _ in range(2):
        assert world.ask(*FAR).count is not None
    assert world.ask(*TRUTH) is None


def test_failures_close_the_account_here_too(world: World) -> None:
    world.open(updates=50)
    for _ in range(3):
        with patch.object(world.kernel._reader, "columns", side_effect=RuntimeError), pytest.raises(Incident):
            world.ask(*TRUTH)
    with pytest.raises(Closed):
        world.ask(*TRUTH)


def secrets_of(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return [body for body, in connection.execute("SELECT body FROM events WHERE digest LIKE 'comparisons%' AND kind = 'charge'")]


def test_the_shared_noise_is_kept_until_an_update_and_told_to_nobody(world: World) -> None:
    world.open(scale_limit=1e9)
    for expected in (TRUTH, TRUTH, TRUTH):
        assert world.ask(*expected).near == 3
    shared = [tuple(json.loads(body)["shared"]) for body in secrets_of(world.ledger.path)]
    assert len(shared) == 3 and len(set(shared)) == 1
    told = " ".join([*(str(entry) for entry in world.ledger.entries("main")), *world.ledger.answers("comparisons of 1")])
    assert not any(str(number) in told for pair in shared for number in pair if number > 10**6)


def test_an_update_draws_the_noise_anew(world: World) -> None:
    world.open(scale_limit=1e9)
    with patch("dpsql.trusted.measurements.online_comparisons.one_sided", side_effect=[5, 6, 10**9, 7, 8, *[0] * 9]):
        assert world.ask(*TRUTH).near == 0  # the noise of the comparison itself is large
        world.ask(*TRUTH)
    assert [tuple(json.loads(body)["shared"]) for body in secrets_of(world.ledger.path)] == [(5, 6), (7, 8)]


def _racing(path: Path, start: Any, found: Any) -> None:
    world = World(path)
    start.wait()
    found.put(sum(1 for _ in range(6) if (made := world.ask(*FAR)) is not None and made.count is not None))
    world.ledger.close()


def test_processes_that_race_make_no_more_updates_than_were_paid_for(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    world = World(path)
    world.open(updates=7)
    world.ledger.close()
    context = multiprocessing.get_context("spawn")
    start, found = context.Event(), context.Queue()
    racers = [context.Process(target=_racing, args=(path, start, found)) for _ in range(3)]
    for racer in racers:
        racer.start()
    start.set()
    made = sum(found.get(timeout=120) for _ in racers)
    for racer in racers:
        racer.join()
    assert made == 7
    assert sorted(json.loads(body)["used"] for body in secrets_of(path)) == [*range(7)]
