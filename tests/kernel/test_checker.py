"""The second derivation of bounds: it agrees with what operators claim of every plan, and stops each claim of less."""

from __future__ import annotations

import ast
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from support import worlds
from support.columns_read import as_columns
from support.forged import tampered
from support.laws import texts
from support.laws.asked import frequent_view_of, plans_of, question_of, view_of
from support.laws.family import ENTITIES, Family, catalog, nodes, shown
from support.laws.faults import FAULTS as PLANTED
from support.laws.random_plans import Builder

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import Incident
from dpsql.frozen import Frozen, field_names, is_frozen, replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.sql.text.split import split
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel import checker, claims, shapes
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.several.balanced_levels import BalancedLevel
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan import certificate as certificates
from dpsql.trusted.plan.certificate import Certificate, Unbounded, certify, stabilities, stability
from dpsql.trusted.plan.expr import printing
from dpsql.trusted.plan.expr.nodes import Call, Literal, Ref
from dpsql.trusted.plan.node import InvalidPlan, Node, Norm, Printing, Stability, Summary, bottom_up
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window, WindowFunction
from dpsql.types import Type

ROOT = Path(__file__).parents[2]
PRIVATE = ("people", "visits", "scores", "households")
SETTLED = printing.settled


def only_numbers(printed: str, kind: Type) -> str:
    """What stands for equal values where days are merged nowhere."""
    return SETTLED(printed, kind) if kind is Type.DOUBLE else printed


@pytest.fixture(scope="module")
def family() -> Iterator[Family]:
    made = Family(worlds.world(5), entities=())
    yield made
    made.close()


# -- agreement


def disagreements(plan: Summary, family: Family) -> list[str]:
    """Where more is claimed of a plan than is derived; a plan without a bound claims what it does of its parts."""
    found = checker.check(plan, claims.Meets(family, Printing(salt=1)))  # type: ignore[arg-type]
    claimed = stabilities(plan.input, family.kernel)
    below = [*(what for node in bottom_up(plan.input) for what in claims.disagreements(node, claimed, found.relations)),
             *claims._smaller(plan, found.below)]
    with contextlib.suppress(Unbounded):
        made = certify(plan, family.kernel) if isinstance(plan, GroupedSums) else Certificate(
            below=stability(plan.input, family.kernel), summands=())
        below += [*claims._stronger(made.below, found.below)]
        below += claims._tighter(made, found) if isinstance(plan, GroupedSums) else []
    return below


def statements() -> list[str]:
    """Statements of the laws, the golden files and the grammar."""
    found = [*texts.TEXTS, *texts.ALGEBRA]
    for path in (ROOT / "grammar" / "accepted.sql", *sorted((ROOT / "tests" / "golden").glob("*.sql"))):
        found += split(path.read_text(encoding="utf-8"))
    return list(dict.fromkeys(found))


def all_plans(family: Family) -> Iterator[Node]:
    for text in statements():
        for entity in ENTITIES:
            with contextlib.suppress(Exception):  # refused, or no query of rows
                question = question_of(text, entity, family)
                for view in (view_of(question), frequent_view_of(question, family, rows=2, frequency=3)):
                    yield from plans_of(question, family, view)


def random_plans(family: Family, number: int) -> Iterator[Node]:
    for seed in range(number):
        for entity in ENTITIES:
            with contextlib.suppress(InvalidPlan, LookupError):
                yield from Builder(random.Random(seed), catalog(entity), family.kernel).plans()


FIELDS = {  # for which `shapes` and `checker` were written: what a new one means has to be said there first
    "Literal": "type span value", "Ref": "type span column", "Call": "type span function args", "Case": "type span branches otherwise",
    "Cast": "type span input target", "Placeholder": "type span id physical declared text", "Count": "when column", "GridSum": "when column grid",
    "Clipped": "when clipped", "Moments": "when column grid degree missing", "Quantizer": "low high step from_low",
    "Fold": "id name function column grid", "Frame": "rows start end", "WindowFunction": "id name function column grid frame number otherwise",
    "Term": "column descending nulls_first", "Merged": "id name left right", "Field": "id name facts", "GroupedSums": "input keys summands in_engine",
    "Ranks": "input keys column grid when ties", "OwnerSets": "input owners summand cell once", "Arcs": "input tail head mutual",
    "JoinSum": "input summand", "Multiplicities": "input keys column when", "Largest": "input summand sign most", "Scan": "table columns owners periods",
    "Constants": "columns rows", "Filter": "input condition", "Project": "input columns", "Distinct": "input",
    "GroupBy": "input keys folds most_rows span", "Join": "left right condition keep_left keep_right merged bare span",
    "Lookup": "input listed keys mark condition keep span", "UnionAll": "parts columns", "SetOperation": "kind all left right columns",
    "Truncate": "input rows owner order", "TruncateKeys": "input rows keys order first", "Numbers": "input keys",
    "Window": "input partition order ties functions most_rows span", "Contributions": "input owner keys summands",
    "Clip": "input owner columns order bound", "Norms": "input owner columns order",
}


def test_the_fields_of_every_class_that_is_read_are_those_it_was_written_for() -> None:
    """A field that is new changes what a plan means."""
    found = {kind.__name__: " ".join(field_names(kind)) for kind in (*shapes.PARTS, *shapes.SUMMARIES, *shapes.RELATIONS)}
    assert found == FIELDS
    assert checker.RULES.keys() == shapes.RELATIONS


@pytest.mark.slow
def test_no_plan_of_a_statement_claims_more_than_is_derived(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "settled", only_numbers)
    counted: Counter[str] = Counter()
    for plan in all_plans(family):
        assert isinstance(plan, Summary)
        assert not disagreements(plan, family), shown(plan)
        counted.update({type(node).__name__ for node in nodes(plan)})
    print("plans of statements:", counted["GroupedSums"] + counted["Ranks"], dict(counted))
    assert counted["GroupedSums"] + counted["Ranks"] > 2500
    assert all(counted[kind.__name__] > 10 for kind in checker.RULES if kind not in (Constants, Numbers, Norms))


def test_no_random_plan_claims_more_than_is_derived(family: Family, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "settled", only_numbers)
    counted: Counter[str] = Counter()
    for plan in random_plans(family, round(250 * effort)):
        with contextlib.suppress(InvalidPlan):
            _ = [node.fields for node in nodes(plan)]
            stability(plan, family.kernel)
            assert isinstance(plan, Summary)
            assert not disagreements(plan, family), shown(plan)
            counted.update({type(node).__name__ for node in nodes(plan)})
    print("random plans:", counted["GroupedSums"] + counted["Ranks"], dict(counted))
    assert all(counted[kind.__name__] > 5 for kind in checker.RULES), counted


# -- planted faults


class Unread:
    """A reader between the kernel and a database that gives away no private row."""

    stored: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # no table is in a store
    content, keeps = "", False

    version = "v"

    def __init__(self, family: Family) -> None:
        self._family = family

    def check(self) -> None:
        pass

    def rows(self, sql: str, parts: Any = ()) -> list[tuple[Any, ...]]:
        if any(f'"{table}"' in sql for table in PRIVATE):
            raise AssertionError("a private row is read")
        return self._family.rows(sql)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        raise AssertionError("a private row is read")


class Fault(Frozen, kw_only=False):
    """What is wrong, how it is planted, and rows of which too little is claimed then; `above` puts operators above them."""

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]
    text: str
    above: Callable[[Node], Node] = lambda view: view


def method(owner: Any, name: str, wrong: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    original = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda self, *args, **terms: wrong(original, self, *args, **terms))


def value(owner: Any, name: str, wrong: Callable[[Any, Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Put `wrong(what it was, self)` in the place of a property."""
    original = vars(owner)[name]
    before = original.func if hasattr(original, "func") else original.fget
    return lambda patch: patch.setattr(owner, name, property(lambda self: wrong(before(self), self)))


def with_rows(owner: type, change: Callable[[int], int]) -> Callable[[pytest.MonkeyPatch], None]:
    def wrong(original: Any, self: Any, *args: Any) -> Stability:
        found = original(self, *args)
        return replace(found, rows=change(found.rows)) if found.rows else found
    return method(owner, "stability", wrong)


def with_owners(owner: type) -> Callable[[pytest.MonkeyPatch], None]:
    """The owners of the first input, or whatever stands first."""
    def wrong(original: Any, self: Any, below: tuple[Stability, ...], *args: Any) -> Stability:
        found: Stability = original(self, below, *args)
        kept = tuple(name for name in below[0].owners if name in self.env)
        return found if below[0].public else replace(found, owners=kept or (self.fields[0].id,))
    return method(owner, "stability", wrong)


def last_column(found: Any, self: Any) -> dict[frozenset[str], int]:
    """Rows are said to differ in their last column."""
    return {**found, frozenset([self.fields[-1].id]): 1}


def one_less(found: dict[frozenset[str], int], self: Any) -> dict[frozenset[str], int]:
    return {agreed: max(1, rows - 1) for agreed, rows in found.items()}


def absent_nulls(original: Any, self: Publics, relation: Node, columns: tuple[str, ...]) -> int:
    names = ", ".join(f't0."{column}"' for column in columns)
    present = " AND ".join(f't0."{column}" IS NOT NULL' for column in columns)
    counted = f"SELECT COUNT(*) AS n FROM ({self._sql(relation)}) AS t0 WHERE {present} GROUP BY {names}"
    return int(self._rows(f"SELECT COALESCE(MAX(n), 0) FROM ({counted}) AS t1")[0][0])


def different_rows(original: Any, self: Publics, relation: Node, columns: tuple[str, ...]) -> int:
    return min(1, int(original(self, relation, columns)))


def apart_always(original: Any) -> Any:
    def wrong(*given: Any) -> Certificate:
        made: Certificate = original(*given)
        sums = tuple(replace(part, l2=certificates.root_above(part.l2)) for part in made.summands)
        return replace(made, disjoint_cells=True, summands=sums)
    return wrong


def function(module: Any, name: str, wrong: Callable[..., Any], *others: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for place in (module, *others):
            patch.setattr(place, name, wrong)
    return plant


def clipped_by(order: int, keys: bool = True) -> Callable[[Node], Node]:
    def above(view: Node) -> Node:
        owner = stability(view, None).owners[0]  # type: ignore[arg-type]
        key = next(field.id for field in view.fields if field.id != owner)
        given = Contributions(input=view, owner=owner, keys=(key,) if keys else (), summands=(Count(),))
        return Clip(input=given, owner=owner, columns=given.totals, order=order, bound=6)
    return above


def numbered(view: Node) -> Node:
    return Numbers(input=view, keys=(view.fields[0].id,))


def normed(view: Node) -> Node:
    given = clipped_by(1)(view)
    assert isinstance(given, Clip)
    return Norms(input=given.input, owner=given.owner, columns=given.columns, order=1)


def by_first(rows: int) -> Callable[[Node], Node]:
    return lambda view: TruncateKeys(input=view, rows=rows, keys=(view.fields[0].id,),
                                     order=tuple(field.id for field in view.fields[1:]))


VISITS = "SELECT clinic, year, COUNT(*) FROM visits GROUP BY clinic, year"
SELF = "SELECT COUNT(*) FROM visits v JOIN visits w ON v.person_id = w.person_id"
PAIRS = "SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.city"
NULLS = "SELECT COUNT(*) FROM visits v JOIN (VALUES (NULL), (NULL), (NULL), ('a')) AS b(z) ON v.note IS NOT DISTINCT FROM b.z"
OUTER = "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id"
FULL = "SELECT COUNT(*) FROM visits v FULL JOIN clinics c ON v.clinic = c.clinic"
MARKED = "SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic)) FROM clinics c"
UNION = "SELECT COUNT(*) FROM (SELECT person_id, visit_id FROM visits UNION ALL SELECT person_id, age FROM people) AS u"
PLACES = "SELECT COUNT(*) FROM (SELECT person_id AS a, visit_id AS b FROM visits UNION SELECT age, person_id FROM people) AS u"
EXCEPT = "SELECT COUNT(*) FROM (SELECT clinic FROM clinics EXCEPT SELECT clinic FROM visits) AS t"
DISTINCT = "SELECT COUNT(*) FROM (SELECT DISTINCT clinic, year FROM visits) AS t"
GROUPED = "SELECT AVG(n) FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t"
LAGGED = "SELECT COUNT(*) FROM (SELECT LAG(cost, 2) OVER (ORDER BY seen) AS c FROM visits) AS t WHERE c > 1"
FEW = ("SELECT SUM(n) FROM (SELECT RANK() OVER (PARTITION BY cost ORDER BY visit_id) AS n FROM (SELECT * FROM visits QUALIFY "
       "ROW_NUMBER() OVER (PARTITION BY cost ORDER BY visit_id) <= 4) AS t) AS u WHERE n > 0")
FIRST = ("SELECT COUNT(*), SUM(before) FROM (SELECT LAG(visit_id) OVER w AS before, ROW_NUMBER() OVER w AS n FROM visits "
         "WINDOW w AS (PARTITION BY person_id ORDER BY seen)) AS t WHERE n <= 2")
CLAIMS = {"rows", "owner", "max_frequencies", "norm", "tally"}
IN_TEXTS = ("keeps one row more", "ranks rows across", "keeps what comes first", "NULL in a list empties", "beside their other",
            "frequent key are dropped", "stay apart in a difference", "is not clipped", "shown as they come", "not clamped",
            "without an owner are kept", "looks beyond its partition")  # of what is executed, and not of what is claimed


FAULTS = (
    *(Fault(fault.what, fault.plant, fault.text, clipped_by(1) if "apart" in fault.what else fault.above) for fault in PLANTED
      if fault.claims & CLAIMS and not any(part in fault.what for part in IN_TEXTS)),
    Fault("a table claims half of its rows", with_rows(Truncate, lambda rows: rows // 2), VISITS),
    Fault("a table without a key claims one row", value(Scan, "one_row", lambda found, self: True), VISITS),
    Fault("a table claims its last column as a key", value(Scan, "max_frequencies", last_column), VISITS),
    Fault("a filter claims half of its rows", with_rows(Filter, lambda rows: rows // 2), "SELECT COUNT(*) FROM visits WHERE cost > 3"),
    Fault("a filter counts a value too few", value(Filter, "_values", lambda found, self: {
        column: max(1, ways - 1) for column, ways in found.items()}), FIRST),
    Fault("a filter is said to leave nothing private", method(Filter, "stability", lambda original, self, below, public: Stability(
        rows=1)), "SELECT COUNT(*) FROM visits WHERE cost > 3"),
    Fault("a projection keeps what is known of columns that it computes", value(Project, "max_frequencies", last_column),
          "SELECT COUNT(v) FROM (SELECT year + 1 AS v, person_id FROM visits) AS t"),
    Fault("distinct rows differ in their last column", value(Distinct, "max_frequencies", last_column), DISTINCT),
    Fault("distinct rows keep an owner that is not shown", with_owners(Distinct), DISTINCT),
    Fault("groups of many keep an owner", with_owners(GroupBy), GROUPED),
    Fault("groups differ in one of their keys", value(GroupBy, "max_frequencies", last_column),
          "SELECT AVG(n) FROM (SELECT clinic, person_id, COUNT(*) AS n FROM visits GROUP BY clinic, person_id) AS t"),
    Fault("groups of many change once", with_rows(GroupBy, lambda rows: rows // 2), GROUPED),
    Fault("NULL is not among the rows that meet", method(Publics, "fanout", absent_nulls), NULLS),
    Fault("different public rows are counted", method(Publics, "fanout", different_rows), PAIRS),
    Fault("a join adds no partners", with_rows(Join, lambda rows: 1), PAIRS),
    Fault("a full join forgets its padded rows", with_rows(Join, lambda rows: rows // 2), FULL),
    Fault("own rows of an outer join are half", with_rows(Join, lambda rows: rows // 2), OUTER),
    Fault("own rows meet once", method(Join, "_own_rows", lambda original, self, left, right, m, n: [max(left.rows, right.rows)]), SELF),
    Fault("a join passes on all that is known of its sides", value(Join, "max_frequencies", lambda found, self: {
        **self.left.max_frequencies, **self.right.max_frequencies}), OUTER),
    Fault("a join keeps an owner of public rows", with_owners(Join), "SELECT COUNT(*) FROM visits v FULL JOIN clinics c ON v.clinic = c.clinic"),
    Fault("a mark that is shown changes once", with_rows(Lookup, lambda rows: rows // 2), MARKED),
    Fault("a mark keeps an owner", with_owners(Lookup),
          "SELECT COUNT(*) FROM scores s WHERE EXISTS (SELECT 1 FROM visits v WHERE v.visit_id = s.points)"),
    Fault("a looked-up row is one of its value", value(Lookup, "max_frequencies", last_column), MARKED),
    Fault("a union adds one part", with_rows(UnionAll, lambda rows: rows - 1), UNION),
    Fault("parts place their owners differently", with_owners(UnionAll), PLACES),
    Fault("a union knows of its columns what its largest part does", value(UnionAll, "max_frequencies", lambda found, self: {
        agreed: max(1, rows // 2) for agreed, rows in found.items()}), UNION),
    Fault("a difference moves with one side", with_rows(SetOperation, lambda rows: rows - 1), EXCEPT),
    Fault("a difference has owners", with_owners(SetOperation),
          "SELECT COUNT(*) FROM (SELECT person_id, 1 AS x FROM people EXCEPT ALL SELECT visit_id, 1 FROM visits) AS t"),
    Fault("a set operation differs in one column", value(SetOperation, "max_frequencies", last_column),
          "SELECT COUNT(*) FROM (SELECT clinic, year FROM visits EXCEPT ALL SELECT clinic, beds FROM clinics) AS t"),
    Fault("a truncation keeps fewer rows than it does", value(Truncate, "max_frequencies", one_less), VISITS),
    Fault("a truncation is by anybody's name", method(Truncate, "stability", lambda original, self, below, public: Stability(
        rows=self.rows, owners=(self.owner,))), VISITS, above=lambda view: Truncate(
            input=view, rows=2, owner=view.fields[0].id, order=tuple(field.id for field in view.fields))),
    Fault("a key keeps fewer rows than it does", value(TruncateKeys, "max_frequencies", one_less), VISITS, above=by_first(3)),
    Fault("a limit of a key keeps the owner", with_owners(TruncateKeys), VISITS, above=by_first(3)),
    Fault("a limit of a key moves no other row", with_rows(TruncateKeys, lambda rows: rows // 2), VISITS, above=by_first(3)),
    Fault("numbers are half", with_rows(Numbers, lambda rows: rows // 2), VISITS, above=numbered),
    Fault("numbers differ from row to row", value(Numbers, "max_frequencies", lambda found, self: {frozenset(["number"]): 1}), VISITS, above=numbered),
    Fault("a window looks one row less far", value(Window, "reach", lambda found, self: None if found is None else found - 1), LAGGED),
    Fault("a partition changes once", with_rows(Window, lambda rows: rows // 2), FEW),
    Fault("a window keeps the owner", with_owners(Window), LAGGED),
    Fault("row numbers differ everywhere", value(Window, "max_frequencies", lambda found, self: {
        **found, **{frozenset([part.id]): 1 for part in self.functions}}), FIRST),
    Fault("contributions are one row", with_rows(Contributions, lambda rows: 1), VISITS, above=clipped_by(1)),
    Fault("contributions differ in their cell", value(Contributions, "max_frequencies", lambda found, self: {
        frozenset(self.keys): 1}), VISITS, above=clipped_by(1)),
    Fault("a norm is claimed of the other order", method(Clip, "stability", lambda original, self, below, public: replace(
        original(self, below, public), norm=Norm(order=1, bound=self.bound, columns=self.columns))), VISITS, above=clipped_by(2)),
    Fault("a norm is claimed of half its bound", method(Clip, "stability", lambda original, self, below, public: replace(
        original(self, below, public), norm=Norm(order=self.order, bound=self.bound // 2, columns=self.columns))), VISITS,
          above=clipped_by(1)),
    Fault("clipped columns keep what is known of them", value(Clip, "max_frequencies", lambda found, self: {frozenset(self.columns): 1}), VISITS,
          above=clipped_by(1)),
    Fault("no two sizes are equal", value(Norms, "max_frequencies", last_column), VISITS, above=normed),
    Fault("constants are one row less", value(Constants, "max_frequencies", one_less),
          "SELECT COUNT(*) FROM visits v JOIN (VALUES ('a'), ('a'), ('b')) AS b(z) ON v.clinic = b.z"),
    Fault("all rows are apart", lambda patch: patch.setattr("dpsql.trusted.kernel.run.certify", apart_always(certify)), VISITS),
    Fault("a sum claims half of its grid", value(GridSum, "l1", lambda found, self: found // 2), "SELECT SUM(age) FROM people"),
    Fault("a grid ends one short", value(Quantizer, "most", lambda found, self: found - 1), "SELECT SUM(age) FROM people"),
    Fault("moments claim their root", value(Moments, "l1", lambda found, self: self.grid.most), "SELECT VAR_SAMP(age) FROM people"),
    Fault("a count adds nothing", value(Count, "l1", lambda found, self: 0), "SELECT COUNT(*) FROM people"),
)


def measured(fault: Fault, family: Family) -> NoisySums | BalancedLevel:
    """A request for the rows of a fault, with noise that hardly costs anything."""
    question = question_of(fault.text, "person", family)
    below = view_of(question)
    view = fault.above(below)
    if stability(view, family.kernel).rows is None:
        owners = stability(view, family.kernel).owners or (view.fields[0].id,)
        return BalancedLevel(plan=OwnerSets(input=view, owners=owners, summand=Count()), levels=(1,), log_priors=(0,), scale=2.0**30)
    if view is below:
        plan = next(plan for plan in plans_of(question, family, view) if isinstance(plan, GroupedSums))
    elif isinstance(view, Clip):
        plan = GroupedSums(input=view, keys=view.inputs[0].keys, summands=(Clipped(clipped=view.columns),))  # type: ignore[attr-defined]
    else:
        plan = GroupedSums(input=view, keys=(), summands=(Count(),))
    return NoisySums(plan=plan, cells=(), noises=(DiscreteLaplace(scale=1e6),) * len(plan.summands))


def asked(request: Any) -> Generator[Any, Any, Any]:
    return (yield request)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportingLedger]:
    made = ReportingLedger.create(tmp_path_factory.mktemp("claims") / "ledger")
    yield made
    made.close()


def run(request: Any, kernel: Kernel) -> Any:
    return kernel.run(asked(request), cost=pure(Fraction(1)), digest="d", sql="SELECT",
                      account=Account(budget="person", analyst="eve"), limits={None: limit(price(epsilon=1000, delta=0.1))}, encode=str)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what.replace(" ", "-"))
def test_a_planted_fault_is_stopped_before_a_row_is_read(fault: Fault, family: Family, ledger: ReportingLedger,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "settled", only_numbers)
    with contextlib.suppress(Unbounded):
        Kernel(Unread(family), ledger)._certificates(measured(fault, family))  # type: ignore[arg-type]
    fault.plant(monkeypatch)
    family.forget()
    request = measured(fault, family)
    before = len(ledger.entries("person"))
    with pytest.raises(claims.Disagreement):
        run(request, Kernel(Unread(family), ledger))  # type: ignore[arg-type]
    assert len(ledger.entries("person")) == before, "nothing is charged"
    print(f"{fault.what}: stopped")


# -- what only the derivation stops, and what is not a plan


YEARS = """WITH one AS (SELECT DISTINCT person_id, d, visit_id FROM (SELECT person_id, d, visit_id,
    ROW_NUMBER() OVER (PARTITION BY person_id, d ORDER BY visit_id) AS rn, LAG(visit_id) OVER (PARTITION BY person_id, d ORDER BY
    visit_id) AS lg FROM (SELECT visit_id, person_id, CAST(CAST(10001 + visit_id AS VARCHAR) || '-01-01' AS DATE) AS d FROM visits) t) u
    WHERE rn = 1 AND lg IS NULL)
SELECT COUNT(*) FROM one a JOIN one b ON a.person_id = b.person_id AND a.d = b.d"""


def merging_days(printed: str, kind: Type) -> str:
    """What stood for equal values as long as all days from the year 10000 on were shown as one."""
    last = "CAST('9999-12-31' AS DATE)"
    return f"(CASE WHEN {printed} > {last} THEN {last} ELSE {printed} END)" if kind is Type.DATE else only_numbers(printed, kind)


def test_days_that_become_equal_where_rows_are_grouped_are_seen(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    question = question_of(YEARS, "person", family)
    plan = next(plan for plan in plans_of(question, family) if isinstance(plan, GroupedSums))
    monkeypatch.setattr(printing, "settled", only_numbers)
    assert not disagreements(plan, family)
    monkeypatch.setattr(printing, "settled", merging_days)
    assert disagreements(plan, family)


@pytest.mark.parametrize("nulls", [2, 50])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
@pytest.mark.parametrize("turned", [False, True])
def test_nulls_that_meet_are_counted(nulls: int, kind: str, turned: bool, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "(VALUES " + ", ".join(["(NULL)"] * nulls) + ", ('a')) AS b(z)"
    sides = f"{listed} {kind} visits v" if turned else f"visits v {kind} {listed}"
    for test, seen in (("IS NOT DISTINCT FROM", nulls), ("=", 1)):
        question = question_of(f"SELECT COUNT(*) FROM {sides} ON v.note {test} b.z", "person", family)
        view = view_of(question)
        derived = checker.known(view, claims.Meets(family, Printing()), {})  # type: ignore[arg-type]
        assert derived.rows is not None and derived.rows >= 3 * seen
        monkeypatch.setattr(Publics, "fanout", lambda self, *args: absent_nulls(None, self, *args))
        family.forget()
        found = disagreements(GroupedSums(input=view, keys=(), summands=(Count(),)), family)
        assert bool(found) == (test != "="), found


def test_what_is_no_plan_is_not_derived(family: Family) -> None:
    view = view_of(question_of(VISITS, "person", family))
    first, *_, last = (field.id for field in view.fields)
    truth = Literal(value=True, type=Type.BOOLEAN)

    class Sub(Filter):
        pass

    class Further(Filter):
        more: int = 0

    wrong: list[Node] = [
        Sub(input=view, condition=truth), Further(input=view, condition=truth),
        *(replace(by_first(1)(view), rows=rows) for rows in (0, -1, True, 2.0, None)),  # type: ignore[arg-type]
        *(Truncate(input=view, rows=rows, owner=last, order=(first,)) for rows in (0, -1, True, 2.5)),  # type: ignore[arg-type]
        Filter(input=view, condition=Ref(column="nowhere", type=Type.BOOLEAN)), Filter(input=view, condition=Ref(
            column=first, type=Type.BOOLEAN)), Filter(input=view, condition=Call(function="sleep", args=(), type=Type.BOOLEAN)),
        Project(input=view, columns=((first, "x", truth), (first, "y", truth))),
        Project(input=view, columns=(("A", "x", truth), ("a", "y", truth))), Project(input=view, columns=(('a"b', "x", truth),)),
        GroupBy(input=view, keys=("nowhere",), folds=()), Distinct(input=Project(input=view, columns=(("#", "x", truth),))),
        UnionAll(parts=(view, Project(input=view, columns=((first, "x", truth),))), columns=tuple(
            (f"u{i}", "u") for i, _ in enumerate(view.fields))),
        SetOperation(kind="minus", all=True, left=view, right=view, columns=tuple(  # type: ignore[arg-type]
            (f"u{i}", "u") for i, _ in enumerate(view.fields))),
        Clip(input=view, owner=last, columns=(first,), order=3, bound=1), Clip(input=view, owner=last, columns=(first,), order=1, bound=True)]
    meets = claims.Meets(family, Printing())  # type: ignore[arg-type]
    for node in wrong:
        with pytest.raises(shapes.Malformed):
            checker.known(node, meets, {})
            pytest.fail(repr(node)[:300])
    grid = Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)
    for field, number in (("high", float("inf")), ("low", float("nan")), ("step", Fraction(0)), ("step", 1.0), ("high", True),
                          ("from_low", 1), ("low", 10.0)):
        bad = tampered(replace(grid), **{field: number})
        with pytest.raises(shapes.Malformed):
            checker.check(GroupedSums(input=view, keys=(), summands=(GridSum(column=first, grid=bad),)), meets)
            pytest.fail(f"{field} {number}")
    for plan in (GroupedSums(input=view, keys=("nowhere",), summands=(Count(),)), GroupedSums(input=view, keys=(), summands=(Count(column="x"),)),
                 GroupedSums(input=view, keys=(), summands=(Count(when=first),)), Filter(input=view, condition=truth),
                 OwnerSets(input=view, owners=("nowhere",), summand=Count())):
        with pytest.raises(shapes.Malformed):
            checker.check(plan, meets)


@pytest.mark.parametrize("number", [float("nan"), -1, -float("inf")])
def test_a_bound_that_is_no_number_is_none(number: float) -> None:
    """NaN is below no claim, so that it would bear out all of them; and a row agrees with itself."""
    for given in ({"rows": number, "frequencies": {}}, {"frequencies": {frozenset(["a"]): number}}, {"frequencies": {frozenset(["a"]): 0}}):
        with pytest.raises(shapes.Malformed):
            checker.Known(columns={}, **given)  # type: ignore[arg-type]


# -- independence


HOUSE = (checker, shapes)
OPERATORS = (Node, Summary, Summand, Quantizer, *checker.RULES, GroupedSums, OwnerSets, WindowFunction, Count, GridSum, Moments, Clipped)


def own_names(kind: type) -> set[str]:
    """The methods and properties of a class that are no fields."""
    fields = set(field_names(kind)) if is_frozen(kind) else set()
    return {name for name, given in vars(kind).items() if not name.startswith("__") and name not in fields
            and (callable(given) or hasattr(given, "__get__"))}


def test_no_method_of_an_operator_is_named() -> None:
    fields = {name for kind in (*OPERATORS, Table, Literal) if is_frozen(kind) for name in field_names(kind)}
    forbidden = set().union(*map(own_names, OPERATORS)) - fields
    assert {"stability", "max_frequencies", "max_frequency", "env", "equated", "passed", "ranking", "l1", "least", "reach", "field"} <= forbidden
    for module in HOUSE:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not read & forbidden, module.__name__


def test_no_method_of_an_operator_is_called(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method and property of plans raises, and the derivation is as before."""
    plans = [plan for number, plan in enumerate([*random_plans(family, 40)]) if number % 2 and isinstance(plan, Summary)]
    meets: Any = lambda node, columns, present: 3
    before = []
    for plan in plans:
        with contextlib.suppress(shapes.Malformed):
            before.append((plan, checker.check(plan, meets)))

    def raises(self: Any, *args: Any, **terms: Any) -> Any:
        raise AssertionError("a method of an operator is called")

    for kind in {kind for plan, _ in before for node in nodes(plan) for kind in type(node).__mro__ if kind is not object} | {
            Summand, Count, GridSum, Moments, Clipped, Quantizer, WindowFunction}:
        for name in own_names(kind):
            monkeypatch.setattr(kind, name, property(raises) if name not in ("__init__",) else raises)
    assert len(before) > 20
    for plan, found in before:
        again = checker.check(plan, meets)
        assert (again.below, again.sums, again.disjoint_cells) == (found.below, found.sums, found.disjoint_cells)


# -- when plans are checked


class Counted:
    """A reader that counts the private rows it was asked for."""

    stored: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # no table is in a store
    content, keeps = "", False

    version = "v"

    def __init__(self, family: Family) -> None:
        self._family, self.read = family, 0

    def rows(self, sql: str, parts: Any = ()) -> list[tuple[Any, ...]]:
        self.read += any(f'"{table}"' in sql for table in PRIVATE)
        return self._family.rows(sql)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        return as_columns(self.rows(sql))


def test_a_later_plan_is_checked_before_it_is_read(family: Family, ledger: ReportingLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(fault for fault in FAULTS if fault.text == SELF)
    reader = Counted(family)

    def script() -> Generator[Any, Any, Any]:
        yield measured(Fault("none", fault.plant, "SELECT COUNT(*) FROM people"), family)
        script.read = reader.read  # type: ignore[attr-defined]
        fault.plant(monkeypatch)
        yield measured(fault, family)

    before = len(ledger.entries("person"))
    with pytest.raises(Incident):
        Kernel(reader, ledger).run(  # type: ignore[arg-type]
            script(), cost=pure(Fraction(1)), digest="d", sql="SELECT", account=Account(budget="person", analyst="eve"),
            limits={None: limit(price(epsilon=1000, delta=0.1))}, encode=str)
    assert len(ledger.entries("person")) == before + 1
    assert script.read == reader.read > 0, "nothing was read for the second request"  # type: ignore[attr-defined]


def test_a_view_that_is_known_is_checked_before_the_charge(family: Family, ledger: ReportingLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(fault for fault in FAULTS if fault.text == SELF)
    view = view_of(question_of(SELF, "person", family))
    started: list[bool] = []

    def script() -> Generator[Any, Any, Any]:
        started.append(True)
        yield measured(Fault("none", fault.plant, "SELECT COUNT(*) FROM people"), family)

    fault.plant(monkeypatch)
    before = len(ledger.entries("person"))
    with pytest.raises(claims.Disagreement):
        Kernel(Unread(family), ledger).run(  # type: ignore[arg-type]
            script(), cost=pure(Fraction(1)), digest="d", sql="SELECT", account=Account(budget="person", analyst="eve"),
            limits={None: limit(price(epsilon=1000, delta=0.1))}, encode=str, views=(view,))
    assert not started and len(ledger.entries("person")) == before


@pytest.mark.parametrize("end", [None, "the answer", ValueError("of the script")])
def test_a_script_that_asks_nothing_is_served_and_one_that_fails_is_not_charged(end: Any, family: Family, ledger: ReportingLedger) -> None:
    def script() -> Generator[Any, Any, Any]:
        if isinstance(end, Exception):
            raise end
        return end
        yield

    before = len(ledger.entries("person"))
    with pytest.raises(ValueError, match="of the script") if isinstance(end, Exception) else contextlib.nullcontext():
        assert Kernel(Unread(family), ledger).run(  # type: ignore[arg-type]
            script(), cost=pure(Fraction(1)), digest="d", sql="SELECT", account=Account(budget="person", analyst="eve"),
            limits={None: limit(price(epsilon=1000, delta=0.1))}, encode=str) == end
    assert len(ledger.entries("person")) == before + (not isinstance(end, Exception))
