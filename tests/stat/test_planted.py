"""Faults that are planted in the engine must be found: by the audit where they spoil the promise, or by the kernel before it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.audits import Pair, audit, person, refutes, visit
from support.sessions import session_of

from dpsql.budgets.reports import epsilon_of
from dpsql.engine.answering import answer
from dpsql.errors import Incident, InternalError
from dpsql.mechanisms.additive_noise import Laplace
from dpsql.trusted.kernel.claims import Claims
from dpsql.trusted.measurements.reading.content import Learned
from dpsql.trusted.measurements.select import score_change
from dpsql.trusted.noise import source
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.noise.key_selection import TruncatedGeometric
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import GridSum
from dpsql.trusted.plan.operators.truncate import Truncate

pytestmark = pytest.mark.stat

OTHERS = [person(i, age=20 + i, income=1000.0 * i) for i in range(1, 6)]
MANY = Pair(people=[person(0, income=1e12), *OTHERS], visits=[visit(i, 0 if i < 9 else 1) for i in range(12)])
BUSY = Pair(people=[person(0), *OTHERS], visits=[visit(i, 0, year=2018 + i % 4, cost=500.0) for i in range(3)])
EDGE = Pair(people=[person(0, income=1e5), person(1, income=92_000.0)])
ALONE = Pair(people=[person(0, nickname="only")])
Plant = Callable[[pytest.MonkeyPatch], None]


def no_clamp(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Quantizer, "to_sql", lambda self, printed, *known: f"CAST(round({printed} * {float(1 / self.step)!r}) AS BIGINT)")


def halved_sensitivity(patch: pytest.MonkeyPatch) -> None:
    """The kernel would refuse it (`kernel.checker`); the audit has to find it by itself."""
    patch.setattr(GridSum, "l1", property(lambda self: self.grid.largest // 2))
    patch.setattr(Claims, "summary", lambda *given: None)


def every_key_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TruncatedGeometric, "reach", 0)


def no_limit_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Truncate, "render", lambda self, below, printing: f"SELECT * FROM ({below[0]}) AS t0")


def truncations_thought_idle(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Learned, "idle", lambda self, node: True)


def halved_laplace(patch: pytest.MonkeyPatch) -> None:
    add = source.laplace
    patch.setattr(source, "laplace", lambda values, scale: add(values, scale / 2))


def halved_gaussian(patch: pytest.MonkeyPatch) -> None:
    add = source.gaussian
    patch.setattr(source, "gaussian", lambda values, sigma: add(values, sigma / 2))


def halved_scores(patch: pytest.MonkeyPatch) -> None:
    for module in ("dpsql.trusted.measurements.select", "dpsql.mechanisms.select.quantiles"):
        patch.setattr(f"{module}.score_change", lambda *given: Fraction(score_change(*given), 2))
    patch.setattr("dpsql.mechanisms.select.quantiles.ENDS", Fraction(1, 50))  # nearly all is for the choice itself


def priced(text: str, price: str = "epsilon = 2") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) {text}"


# Samples are so many that the bound found is above the claim by more than six of its standard deviations, also after all that
# the choice of an event adds to them. With the best event, of which the first database shows P and the second Q:
#   halved noise of a count            P = 0.982, Q = 0.018
#   halved noise of a sum              P = 0.80,  Q = 0.05
#   halved Gaussian noise, rho = 1     P = 0.80,  Q = 0.02, where ln((P - delta) / Q) is 3.0 and 1.36 is claimed at delta = 0.4
#   halved scores, rho = 1/2           P = 0.81,  Q = 0.08, where it is 1.6 and 0.50 is claimed; in epsilon alone it would hardly
#                                      show: the weights of what is less likely and of what is likelier move half of it each
def claimed(rho: int | Fraction, delta: Fraction) -> float:
    return float(epsilon_of(Fraction(rho), delta))


PLANTED: list[tuple[Plant, str, Pair, float, dict[str, Any]]] = [
    (no_clamp, priced("SUM(income) FROM people"), MANY, 2, {}),
    (halved_sensitivity, priced("SUM(income) FROM people"), MANY, 2, {"times": 2000}),
    (no_limit_of_rows, priced("COUNT(*) FROM visits"), MANY, 2, {}),
    (truncations_thought_idle, priced("COUNT(*) FROM visits"), MANY, 2, {}),
    (halved_laplace, priced("COUNT(*) FROM people"), MANY, 2, {}),
    (halved_laplace, priced("year, COUNT(*) FROM visits GROUP BY year"), BUSY, 2, {"times": 2500}),
    (halved_gaussian, priced("COUNT(*) FROM people", "rho = 1"), MANY, claimed(1, Fraction(2, 5)), {"delta": 0.4, "times": 1500}),
    (halved_scores, priced("MEDIAN(income) FROM people", "rho = 0.5"), EDGE, claimed(Fraction(1, 2), Fraction(2, 5)),
     {"delta": 0.4, "times": 2200}),
    (every_key_kept, priced("nickname, COUNT(*) FROM people GROUP BY nickname", "epsilon = 2, delta = 0.1"), ALONE, 2,
     {"delta": 0.1, "cells": [("only",)]}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "text", "pair", "claimed", "more"), PLANTED,
                         ids=[f"{case[0].__name__}: {case[1].partition(') ')[2][:40]}" for case in PLANTED])
def test_the_audit_finds_what_spoils_the_promise(plant: Plant, text: str, pair: Pair, claimed: float, more: dict[str, Any],
                                                 tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"times": 1400, **more}
    times = int(given.pop("times") * max(1.0, effort))
    plant(monkeypatch)
    assert refutes(lambda folder, times: audit(text, pair, folder, times, **given).epsilon, claimed, tmp_path, times)


# -- what the kernel finds, as it works out certificates and costs again


def a_scale_that_is_too_small(patch: pytest.MonkeyPatch) -> None:
    noise = Laplace.noise
    patch.setattr(Laplace, "noise", lambda self, task, allotted: DiscreteLaplace(scale=noise(self, task, allotted).scale / 2))


def the_whole_price_for_each_aggregate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpsql.planning.account_choice.split_budget", lambda weights, *, pure: [Fraction(1)] * len(weights))


def a_script_that_asks_twice(patch: pytest.MonkeyPatch) -> None:
    from dpsql.mechanisms import additive_noise

    asked = additive_noise.measured

    def twice(tasks: Any, context: Any) -> Any:
        yield from asked(tasks, context)
        return (yield from asked(tasks, context))

    patch.setattr(additive_noise, "measured", twice)


def a_stage_that_takes_more_than_its_share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpsql.planning.program.KEYS_SHARE", Fraction(1))
    patch.setattr("dpsql.planning.program.Program.parts_allotted", property(lambda self: self.allotted.part(Fraction(7, 10))))


def a_sensitivity_that_a_mechanism_made_up(patch: pytest.MonkeyPatch) -> None:
    from dpsql.frozen import replace
    from dpsql.planning import sum_parts
    from dpsql.trusted.plan.certificate import Sensitivity

    linear_task = sum_parts.linear_task
    patch.setattr(sum_parts, "linear_task", lambda *given: replace(linear_task(*given), sensitivity=Sensitivity(l1=1, l2=1)))


def rows_that_were_not_bounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpsql.planning.script.keep_rows", lambda view, rows, owner: view)


REFUSED: list[tuple[Plant, str]] = [
    (a_scale_that_is_too_small, "COUNT(*) FROM people"),
    (the_whole_price_for_each_aggregate, "COUNT(*), COUNT(DISTINCT sex) FROM people"),
    (the_whole_price_for_each_aggregate, "MEDIAN(age), MEDIAN(income) FROM people"),
    (a_script_that_asks_twice, "COUNT(*) FROM people"),
    (a_stage_that_takes_more_than_its_share, "nickname, SUM(income) FROM people GROUP BY nickname"),
    (a_sensitivity_that_a_mechanism_made_up, "SUM(cost) FROM visits"),
    (rows_that_were_not_bounded, "WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'rows') COUNT(*) FROM scores"),
]


@pytest.mark.parametrize(("plant", "text"), REFUSED, ids=[f"{case[0].__name__}: {case[1][-30:]}" for case in REFUSED])
def test_the_kernel_refuses_what_was_not_charged(plant: Plant, text: str, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path, MANY.worlds()[0], at={"epsilon": 1, "delta": 1e-3})
    plant(monkeypatch)
    with pytest.raises((Incident, InternalError)) as caught:
        answer("SELECT " + text, session)
    charged = caught.type is Incident  # what is wrong with a first request is found before the charge
    assert [entry.body for entry in session.ledger.entries("person")] == [None] * charged
    monkeypatch.undo()
    answer("SELECT " + text, session)


@pytest.mark.slow
def test_the_statements_that_are_planted_on_keep_their_promise_without(tmp_path: Path, effort: float) -> None:
    """So that what is found above is the fault."""
    for i, (_, text, pair, claimed, more) in enumerate(PLANTED[::3]):
        given = {name: value for name, value in more.items() if name != "times"}
        assert audit(text, pair, tmp_path / str(i), int(1000 * effort), **given).epsilon <= claimed


def test_an_empty_pair_is_not_told_apart(tmp_path: Path) -> None:
    """Two samples of one database: whatever the audit finds would be a mistake of its own."""
    same = Pair(people=OTHERS)
    assert audit(priced("COUNT(*), AVG(age) FROM people"), same, tmp_path, 1000).epsilon == 0


