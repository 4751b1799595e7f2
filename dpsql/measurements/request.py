"""What every measurement has: the plans that it reads, its cost, and its release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from dpsql.accounting.cost import Cost
from dpsql.plan.node import Summary

Release: TypeAlias = Any  # a frozen value of the measurement's own file


class Request(Protocol):
    """A measurement that is asked for. `cost` takes a certificate for each plan; `release` what is at hand and the same."""

    @property
    def plans(self) -> tuple[Summary, ...]: ...

    @property
    def cost(self) -> Callable[..., Cost]: ...

    @property
    def release(self) -> Callable[..., Release]: ...


class OfOnePlan:
    """A measurement that reads one plan."""

    __slots__ = ()
    plan: Summary

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.plan,)
