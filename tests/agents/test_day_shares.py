"""The share of an account for each day: by the ledger, however the account asks, and for statements at the same time."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import agent_sessions

import dpsql
from dpsql.budgets.convert import limit
from dpsql.budgets.day_shares import limit_today, spent_since
from dpsql.catalog.price import Price
from dpsql.engine import session as of_sessions
from dpsql.trusted.accounting.cost import NOTHING, Charge, concentrated, pure
from dpsql.trusted.kernel import chain

PURE, MIXED = Price(epsilon=Fraction(1)), Price(epsilon=Fraction(1), delta=Fraction(1, 10**6))
TERMS = "[budgets.pure.agents.robot]\nper_day = { epsilon = 1 }\n"
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3) COUNT(*) FROM people WHERE income > {}"


def some_charges(kind: Price) -> st.SearchStrategy[Charge]:
    amounts = st.integers(1, 2 * 10**9).map(lambda nano: Fraction(nano, 10**9))
    made = [amounts.map(lambda amount: pure(amount).rounded())]
    made += [amounts.map(lambda amount: concentrated(amount).rounded())] if kind.delta else []
    return st.lists(st.one_of(made), max_size=6).map(lambda charges: sum(charges, NOTHING))


@pytest.mark.parametrize("share", [PURE, MIXED], ids=str)
@given(data=st.data())
def test_what_passes_is_within_the_own_limit_and_within_the_share(share: Price, data: st.DataObject) -> None:
    before, today = data.draw(some_charges(share)), data.draw(some_charges(share))
    own = limit(Price(epsilon=data.draw(st.sampled_from([Fraction(1), Fraction(3)])), delta=share.delta * 3))
    for given_limit in (None, own):
        made = limit_today(given_limit, limit(share), before)
        if made.allows(before + today):
            assert limit(share).allows(spent_since(before + today, before))
            assert given_limit is None or given_limit.allows(before + today)
    if not share.delta:  # one account: it refuses no more than it has to
        assert limit_today(None, limit(share), before).allows(before + today) == limit(share).allows(today)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return agent_sessions.study(tmp_path, TERMS)


def connect(policy: Path, analyst: str = "robot") -> dpsql.Connection:
    return dpsql.connect(policy=policy, budget="pure", analyst=analyst)


def test_a_share_is_spent_once_a_day_and_is_there_again_the_next(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect(policy)
    for number in range(3):
        connection.execute(COUNT.format(number))
    with pytest.raises(dpsql.BudgetExhausted, match="share of robot for today has left: 10 %") as caught:
        connection.execute(COUNT.format(3))
    assert caught.value.code == "day-share" and "epsilon = 0.1" in caught.value.try_ and "midnight" in caught.value.try_
    assert connection.execute(COUNT.format(0)).answer.stored  # free
    with connect(policy, "ada") as other:  # who has no share
        for number in range(4):
            other.execute(COUNT.format(number))
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> dt.datetime:
            return tomorrow

    for module in (of_sessions, chain):
        monkeypatch.setattr(module.dt, "datetime", Clock)
    for number in range(3, 6):
        connection.execute(COUNT.format(number))
    with pytest.raises(dpsql.BudgetExhausted, match="today"):
        connection.execute(COUNT.format(6))


def test_what_is_left_of_a_day_is_shown_with_when_it_renews(policy: Path) -> None:
    """In SHOW BUDGET and in the budget of the connection, for accounts that have a share and for no others."""
    with connect(policy) as connection:
        connection.execute(COUNT.format(0))
        rows = connection.execute("SHOW BUDGET").fetchall()
        state = connection.budget()
    assert rows[1] == ("robot, today", "ε = 1 a day, renewed at 00:00 UTC", "30 %", "70 %", "about 2 more statements like the last (ε = 0.3)")
    assert [row[0] for row in rows] == ["all", "robot, today", "robot"]
    assert state.today is not None and 0 < (state.today.renews - dt.datetime.now(dt.UTC)).total_seconds() <= 86400
    assert "robot, today: 30 % spent, 70 % left" in repr(state) and "renews at 00:00 UTC" in state.as_html()
    told: Any = state.as_dict(tight=False)["today"]
    assert told["share_left"] == 0.7 and dt.datetime.fromisoformat(told["renews"]) == state.today.renews
    with connect(policy, "ada") as other:
        assert [row[0] for row in other.execute("SHOW BUDGET").fetchall()] == ["all", "ada"]
        assert other.budget().today is None and other.budget().as_dict(tight=False)["today"] is None


def test_statements_at_the_same_time_share_one_day(policy: Path) -> None:
    connect(policy).close()

    def one(number: int) -> bool:
        with connect(policy) as connection:
            try:
                connection.execute(COUNT.format(100 + number))
            except dpsql.BudgetExhausted as fault:
                assert fault.code in ("day-share", "account-busy")
                return False
            return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) <= 3
    with connect(policy) as connection:
        assert connection.session.ledger.spent("pure", "robot").epsilon == 9 * 10**8


def test_the_whole_limit_is_named_where_it_is_what_refuses(tmp_path: Path) -> None:
    policy = agent_sessions.study(tmp_path, "analysts.robot = { epsilon = 0.5 }\nagents.robot = { per_day = { epsilon = 10 } }\n".replace(
        "analysts", "[budgets.small]\nentity = 'person'\nepsilon = 10\nper_period = { epsilon = 10 }\nanalysts"))
    connection = dpsql.connect(policy=policy, budget="small", analyst="robot")
    connection.execute(COUNT.format(1))
    with pytest.raises(dpsql.BudgetExhausted, match="the budget of robot has left") as caught:
        connection.execute(COUNT.format(2))
    assert caught.value.code == "budget"


def test_tools_say_what_is_left_of_the_day_and_when_it_renews(policy: Path) -> None:
    desk = agent_sessions.desk(policy, budget="pure")
    midnight = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)
    asked = COUNT.format(1000)
    for share in (1.0, 0.7):
        catalogue, price = desk.catalogue(), desk.price(COUNT.format(2000))
        for told in (catalogue, price):
            today = told.data["today"]
            assert today["share_left"] == pytest.approx(share, abs=0.002) and today["share"] == "ε = 1" and f"{share:g}" in today["left"]
            renews = dt.datetime.fromisoformat(today["renews"])
            assert renews.utcoffset() == dt.timedelta() and renews.time() == dt.time() and renews.date() in (midnight, midnight + dt.timedelta(days=1))
            assert f"{today['left']} of ε = 1; the share renews at midnight UTC" in told.words
        if share == 1.0:
            desk.ask(asked, "to spend a part of the share")
    other = agent_sessions.desk(policy, "ada", budget="pure")
    assert other.catalogue().data["today"] is None and other.price(asked).data["today"] is None and "renews" not in other.price(asked).words
    for made in (desk, other):
        made.connection.close()
