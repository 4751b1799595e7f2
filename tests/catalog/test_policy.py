"""Every mistake in a policy is an error at the right line, with a stable code and a way out."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest
from support.worlds import POLICY as WORLD

from dpsql.catalog.policy import parse_policy, read_policy, written_reference
from dpsql.catalog.sections import locate
from dpsql.catalog.writing import value
from dpsql.errors import PolicyError
from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import ForeignKey

GOOD = """\
version = 1
database = "people.duckdb"
[entities.person]
table = "people"
key = "id"

[tables.people]
key = "id"
foreign_keys = [{ columns = "home", references = "homes(home)" }]
rows_per_entity = 2
[tables.people.columns]
id = {}
home = {}
age = { range = [0, 100], bins = 10, nullable = false }
pay = { bounds = [0, 1000], decimals = 2 }
sex = { values = ["f", "m"] }
town = { values_from = "towns.town" }

[tables.homes]
[tables.homes.columns]
home = {}

[tables.towns]
public = true
[tables.towns.columns]
town = {}

[budgets.main]
entity = "person"
epsilon = 1
delta = 1e-6

[budgets.main.per_analyst]
epsilon = 0.5
"""


class Mistake(Frozen, kw_only=False):
    """`old` becomes `new`; the error stands at the line that starts with `at` (None: it has no place), with this code."""

    old: str
    new: str
    at: str | None
    says: str
    try_: str = ""
    code: str = "policy"


AGE, PAY, SEX, TOWN = "age = {", "pay = {", "sex = {", "town = { values_from"
BUDGET = "[budgets.main]"
FK = 'foreign_keys = [{ columns = "home", references = "homes(home)" }]'

MISTAKES = {
    # TOML itself
    "unclosed-string": Mistake('table = "people"', 'table = "people', "table =", "not TOML", code="policy-syntax"),
    "unclosed-list": Mistake("range = [0, 100]", "range = [0, 100", "age = {", "not TOML", code="policy-syntax"),
    "same-key-twice": Mistake("epsilon = 1\n", "epsilon = 1\nepsilon = 2\n", "epsilon = 2", "not TOML", code="policy-syntax"),
    "same-table-twice": Mistake("[tables.homes]", "[tables.people]", "[tables.people]", "not TOML", code="policy-syntax"),
    "no-value": Mistake("version = 1", "version =", "version", "not TOML", code="policy-syntax"),
    "impossible-date": Mistake("range = [0, 100], bins = 10", "range = [2020-01-01, 2020-13-01]", "age", "not TOML",
                               code="policy-syntax"),
    "endless-number": Mistake("epsilon = 1\n", f"epsilon = {'9' * 5000}\n", None, "not TOML", code="policy-syntax"),
    # the frame
    "no-version": Mistake("version = 1\n", "", None, "version is missing", "version = 1", "missing-key"),
    "other-version": Mistake("version = 1", "version = 2", "version = 2", "must be 1"),
    "pace-number": Mistake("version = 1", "version = 1\npace = 100", "pace", "must be text", 'pace = "100 ms" or pace = "none"'),
    **{f"pace {text}": Mistake("version = 1", f'version = 1\npace = "{text}"', "pace", "must be a time from", "100 ms")
       for text in ("", "0 s", "3601 s", "100", "1.5 s", "-1 s", "1 min", "None", "100 ms ", "1e3 ms", "٣ s")},
    "pace of stored": Mistake("version = 1", 'version = 1\npace_stored = "0 s"', "pace_stored", "must be a time from", "50 ms"),
    **{f"late {number}": Mistake("epsilon = 1\n", f"epsilon = 1\nlate = {number}\n", "late", "must be a whole number", "late = 20")
       for number in ("-1", "1000001", "true", "2.5", '"3"')},
    "true-version": Mistake("version = 1", "version = true", "version = true", "must be a whole number, not true or false"),
    "unknown-key": Mistake("version = 1", "version = 1\nledgr = 'x'", "ledgr", "unknown", "ledger", "unknown-key"),
    "unknown-key-far-off": Mistake("version = 1", "version = 1\nqqq = 1", "qqq", "unknown", "one of", "unknown-key"),
    "database-number": Mistake("database = \"people.duckdb\"", "database = 3", "database = 3", "must be text, not a whole number"),
    "no-entities": Mistake('[entities.person]\ntable = "people"\nkey = "id"', "", None, "entities is missing",
                           "[entities.<name>]", "missing-key"),
    "mistyped-section": Mistake("[entities.person]", "[entites.person]", "[entites.person]", "unknown", "entities",
                                "unknown-key"),
    "empty-section": Mistake('[entities.person]\ntable = "people"\nkey = "id"', "[entities]", "[entities]", "empty",
                             "[entities.<name>]", "missing-key"),
    "section-of-number": Mistake('[entities.person]\ntable = "people"\nkey = "id"', "[entities]\nperson = 3", "person = 3",
                                 "must be a table"),
    # entities
    "entity-without-table": Mistake('table = "people"\n', "", "[entities.person]", "table is missing", 'table = "people"',
                                    "missing-key"),
    "entity-mistyped-table": Mistake('table = "people"', 'tabel = "people"', "tabel", "unknown", "table", "unknown-key"),
    "entity-of-unknown-table": Mistake('table = "people"', 'table = "peple"', 'table = "peple"', "no table peple", "people",
                                       "policy-reference"),
    "entity-of-unknown-column": Mistake('key = "id"\n\n', 'key = "idd"\n\n', 'key = "idd"', "declares no column idd", "id",
                                        "policy-reference"),
    "entity-in-public-table": Mistake('table = "people"\nkey = "id"', 'table = "towns"\nkey = "town"', 'table = "towns"',
                                      "public, so it protects nobody", "remove public", "policy-reference"),
    "kinds-with-a-table": Mistake('table = "people"\n', 'any_of = ["a", "b"]\ntable = "people"\n', 'table = "people"', "of their own",
                                  "leaving table out"),
    # tables
    "table-name-with-a-blank-that-is-none": Mistake("[tables.homes]", '[tables."my\u00a0homes"]', '[tables."my\u00a0homes"]', "visible characters"),
    "table-twice-by-case": Mistake("[tables.towns]\npublic", "[tables.HOMES]\n[tables.towns]\npublic", "[tables.HOMES]",
                                   "this is homes again", "only homes"),
    "column-twice-by-case": Mistake("home = {}\nage", "Home = {}\nhome = {}\nage", "home = {}", "this is Home again"),
    "public-is-text": Mistake("public = true", 'public = "yes"', 'public = "yes"', "must be true or false, not text"),
    "table-key-undeclared": Mistake('key = "id"\nforeign', 'key = "idx"\nforeign', 'key = "idx"', "idx is not declared", "id"),
    "table-key-twice": Mistake('key = "id"\nforeign', 'key = ["id", "id"]\nforeign', 'key = ["id"', "twice"),
    "table-key-number": Mistake('key = "id"\nforeign', "key = [1]\nforeign", "key = [1]", "list of names"),
    "limit-zero": Mistake("rows_per_entity = 2", "rows_per_entity = 0", "rows_per_entity", "from 1 to 1000000"),
    "limit-true": Mistake("rows_per_entity = 2", "rows_per_entity = true", "rows_per_entity", "not true or false"),
    "limit-inner-true": Mistake("rows_per_entity = 2", "rows_per_entity = { person = true }", "rows_per_entity", "whole number"),
    "limit-fraction": Mistake("rows_per_entity = 2", "rows_per_entity = 2.5", "rows_per_entity", "not a number"),
    "limit-of-unknown-entity": Mistake("rows_per_entity = 2", "rows_per_entity = { persn = 2 }", "rows_per_entity",
                                       "no entity persn", "person"),
    "limit-of-public-table": Mistake("public = true", "public = true\nrows_per_entity = 3", "rows_per_entity = 3",
                                     "public table", "leaving it out"),
    "value-limit-zero": Mistake("rows_per_entity = 2", "rows_per_value = { sex = 0 }", "rows_per_value", "from 1 to 1000000"),
    "value-limit-number": Mistake("rows_per_entity = 2", "rows_per_value = 3", "rows_per_value", "a table"),
    "value-limit-of-unknown-column": Mistake("rows_per_entity = 2", "rows_per_value = { sx = 3 }", "rows_per_value",
                                             "column sx is not declared", "sex"),
    "limits-that-hold-without-any": Mistake("rows_per_entity = 2", "limits_hold = true", "limits_hold", "there is no limit"),
    "limits-that-hold-text": Mistake("rows_per_entity = 2", 'rows_per_entity = 2\nlimits_hold = "yes"', "limits_hold", "true or false"),
    "value-limit-of-public-table": Mistake("public = true", "public = true\nrows_per_value = { town = 3 }", "rows_per_value",
                                           "public table", "leaving it out"),
    "columns-number": Mistake("town = {}", "town = 3", "town = 3", "must be a table"),
    "unknown-table-key": Mistake("public = true", "publik = true", "publik", "unknown", "public", "unknown-key"),
    # foreign keys
    "fk-of-unknown-column": Mistake('columns = "home"', 'columns = "hme"', "foreign_keys", "declares no column hme", "home",
                                    "policy-reference"),
    "fk-to-unknown-table": Mistake('"homes(home)"', '"homs(home)"', "foreign_keys", "no table homs", "homes",
                                   "policy-reference"),
    "fk-to-unknown-column": Mistake('"homes(home)"', '"homes(zzz)"', "foreign_keys", "homes declares no column zzz",
                                    "[tables.homes.columns]  zzz = {}", "policy-reference"),
    "fk-misspelt": Mistake('"homes(home)"', '"homes.home"', "foreign_keys", "written table(column)", "references ="),
    "fk-counts-differ": Mistake('"homes(home)"', '"homes(home, id)"', "foreign_keys", "differ in number"),
    "fk-twice": Mistake(FK, FK.replace("}]", "}, " + FK[16:]), "foreign_keys", "the one of home occurs twice", "leave one"),
    "fk-half-quoted": Mistake('"homes(home)"', "'homes(\"home)'", "foreign_keys", "written table(column)"),
    "fk-nameless": Mistake('"homes(home)"', '"homes( )"', "foreign_keys", "differ in number: 1 and 0"),
    "fk-text": Mistake(FK, 'foreign_keys = "homes"', "foreign_keys", "must be a list"),
    "fk-extra-key": Mistake('columns = "home",', 'columns = "home", on = 1,', "foreign_keys", "columns and references"),
    "public-hangs-on-private": Mistake(
        "public = true", 'public = true\nforeign_keys = [{ columns = "town", references = "people(id)" }]', "public = true",
        "cannot depend on the private table people", "remove public", "policy-reference"),
    # columns
    "unknown-column-key": Mistake("decimals = 2", "decimal = 2", PAY, "unknown", "decimals", "unknown-key"),
    "two-kinds": Mistake('values = ["f", "m"]', 'values = ["f", "m"], range = [0, 1]', SEX, "cannot both be given",
                         "only values"),
    "no-values": Mistake('values = ["f", "m"]', "values = []", SEX, "between 1 and"),
    "values-twice": Mistake('values = ["f", "m"]', 'values = ["f", "m", "f"]', SEX, "twice"),
    "values-one-and-true": Mistake('values = ["f", "m"]', "values = [1, true]", SEX, "one type"),
    "values-equal-numbers": Mistake('values = ["f", "m"]', "values = [1, 1.0]", SEX, "twice"),
    "values-nan": Mistake('values = ["f", "m"]', "values = [1.0, nan]", SEX, "finite"),
    "values-infinite": Mistake('values = ["f", "m"]', "values = [1.0, inf]", SEX, "finite"),
    "values-huge": Mistake('values = ["f", "m"]', f"values = [1, {10**30}]", SEX, "64 bits"),
    "values-lists": Mistake('values = ["f", "m"]', 'values = [["f"]]', SEX, "texts, numbers"),
    "values-with-zone": Mistake('values = ["f", "m"]', "values = [2020-01-01T00:00:00Z]", SEX, "without a time zone"),
    "values-from-no-column": Mistake('"towns.town"', '"towns"', TOWN, "written table.column"),
    "values-from-unknown": Mistake('"towns.town"', '"town.town"', TOWN, "no table town", "towns", "policy-reference"),
    "values-from-unknown-column": Mistake('"towns.town"', '"towns.twn"', TOWN, "no column twn", "town", "policy-reference"),
    "values-from-private": Mistake('"towns.town"', '"homes.home"', TOWN, "not public", "", "policy-reference"),
    "range-reversed": Mistake("range = [0, 100]", "range = [100, 0]", AGE, "first end", "range = [0, 100]"),
    "range-nan": Mistake("range = [0, 100]", "range = [0, nan]", AGE, "first end"),
    "range-infinite": Mistake("range = [0, 100]", "range = [0, inf]", AGE, "±1e15"),
    "range-1e308": Mistake("range = [0, 100]", "range = [0, 1e308]", AGE, "±1e15"),
    "range-true": Mistake("range = [0, 100]", "range = [false, true]", AGE, "two numbers or two dates"),
    "range-one-end": Mistake("range = [0, 100]", "range = [100]", AGE, "two numbers or two dates"),
    "range-search": Mistake("range = [0, 100]", 'range = "search"', AGE, "must be a list"),
    "range-mixed": Mistake("range = [0, 100], bins = 10", "range = [2020-01-01, 5]", AGE, "one type"),
    "range-date-and-time": Mistake("range = [0, 100], bins = 10", "range = [2020-01-01, 2020-01-02T00:00:00]", AGE, "one type"),
    "range-with-zone": Mistake("range = [0, 100], bins = 10", "range = [2020-01-01T00:00:00, 2020-01-02T00:00:00Z]", AGE,
                               "without a time zone"),
    "bounds-word": Mistake("bounds = [0, 1000]", 'bounds = "find"', PAY, "two numbers or two dates", 'bounds = "search"'),
    "bins-falling": Mistake("bins = 10", "bins = [0, 20, 10]", AGE, "increasing cut points"),
    "bins-nan": Mistake("bins = 10", "bins = [0, nan]", AGE, "increasing cut points"),
    "bins-infinite": Mistake("bins = 10", "bins = [0, inf]", AGE, "±1e15"),
    "bins-huge": Mistake("bins = 10", f"bins = [0, {10**400}]", AGE, "±1e15"),
    "bins-none": Mistake("bins = 10", "bins = 0", AGE, "between 1 and 10000"),
    "bins-true": Mistake("bins = 10", "bins = true", AGE, "not true or false"),
    "bins-without-range": Mistake("range = [0, 100], ", "", AGE, "needs a range", "range = [0, 100], bins = 10"),
    "bins-of-a-point": Mistake("range = [0, 100]", "range = [5, 5]", AGE, "single point"),
    "decimals-many": Mistake("decimals = 2", "decimals = 10", PAY, "between 0 and 9"),
    "decimals-fraction": Mistake("decimals = 2", "decimals = 2.5", PAY, "whole number"),
    "two-grids": Mistake("decimals = 2", "decimals = 2, power_of_two = 1", PAY, "cannot both be given"),
    "power-far": Mistake("decimals = 2", "power_of_two = -41", PAY, "between -40 and 40"),
    "others-number": Mistake("nullable = false", "others = 0", AGE, "must be true or false, not a whole number"),
    "others-of-bounds": Mistake("range = [0, 100], bins = 10, nullable = false", "bounds = [0, 100], others = false", "age = {", "no values are listed",
                                "values = [...] or range = [...]"),
    "like-number": Mistake("decimals = 2", "like = 3", PAY, "must be text", 'like = "[A-Z]{2}-[0-9]{4}"'),
    "nullable-number": Mistake("nullable = false", "nullable = 0", AGE, "must be true or false, not a whole number"),
    "type-of-a-database": Mistake("decimals = 2", 'type = "BIGINT"', PAY, "only columns of CSV files", "leaving it out", "policy-reference"),
    "type-unknown": Mistake("decimals = 2", 'type = "INT"', PAY, "there is no type INT", "one of BOOLEAN, BIGINT"),
    "type-number": Mistake("decimals = 2", "type = 3", PAY, "must be text", 'type = "BIGINT"'),
    # budgets
    "budget-of-unknown-entity": Mistake('entity = "person"', 'entity = "persn"', 'entity = "persn"', "no entity persn",
                                        "person"),
    "budget-without-entity": Mistake('entity = "person"\n', "", BUDGET, "entity is missing", 'entity = "person"', "missing-key"),
    "budget-without-amount": Mistake("epsilon = 1\ndelta = 1e-6\n", "", BUDGET, "epsilon is missing", "epsilon = 1.0",
                                     "missing-key"),
    "budget-mistyped": Mistake("epsilon = 1\ndelta = 1e-6\n", "epsilom = 1\n", "epsilom", "unknown", "epsilon", "unknown-key"),
    "epsilon-mistyped": Mistake("epsilon = 1\n", "epsilom = 1\n", "epsilom", "unknown", "epsilon", "unknown-key"),
    "analyst-number": Mistake("epsilon = 0.5", "epsilon = 0.5\n[budgets.main.analysts]\nal = 3", "al = 3", "must be a table",
                              "al = { epsilon = 0.5 }"),
    "analysts-above-total": Mistake("epsilon = 0.5", "epsilon = 1.5", "epsilon = 1.5", "more than the total", "epsilon = 1, at most"),
    "analysts-delta-above-total": Mistake("epsilon = 0.5", "epsilon = 0.5\ndelta = 1e-5", "delta = 1e-5", "more than the total",
                                          "delta = 1e-06, at most"),
    "analyst-above-total": Mistake("epsilon = 0.5", "epsilon = 0.5\n[budgets.main.analysts.al]\nepsilon = 2", "epsilon = 2",
                                   "more than the total"),
    "statement-above-total": Mistake("epsilon = 0.5", "epsilon = 0.5\n[budgets.main.per_statement]\nepsilon = 2", "epsilon = 2",
                                     "more than the total"),
    "statement-delta-without-any": Mistake("delta = 1e-6\n", "per_statement = { epsilon = 0.1, delta = 1e-8 }\n", "per_statement",
                                           "has no delta"),
    "statement-rho-of-pure": Mistake("delta = 1e-6\n", "per_statement = { rho = 0.1 }\n", "per_statement", "a price in rho is not"),
    "epsilon-nan": Mistake("epsilon = 1\n", "epsilon = nan\n", "epsilon = nan", "finite"),
    "epsilon-infinite": Mistake("epsilon = 1\n", "epsilon = inf\n", "epsilon = inf", "finite"),
    "epsilon-negative": Mistake("epsilon = 1\n", "epsilon = -1\n", "epsilon = -1", "between"),
    "epsilon-zero": Mistake("epsilon = 1\n", "epsilon = 0\n", "epsilon = 0", "between"),
    "epsilon-1e308": Mistake("epsilon = 1\n", "epsilon = 1e308\n", "epsilon = 1e308", "between"),
    "epsilon-tiny": Mistake("epsilon = 1\n", "epsilon = 1e-320\n", "epsilon = 1e-320", "between"),
    "epsilon-true": Mistake("epsilon = 1\n", "epsilon = true\n", "epsilon = true", "not true or false"),
    "epsilon-text": Mistake("epsilon = 1\n", 'epsilon = "1"\n', 'epsilon = "1"', "not text"),
    "delta-one": Mistake("delta = 1e-6", "delta = 1", "delta = 1", "between"),
    "delta-above-one": Mistake("delta = 1e-6", "delta = 1.5", "delta = 1.5", "between"),
    "delta-negative": Mistake("delta = 1e-6", "delta = -1e-6", "delta = -1e-6", "between"),
    "delta-nan": Mistake("delta = 1e-6", "delta = nan", "delta = nan", "finite"),
    "delta-false": Mistake("delta = 1e-6", "delta = false", "delta = false", "not true or false"),
    "delta-alone": Mistake("epsilon = 1\n", "", "delta = 1e-6", "not a price", "epsilon = 0.5, delta = 1e-6"),
    "rho-and-epsilon": Mistake("epsilon = 1\n", "epsilon = 1\nrho = 1\n", "rho = 1", "not both"),
    "analysts-in-rho": Mistake("epsilon = 0.5", "rho = 0.5", "[budgets.main.per_analyst]", "same currency", "epsilon"),
    "one-analyst-in-rho": Mistake("epsilon = 0.5", "epsilon = 0.5\n[budgets.main.analysts.al]\nrho = 1",
                                  "[budgets.main.analysts.al]", "same currency", "epsilon"),
    "analyst-unknown-key": Mistake("epsilon = 0.5", "epsilon = 0.5\nuntil = 2", "until = 2", "unknown", "", "unknown-key"),
    "statement-without-amount": Mistake("epsilon = 0.5", "epsilon = 0.5\n[budgets.main.per_statement]",
                                        "[budgets.main.per_statement]", "epsilon is missing", "", "missing-key"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_located(mistake: Mistake) -> None:
    assert GOOD.count(mistake.old) >= 1
    text = GOOD.replace(mistake.old, mistake.new, 1)
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, path="some.toml")
    fault = caught.value.as_dict()
    assert mistake.says in fault["reason"]
    assert fault["code"] == mistake.code
    assert mistake.try_ in fault["try"] if mistake is not MISTAKES["endless-number"] else fault["try"] is None
    if mistake.at is None:
        assert fault["line"] is None
    else:
        assert text.splitlines()[fault["line"] - 1].startswith(mistake.at)
        assert "some.toml" in str(caught.value)


def test_the_policy_that_the_mistakes_are_made_in_is_right() -> None:
    policy = parse_policy(GOOD)
    people = policy.tables["people"]
    assert people.foreign_keys == (ForeignKey(columns=("home",), table="homes", references=("home",)),)
    assert people.rows_per_entity == {"person": 2}
    assert people.columns["age"].bins == tuple(range(0, 101, 10))
    assert people.columns["age"].complete and not people.columns["pay"].complete
    assert people.columns["pay"].step == Fraction(1, 100)
    assert people.columns["town"].values_from == ("towns", "town")
    assert policy.budgets["main"].total.delta == Fraction(1, 10**6)
    assert policy.budgets["main"].of("anybody").epsilon == Fraction(1, 2)


@pytest.mark.parametrize("names", [("my id",), ("a", "b c"), ('say "it"', "x"), ("a,b", "(c)"), (" a ", "dé-f")])
def test_foreign_keys_lead_to_columns_of_any_name(names: tuple[str, ...]) -> None:
    columns = "".join(f"{value(name)} = {{}}\n" for name in names)
    text = GOOD.replace("home = {}\n\n[tables.towns]", f"{columns}\n[tables.towns]").replace(
        FK, f"foreign_keys = [{{ columns = {value(['home', 'age'][:len(names)])}, references = {value(written_reference('homes', names))} }}]")
    assert parse_policy(text).tables["people"].foreign_keys[0].references == names


def test_values_come_from_columns_of_any_name() -> None:
    text = GOOD.replace('"towns.town"', '"towns.my town"').replace("town = {}", '"my town" = {}')
    assert parse_policy(text).tables["people"].columns["town"].values_from == ("towns", "my town")


def test_a_key_may_be_written_in_several_ways() -> None:
    dotted = GOOD.replace("[budgets.main.per_analyst]\nepsilon = 0.5", "").replace(
        "delta = 1e-6", "delta = 1e-6\nper_analyst = { epsilon = 0.25 }\nanalysts.al.epsilon = 0.75")
    budget = parse_policy(dotted).budgets["main"]
    assert (budget.of("bo").epsilon, budget.of("al").epsilon) == (Fraction(1, 4), Fraction(3, 4))


def test_dates_times_and_searched_bounds() -> None:
    columns = parse_policy(WORLD).tables
    assert columns["people"].columns["born"].bounds == (dt.date(1920, 1, 1), dt.date(2020, 12, 31))
    assert columns["visits"].columns["seen"].bounds == (dt.datetime(2018, 1, 1), dt.datetime(2021, 12, 31, 23, 59, 59))
    assert columns["people"].columns["weight"].search
    assert columns["people"].columns["weight"].bounds is None


def test_amounts_are_the_decimals_that_were_written() -> None:
    total = parse_policy(GOOD.replace("epsilon = 1\n", "epsilon = 0.7\n")).budgets["main"].total
    assert total.epsilon == Fraction(7, 10)


@pytest.mark.parametrize(("told", "seconds"), [("", 0.1), ('pace = "none"', None), ('pace = "250ms"', 0.25), ('pace = "2 s"', 2.0)])
def test_the_pace_of_a_server(told: str, seconds: float | None) -> None:
    found = parse_policy(GOOD.replace("version = 1", f"version = 1\n{told}"))
    assert found.pace == seconds and found.pace_stored is None
    stored = parse_policy(GOOD.replace("version = 1", f"version = 1\n{told.replace('pace', 'pace_stored')}"))
    assert stored.pace_stored == (seconds if told else None) and stored.pace == 0.1


def test_how_many_may_be_late() -> None:
    assert [parse_policy(GOOD.replace("epsilon = 1\n", f"epsilon = 1\n{told}\n", 1)).budgets["main"].late
            for told in ("", "late = 0", "late = 1000000")] == [20, 0, 1_000_000]


def test_the_digest_tells_policies_apart() -> None:
    assert parse_policy(GOOD).digest == parse_policy(GOOD).digest
    assert parse_policy(GOOD).digest != parse_policy(GOOD.replace("1e-6", "1e-7")).digest


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(tmp_path / "dpsql.toml")
    assert caught.value.code == "no-policy"
    assert "dpsql init" in caught.value.try_


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "dpsql.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy(tmp_path / "dpsql.toml")


def test_an_error_shows_the_line_and_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.toml"
    path.write_text(GOOD.replace("decimals = 2", "decimal = 2"))
    with pytest.raises(PolicyError) as caught:
        read_policy(path)
    assert str(caught.value) == (
        f"PolicyError at line 15, column 1 of {path}: tables.people.columns.pay.decimal: this key is unknown here\n"
        "    pay = { bounds = [0, 1000], decimal = 2 }\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    try decimals")


@pytest.mark.parametrize(("path", "line"), [
    (("tables", "people"), 7), (("tables", "people", "key"), 8), (("tables", "people", "columns", "age"), 14),
    (("tables", "people", "columns", "age", "range"), 14), (("tables", "people", "nothing"), 7), (("tables",), 7),
    (("budgets", "main", "per_analyst", "epsilon"), 34), (("entities", "person", "key"), 5), (("nowhere",), None), ((), None),
])
def test_locate(path: tuple[str, ...], line: int | None) -> None:
    span = locate(GOOD, path)
    assert (None if span is None else span.place(GOOD)[0]) == line


def test_locate_finds_a_section_that_has_no_header_of_its_own() -> None:
    text = "[a]\nx = 1\n\n[tables.people.columns]\nage = {}\n"
    span = locate(text, ("tables", "people"))
    assert span is not None
    assert text[span.start:span.end] == "[tables.people.columns]"


def test_columns_of_which_nothing_is_said_may_be_listed() -> None:
    listed = GOOD.replace("[tables.people.columns]\nid = {}\nhome = {}\n", 'other_columns = ["id", "home"]\n[tables.people.columns]\n')
    assert listed != GOOD
    one, other = (parse_policy(text).tables["people"].columns for text in (GOOD, listed))
    assert one == other, "the same columns, declared the same"
    alone = GOOD.replace("[tables.homes.columns]\nhome = {}", 'other_columns = "home"')
    assert parse_policy(alone).tables["homes"].columns == parse_policy(GOOD).tables["homes"].columns
    for name in ("id", "ID"):
        with pytest.raises(PolicyError, match="is declared already") as told:
            parse_policy(GOOD.replace("rows_per_entity = 2", f'rows_per_entity = 2\nother_columns = ["{name}"]'))
        assert told.value.span is not None and told.value.text[told.value.span.start :].startswith("other_columns")
    with pytest.raises(PolicyError, match="declared already"):
        parse_policy(GOOD.replace("rows_per_entity = 2", 'rows_per_entity = 2\nother_columns = ["x", "X"]'))
    with pytest.raises(PolicyError, match="a name or a list of names"):
        parse_policy(GOOD.replace("rows_per_entity = 2", "rows_per_entity = 2\nother_columns = [1]"))
