"""Faults to plant in operators, one at a time: each makes a claim false, and the law has to see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.frozen import Frozen, replace
from dpsql.questions.rules.limit_keys import keep_keys
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.plan.expr.nodes import Ref, conjuncts
from dpsql.trusted.plan.expr.upper_limits import limit_of
from dpsql.trusted.plan.node import Field, Node, Norm, Stability
from dpsql.trusted.plan.operators import distinct, groupby, grouped_sums, quantizer, ranks
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window, over_facts
from dpsql.types import Type

Patch = Callable[[pytest.MonkeyPatch], None]


class Fault(Frozen, kw_only=False):
    """What is wrong, how it is planted, the claims that become false, and a statement that shows it.

    `above` puts an operator above the statement's rows, where no text would do that.
    """

    what: str
    plant: Patch
    claims: frozenset[str]
    text: str
    entity: str = "person"
    above: Callable[[Node], Node] = lambda view: view


def _method(owner: type, name: str, wrong: Callable[..., Any]) -> Patch:
    """Put `wrong(original, self, ...)` in the place of a method."""
    original = getattr(owner, name)

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, name, lambda self, *args, **kwargs: wrong(original, self, *args, **kwargs))

    return plant


def _property(owner: type, name: str, wrong: Callable[[Any], Any]) -> Patch:
    return lambda patch: patch.setattr(owner, name, property(wrong))


def _static(owner: type, name: str, wrong: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setattr(owner, name, staticmethod(wrong))


def _everywhere(name: str, wrong: Callable[..., Any], *modules: Any) -> Patch:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for module in modules:
            patch.setattr(module, name, wrong)

    return plant


def _claims_rows(times: Callable[[int], int]) -> Callable[..., Stability]:
    def wrong(original: Callable[..., Stability], self: Any, *args: Any) -> Stability:
        found = original(self, *args)
        return replace(found, rows=times(found.rows)) if found.rows else found

    return wrong


def _largest_part(original: Callable[..., Stability], self: UnionAll, below: tuple[Stability, ...], public: Any) -> Stability:
    rows = [part.rows for part in below]
    return replace(original(self, below, public), rows=None if None in rows else max(rows))  # type: ignore[type-var]


def _first_is_owner(original: Callable[..., Stability], self: Any, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    return found if below[0].public else replace(found, owners=(self.fields[0].id,))


def _across_entities(original: Callable[..., str], self: Truncate, *args: Any) -> str:
    return re.sub(r"PARTITION BY .*? ORDER BY", "ORDER BY", original(self, *args))


def _by_arrival(original: Callable[..., str], self: Truncate, *args: Any) -> str:
    return re.sub(r'OVER \(PARTITION .*?\) AS "#"', 'OVER () AS "#"', original(self, *args))


def _unclamped(original: Callable[..., str], self: Quantizer, printed: str, kind: Any, *reach: Any) -> str:
    number = f"(CASE WHEN isnan({printed}) THEN NULL ELSE {printed} END * {float(1 / self.step)!r})"
    return f"CAST(round({number}) AS BIGINT)" if kind is Type.DOUBLE else original(self, printed, kind, *reach)


def _any_list(original: Callable[..., Stability], self: Lookup, below: tuple[Stability, ...], public: Any) -> Stability:
    return replace(below[0], because="any list will do")


def _any_owners(original: Callable[..., bool], self: Join, left: Stability, right: Stability) -> bool:
    return left.owner is not None and right.owner is not None


def _inner_rule(side: Stability, partners: int | None, kept: bool, others_kept: bool) -> int | None:
    """What FLEX says of every join, whichever rows it keeps."""
    return 0 if side.rows == 0 else None if side.rows is None or partners is None else side.rows * partners


def _no_padding_of_others(side: Stability, partners: int | None, kept: bool, others_kept: bool) -> int | None:
    """A pair that comes, and not the padded row that goes."""
    return 0 if side.rows == 0 else None if side.rows is None or partners is None else side.rows * max(int(kept), partners)


def _left_owners(original: Callable[..., Stability], self: Join, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    return replace(found, owners=below[0].owners) if len(found.owners) > 1 else found


def _left_of_full(original: Callable[..., Stability], self: Join, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    return replace(found, owners=below[0].owners) if self.keep_left and self.keep_right and below[0].owners else found


def _empties(original: Callable[..., str], self: Lookup, *args: Any) -> str:
    """NOT IN as SQL has it: with a NULL in the list nothing is outside of it."""
    printed = original(self, *args)
    (_, column), *_ = self.keys
    return printed if self.keep is not False else (
        f"SELECT * FROM ({printed}) AS n WHERE NOT EXISTS (SELECT 1 FROM ({args[0][1]}) AS m WHERE m.\"{column}\" IS NULL)")


def _cap_of_one(self: TruncateKeys) -> dict[frozenset[str], int]:
    return {**self.input.max_frequencies, frozenset(self.keys): max(1, self.rows - 1)}


def _caps_of_both(self: Join) -> dict[frozenset[str], int]:
    return {**self.left.max_frequencies, **self.right.max_frequencies}


def _drops_heavy(original: Callable[..., str], self: TruncateKeys, below: tuple[str, ...], printing: Any) -> str:
    """All rows of a value that has too many, in place of some."""
    keys = ", ".join(f't0."{key}"' for key in self.keys)
    names = ", ".join(f't1."{field.id}"' for field in self.fields)
    counted = f"SELECT *, COUNT(*) OVER (PARTITION BY {keys}) AS n FROM ({below[0]}) AS t0"
    return f"SELECT {names} FROM ({counted}) AS t1 WHERE t1.n <= {self.rows}"


def _beside(original: Callable[..., str], self: Numbers, below: tuple[str, ...], printing: Any) -> str:
    """The number of each row in some order, where which row has which number shows."""
    first, *_ = self.keys
    return (f'SELECT t0."{first}", (ROW_NUMBER() OVER (ORDER BY t0."{first}")) AS "number" FROM ({below[0]}) AS t0')


def _left_of_except(original: Callable[..., Stability], self: SetOperation, below: tuple[Stability, ...], public: Any) -> Stability:
    return replace(below[0], owners=tuple(self.fields[i].id for i, field in enumerate(self.left.fields)
                                          if field.id in below[0].owners))


def _raw(original: Callable[..., str], self: SetOperation, side: Node, text: str) -> str:
    parts = [f't0."{field.id}" AS "{column}"' for field, (column, _) in zip(side.fields, self.columns, strict=True)]
    return f"SELECT {', '.join(parts)} FROM ({text}) AS t0"


def _never_padded(self: Join) -> tuple[Field, ...]:
    right = (replace(field, facts=replace(field.facts, nullable=False)) for field in self.right.fields)
    return (*self.left.fields, *right)


def _half_a_group(original: Callable[..., Stability], self: GroupBy, rows: int | None) -> Stability:
    found = original(self, rows)
    return replace(found, rows=-(-found.rows // 2) if found.rows else found.rows)


def _not_dropped(original: Callable[..., str], self: Scan, *args: Any) -> str:
    return original(self, *args).split(" WHERE ")[0]


def _norm_of_columns(original: Callable[..., Stability], self: Project, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    numbers = tuple(column for column, _, expr in self.columns if not isinstance(expr, Ref) and expr.type.value == "BIGINT")
    return replace(found, norm=Norm(order=1, bound=1, columns=numbers)) if numbers and found.owner else found


def _any_window(original: Callable[..., Stability], self: Window, below: tuple[Stability, ...], public: Any) -> Stability:
    return replace(below[0], owners=(), because="windows move nothing")


def _always_there(self: Window) -> tuple[Field, ...]:
    found = {part.id: over_facts(part, self.input.env, None) for part in self.functions}
    return (*self.input.fields, *(Field(id=id_, name=id_, facts=replace(known, nullable=False)) for id_, known in found.items()))


def _by_first_column(view: Node) -> Node:
    return GroupBy(input=view, keys=(view.fields[0].id,), folds=(Fold(id="n", name="n", function="count"),))


def _by_key(view: Node, rows: int) -> Node:
    return keep_keys(view, (view.fields[0].id,), rows)


CLAMPED = quantizer._clamped
VISITS = "SELECT clinic, COUNT(*) FROM visits GROUP BY clinic"

FAULTS = (
    Fault("a truncation keeps one row more",
          _method(Truncate, "render", lambda original, self, *args: original(replace(self, rows=self.rows + 1), *args)),
          frozenset({"rows"}), VISITS),
    Fault("a truncation ranks rows across entities",
          _method(Truncate, "render", _across_entities), frozenset({"owner"}), VISITS),
    Fault("a truncation keeps what comes first",
          _method(Truncate, "render", _by_arrival), frozenset({"owner"}), VISITS),
    Fault("a truncation claims one row less",
          _method(Truncate, "stability", _claims_rows(lambda rows: max(1, rows - 1))), frozenset({"rows"}), VISITS),
    Fault("a join forgets how many public rows meet",
          _method(Join, "_with_public", lambda original, self, *args: 1), frozenset({"rows"}),
          "SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic < c.clinic"),
    Fault("a join of private rows claims the rows of one side",
          _method(Join, "_own_rows", lambda original, self, left, right, m, n: [left.rows]),
          frozenset({"rows"}), "SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id"),
    Fault("a join does not ask for equal owners",
          _method(Join, "_one_entity", _any_owners), frozenset({"rows"}),
          "SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic"),
    Fault("a pair belongs to the entity of its left row",
          _method(Join, "stability", _left_owners), frozenset({"owner"}),
          "SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic"),
    Fault("left rows are kept whoever the partners are",
          _method(Join, "_owners", lambda original, self, *args: original(replace(self, keep_left=False), *args)),
          frozenset({"owner"}), "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.age = v.visit_id"),
    Fault("a full join names the owners of its left side",
          _method(Join, "stability", _left_of_full), frozenset({"owner"}),
          "SELECT COUNT(*) FROM people p FULL JOIN visits v ON p.person_id = v.person_id AND v.year = 2020"),
    Fault("an outer join is bounded as an inner one", _static(Join, "_changes", _inner_rule), frozenset({"rows"}),
          "SELECT COUNT(*), COUNT(v.visit_id) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic"),
    Fault("a left join forgets the padded row that goes", _static(Join, "_changes", _no_padding_of_others), frozenset({"rows"}),
          "SELECT COUNT(*), COUNT(v.visit_id) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic"),
    Fault("a full join forgets the padded row that goes", _static(Join, "_changes", _no_padding_of_others), frozenset({"rows"}),
          "SELECT COUNT(*) FROM visits v FULL JOIN clinics c ON v.clinic = c.clinic"),
    Fault("an outer join may keep public rows",
          _method(Join, "_owners", lambda original, self, left, right: right.owners if left.public else original(self, left, right)),
          frozenset({"owner"}), "SELECT COUNT(*) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic"),
    Fault("a join says that keys of both sides stay keys",
          _property(Join, "max_frequencies", _caps_of_both), frozenset({"max_frequencies"}),
          "SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id"),
    Fault("a padded column is said not to be NULL",
          _property(Join, "fields", _never_padded), frozenset({"facts"}),
          "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id"),
    Fault("a list of private rows is allowed",
          _method(Lookup, "stability", _any_list), frozenset({"owner", "rows"}),
          "SELECT COUNT(*) FROM scores s WHERE EXISTS (SELECT 1 FROM visits v WHERE v.visit_id = s.points)"),
    Fault("a mark that changes is one row",
          _method(Lookup, "stability", lambda original, self, *args: original(replace(self, keep=True), *args)), frozenset({"rows"}),
          "SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic)) FROM clinics c"),
    Fault("a NULL in a list empties what is outside of it", _method(Lookup, "render", _empties), frozenset({"rows"}),
          "SELECT COUNT(*) FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.year = p.person_id)"),
    Fault("a key is claimed to have one row less", _property(TruncateKeys, "max_frequencies", _cap_of_one), frozenset({"max_frequencies"}), VISITS,
          above=lambda view: _by_key(view, 3)),
    Fault("rows show their number beside their other columns", _method(Numbers, "render", _beside), frozenset({"rows"}), VISITS,
          above=lambda view: Numbers(input=view, keys=(view.fields[0].id,))),
    Fault("a row that leaves a full group makes no room",
          _method(TruncateKeys, "stability", lambda original, self, below, *rest: Stability(rows=below[0].rows)),
          frozenset({"rows"}), VISITS, above=lambda view: _by_key(view, 3)),
    Fault("all rows of a frequent key are dropped", _method(TruncateKeys, "render", _drops_heavy), frozenset({"rows"}), VISITS,
          above=lambda view: _by_key(view, 16)),
    Fault("what is left out belongs to its entity", _method(SetOperation, "stability", _left_of_except), frozenset({"owner", "rows"}),
          "SELECT COUNT(*) FROM (SELECT person_id, 1 AS x FROM people EXCEPT ALL SELECT visit_id, 1 FROM visits) AS t"),
    Fault("a difference is as far from its neighbours as its left side",
          _method(SetOperation, "stability", lambda original, self, below, public: Stability(rows=below[0].rows)),
          frozenset({"rows"}), "SELECT COUNT(*) FROM (SELECT clinic FROM clinics EXCEPT SELECT clinic FROM visits) AS t"),
    Fault("numbers that are equal stay apart in a difference", _method(SetOperation, "_values", _raw), frozenset({"rows"}),
          "SELECT COUNT(*) FROM (SELECT income FROM people EXCEPT SELECT 7.5 FROM clinics) AS t"),
    Fault("an entity's vector is not clipped",
          _method(Clip, "render", lambda original, self, below, printing: below[0]), frozenset({"norm"}),
          "SELECT clinic, SUM(cost), AVG(year) FROM visits GROUP BY clinic"),
    Fault("rows of one entity are said to be apart",
          _property(Clip, "max_frequencies", lambda self: {frozenset([self.owner]): 1}), frozenset({"max_frequencies"}), VISITS),
    Fault("a union claims its largest part",
          _method(UnionAll, "stability", _largest_part), frozenset({"rows"}),
          "SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION ALL SELECT nickname FROM people) AS u"),
    Fault("a union gives public rows an owner",
          _method(UnionAll, "stability", _first_is_owner), frozenset({"owner"}),
          "SELECT COUNT(*), COUNT(clinic) FROM (SELECT clinic FROM visits UNION ALL SELECT clinic FROM clinics) AS u"),
    Fault("distinct rows have an owner",
          _method(Distinct, "stability", _first_is_owner), frozenset({"owner"}),
          "SELECT COUNT(*) FROM (SELECT DISTINCT clinic FROM visits) AS t"),
    Fault("numbers that are equal are shown as they come",
          _everywhere("settled", lambda printed, kind: printed, distinct, groupby, ranks, grouped_sums), frozenset({"rows"}),
          "SELECT COUNT(*) FROM (SELECT DISTINCT income FROM people) AS t"),
    Fault("a projection takes any first column for the owner",
          _method(Project, "stability", _first_is_owner), frozenset({"owner"}), "SELECT COUNT(clinic) FROM visits"),
    Fault("a projection claims a norm of what was not clipped",
          _method(Project, "stability", _norm_of_columns), frozenset({"norm"}), "SELECT SUM(year + 1) FROM visits"),
    Fault("a group that mixes entities changes once",
          _method(GroupBy, "_mixed", _half_a_group), frozenset({"rows"}), "SELECT sex, COUNT(*) FROM people GROUP BY sex",
          above=_by_first_column),
    Fault("a group is said to be one for each entity",
          _method(GroupBy, "stability", _claims_rows(lambda rows: 1)), frozenset({"rows"}),
          "SELECT AVG(n) FROM (SELECT person_id, visit_id, COUNT(*) AS n FROM visits GROUP BY person_id, visit_id) AS t"),
    Fault("a window mixes entities as if it did not",
          _method(Window, "stability", _any_window), frozenset({"rows"}),
          "SELECT COUNT(*) FROM (SELECT RANK() OVER (ORDER BY cost) AS r FROM visits) AS t WHERE r < 100"),
    Fault("a row before is said to move alone",
          _method(Window, "stability", _any_window), frozenset({"rows"}),
          "SELECT COUNT(*) FROM (SELECT LAG(cost) OVER (PARTITION BY clinic ORDER BY seen) AS c FROM visits) AS t WHERE c > -99"),
    Fault("a frame forgets that values leave and come",
          _method(Window, "stability", lambda original, self, below, public: replace(
              original(self, below, public), rows=(below[0].rows or 0) * (1 + (self.reach or 0)))), frozenset({"rows"}),
          "SELECT SUM(c) FROM (SELECT SUM(visit_id) OVER (ORDER BY cost ROWS 2 PRECEDING) AS c FROM visits) AS t WHERE c < 1000"),
    Fault("few rows of a key are said to move alone",
          _method(Window, "stability", _any_window), frozenset({"rows"}),
          "SELECT SUM(n) FROM (SELECT RANK() OVER (PARTITION BY cost ORDER BY visit_id) AS n FROM (SELECT * FROM visits QUALIFY "
          "ROW_NUMBER() OVER (PARTITION BY cost ORDER BY visit_id) <= 4) AS t) AS u WHERE n > 0"),
    Fault("a window looks beyond its partition",
          _method(Window, "_group", lambda original, self, alias: []), frozenset({"owner"}),
          "SELECT AVG(c) FROM (SELECT cost - LAG(cost) OVER (PARTITION BY person_id ORDER BY seen) AS c FROM visits) AS t"),
    Fault("row numbers are said to be different everywhere",
          _property(Window, "max_frequencies", lambda self: {frozenset([part.id]): 1 for part in self.functions}), frozenset({"max_frequencies"}),
          "SELECT SUM(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) AS n FROM visits) AS t"),
    Fault("the first row is said to have one before it",
          _property(Window, "fields", _always_there), frozenset({"facts"}),
          "SELECT AVG(c) FROM (SELECT LAG(visit_id) OVER (PARTITION BY person_id) AS c FROM visits) AS t WHERE c < 100"),
    Fault("a limit of row numbers is counted from two",
          _property(Filter, "_values", lambda self: {limit.column: limit.high - 1 for limit in filter(None, map(
              limit_of, conjuncts(self.condition))) if limit.high}), frozenset({"max_frequencies", "rows"}),
          "SELECT COUNT(*), SUM(before) FROM (SELECT LAG(visit_id) OVER w AS before, ROW_NUMBER() OVER w AS n FROM visits "
          "WINDOW w AS (PARTITION BY person_id ORDER BY seen)) AS t WHERE n <= 2"),
    Fault("values are not clamped",
          _method(Quantizer, "to_sql", _unclamped), frozenset({"tally"}), "SELECT SUM(income) FROM people"),
    Fault("a sum claims half of its range",
          _property(GridSum, "l1", lambda self: self.grid.largest // 2), frozenset({"tally"}), "SELECT SUM(age) FROM people"),
    Fault("squares are claimed as their roots",
          _property(Moments, "l1", lambda self: self.grid.most), frozenset({"tally"}), "SELECT VAR_SAMP(age) FROM people"),
    Fault("rows without an owner are kept",
          _method(Scan, "render", _not_dropped), frozenset({"owner"}), "SELECT COUNT(*) FROM scores"),
    Fault("a truncation that is needed is left out",
          _method(Content, "most_rows", lambda original, self, scan: 0), frozenset({"printed"}), VISITS),
    Fault("values are thought to lie in bounds",
          _method(Content, "ends", lambda original, self, table, column: table.columns[column].declared), frozenset({"printed"}),
          "SELECT SUM(cost) FROM visits"),
    Fault("a clamp of small numbers takes the wrong end",
          _everywhere("_clamped", lambda printed, low, high, kind, *, origin=0: CLAMPED(printed, low, high - 1, kind, origin=origin),
                      quantizer), frozenset({"printed"}), "SELECT SUM(age) FROM people"),
    Fault("entities that are not small are added up row by row",
          _method(GridSum, "size", lambda original, self, cells: original(self, cells).replace("abs", "")), frozenset({"printed"}),
          "SELECT points, SUM(points) FROM scores GROUP BY points"),
)


# Claims that are true and larger than need be: they cost accuracy for nothing. `claims` has nothing that becomes false.
LOOSE = tuple(Fault(what, plant, frozenset(), text) for what, plant, text in (
    ("a truncation claims one row more than it keeps", _method(Truncate, "stability", _claims_rows(lambda rows: rows + 1)), VISITS),
    ("a key of one row is said to have two", _method(Scan, "stability", _claims_rows(lambda rows: rows + 1)),
     "SELECT COUNT(*) FROM people"),
    ("a count claims two", _property(Count, "l1", lambda self: 2), "SELECT sex, COUNT(*) FROM people GROUP BY sex"),
    ("a sum claims the width of its range twice", _property(GridSum, "l1", lambda self: 2 * self.grid.largest),
     "SELECT SUM(age) FROM people"),
    ("moments claim each of their components", _property(Moments, "l1", lambda self: self.components * self.total),
     "SELECT AVG(age) FROM people"),
    ("a join adds a row for a public one", _method(Join, "stability", _claims_rows(lambda rows: rows + 1)),
     "SELECT c.city, COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic GROUP BY c.city"),
    ("rows of one entity are said to meet those of all", _method(Join, "_own_rows", lambda original, self, left, right, m, n: [
        left.rows * right.rows * 2]), "SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id"),
    ("groups of one entity are said to be as those of many", _method(GroupBy, "stability", _claims_rows(lambda rows: 2 * rows)),
     "SELECT AVG(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t"),
    ("a public list is said to change marks", _method(Lookup, "stability", _claims_rows(lambda rows: 2 * rows)),
     "SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT clinic FROM clinics WHERE city = 'Oslo')"),
    ("a window of one entity is said to change more", _method(Window, "stability", _claims_rows(lambda rows: rows + 1)),
     "SELECT n, COUNT(*) FROM (SELECT DENSE_RANK() OVER (PARTITION BY person_id ORDER BY year DESC) AS n FROM visits) AS t GROUP BY n"),
    ("a union claims its parts twice", _method(UnionAll, "stability", _claims_rows(lambda rows: 2 * rows)),
     "SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION ALL SELECT clinic FROM clinics) AS u"),
    ("a projection claims twice its rows", _method(Project, "stability", _claims_rows(lambda rows: 2 * rows)), VISITS),
    ("a filter claims twice its rows", _method(Filter, "stability", _claims_rows(lambda rows: 2 * rows)),
     "SELECT COUNT(*) FROM people WHERE age >= 0"),
))
