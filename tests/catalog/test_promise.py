"""What a policy promises, and which edits of it take something from earlier charges: by edits of one policy, both ways."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.catalog.policy import parse_policy
from dpsql.catalog.promise import Promise, changes, extended, promise_of, replaced
from dpsql.engine.promises import additions

POLICY = """
version = 1
database = "study.duckdb"

[entities.person]
table = "people"
key = "person_id"

[entities.household]
table = "households"
key = "household_id"

[entities.either]
any_of = ["person", "household"]

[tables.households]
key = "household_id"
columns = { household_id = {}, region = {} }

[tables.people]
key = "person_id"
foreign_keys = [{ columns = "household_id", references = "households(household_id)" }]
columns = { person_id = {}, household_id = {}, country = {}, age = { range = [0, 100] } }

[tables.visits]
key = ["person_id", "day"]
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
rows_per_entity = 3
columns = { person_id = {}, day = {}, doctor_id = {}, cost = { bounds = [0, 500] } }

[tables.bills]
foreign_keys = [{ columns = ["person_id", "day"], references = "visits(person_id, day)" }]
columns = { person_id = {}, day = {}, amount = {} }

[tables.friends]
foreign_keys = [{ columns = "one", references = "people(person_id)" }, { columns = "other", references = "people(person_id)" }]
columns = { one = {}, other = {}, since = {} }

[tables.loose]
columns = { person_id = {}, note = {} }

[tables.countries]
public = true
key = "country"
columns = { country = {}, size = {} }

[budgets.main]
entity = "person"
epsilon = 3
"""
FRIENDS = '{ columns = "other", references = "people(person_id)" }'
Edit = Callable[[str], str]


def promised(text: str, budget: str = "main", path: str = "dpsql.toml") -> Promise:
    policy = parse_policy(text, path=path)
    return promise_of(policy, policy.budgets[budget])


def edit(*pairs: tuple[str, str]) -> Edit:
    def made(text: str) -> str:
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        return text

    return made


def between(table: str, old: str, new: str) -> Edit:
    """An edit in the part of one table."""
    def made(text: str) -> str:
        head, rest = text.split(f"[tables.{table}]\n")
        part, following = rest.split("\n\n", 1)
        assert old in part, part
        return f"{head}[tables.{table}]\n{part.replace(old, new)}\n\n{following}"

    return made


def added(text: str) -> Edit:
    return edit(("[budgets.main]", f"{text}\n\n[budgets.main]"))


TOLD = {  # an edit, and the kinds of changes and their tables: forth, and back
    "another entity": (edit(('entity = "person"', 'entity = "household"')), ["entity "], ["entity "]),
    "an entity of several kinds": (edit(('entity = "person"', 'entity = "either"')), ["entity "], ["entity "]),
    "another table under the same name": (edit(('table = "people"\nkey = "person_id"', 'table = "households"\nkey = "household_id"')),
                                          ["entity "], ["entity "]),
    "another key under the same name": (edit(('table = "people"\nkey = "person_id"', 'table = "people"\nkey = "household_id"')),
                                        ["entity "], ["entity "]),
    "a foreign key dropped": (edit((f", {FRIENDS}", "")), ["unlinked friends"], ["linked friends"]),
    "the only foreign key dropped": (between("bills", "foreign_keys", "#"), ["unlinked bills"], []),
    "a chain cut in the middle": (between("visits", "foreign_keys", "#"), ["unlinked bills", "unlinked visits"], []),
    "a chain led elsewhere": (between("bills", 'columns = ["person_id", "day"], references = "visits(person_id, day)"',
                                      'columns = "person_id", references = "people(person_id)"'),
                              ["linked bills", "unlinked bills"], ["linked bills", "unlinked bills"]),
    "another column of the same table": (edit(('columns = "person_id", references = "people(person_id)"',
                                               'columns = "doctor_id", references = "people(person_id)"')),
                                         ["linked visits", "unlinked visits"], ["linked visits", "unlinked visits"]),
    "another column referenced": (edit((FRIENDS, '{ columns = "other", references = "people(country)" }')),
                                  ["linked friends", "unlinked friends"], ["linked friends", "unlinked friends"]),
    "a composite foreign key crossed": (between("bills", "visits(person_id, day)", "visits(day, person_id)"),
                                        ["linked bills", "unlinked bills"], ["linked bills", "unlinked bills"]),
    "a second owner": (between("visits", '"people(person_id)" }', '"people(person_id)" }, '
                               '{ columns = "doctor_id", references = "people(person_id)" }'), ["linked visits"], ["unlinked visits"]),
    "the key of the entity's table gone": (between("people", 'key = "person_id"', ""), ["key people"], []),
    "a composite key gone": (between("visits", 'key = ["person_id", "day"]', ""), ["key visits"], []),
    "a wider key": (between("visits", '["person_id", "day"]\n', '["person_id", "day", "doctor_id"]\n'), ["key visits"], []),
    "another key": (between("visits", '["person_id", "day"]\n', '"doctor_id"\n'), ["key visits"], ["key visits"]),
    "private rows published": (between("friends", "foreign_keys = [", "public = true\n# ["), ["published friends"], ["withdrawn friends"]),
    "public rows withdrawn": (between("countries", "public = true", ""), ["withdrawn countries"], []),
    "public rows that belong to people": (
        between("countries", "public = true", 'foreign_keys = [{ columns = "country", references = "people(country)" }]'),
        ["withdrawn countries"], ["published countries"]),
    "another notion of neighbours": (edit(), ["neighbours "], ["neighbours "]),
}


GROWS = 'grows_by = "day"\nperiod = "month"\nsince = 2024-01-15\n'
GROWING = between("visits", "rows_per_entity = 3\n", GROWS)(POLICY).replace("epsilon = 3\n", "epsilon = 3\nper_period = { epsilon = 1 }\n")
STATIC = edit((GROWS, ""), ("per_period = { epsilon = 1 }\n", ""))
NEW = "[tables.scores]\n" + GROWS + 'foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]\ncolumns = { person_id = {}, day = {} }'

TOLD_OF_PERIODS = {  # the same for edits of a policy with a growing table
    "it grows no more": (STATIC, ["periods visits", "unlimited "], ["periods visits"]),
    "it grows no more, and another does": (lambda text: added(NEW)(text.replace(GROWS, "", 1)), ["periods visits"], ["periods visits"]),
    "by another column": (between("visits", 'grows_by = "day"', 'grows_by = "cost"'), ["periods visits"], ["periods visits"]),
    "by other periods": (between("visits", '"month"', '"day"'), ["periods visits"], ["periods visits"]),
    "the only one is left out": (edit((POLICY[POLICY.index("[tables.visits]"):POLICY.index("[tables.friends]")].replace("rows_per_entity = 3\n", GROWS), ""),
                                      ("per_period = { epsilon = 1 }\n", "")), ["unlimited "], []),
    "published": (lambda text: STATIC(between("visits", "foreign_keys = [", "public = true\n# [")(text)).replace("[tables.bills]\nfor", "[tables.bills]\n# for"),
                  ["published visits", "unlimited ", "unlinked bills"], ["withdrawn visits"]),
}


@pytest.mark.parametrize("name", TOLD_OF_PERIODS)
def test_an_edit_takes_from_what_charges_promised_of_periods(name: str) -> None:
    made, forth, back = TOLD_OF_PERIODS[name]
    before, now = promised(GROWING), promised(made(GROWING))
    for (old, new), expected in (((before, now), forth), ((now, before), back)):
        assert sorted({f"{change.kind} {change.table}" for change in changes(old, new)}) == expected
        accepted = replaced(old, new)
        assert not changes(accepted, new) and extended(accepted, new) == accepted


@pytest.mark.parametrize("made", [
    edit(("2024-01-15", "2024-03-01")), edit(("2024-01-15", "2020-03-01")), edit(("since = 2", 'closes = "30 days"\nsince = 2')),
    edit(("since = 2", "rows_per_entity_and_period = 3\nsince = 2")), edit(("per_period = { epsilon = 1 }", "per_period = { epsilon = 0.1 }")),
    edit(("per_period =", "per_analyst_and_period = { epsilon = 0.1 }\nper_period =")), added(NEW)])
def test_an_edit_takes_nothing_from_what_charges_promised_of_periods(made: Edit) -> None:
    before, now = promised(GROWING), promised(made(GROWING))
    assert changes(before, now) == [] and changes(extended(before, now), now) == []


def test_the_first_table_that_grows_takes_nothing_from_earlier_charges() -> None:
    """They read no row of it; afterwards the limit on each period is a part of the promise."""
    before = promised(POLICY)
    now = promised(added(NEW)(POLICY).replace("epsilon = 3\n", "epsilon = 3\nper_period = { epsilon = 1 }\n"))
    assert changes(before, now) == [] and not before.by_period
    longer = extended(before, now)
    assert longer.by_period and longer.protected == "each person (people.person_id), in all and in each period"
    assert [change.kind for change in changes(longer, before)] == ["unlimited"]


def in_any(periods: int) -> Promise:
    """The promise of a policy with a limit in so many consecutive periods; 0 for none."""
    more = f"in_any = {{ periods = {periods}, epsilon = 2 }}\n" if periods else ""
    return promised(GROWING.replace("per_period = {", f"{more}per_period = {{"))


def test_a_limit_in_any_so_many_periods_is_a_part_of_the_promise() -> None:
    """What is limited in twelve of them is limited in six of these, and not the other way round."""
    for before, now, expected in ((0, 12, []), (6, 12, []), (12, 12, []), (12, 6, [("shorter", "12", "6")]), (12, 0, [("shorter", "12", "")])):
        record, new = in_any(before), in_any(now)
        assert [(change.kind, change.before, change.now) for change in changes(record, new)] == expected
        assert changes(record, new, of_another=True) == []
        assert extended(record, new).in_any == max(before, now) and replaced(record, new).in_any == now and not changes(replaced(record, new), new)
    assert in_any(12).protected == "each person (people.person_id), in all, in any 12 consecutive periods and in each period"
    assert Promise.from_values(json.loads(json.dumps(in_any(12).as_values()))) == in_any(12) and "in_any" not in in_any(0).as_values()
    assert [change.kind for change in changes(in_any(12), promised(STATIC(GROWING)))] == ["unlimited", "shorter", "periods"]


def test_the_amount_of_a_limit_in_periods_is_no_part_of_it() -> None:
    less = GROWING.replace("per_period = {", "in_any = { periods = 12, epsilon = 1 }\nper_analyst_in_any = { epsilon = 1 }\nper_period = {")
    assert changes(in_any(12), promised(less)) == [] and extended(in_any(12), promised(less)) == in_any(12)


@pytest.mark.parametrize("under", ["visits", "seen"])
def test_a_table_that_was_left_out_grows_as_before(under: str) -> None:
    """It is remembered, by its name and by the place of its rows."""
    record = promised(GROWING)
    without = GROWING.replace(GROWING[GROWING.index("[tables.visits]"):GROWING.index("[tables.friends]")], "").replace("per_period = { epsilon = 1 }\n", "")
    record = replaced(record, promised(without))
    renamed = STATIC(GROWING).replace("[tables.visits]\n", f'[tables.{under}]\nsource = "study.duckdb"\nrelation = "visits"\n').replace('"visits(', f'"{under}(')
    assert [(change.kind, change.table) for change in changes(record, promised(renamed)) if change.kind == "periods"] == [("periods", under)]


@pytest.mark.parametrize(("first", "then"), [('"DATE"', '"DATE", format = "%d-%m-%Y"'), ('"DATE"', '"DATE", null = ["2020-01-01"]'),
                                             ('"DATE"', '"TIMESTAMP"'), ('"TIMESTAMP"', '"TIMESTAMP", zone = "Asia/Tokyo"')])
def test_reading_the_time_in_another_way_moves_rows_to_other_periods(first: str, then: str) -> None:
    text = GROWING + """
[tables.seen]
source = "seen.csv"
grows_by = "on"
period = "month"
since = 2024-01-15
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
[tables.seen.columns]
person_id = { type = "BIGINT" }
on = { type = HERE }
"""
    before, now = promised(text.replace("HERE", first)), promised(text.replace("HERE", then))
    assert {(change.kind, change.table) for change in changes(before, now)} == {("periods", "seen")}


def test_a_promise_of_periods_is_kept_and_read_again() -> None:
    now = promised(GROWING)
    assert now.by_period and now.tables["visits"].grows == "month of day"
    assert Promise.from_values(json.loads(json.dumps(now.as_values()))) == now
    told = promised(POLICY).as_values()
    assert "by_period" not in told and not any("grows" in table for table in told["tables"].values()), "as earlier versions wrote it"


@pytest.mark.parametrize("name", TOLD)
def test_an_edit_takes_from_earlier_charges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, forth, back = TOLD[name]
    before = promised(POLICY)
    if name == "another notion of neighbours":
        now = Promise.from_values(before.as_values() | {"neighbours": "one entity is replaced by another"})
    else:
        now = promised(made(POLICY))
    for (old, new), expected in (((before, now), forth), ((now, before), back)):
        found = changes(old, new)
        assert sorted({f"{change.kind} {change.table}" for change in found}) == expected
        accepted = replaced(old, new)
        assert not changes(accepted, new) and extended(accepted, new) == accepted, "what is accepted is not refused again"


def shuffled(text: str) -> str:
    """The same policy, its parts and the foreign keys in another order."""
    head, *parts = text.replace(
        '{ columns = "one", references = "people(person_id)" }, ' + FRIENDS,
        FRIENDS + ', { columns = "one", references = "people(person_id)" }').split("\n\n")
    random.Random(3).shuffle(parts)
    return "\n\n".join([head, *parts])


SAME = {
    "white space and comments": edit(("[tables.visits]", "  [ tables . visits ]   # who came"), ('table = "people"', "table   =  'people'")),
    "another order": shuffled,
    "a key in another order": between("visits", '["person_id", "day"]\n', '["day", "person_id"]\n'),
    "a composite foreign key in another order": between(
        "bills", 'columns = ["person_id", "day"], references = "visits(person_id, day)"',
        'columns = ["day", "person_id"], references = " visits ( day , person_id ) "'),
    "a key in a list": between("people", 'key = "person_id"', 'key = ["person_id"]'),
    "another case": edit(("people", "People"), ("person_id", "PERSON_ID"), ("visits", "VISITS")),
    "names in quotes": edit(('"people(person_id)"', "'\"people\"(\"person_id\")'"), ("[tables.people]", '[tables."people"]')),
    "bounds": between("visits", "bounds = [0, 500]", "bounds = [0, 1000]"),
    "limits of rows": between("visits", "rows_per_entity = 3", "rows_per_entity = 30"),
    "values": between("people", "range = [0, 100]", "range = [18, 65]"),
    "nullable": between("visits", "person_id = {}", "person_id = { nullable = false }"),
    "the total": edit(("epsilon = 3", "epsilon = 30\nper_analyst = { epsilon = 1 }\nincidents = 9")),
    "withheld groups": edit(('[entities.person]\n', '[entities.person]\nminimum_frequency = 10\n')),
    "another name of the entity": edit(("[entities.person]", "[entities.patient]"), ('entity = "person"', 'entity = "patient"'),
                                       ('"person", "household"', '"patient", "household"')),
    "a foreign key to a public table": between("people", '"households(household_id)" }', '"households(household_id)" }, '
                                               '{ columns = "country", references = "countries(country)" }'),
    "a foreign key that leads to nobody": between("people", "foreign_keys", "#"),
    "the key of a public table": between("countries", 'key = "country"', ""),
    "a table that nobody could query": between("loose", "columns =", 'foreign_keys = [{ columns = "person_id", references = '
                                               '"people(person_id)" }]\ncolumns ='),
    "a table that nobody could query, published": between("loose", "columns =", "public = true\ncolumns ="),
    "a new table": added('[tables.scores]\nforeign_keys = [{ columns = "person_id", references = "people(person_id)" }]\n'
                         "columns = { person_id = {}, points = {} }"),
    "a new public table": added("[tables.towns]\npublic = true\ncolumns = { town = {} }"),
    "a table left out": lambda text: text.replace(text[text.index("[tables.friends]"):text.index("[tables.loose]")], ""),
    "another database": edit(('database = "study.duckdb"', 'database = "newer.duckdb"')),
    "a key that was none": between("friends", "foreign_keys", 'key = ["one", "other"]\nforeign_keys'),
    "a narrower key": between("visits", '["person_id", "day"]\n', '"person_id"\n'),
    "delta": edit(("epsilon = 3", "epsilon = 3\ndelta = 1e-6")),
}


@pytest.mark.parametrize("name", SAME)
def test_an_edit_takes_nothing_from_earlier_charges(name: str) -> None:
    before, now = promised(POLICY), promised(SAME[name](POLICY))
    assert changes(before, now) == []
    longer = extended(before, now)
    assert changes(longer, now) == [] and extended(longer, now) == longer
    assert extended(longer, before) == longer or changes(longer, before), "an earlier policy adds nothing"


def test_what_only_looks_different_is_one_promise() -> None:
    for name in ("white space and comments", "another order", "a key in another order", "a composite foreign key in another order",
                 "a key in a list", "another case", "names in quotes", "bounds", "limits of rows", "nullable", "the total",
                 "a foreign key to a public table"):
        now = promised(SAME[name](POLICY))
        assert json.dumps(now.as_values()) == json.dumps(promised(POLICY).as_values()), name
    assert Promise.from_values(json.loads(json.dumps(promised(POLICY).as_values()))) == promised(POLICY)


def test_a_narrower_key_is_relied_on_from_then_on() -> None:
    wide, narrow = promised(POLICY), promised(SAME["a narrower key"](POLICY))
    assert not changes(wide, narrow)
    assert [change.kind for change in changes(extended(wide, narrow), wide)] == ["key"]


@pytest.mark.parametrize("steps", [["a table left out"], ["a table left out", "another database"], ["another database"]])
def test_rows_do_not_become_public_in_steps(steps: list[str]) -> None:
    """What a policy leaves out for a while is remembered."""
    record, text = promised(POLICY), POLICY
    for step in steps:
        text = SAME[step](text)
        assert not changes(record, promised(text))
        record = extended(record, promised(text))
    public = TOLD["private rows published"][0](POLICY)
    assert [change.kind for change in changes(record, promised(public))] == ["published"]


ALIAS = """
[tables.{name}]
source = "{source}"
relation = "{relation}"
{public}
columns = {{ one = {{}}, other = {{}} }}
"""
IN_FILE = edit(("[tables.friends]\n", '[tables.friends]\nsource = "care.duckdb"\nrelation = "friends"\n'))
WITHOUT = SAME["a table left out"]


@pytest.mark.parametrize(("source", "relation", "is_same"), [
    ("care.duckdb", "friends", True), ("./care.duckdb", "main.friends", True), ("../study/care.duckdb", '"main"."Friends"', True),
    ("care.duckdb", "billing.friends", False), ("care.duckdb", "others", False), ("other.duckdb", "friends", False)])
def test_rows_do_not_become_public_under_another_name(source: str, relation: str, is_same: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "study" / "dpsql.toml")
    record = promised(IN_FILE(POLICY), path=path)
    public = added(ALIAS.format(name="contacts", source=source, relation=relation.replace('"', '\\"'), public="public = true"))
    for text in (POLICY, WITHOUT(POLICY)):  # beside the table, and in its place
        found = changes(record, promised(public(IN_FILE(text) if text is POLICY else text), path=path))
        assert [(change.kind, change.table) for change in found] == ([("published", "contacts")] if is_same else [])
    private = added(ALIAS.format(name="contacts", source=source, relation=relation.replace('"', '\\"'), public=""))
    found = changes(record, promised(private(WITHOUT(POLICY)), path=path))
    assert {change.kind for change in found} == ({"unlinked"} if is_same else set()), "a renamed table has the foreign keys it had"
    beside = promised(private(IN_FILE(POLICY)), path=path)
    assert not changes(record, beside), "rows may be seen in two roles"


@pytest.mark.parametrize(("first", "then"), [("visits/*.parquet", "visits/a.parquet"), ("visits", "visits/2020/a.parquet"),
                                             ("visits/a.parquet", "visits/**/*.parquet"), ("visits/a.parquet", "./visits//a.parquet"),
                                             ("visits/*_north.parquet", "visits/2020_*.parquet"), ("v?.parquet", "*a.parquet"),
                                             ("visits/year=*/*.parquet", "visits/*/a.parquet"), ("visits/**/a.parquet", "visits/2020/*.parquet"),
                                             ("visits/[ab]*.parquet", "visits/*1.parquet"), ("visits/**/*.parquet", "visits/*/*/b.parquet")])
def test_files_do_not_become_public_by_a_pattern(first: str, then: str, tmp_path: Path) -> None:
    path = str(tmp_path / "dpsql.toml")
    of = 'source = "{}"\ncolumns = {{ one = {{}} }}\n{}'
    owned = 'foreign_keys = [{ columns = "one", references = "people(person_id)" }]'
    record = promised(added("[tables.seen]\n" + of.format(first, owned))(POLICY), path=path)
    both = added("[tables.seen]\n" + of.format(first, owned) + "\n[tables.new]\n" + of.format(then, "public = true"))
    assert [change.kind for change in changes(record, promised(both(POLICY), path=path))] == ["published"]
    always = promised(both(POLICY), path=path)
    assert changes(always, promised(both(POLICY), path=path)) == [], "what was so from the first is no change"


@pytest.mark.parametrize(("first", "then"), [("visits/*_north.parquet", "visits/*_south.parquet"), ("data/*/visits/*.parquet", "data/*/plans/*.parquet"),
                                             ("v?.parquet", "v*ab.parquet"), ("*/visits.parquet", "visits*.parquet")])
def test_patterns_without_a_file_in_common_are_apart(first: str, then: str, tmp_path: Path) -> None:
    path = str(tmp_path / "dpsql.toml")
    record = promised(added(f'[tables.seen]\nsource = "{first}"\ncolumns = {{ one = {{}} }}\nforeign_keys = [{{ columns = "one", references = '
                            '"people(person_id)" }]')(POLICY), path=path)
    now = promised(added(f'[tables.new]\nsource = "{then}"\npublic = true\ncolumns = {{ one = {{}} }}')(POLICY), path=path)
    assert [change.kind for change in changes(record, now)] == []


@pytest.mark.parametrize(("first", "then", "relation"), [
    ("sqlite:///care.sqlite", "sqlite:///./care.sqlite", "friends"), ("sqlite:///care.sqlite", "sqlite:///../study/care.sqlite", "friends"),
    ("sqlite:///care.sqlite", "sqlite:///{folder}/care.sqlite", "friends"), ("sqlite:///{folder}/care.sqlite", "sqlite:///care.sqlite", "friends"),
    ("sqlite:///care.sqlite", "sqlite:///c%61re.sqlite", "friends"), ("sqlite:///care.sqlite", "sqlite:///care.sqlite", "main.Friends"),
    ("postgresql://db/care", "postgresql://db:5432/care", "friends"), ("postgresql://db/care", "postgresql:///care?host=db", "friends"),
    ("postgresql://db:5433/care", "postgresql://db/?dbname=care&port=5433", "public.friends")])
def test_rows_do_not_become_public_under_another_uri(first: str, then: str, relation: str, tmp_path: Path) -> None:
    path = str(tmp_path / "study" / "dpsql.toml")
    first, then = (uri.replace("{folder}", str(tmp_path / "study")) for uri in (first, then))
    record = promised(edit(("[tables.friends]\n", f'[tables.friends]\nsource = "{first}"\n'))(POLICY), path=path)
    public = added(ALIAS.format(name="contacts", source=then, relation=relation, public="public = true"))
    assert [(change.kind, change.table) for change in changes(record, promised(public(POLICY), path=path))] == [("published", "contacts")]
    same = promised(edit(("[tables.friends]\n", f'[tables.friends]\nsource = "{then}"\nrelation = "{relation}"\n'))(POLICY), path=path)
    assert changes(record, same) == [] and not any(change.kind == "moved" for change in additions(record, same))


@pytest.mark.parametrize(("source", "is_same"), [("care.duckdb", True), ("sqlite:///care.sqlite", False)])
def test_a_database_that_was_named_by_whoever_connected_may_be_any(source: str, is_same: bool) -> None:
    """The policy did not say which file it is. Rows of a table with the name there may be those that were protected."""
    unnamed = POLICY.replace('database = "study.duckdb"', "")
    public = added(ALIAS.format(name="contacts", source=source, relation="friends", public="public = true"))
    found = changes(promised(unnamed), promised(public(WITHOUT(unnamed))))
    assert [(change.kind, change.table) for change in found] == ([("published", "contacts")] if is_same else [])
    named = promised(POLICY)
    assert changes(promised(unnamed), named) == [] and changes(named, promised(unnamed)) == []


def test_tables_that_change_places_keep_their_foreign_keys() -> None:
    """The rows of each one are known by their place, and are tied to people by another column than when they were protected."""
    text = POLICY + """
[tables.sent]
source = "sent.parquet"
foreign_keys = [{ columns = "one", references = "people(person_id)" }]
columns = { one = {}, other = {} }
[tables.got]
source = "got.parquet"
foreign_keys = [{ columns = "other", references = "people(person_id)" }]
columns = { one = {}, other = {} }
"""
    swapped = text.replace("sent.parquet", "x").replace("got.parquet", "sent.parquet").replace('"x"', '"got.parquet"')
    found = changes(promised(text), promised(swapped))
    assert sorted({(change.kind, change.table) for change in found}) == [(kind, name) for kind in ("linked", "unlinked") for name in ("got", "sent")]


def test_a_symbolic_link_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "care.duckdb").touch()
    (tmp_path / "link.duckdb").symlink_to("care.duckdb")
    path = str(tmp_path / "dpsql.toml")
    public = added(ALIAS.format(name="contacts", source="link.duckdb", relation="friends", public="public = true"))
    assert [change.kind for change in changes(promised(IN_FILE(POLICY), path=path), promised(public(POLICY), path=path))] == ["published"]


def test_the_only_file_of_a_policy_is_the_same_as_that_of_a_table() -> None:
    text = POLICY.replace("study.duckdb", "visits.parquet")
    public = added('[tables.new]\nsource = "visits.parquet"\npublic = true\ncolumns = { one = {} }')
    assert {change.kind for change in changes(promised(text), promised(public(text)))} == {"published"}


CLINIC = """
version = 1
database = "postgresql://reader@db.example.org/clinic"
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
columns = { id = { type = "BIGINT" }, age = { type = "BIGINT" } }
[tables.visits]
relation = "billing.visits"
filter = "year >= 2020"
foreign_keys = [{ columns = "who", references = "people(id)" }]
columns = { who = { type = "BIGINT" }, cost = { type = "DOUBLE" } }
[budgets.main]
entity = "person"
rho = 1
"""


@pytest.mark.parametrize(("old", "new", "kinds"), [
    ('id = { type = "BIGINT" }', 'id = { type = "VARCHAR" }', ["type"]), ('who = { type = "BIGINT" }', "who = {}", ["type"]),
    ('cost = { type = "DOUBLE" }', 'cost = { type = "BIGINT" }', []), ("year >= 2020", "year >= 2010", []),
    ("reader@", "other@", []), ("postgresql:", "postgres:", []), ("db.example.org", "DB.example.org", []),
    ('columns = { id = { type = "BIGINT" }', 'columns = { Id = { type = "BIGINT" }', ["entity", "key", "linked", "unlinked"]),
    ('relation = "billing.visits"', 'relation = "old.visits"', []),
    ('relation = "billing.visits"', 'relation = "billing.visits"\npublic = true\n#', ["published"]),
])
def test_a_database_of_another_kind(old: str, new: str, kinds: list[str]) -> None:
    """Its names are compared exactly, as there may be others that differ in case."""
    text = CLINIC.replace(old, new)
    if "Id" in new:
        text = text.replace('key = "id"', 'key = "Id"').replace("people(id)", "people(Id)")
    if "public" in new:
        text = text.replace("#\nfilter", "\nfilter").replace("foreign_keys", "# foreign_keys")
    found = changes(promised(CLINIC), promised(text))
    assert sorted({change.kind for change in found}) == (["entity"] if "entity" in kinds else kinds)


def test_a_renamed_relation_of_another_database_is_recognised() -> None:
    public = CLINIC + '\n[tables.seen]\npublic = true\nrelation = "billing.visits"\ncolumns = { cost = {} }\n'
    assert [change.kind for change in changes(promised(CLINIC), promised(public))] == ["published"]
    other = public.replace('"billing.visits"\ncolumns = { cost', '"open.visits"\ncolumns = { cost')
    assert changes(promised(CLINIC), promised(other)) == []


def test_of_another_budget_only_what_is_public_counts() -> None:
    record = promised(POLICY)
    household = promised(TOLD["another entity"][0](POLICY))
    assert changes(record, household, of_another=True) == []
    public = promised(TOLD["private rows published"][0](TOLD["another entity"][0](POLICY)))
    assert [change.kind for change in changes(record, public, of_another=True)] == ["published"]
    accepted = replaced(record, public, of_another=True)
    assert accepted.kinds == record.kinds and not changes(accepted, public, of_another=True)
    assert [change.kind for change in changes(accepted, record)] == ["withdrawn"], "it is remembered that they were public"


def test_random_edits_in_any_order_never_lose_what_charges_promised() -> None:
    """The claim at the head of the module: a policy that is accepted agrees with every one that was accepted before it, as far as
    they have tables in common, and keys only become narrower."""
    draw, edits = random.Random(7), [*SAME.values(), *(made for made, *_ in TOLD.values())]
    texts = [POLICY]
    for made in edits:
        with_it = made(POLICY)
        try:
            parse_policy(with_it)
        except Exception:
            continue
        texts.append(with_it)
    met = 0
    for _ in range(40):
        record: Promise | None = None
        accepted: list[Promise] = []
        for text in draw.choices(texts, k=12):
            now = promised(text)
            if record is not None and changes(record, now):
                continue
            record = now if record is None else extended(record, now)
            for earlier in accepted:
                assert earlier.kinds == now.kinds
                for name in earlier.tables.keys() & now.tables.keys():
                    old, new = earlier.tables[name], now.tables[name]
                    met += old.state != new.state
                    assert old.state in (new.state, "closed")
                    assert old.state != "protected" or (old.links == new.links and (not old.key or new.key <= old.key and new.key))
            accepted.append(now)
    assert met > 10
