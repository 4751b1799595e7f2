"""Requests as the kernel takes them: copied, and checked against their description."""

from __future__ import annotations

from typing import Any

from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.types import Type

ROWS = Constants(columns=(Field(id="n", name="n", facts=Facts(type=Type.BIGINT)),), rows=((1,),))
"""A relation, where a test does not care of what."""


def cost_of(request: Any, *certificates: Certificate) -> Cost:
    """What a request costs. Raises TypeError or ValueError where the kernel would refuse it."""
    cost: Cost = copied_request(request).cost(*certificates)
    return cost
