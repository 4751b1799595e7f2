"""A policy fitted to a database: what is read from the schema, who owns a row, and what does not fit."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from support.worlds import POLICY, SCHEMA, world

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import carried_as, fit
from dpsql.engine.opening import public_values
from dpsql.errors import PolicyError
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.tables import Domain, ForeignKey, OwnerStep, TableSchema
from dpsql.types import Interval, Type


@pytest.fixture(scope="module")
def reader() -> DuckReader:
    connection = duckdb.connect(":memory:")
    world(seed=3).fill(connection)
    return DuckReader(connection, "1")


@pytest.fixture(scope="module")
def schema(reader: DuckReader) -> Mapping[str, TableSchema]:
    return reader.schema()


def schema_of(*statements: str) -> Mapping[str, TableSchema]:
    connection = duckdb.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    return DuckReader(connection, "1").schema()


def values_of(reader: DuckReader, asked: list[tuple[str, str]] | None = None) -> Any:
    def values(table: str, columns: Sequence[str], most: int) -> Sequence[tuple[Any, ...]]:
        if asked is not None:
            asked.extend((table, column) for column in columns)
        return public_values(reader)(table, columns, most)
    return values


def fitted(reader: DuckReader, budget: str = "person", policy: str = POLICY) -> Catalog:
    return fit(parse_policy(policy), budget, reader.schema(), values_of(reader))


def test_ways_to_a_person(reader: DuckReader) -> None:
    tables = fitted(reader).tables
    for name, column, rows in [("people", "person_id", 1), ("visits", "person_id", 3), ("scores", "person_id", None)]:
        owner = tables[name].owner
        assert owner is not None
        assert (owner.steps, owner.column, owner.type, tables[name].rows) == ((), column, Type.BIGINT, rows)
    assert tables["people"].owner.not_null  # type: ignore[union-attr]
    assert not tables["visits"].owner.not_null  # type: ignore[union-attr]
    assert tables["clinics"].public and tables["clinics"].owner is None


def test_a_table_that_the_entity_hangs_on_is_outside(reader: DuckReader) -> None:
    catalog = fitted(reader)
    assert set(catalog.outside) == {"households"}
    assert "no foreign key leads from it to the protected person" in catalog.outside["households"]
    assert "households" not in catalog.tables


def test_ways_to_a_household(reader: DuckReader) -> None:
    catalog = fitted(reader, "household")
    assert not catalog.outside
    assert catalog.tables["people"].owner.steps == ()  # type: ignore[union-attr]
    assert catalog.tables["people"].owner.column == "household_id"  # type: ignore[union-attr]
    step = OwnerStep(columns=("person_id",), table="people", references=("person_id",), types=(Type.BIGINT,))
    for name in ("visits", "scores"):
        owner = catalog.tables[name].owner
        assert owner is not None
        assert (owner.steps, owner.column) == ((step,), "household_id")
    assert {name: table.rows for name, table in catalog.tables.items()} == {
        "households": 1, "people": 4, "visits": 12, "scores": None, "clinics": None}


def test_what_the_policy_does_not_name_is_told(reader: DuckReader) -> None:
    catalog = fitted(reader)
    assert catalog.undeclared == {"unlisted"}
    assert catalog.hidden["people"] == {"secret"}
    assert not catalog.hidden["visits"]
    assert "secret" not in catalog.tables["people"].columns
    assert catalog.table("PEOPLE") is catalog.tables["people"]
    assert catalog.table("unlisted") is None


def test_domains(reader: DuckReader) -> None:
    people, visits = fitted(reader).tables["people"].columns, fitted(reader).tables["visits"].columns
    assert people["sex"].domain == Domain(("f", "m"))
    assert people["active"].domain == Domain((False, True))
    assert people["age"].domain == Domain(tuple(range(101)))
    assert visits["year"].domain == Domain((2018, 2019, 2020, 2021))
    assert visits["clinic"].domain == Domain(("a", "b", "c", "d"))
    born = people["born"].domain
    assert born is not None
    assert (born.values[0], born.values[-1]) == (dt.date(1920, 1, 1), dt.date(2020, 12, 31))
    assert len(born) == 101 * 365 + 26  # years, and their leap days
    assert people["income"].domain is people["nickname"].domain is people["weight"].domain is None


def test_bounds_grids_and_nulls(reader: DuckReader) -> None:
    people, visits = fitted(reader).tables["people"].columns, fitted(reader).tables["visits"].columns
    assert people["age"].declared == Interval(0, 100)
    assert people["age"].physical == Interval(-2**31, 2**31 - 1)
    assert not people["age"].nullable and people["income"].nullable
    assert not people["person_id"].nullable  # the database says so, the policy does not
    assert people["income"].declared == Interval(0, 100000) and people["income"].step is None
    assert people["weight"].search and not people["weight"].declared.finite
    assert visits["cost"].step == Fraction(1, 100) and visits["cost"].sql_type == "DECIMAL(10,2)"


def test_only_values_of_public_columns_are_read(reader: DuckReader) -> None:
    asked: list[tuple[str, str]] = []
    fit(parse_policy(POLICY), "person", reader.schema(), values_of(reader, asked))
    assert {table for table, _ in asked} == {"clinics"}


def test_names_do_not_depend_on_case(reader: DuckReader) -> None:
    shouted = POLICY.replace("[tables.scores", "[tables.SCORES").replace("points = ", "POINTS = ")
    catalog = fitted(reader, policy=shouted)
    assert set(catalog.tables["SCORES"].columns) == {"person_id", "POINTS"}
    assert catalog.undeclared == {"unlisted"}


def test_keys_and_foreign_keys_of_a_database() -> None:
    found = schema_of(
        "CREATE TABLE homes (a INTEGER, b INTEGER, c INTEGER UNIQUE, d INTEGER NOT NULL, PRIMARY KEY (a, b))",
        "CREATE TABLE people (x INTEGER PRIMARY KEY, a INTEGER, b INTEGER, boss INTEGER REFERENCES people (x), "
        "FOREIGN KEY (a, b) REFERENCES homes (a, b))", "CREATE VIEW names AS SELECT x FROM people")
    assert set(found["homes"].unique) == {frozenset("ab"), frozenset("c")}
    assert found["homes"].not_null == {"a", "b", "d"}
    assert set(found["people"].foreign_keys) == {ForeignKey(columns=("a", "b"), table="homes", references=("a", "b")),
                                                 ForeignKey(columns=("boss",), table="people", references=("x",))}
    assert found["names"] == TableSchema(columns=(("x", "INTEGER"),), view=frozenset({"people"}))


@pytest.mark.parametrize(("sql_type", "carried"), [
    ("TINYINT", (Type.BIGINT, Interval(-128, 127))), ("UINTEGER", (Type.BIGINT, Interval(0, 2**32 - 1))),
    ("UBIGINT", (Type.DOUBLE, None)), ("HUGEINT", (Type.DOUBLE, None)), ("FLOAT", (Type.DOUBLE, None)),
    ("DECIMAL(38,10)", (Type.DOUBLE, None)), ("ENUM('a', 'b')", (Type.VARCHAR, None)), ("UUID", (Type.VARCHAR, None)),
    ("TIMESTAMP_NS", (Type.TIMESTAMP, None)), ("DATE", (Type.DATE, None)), ("BOOLEAN", (Type.BOOLEAN, None)),
    ("TIMESTAMP WITH TIME ZONE", (Type.TIMESTAMP, None)), ("TIME", None), ("INTERVAL", None), ("BLOB", None), ("JSON", None),
    ("INTEGER[]", None), ("DECIMAL(4,2)[]", None), ("ENUM('a', 'b')[3]", None), ("STRUCT(a INTEGER)", None),
    ("MAP(INTEGER, INTEGER)", None), ("BIT", None),
])
def test_types(sql_type: str, carried: tuple[Type, Interval | None] | None) -> None:
    found = carried_as(sql_type)
    assert (None if found is None else found[0]) == (None if carried is None else carried[0])
    if carried is not None and carried[1] is not None:
        assert found == carried


class Misfit(Frozen, kw_only=False):
    """`old` of the policy becomes `new`; the error stands at the line that starts with `at`."""

    old: str
    new: str
    at: str
    says: str
    try_: str = ""
    code: str = "policy-schema"


VISITS_FK = 'foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]\nrows_per_entity = { person = 3'
MISFITS = {
    "no-such-table": Misfit("[tables.clinics]\n", "[tables.visit.columns]\nvisit_id = {}\n[tables.clinics]\n",
                            "[tables.visit.columns]", "the database has no table visit", "visits"),
    "no-such-table-far-off": Misfit("[tables.clinics]\n", "[tables.qqqq.columns]\nx = {}\n[tables.clinics]\n",
                                    "[tables.qqqq.columns]", "no table qqqq", "one of clinics, households"),
    "no-such-column": Misfit("nickname = {}", "nicknam = {}", "nicknam", "people has no column nicknam", "nickname"),
    "no-such-column-far-off": Misfit("nickname = {}", "qqqq = {}", "qqqq", "no column qqqq", "one of person_id, household_id"),
    "no-such-key-of-entity": Misfit('[entities.person]\ntable = "people"\nkey = "person_id"',
                                    '[entities.person]\ntable = "people"\nkey = "ssn"\n[tables.people.columns.ssn]',
                                    "[tables.people.columns.ssn]", "people has no column ssn"),
    "text-for-numbers": Misfit("age = { range = [0, 100], nullable = false, bins = 10 }", 'age = { values = ["old", "young"] }',
                               "age", '"old" is not a value of a column of type INTEGER'),
    "number-for-text": Misfit('sex = { values = ["f", "m"] }', "sex = { values = [1, 2] }", "sex", "1 is not a value",
                               'values = ["1", '),
    "half-for-whole": Misfit("age = { range = [0, 100]", "age = { range = [0.5, 100]", "age", "0.5 is not a value"),
    "true-for-whole": Misfit("age = { range = [0, 100], nullable = false, bins = 10 }", "age = { values = [true] }", "age",
                             "true is not a value"),
    "time-for-date": Misfit("born = { range = [1920-01-01, 2020-12-31] }",
                            "born = { range = [1920-01-01T00:00:00, 2020-12-31T00:00:00] }", "born", "is not a value"),
    "bounds-of-text": Misfit("nickname = {}", "nickname = { bounds = [0, 1] }", "nickname", "do not fit the type VARCHAR",
                             "a table in which they are cast"),
    "dates-for-numbers": Misfit("income = { bounds = [0, 100000] }", "income = { bounds = [2020-01-01, 2021-01-01] }", "income",
                                "do not fit the type DOUBLE"),
    "numbers-for-dates": Misfit("born = { range = [1920-01-01, 2020-12-31] }", "born = { range = [1920, 2020] }", "born",
                                "do not fit the type DATE"),
    "decimals-of-text": Misfit("nickname = {}", "nickname = { decimals = 2 }", "nickname", "decimals is for numbers"),
    "bins-of-dates": Misfit("born = { range = [1920-01-01, 2020-12-31] }", "born = { bins = [1, 2] }", "born",
                            "bins is for numbers"),
    "search-of-text": Misfit("nickname = {}", 'nickname = { bounds = "search" }', "nickname", "bounds is for numbers"),
    "parent-not-unique": Misfit(VISITS_FK, VISITS_FK.replace("people(person_id)", "people(household_id)").replace(
        '"person_id",', '"visit_id",'), "foreign_keys", "does not guarantee that people(household_id) is unique",
        "a PRIMARY KEY on people(household_id)", "parent-not-unique"),
    "circle": Misfit('[tables.households]\nkey = "household_id"\n', '[tables.households]\nkey = "household_id"\n'
                     'foreign_keys = [{ columns = "household_id", references = "visits(visit_id)" }]\n', "foreign_keys",
                     "foreign keys form a cycle", "leave one of them out"),
    "circle-through-the-entity": Misfit('[tables.people]\nkey = "person_id"\nforeign_keys = [',
                                        '[tables.people]\nkey = "person_id"\n'
                                        'foreign_keys = [{ columns = "age", references = "people(person_id)" }, ', "foreign_keys",
                                        "foreign keys form a cycle: people -> people"),
    "types-differ": Misfit(VISITS_FK, VISITS_FK.replace('columns = "person_id"', 'columns = "note"'), "foreign_keys",
                           "visits.note and people.person_id differ in type", "columns of the same type"),
    "float-names-no-entity": Misfit('[entities.person]\ntable = "people"\nkey = "person_id"',
                                    '[entities.person]\ntable = "people"\nkey = "income"', "key = \"income\"",
                                    "a column of type DOUBLE cannot name an entity"),
}


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_is_located(misfit: Misfit, reader: DuckReader) -> None:
    assert misfit.old in POLICY
    text = POLICY.replace(misfit.old, misfit.new, 1)
    with pytest.raises(PolicyError) as caught:
        fitted(reader, policy=text)
    fault = caught.value.as_dict()
    assert misfit.says in fault["reason"]
    assert fault["try"] and misfit.try_ in fault["try"]
    assert fault["code"] == misfit.code
    assert text.splitlines()[fault["line"] - 1].startswith(misfit.at)


def test_a_declared_column_of_unsupported_type() -> None:
    schema = schema_of(*(f"CREATE TABLE {name} ({columns.replace('note VARCHAR', 'note BLOB')})"
                         for name, columns in SCHEMA.items()))
    with pytest.raises(PolicyError, match="type BLOB is not supported") as caught:
        fit(parse_policy(POLICY), "person", schema, lambda *_: [])
    assert caught.value.code == "unsupported-type"
    left_out = POLICY.replace("note = {}\n", "")
    assert fit(parse_policy(left_out), "person", schema, lambda *_: []).hidden["visits"] == {"note"}


FRIENDS = """
[tables.friends]
foreign_keys = [{ columns = "a", references = "people(person_id)" }, { columns = "b", references = "people(person_id)" }]
[tables.friends.columns]
a = {}
b = {}
"""


def test_a_row_may_name_two_entities(schema: Mapping[str, TableSchema]) -> None:
    wider = {**schema, "friends": TableSchema(columns=(("a", "INTEGER"), ("b", "INTEGER")))}
    catalog = fit(parse_policy(POLICY + FRIENDS), "person", wider, lambda *_: [])
    assert [way.column for way in catalog.tables["friends"].owners] == ["a", "b"]
    assert catalog.tables["friends"].owner is None and "friends" not in catalog.outside


def test_a_row_names_eight_entities_at_most(schema: Mapping[str, TableSchema]) -> None:
    names = "abcdefghi"
    keys = ", ".join(f'{{ columns = "{name}", references = "people(person_id)" }}' for name in names)
    columns = "\n".join(f"{name} = {{}}" for name in names)
    crowd = f"\n[tables.crowd]\nforeign_keys = [{keys}]\n[tables.crowd.columns]\n{columns}\n"
    wider = {**schema, "crowd": TableSchema(columns=tuple((name, "INTEGER") for name in names))}
    catalog = fit(parse_policy(POLICY + crowd), "person", wider, lambda *_: [])
    assert catalog.outside["crowd"] == "its rows reference the protected person along more than 8 paths"


def test_an_entity_that_hangs_on_another_is_refused() -> None:
    """Deleting a person deletes the household they head, and with it other people: one person is not one entity then."""
    schema = schema_of("CREATE TABLE households (household_id INTEGER PRIMARY KEY, head INTEGER)",
                       "CREATE TABLE people (person_id INTEGER PRIMARY KEY, household_id INTEGER)")
    text = """
version = 1
[entities.person]
table = "people"
key = "person_id"
[tables.households]
foreign_keys = [{ columns = "head", references = "people(person_id)" }]
[tables.households.columns]
household_id = {}
head = {}
[tables.people]
foreign_keys = [{ columns = "household_id", references = "households(household_id)" }]
[tables.people.columns]
person_id = {}
household_id = {}
[budgets.main]
entity = "person"
epsilon = 1
"""
    with pytest.raises(PolicyError, match="form a cycle"):
        fit(parse_policy(text), "main", schema, lambda *_: [])
    one_way = text.replace('foreign_keys = [{ columns = "household_id", references = "households(household_id)" }]\n', "")
    assert not fit(parse_policy(one_way), "main", schema, lambda *_: []).outside


def test_a_public_column_with_too_many_values(reader: DuckReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.catalog.schema.MOST_VALUES", 3)
    with pytest.raises(PolicyError, match="more than 3 values"):
        fitted(reader)


@pytest.mark.parametrize("most", [100, 99_999, 100_000, 1_000_000, 10**15])
def test_a_range_is_a_bound_and_a_domain_whatever_its_length(reader: DuckReader, most: int) -> None:
    wide = POLICY.replace("age = { range = [0, 100]", f"age = {{ range = [0, {most}]")
    column = fitted(reader, policy=wide).tables["people"].columns["age"]
    assert column.domain is not None and len(column.domain) == most + 1 and most in column.domain.values
    assert isinstance(column.domain.values, tuple) is (most < 100_000), "a million take no memory"
    assert column.declared == Interval(0, most)


def test_the_fit_does_not_change_the_schema(schema: Mapping[str, TableSchema]) -> None:
    before = {name: replace(table) for name, table in schema.items()}
    fit(parse_policy(POLICY), "household", schema, lambda *_: [])
    assert schema == before


def test_a_private_view_is_refused_as_it_may_mix_entities() -> None:
    schema = {"people": TableSchema(columns=(("person_id", "INTEGER"),), view=frozenset())}
    text = ('version = 1\n[entities.p]\ntable = "people"\nkey = "person_id"\n[tables.people]\n[tables.people.columns]\nperson_id = {}\n'
            '[budgets.b]\nentity = "p"\nepsilon = 1\n')
    with pytest.raises(PolicyError, match="is a view"):
        fit(parse_policy(text), "b", schema, lambda *_: [])


VIEWS = """
CREATE TABLE people (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE towns (n INTEGER);
CREATE VIEW few AS SELECT n FROM towns WHERE n < 9;
CREATE VIEW counts AS SELECT n, COUNT(*) AS c FROM people GROUP BY n;
CREATE VIEW through AS SELECT t.n FROM towns AS t WHERE EXISTS (SELECT 1 FROM counts WHERE counts.n = t.n);
CREATE MACRO all_of() AS TABLE SELECT * FROM "PEOPLE";
CREATE VIEW by_macro AS SELECT n FROM all_of();
CREATE VIEW by_name AS SELECT n FROM query_table('people');
CREATE VIEW broken AS SELECT n FROM people;
ALTER TABLE people RENAME n TO m;
"""


@pytest.mark.parametrize(("view", "private"), [("few", False), ("counts", True), ("through", True), ("by_macro", True), ("by_name", True)])
def test_a_public_view_reads_no_private_table(view: str, private: bool) -> None:
    connection = duckdb.connect(":memory:")
    connection.execute(VIEWS.rpartition("CREATE VIEW broken")[0])
    schema = DuckReader(connection, "v1").schema()
    text = ('version = 1\n[entities.p]\ntable = "people"\nkey = "id"\n[tables.people.columns]\nid = {}\n'
            f'[tables.{view}]\npublic = true\n[tables.{view}.columns]\nn = {{}}\n[budgets.b]\nentity = "p"\nepsilon = 1\n')
    with pytest.raises(PolicyError, match="is a view that reads people") if private else contextlib.nullcontext():
        assert fit(parse_policy(text), "b", schema, lambda *_: []).tables[view].public
    connection.close()


PUBLIC = """
CREATE TABLE people (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE towns (n INTEGER, name VARCHAR, founded TIMESTAMP);
CREATE SEQUENCE numbers;
CREATE MACRO all_of() AS TABLE SELECT * FROM towns;
CREATE MACRO chance() AS random();
CREATE VIEW few AS SELECT n FROM towns WHERE n < 9;
"""
FIXED = ("SELECT n FROM towns", "SELECT * FROM few", "FROM towns", "SELECT DISTINCT n FROM main.towns WHERE name LIKE 'a%' ORDER BY 1",
         "SELECT t.n + 1 AS n FROM towns t LEFT JOIN few f ON t.n IS NOT DISTINCT FROM f.n", "SELECT n FROM towns UNION SELECT n FROM few",
         "SELECT CASE WHEN upper(name) = 'A' THEN n ELSE coalesce(n, 0) END AS n FROM towns WHERE n IN (SELECT n FROM few)")
MOVING = ("SELECT CAST(random() * 3 AS INTEGER) AS n FROM towns", "SELECT CAST(epoch(now()) AS INTEGER) AS n", "SELECT n FROM towns LIMIT 1",
          "SELECT n FROM towns USING SAMPLE 2", "SELECT CAST(nextval('numbers') AS INTEGER) AS n FROM towns", "SELECT n FROM all_of()",
          "SELECT CAST(estimated_size AS INTEGER) AS n FROM duckdb_tables()", "SELECT CAST(count AS INTEGER) AS n FROM pragma_storage_info('people')",
          "SELECT CAST(reltuples AS INTEGER) AS n FROM pg_class", "SELECT first(n) AS n FROM towns", "SELECT DISTINCT ON (name) n FROM towns",
          "SELECT row_number() OVER () AS n FROM towns", "SELECT CAST(chance() AS INTEGER) AS n FROM towns", "SELECT t.n FROM towns t POSITIONAL JOIN few",
          "SELECT CAST(current_date - DATE '2000-01-01' AS INTEGER) AS n FROM towns", "SELECT n FROM (SELECT * FROM towns OFFSET 1)",
          "SELECT n FROM towns WHERE n < random()", "SELECT n FROM towns QUALIFY row_number() OVER () = 1", "SELECT CAST(ordinal_position AS INTEGER) AS n FROM information_schema.columns",
          "SELECT n FROM towns WHERE CAST(' Today' AS DATE) > DATE '2020-01-01'", "SELECT n FROM towns WHERE founded < 'now'",
          "SELECT n FROM towns WHERE CAST(name AS TIMESTAMP) < founded", "SELECT octet_length('\\x00'::BLOB)::INTEGER AS n FROM towns",
          "SELECT CAST(current_setting('threads') AS INTEGER) AS n", "SELECT unnest([n]) AS n FROM towns", "SELECT n FROM (SELECT * FROM few LIMIT 2) AS t")


@pytest.mark.parametrize(("text", "fixed"), [*((text, True) for text in FIXED), *((text, False) for text in MOVING)])
def test_a_public_view_shows_the_same_rows_at_every_read(text: str, fixed: bool) -> None:
    """What is counted of it is read again later, and what counts rows of private tables is no public table."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(PUBLIC)
        connection.execute(f"CREATE VIEW shown AS {text}")
        connection.execute("CREATE VIEW above AS SELECT n FROM shown")
        schema = DuckReader(connection, "v1").schema()
    for name in ("shown", "above"):
        policy = ('version = 1\n[entities.p]\ntable = "people"\nkey = "id"\n[tables.people.columns]\nid = {}\n'
                  f'[tables.{name}]\npublic = true\n[tables.{name}.columns]\nn = {{}}\n[budgets.b]\nentity = "p"\nepsilon = 1\n')
        with contextlib.nullcontext() if fixed else pytest.raises(PolicyError, match="may show other rows"):
            assert fit(parse_policy(policy), "b", schema, lambda *_: []).tables[name].public


def test_a_view_that_cannot_be_read_is_nobodys_matter() -> None:
    connection = duckdb.connect(":memory:")
    connection.execute(VIEWS)
    assert DuckReader(connection, "v1").schema()["broken"].view is not None
    connection.close()


MADE = """
CREATE TABLE people (id INTEGER PRIMARY KEY, code VARCHAR, born INTEGER AS (CAST(code AS INTEGER)), r DECIMAL(4,2) AS (random()));
CREATE TABLE visits (code VARCHAR, person INTEGER AS (CAST(code AS INTEGER)));
"""


@pytest.mark.parametrize(("more", "fault"), [
    ("", None), ("born = {}", "computed whenever it is read"), ("BORN = {}", "computed"), ("r = {}", "computed"),
    ('[tables.visits]\nforeign_keys = [{ columns = "person", references = "people(id)" }]\n[tables.visits.columns]\nperson = {}', "computed"),
    ('[tables.t]\npublic = true\n[tables.t.columns]\nx = {}', "computed")])
def test_columns_that_are_worked_out_when_they_are_read_are_refused(more: str, fault: str | None) -> None:
    """What raises for a row tells of it, and what differs from time to time has no place in a proof."""
    connection = duckdb.connect(":memory:")
    connection.execute(MADE + "CREATE TABLE t (y INTEGER, x DOUBLE AS (y * random()))")
    text = ('version = 1\n[entities.p]\ntable = "people"\nkey = "id"\n[budgets.b]\nentity = "p"\nepsilon = 1\n'
            f'[tables.people.columns]\nid = {{}}\n{more}\n')
    with pytest.raises(PolicyError, match=fault) if fault is not None else contextlib.nullcontext():
        fit(parse_policy(text), "b", DuckReader(connection, "v1").schema(), lambda *_: [])
    connection.close()
