"""The terms of agents in a policy: read, and every mistake located."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import Price
from dpsql.errors import PolicyError

HEAD = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {}
[budgets.main]
entity = "person"
epsilon = 2
delta = 1e-6
"""


def test_terms_are_read() -> None:
    terms = parse_policy(HEAD + 'agents." Robot " = { per_day = { epsilon = 1, delta = 1e-7 }, confirm_above = { epsilon = 0.5, delta = 1e-8 } }').budgets["main"].agents
    assert list(terms) == ["robot"]
    assert terms["robot"].per_day == Price(epsilon=Fraction(1), delta=Fraction(1, 10**7))
    assert terms["robot"].confirm_above == Price(epsilon=Fraction(1, 2), delta=Fraction("1e-8"))


@pytest.mark.parametrize(("line", "reason"), [
    ("agents.robot = {}", "nothing is said of this agent"),
    ("agents.robot = { per_day = { epsilon = 1 } }", "so this needs one"),
    ("agents.robot = { confirm_above = { epsilon = 1 } }", "so this needs one"),
    ("agents.robot = { per_day = { rho = 1 } }", "same currency"),
    ("agents.robot = { per_day = { epsilon = 3, delta = 1e-7 } }", "more than the total"),
    ("agents.robot = { confirm_above = { epsilon = 3, delta = 1e-8 } }", "more than the total"),
    ("agents.robot = { per_week = { epsilon = 1 } }", "unknown here"),
    ("agents.robot = { per_day = { epsilon = -1 } }", "epsilon must be between"),
    ("agents.robot = 3", "must be a table"),
    ("agents = 3", "must be a table"),
    ('analysts = ["ada"]\nagents.robot = { confirm_above = { epsilon = 1 } }', "not among the analysts"),
    ("agents.robot = { confirm_above = { epsilon = 1, delta = 1e-8 } }\nagents.Robot = { confirm_above = { epsilon = 1, delta = 1e-8 } }", "occurs twice"),
])
def test_mistakes_are_located(line: str, reason: str) -> None:
    with pytest.raises(PolicyError, match=reason) as caught:
        parse_policy(HEAD + line)
    assert caught.value.span is not None and caught.value.span.place(caught.value.text)[0] >= 13 and caught.value.try_
