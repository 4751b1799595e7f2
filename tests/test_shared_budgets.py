"""Statements in epsilon and in rho share one budget: what is answered, refused, advised and told, through the public face."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.dbapi import Connection
from dpsql.demo import folder

BUDGETS = """
[budgets.main]
entity = "person"
epsilon = 20
delta = 1e-6
per_period = { epsilon = 20, delta = 1e-6 }
per_statement = { epsilon = 1 }

[budgets.main.analysts]
bea = { epsilon = 5, delta = 1e-6 }

[budgets.pure]
entity = "person"
epsilon = 2
per_period = { epsilon = 2 }
"""
ABOVE, WITHIN = "SELECT COUNT(*) FROM people WHERE income > ", "SELECT COUNT(*) FROM people ERROR WITHIN 50 CONFIDENCE 0.95"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policy = folder.export(tmp_path_factory.mktemp("exported") / "demo")
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text[:text.index("[budgets")] + BUDGETS, encoding="utf-8")
    return policy


@pytest.fixture
def policy(exported: Path, tmp_path: Path) -> Path:
    """A copy with an empty ledger."""
    for file in exported.parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / exported.name


@pytest.fixture
def ada(policy: Path) -> Iterator[Connection]:
    with dpsql.connect(policy=policy, budget="main", analyst="ada") as connection:
        yield connection


def answered(connection: Connection, most: int = 30) -> int:
    for number in range(most):
        try:
            connection.execute(f"{ABOVE}{number}")
        except dpsql.BudgetExhausted:
            return number
    return most


def test_an_accuracy_does_not_halve_what_is_left(ada: Connection) -> None:
    ada.execute(WITHIN)
    assert answered(ada) == 19
    state = ada.budget()
    assert state.tight is not None and state.tight <= 20, "what is reported is no more than what is allowed"


@pytest.mark.parametrize("before", [1, 9, 12, 18])
def test_when_it_is_asked_does_not_matter(before: int, ada: Connection) -> None:
    answered(ada, before)
    ada.execute(WITHIN)
    assert answered(ada) == 19


def test_what_is_told_is_what_happens(ada: Connection) -> None:
    (account,) = ada.budget().accounts
    assert account.more is None and ada.execute("SHOW BUDGET").fetchall()[0][2:5] == ("0 %", "100 %", "")
    ada.execute(WITHIN)
    answered(ada, 5)
    spent, left, more = ada.execute("SHOW BUDGET").fetchall()[0][2:]
    assert (left, more) == (f"{100 - float(spent[:-2]):g} %", "about 14 more statements like the last (ε = 1)")
    state = ada.budget().as_dict()["accounts"]
    assert isinstance(state, list) and state[0]["more_like_the_last"] == 14 and state[0]["share_left"] == float(left[:-2]) / 100
    explained = str(ada.explain(f"{ABOVE}99"))
    assert f"({left} of the budget)" in explained
    assert answered(ada) == 5 + 14
    assert ada.execute("SHOW BUDGET").fetchall()[0][4] == "about 0 more statements like the last (ε = 1)"


def test_advice_is_taken(ada: Connection) -> None:
    ada.execute(WITHIN)
    answered(ada)
    for text, take in ((f"{ABOVE}77", lambda advice: f"SELECT WITH DIFFERENTIAL_PRIVACY {advice} {ABOVE[7:]}77"),
                       (f"{ABOVE}78 ERROR WITHIN 1 CONFIDENCE 0.95", lambda advice: f"{ABOVE}78 {advice}")):
        with pytest.raises(dpsql.BudgetExhausted) as caught:
            ada.execute(text)
        assert re.search("has left: (less than )?[0-9.]+ %", caught.value.reason)
        advice = re.search(r"OPTIONS \(epsilon = [\d.]+\)|ERROR WITHIN [\d.]+ CONFIDENCE 0.95", caught.value.try_)
        assert advice is not None
        ada.execute(take(advice[0]))


def test_many_statements_are_priced_together(ada: Connection) -> None:
    ada.execute(WITHIN)
    with pytest.raises(dpsql.BudgetExhausted, match=r"has left, [0-9.]+ %; none was run"):
        ada.cursor().executemany(f"{ABOVE}?", [[number] for number in range(20)])
    assert ada.budget().statements == 1
    ada.cursor().executemany(f"{ABOVE}?", [[number] for number in range(19)])
    assert ada.budget().statements == 20


def test_limits_of_analysts_are_kept_alike(policy: Path, ada: Connection) -> None:
    with dpsql.connect(policy=policy, budget="main", analyst="bea") as bea:
        bea.execute(WITHIN)
        assert answered(bea) == 4
        assert [account.more for account in bea.budget().accounts] == [15, 0]
    (account,) = ada.budget().accounts
    assert account.more is None, "the last answer of somebody else is not told"
    assert answered(ada) == 15


def test_pure_budgets_are_as_they_were(policy: Path) -> None:
    with dpsql.connect(policy=policy, budget="pure", analyst="ada", epsilon=0.5) as connection:
        connection.execute(f"{ABOVE}1")
        assert connection.execute("SHOW BUDGET").fetchall()[0] == ("all", "ε = 2", "25 %", "75 %", "about 3 more statements like the last (ε = 0.5)")
        assert connection.budget().accounts[0].left() == "75 %, about 3 more statements like the last (ε = 0.5)"
