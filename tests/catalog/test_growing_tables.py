"""Tables that grow, as a policy declares them: what is read, what of it reaches the kernel, and every mistake at its line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from fractions import Fraction

import duckdb
import pytest

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog import growing_tables
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import Price
from dpsql.catalog.schema import fit
from dpsql.errors import PolicyError
from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import KINDS, Growth, first_day, period_of
from dpsql.trusted.declarations.tables import Scalar, TableSchema

POLICY = """\
version = 1
[entities.person]
table = "people"
key = "person_id"
[entities.firm]
table = "firms"
key = "firm_id"
[entities.either]
any_of = ["person", "firm"]

[tables.people]
key = "person_id"
columns = { person_id = {}, born = {} }

[tables.firms]
key = "firm_id"
columns = { firm_id = {} }

[tables.visits]
key = ["person_id", "visited_on"]
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
grows_by = "visited_on"
period = "month"
since = 2024-01-15
closes = "5 days"
rows_per_entity_and_period = 10
columns = { person_id = {}, visited_on = {}, site = {} }

[tables.tests]
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
grows_by = "moment"
period = "month"
since = 2023-12-31
[tables.tests.columns]
test_id = {}
person_id = {}
moment = {}

[tables.towns]
public = true
columns = { town = {}, founded = {} }

[budgets.study]
entity = "person"
epsilon = 10
delta = 1e-6
per_statement = { epsilon = 0.1, delta = 1e-8 }
per_period = { epsilon = 1, delta = 1e-7 }
per_analyst_and_period = { epsilon = 0.5, delta = 1e-8 }

[budgets.static]
entity = "firm"
epsilon = 1
"""
TABLES = (
    "CREATE TABLE people (person_id INTEGER PRIMARY KEY, born DATE)", "CREATE TABLE firms (firm_id INTEGER PRIMARY KEY)",
    "CREATE TABLE towns (town VARCHAR, founded DATE)",
    "CREATE TABLE visits (person_id INTEGER REFERENCES people, visited_on DATE, site INTEGER, PRIMARY KEY (person_id, visited_on))",
    "CREATE TABLE tests (test_id INTEGER PRIMARY KEY, person_id INTEGER REFERENCES people, moment TIMESTAMP)")


def schema_of(*more: str) -> Mapping[str, TableSchema]:
    connection = duckdb.connect(":memory:")
    for statement in (*TABLES, *more):
        connection.execute(statement)
    return DuckReader(connection, "1").schema()


def nothing(table: str, columns: Sequence[str], most: int) -> Sequence[tuple[Scalar | None, ...]]:
    return ()


def fitted(text: str, *more: str, budget: str = "study") -> Catalog:
    return fit(parse_policy(text), budget, schema_of(*more), nothing)


def edited(*pairs: tuple[str, str]) -> str:
    text = POLICY
    for old, new in pairs:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return text


def test_what_is_declared_is_read() -> None:
    policy = parse_policy(POLICY)
    visits, tests = policy.tables["visits"].growth, policy.tables["tests"].growth
    assert visits is not None and tests is not None
    assert (visits.column, visits.period, visits.since, visits.closes) == ("visited_on", "month", dt.date(2024, 1, 15), 5)
    assert visits.rows == {"person": 10, "firm": 10, "either": 10}
    assert (tests.column, tests.closes, tests.rows) == ("moment", 0, {})
    assert policy.tables["people"].growth is None
    budget = policy.budgets["study"]
    assert budget.per_period == Price(epsilon=Fraction(1), delta=Fraction(1, 10**7))
    assert budget.per_analyst_and_period == Price(epsilon=Fraction(1, 2), delta=Fraction(1, 10**8))
    assert budget.total.epsilon == 10 and policy.budgets["static"].per_period is None


def test_a_limit_in_any_so_many_periods_is_read() -> None:
    more = "in_any = { periods = 12, epsilon = 5, delta = 1e-7 }\nper_analyst_in_any = { epsilon = 2, delta = 1e-8 }\n"
    policy = parse_policy(edited(("per_period = {", f"{more}per_period = {{")))
    budget, other = policy.budgets["study"], policy.budgets["static"]
    assert budget.in_any == Price(epsilon=Fraction(5), delta=Fraction(1, 10**7)) and budget.in_any_periods == 12
    assert budget.per_analyst_in_any == Price(epsilon=Fraction(2), delta=Fraction(1, 10**8))
    assert (other.in_any, other.in_any_periods, other.per_analyst_in_any) == (None, 0, None)


def test_the_kernel_is_told_how_tables_grow() -> None:
    tables = fitted(POLICY).tables
    january = period_of("month", dt.date(2024, 1, 1))
    assert tables["visits"].growth == Growth(column="visited_on", period="month", since=january, closes=5, rows=10)
    assert tables["tests"].growth == Growth(column="moment", period="month", since=january - 1, closes=0)
    assert tables["visits"].rows is None and tables["people"].growth is None and tables["towns"].growth is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_period_contains_the_day(kind: str) -> None:
    text = edited(*[('period = "month"', f'period = "{kind}"')] * 2)
    growth = fitted(text).tables["visits"].growth
    assert growth is not None and growth.period == kind
    assert first_day(growth.period, growth.since) <= dt.date(2024, 1, 15) < first_day(growth.period, growth.since + 1)


def test_a_limit_on_rows_may_differ_by_entity() -> None:
    text = edited(("rows_per_entity_and_period = 10", "rows_per_entity_and_period = { firm = 3 }"))
    assert parse_policy(text).tables["visits"].growth.rows == {"firm": 3}  # type: ignore[union-attr]
    assert fitted(text).tables["visits"].growth.rows is None  # type: ignore[union-attr]


def test_one_row_of_each_entity_is_one_in_each_period() -> None:
    text = edited(('key = "person_id"\ncolumns', 'key = "person_id"\ngrows_by = "born"\nperiod = "month"\nsince = 1990-01-01\ncolumns'),
                  *[('foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]\n', "")] * 2)
    catalog = fitted(text)
    assert set(catalog.outside) == {"visits", "tests", "firms"}
    people = catalog.tables["people"]
    assert people.growth is not None and (people.rows, people.growth.rows) == (1, 1)


def test_what_holds_of_the_limit_in_each_period_can_be_said() -> None:
    said = edited(("closes =", "limits_hold = true\ncloses ="))
    assert fitted(said).tables["visits"].limits_hold
    with pytest.raises(PolicyError, match="there is no limit"):
        parse_policy(said.replace("rows_per_entity_and_period = 10\n", ""))


# -- mistakes

VISITS, FK = "[tables.visits]", 'foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]'
PER_PERIOD, PER_ANALYST = "per_period = { epsilon = 1, delta = 1e-7 }\n", "per_analyst_and_period = { epsilon = 0.5, delta = 1e-8 }\n"
IN_ANY = "in_any = { periods = 12, epsilon = 5, delta = 1e-7 }\n"
MISTAKES = [  # the edits; how the line of the error begins; the reason; what to write
    # the parts that belong together
    ([('grows_by = "visited_on"\n', "")], "period", "there is no grows_by", "grows_by ="),
    ([('grows_by = "moment"\nperiod = "month"\n', "")], "since", "there is no grows_by", "grows_by ="),
    ([('grows_by = "moment"\nperiod = "month"\nsince = 2023-12-31', 'closes = "1 day"')], "closes", "there is no grows_by", "leaving it out"),
    ([('grows_by = "moment"\nperiod = "month"\nsince = 2023-12-31', "rows_per_entity_and_period = 3")], "rows_per_entity_and_period",
     "there is no grows_by", "leaving it out"),
    ([('grows_by = "visited_on"', 'grow_by = "visited_on"')], "grow_by", "unknown here", "grows_by"),
    ([('period = "month"\n', "")], VISITS, "period is missing", 'period = "month"'),
    ([('period = "month"', 'perod = "month"')], "perod", "unknown here", "period"),
    ([("since = 2024-01-15\n", "")], VISITS, "since is missing", "since = 2024-01-01"),
    ([("since = 2024-01-15\n", ""), ("rows_per_entity_and_period = 10\ncolumns = {", "rows_per_entity_and_period = 10\npublic = true\ncolumns = {")],
     VISITS, "since is missing", "since = 2024-01-01"),
    # each of them
    ([('"visited_on"\nperiod', "3\nperiod")], "grows_by", "must be text", 'grows_by = "visited_on"'),
    ([('"visited_on"\nperiod', '"visited"\nperiod')], "grows_by", "column visited is not declared", "visited_on"),
    ([('"month"', '"mnth"')], "period", "mnth is not a period", 'period = "month"'),
    ([('"month"', '"fortnight"')], "period", "fortnight is not a period", '"week"'),
    ([('"month"', "12")], "period", "must be text, not a whole number", 'period = "month"'),
    ([('"month"', '"Month"')], "period", "Month is not a period", 'period = "month"'),
    ([("2024-01-15", '"2024-01-15"')], "since", "must be a date, not text", "since = 2024-01-01"),
    ([("2024-01-15", "true")], "since", "must be a date, not true or false", "since = 2024-01-01"),
    ([("2024-01-15", "2024-01-15T00:00:00")], "since", "must be a date without a time", "since = 2024-01-15"),
    ([("2024-01-15", "07:30:00")], "since", "must be a date, not a time of day", "since = 2024-01-01"),
    ([("2024-01-15", "1899-12-31")], "since", "from 1900-01-01 to 2999-12-31", "since ="),
    ([("2024-01-15", "3000-01-01")], "since", "from 1900-01-01 to 2999-12-31", "since ="),
    ([("2024-01-15", "2999-12-31")], "since", "must not begin in the future", "or an earlier day"),
    *(([('"5 days"', text)], "closes", says, 'closes = "5 days"') for text, says in [
        ("5", "must be text"), ('"5"', "whole days"), ('"-1 days"', "whole days"), ('"401 days"', "up to 400"), ('"1.5 days"', "whole days"),
        ('"5 months"', "whole days"), ('"5 days "', "whole days"), ('"\u0665 days"', "whole days"), ('""', "whole days")]),
    ([("_period = 10", "_period = 0")], "rows_per_entity_and_period", "from 1 to 1000000", "rows_per_entity_and_period = 10"),
    ([("_period = 10", "_period = true")], "rows_per_entity_and_period", "not true or false", "rows_per_entity_and_period = 10"),
    ([("_period = 10", "_period = { persn = 3 }")], "rows_per_entity_and_period", "no entity persn", "person"),
    ([("rows_per_entity_and_period = 10", "rows_per_entity = 10")], "rows_per_entity", "limited in each period", "rows_per_entity_and_period"),
    ([("closes =", "rows_per_entity = 3\ncloses =")], "rows_per_entity", "limited in each period", "rows_per_entity_and_period"),
    ([("public = true", 'public = true\ngrows_by = "founded"\nperiod = "month"\nsince = 2020-01-01')], "grows_by", "it has no periods", "leaving it out"),
    # budgets
    ([(PER_PERIOD + PER_ANALYST, "")], "[budgets.study]", "per_period is missing, the limit on what is spent on one person in one month of visits and tests",
     "per_period = { epsilon = 1, delta = 1e-07 }"),
    ([(PER_PERIOD + PER_ANALYST, ""), ("epsilon = 10\ndelta = 1e-6\nper_statement = { epsilon = 0.1, delta = 1e-8 }", "rho = 0.5")], "[budgets.study]",
     "per_period is missing", "per_period = { rho = 0.05 }"),
    ([(PER_PERIOD, "")], "per_analyst_and_period", "there is no per_period", "per_period = { epsilon = 0.5, delta = 1e-08 } or more"),
    ([('entity = "firm"\nepsilon = 1', 'entity = "firm"\nepsilon = 1\nper_period = { epsilon = 1 }')], "per_period", "no table that belongs to firm grows",
     "leaving it out"),
    ([(PER_PERIOD, "per_period = 1\n")], "per_period", "must be a table", "per_period = { epsilon = 0.5 }"),
    ([(PER_PERIOD, "per_period = {}\n")], "per_period", "epsilon is missing", "epsilon = 1.0"),
    ([(PER_PERIOD, "per_period = { epsilon = -1 }\n")], "per_period", "epsilon must be between", ""),
    ([(PER_PERIOD, "per_period = { epsilon = 1, deltas = 1e-7 }\n")], "per_period", "unknown here", "delta"),
    ([(PER_PERIOD, "per_period = { rho = 0.1 }\n")], "per_period", "same currency as the total", "epsilon"),
    ([(PER_PERIOD, "per_period = { epsilon = 11, delta = 1e-7 }\n")], "per_period", "more than the total, which limits all periods together", "epsilon = 10, at most"),
    ([(PER_PERIOD, "per_period = { epsilon = 1, delta = 1e-5 }\n")], "per_period", "more than the total, which limits all periods together", "delta = 1e-06, at most"),
    ([("delta = 1e-6\nper_statement = { epsilon = 0.1, delta = 1e-8 }\n", "")], "per_period", "the total has no delta", "without delta"),
    ([(PER_ANALYST, "per_analyst_and_period = 1\n")], "per_analyst_and_period", "must be a table", "per_analyst_and_period = {"),
    ([(PER_ANALYST, "per_analyst_and_period = { rho = 0.1 }\n")], "per_analyst_and_period", "same currency as the total", "epsilon"),
    ([(PER_ANALYST, "per_analyst_and_period = { epsilon = 2, delta = 1e-8 }\n")], "per_analyst_and_period", "more than per_period, so it could never be spent",
     "epsilon = 1, at most"),
    ([(PER_PERIOD, "per_period = { epsilon = 1 }\n")], "per_analyst_and_period", "per_period has no delta", "without delta"),
    # of any so many consecutive periods
    *[([(PER_ANALYST, PER_ANALYST + more)], at, says, try_) for more, at, says, try_ in (
        ("in_any = 1\n", "in_any", "must be a table", "in_any = { periods = 12, epsilon = 2.0 }"),
        ("in_any = { epsilon = 5, delta = 1e-7 }\n", "in_any", "periods is missing", "periods = 12"),
        ("in_any = { periods = 1, epsilon = 5, delta = 1e-7 }\n", "in_any", "whole number from 2 to 4000", ""),
        ("in_any = { periods = 4001, epsilon = 5, delta = 1e-7 }\n", "in_any", "whole number from 2 to 4000", ""),
        ("in_any = { periods = true, epsilon = 5, delta = 1e-7 }\n", "in_any", "must be a", ""),
        ("in_any = { periods = 12 }\n", "in_any", "epsilon is missing", "epsilon = 1.0"),
        ("in_any = { period = 12, epsilon = 5 }\n", "in_any", "unknown here", "periods"),
        ("in_any = { periods = 12, rho = 0.5 }\n", "in_any", "same currency as the total", "epsilon"),
        ("in_any = { periods = 12, epsilon = 11, delta = 1e-7 }\n", "in_any", "more than the total, which limits all periods together", "epsilon = 10, at most"),
        ("in_any = { periods = 12, epsilon = 0.9, delta = 1e-7 }\n", "per_period", "more than in_any, which limits 12 periods together", "epsilon = 0.9, at most"),
        ("in_any = { periods = 12, epsilon = 5 }\n", "per_period", "in_any has no delta", "without delta"),
        ("per_analyst_in_any = { epsilon = 2, delta = 1e-8 }\n", "per_analyst_in_any", "there is no in_any",
         "in_any = { periods = 12, epsilon = 2, delta = 1e-08 } or more"),
        (f"{IN_ANY}per_analyst_in_any = {{ periods = 12, epsilon = 2 }}\n", "per_analyst_in_any", "unknown here", ""),
        (f"{IN_ANY}per_analyst_in_any = {{ rho = 2 }}\n", "per_analyst_in_any", "same currency as the total", "epsilon"),
        (f"{IN_ANY}per_analyst_in_any = {{ epsilon = 6, delta = 1e-8 }}\n", "per_analyst_in_any", "more than in_any, so it could never be spent", "epsilon = 5"),
        (f"{IN_ANY}per_analyst_in_any = {{ epsilon = 0.4, delta = 1e-8 }}\n", "per_analyst_and_period",
         "more than per_analyst_in_any, which limits 12 periods together", "epsilon = 0.4, at most"))],
    ([('entity = "firm"\nepsilon = 1', 'entity = "firm"\nepsilon = 1\nin_any = { periods = 3, epsilon = 1 }')], "in_any", "no table that belongs to firm grows",
     "leaving it out"),
    ([(PER_PERIOD + PER_ANALYST, IN_ANY)], "[budgets.study]", "per_period is missing", "per_period = "),
    # of several tables
    ([('period = "month"\nsince = 2023-12-31', 'period = "week"\nsince = 2023-12-31')], "period", "visits, whose rows belong to the same person, grows by month",
     'period = "month"'),
]


@pytest.mark.parametrize(("edits", "at", "says", "try_"), MISTAKES, ids=[f"{case[1]} {case[2]}"[:60] for case in MISTAKES])
def test_a_mistake_is_located(edits: list[tuple[str, str]], at: str, says: str, try_: str) -> None:
    text = edited(*edits)
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, path="some.toml")
    fault = caught.value.as_dict()
    assert says in fault["reason"] and (try_ in fault["try"] if try_ else True)
    assert text.splitlines()[fault["line"] - 1].startswith(at)


def test_what_is_proposed_for_each_period_is_right() -> None:
    for total in ("epsilon = 10\ndelta = 1e-6", "epsilon = 0.3", "rho = 0.5", "rho = 0.5\ndelta = 1e-9"):
        text = edited((PER_PERIOD + PER_ANALYST, ""), ("epsilon = 10\ndelta = 1e-6\nper_statement = { epsilon = 0.1, delta = 1e-8 }", total))
        with pytest.raises(PolicyError) as caught:
            parse_policy(text)
        parse_policy(text.replace(f'entity = "person"\n{total}', f'entity = "person"\n{total}\n{caught.value.as_dict()["try"]}'))


def test_the_first_period_may_begin_today() -> None:
    today = dt.datetime.now(dt.UTC).date()
    assert parse_policy(edited(("2024-01-15", str(today)))).tables["visits"].growth.since <= today  # type: ignore[union-attr]
    tomorrow = today + dt.timedelta(days=2)  # one day later than the day that may begin while this runs
    with pytest.raises(PolicyError, match="in the future"):
        parse_policy(edited(("2024-01-15", str(tomorrow))))


def test_periods_of_different_entities_may_differ() -> None:
    text = edited(("[tables.towns]", '[tables.sales]\nforeign_keys = [{ columns = "firm_id", references = "firms(firm_id)" }]\ngrows_by = "sold"\n'
                   'period = "day"\nsince = 2024-01-01\ncolumns = { firm_id = {}, sold = {} }\n[tables.towns]'),
                  ('entity = "firm"\nepsilon = 1', 'entity = "firm"\nepsilon = 1\nper_period = { epsilon = 0.1 }'))
    policy = parse_policy(text)
    assert set(growing_tables.growing_of(policy, policy.entities["person"])) == {"visits", "tests"}
    assert set(growing_tables.growing_of(policy, policy.entities["firm"])) == {"sales"}
    with pytest.raises(PolicyError, match="visits, whose rows belong to the same either, grows by month"):
        parse_policy(text.replace('entity = "firm"\nepsilon = 1', 'entity = "either"\nepsilon = 1'))


# -- what is known when a policy meets a schema


@pytest.mark.parametrize(("kind", "fits"), [("DATE", True), ("TIMESTAMP", True), ("TIMESTAMPTZ", True), ("TIMESTAMP_NS", True), ("VARCHAR", False),
                                            ("INTEGER", False), ("DOUBLE", False), ("BOOLEAN", False)])
def test_a_table_grows_by_a_date_or_a_time(kind: str, fits: bool) -> None:
    grown = 'grows_by = "day"\nperiod = "month"\nsince = 2024-01-01\ncolumns = { person_id = {}, day = {} }\n'
    text = edited(("[tables.towns]", f"[tables.more]\n{FK}\n{grown}[tables.towns]"))
    made = f"CREATE TABLE more (person_id INTEGER, day {kind})"
    if fits:
        assert fitted(text, made).tables["more"].growth is not None
        return
    with pytest.raises(PolicyError, match=r"tables\.more\.grows_by: column day is \w+, not a date or a time") as caught:
        fitted(text, made)
    fault = caught.value.as_dict()
    assert text.splitlines()[fault["line"] - 1] == 'grows_by = "day"' and "DATE or TIMESTAMP" in fault["try"]


def below(columns: str, grows: str, keys: str = "") -> str:
    """The policy with a table whose rows refer to rows of a table that grows."""
    named = ", ".join(f"{column} = {{}}" for column in columns.split())
    grown = f'grows_by = "{grows}"\nperiod = "month"\nsince = 2024-01-01\n' if grows else ""
    return edited(("[tables.towns]", f"[tables.below]\nforeign_keys = [{keys}]\n{grown}columns = {{ {named} }}\n[tables.towns]"))


TO_TESTS = '{ columns = "test_id", references = "tests(test_id)" }'
TO_VISITS = '{{ columns = {}, references = "visits(person_id, visited_on)" }}'
BOTH = TO_VISITS.format('["person_id", "day"]')
BELOW = {
    "a path through a growing table, of one that grows": (("test_id moment", "moment", TO_TESTS), "below and tests grow, and a row may refer to a row of another period"),
    "a path through a growing table, of one that does not": (("test_id moment", "", TO_TESTS), "tests grows, and below does not"),
    "the name in the row, of one that does not grow": (("person_id day", "", BOTH), "visits grows, and below does not"),
    "the name in the row, of one that grows by another day": (("person_id day paid", "paid", BOTH), "below and visits grow, and a row may refer"),
    "a path through a growing table, by its time too": (
        ("test_id moment", "moment", '{ columns = ["test_id", "moment"], references = "tests(test_id, moment)" }'), "below and tests grow, and a row may refer"),
    "one path of two": (("person_id test_id moment", "moment", f'{TO_TESTS}, {{ columns = "person_id", references = "people(person_id)" }}'),
                        "below and tests grow, and a row may refer"),
}
BELOW_TABLE = "CREATE TABLE below (person_id INTEGER, test_id INTEGER, moment TIMESTAMP, day DATE, paid DATE)"


@pytest.mark.parametrize("name", BELOW)
def test_a_row_does_not_depend_on_one_of_another_period(name: str) -> None:
    (columns, grows, keys), says = BELOW[name]
    text = below(columns, grows, keys)
    with pytest.raises(PolicyError) as caught:
        fitted(text, BELOW_TABLE)
    fault = caught.value.as_dict()
    assert says in fault["reason"] and "instead, a foreign key from the column of below" in fault["try"]
    assert text.splitlines()[fault["line"] - 1] == f"foreign_keys = [{keys}]" and fault["reason"].startswith("tables.below.foreign_keys")


def test_a_row_may_depend_on_one_of_the_same_period() -> None:
    """The foreign key has the time of both, and the name is in the row."""
    table = fitted(below("person_id day", "day", BOTH), BELOW_TABLE).tables["below"]
    assert table.growth is not None and table.owner is not None and table.owner.in_row


def test_a_table_in_between_is_refused_itself() -> None:
    text = below("test_id moment", "", TO_TESTS).replace("[tables.towns]", "[tables.last]\nforeign_keys = [{ columns = \"test_id\", references = \"below(test_id)\" }]\n"
                                                     'grows_by = "moment"\nperiod = "month"\nsince = 2024-01-01\ncolumns = { test_id = {}, moment = {} }\n[tables.towns]')
    with pytest.raises(PolicyError, match="tests grows, and below does not"):
        fitted(text, BELOW_TABLE.replace("test_id INTEGER", "test_id INTEGER PRIMARY KEY"), "CREATE TABLE last (test_id INTEGER, moment DATE)")


def test_a_foreign_key_to_a_table_that_does_not_grow_is_no_matter() -> None:
    """Rows of a table that does not grow belong to no period, and those that refer to them have their own."""
    catalog = fitted(POLICY)
    assert {name for name, table in catalog.tables.items() if table.growth is not None} == {"visits", "tests"}
    firms = fitted(POLICY, budget="static")
    assert set(firms.tables) == {"firms", "towns"} and firms.tables["firms"].growth is None


def test_a_table_of_several_entities_grows() -> None:
    text = edited(("[tables.towns]", f'[tables.meetings]\nforeign_keys = [{FK[16:-1]}, {{ columns = "other", references = "people(person_id)" }}]\n'
                   'grows_by = "day"\nperiod = "month"\nsince = 2024-01-01\nrows_per_entity_and_period = 4\n'
                   "columns = { person_id = {}, other = {}, day = {} }\n[tables.towns]"))
    table = fitted(text, "CREATE TABLE meetings (person_id INTEGER, other INTEGER, day DATE)").tables["meetings"]
    assert len(table.owners) == 2 and table.growth is not None and table.growth.rows == 4


def test_only_the_limit_of_this_entity_counts() -> None:
    policy = parse_policy(edited(("rows_per_entity_and_period = 10", "rows_per_entity_and_period = { person = 7, firm = 3 }")))
    tables = fit(policy, "study", schema_of(), nothing).tables
    assert tables["visits"].growth == replace(fitted(POLICY).tables["visits"].growth, rows=7)  # type: ignore[type-var]
