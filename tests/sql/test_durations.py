"""Durations as values of parameters, and as texts that are cast to INTERVAL."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from support import postgres, worlds
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import DataError, Error, SqlError
from dpsql.sql.text.durations import Duration, read_duration

TEXTS = ["1 day", "1 year 2 mons -3 days 04:05:06", "-1 mon", "@ 1 hour 30 mins ago", "P1Y2M3DT4H5M6S", "PT36H", "P2W", "1.5 seconds", "-00:00:01", "25:00", "2 weeks", "1 decade",
         "1 days 0.000000 seconds", "0 years 0 mons 3 days 0 hours 0 mins 0.0 secs", "10 day 3600.000000 second", "-0.5 sec", "3 d", "1y 1mon"]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_read_as_postgresql_reads_them(text: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.fresh().uri) as connection:
        theirs = connection.execute("SELECT EXTRACT(year FROM x) * 12 + EXTRACT(month FROM x), EXTRACT(day FROM x), "
                                    "EXTRACT(hour FROM x) * 3600000000 + EXTRACT(minute FROM x) * 60000000 + EXTRACT(microsecond FROM x) "
                                    "FROM (SELECT %s::interval AS x) AS t", [text]).fetchone()
    assert theirs is not None and read_duration(text) == Duration(months=int(theirs[0]), days=int(theirs[1]), microseconds=int(theirs[2]))


@pytest.mark.parametrize("text", ["", "x", "1", "day", "1 dayz", "1 day 2", "P", "PT", "1:70", "1.5 days x", "1.5 months", "1 day; DROP"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert read_duration(text) is None


@pytest.mark.parametrize(("written", "with_duration", "value"), [
    ("born + INTERVAL 1 DAY", "born + $1", dt.timedelta(days=1)), ("born + INTERVAL 1 DAY", "$1 + born", dt.timedelta(days=1)),
    ("born - INTERVAL 1 DAY", "born - $1::interval", "1 day"), ("born + INTERVAL 2 YEAR", "born + $1", Duration(months=24)),
    ("born + INTERVAL 5 MONTH", "born + $1", Duration(months=5)), ("born + INTERVAL 90 MINUTE", "born + $1", dt.timedelta(minutes=90)),
    ("born + INTERVAL 1 MONTH + INTERVAL 3 DAY", "born + $1", Duration(months=1, days=3)), ("born + INTERVAL 1 DAY", "born + '1 days'::interval", None),
    ("born + INTERVAL 1200 DAY + INTERVAL 10 DAY", "born + $1", dt.timedelta(days=1210)),
])
def test_they_are_the_question_with_a_constant_interval(written: str, with_duration: str, value: Any, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path, worlds.world(20), noise=Exact())) as connection:
        first = connection.execute(f"SELECT COUNT(*) FROM people WHERE {written} > DATE '1980-01-01'").fetchall()
        again = connection.execute(f"SELECT COUNT(*) FROM people WHERE {with_duration} > DATE '1980-01-01'", () if value is None else (value,))
        assert again.answer is not None and again.answer.stored and again.fetchall() == first


@pytest.mark.parametrize(("text", "value", "kind"), [
    ("born + $1::interval > born", "x", SqlError), ("age + $1 > 3", dt.timedelta(days=1), SqlError), ("age > $1", dt.timedelta(days=1), DataError),
    ("born + $1 > born", dt.timedelta(microseconds=1), Error), ("born + $1 > born", dt.timedelta(days=999_999), Error), ("$1 - born > born", dt.timedelta(days=1), Error)])
def test_other_uses_are_refused(text: str, value: Any, kind: type[Error], tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection, pytest.raises(kind):
        connection.execute(f"SELECT COUNT(*) FROM people WHERE {text}", (value,))


def test_a_fraction_of_an_hour_is_added_in_steps() -> None:
    assert list(Duration(microseconds=90_061 * 10**6).steps(1200)) == [("hour", 25), ("minute", 1), ("second", 1)]
    assert list(Duration(microseconds=-90_061 * 10**6).steps(1200)) == [("hour", -25), ("minute", -1), ("second", -1)]
    assert list(Duration().steps(1200)) == [("day", 0)]
