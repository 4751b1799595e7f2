"""What is derived of a plan is kept for its statement, by the identity of relations, and no longer."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from msgspec.structs import force_setattr
from support.sessions import session_of
from support.small_tables import TRUE, people
from support.vaults import remote, vault_of

from dpsql.backends.duckdb import DuckReader
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.kernel import checker
from dpsql.trusted.kernel.checker import Known
from dpsql.trusted.kernel.claims import Claims, Disagreement
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.kernel.shapes import Columns
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.certificate import certify
from dpsql.trusted.plan.node import Node, Printing
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count


def claims() -> Claims:
    return Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing())


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The scans that were derived, by identity."""
    found: list[int] = []
    rule = checker.RULES[Scan]

    def noted(node: Scan, columns: Columns) -> Known:
        found.append(id(node))
        return rule(node, columns)

    monkeypatch.setattr(checker, "RULES", {**checker.RULES, Scan: noted})
    return found


def test_each_relation_is_derived_once_until_another_statement_begins(derived: list[int]) -> None:
    made, scan = claims(), people()
    plan = GroupedSums(input=Filter(input=scan, condition=TRUE), keys=(), summands=(Count(),))
    made.relation(scan)
    made.relation(plan.input)
    made.summary(plan, certify(plan, NoPublicFacts(), made.claimed(plan.input)))
    assert made.split_parts(plan) == (plan.input,)
    assert derived == [id(scan)]
    made.relation(people())  # an equal one is another
    assert len(derived) == 2
    for again, kept in ((made.begin, {"a query": 1}), (made.forget, {})):
        derived.clear()
        made._meets._counted["a query"] = 1
        again()
        made.relation(scan)
        assert derived == [id(scan)] and made._meets._counted == kept


@pytest.mark.parametrize("look", [Claims.size, Claims.relation, Claims.split_parts])
def test_plans_live_as_long_as_what_is_known_of_them(look: Callable[[Claims, Node], object]) -> None:
    made, scan = claims(), people()
    look(made, scan)
    kept = weakref.ref(scan)
    del scan
    gc.collect()
    assert kept() is not None, "another object would get its id"
    made.begin()
    gc.collect()
    assert kept() is None


def test_what_was_not_confirmed_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, scan = claims(), people()
    with monkeypatch.context() as patch:
        patch.setattr(checker, "keys_of", lambda node: iter(()))
        with pytest.raises(Disagreement):
            made.relation(scan)
    with pytest.raises(Disagreement):
        made.relation(scan)
    made.begin()
    made.relation(scan)


def test_what_was_counted_in_public_rows_is_forgotten_where_their_name_stands_for_others(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of joins rest on how many of them agree."""
    kernel = session_of(tmp_path).kernel
    forgotten, parts = list[object](), (kernel._publics, kernel._claims)
    for part in parts:
        monkeypatch.setattr(part, "forget", lambda part=part: forgotten.append(part))
    for identity in ("first", "first"):
        kernel.hold("released", identity, {"x": ("INTEGER", [1, 2])})
    assert not forgotten
    kernel.hold("released", "second", {"x": ("INTEGER", [1, 1])})
    assert forgotten == [*parts]
    kernel.hold("released", "first", {"x": ("INTEGER", [1, 2])})
    assert forgotten == [*parts, *parts]


@pytest.mark.parametrize("through", [lambda session: session, lambda session: remote(vault_of(lambda user: session))], ids=["here", "a vault"])
def test_what_requests_of_a_statement_share_is_derived_once(
        through: Callable[[Session], Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, derived: list[int]) -> None:
    looks, asked = Kernel._look, list[object]()

    def looking(kernel: Kernel, request: Request, *more: Any) -> Any:
        asked.append(request)
        return looks(kernel, request, *more)

    monkeypatch.setattr(Kernel, "_look", looking)
    answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') SUM(cost) FROM visits", through(session_of(tmp_path)))
    assert len(asked) > 1 and len(derived) == 1


def test_what_is_forged_between_requests_is_not_gone_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later request for the same plan reads the plan as it was checked, whatever the script made of it since."""
    kernel = session_of(tmp_path).kernel
    plan = GroupedSums(input=Filter(input=people(), condition=TRUE), keys=(), summands=(Count(),))
    requests = [NoisySums(plan=plan, cells=((),), noises=(DiscreteLaplace(scale=scale),)) for scale in (1.0, 2.0, 3.0)]
    own = [kernel._certified(requests[0])]
    force_setattr(plan, "input", people())
    own.append(kernel._certified(requests[1]))
    assert own[1].request.plan is own[0].request.plan and isinstance(own[1].request.plan.input, Filter)
    kernel._copies = {}  # as with the next statement
    assert isinstance(kernel._certified(requests[2]).request.plan.input, Scan)


def test_the_copies_of_a_statement_of_many_requests_are_given_up(tmp_path: Path) -> None:
    kernel = session_of(tmp_path).kernel
    kernel._copies = dict.fromkeys(range(10_001), (None, None))
    plan = GroupedSums(input=people(), keys=(), summands=(Count(),))
    kernel._certified(NoisySums(plan=plan, cells=((),), noises=(DiscreteLaplace(scale=1.0),)))
    assert 0 < len(kernel._copies) < 100
