"""The neighbour law: what every operator claims of itself, held against databases that differ in one entity.

`violations` evaluates each node of a plan on a database and on each neighbour, and looks at the rows:

rows      the symmetric difference of the multisets is no larger than the claimed bound
owner     exactly the rows that carry the entity's name leave, no row changes, and no row is without an owner
caps      no more rows agree on columns than is claimed of them
facts     values have their type, lie in their physical ranges (in databases that keep to the policy, in declared ranges too), lie
          on their steps, and are NULL only where that is claimed to be possible
norm      the vector of an entity over its rows is no longer than claimed
tally     the sums of a summand over all cells together move no further than its sensitivity
ranks     the multiset of ranked values moves no further than the rows below
apart     rows of one entity fall into different cells, where that is claimed
printed   the statement that the kernel executes, with idle truncations left out, gives the same rows
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from support.laws.family import Family, nodes, shown

from dpsql.frozen import Frozen
from dpsql.questions.labels import label
from dpsql.trusted.plan.certificate import Certificate, Unbounded, certify, stabilities
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.functions import day_number
from dpsql.trusted.plan.node import InvalidPlan, Node, Norm, Stability
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

_ULPS = 1e-12  # declared ranges of DOUBLE are rounded; no privacy rests on them
Row: TypeAlias = tuple[str | None, ...]
Rows: TypeAlias = Counter[Row]


class Violation(Frozen, kw_only=False):
    """A claim that does not hold."""

    claim: str
    node: Node
    detail: str
    plan: Node

    def __str__(self) -> str:
        return f"{self.claim} of {type(self.node).__name__}: {self.detail}\n  at {label(self.node)}\n{shown(self.plan, 2)}"


class Evaluation(Frozen, kw_only=False):
    """The rows of every node of some plans: on the full database, and without each entity."""

    plans: Sequence[Node]
    known: Mapping[int, Stability]
    full: Mapping[int, Rows]
    without: Mapping[Any, Mapping[int, Rows]]


def evaluate(plans: Sequence[Node], entity: str, family: Family) -> Evaluation:
    """Raises InvalidPlan for what is not a plan."""
    known = {name: found for plan in plans for name, found in stabilities(plan, family.kernel).items()}
    order = nodes(*plans)

    def tables(found: Sequence[tuple[Any, ...]]) -> dict[int, Rows]:
        rows: dict[int, Rows] = {id(node): Counter() for node in order}
        for number, values in found:
            rows[id(order[number])][tuple(values)] += 1
        return rows

    found = {key: tables(rows) for key, rows in family.everywhere(order, entity)}
    return Evaluation(plans, known, found.pop(None), found)


def violations(plans: Sequence[Node], entity: str, family: Family, seen: Evaluation | None = None) -> list[Violation]:
    """All claims of plans that do not hold on a family, which may have been `seen` before. Raises InvalidPlan for what is not a
    plan."""
    seen = seen or evaluate(plans, entity, family)
    found = [Violation(claim, node, detail, plan) for plan in plans for node in nodes(plan)
             for claim, detail in _broken(node, seen, family.tame)]
    for plan in plans:
        broken = (*_broken_top(plan, seen, family), *_broken_printed(plan, seen, family))
        found += [Violation(claim, plan, detail, plan) for claim, detail in broken]
    return found


def _broken_printed(plan: Node, seen: Evaluation, family: Family) -> Iterator[tuple[str, str]]:
    """The statement as the kernel executes it."""
    if any(_is_open(node) for node in nodes(plan)):
        return
    columns = [f't."{field.id}"' for field in plan.fields]
    values = ", ".join(f"CAST({column} AS VARCHAR)" for column in columns)
    types = ", ".join(f"typeof({column})" for column in columns)
    executed = family.rows(f"SELECT [{values}], [{types}] FROM ({family.kernel._context().query(plan)[0]}) AS t")
    if Counter(tuple(row) for row, _ in executed) != seen.full[id(plan)]:
        yield "printed", "the statement as it is executed gives other rows"
    for field, kinds in zip(plan.fields, zip(*(kinds for _, kinds in executed), strict=True), strict=False):
        if not set(kinds) <= {field.facts.type.value}:
            yield "facts", f"{field.id} is {kinds[0]}, which {field.facts} leave out"


def _is_open(node: Node) -> bool:
    """Whether which rows stay, or come first, is the engine's choice, or an owner may be NULL: nothing is claimed of such."""
    if isinstance(node, Truncate) and node.env[node.owner].nullable:
        return True
    return isinstance(node, Truncate | TruncateKeys) and not node.ranking.total or isinstance(node, Window) and not node.total


# -- one node


def _broken(node: Node, seen: Evaluation, tame: bool) -> Iterator[tuple[str, str]]:
    rows, claimed = seen.full[id(node)], seen.known[id(node)]
    yield from _broken_facts(node, rows, tame)
    for agreed, most in node.max_frequencies.items():
        if _agreeing(node, rows, sorted(agreed)) > most:
            yield "max_frequencies", f"{_agreeing(node, rows, sorted(agreed))} rows agree on {sorted(agreed)}; claimed are {most}"
    owners = [_place(node, owner) for owner in claimed.owners]
    if any(row[at] is None for row in rows for at in owners):
        yield "owner", "a row has no owner"
    if claimed.norm is not None and len(owners) == 1:
        yield from _broken_norm(claimed.norm, node, rows, owners[0])
    for key, tables in seen.without.items():
        after = tables[id(node)]
        if claimed.rows is not None and moved(rows, after) > claimed.rows:
            yield "rows", f"without {key}, {moved(rows, after)} rows differ; claimed are {claimed.rows}"
        left = Counter({row: count for row, count in rows.items() if str(key) not in [row[at] for at in owners]})
        if owners and after != left:
            yield "owner", f"without {key}, other rows than its own change"


def _place(node: Node, column: str) -> int:
    return [field.id for field in node.fields].index(column)


def _agreeing(node: Node, rows: Rows, columns: Sequence[str]) -> int:
    """The most rows that agree on columns, as GROUP BY sees them."""
    at = [_place(node, column) for column in columns]
    doubles = {i for i in at if node.fields[i].facts.type is Type.DOUBLE}
    same: Counter[Row] = Counter()
    for row, count in rows.items():
        same[tuple((row[i] or "").lstrip("-") if i in doubles and row[i] in ("-0.0", "-nan") else row[i] for i in at)] += count
    return max(same.values(), default=0)


def _broken_facts(node: Node, rows: Rows, tame: bool) -> Iterator[tuple[str, str]]:
    for i, field in enumerate(node.fields):
        for text in {row[i] for row in rows}:
            if not _keeps(text, field.facts, tame):
                yield "facts", f"{field.id} is {text}, which {field.facts} leave out"


def _keeps(text: str | None, known: Facts, tame: bool) -> bool:
    if text is None:
        return known.nullable
    match known.type:
        case Type.BIGINT | Type.DOUBLE:
            number = int(text) if known.type is Type.BIGINT else float(text)
            if isinstance(number, float) and not math.isfinite(number):
                return True
            on_step = known.step is None or _near(float(Fraction(number) / known.step))
            whole = not known.whole or isinstance(number, int) or number.is_integer()
            inside = not tame or known.declared.low - _ULPS * abs(number) <= number <= known.declared.high + _ULPS * abs(number)
            return known.physical.low <= number <= known.physical.high and on_step and whole and inside
        case Type.DATE | Type.TIMESTAMP if tame:
            read = dt.date.fromisoformat if known.type is Type.DATE else dt.datetime.fromisoformat
            try:
                return known.declared.low <= day_number(read(text)) <= known.declared.high
            except ValueError:
                return True  # before year 1 or after year 9999
    return True


def _near(number: float) -> bool:
    return abs(number - round(number)) <= 1e-6 * max(1, abs(number))


def _broken_norm(claimed: Norm, node: Node, rows: Rows, owner: int) -> Iterator[tuple[str, str]]:
    at = [_place(node, column) for column in claimed.columns]
    vectors: dict[str | None, list[int]] = {}
    for row, count in rows.items():
        vectors.setdefault(row[owner], []).extend([int(row[i] or 0) for i in at] * count)
    for name, vector in vectors.items():
        if longer(vector, claimed.order, claimed.bound):
            yield "norm", f"the vector of {name} is {vector}; claimed is l{claimed.order} <= {claimed.bound}"


# -- the top: what noise is scaled to


def _broken_top(plan: Node, seen: Evaluation, family: Family) -> Iterator[tuple[str, str]]:
    if isinstance(plan, Ranks):
        below = seen.known[id(plan.input)]
        for key, count in ranks_moved(plan, seen):
            if below.rows is not None and count > below.rows:
                yield "ranks", f"without {key}, {count} ranks move; claimed are {below.rows}"
    certificate = certificate_of(plan, family)
    if isinstance(plan, GroupedSums) and certificate is not None:
        for key, summand, vector in sums_moved(plan, seen):
            claimed = certificate.summands[summand]
            if claimed.l1 is not None and longer(vector, 1, claimed.l1) or longer(vector, 2, claimed.l2):
                yield "tally", f"without {key}, summand {summand} moves by {vector}; claimed is {claimed}"
        if certificate.disjoint_cells and certificate.below.owner is not None and _agreeing(
                plan.input, seen.full[id(plan.input)], [*plan.keys, certificate.below.owner]) > 1:
            yield "apart", "an entity has two rows in one cell"


def certificate_of(plan: Node, family: Family) -> Certificate | None:
    """The certificate of a tally; None where there is none."""
    try:
        return certify(plan, family.kernel) if isinstance(plan, GroupedSums) else None
    except (Unbounded, InvalidPlan):
        return None


def sums_moved(plan: GroupedSums, seen: Evaluation) -> Iterator[tuple[Any, int, list[int]]]:
    """For each neighbour and summand, how its sums move, over all cells and components."""
    width, nothing = len(plan.keys), (0,) * len(plan.totals)

    def cells(rows: Rows) -> dict[Row, tuple[int, ...]]:
        return {row[:width]: tuple(int(value or 0) for value in row[width:]) for row in rows}

    before = cells(seen.full[id(plan)])
    for key, tables in seen.without.items():
        after, first = cells(tables[id(plan)]), 0
        for i, summand in enumerate(plan.summands):
            part = slice(first, first + summand.components)
            first += summand.components
            yield key, i, [a - b for cell in before.keys() | after.keys()
                           for a, b in zip(before.get(cell, nothing)[part], after.get(cell, nothing)[part], strict=True)]


def ranks_moved(plan: Ranks, seen: Evaluation) -> Iterator[tuple[Any, int]]:
    """For each neighbour, how many entries of the multiset of (key, value) differ."""

    def entries(rows: Rows) -> Rows:
        found: Rows = Counter()
        for row, times in rows.items():
            found[row[:-1]] += times * int(row[-1] or 0)
        return found

    for key, tables in seen.without.items():
        yield key, moved(entries(seen.full[id(plan)]), entries(tables[id(plan)]))


def moved(a: Rows, b: Rows) -> int:
    """The size of the symmetric difference of two multisets."""
    return (a - b).total() + (b - a).total()


def length(vector: Sequence[int], order: int) -> float:
    return float(sum(map(abs, vector))) if order == 1 else math.sqrt(sum(part * part for part in vector))


def longer(vector: Sequence[int], order: int, bound: int) -> bool:
    """Whether a norm exceeds a bound, in integers."""
    return sum(map(abs, vector)) > bound if order == 1 else sum(part * part for part in vector) > bound * bound


def exact_rows(found: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows as they were fetched, to the last bit."""
    return Counter(tuple(struct.pack(">d", value) if isinstance(value, float) else value for value in row) for row in found)
