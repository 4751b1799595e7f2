"""Statements that the oracle of `tests/oracle` found to fail on every database alike: each is answered, or refused with a place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.policies import policy_of
from support.sessions import open_ledger, session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import price
from dpsql.catalog.schema import fit
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import OptionError, Unsupported
from dpsql.solvers.usual import USUAL
from dpsql.trusted.kernel.run import Kernel
from dpsql.validation.findings import Validation

POLICY = policy_of("people", "", """
[tables.visits]
rows_per_entity = 3
foreign_keys = [{ columns = ["id"], references = "people(id)" }]
[tables.visits.columns]
id = {}
n = {}
g = { values = ["a", "b"] }
x = { bounds = [-1e6, 1e6], power_of_two = -12 }
[tables.weights]
rows_per_entity = 2
foreign_keys = [{ columns = ["id"], references = "people(id)" }]
[tables.weights.columns]
id = {}
x = { bounds = [0, 4] }
[tables.trips]
foreign_keys = [{ columns = ["id"], references = "people(id)" }]
[tables.trips.columns]
id = {}
n = {}
[tables.stays]
rows_per_value = { n = 4 }
foreign_keys = [{ columns = ["id"], references = "people(id)" }]
[tables.stays.columns]
id = {}
n = {}
ward = { range = [0, 3] }
[tables.rooms]
public = true
[tables.rooms.columns]
n = {}
beds = {}
[tables.numbers]
key = "id"
foreign_keys = [{ columns = ["id"], references = "people(id)" }]
[tables.numbers.columns]
id = {}
k = { bounds = [0, 1000] }
[tables.numbers_syn]
public = true
[tables.numbers_syn.columns]
id = {}
k = {}
[tables.visits_syn]
public = true
[tables.visits_syn.columns]
id = {}
n = {}
""", budget="main")
TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY);
CREATE TABLE visits (id INTEGER, n BIGINT, g VARCHAR, x DOUBLE);
CREATE TABLE weights (id INTEGER, x {kind}, PRIMARY KEY (id, x));
CREATE TABLE trips (id INTEGER, n INTEGER);
CREATE TABLE stays (id INTEGER, n INTEGER, ward INTEGER, PRIMARY KEY (id, n));
CREATE TABLE rooms (n INTEGER, beds INTEGER);
CREATE TABLE visits_syn (id INTEGER, n BIGINT);
CREATE TABLE numbers (id INTEGER PRIMARY KEY, k BIGINT);
CREATE TABLE numbers_syn AS SELECT 1 AS id, 1 :: BIGINT AS k;
INSERT INTO numbers VALUES {numbers};
INSERT INTO people SELECT range FROM range(9);
INSERT INTO visits SELECT id, n, CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, n / 2 FROM people, (SELECT range AS n FROM range(3));
INSERT INTO visits VALUES (1, 9223372036854775807, 'a', 1e308), (2, -9223372036854775808, 'b', '-inf'::DOUBLE);
INSERT INTO weights VALUES (1, 0.5), (1, 'nan'), (2, -0.0), (3, 'inf');
INSERT INTO stays SELECT id, n, n % 4 FROM people, (SELECT range AS n FROM range(3));
INSERT INTO rooms VALUES (1, 2), (2, 9);
INSERT INTO trips SELECT id, n FROM visits WHERE n BETWEEN 0 AND 2;
INSERT INTO visits_syn SELECT id, n FROM visits;
"""
EXTREME = ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e308", "-1e308", "1.7976931348623157e308", "5e-324",
           "170141183460469231731687303715884105727", "1e19", "-9.3e18", "9007199254740993")


def connected(folder: Path, kind: str = "DOUBLE", numbers: str = "(1, 1)", budget: str = "epsilon = 1000") -> Session:
    """A session without noise."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(TABLES.format(kind=kind, numbers=numbers))
    lock_down(connection)
    reader, declared, book = DuckReader(connection, "v1"), parse_policy(POLICY.replace("epsilon = 1000", budget)), open_ledger(folder)
    return Session(catalog=fit(declared, "main", reader.schema(), lambda *_: []), budget=declared.budgets["main"], analyst="ada",
                   kernel=Kernel(reader, book, Exact(), solvers=USUAL), ledger=book, scratch=DuckScratch(), price=price(epsilon=1))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = connected(tmp_path_factory.mktemp("oracle"))
    yield made
    made.close()


def asked(session: Session, text: str) -> Any:
    return answer(text, session)


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_a_key_with_a_floating_column_is_a_key(kind: str, tmp_path: Path) -> None:
    """NaN makes such a column one that may lack a value, and does not make its key less of one."""
    made = connected(tmp_path, kind)
    assert asked(made, "SELECT COUNT(*) FROM weights").rows == ((4,),)
    assert asked(made, "SELECT SUM(x) FROM weights JOIN people ON weights.id = people.id").rows == ((4.5,),)
    made.close()


@pytest.mark.parametrize("what", ["COUNT(id)", "COUNT(n)", "SUM(LEAST(GREATEST(id, 0), 9))"])
def test_the_owner_is_counted_in_suites_of_rows_without_a_limit(what: str, session: Session) -> None:
    told = asked(session, f"VALIDATE (SELECT COUNT(n) FROM trips WHERE id = 1) WITHIN 100, (SELECT {what} FROM trips WHERE id = 2) "
                             "WITHIN 100 AGAINST visits_syn FOR trips")
    assert isinstance(told, Validation)


@pytest.mark.parametrize("clip", ["1000000000", "1e12", "1e15"])
def test_a_clip_beyond_the_grid_is_refused_with_a_place(clip: str, session: Session) -> None:
    with pytest.raises(OptionError, match="clip is too large") as told:
        asked(session, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'reservoir', clip = {clip}, max_groups = 2) "
                       "SUM(LEAST(GREATEST(x, 0), 1)) FROM visits")
    assert told.value.span is not None


@pytest.mark.parametrize("number", EXTREME)
@pytest.mark.parametrize("test", ["{c} = {n}", "{c} < {n}", "{c} >= {n} OR {c} = 1", "{c} IN (1, {n})", "{c} BETWEEN -({n}) AND {n}"])
@pytest.mark.parametrize("column", ["n", "x"])
def test_extreme_constants_in_workloads_count_as_they_do_elsewhere(column: str, test: str, number: str, session: Session) -> None:
    where = test.format(c=column, n=number)
    try:
        (plain,), = asked(session, f"SELECT COUNT(*) FROM visits WHERE {where}").rows
    except Unsupported:
        return
    try:
        (made,), = asked(session, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'workload') COUNT(*) "
                                     f"FROM visits WHERE {where}").rows
    except Unsupported as told:
        assert told.span is not None
        return
    assert plain == made


WHOLE = ["k * k", "k + k", "k * k * k", "abs(k) * k", "k * 3"]
ROWS = ["(1, 5), (2, 9223372036854775807)", "(1, 1), (2, 5)", "(1, NULL)", "(1, -9223372036854775808), (2, -5)", "(1, 1), (2, 9223372036854775807)"]


@pytest.mark.parametrize("made", WHOLE)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("held", ["k = 1", "k BETWEEN 0 AND 1", "k IN (0, 1)"])
def test_whether_constants_lie_among_the_values_of_a_column_decides_nothing(held: str, rows: str, made: str, tmp_path: Path) -> None:
    """The kernel learns the range of a column to print shorter texts: that it misses a condition's constants is no fault."""
    session = connected(tmp_path, numbers=rows)
    value = f"SUM(LEAST(GREATEST({made}, 0), 1))"
    assert isinstance(asked(session, f"VALIDATE (SELECT {value} FROM numbers WHERE {held}) WITHIN 2, (SELECT {value} FROM numbers WHERE "
                                     "k = 2) WITHIN 2 AGAINST numbers_syn FOR numbers"), Validation)
    assert len(asked(session, f"SELECT {value} FROM numbers WHERE {held}").rows) == 1
    session.close()


@pytest.mark.parametrize("price", ["rho = 1", "rho = 0.01", "rho = 60", "rho = 1, delta = 1e-6", "epsilon = 1, delta = 1e-6"])
@pytest.mark.parametrize("decider", ["svt", "svt_all_levels", "r2t", "additive", "flip_distance"])
@pytest.mark.parametrize("what", ["SUM(LEAST(GREATEST(n, 0), 9))", "SUM(LEAST(GREATEST(n, 0), 1000000))"])
def test_deciders_ask_for_no_more_than_a_price_in_rho(what: str, decider: str, price: str, tmp_path: Path) -> None:
    """Two noises of one comparison cost an epsilon each, which adds up: half of rho each would be twice of rho together."""
    made = connected(tmp_path, budget="rho = 1000\ndelta = 0.1")
    told = asked(made, f"VALIDATE (SELECT {what} FROM visits WHERE n <> 5) WITHIN 100 AGAINST visits_syn FOR visits "
                       f"WITHIN 5 OPTIONS ({price}, decider = '{decider}')")
    assert isinstance(told, Validation)
    made.close()


@pytest.mark.parametrize("test", ["< -1", "<= 1", "< 1", ">= 0", "> 5", "< 9", "= 1", "BETWEEN 0 AND 1"])
@pytest.mark.parametrize("made", ["CASE WHEN g = 'a' THEN 1 ELSE 0 END", "COALESCE(n % 2, 0)", "LEAST(GREATEST(n, 0), 1)", "length(g)",
                                  "MAX(length(g)) OVER (PARTITION BY id)", "LAG(n % 2) OVER (PARTITION BY id ORDER BY n)",
                                  "ROW_NUMBER() OVER (PARTITION BY id ORDER BY n)", "n"])
def test_calculated_numbers_are_held_in_ranges_above_their_groups(made: str, test: str, session: Session) -> None:
    """Of how many values they have left no more is claimed than what the kernel derives."""
    groups = f"SELECT id, c FROM (SELECT id, {made} AS c FROM visits) AS v GROUP BY id, c"
    assert asked(session, f"SELECT COUNT(*) FROM ({groups}) AS w WHERE c {test}").rows is not None


EITHER = """
version = 1
[entities]
person = { table = "people", key = "id" }
firm = { table = "firms", key = "firm" }
either = { any_of = ["person", "firm"] }
[tables.people]
key = "id"
[tables.people.columns]
id = {}
n = { range = [0, 3] }
[tables.firms]
key = "firm"
[tables.firms.columns]
firm = {}
[budgets.main]
entity = "either"
epsilon = 1000
"""


@pytest.mark.parametrize("bound", ["'bands'", "'reservoir', clip = 2, max_groups = 2", "'clip', clip = 3"])
def test_totals_of_an_entity_need_rows_that_have_one_however_few_they_are(bound: str, tmp_path: Path) -> None:
    """Each row has a person and a firm, and each of these has one row."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE firms (firm INTEGER PRIMARY KEY)")
    lock_down(connection)
    session = session_of(tmp_path, reader=DuckReader(connection, "v1"), policy=EITHER, budget="main", at={"epsilon": 1})
    options = f"bound = {bound}"
    with pytest.raises(OptionError, match="belong to 2"):
        asked(session, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) AVG(n), COUNT(*) FROM people JOIN firms ON id = firm")


@pytest.mark.parametrize("what", ["AVG(n)", "MIN(n)", "MEDIAN(n)", "COUNT(DISTINCT id)", "COUNT(*)"])
def test_small_groups_are_withheld_of_rows_of_two_entities_with_a_row_each(what: str, tmp_path: Path) -> None:
    """That many rows have at least as many persons, so that no entity needs a row of its own to be counted."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE people AS SELECT range::INTEGER AS id, 1 AS n FROM range(50); CREATE TABLE firms AS SELECT id AS "
                       "firm FROM people; ALTER TABLE people ADD PRIMARY KEY (id); ALTER TABLE firms ADD PRIMARY KEY (firm)")
    lock_down(connection)
    policy = EITHER.replace("{ table", "{ minimum_frequency = 20, table")
    session = session_of(tmp_path, reader=DuckReader(connection, "v1"), policy=policy, budget="main", at={"epsilon": 20})
    text = f"SELECT {what} FROM people JOIN firms ON id = firm"
    assert len(asked(session, text).rows) == 1
    assert asked(session, f"{text} WHERE id < 15").rows == ()


def test_windows_over_rows_of_entities_are_no_windows_over_released_ones(session: Session) -> None:
    with pytest.raises(Unsupported) as caught:
        asked(session, "SELECT DISTINCT k FROM (SELECT id AS k, COUNT(*) AS n FROM stays GROUP BY id) AS r QUALIFY ROW_NUMBER() OVER (ORDER BY n) = 1")
    assert caught.value.span is not None


def test_a_condition_that_leaves_few_rows_is_no_limit_of_a_workload(session: Session) -> None:
    """Conditions are tests of cells there, over all rows of the table. What no workload answers is SQL over released counts."""
    text = "SELECT ward, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () FROM stays WHERE n = 0 GROUP BY ward"
    together = asked(session, text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows = 10)", 1))
    assert together.rows and len(asked(session, text).rows) == len(together.rows)
    with pytest.raises(Unsupported, match="a limit for each entity") as caught:
        asked(session, "SELECT ward, COUNT(*) FROM stays WHERE n = 0 GROUP BY CUBE(ward)")
    assert caught.value.span is not None and "max_rows = 10" in caught.value.try_


@pytest.mark.parametrize(("join", "rows"), [
    ("JOIN rooms ON rooms.n = stays.n", 9), ("JOIN rooms ON rooms.n <= stays.n", 18), ("RIGHT JOIN rooms ON rooms.n = stays.n", 9),
    ("JOIN (VALUES (1, 3), (2, 0)) AS rooms(n, beds) ON rooms.n = stays.n", 18)])
def test_public_rows_beside_a_limit_may_be_compared_with_a_released_value(join: str, rows: int, session: Session) -> None:
    """How many of them meet a row is looked up before the value is there."""
    found = asked(session, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows = 3) COUNT(*) FROM stays {join} "
                         "WHERE beds < (SELECT COUNT(*) FROM people) - 5")
    assert found.rows == ((rows,),)
