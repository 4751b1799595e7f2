"""Ranges of days that take no memory are what tuples of their days are."""

from __future__ import annotations

import datetime as dt

import pytest

from dpsql.catalog.days import KEPT_BY_ENDS, Days
from dpsql.trusted.declarations.tables import Domain

FIRST = dt.date(2019, 12, 30).toordinal()
DAYS = Days(range(FIRST, FIRST + 5))
LISTED = tuple(dt.date.fromordinal(FIRST + i) for i in range(5))


def test_it_is_the_sequence_of_its_days() -> None:
    assert tuple(DAYS) == LISTED and len(DAYS) == 5 and list(reversed(DAYS)) == list(reversed(LISTED))
    assert [DAYS[i] for i in range(-5, 5)] == [LISTED[i] for i in range(-5, 5)] and tuple(DAYS[1:3]) == LISTED[1:3]
    assert all(day in DAYS and DAYS.index(day) == i for i, day in enumerate(LISTED))
    with pytest.raises(IndexError):
        DAYS[5]


@pytest.mark.parametrize("other", [LISTED[0] - dt.timedelta(1), LISTED[4] + dt.timedelta(1), dt.datetime(2020, 1, 1), FIRST, "2020-01-01", None])
def test_nothing_else_is_in_it(other: object) -> None:
    assert other not in DAYS and other not in LISTED


def test_it_is_a_value() -> None:
    assert Days(range(FIRST, FIRST + 5)) == DAYS and hash(DAYS) == hash(Days(range(FIRST, FIRST + 5))) and DAYS[:4] != DAYS
    assert isinstance(DAYS, KEPT_BY_ENDS) and not isinstance(LISTED, KEPT_BY_ENDS) and len(Domain(DAYS)) == 5
    assert len(Days(range(1, dt.date.max.toordinal() + 1))) == 3_652_059
