"""Notes on what an answer does not count, and its intervals do not cover. EXPLAIN gives the same notes beforehand.

These are rows beyond a limit, rows that name no entity, the excess of values over their bounds, and values without a declared
group. That these may exist follows from the text, the policy and public facts; whether they do, and how many they are, only the
owner can see (`dpsql check --rows`). There is one line for each kind.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from dpsql.catalog.growing_tables import in_words
from dpsql.catalog.model import Catalog
from dpsql.frozen import replace
from dpsql.planning.distinct_parts import are_listed
from dpsql.planning.frequency_limits import Unknown, with_limits
from dpsql.planning.groups import too_long
from dpsql.planning.program import Program
from dpsql.planning.rows_beyond import leaves_out
from dpsql.questions.parts import Distincts
from dpsql.questions.question import Key, Question
from dpsql.questions.rules.limit_in_periods import is_in_periods
from dpsql.questions.shown_expressions import show
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.growth import names_of
from dpsql.trusted.declarations.tables import Domain, OwnerPath, Table
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.functions import MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Case, Expr, Literal, Ref, Value, conjuncts, walk
from dpsql.trusted.plan.node import Field, Node, PublicFacts, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import ANY_NUMBER, Interval, Type


def left_out(program: Program, catalog: Catalog, public: PublicFacts) -> tuple[str, ...]:
    """The notes on a program and its scalar subqueries, which come first. Notes on learned limits follow when these are known."""
    asked = [one for one in (*(below for _, below in program.first), program) if not one.known.public and not one.idle]
    kept = [note for one in asked for note in rows_kept(one.view, catalog.entity.name, _learned(one, public))]
    private, views = [one.question for one in asked], [one.view for one in asked]
    return tuple(dict.fromkeys([
        *in_periods(views), *kept, *seen_by_windows(views), *ownerless(views, catalog), *clamping_note(private),
        *selected(private), *undeclared([one.question for one in asked if one.degrees is None]), *uncounted(asked),
        *unlisted(views)]))


def _learned(program: Program, public: PublicFacts) -> Sequence[Unknown]:
    """The limits on rows that neither statement nor policy gives."""
    return with_limits(program.question, program.options, public)[1] if program.unknown else ()


# -- periods of growing tables


def in_periods(views: Sequence[Node]) -> Iterator[str]:
    """A note on the periods of each growing table that is read, of which rows of others are not counted."""
    for scan in (node for view in views for node in bottom_up(view) if isinstance(node, Scan)):
        if (periods := scan.periods) is not None:
            yield f"only rows of {scan.table.name} in {names_of(periods)} are read"


# -- rows beyond a limit


def rows_kept(view: Node, entity: str, learned: Sequence[Unknown] = ()) -> Iterator[str]:
    """A note for each limit on rows in a view that the policy or the statement sets."""
    for node in bottom_up(view):
        if isinstance(node, Truncate | TruncateKeys) and leaves_out(node) and not _is_learned(node, learned):
            yield kept_by(node, entity, learned)


def _is_limit(node: Node) -> TypeGuard[Truncate | TruncateKeys]:
    """Whether an operator limits the rows of each entity, in all or in each period."""
    return isinstance(node, Truncate) or (isinstance(node, TruncateKeys) and is_in_periods(node) is not None)


def seen_by_windows(views: Sequence[Node]) -> Iterator[str]:
    """A note that window functions see only the rows that a limit keeps: the row before one may not be the one before it."""
    windows = (node for view in views for node in bottom_up(view) if isinstance(node, Window) or (
        isinstance(node, TruncateKeys) and node.first))
    if any(_is_limit(below) and leaves_out(below) for node in windows for below in bottom_up(node.input)):
        yield "window functions see only the rows that are used, so what they compare or number may change with the others"


def kept_by(node: Truncate | TruncateKeys, entity: str, learned: Sequence[Unknown]) -> str:
    """A note on how many rows a limit keeps, and per what."""
    most = "a number of rows that is learned first" if _is_learned(node, learned) else (
        f"{node.rows} row{'s' if node.rows > 1 else ''}")
    if isinstance(node, TruncateKeys) and (scan := is_in_periods(node)) is not None and scan.periods is not None:
        of, what = f"{entity} and {in_words(scan.periods.period)}", f" of {scan.table.name} (declared)"
    elif isinstance(node, TruncateKeys):
        of, what = " and ".join(node.input.names[key] for key in node.keys), ""
    elif isinstance(node.input, Scan):
        of, declared = entity, node.input.table.rows == node.rows
        what = f" of {node.input.table.name}{' (declared)' * declared}"
    else:
        of, what = entity, " of the view (max_rows)"
    are = "is" if most == "1 row" else "are"
    return f"at most {most}{what} {are} used per {of}, chosen by a keyed hash"


def _is_learned(node: Truncate | TruncateKeys, learned: Sequence[Unknown]) -> bool:
    if isinstance(node, TruncateKeys):
        return any(place.relation == node.input and place.keys == node.keys for place in learned)
    tables = {place.relation.table.name for place in learned if isinstance(place.relation, Scan) and not place.keys}
    return isinstance(node.input, Scan) and node.input.table.name in tables


# -- rows of nobody


def ownerless(views: Sequence[Node], catalog: Catalog) -> Iterator[str]:
    """Notes on tables in which rows may name no entity: these rows are not read."""
    read = {node.table.name: node.table for view in views for node in bottom_up(view) if isinstance(node, Scan)}
    lacking = [table for table in read.values() if any(_may_end(table, way, catalog) for way in table.owners)]
    if one := [table.name for table in lacking if table.owner is not None]:
        yield f"rows of {' and '.join(one)} that belong to no {catalog.entity.name} are not read"
    for table in (table for table in lacking if table.owner is None):
        yield f"rows of {table.name} with a missing owner are not read"


def _may_end(table: Table, way: OwnerPath, catalog: Catalog) -> bool:
    """Whether a column on the path of foreign keys from a row to its entity may be NULL."""
    for step in way.steps:
        if any(_may_be_null(table, column) for column in step.columns):
            return True
        table = catalog.tables[step.table]
    return (not way.not_null and _may_be_null(table, way.column)) or any(_may_be_null(table, column) for column in way.beside)


def _may_be_null(table: Table, name: str) -> bool:
    return name not in table.columns or table.columns[name].nullable


# -- values beyond their bounds


def clamping_note(questions: Sequence[Question]) -> Iterator[str]:
    """A note on the bounds to which values are clamped before they are summed, if some values may be outside."""
    found: dict[str, None] = {}
    for question in questions:
        origins = _Origins(question.view)
        logarithms = {column for call in question.aggregates if call.aggregate.logarithms for column in call.columns}
        for node, column, name in _added_up(question, origins):
            known = node.env[column]
            if known.declared.finite and not known.returned.inside(known.declared) and not origins.written(column, known):
                ends = _powers(known.declared) if column in logarithms else known.declared
                found[f"{name} to {_written(ends, known.type)}"] = None
    if found:
        yield "values are clamped to their bounds: " + ", ".join(found)


def _added_up(question: Question, origins: _Origins) -> Iterator[tuple[Node, str, str]]:
    """The columns that are summed or ranked, each with its relation and display name; also those of GROUP BY inside the view."""
    for call in question.aggregates:
        if call.aggregate.bounded:
            for column in call.columns[:2]:  # the third is a product of these
                yield question.view, column, question.view.names[column]
    for node in (node for node in bottom_up(question.view) if isinstance(node, GroupBy)):
        for fold in node.folds:
            if fold.grid is not None and fold.column is not None:
                below = origins.of(fold.column)
                name = origins.names[below.column] if isinstance(below, Ref) else f"the argument of {fold.name}"
                yield node.input, fold.column, name


def _powers(logarithms: Interval) -> Interval:
    """A range of numbers from that of their logarithms, which are rounded."""
    return Interval(*(float(f"{math.exp(end):.12g}") for end in (logarithms.low, logarithms.high)))


def _written(ends: Interval, kind: Type) -> str:
    """The ends of a range as the policy writes them."""
    if kind.temporal:
        low, high = (dt.date.fromordinal(int(min(max(end, 1), dt.date.max.toordinal()))) for end in (ends.low, ends.high))
        return f"[{low}, {high}]"
    return f"[{ends.low:.15g}, {ends.high:.15g}]"


# -- values that no group is declared for


def selected(questions: Sequence[Question]) -> Iterator[str]:
    """Notes on keys whose known values are too many to be listed."""
    for question in questions:
        for key in question.keys:
            if key.domain is None and (because := too_long(question, key)) is not None:
                yield f"{because}, so only groups that are selected privately are shown"


def undeclared(questions: Sequence[Question]) -> Iterator[str]:
    """Notes that rows with undeclared values of some keys, or undeclared combinations of them, are not in any group. Totals
    of a workload count them."""
    names = dict.fromkeys(key.name for question in questions for key in _lacking(question))
    if names:
        yield f"rows with undeclared values of {' or '.join(names)} are not in any group"
    together = dict.fromkeys(" and ".join(key.name for key in question.keys if key.column in one.keys)
                             for question in questions for one in question.combinations if not one.enforced)
    yield from (f"rows with undeclared combinations of {named} are not in any group" for named in together)


def uncounted(asked: Sequence[Program]) -> Iterator[str]:
    """A note that only declared values are counted as distinct values."""
    names = dict.fromkeys(
        one.question.view.names[part.column] for one in asked for part in one.decomposition.parts
        if isinstance(part, Distincts) and part.values is not None and are_listed(part, one)
        and not _complete(one.question, _Origins(one.question.view), part.column, part.values, part.values.values))
    if names:
        yield f"undeclared values of {' or '.join(names)} are not counted"


def _lacking(question: Question) -> Iterator[Key]:
    """The keys that may have values without a group."""
    origins = _Origins(question.view)
    for key in question.keys:
        if key.domain is not None and not _complete(question, origins, key.column, key.domain, key.values):
            yield key


def _complete(question: Question, origins: _Origins, column: str, domain: Domain, shown: Sequence[Value]) -> bool:
    """Whether a column can have no values but those of a domain, or those in `shown`."""
    made, known = origins.of(column), question.view.env[column]
    if isinstance(made, Case):  # such as bin_floor
        whole = _is_shown(made.otherwise, origins, shown) and all(
            _is_shown(then, origins, shown, when) for when, then in made.branches)
    else:
        whole = isinstance(made, Literal) or _all_in(known, domain) or _asked_for(question.view, origins, column, shown)
    return whole or domain.closed or known.type is Type.BOOLEAN


def _is_shown(outcome: Expr, origins: _Origins, shown: Sequence[Value], when: Expr | None = None) -> bool:
    """Whether an outcome of CASE has only values in `shown`, as x has in CASE WHEN x IN ('a', 'b') THEN x ELSE 'other' END."""
    if isinstance(outcome, Literal):
        return outcome.value in shown
    return isinstance(outcome, Ref) and when is not None and _keeps_to(when, origins, outcome.column, shown)


def _asked_for(view: Node, origins: _Origins, column: str, shown: Sequence[Value]) -> bool:
    """Whether conditions at the top of a view keep only the values in `shown`, as WHERE x IN ('a', 'b') does."""
    while isinstance(view, Filter | Project):
        if isinstance(view, Filter) and _keeps_to(view.condition, origins, column, shown):
            return True
        view = view.input
    return False


def _keeps_to(condition: Expr, origins: _Origins, column: str, shown: Sequence[Value]) -> bool:
    """Whether a condition is true only where a column has values in `shown`."""
    def is_it(arg: Expr) -> bool:
        return isinstance(arg, Ref) and origins.first(arg.column) == origins.first(column)

    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function in ("=", MEMBERSHIP) and any(map(is_it, part.args)):
            values = [arg.value if isinstance(arg, Literal) else None for arg in part.args if not is_it(arg)]
            if values and all(value is not None and value in shown for value in values):
                return True
    return False


def _all_in(known: Facts, domain: Domain) -> bool:
    """Whether the known range of a column, from its conditions or expression, has only whole numbers, all of them declared."""
    ends = known.returned
    if not known.whole or not ends.finite or ends.high - ends.low >= len(domain):
        return False
    numbers, values = range(math.ceil(ends.low), math.floor(ends.high) + 1), domain.values
    return values[0] <= numbers[0] and numbers[-1] <= values[-1] if isinstance(values, range) else set(numbers) <= set(values)


# -- constants that may be slips


def unlisted(views: Sequence[Node]) -> Iterator[str]:
    """Notes on constants that are compared with a column but not among its declared values. Texts that are like one of these
    are refused when they are bound."""
    written = ((node, part) for view in views for node in bottom_up(view) for expr in _expressions(node) for part in walk(expr))
    for node, part in written:
        if isinstance(part, Call) and part.function in ("=", "<>", MEMBERSHIP):
            yield from _not_in_list(part, node.inputs[0])


def _expressions(node: Node) -> Sequence[Expr]:
    match node:
        case Filter(condition=condition):
            return (condition,)
        case Project(columns=columns):
            return [expr for _, _, expr in columns if not isinstance(expr, Ref)]
    return ()


def _not_in_list(comparison: Call, below: Node) -> Iterator[str]:
    constants = [arg for arg in comparison.args if isinstance(arg, Literal) and arg.value is not None]
    for column in (arg.column for arg in comparison.args if isinstance(arg, Ref)):
        listed = below.env[column].domain
        if listed is None:
            continue
        for constant in constants:
            if constant.value not in listed.values:
                yield f"{show(constant, {})} is not a declared value of {below.names[column]}"


class _Origins:
    """The expressions that define the columns of a view."""

    def __init__(self, view: Node) -> None:
        self._view = view

    @cached_property
    def _new(self) -> list[tuple[Node, dict[str, Field]]]:
        """Every operator, from the bottom up, with the columns that none before it has."""
        found: list[tuple[Node, dict[str, Field]]] = []
        seen = set[str]()
        for node in bottom_up(self._view):
            found.append((node, {field.id: field for field in node.fields if field.id not in seen}))
            seen.update(found[-1][1])
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        return {column: field.name for _, new in self._new for column, field in new.items()}

    @cached_property
    def _made(self) -> dict[str, Expr]:
        return {column: expr for node, new in self._new if isinstance(node, Project) for column, _, expr in node.columns
                if column in new}

    @cached_property
    def _unbounded(self) -> dict[str, Facts]:
        """What would be known of columns if the policy declared no bounds."""
        found: dict[str, Facts] = {}
        for node, new in self._new:
            folds = node.folds if isinstance(node, GroupBy) else ()
            bounded = {fold.id for fold in folds if fold.function in ("sum", "avg", "min", "max")}
            for column, field in new.items():
                found[column] = facts(self._made[column], found) if column in self._made else replace(
                    field.facts, declared=ANY_NUMBER) if column in bounded or isinstance(node, Scan) else field.facts
        return found

    def of(self, column: str) -> Expr | None:
        """The expression that defines a column, through any renaming; None for a column of a table or of groups."""
        found = self._made.get(column)
        while isinstance(found, Ref) and found.column in self._made:
            found = self._made[found.column]
        return found

    def first(self, column: str) -> str:
        """The original identifier of a column that may have been renamed."""
        found = self.of(column)
        return found.column if isinstance(found, Ref) else column

    def written(self, column: str, known: Facts) -> bool:
        """Whether the statement itself clamps a column to its range, as LEAST(GREATEST(x, 0), 10) does."""
        return self._unbounded[column].declared.inside(known.declared)
