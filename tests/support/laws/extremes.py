"""A database with the oddest values there are, all of one person; and that person's neighbours."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
from support.policies import policy_of

from dpsql.backends.duckdb import DuckReader, lock_down

POLICY = policy_of("people", """
sex = { values = ["f", "m"] }
x = { bounds = [-10, 10] }
word = {}
""", """
[tables.things]
key = "thing"
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 6
[tables.things.columns]
thing = {}
id = {}
big = {}
tiny = { range = [-5, 5] }
huge = { bounds = [-1e6, 1e6] }
wide = {}
x = { bounds = [-10, 10] }
y = { bounds = "search" }
d = { bounds = [0, 100] }
s = {}
day = { range = [2000-01-01, 2000-03-31] }
seen = { bounds = [2000-01-01T00:00:00, 2001-01-01T00:00:00] }
b = {}
kind = { values_from = "kinds.kind" }
[tables.notes]
foreign_keys = [{ columns = "id", references = "people(id)" }]
[tables.notes.columns]
id = {}
n = { bounds = [-3, 3] }
s = {}
[tables.kinds]
public = true
[tables.kinds.columns]
kind = {}
v = {}
day = {}
""", price="epsilon = 1000\ndelta = 0.1")

SCHEMA = {
    "people": "id BIGINT PRIMARY KEY, sex VARCHAR, x DOUBLE, word VARCHAR",
    "things": "thing BIGINT PRIMARY KEY, id BIGINT, big BIGINT, tiny TINYINT, huge HUGEINT, wide UBIGINT, x DOUBLE, y FLOAT, "
              "d DECIMAL(18,3), s VARCHAR, day DATE, seen TIMESTAMP, b BOOLEAN, kind VARCHAR",
    "notes": "id BIGINT, n BIGINT, s VARCHAR",
    "kinds": "kind VARCHAR, v DOUBLE, day DATE",
}
KINDS = [("a", 1.5, dt.date(2000, 1, 1)), ("b", -0.0, None), ("b", float("nan"), dt.date(2000, 2, 1)), (None, None, None)]
ODD = -(2**63)
LONG = "ü" * 3000 + "%_\\'\";--\x7f"
STRINGS = ("", " ", "%", "_", "\\", "'", '"', "NaN", "inf", "1e999", "-0", "99999999999999999999", "0x1F", "2000-13-45",
           "infinity", "epoch", "294247-01-10", "true", "NULL", "\n\t", LONG, "ﬀ", "İ", "é", "a\u0301", "🙂" * 50,
           "[a-z", "(?i)x", "$1")

# Values of a row of `things` after its keys, as SQL: big, tiny, huge, wide, x, y, d, s, day, seen, b, kind.
TAME = "3, 1, 5, 7, 2.5, 1.25, 10.5, 'a', '2000-01-15', '2000-01-15 10:00:00', true, 'a'"
ODDS = (
    "-9223372036854775808, -128, -170141183460469231731687303715884105728, 18446744073709551615, 'nan', 'nan', "
    "-999999999999999.999, '', 'infinity', 'infinity', NULL, NULL",
    "9223372036854775807, 127, 170141183460469231731687303715884105727, 0, 'inf', 'inf', 999999999999999.999, 'NaN', "
    "'-infinity', '-infinity', false, 'zzz'",
    "0, 0, 0, 0, -0.0, -0.0, 0, '99999999999999999999', '5000000-01-01', '290000-12-31 23:59:59', true, ''",
    "NULL, NULL, NULL, NULL, '-inf', '-inf', NULL, NULL, NULL, NULL, NULL, NULL",
    "-1, -1, -1, 1, 1.7976931348623157e308, 3.4e38, 0.001, '1e999', '0044-03-15 (BC)', '0044-03-15 (BC) 00:00:00', true, 'b'",
    "1, 1, 1, 1, 5e-324, 1e-45, -0.001, 'infinity', '9999-12-31', '9999-12-31 23:59:59.999999', false, 'a'",
    "2, 2, 2, 2, -1.7976931348623157e308, -3.4e38, 1, '2000-02-30', '0001-01-01', '0001-01-01 00:00:00', true, 'b'",
)


def database(*, tame: int, odd: bool) -> DuckReader:
    """So many ordinary people, and perhaps the odd one."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for table, columns in SCHEMA.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.executemany("INSERT INTO kinds VALUES (?, ?, ?)", KINDS)
    for i in range(tame):
        _add(connection, i, "f" if i % 2 else "m", float(i), "w", [TAME, TAME.replace("'a'", "'b'")], [(i % 3, "n")])
    if odd:
        _add(connection, ODD, "weird", float("nan"), LONG, ODDS, [(ODD, text) for text in STRINGS])
    lock_down(connection)
    return DuckReader(connection, "v1")


def _add(connection: Any, key: int, sex: str, x: float, word: str, things: Any, notes: list[tuple[int, str]]) -> None:
    connection.execute("INSERT INTO people VALUES (?, ?, ?, ?)", [key, sex, x, word])
    (count,) = connection.execute("SELECT COUNT(*) FROM things").fetchone()
    for i, values in enumerate(things):
        connection.execute(f"INSERT INTO things VALUES ({count + i}, ?, {values})", [key])
    connection.executemany("INSERT INTO notes VALUES (?, ?, ?)", [(key, n, text) for n, text in notes])
