"""Faults to plant in operators, one at a time: each makes a claim false, and the law has to see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dpsql.kernel.looks.elide import MostRows
from dpsql.plan.expr.nodes import Ref
from dpsql.plan.node import Field, Node, Norm, Stability
from dpsql.plan.operators import distinct, groupby, ranks, tally
from dpsql.plan.operators.clip import Clip
from dpsql.plan.operators.distinct import Distinct
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.summands import GridSum, Moments
from dpsql.plan.operators.truncate import Truncate
from dpsql.plan.operators.union import UnionAll
from dpsql.types import Type

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
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


def _unclamped(original: Callable[..., str], self: Quantizer, printed: str, kind: Any) -> str:
    number = f"(CASE WHEN isnan({printed}) THEN NULL ELSE {printed} END * {float(1 / self.step)!r})"
    return f"CAST(round({number}) AS BIGINT)" if kind is Type.DOUBLE else original(self, printed, kind)


def _any_list(original: Callable[..., Stability], self: Lookup, below: tuple[Stability, ...], public: Any) -> Stability:
    return replace(below[0], because="any list will do")


def _any_owners(original: Callable[..., Stability], self: Join, below: tuple[Stability, ...], public: Any) -> Stability:
    return original(self, below, public) if below[0].public or below[1].public else self._own_rows(*below)


def _left_owners(original: Callable[..., Stability], self: Join, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    return replace(found, owners=below[0].owners) if len(found.owners) > 1 else found


def _never_padded(self: Join) -> tuple[Field, ...]:
    right = (replace(field, facts=replace(field.facts, nullable=False)) for field in self.right.fields)
    return (*self.left.fields, *right)


def _outer_public(original: Callable[..., Stability], self: Join, below: tuple[Stability, ...], public: Any) -> Stability:
    if self.keep_left and below[0].public and not below[1].public:
        return replace(below[1], because="as if inner")
    return original(self, below, public)


def _any_group(original: Callable[..., Stability], self: GroupBy, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    return replace(found, rows=below[0].rows) if found.rows is None and below[0].rows else found


def _not_dropped(original: Callable[..., str], self: Scan, *args: Any) -> str:
    return original(self, *args).split(" WHERE ")[0]


def _norm_of_columns(original: Callable[..., Stability], self: Project, below: tuple[Stability, ...], public: Any) -> Stability:
    found = original(self, below, public)
    numbers = tuple(column for column, _, expr in self.columns if not isinstance(expr, Ref) and expr.type.value == "BIGINT")
    return replace(found, norm=Norm(order=1, bound=1, columns=numbers)) if numbers and found.owner else found


def _by_first_column(view: Node) -> Node:
    return GroupBy(input=view, keys=(view.fields[0].id,), folds=(Fold(id="n", name="n", function="count"),))


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
          _method(Join, "_with_public", lambda original, self, private, *rest: private), frozenset({"rows"}),
          "SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic < c.clinic"),
    Fault("a join of private rows claims the rows of one side",
          _method(Join, "_own_rows", lambda original, self, left, right: Stability(rows=left.rows, owners=left.owners)),
          frozenset({"rows"}), "SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id"),
    Fault("a join does not ask for equal owners",
          _method(Join, "stability", _any_owners), frozenset({"owner", "rows"}),
          "SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic"),
    Fault("a pair belongs to the entity of its left row",
          _method(Join, "stability", _left_owners), frozenset({"owner"}),
          "SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic"),
    Fault("left rows are kept whoever the partners are",
          _method(Join, "stability", lambda original, self, *args: original(replace(self, keep_left=False), *args)),
          frozenset({"owner"}), "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.age = v.visit_id"),
    Fault("an outer join may keep public rows",
          _method(Join, "stability", _outer_public), frozenset({"rows", "owner"}),
          "SELECT COUNT(*) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic"),
    Fault("a join says that keys of both sides stay keys",
          _property(Join, "caps", lambda self: {**self.left.caps, **self.right.caps}), frozenset({"caps"}),
          "SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id"),
    Fault("a padded column is said not to be NULL",
          _property(Join, "fields", _never_padded), frozenset({"facts"}),
          "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id"),
    Fault("a list of private rows is allowed",
          _method(Lookup, "stability", _any_list), frozenset({"owner", "rows"}),
          "SELECT COUNT(*) FROM scores s WHERE EXISTS (SELECT 1 FROM visits v WHERE v.visit_id = s.points)"),
    Fault("an entity's vector is not clipped",
          _method(Clip, "render", lambda original, self, below, printing: below[0]), frozenset({"norm"}),
          "SELECT clinic, SUM(cost), AVG(year) FROM visits GROUP BY clinic"),
    Fault("rows of one entity are said to be apart",
          _property(Clip, "caps", lambda self: {frozenset([self.owner]): 1}), frozenset({"caps"}), VISITS),
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
          _everywhere("settled", lambda printed, kind: printed, distinct, groupby, ranks, tally), frozenset({"rows"}),
          "SELECT COUNT(*) FROM (SELECT DISTINCT income FROM people) AS t"),
    Fault("a projection takes any first column for the owner",
          _method(Project, "stability", _first_is_owner), frozenset({"owner"}), "SELECT COUNT(clinic) FROM visits"),
    Fault("a projection claims a norm of what was not clipped",
          _method(Project, "stability", _norm_of_columns), frozenset({"norm"}), "SELECT SUM(year + 1) FROM visits"),
    Fault("a group may mix entities",
          _method(GroupBy, "stability", _any_group), frozenset({"rows"}), "SELECT sex, COUNT(*) FROM people GROUP BY sex",
          above=_by_first_column),
    Fault("a group is said to be one for each entity",
          _method(GroupBy, "stability", _claims_rows(lambda rows: 1)), frozenset({"rows"}),
          "SELECT AVG(n) FROM (SELECT person_id, visit_id, COUNT(*) AS n FROM visits GROUP BY person_id, visit_id) AS t"),
    Fault("values are not clamped",
          _method(Quantizer, "to_sql", _unclamped), frozenset({"tally"}), "SELECT SUM(income) FROM people"),
    Fault("a sum claims half of its range",
          _property(GridSum, "l1", lambda self: self.grid.largest // 2), frozenset({"tally"}), "SELECT SUM(age) FROM people"),
    Fault("squares are claimed as their roots",
          _property(Moments, "l1", lambda self: self.grid.most), frozenset({"tally"}), "SELECT VAR_SAMP(age) FROM people"),
    Fault("rows without an owner are kept",
          _method(Scan, "render", _not_dropped), frozenset({"owner"}), "SELECT COUNT(*) FROM scores"),
    Fault("a truncation that is needed is left out",
          _method(MostRows, "of", lambda original, self, scan: 0), frozenset({"printed"}), VISITS),
)
