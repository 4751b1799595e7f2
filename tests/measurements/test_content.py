"""What is learned of the rows shortens texts and changes no answer; all of it is looked up before a text is printed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from support import worlds
from support.laws.asked import plans_of, question_of, view_of
from support.laws.family import ENTITIES, Family, catalog, shown
from support.laws.random_plans import Builder
from support.laws.texts import TEXTS

from dpsql.frozen import replace
from dpsql.trusted.measurements.reading.content import Content, Learned, _pays, printed
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import InvalidPlan, Node, Printing
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.stored import StoredTable, shape_of
from dpsql.trusted.reader import PARTS
from dpsql.types import ANY_NUMBER, Interval, Type

SALTED = Printing(salt=2**40 + 5)
NOTHING = Learned(most={}, ends={}, short=True)


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    made = [Family(worlds.world(seed, people=people, most_visits=visits), entities=())
            for seed, people, visits in ((1, 12, 5), (3, 4, 1), (5, 25, 12))]
    yield made
    for family in made:
        family.close()


def rows(family: Family, text: str) -> list[str]:
    return sorted(map(repr, family.rows(text)))


def plans(family: Family, number: int) -> Iterator[Node]:
    for text in TEXTS:
        with contextlib.suppress(Exception):  # refused
            question = question_of(text, ENTITIES[len(text) % 2], family)
            yield from plans_of(question, family, view_of(question))
    for seed in range(number):
        for entity in ENTITIES:
            with contextlib.suppress(InvalidPlan, LookupError):
                for plan in Builder(random.Random(seed), catalog(entity), family.kernel).plans():
                    _ = plan.fields, stability(plan, family.kernel)
                    yield plan


@pytest.mark.slow
def test_what_was_learned_changes_no_answer(families: list[Family], effort: float) -> None:
    shorter = same = 0
    for number, family in enumerate(families):
        for plan in plans(family, round(12 * effort)):
            content = Content(family)  # type: ignore[arg-type]
            plain, text = printed(plan, NOTHING, SALTED), content.query(plan, SALTED, lambda plan: ())[0]
            if plain == text:
                same += 1
                continue
            shorter += 1
            assert rows(family, plain) == rows(family, text), f"{shown(plan)}\nin world {number}"
    print(shorter, "texts are others,", same, "the same")
    assert shorter > 200 and same > 100


def test_printing_reads_nothing(families: list[Family], monkeypatch: pytest.MonkeyPatch) -> None:
    family, looked = families[0], 0
    content = Content(family)  # type: ignore[arg-type]
    known = [(plan, content.learned(plan), content.query(plan, SALTED, lambda plan: ())[0]) for plan in plans(family, 10)]

    def raises(*args: Any) -> Any:
        raise AssertionError("a row is read")

    for name in ("most_rows", "ends", "learned"):
        monkeypatch.setattr(Content, name, raises)
    monkeypatch.setattr(Family, "rows", raises)
    for plan, learned, text in known:
        assert text and printed(plan, learned, SALTED) == text
        looked += bool(learned.most or learned.ends)
    assert looked > 20


class Files:
    """Files in which an entity has so many rows, and which say what they are, or do not; some tables may be in a store."""

    keeps, keeps_of = True, ""

    def __init__(self, content: str = "", most: int = 0, stored: Mapping[str, StoredTable] = MappingProxyType({})) -> None:
        self.content, self.most, self.stored = content, most, stored

    def rows(self, sql: str, parts: Any = ()) -> list[tuple[int]]:
        return [(self.most,)]


class Remembered(dict[str, str]):
    recall, note = dict[str, str].get, dict[str, str].__setitem__


def test_answers_are_remembered_only_of_the_same_files() -> None:
    """What is true of other files would lift a limit that these need. Files that do not say what they are may be any."""
    scan, answers = Scan(table=catalog("person").tables["visits"], columns=(), owners=("owner",)), Remembered()

    def most_rows(content: str, most: int) -> int:
        return Content(Files(content, most), answers).most_rows(scan)  # type: ignore[arg-type]

    assert [most_rows("", 3), most_rows("", 4)] == [3, 4] and not answers
    assert [most_rows("a", 5), most_rows("a", 6), most_rows("b", 7), most_rows("", 8)] == [5, 5, 7, 8] and len(answers) == 2


VISITS = Scan(table=catalog("person").tables["visits"], columns=(("v", "visit_id"), ("c", "clinic"), ("p", "person_id")), owners=("p",))


def in_store(**facts: Any) -> Mapping[str, StoredTable]:
    return {"visits": StoredTable(shape=shape_of(VISITS.table), buckets=3, **facts)}


def test_sums_that_are_split_by_entity_are_put_together_of_those_of_the_buckets() -> None:
    content = Content(Files(stored=in_store()))  # type: ignore[arg-type]
    by_clinic = GroupedSums(input=VISITS, keys=("c",), summands=(Count(),))
    for plan, combined, keys in ((by_clinic, by_clinic.combine_sql(PARTS), ('"c"',)), (replace(by_clinic, keys=()), None, ())):
        text, (parts,) = content.query(plan, SALTED, lambda plan: [plan.inputs[0]])
        assert text == plan.merge_sql(PARTS) and (parts.combined, parts.keys) == (combined, keys)
        assert len({*parts.statements}) == 3 and all(f"bucket {at}" in told for at, told in enumerate(parts.statements))
        assert content.query(plan, SALTED, lambda plan: [])[1] == ()


def test_the_name_of_kept_rows_tells_their_bucket_and_store() -> None:
    given, names = Contributions(input=VISITS, owner="p", keys=(), summands=(Count(column="c"),)), set[str]()
    plan = GroupedSums(input=Clip(input=given, owner="p", columns=given.totals, order=1, bound=5), keys=(), summands=(Clipped(clipped=given.totals),))
    for store in ("one", "another"):
        reader = Files(stored=in_store())
        reader.keeps_of = store
        _, (*kept, parts) = Content(reader).query(plan, SALTED, lambda plan: [plan.inputs[0]])  # type: ignore[arg-type]
        for at, (table, told) in enumerate(zip(kept, parts.statements, strict=True)):
            assert table.kept and not parts.kept and table.name in told
            assert f"bucket {at}" in table.statements[0] and "bucket" not in told
        names |= {table.name for table in kept}
    assert len(names) == 6


def test_rows_that_have_places_in_a_bucket_are_limited_by_these() -> None:
    for order, placed in ((("visit_id",), True), (("year",), False)):
        content = Content(Files(stored=in_store(order=order, most=9)))  # type: ignore[arg-type]
        plan = GroupedSums(input=Truncate(input=VISITS, rows=3, owner="p", order=("v",)), keys=(), summands=(Count(),))
        _, (parts,) = content.query(plan, SALTED, lambda plan: [plan.inputs[0]])
        assert all(("place of the row" in told) == placed for told in parts.statements)


def test_what_a_store_says_of_a_table_is_not_looked_up() -> None:
    held = in_store(most=7, ends={"cost": (1.0, 5.0), "year": None})
    content = Content(Files(most=9, stored=held))  # type: ignore[arg-type]
    assert content.most_rows(VISITS) == 7
    assert [content.ends(VISITS, column) for column in ("cost", "year", "visit_id")] == [Interval(1.0, 5.0), ANY_NUMBER, ANY_NUMBER]
    other = Content(Files(most=9, stored={"visits": replace(held["visits"], shape="of another table")}))  # type: ignore[arg-type]
    assert other.most_rows(VISITS) == 9


def test_parts_are_read_in_buckets_that_are_elsewhere_where_these_hold_fewer_rows_or_all_there_are() -> None:
    fewer = Distinct(input=VISITS)
    for facts, pays in (({}, (False, False)), ({"at_once": False}, (False, True)), ({"at_once": False, "alone": True}, (True, True))):
        assert tuple(_pays(part, in_store(**facts)) for part in (VISITS, fewer)) == pays


def test_a_count_looks_up_no_range(families: list[Family]) -> None:
    scan = Scan(table=catalog("person").tables["visits"], columns=(("v", "visit_id"), ("c", "cost"), ("p", "person_id")), owners=("p",))
    content = Content(families[0])  # type: ignore[arg-type]
    for plan in (GroupedSums(input=scan, keys=(), summands=(Count(),)), GroupedSums(input=scan, keys=(), summands=(Count(column="c"),)),
                 Contributions(input=scan, owner="p", keys=(), summands=(Count(),))):
        assert content.learned(plan) == NOTHING


def test_ranges_of_summed_columns_of_private_tables_shorten_their_clamps(families: list[Family]) -> None:
    tables, grid = catalog("person").tables, Quantizer(low=0.0, high=500.0, step=Fraction(1, 100), from_low=False)
    scan = Scan(table=tables["visits"], columns=(("v", "visit_id"), ("c", "cost"), ("p", "person_id")), owners=("p",))
    view = Project(input=scan, columns=(("p", "p", Ref(column="p", type=Type.BIGINT)), ("x", "x", Ref(column="c", type=Type.DOUBLE)),
                                        ("w", "w", Ref(column="v", type=Type.BIGINT))))
    content = Content(families[0])  # type: ignore[arg-type]
    plan = GroupedSums(input=view, keys=(), summands=(GridSum(column="x", grid=grid),))
    ends = content.ends(scan, "cost")
    learned = content.learned(plan)
    assert learned == Learned(most={}, ends={("visits", "cost", None): ends}, short=True)
    assert learned.reach(view, {"x"}) == {"x": ends} and learned.reach(scan, {"c", "v"}) == {"c": ends}
    assert len(printed(plan, learned, SALTED)) < len(printed(plan, NOTHING, SALTED))
    public = Scan(table=tables["clinics"], columns=(("x", "beds"),), owners=())
    assert content.learned(GroupedSums(input=public, keys=(), summands=(GridSum(column="x", grid=grid),))) == NOTHING


@pytest.mark.parametrize("large", [False, True])
def test_clipped_sums_of_small_tables_have_a_short_text(large: bool) -> None:
    reader = SimpleNamespace(keeps=large, stored={}, content="")
    scan = Scan(table=catalog("person").tables["visits"], columns=(("v", "visit_id"), ("p", "person_id")), owners=("p",))
    given = Contributions(input=scan, owner="p", keys=("v",), summands=(Count(),))
    clip = Clip(input=given, owner="p", columns=given.totals, order=1, bound=3)
    plan = GroupedSums(input=clip, keys=("v",), summands=(Clipped(clipped=given.totals),))
    assert ("UNION ALL" in printed(plan, Content(reader).learned(plan), SALTED)) is large  # type: ignore[arg-type]
