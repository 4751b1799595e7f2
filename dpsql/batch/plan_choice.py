"""The choice of the plan that answers a group: the best one known, or the one that is named.

A name is that of a fixed strategy of `strategies.all_strategies`, or that of another kind of plan in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from dpsql.batch import dawa, privtree
from dpsql.batch.group import Group, GroupPlan
from dpsql.batch.measured import MeasuredGroup, check_room, chosen
from dpsql.errors import OptionError
from dpsql.strategies.all_strategies import GAUSSIAN, LAPLACE, Verdict, attempted
from dpsql.strategies.strategy import Refusal
from dpsql.types import Span

Maker: TypeAlias = Callable[[Group], GroupPlan | Refusal]

KINDS: dict[str, Maker] = {dawa.NAME: dawa.plan, privtree.NAME: privtree.plan}
"""Plans that are not fixed strategies, by name; they work in either account."""

NAMES = (*dict.fromkeys([*GAUSSIAN, *LAPLACE]), *KINDS)


def planned(group: Group, name: str, span: Span | None) -> GroupPlan:
    """The plan with this name for a group, or the best one for 'auto'. Raises OptionError, located at the option, if it is not
    suitable, and Unsupported if there is none."""
    if name in KINDS:
        made = KINDS[name](group)
        if isinstance(made, Refusal):
            raise _refused(name, made.because, span)
        return made
    plans = LAPLACE if group.pure else GAUSSIAN
    if name == "auto":
        strategy, verdicts = chosen(group, np.ones(group.workload.rows) if group.even else None, plans)
        return MeasuredGroup(group=group, strategy=strategy, verdicts=verdicts)
    found = attempted(partial(plans[name], group.smaller.workload, None), partial(check_room, group.smaller))
    if isinstance(found, Refusal):
        raise _refused(name, found.because, span)
    return MeasuredGroup(group=group, strategy=found, verdicts=(Verdict(name=name, strategy=found, because=""),))


def takes(name: str, *, pure: bool) -> bool:
    """Whether the plan with this name can be paid for with a pure epsilon (if `pure`), or else with rho."""
    return name == "auto" or name in KINDS or name in (LAPLACE if pure else GAUSSIAN)


def _refused(name: str, because: str, span: Span | None) -> OptionError:
    return OptionError(f"the strategy {name!r} cannot be used for this workload: {because}", code="strategy", subject="strategy",
                       span=span, try_="strategy = 'auto'")
