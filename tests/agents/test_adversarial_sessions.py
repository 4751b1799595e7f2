"""Agents that attack: differencing, repeats, planted names, adaptive questions, and thousands of free calls. Guesses of membership
are right no more often than the budget allows, by a one-sided binomial test, which finds an engine without noise."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from support import agent_sessions, membership

from dpsql.audit.exact import Exact
from dpsql.trusted.kernel import run

pytest.importorskip("mcp")
ALARM = 1e-4  # the probability of a false alarm of one attack
EPSILON = 1.0


@pytest.mark.long
@pytest.mark.parametrize("name", membership.ATTACKS)
def test_guesses_are_right_no_more_often_than_the_budget_allows(name: str, tmp_path: Path, effort: float) -> None:
    """At full effort, five hundred sessions."""
    found = membership.attacked(membership.ATTACKS[name], EPSILON, max(10, round(100 * effort)), tmp_path)
    print(f"{name}: {found.right} of {found.sessions} right, at most {membership.bound(EPSILON):.3f} allowed, p = {found.p_value(EPSILON):.3g}")
    assert found.p_value(EPSILON) > ALARM


@pytest.mark.slow
def test_an_engine_without_noise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "Secure", Exact)
    found = membership.attacked(membership.planted_name, EPSILON, 40, tmp_path)
    assert found.right == 40 and found.p_value(EPSILON) < ALARM


@pytest.mark.slow
def test_free_calls_and_refusals_say_the_same_with_the_target_and_without(tmp_path: Path, effort: float) -> None:
    """At full effort, thousands of calls; not one is charged."""
    told: list[list[str]] = []

    async def conversation(desk: agent_sessions.AgentDesk, client: Any) -> None:
        async def call(tool: str, **arguments: Any) -> Any:
            return await client.call_tool(tool, arguments)

        told.append([made async for made in membership.transcript(call, max(1, round(20 * effort)))])

    for is_there in (True, False):
        desk = agent_sessions.desk(membership.world(tmp_path / str(is_there), EPSILON, is_there=is_there))
        agent_sessions.talk(agent_sessions.in_memory(desk), functools.partial(conversation, desk))
        spending = desk.connection.budget()
        assert spending.spent.epsilon == spending.statements == spending.failed == 0
    assert told[0] == told[1] and len(told[0]) >= 110
    print(f"{len(told[0])} calls, {sum('True' in each[:6] for each in told[0])} of them refused")
    if effort >= 1:
        assert len(told[0]) > 2000


def test_the_test_finds_a_noise_of_half_the_scale() -> None:
    """What an attacker gets from half the noise is above what is allowed: the test has the power to find it in 500 sessions."""
    right = round(500 * membership.bound(2 * EPSILON))
    assert membership.Attacked(right=right, sessions=500).p_value(EPSILON) < ALARM
    assert membership.Attacked(right=round(500 * membership.bound(EPSILON)), sessions=500).p_value(EPSILON) > 0.3
