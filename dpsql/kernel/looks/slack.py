"""Slacks: of the tightest test plus noise, and of one test after the other until some have failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpsql.cells import cell_of
from dpsql.kernel.looks import sets
from dpsql.kernel.looks.balance import patience
from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.measure import dense
from dpsql.kernel.looks.race import drawn
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.largest import Largest
from dpsql.requests import Failed, Failing, Joined, Scarce, Sides, Slack, Slackened, Test, moved, slack_of


def look(request: Slack, certificates: Sequence[Certificate], context: Context) -> Slackened:
    """The slacks of the tests, or the least of them, each with noise."""
    exact = [slack_of(sides, moved(test, certificate))
             for test, sides, certificate in zip(request.tests, read(request.tests, context), certificates, strict=True)]
    told = [min(exact)] if request.together else exact
    return Slackened(slacks=tuple(slack + drawn(request.noise, context) for slack in told))


def failing(request: Failing, certificates: Sequence[Certificate], context: Context) -> Failed:
    """Which tests fail, as long as failures may be told."""
    slacks = []
    for test, sides, certificate in zip(request.tests, read(request.tests, context), certificates, strict=True):
        rows = moved(test, certificate)
        ways = dict.fromkeys(test.ways) if request.split else {0: None}
        slacks.append({way: slack_of([side for side, own in zip(sides, test.ways, strict=True) if way in (0, own)], rows)
                       for way in ways})
    return Failed(failed=tuple(told(request, slacks, context)))


def told(request: Failing, slacks: Iterable[Mapping[int, int]], context: Context) -> list[bool]:
    """Whether each test fails, from its slacks by the way in which rows that come move them; see `Failing`."""
    limits = {way: patience(request.scale_limit, context) for way in (-1, 0, 1)}
    finest = 2 ** (len(request.limits) - 1)
    left, found = request.most * finest, []
    for ways in slacks:
        if left < finest:
            break
        price = next((finest >> j for way, slack in ways.items() for j in reversed(range(len(request.limits)))
                      if slack + limits[way] <= patience(request.scale_query * 2**j, context) + request.limits[j]), 0)
        left -= price
        found.append(price > 0)
    return found


def read(tests: Sequence[Test], context: Context) -> list[Sides]:
    """What is left to each side of every test; a plan that several share is read once, as their price is that of one reading."""
    rows: dict[int, list[tuple[Any, ...]]] = {}
    found: list[Sides] = []

    def values(listed: Largest) -> list[int]:
        return [int(value) for value in context.reader.arrays(context.sql(listed))[0]]

    for test in tests:
        if isinstance(test, Scarce):
            found.append(test.sides(_counts(test, context)))
            continue
        if isinstance(test, Joined):
            (held,), = sets.read(test.plan, (test.level,), 1, context)
            found.append(test.sides(held.value(0)))
            continue
        plan = test.plan
        if id(plan) not in rows:
            rows[id(plan)] = context.reader.rows(context.sql(plan))
        found.append(test.sides(dense(rows[id(plan)], len(plan.keys), len(plan.totals), test.cells), values))
    return found


def _counts(test: Scarce, context: Context) -> list[dict[int, int]]:
    """For each cell, how many values have so many rows."""
    found: list[dict[int, int]] = [{} for _ in test.cells]
    place = {cell_of(cell): at for at, cell in enumerate(test.cells)}
    for *cell, times, values in context.reader.rows(context.sql(test.plan)):
        at = place.get(cell_of(tuple(cell)))
        if at is not None:
            found[at][times] = found[at].get(times, 0) + values
    return found
