"""CREATE SYNTHETIC TABLES keeps what is alike within an entity: rows that follow each other, and totals of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.lives import DECLARED, people_and_visits

import dpsql
from dpsql.engine.synthesizing_linked import linked_synthesis
from dpsql.frozen import replace
from dpsql.models.mirror_descent import fit
from dpsql.sql.text.parse import parse
from dpsql.synthesis.coarser_versions import with_levels
from dpsql.synthesis.method import CodedTable
from dpsql.synthesis.same_levels import with_same_levels
from dpsql.trusted.kernel.ledger import Ledger

POLICY = DECLARED + """[tables.courses]
public = true
key = "code"
source = "courses.parquet"
[tables.courses.columns]
code = {}
[tables.taken]
key = ["person", "course"]
source = "taken.parquet"
foreign_keys = [{ columns = "person", references = "people(id)" }, { columns = "course", references = "courses(code)" }]
rows_per_entity = 3
[tables.taken.columns]
person = {}
course = {}
mark = { range = [1, 10], nullable = false }
[tables.notes]
key = "note"
source = "notes.parquet"
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = 2
[tables.notes.columns]
note = {}
person = {}
long = { nullable = false }
[tables.answers]
source = "answers.parquet"
foreign_keys = [{ columns = "note", references = "notes(note)" }, { columns = "writer", references = "people(id)" }]
rows_per_entity = 4
[tables.answers.columns]
note = {}
writer = {}
kind = { values = ["yes", "no"], nullable = false }
[budgets.all]
entity = "person"
rho = 800
"""
PEOPLE, VISITS = "p AS SELECT id, heavy, age FROM people", "v AS SELECT person, day, kind, cost FROM visits"


def world(folder: Path, number: int = 4000) -> None:
    """People and their visits, and small tables that are linked to others in other ways."""
    draws = np.random.default_rng(5)
    people, visits = people_and_visits(number, draws)
    few = np.arange(500)
    pairs = [(who, f"c{course}", int(draws.integers(1, 11))) for who in few for course in draws.choice(4, draws.integers(0, 4), replace=False)]
    frames = {"people": people, "visits": visits, "courses": pd.DataFrame({"code": [f"c{i}" for i in range(4)]}),
              "taken": pd.DataFrame(pairs, columns=["person", "course", "mark"]),
              "notes": pd.DataFrame({"note": few, "person": few, "long": few % 2 == 0}),
              "answers": pd.DataFrame({"note": few, "writer": few[::-1], "kind": "yes"})}
    for name, frame in frames.items():
        frame.to_parquet(folder / f"{name}.parquet")
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    folder = tmp_path_factory.mktemp("lives")
    world(folder)
    Ledger.create(folder / "test.ledger", None).close()
    return dpsql.connect(policy=folder / "dpsql.toml", analyst="ada", ledger=folder / "test.ledger")


def made(connection: dpsql.Connection, queries: str, options: str) -> list[pd.DataFrame]:
    database = connection.execute(f"CREATE SYNTHETIC TABLES {queries} OPTIONS ({options})").database
    assert database is not None
    for table in database.tables:
        connection.execute(f"DROP SYNTHETIC TABLE {table.name}")
    return [table.df() for table in database.tables]


@pytest.fixture(scope="module")
def drawn(connection: dpsql.Connection) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People and visits at about epsilon = 2."""
    people, visits = made(connection, f"{PEOPLE}, {VISITS}", "rho = 0.1")
    return people, visits


def test_rows_of_one_person_follow_each_other_as_they_do(drawn: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """The private values are .93 and .88. Were pairs counted in equal bins, or not at all, costs would have a correlation of .2."""
    _, visits = drawn
    after = visits.groupby("person")[["cost", "kind"]].shift(-1)
    pairs = after.cost.notna()
    assert np.corrcoef(visits.cost[pairs], after.cost[pairs])[0, 1] > 0.35
    assert (visits.kind[pairs] == after.kind[pairs]).mean() == pytest.approx(0.88, abs=0.06)


def test_numbers_and_means_depend_on_the_kind_of_person(drawn: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    people, visits = drawn
    number = people.id.map(visits.person.value_counts()).fillna(0)
    assert number[people.heavy].mean() == pytest.approx(3.9, rel=0.15) and number[~people.heavy].mean() == pytest.approx(1.2, rel=0.1)
    heavy = visits.person.map(people.set_index("id").heavy)
    assert visits.cost[~heavy].mean() == pytest.approx(30, rel=0.2) and visits.cost[heavy].mean() == pytest.approx(101, rel=0.2)


def test_totals_of_people_are_kept(drawn: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """How much a person costs in all, and how often one comes to a kind of visit."""
    people, visits = drawn
    total = people.id.map(visits.groupby("person").cost.sum()).fillna(0)
    assert total.mean() == pytest.approx(94, rel=0.15) and total.std() == pytest.approx(180, rel=0.25)
    often = people.id.map(visits.person[visits.kind == "er"].value_counts()).fillna(0)
    assert often.mean() == pytest.approx(0.67, rel=0.15) and often.std() == pytest.approx(1.42, rel=0.15)
    assert (often == 0).mean() == pytest.approx(0.73, abs=0.04)


def test_days_in_bins_rise_from_row_to_row(drawn: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """`day` is in the key, but has too many values to be listed, so rows may be drawn in the same bin."""
    _, visits = drawn
    assert visits.groupby("person").day.is_monotonic_increasing.all() and visits.day.between(0, 999).all()


def test_the_other_side_of_a_link_is_a_public_table(connection: dpsql.Connection) -> None:
    _, taken = made(connection, f"{PEOPLE}, t AS SELECT person, course, mark FROM taken WHERE mark > 1", "rho = 0.5, bins = 4")
    assert set(taken.course) <= {"c0", "c1", "c2", "c3"} and not taken.duplicated(["person", "course"]).any()
    assert taken.person.value_counts().max() <= 3 and set(taken.mark) <= set(range(2, 11))


NOTES, ANSWERS = "n AS SELECT note, person, long FROM notes", "a AS SELECT note, writer, kind FROM answers"
UNBOUNDED = {
    f"{PEOPLE}, {NOTES}, {ANSWERS}": "a refers to other tables here by note and writer",
    f"{PEOPLE}, {NOTES}, {ANSWERS.replace('writer, ', '')}": "these rows belong to several entities each",
    f"{PEOPLE}, c AS SELECT code FROM courses": "these rows are public",
}


@pytest.mark.parametrize("queries", UNBOUNDED)
def test_a_link_between_two_private_rows_is_refused(connection: dpsql.Connection, queries: str) -> None:
    """Either could be an entity that the row belongs to, and neither bounds what the other adds."""
    with pytest.raises(dpsql.Error, match=UNBOUNDED[queries]) as told:
        connection.execute(f"CREATE SYNTHETIC TABLES {queries} OPTIONS (rho = 1)")
    assert told.value.try_ and told.value.span is not None


def views(connection: dpsql.Connection) -> tuple[CodedTable, CodedTable]:
    """The views of people with first visits, and of later visits, in equal bins: nothing is asked for these."""
    plan = linked_synthesis(parse(f"CREATE SYNTHETIC TABLES {PEOPLE}, {VISITS} OPTIONS (rho = 1, bins = 32)"), connection.session).plan  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as ready:
        next(plan.cut(None))
    return ready.value.value.whole.table, ready.value.value.later[1].table


def test_first_rows_have_values_where_there_are_rows(connection: dpsql.Connection) -> None:
    """That is known without measuring, in the coarsest versions from which it follows for all others."""
    table = with_levels(views(connection)[0], {"v.cost": np.arange(33.0)})
    impossible, values = table.impossible, {column.name: column.values for column in table.columns}
    for number, row in zip(values["rows of v"], table.excluded["rows of v", "v.kind"], strict=True):
        assert [bool(number) != (value is not None) for value in values["v.kind"]] == row.astype(bool).tolist()
    coarsest = [column.name for column in table.coarser if column.name.startswith("v.cost")][-1]
    assert ("rows of v", coarsest) in impossible and ("rows of v", "v.cost") not in impossible
    model = fit(table.levels.domain, [], total=100, impossible=impossible)
    assert model.marginal(("rows of v", "v.kind"))[table.excluded["rows of v", "v.kind"] > 0].max() < 1e-9


def test_versions_of_given_columns_are_those_of_the_other_view(connection: dpsql.Connection) -> None:
    """Here previous costs lack NULL, which costs of people without visits have; other columns get versions of their own."""
    whole, later = views(connection)
    whole = with_levels(whole, {"v.cost": 0.5 ** np.arange(33)})
    same = with_same_levels(later, whole, {"p.age": "p.age", "previous v.cost": "v.cost"})
    there, here = ({column.name: column for column in table.coarser} for table in (whole, same))
    assert {name.removeprefix("previous ") for name in here} == {name for name in there if name.startswith(("p.age", "v.cost"))}
    for name, column in here.items():
        assert column.merged == there[name.removeprefix("previous ")].merged[:len(column.merged)]
    more = with_levels(same, {})
    assert more.coarser[:len(same.coarser)] == same.coarser and {column.of for column in more.coarser} >= {"v.cost", "v.day"}
    assert same.leveled is not None and {column.column for column in same.coarser} <= {each.id for each in same.leveled.fields}


def test_a_column_may_lack_null_where_the_versions_come_from(connection: dpsql.Connection) -> None:
    whole, later = views(connection)
    whole = with_levels(replace(whole, columns=tuple(replace(one, values=tuple(value for value in one.values if value is not None))
                                                     for one in whole.columns)), {})
    later = replace(later, columns=tuple(replace(one, values=(*(value for value in one.values if value is not None), None))
                                         for one in later.columns))
    for column in with_same_levels(later, whole, {"previous v.cost": "v.cost"}).coarser:
        assert column.values[-1] is None and column.merged[-1] == len(column.values) - 1
