"""A small database with every kind of table, and statements over it whose requests have every class that the kernel takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from oracle.worlds import Hangs, Row, Table, World

PEOPLE = {"id": "INTEGER", "g": "VARCHAR", "n": "INTEGER", "w": "INTEGER", "x": "DOUBLE", "k": "BIGINT", "f": "BOOLEAN", "d": "DATE", "s": "VARCHAR"}
VISITS = {"vid": "BIGINT", "id": "INTEGER", "g": "VARCHAR", "n": "INTEGER", "w": "INTEGER", "x": "DOUBLE", "k": "BIGINT", "d": "DATE"}
EDGES = {"a": "INTEGER", "b": "INTEGER", "g": "VARCHAR", "n": "INTEGER", "x": "DOUBLE"}
TOLD = {"g": '{ values = ["a", "b"] }', "n": "{ range = [0, 3] }", "w": "{ range = [1, 3] }", "x": "{ bounds = [-10, 10] }", "k": "{ bounds = [0, 1000] }",
        "f": "{}", "d": "{ range = [2000-01-01, 2000-01-04] }", "s": "{}", "id": "{}", "vid": "{}"}
OF_A_PERSON = Hangs(columns=("id",), table="people", references=("id",))
ENDS = tuple(Hangs(columns=(end,), table="people", references=("id",)) for end in "ab")


def _table(name: str, columns: dict[str, str], **more: object) -> Table:
    return Table(name=name, columns=columns, declared={column: TOLD.get(column, "{}") for column in columns}, **more)  # type: ignore[arg-type]


def _rows(*rows: str) -> tuple[Row, ...]:
    return tuple(tuple(value.strip() for value in row.split("|")) for row in rows)


TABLES = (
    _table("people", PEOPLE, key=("id",)),
    _table("visits", VISITS, key=("vid",), hangs=(OF_A_PERSON,), limits=("rows_per_entity = 3",)),
    _table("edges", EDGES, hangs=ENDS),
    _table("places", {"g": "VARCHAR", "n": "INTEGER", "w": "INTEGER"}, public=True),
    *(Table(name=f"{name}_syn", columns=columns, declared=dict.fromkeys(columns, "{}"), public=True)
      for name, columns in (("people", PEOPLE), ("visits", VISITS), ("edges", EDGES))))
ROWS: dict[str, tuple[Row, ...]] = {
    "people": _rows("1 | 'a' | 0 | 2 |  1.5 |    5 | TRUE  | DATE '2000-01-01' | 'x'",
                    "2 | 'b' | 3 | 3 | 10.0 | 1000 | FALSE | DATE '2000-01-02' | 'y'",
                    "3 | 'a' | 1 | 1 | -2.5 |    0 | NULL  | NULL              | 'only'",
                    *(f"{i} | 'b' | {3 if i % 4 else 0} | {1 + i % 3} | 4.0 | 7 | TRUE | DATE '2000-01-02' | 'y'" for i in range(4, 20))),
    "visits": _rows("10 | 1 | 'a'  | 1    | 2 |  1.0 |    2 | DATE '2000-01-01'", "11 | 1 | 'b' | 3 | 3 | 10.0 | 1000 | DATE '2000-01-02'",
                    "12 | 2 | 'b'  | 2    | 1 | -2.5 |    7 | DATE '2000-01-02'", "13 | 3 | 'a' | 0 | 2 | 10.0 | 1000 | DATE '2000-01-01'",
                    "14 | 3 | NULL | NULL | 3 |  0.5 | 1000 | NULL             ", "15 | 3 | 'c' | 3 | 1 | 10.0 | 1000 | DATE '2000-01-04'",
                    "16 | 3 | 'a'  | 3    | 2 |  9.0 |    1 | DATE '2000-01-03'"),
    "edges": _rows("1 | 2 | 'a' | 0 | 1.0", "2 | 1 | 'a' | 0 | 1.0", "3 | 1 | 'a' | 3 | -10.0", "3 | 2 | 'b' | 3 | 10.0",
                   "1 | 3 | 'b' | 1 | 9.0", "3 | 3 | 'a' | 2 | 10.0"),
    "places": _rows("'a' | 0 | 1", "'b' | 3 | 2", "'b' | 1 | 5"),
    "people_syn": _rows("7 | 'a' | 0 | 2 | 1.0 | 5 | TRUE | DATE '2000-01-01' | 'x'", "8 | 'b' | 3 | 3 | 2.0 | 9 | FALSE | DATE '2000-01-02' | 'y'"),
    "visits_syn": _rows("1 | 7 | 'a' | 1 | 2 | 1.0 | 5 | DATE '2000-01-01'", "2 | 7 | 'b' | 3 | 3 | 2.0 | 7 | DATE '2000-01-02'",
                        "3 | 8 | 'b' | 2 | 1 | 9.0 | 9 | DATE '2000-01-02'"),
    "edges_syn": _rows("7 | 8 | 'a' | 0 | 1.0", "8 | 8 | 'a' | 2 | 1.0")}


class Few(World):
    """A world of which only the first three entities are removed, one at a time; the others are a crowd of plain rows."""

    def neighbours(self) -> Iterator[tuple[str, World]]:
        yield from islice(super().neighbours(), 3)


SMALL = Few(tables={table.name: table for table in TABLES}, entities={"person": ("people", "id")}, rows=ROWS,
              budget="epsilon = 1000\ndelta = 0.1")
"""Three entities: one that has more rows than the limit and values at the bounds, and two that are plainer."""


def private(options: str, rest: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"


def validate(query: str, table: str, options: str, width: str = "1") -> str:
    return f"VALIDATE ({query}) WITHIN {width} AGAINST {table}_syn FOR {table} WITHIN 5 OPTIONS ({options})"


STATEMENTS: Sequence[tuple[str, ...]] = tuple((text,) for text in (
    # sums, over every operator
    private("epsilon = 1", "COUNT(*), SUM(n) FROM people"),
    private("rho = 1, max_rows = 2", "g, COUNT(*), SUM(x) FROM visits GROUP BY g"),
    private("epsilon = 1", "VAR_POP(x), AVG(k) FROM people"),
    private("rho = 0.5", "n, COUNT(DISTINCT id) FROM visits GROUP BY n"),
    private("epsilon = 1, clip = 5", "g, SUM(x) FROM visits GROUP BY g"),
    private("rho = 1, clip = 5", "g, SUM(x) FROM visits GROUP BY g"),
    private("epsilon = 1, bound = 'clip'", "SUM(x) FROM visits"),
    private("epsilon = 1, bound = 'rows'", "SUM(x), COUNT(*) FROM visits"),
    private("epsilon = 1", "COUNT(*) FROM people WHERE id IN (SELECT id FROM visits WHERE n > 1)"),
    private("epsilon = 1", "SUM(x) FROM visits AS t WHERE (SELECT COUNT(*) FROM people AS p WHERE p.id = t.id) > 0"),
    private("epsilon = 1", "COUNT(*) FROM (SELECT id, MAX(k) OVER (PARTITION BY id ORDER BY vid ROWS 1 PRECEDING) AS a FROM visits) AS q WHERE a < 9"),
    private("epsilon = 1", "COUNT(*) FROM (SELECT id, LAG(k) OVER (PARTITION BY id ORDER BY vid) AS a FROM visits) AS q WHERE a < 9"),
    private("rho = 1", "SUM(n) FROM (SELECT id, n FROM people UNION ALL SELECT id, n FROM visits) AS t"),
    private("rho = 1", "COUNT(*) FROM (SELECT id, n FROM people EXCEPT SELECT id, n FROM visits) AS t"),
    private("epsilon = 1", "t.g, COUNT(*) FROM visits AS t JOIN (VALUES ('a', 0), ('b', 1)) AS v(g, w) ON t.g = v.g GROUP BY t.g"),
    private("epsilon = 1", "COUNT(*), SUM(t.x) FROM visits AS t JOIN people AS p ON t.id = p.id WHERE p.f"),
    private("epsilon = 1", "COUNT(*) FROM people AS p FULL JOIN visits AS t USING (id)"),
    private("epsilon = 1, max_rows = 4", "SUM(n), COUNT(*) FROM (SELECT DISTINCT ON (id, d) id, d, n FROM visits ORDER BY id, d, vid) AS t"),
    private("epsilon = 1", "AVG(m) FROM (SELECT id, least(greatest(COUNT(*), 0), 9) AS m FROM visits GROUP BY id) AS t"),
    private("epsilon = 1", "COUNT(DISTINCT g), MODE(g) FROM people"),
    private("epsilon = 1", "COUNT(DISTINCT s) FROM people"),
    private("epsilon = 1, max_rows = 2", "COUNT(DISTINCT k) FROM visits"),
    # choices
    private("epsilon = 1", "MEDIAN(n), quantile_cont(n, 0.25) FROM people"),
    private("rho = 1, max_rows = 2", "g, MEDIAN(n) FROM visits GROUP BY g"),
    private("epsilon = 1, max_rows = 2", "MIN(n), MAX(k) FROM visits"),
    private("epsilon = 1, mechanism = 'permute_and_flip'", "MEDIAN(n) FROM people"),
    private("epsilon = 1", "quantile_disc(n, [0.25, 0.5, 0.75]) FROM people"),
    private("epsilon = 1, delta = 0.01, mechanism = 'smooth_sensitivity'", "MEDIAN(n) FROM people"),
    private("epsilon = 1, delta = 0.01, mechanism = 'smooth_sensitivity'", "g, MEDIAN(x) FROM people GROUP BY g"),
    private("epsilon = 1, delta = 0.01", "s, COUNT(*), AVG(n) FROM people GROUP BY s"),
    private("epsilon = 1, delta = 0.01, max_rows = 2", "k, COUNT(*) FROM visits GROUP BY k"),
    private("epsilon = 1, delta = 0.01, mechanism = 'gaussian_threshold'", "s, COUNT(*) FROM people GROUP BY s"),
    # rows of several entities
    private("epsilon = 1", "COUNT(*) FROM edges"),
    private("epsilon = 1, delta = 1e-6", "g, SUM(x) FROM edges GROUP BY g"),
    private("rho = 1, bound = 'r2t'", "SUM(x) FROM edges"),
    private("rho = 1, bound = 'r2t'", "g, COUNT(*) FROM edges GROUP BY g"),
    private("rho = 1, bound = 'recursive'", "COUNT(*) FROM edges"),
    private("epsilon = 1, bound = 'removals'", "SUM(n), COUNT(*) FROM edges"),
    private("rho = 1, bound = 'removals'", "g, SUM(x) FROM edges GROUP BY g"),
    private("epsilon = 1, bound = 'residual'", "SUM(t.x) FROM visits AS t JOIN people AS p ON t.n = p.n"),
    private("epsilon = 1, bound = 'elastic'", "COUNT(*) FROM visits AS t JOIN people AS p ON t.g = p.g"),
    private("epsilon = 1, bound = 'frequency'", "COUNT(*) FROM visits AS t JOIN people AS p ON t.g = p.g"),
    private("rho = 1, bound = 'projection'", "COUNT(*) FROM (SELECT a AS o, COUNT(*) AS n FROM edges GROUP BY a) AS q"),
    private("epsilon = 1, bound = 'flow'", "n, COUNT(*) FROM (SELECT a AS o, COUNT(*) AS n FROM edges GROUP BY a) AS q GROUP BY n"),
    # blocks
    private("epsilon = 1, strategy = 'independent'", "g, n, COUNT(*) FROM people GROUP BY CUBE (g, n)"),
    private("rho = 1, strategy = 'convex'", "g, n, COUNT(*) FROM people GROUP BY g, n"),
    private("epsilon = 1, strategy = 'haar'", "n, SUM(x) FROM people GROUP BY n"),
    private("epsilon = 1, strategy = 'hierarchy', max_rows = 2", "n, COUNT(*) FROM visits GROUP BY n"),
    private("epsilon = 1, strategy = 'privtree'", "n, w, COUNT(*) FROM people GROUP BY n, w"),
    private("rho = 1, strategy = 'privtree', max_rows = 2", "n, w, COUNT(*) FROM visits GROUP BY n, w"),
    private("epsilon = 1, strategy = 'dawa'", "n, COUNT(*) FROM visits GROUP BY n"),
    # tests
    *(validate("SELECT COUNT(*) FROM people WHERE n < 2", "people", options) for options in ("epsilon = 1", "epsilon = 1, decider = 'naive_coin'")),
    validate("SELECT SUM(n) FROM visits", "visits", "epsilon = 1, max_rows = 2"),
    validate("SELECT SUM(n) FROM visits", "visits", "epsilon = 1, max_rows = 2, decider = 'svt'"),
    validate("SELECT COUNT(DISTINCT s) FROM people", "people", "epsilon = 1, decider = 'flip_distance'"),
    validate("SELECT COUNT(*) FROM edges", "edges", "epsilon = 4, delta = 1e-6"),
    validate("SELECT SUM(n) FROM edges WHERE g = 'a'", "edges", "epsilon = 4"),
    validate("SELECT n, COUNT(*) FROM visits GROUP BY n", "visits", "epsilon = 1, max_rows = 2"),
    "VALIDATE (SELECT COUNT(*) FROM people WHERE f) WITHIN 1, (SELECT COUNT(*) FROM people WHERE n = 0) WITHIN 1, "
    "(SELECT COUNT(DISTINCT g) FROM people) WITHIN 1 AGAINST people_syn FOR people WITHIN 5 OPTIONS (epsilon = 1)",
    "VALIDATE (SELECT COUNT(*) FROM people WHERE f) WITHIN 1, (SELECT COUNT(*) FROM people WHERE n = 0) WITHIN 1, "
    "(SELECT COUNT(*) FROM visits) WITHIN 2 AGAINST people_syn FOR people, visits_syn FOR visits WITHIN 5 OPTIONS (epsilon = 1, suite = 'sparse')",
    # synthesis
    *(f"CREATE SYNTHETIC TABLE made_{i} AS SELECT g, n, f FROM people OPTIONS ({options})" for i, options in enumerate((
        "epsilon = 60, method = 'aim'", "epsilon = 60, method = 'mwem'", "epsilon = 1, method = 'dualquery'", "epsilon = 60, method = 'privbayes'",
        "epsilon = 60, method = 'privbayes', score = 'mutual information'", "rho = 60, method = 'mst'", "rho = 60"))),
    "CREATE SYNTHETIC TABLE made_of_bins AS SELECT g, x, f FROM people OPTIONS (epsilon = 200, method = 'mst', bins = 8)",
)) + (
    ("CREATE ONLINE MODEL m1 AS SELECT g, n FROM people OPTIONS (epsilon = 1, updates = 3)", "SELECT g, COUNT(*) FROM m1 GROUP BY g"),
    ("CREATE ONLINE MODEL m2 AS SELECT g FROM people OPTIONS (rho = 1, updates = 2)", "SELECT COUNT(*) FROM m2"),
    ("CREATE ONLINE MODEL m3 AS SELECT g FROM people OPTIONS (epsilon = 4, method = 'net')",))
