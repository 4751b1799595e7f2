"""Who asked what, from which budget, and when: the head of a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from dpsql.answers.html_page import code, facts, folded
from dpsql.answers.spending import Spending
from dpsql.frozen import Frozen, field


class Asked(Frozen):
    """When and by whom a page was asked for.

    statements  their texts, one or, of a workload, several
    values      of their parameters, as text
    spending    the budget with its accounts, after the statement
    policy      what identifies the version of the policy
    at          the time of the page
    plan        what EXPLAIN PRIVACY says
    expected    the expected standard error of each aggregate, None if it depends on private rows
    about       further facts
    """

    statements: tuple[str, ...]
    spending: Spending
    policy: str
    at: dt.datetime
    values: str = ""
    plan: str = field(default="", repr=False)
    expected: tuple[float | None, ...] = ()
    about: tuple[tuple[str, str], ...] = ()

    def head(self, cost: str) -> str:
        """The facts at the top of a page; `cost` is the amount charged, in words."""
        spending = self.spending
        left = [("left" if account.whose is None else f"left for {account.whose}", account.words())
                for account in spending.accounts]
        return facts([("asked by", spending.analyst), *self.about, ("parameters", self.values),
                      ("budget", f"{spending.budget}, which protects each {spending.entity}"),
                      ("policy", f"version {self.policy[:12]}" if self.policy else ""), ("date", day_and_minute(self.at)),
                      ("cost", cost), *left])

    def foot(self, measured: Sequence[str] = ()) -> str:
        """The foot of a page: notes on how it was measured, and the plan, folded."""
        text = "\n".join([*measured, *([self.plan] if self.plan else [])])
        return folded(f"How it was measured, and what protects each {self.spending.entity}", code(text)) if text else ""


def day_and_minute(at: dt.datetime) -> str:
    """A time as people read it, in UTC."""
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
