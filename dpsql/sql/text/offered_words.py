"""Words that are offered to whoever writes a statement, in a shell or in a browser: all of them are public."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice

from dpsql.trusted.plan.expr.functions import TABLE

MOST_VALUES = 1000  # of a column
_WRITTEN = """
SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL INNER CROSS ON USING AS AND OR NOT IN IS NULL
BETWEEN LIKE EXISTS CASE WHEN THEN ELSE END CAST WITH UNION ALL INTERSECT EXCEPT QUALIFY WINDOW OVER PARTITION ROLLUP CUBE FILTER
COUNT SUM AVG MIN MAX MEDIAN STDDEV VARIANCE MODE QUANTILE_CONT CORR ASC DESC TRUE FALSE DATE
SHOW TABLES BUDGET PERIODS RELEASES DESCRIBE EXPLAIN PRIVACY VALIDATE AGAINST WITHIN PERCENT ERROR STANDARD CONFIDENCE
CREATE SYNTHETIC TABLE STANDING QUERY QUERIES DROP
"""
KEYWORDS = tuple(_WRITTEN.split())
CALLED = re.compile(r"'[^']*'|(\w+)\(")  # words within texts call nothing


@cache
def function_names() -> tuple[str, ...]:
    """The names under which scalar functions are called, sorted."""
    called = {name for row in TABLE.values() for way in row.written for name in CALLED.findall(way) if name}
    return tuple(sorted(name.lower() for name in called if name.upper() not in KEYWORDS))


def listed_texts(values: Iterable[object]) -> Iterator[str]:
    """The texts among the declared values of a column, without those that cannot be displayed unchanged."""
    yield from (value for value in islice(values, MOST_VALUES) if isinstance(value, str) and value.isprintable())
