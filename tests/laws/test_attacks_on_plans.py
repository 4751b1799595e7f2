"""Statements that were written to move further than they are charged for, or to fail on one database and not on its neighbour.

Each is asked of a database, and all its requests are read exactly on every neighbour: what moves is held against what is charged,
and outcomes have to be the same. Few of these ideas worked; those that did are told where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from oracle.oracle import Totals, examine
from oracle.replay import Family
from oracle.statements import Asked
from oracle.worlds import Hangs, Row, Table, World

from dpsql.trusted.declarations.tables import OwnerPath
from dpsql.trusted.kernel import shapes
from dpsql.types import Type

BUDGET = "epsilon = 1000\ndelta = 0.1"
PERSON = Hangs(columns=("id",), table="people", references=("id",))
YEARLY = Hangs(columns=("id", "year"), table="enrol", references=("id", "year"))
LIMITS = ("rows_per_entity = 10",)


def table(name: str, columns: Mapping[str, tuple[str, str]], *, hangs: tuple[Hangs, ...] = (), key: tuple[str, ...] = (),
          public: bool = False) -> Table:
    """Columns by their types and how they are declared."""
    return Table(name=name, columns={column: kind for column, (kind, _) in columns.items()}, key=key, hangs=hangs, public=public,
                 declared={column: how for column, (_, how) in columns.items()}, limits=LIMITS if hangs else ())


def world(*tables: Table, rows: Mapping[str, list[Row]]) -> World:
    return World(tables={made.name: made for made in tables}, entities={"person": ("people", "id")}, budget=BUDGET,
                 rows={name: tuple(own) for name, own in rows.items()})


ID, SMALL, ANY = ("INTEGER", "{}"), ("INTEGER", "{ range = [0, 9] }"), "{}"
YEAR = ("INTEGER", "{ range = [1, 5] }")


# -- foreign keys of several columns: one that holds a NULL references no row, whoever is named beside it


def years() -> World:
    """A row of the first person names a year, a person, and no enrolment: it stays when the person leaves."""
    people = [(str(i), str(i)) for i in range(4)]
    enrol = [(str(i), str(year)) for i in range(4) for year in range(1, 6)]
    stays = [(str(i), "NULL" if i == 0 else str(1 + j % 5), str(j)) for i in range(4) for j in range(10)]
    return world(table("people", {"id": ID, "k": SMALL}, key=("id",)),
                 table("enrol", {"id": ID, "year": YEAR}, hangs=(PERSON,), key=("id", "year")),
                 table("stays", {"id": ID, "year": YEAR, "x": SMALL}, hangs=(YEARLY,)),
                 table("twice", {"id": ID, "year": YEAR, "x": SMALL}, hangs=(YEARLY, PERSON)),
                 rows={"people": people, "enrol": enrol, "stays": stays, "twice": stays})


LOST = "SUM(CASE WHEN p.id IS NULL THEN -10 ELSE 10 END)"
NULL_IN_A_KEY = [
    *(f"SELECT {LOST} FROM {name} s {kind} JOIN people p ON s.id = p.id" for kind in ("LEFT", "FULL") for name in ("stays", "twice")),
    "SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM people p WHERE p.id = s.id) THEN 10 ELSE -10 END) FROM stays s",
    "SELECT SUM(CASE WHEN s.id IN (SELECT id FROM enrol) THEN x ELSE -x END) FROM stays s",
    "SELECT COUNT(*), SUM(x) FROM stays",
    "SELECT COUNT(*) FROM stays a FULL JOIN people p USING (id)",
    "SELECT COUNT(*) FROM (SELECT id, x FROM stays EXCEPT ALL SELECT id, k FROM people) t",
]

# -- what is equal


DOUBLES = ("0.0", "-0.0", "'nan'::DOUBLE", "-'nan'::DOUBLE", "'inf'::DOUBLE", "NULL")
DAYS = ("DATE 'infinity'", "DATE '-infinity'", "DATE '20025-01-01'", "DATE '0044-01-01 (BC)'", "DATE '300000-01-01'", "NULL")
TEXTS = ("'a'", "'A'", "''", "'é'", "'a '", "NULL")
BIGS = ("0", "9223372036854775807", "-9223372036854775807 - 1", "3", "NULL", "7")


def odd() -> World:
    people = [(str(i), str(i % 4), DAYS[i], f"CAST({i} * 0.1 AS FLOAT)") for i in range(6)]
    vis = [(str(20 * i + j), str(i), str(j % 2 if i == 0 else j), BIGS[(i + j) % 6], DOUBLES[j % 6], DAYS[j % 6], TEXTS[j % 6])
           for i in range(6) for j in range(12 if i == 0 else 8)]
    pub = [("1", "0.0", DAYS[0], "'a'"), ("1", "-0.0", DAYS[0], "'A'"), ("NULL",) * 4, ("2", "'nan'::DOUBLE", DAYS[2], "'a '"),
           ("7", "-'nan'::DOUBLE", DAYS[4], "NULL")] * 3
    people_of = {"id": ID, "k": SMALL, "day": ("DATE", ANY), "f": ("FLOAT", "{ bounds = [0, 9] }")}
    vis_of = {"vid": ("BIGINT", ANY), "id": ID, "k": SMALL, "big": ("BIGINT", ANY), "x": ("DOUBLE", "{ bounds = [-5, 5] }"),
              "d": ("DATE", ANY), "s": ("VARCHAR", ANY)}
    return world(table("people", people_of, key=("id",)), table("vis", vis_of, hangs=(PERSON,), key=("vid",)),
                 table("pub", {"z": ("INTEGER", ANY), "x": ("DOUBLE", ANY), "d": ("DATE", ANY), "s": ("VARCHAR", ANY)}, public=True),
                 rows={"people": people, "vis": vis, "pub": pub})


GROUPS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups = 3, delta = 1e-5, epsilon = 1)"
FAR = "(SELECT id, k, CAST(day AS TIMESTAMP) AS c FROM people)"  # an engine may compare the days, of which some are no moments
EQUAL = [
    *(text.format(c=c) for c in ("x", "d", "s") for text in (
        "SELECT COUNT(*) FROM (SELECT id, {c}, COUNT(*) AS n FROM vis GROUP BY id, {c}) t WHERE n > 1",
        "SELECT COUNT(*) FROM (SELECT id, {c} FROM vis EXCEPT SELECT id, {c} FROM vis WHERE k = 1) t",
        "SELECT COUNT(*) FROM (SELECT {c}, ROW_NUMBER() OVER (PARTITION BY {c} ORDER BY k) AS r FROM vis) t WHERE r <= 2",
        "SELECT COUNT(*) FROM vis a LEFT JOIN pub b ON a.{c} IS NOT DISTINCT FROM b.{c}",
        "SELECT COUNT(*) FROM (SELECT DISTINCT id, {c} FROM vis) a FULL JOIN (SELECT DISTINCT id, {c} FROM vis) b USING (id, {c})",
        "SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM vis v WHERE v.{c} = p.{c}) THEN 1 ELSE -1 END) FROM pub p",
        GROUPS + " {c}, SUM(k) FROM vis GROUP BY {c} HAVING COUNT(*) > 3 ORDER BY 2 DESC LIMIT 2")),
    "SELECT COUNT(*) FROM (SELECT SUM(k) OVER (ORDER BY big ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS r FROM vis) t WHERE r > 3",
    "SELECT COUNT(*) FROM (SELECT LEAD(k, 2) OVER (ORDER BY x, k) AS r, LAG(x) OVER (ORDER BY x, k) AS q FROM vis) t WHERE r > 3 OR q = 0",
    "SELECT COUNT(*) FROM people a JOIN (SELECT z, s, ROW_NUMBER() OVER (PARTITION BY s ORDER BY x) AS n FROM pub QUALIFY n <= 1) b "
    "ON a.k = b.z",  # the rows of a public table that come first do not rest on the secret
    "SELECT COUNT(*) FROM people WHERE f = 0.1 OR f = 0.10000000149011612",
    "SELECT MEDIAN(year(day) % 9) FROM people WHERE day > DATE '0001-01-01'",
    *(f"SELECT {asked} FROM {FAR} t WHERE {kept}" for asked, kept in (
        ("MEDIAN(k), COUNT(c)", "c > TIMESTAMP '2020-01-01'"), ("COUNT(DISTINCT c)", "c <> TIMESTAMP '2020-01-01'"),
        ("SUM(LEAST(GREATEST(date_diff('day', TIMESTAMP '2020-01-01', c), -5), 5))", "c >= TIMESTAMP '2020-01-01 10:00:00' AND year(c) < 2000"),
        ("COUNT(*) FILTER (WHERE c > TIMESTAMP '2020-01-01'), COUNT(*) FILTER (WHERE NOT (c > TIMESTAMP '2020-01-01'))", "k >= 0"))),
    f"{GROUPS} c, COUNT(*) FROM {FAR} t WHERE c > TIMESTAMP '0001-01-01' GROUP BY c",
    f"SELECT COUNT(*) FROM {FAR} a JOIN {FAR} b ON a.id = b.id AND a.c = b.c WHERE a.c IS DISTINCT FROM TIMESTAMP '2020-01-01'",
]

# -- keys of numbers that may be missing are none, and such a table is read all the same


def measured(kind: str) -> World:
    values = ("0.0", "1.5", "'nan'", "'inf'")
    return world(table("people", {"id": ID}, key=("id",)),
                 table("vis", {"id": ID, "x": (kind, ANY), "k": SMALL}, hangs=(PERSON,), key=("id", "x")),
                 rows={"people": [(str(i),) for i in range(3)], "vis": [
                     (str(i), f"{value}::{kind}", str(j)) for i in range(3) for j, value in enumerate(values)]})


KEYED = ["SELECT COUNT(*) FROM vis a JOIN vis b ON a.id = b.id AND a.x = b.x", "SELECT COUNT(DISTINCT x), COUNT(*) FROM vis",
         "SELECT COUNT(*) FROM (SELECT LAG(k) OVER (PARTITION BY id, x ORDER BY k) AS l FROM vis) t WHERE l IS NULL"]


@pytest.fixture(scope="module")
def families() -> Iterator[dict[str, Family]]:
    made = {"years": Family(years()), "odd": Family(odd()), **{kind: Family(measured(kind)) for kind in ("DOUBLE", "FLOAT")}}
    yield made
    for family in made.values():
        family.close()


ATTACKS = [*(("years", text) for text in NULL_IN_A_KEY), *(("odd", text) for text in EQUAL),
           *((kind, text) for kind in ("DOUBLE", "FLOAT") for text in KEYED)]


@pytest.mark.parametrize(("name", "text"), ATTACKS)
def test_nothing_moves_further_than_it_is_charged_for(name: str, text: str, families: dict[str, Family]) -> None:
    totals = Totals()
    examine(Asked(kind="query", texts=(text,)), families[name], totals)
    assert not (totals.violations or totals.incidents or totals.crashed), [*map(str, totals.violations), *totals.incidents, *totals.crashed]
    assert totals.answered == 1, totals.refused


def test_columns_beside_a_name_are_told_with_it(families: dict[str, Family]) -> None:
    ways = {name: families["years"]._catalog.tables[name].owners for name in ("stays", "enrol", "twice")}
    named = OwnerPath(steps=(), column="id", type=Type.BIGINT)
    assert ways["stays"][0].beside == ("year",) and len(ways["stays"]) == 1
    assert ways["twice"] == (named,)  # the name alone references the person
    assert ways["enrol"][0].beside == ()


def test_every_class_of_plans_has_the_fields_that_the_checker_knows() -> None:
    """One that has others is refused in every statement."""
    listed = {kind for kind in vars(shapes).values() if isinstance(kind, type) and kind.__module__.startswith("dpsql.trusted.plan.operators")}
    abstract, of_public_rows = {shapes.Summand}, {shapes.Statistics}  # which no measurement is made of
    assert listed - abstract - of_public_rows <= shapes.PARTS | shapes.SUMMARIES | shapes.RELATIONS
