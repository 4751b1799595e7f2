"""Statements over long columns are planned with what fits, or refused with their place: never by running out of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.room_worker import TEXTS
from support.sessions import session_of

from dpsql.engine import batches as rapids
from dpsql.engine.answering import answer
from dpsql.errors import Unsupported
from dpsql.strategies import all_strategies
from dpsql.strategies.all_strategies import LAPLACE, NoStrategy, attempted, best
from dpsql.strategies.strategy import Refusal
from dpsql.workload.domain import ROOM, domain, room
from dpsql.workload.factors import AllRange, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.implicit import Centered, Differences, SquareRoot
from dpsql.workload.workload import Product, Workload

LIMIT = 2 * 10**9  # bytes beyond what the process needs to be there
PLANNED = {
    "a cube of dates", "dates twice", "a cube of dates and truths", "dates, or ages", "weekdays",
    "weekdays and dates", "a window over ages", "windows both ways", "a workload of ranges", "an accuracy", "a standard error",
    "workload by name", "identity by name"}
SOON = {  # take seconds in all
    "a cube of dates and truths", "a cube of dates and ages", "weekdays", "five keys of one date", "an accuracy", "a standard error",
    "workload by name", "identity by name", "union by name", "p-identity by name", "convex by name", "privtree by name"}
LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits of memory are those of Linux")


@cache
def planned(account: str, *names: str) -> dict[str, tuple[str, float]]:
    """What came of the texts, in one process with little memory."""
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests.parent), str(tests), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, str(tests / "support" / "room_worker.py"), account, str(LIMIT), *names], capture_output=True,
                          text=True, timeout=900, env={**os.environ, "PYTHONPATH": path, "DPSQL_CACHE": "", "OPENBLAS_NUM_THREADS": "1"}, check=True)
    return {name: (how, seconds) for name, (how, seconds) in json.loads(done.stdout).items()}


@LINUX
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("account", ["epsilon", "rho"])  # one after the other, so that two workers seldom plan the same
def test_what_is_large_is_planned_or_refused(account: str, name: str) -> None:
    hold(name, *planned(account)[name])


@LINUX
@pytest.mark.slow
def test_what_is_large_and_soon_done_is_planned_or_refused() -> None:
    for name, (how, seconds) in planned("rho", *sorted(SOON)).items():
        hold(name, how, seconds)


def hold(name: str, how: str, seconds: float) -> None:
    assert how.startswith(("planned: ", "refused: ")), how
    assert how.startswith("planned: ") or name not in PLANNED, how
    assert seconds < 240  # of a machine that does much else; a few seconds of one that does not


def test_a_lack_of_memory_is_a_refusal_with_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object, **__: object) -> object:
        raise MemoryError

    monkeypatch.setattr(rapids, "least", short)
    session = session_of(tmp_path)
    before = session.ledger.spent(session.budget.name, None)
    with pytest.raises(Unsupported, match="too large to be planned") as caught:
        answer("SELECT born, COUNT(*) AS n FROM people GROUP BY CUBE (born)", session)
    assert caught.value.as_dict()["line"] == 1 and session.ledger.spent(session.budget.name, None) == before


def test_a_strategy_without_memory_is_one_that_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> object:
        raise MemoryError

    workload = Workload(domain(9), (Product((Prefix(9),)),))
    plans = {"p-identity": short, "identity": LAPLACE["identity"], "workload": LAPLACE["workload"]}
    found, verdicts = best(workload, None, plans)  # type: ignore[arg-type]
    assert found.name in ("identity", "workload") and "memory" in verdicts[0].because
    with pytest.raises(NoStrategy, match="memory"):
        best(workload, None, {"p-identity": short, "kronecker": short})  # type: ignore[arg-type,dict-item]
    assert isinstance(attempted(lambda: (_ for _ in ()).throw(MemoryError())), Refusal)
    assert all_strategies.best is best


LONG = 40_000
WIDE: list[Factor] = [Identity(LONG), Total(LONG), Prefix(LONG), AllRange(LONG), Ranges(LONG, (0, 5), (7, LONG - 1)), Centered(LONG),
                      SquareRoot(LONG), Differences(LONG, 2)]


@pytest.mark.parametrize("factor", WIDE, ids=lambda factor: type(factor).__name__)
def test_no_array_is_made_that_does_not_fit(factor: Factor) -> None:
    with pytest.raises(Unsupported, match="numbers") as caught:
        factor.gram()
    assert caught.value.code == "too-large"
    if factor.rows * factor.n * 8 > ROOM:
        with pytest.raises(Unsupported, match="numbers"):
            factor.dense()
    with pytest.raises(Unsupported, match="numbers"):
        Product((factor, factor)).dense()


def test_room_is_counted_in_bytes() -> None:
    room("this", ROOM // 8)
    with pytest.raises(Unsupported, match="this has 2 x"):
        room("this", 2, ROOM // 8)
    with pytest.raises(Unsupported):
        room("this", *(10**6,) * 50)
