"""The rows of one cell of a GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.mechanisms.base import Shared
from dpsql.plan.expr.nodes import Call, Literal, Value
from dpsql.plan.operators.filter import Filter
from dpsql.types import Type


def in_cell(task: Shared, keys: Sequence[str], cell: Sequence[Value]) -> Shared:
    """The task over the rows whose keys have these values; NULL is a value here."""
    input_ = task.input
    for key, value in zip(keys, cell, strict=True):
        ref = input_.field(key).ref
        same = Call(function="is not distinct from", args=(ref, Literal(value=value, type=ref.type)), type=Type.BOOLEAN)
        input_ = Filter(input=input_, condition=same)
    return replace(task, input=input_)
