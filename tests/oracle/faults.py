"""Faults that the oracle has to find: in what is claimed, and in what is executed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.frozen import Frozen, field_names, is_frozen, replace
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.kernel import run
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.measurements import block_sums, flip_distance
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.select import Select
from dpsql.trusted.noise.integer import DiscreteGaussian
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr import printing
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.functions import Overload
from dpsql.trusted.plan.expr.nodes import predicate
from dpsql.trusted.plan.node import Node, Norm, Stability
from dpsql.trusted.plan.operators import filter as filter_
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranking import Ranking
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import Type


class Fault(Frozen, kw_only=False):
    """What is wrong, and how it is planted. A claim is made again of what was read; what is executed is read again, where a
    request has `within` in it. `checked`: a plan that claims it is refused by the kernel's checker."""

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]
    within: type = object
    checked: bool = True


def _method(owner: Any, name: str, wrong: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Put `wrong(original, ...)` in the place of a function of a class or a module."""
    original = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *args, **kwargs: wrong(original, *args, **kwargs))


def _property(owner: type, name: str, wrong: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, property(wrong))


def _rows(times: Callable[[int], int]) -> Callable[..., Stability]:
    def wrong(original: Callable[..., Stability], *args: Any) -> Stability:
        found = original(*args)
        return replace(found, rows=times(found.rows)) if found.rows else found

    return wrong


def _first_order(original: Callable[..., Stability], self: Clip, *args: Any) -> Stability:
    found = original(self, *args)
    return replace(found, norm=Norm(order=1, bound=max(1, self.bound // 3), columns=self.columns)) if found.norm else found


def _halved(original: Callable[..., Certificate], *args: Any) -> Certificate:
    found = original(*args)
    return replace(found, summands=tuple(replace(part, l1=None if part.l1 is None else part.l1 // 2, l2=part.l2 // 2)
                                         for part in found.summands))


def _spread_out(original: Callable[..., Certificate], *args: Any) -> Certificate:
    found = original(*args)
    part = math.sqrt(found.below.rows or 1)
    return replace(found, disjoint_cells=True, summands=tuple(replace(one, l2=math.ceil(one.l2 / part)) for one in found.summands))


def _half_price(original: Callable[..., Any], self: Any, *certificates: Certificate) -> Any:
    found = original(self, *certificates)
    return replace(found, epsilon=None if found.epsilon is None else found.epsilon / 2, rho=found.rho / 4)


CLAIMED = (
    Fault("a certificate is halved", _method(run, "certify", _halved)),
    Fault("a truncation claims one row less", _method(Truncate, "stability", _rows(lambda rows: max(1, rows - 1)))),
    Fault("a join forgets how many public rows meet", _method(Join, "_with_public", lambda original, self, *args: 1)),
    Fault("a cap is inherited by a join", _property(Join, "max_frequencies", lambda self: {**self.left.max_frequencies, **self.right.max_frequencies})),
    Fault("an entity has one row in a join", _method(Join, "stability", _rows(lambda rows: 1))),
    Fault("a group is one for each entity", _method(GroupBy, "stability", _rows(lambda rows: 1))),
    Fault("a union claims one part", _method(UnionAll, "stability", _rows(lambda rows: -(-rows // 2)))),
    Fault("a list claims half", _method(Lookup, "stability", _rows(lambda rows: max(1, rows // 2)))),
    Fault("the norm of order 2 is told as one of order 1", _method(Clip, "stability", _first_order)),
    Fault("a sum claims half of its range", _property(GridSum, "l1", lambda self: self.grid.largest // 2)),
    Fault("squares are claimed as their roots", _property(Moments, "l1", lambda self: self.grid.most)),
    Fault("rows of an entity are always apart", _method(run, "certify", _spread_out)),
    Fault("the rule of keys is charged by half", _method(Keys, "cost", _half_price), checked=False),
    Fault("a choice is charged by half", _method(Select, "cost", _half_price), checked=False),
    Fault("checks are thought to be disjoint", _method(flip_distance, "touched", lambda original, *args: 1), checked=False),
    Fault("sigma is told twice as large", _method(DiscreteGaussian, "cost", _half_price), checked=False),
    Fault("the norm of a strategy is halved", _method(block_sums, "sensitivity_of", lambda original, *args: replace(
        found := original(*args), value=found.value / 2)), checked=False),
)


def _one_more(original: Callable[..., str], self: Truncate, *args: Any) -> str:
    return original(replace(self, rows=self.rows + 1), *args)


def _as_they_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranking, "_terms", property(lambda self: ["1"]))
    patch.setattr(Ranking, "_mixed", lambda self, *args: "1")


def _unclamped(original: Callable[..., str], self: Quantizer, printed: str, kind: Any, *reach: Any) -> str:
    return original(replace(self, low=self.low - 1 - abs(self.low), high=self.high + 1 + abs(self.high)), printed, kind, *reach)


EXECUTED = (
    Fault("a truncation keeps one row more", _method(Truncate, "render", _one_more), Truncate),
    Fault("a truncation keeps what comes first", _as_they_come, Truncate),
    Fault("a vector is not clipped", _method(Clip, "render", lambda original, self, below, printing: below[0]), Clip),
    Fault("values are clamped to too much", _method(Quantizer, "to_sql", _unclamped), Quantizer),
    Fault("a level is not capped", _method(LipschitzExtension, "value", lambda original, self, j: UNIT * int(self._totals.sum())), OwnerSets),
    Fault("an entity tells a key in each of its rows", _method(Distinct, "render", lambda original, self, below, printing: below[0]), Keys),
    Fault("rows are read of a sample of the table", _method(Scan, "render", lambda original, self, *args: (
        f"SELECT * FROM ({original(self, *args)}) AS s LIMIT 4")), Scan),
)


# -- holes that there once were


def _absent(original: Callable[..., int], self: Any, relation: Node, columns: tuple[str, ...]) -> int:
    """NULL is not counted among the public values that rows meet."""
    left = relation
    for column in columns:
        left = Filter(input=left, condition=predicate("is not null", relation.field(column).ref))
    return original(self, left, columns)


def _merged_days(printed: str, kind: Type) -> str:
    """All days outside the years 1 to 9999 are the first or the last of them where rows are grouped."""
    if kind not in (Type.DATE, Type.TIMESTAMP):
        return printing.settled(printed, kind)
    last = {Type.DATE: "9999-12-31", Type.TIMESTAMP: "9999-12-31 23:59:59.999999"}[kind]
    return (f"(CASE WHEN {printed} > {kind.value} '{last}' THEN {kind.value} '{last}' "
            f"WHEN {printed} < {kind.value} '0001-01-01' THEN {kind.value} '0001-01-01' ELSE {printed} END)")


def _merge_days(patch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("dpsql.") and module is not printing and getattr(module, "settled", None) is printing.settled:
            patch.setattr(module, "settled", _merged_days)


def _trust_filters(patch: pytest.MonkeyPatch) -> None:
    """Arithmetic above a filter is believed to be done on the rows that the filter keeps."""
    patch.setattr(Overload, "print", lambda self, args: self.sql.removeprefix("TRY").format(*args, all=", ".join(args)))
    original = filter_._compared

    def narrowed(column: str, known: Facts, condition: Any) -> Facts:
        found = original(column, known, condition)
        return replace(found, physical=found.returned.within(found.physical))

    patch.setattr(filter_, "_compared", narrowed)


HOLES = {
    "null": Fault("NULL is not among the public values that rows meet", _method(Publics, "fanout", _absent)),
    "days": Fault("days far away are one where rows are grouped", _merge_days),
    "filter": Fault("arithmetic relies on a filter below it", _trust_filters),
    "suite": Fault("rows of a check are those after its filter", _method(flip_distance, "touched", lambda original, tests, certificates: min(
        len(tests), max(map(flip_distance.moved, tests, certificates))))),
}


def anew(value: Any) -> Any:
    """The same request, with nothing remembered of what its plans claim."""
    if isinstance(value, tuple):
        return tuple(anew(part) for part in value)
    if isinstance(value, Node) or (is_frozen(value) and type(value).__module__.startswith("dpsql.trusted.measurements")):
        given = {name: anew(getattr(value, name)) for name in field_names(type(value))}
        return type(value)(**given)
    return value
