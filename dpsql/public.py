"""Statements over public tables only: answered exactly, and free."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np

from dpsql.cells import Cells, sort_key
from dpsql.estimates import Estimate, constant
from dpsql.plan.node import Node
from dpsql.plan.operators.statistics import Statistics
from dpsql.plan.question import Question
from dpsql.sql.world import PublicTables


def exact(question: Question, view: Node, public: PublicTables) -> tuple[Cells, dict[str, Estimate]]:
    """The groups that a public view has, and its aggregates over them."""
    keys = tuple(key.column for key in question.keys)
    rows = public.public_rows(Statistics(input=view, keys=keys, calls=question.aggregates))
    rows.sort(key=lambda row: sort_key(row[: len(keys)]))
    columns = {call.id: constant(np.array([_number(row[len(keys) + i]) for row in rows], dtype=np.float64))
               for i, call in enumerate(question.aggregates)}
    return tuple(tuple(row[: len(keys)]) for row in rows), columns


def _number(value: object) -> float:
    if isinstance(value, dt.date):
        return value.toordinal()
    return float(value) if isinstance(value, int | float) else math.nan
