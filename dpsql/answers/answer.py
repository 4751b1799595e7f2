"""The answer of a statement: rows, with the uncertainty of every number."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.columns import ColumnData, joined, none_for_nan, of_rows, typed, unpacked
from dpsql.answers.worth import Possible, nothing_told, sure_ranks
from dpsql.catalog.price import Price
from dpsql.estimates import Estimate, constant
from dpsql.frozen import Frozen, replace
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.modes import candidates
from dpsql.questions.rules.one_column import range_of
from dpsql.questions.rules.regression import PAIRS
from dpsql.questions.rules.substitute import as_columns, clamped_value
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.cells import Cells, column_of
from dpsql.trusted.plan.expr.nodes import Call, Cast, Expr, Literal, Placeholder, Ref, Value, columns
from dpsql.types import ANY_NUMBER, Type

CHANCE = 0.001  # the largest probability that a group of too few entities is shown
MOST_SUM = 2**126  # as sums are HUGEINT in DuckDB
MOST_COUNT = 2**50  # noisy counts are held in this range; see `sql.binding.grouping`


class AnswerColumn(Frozen):
    """A column of an answer.

    exact        a key, a constant, or a number over public tables: it has no error
    approximate  its errors and intervals are approximate (ratios, quantiles, functions of noisy numbers)
    range        the range that the policy allows for the true values; None if it is unknown
    wide         its whole numbers need not be in 64 bits, by the statement and the policy; not stored with an answer
    """

    name: str
    type: Type
    exact: bool = False
    approximate: bool = False
    range: tuple[float, float] | None = None
    wide: bool = False


class Answer(Frozen):
    """Rows, the standard error of every cell, and the ends of its interval; None if a cell has no error.

    data        the same, column by column; `rows`, `errors` and `intervals` are made of it when they are asked for
    intervals   cover the true values with the answer's confidence, of dates as ordinals of days; an end may be infinite
    notes       what was done that a reader should know: limits learned, groups left out, rows and values that do not count
    cost        what the statement was charged, as a price; None for a free one
    stored      it was answered before, and cost nothing this time
    shared      another analyst of the budget paid for it, and this analyst had not seen it before
    """

    columns: tuple[AnswerColumn, ...]
    data: tuple[ColumnData, ...]
    confidence: float
    cost: str = ""
    notes: tuple[str, ...] = ()
    stored: bool = False
    shared: bool = False

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.data[0].values)

    @cached_property
    def rows(self) -> tuple[tuple[Value, ...], ...]:
        """The rows, each with one value for each column."""
        return tuple(zip(*(column.values for column in self.data), strict=True))

    @cached_property
    def errors(self) -> tuple[tuple[float | None, ...], ...]:
        """Standard errors in the shape of `rows`, in the units of the columns (days for dates); None for exact cells."""
        return tuple(zip(*(column.told_errors() for column in self.data), strict=True))

    @cached_property
    def intervals(self) -> tuple[tuple[tuple[float, float] | None, ...], ...]:
        """The two ends of each interval in the shape of `rows`; None for exact cells."""
        return tuple(zip(*(column.told_intervals() for column in self.data), strict=True))

    def ends(self, row: int, column: int) -> tuple[Value, Value] | None:
        """The ends of the interval as values of the column: of a date, the first and the last day of it."""
        found, value = self.intervals[row][column], self.rows[row][column]
        if found is None or not isinstance(value, dt.date):
            return found
        low, high = (min(max(day, 1), dt.date.max.toordinal()) for day in (_down(found[0]), -_down(-found[1])))
        return dt.date.fromordinal(low), dt.date.fromordinal(high)

    def named(self, names: Sequence[str]) -> Answer:
        """The same answer under other column names."""
        columns = tuple(replace(column, name=name) for column, name in zip(self.columns, names, strict=True))
        return replace(self, columns=columns)

    def at(self, rows: slice) -> Answer:
        """The same answer with only the rows at these positions."""
        return replace(self, data=tuple(column.at(rows) for column in self.data))

    def as_shared(self) -> Answer:
        """A copy of the answer for an analyst who has not seen it; another analyst paid for it."""
        return replace(self, shared=True)

    def as_json(self) -> str:
        """The answer as text, for the ledger; `of_json` reads it back."""
        return json.dumps({
            "columns": [[c.name, c.type.value, c.exact, c.approximate, c.range] for c in self.columns],
            "data": [column.packed() for column in self.data], "confidence": self.confidence, "cost": self.cost,
            "notes": self.notes}, ensure_ascii=True, separators=(",", ":"))


def together(answers: Sequence[Answer]) -> Answer:
    """The rows of several answers of one statement, one after another."""
    costs = Counter(answer.cost for answer in answers if answer.cost and not answer.stored)
    return replace(
        answers[-1], data=tuple(map(joined, zip(*(answer.data for answer in answers), strict=True))),
        cost=", ".join(cost if times == 1 else f"{times} times {cost}" for cost, times in costs.items()),
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        stored=all(answer.stored for answer in answers), shared=any(answer.shared for answer in answers))


def of_json(text: str) -> Answer:
    """A stored answer."""
    body = json.loads(text)
    shown = tuple(AnswerColumn(name=name, type=Type(kind), exact=exact, approximate=approximate,
                               range=tuple(range_[0]) if range_ and range_[0] is not None else None)
                  for name, kind, exact, approximate, *range_ in body["columns"])
    data = tuple(unpacked(each, column.type) for each, column in zip(body["data"], shown, strict=True)) if "data" in body else (
        _stored_by_rows(body, shown))
    return Answer(columns=shown, data=data, confidence=body["confidence"], cost=body["cost"], notes=tuple(body["notes"]),
                  stored=True)


def _stored_by_rows(body: Any, shown: Sequence[AnswerColumn]) -> tuple[ColumnData, ...]:
    """Read answers stored by earlier versions, with intervals or with margins (half widths)."""
    rows = [[typed(value, column.type) for value, column in zip(row, shown, strict=True)] for row in body["rows"]]
    intervals = body["intervals"] if "intervals" in body else [
        [None if margin is None else (float(_floats([value])[0]) - margin, float(_floats([value])[0]) + margin)
         for value, margin in zip(row, margins, strict=True)] for row, margins in zip(rows, body["margins"], strict=True)]
    return of_rows(rows, body["errors"], intervals, len(shown))


def _down(day: float) -> int:
    """A number rounded down to a whole day, comparable with dates."""
    return math.floor(min(max(day, -1e9), 1e9))


class Single(Frozen):
    """The released value of a scalar subquery, whether it is noisy, and, for a number, the estimate with its error."""

    type: Type
    value: Value
    noisy: bool
    estimate: Estimate | None

    @property
    def error(self) -> float | None:
        """The standard error; None where none is known."""
        if self.estimate is None or self.value is None:
            return None
        with np.errstate(all="ignore"):
            error = float(self.estimate.deviations[0])
        return error if math.isfinite(error) else None


NONE: Mapping[str, Single] = MappingProxyType({})


def single(awaited: Placeholder, question: Question, cells: Cells, aggregates: Mapping[str, Estimate], scratch: Scratch,
           singles: Mapping[str, Single]) -> Single:
    """The one value of a scalar subquery; NULL if it has no row or no number."""
    with np.errstate(all="ignore"):
        question = _over_columns(question)
        table = _ValueTable(question, cells, aggregates, scratch, singles)
        made = table.output(question.outputs[0].expr)
        kept = _ordered_rows(question, table, [made], len(cells))[rows_shown(question.limit, question.offset)]
        value = clamped_value(awaited, made.values[kept[0]] if kept else None)
        estimate = None if made.estimate is None else replace(made.estimate, values=_floats([value]))
    return Single(type=awaited.type, value=value, noisy=made.noisy, estimate=estimate)


def compose(question: Question, cells: Cells, aggregates: Mapping[str, Estimate], scratch: Scratch, *, confidence: float,
            price: Price | None, notes: Sequence[str], singles: Mapping[str, Single] = NONE) -> Answer:
    """Outputs, HAVING, ORDER BY, DISTINCT, LIMIT and OFFSET over noisy aggregates: all of it is post-processing."""
    with np.errstate(all="ignore"):  # results out of range become infinite or NULL, which needs no warning
        made = noisy_rows(question, cells, aggregates, scratch, singles)
        outputs, kept = made.outputs, made.kept
        notes = [*notes, *told_withheld(question, made.withheld, len(cells))]
        data = tuple(_data(made, kept, confidence) for made in outputs)
        possible = possible_of(question, aggregates)
        with contextlib.suppress(ArithmeticError):  # an answer is paid for already, and not spoilt by notes
            notes += nothing_told([*possible.values()], made.ordered, confidence, price)
            notes += _ranked(question, outputs, made.ordered, confidence)
    shown = tuple(AnswerColumn(name=output.name, type=output.expr.type, exact=not made.noisy,
                               approximate=made.estimate is not None and made.estimate.approximate,
                               range=(possible[i].low, possible[i].high) if i in possible else None)
                  for i, (output, made) in enumerate(zip(question.outputs, outputs, strict=True)))
    return Answer(columns=shown, data=data, confidence=confidence, cost=str(price) if price is not None else "",
                  notes=tuple(notes))


def possible_of(question: Question, aggregates: Mapping[str, Estimate]) -> dict[int, Possible]:
    """The ranges of the outputs that are an aggregate as it is, by their places."""
    calls, found = {call.id: call for call in question.aggregates}, {}
    for i, output in enumerate(question.outputs):
        expr = _uncast(output.expr)
        call = calls.get(expr.column) if isinstance(expr, Ref) else None
        if call is not None and call.aggregate.kind is not Kind.MODE and aggregates[call.id].slopes:
            low, high = _range(call, question)
            found[i] = Possible(name=output.name, low=low, high=high, noise=aggregates[call.id])
    return found


def _ranked(question: Question, outputs: Sequence[NoisyColumn], kept: Sequence[int], confidence: float) -> Iterator[str]:
    """A note on the ranks of rows that are ordered by one of the noisy numbers that are shown."""
    first = next(iter(question.ordering), None)
    ordered = next((made for output, made in zip(question.outputs, outputs, strict=True)
                    if first is not None and output.expr == first.expr), None)
    if ordered is not None and ordered.noisy and ordered.estimate is not None:
        told = sure_ranks(ordered.estimate, kept, confidence)
        hidden = question.having is not None or question.minimum is not None or any(key.domain is None for key in question.keys)
        if told is not None:
            yield f"{told}, among the groups that are shown" if hidden and not told.startswith("no rank") else told


class NoisyRows(Frozen):
    """The outputs of a question over all its cells, the cells in their order, those of them that LIMIT and OFFSET show, and how
    many are withheld."""

    outputs: Sequence[NoisyColumn]
    ordered: Sequence[int]
    kept: Sequence[int]
    withheld: int


def noisy_rows(question: Question, cells: Cells, aggregates: Mapping[str, Estimate], scratch: Scratch,
               singles: Mapping[str, Single] = NONE) -> NoisyRows:
    """Compose the answer of a question from its released numbers."""
    question = _over_columns(question) if singles else question
    table = _ValueTable(question, cells, aggregates, scratch, singles)
    outputs = [table.output(output.expr) for output in question.outputs]
    ordered = _ordered_rows(question, table, outputs, len(cells))
    return NoisyRows(outputs=outputs, ordered=ordered, kept=ordered[rows_shown(question.limit, question.offset)],
                     withheld=len(table.withheld))


def _over_columns(question: Question) -> Question:
    """The question with the values of subqueries as columns of its noisy rows."""
    return replace(question, outputs=as_columns(question.outputs), having=as_columns(question.having),
                   ordering=as_columns(question.ordering))


class NoisyColumn(Frozen):
    """An output over all cells: its values, whether they are noisy, and the estimate with their errors (None for exact values,
    texts and booleans)."""

    values: Sequence[Value]
    noisy: bool
    estimate: Estimate | None


def _data(made: NoisyColumn, kept: Sequence[int], confidence: float) -> ColumnData:
    """A column as it is displayed. Values without an error have no interval."""
    every = len(kept) == len(made.values) and kept == range(len(kept))
    values = made.values if every else [made.values[i] for i in kept]
    if made.estimate is None or not made.estimate.slopes:
        return ColumnData(values=tuple(values))
    lows, highs = made.estimate.ends(confidence)
    errors = np.where(np.isfinite(made.estimate.deviations), made.estimate.deviations, np.nan)
    places = np.arange(len(kept)) if every else np.array(kept, dtype=np.intp)
    none = np.array([value is None for value in values], dtype=np.bool_)
    none_of_interval = none | np.isnan(lows[places]) | np.isnan(highs[places])
    return ColumnData(values=tuple(values), errors=_with_holes(errors[places], none),
                      lows=_with_holes(lows[places], none_of_interval), highs=_with_holes(highs[places], none_of_interval))


def _with_holes(numbers: NDArray[np.float64], holes: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Numbers with NaN in some places; None if none is left."""
    found = np.where(holes, np.nan, numbers)
    return None if np.isnan(found).all() else found


class _ValueTable:
    """The keys, the noisy aggregates and the values of subqueries, as columns that expressions are evaluated over."""

    def __init__(self, question: Question, cells: Cells, aggregates: Mapping[str, Estimate], scratch: Scratch,
                 singles: Mapping[str, Single]) -> None:
        self._scratch, self.withheld = scratch, withheld(question, aggregates)
        aggregates = {**aggregates, **{call.id: aggregates[call.id].known(*_range(call, question))
                                       for call in question.aggregates}}
        self._estimates = {**aggregates, **{name: found.estimate.spread(len(cells)) for name, found in singles.items()
                                            if found.estimate is not None}}
        self._declared = {call.id: question.view.field(call.columns[0]).facts.declared if call.columns else ANY_NUMBER
                          for call in question.aggregates}
        self._noisy = {name for name, estimate in aggregates.items() if estimate.slopes} | {
            name for name, found in singles.items() if found.noisy}
        self._calls = {call.id: call for call in question.aggregates} | {
            name: AggregateCall(id=name, function="scalar", type=found.type) for name, found in singles.items()
            if found.estimate is not None}
        self.columns: dict[str, tuple[Type, Sequence[Value]]] = {
            key.column: (key.type, column_of(cells, i)) for i, key in enumerate(question.keys)}
        levels: list[tuple[Type, Sequence[Value]]] = [
            (Type.BIGINT, column_of(cells, len(question.keys) + i)) for i in range(len(question.levels))]
        self.columns |= dict(zip((level.id for level in question.levels), levels, strict=True))
        for call in question.aggregates:
            self.columns[call.id] = (call.type, _told(call, aggregates[call.id]))
        self.columns |= {name: (found.type, [found.value] * len(cells)) for name, found in singles.items()}
        self._size = len(cells)

    def values(self, exprs: Sequence[Expr]) -> list[Sequence[Value]]:
        """The values of expressions over all cells."""
        made: dict[int, Sequence[Value]] = {}
        hard = []
        for i, expr in enumerate(exprs):
            if isinstance(expr, Ref):
                made[i] = self.columns[expr.column][1]
            elif isinstance(expr, Literal):
                made[i] = [expr.value] * self._size
            else:
                hard.append(i)
        if hard and self._size:
            read = {column for i in hard for column in columns(exprs[i])}
            rows = self._scratch.evaluate([exprs[i] for i in hard], {name: self.columns[name] for name in sorted(read)} or {
                "#cell": (Type.BIGINT, list(range(self._size)))})
            for place, i in enumerate(hard):
                made[i] = [row[place] for row in rows]
        return [made.get(i, []) for i in range(len(exprs))]

    def output(self, expr: Expr) -> NoisyColumn:
        (values,) = self.values([expr])
        read = [name for name in sorted(columns(expr)) if name in self._calls]
        noisy = bool(columns(expr) & self._noisy)
        chosen = any(self._calls[name].aggregate.kind is Kind.MODE for name in read)
        if not read or chosen or not (expr.type.numeric or expr.type is Type.DATE):
            return NoisyColumn(values=values, noisy=noisy, estimate=None)
        estimate = self._symbolic(expr)
        if estimate is None:
            estimate = self._by_differences(expr, read)
        return NoisyColumn(values=values, noisy=noisy, estimate=replace(estimate, values=_floats(values)))

    def _symbolic(self, expr: Expr) -> Estimate | None:
        """The estimate of plain arithmetic; None for anything else."""
        match expr:
            case Ref(column=column) if column in self._estimates:
                return self._estimates[column]
            case Literal(value=value) if isinstance(value, int | float) and not isinstance(value, bool):
                return constant(np.full(self._size, float(value)))
            case Cast(input=below, target="DOUBLE") if below.type.numeric:
                return self._symbolic(below)
            case Call(function="negate", args=(below,)):
                inner = self._symbolic(below)
                return None if inner is None else inner * -1.0
            case Call(function="+" | "-" | "*" | "/" as sign, args=(left, right)):
                a, b = self._symbolic(left), self._symbolic(right)
                if a is None or b is None:
                    return None
                made = a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
                return made.known(*self._share(left, right)) if sign == "/" else made
        return None

    def _share(self, part: Expr, whole: Expr) -> tuple[float, float]:
        """The range of a quotient. A count, or a sum of what is not negative, by the same over groups of which its own is one, is
        between 0 and 1, or the number that it is multiplied by."""
        factor, part = _factor(part)
        own, all_ = (self._calls.get(one.column) if isinstance(one, Ref) else None for one in (part, _uncast(whole)))
        if own is None or all_ is None or own.over is not None or all_.over is None or all_.over.order is not None or (
                all_.over.mean or (own.function, own.columns, own.when) != (all_.function, all_.columns, all_.when)):
            return -math.inf, math.inf
        total = own.aggregate.kind is Kind.TOTAL and self._declared[own.id].low >= 0
        if own.aggregate.kind is not Kind.COUNT and not total:
            return -math.inf, math.inf
        return min(0.0, factor), max(0.0, factor)

    def _by_differences(self, expr: Expr, read: Sequence[str]) -> Estimate:
        """First-order error propagation: the change of the expression when each aggregate moves by its standard error."""
        total = constant(np.zeros(self._size))
        for name in read:
            estimate = self._estimates[name]
            step = np.where(estimate.deviations > 0, estimate.deviations, 1e-6)
            sides = []
            for sign in (1, -1):
                moved = replace(estimate, values=estimate.values + sign * step)
                given = {column: self.columns[column] for column in sorted(columns(expr))}
                given[name] = (self._calls[name].type, values_of(self._calls[name], moved))
                sides.append(_floats([row[0] for row in self._scratch.evaluate([expr], given)]))
            slope = np.nan_to_num((sides[0] - sides[1]) / (2 * step))
            total = total + estimate.scaled(slope, linear=False)
        return replace(total, linear=False)


def withheld(question: Question, aggregates: Mapping[str, Estimate]) -> frozenset[int]:
    """The cells of too few entities, judged by noisy counts; see `planning.minimum_frequency`."""
    if (rule := question.minimum) is None:
        return frozenset()
    lows = aggregates[rule.count].least(1 - CHANCE)
    return frozenset(np.flatnonzero(~(lows > rule.rows * (rule.entities - 1))).tolist())  # NaN is withheld too


def told_withheld(question: Question, few: int, cells: int) -> Iterator[str]:
    """The note on groups that a minimum frequency withholds."""
    if question.minimum is not None:
        here = f"{few} of {cells} here" if question.keys else "this one is" if few else "this one is not"
        yield (f"{question.minimum}: {here}, as far as the noise shows; a smaller group is shown with a probability of at most "
               f"{CHANCE:g}")


def _uncast(expr: Expr) -> Expr:
    while isinstance(expr, Cast) and expr.target == "DOUBLE":
        expr = expr.input
    return expr


def _factor(expr: Expr) -> tuple[float, Expr]:
    """Split a product into its constant factor and the other factor."""
    expr = _uncast(expr)
    if isinstance(expr, Call) and expr.function == "*":
        for number, other in (expr.args, expr.args[::-1]):
            number = _uncast(number)
            if isinstance(number, Literal) and isinstance(number.value, int | float) and not isinstance(number.value, bool):
                return float(number.value), _uncast(other)
    return 1.0, expr


def _range(call: AggregateCall, question: Question) -> tuple[float, float]:
    """The range that the true value of an aggregate lies in, whatever the rows are."""
    if call.aggregate.counts:
        return 0.0, math.inf
    if call.beyond:
        return -math.inf, math.inf
    ends, *others = (question.view.field(column).facts.declared for column in call.columns[:2])
    if call.aggregate.kind is Kind.PAIR:
        return PAIRS[call.function].range(ends, *others)
    if not ends.finite or call.over is not None:
        return -math.inf, math.inf
    match call.aggregate.kind:
        case Kind.RANK:
            return float(ends.low), float(ends.high)
        case Kind.TOTAL:
            return (0.0 if ends.low >= 0 else -math.inf), (0.0 if ends.high <= 0 else math.inf)
        case Kind.MEAN | Kind.SPREAD:
            return range_of(call.function, ends)
    return -math.inf, math.inf


def _told(call: AggregateCall, estimate: Estimate) -> Sequence[Value]:
    """The values of an aggregate; of a mode, those that the numbers of its estimate stand for."""
    if call.aggregate.kind is not Kind.MODE:
        return values_of(call, estimate)
    values = candidates(call)
    return [values[round(place)] for place in estimate.values.tolist()]


def values_of(call: AggregateCall, estimate: Estimate) -> list[Value]:
    """The values of an aggregate, converted to its type; NULL where it has no value."""
    if call.type is Type.BIGINT:
        most = MOST_COUNT if call.aggregate.counts else MOST_SUM
        if (np.abs(estimate.values) <= MOST_COUNT).all():
            return list[Value](np.rint(estimate.values).astype(np.int64).tolist())
        return [None if math.isnan(x) else round(min(max(x, -most), most)) for x in estimate.values.tolist()]
    if call.type is Type.DATE:
        return [None if math.isnan(x) else dt.date.fromordinal(min(max(round(x), 1), dt.date.max.toordinal()))
                for x in estimate.values.tolist()]
    return list[Value](none_for_nan(estimate.values))


def _floats(values: Sequence[Any]) -> NDArray[np.float64]:
    if set(map(type, values)) <= {int, float}:
        return np.array(values, dtype=np.float64)
    return np.array([math.nan if value is None else value.toordinal() if isinstance(value, dt.date) else float(value)
                     for value in values], dtype=np.float64)


ALL_ROWS = slice(0, None)


def rows_shown(limit: int | None, offset: int) -> slice:
    """The positions of the rows that LIMIT and OFFSET keep."""
    return slice(offset, None if limit is None else offset + limit)


def without_limit(question: Question) -> Question:
    """The question without LIMIT and OFFSET, whose answer has all rows."""
    return question if rows_shown(question.limit, question.offset) == ALL_ROWS else replace(question, limit=None, offset=0)


def _ordered_rows(question: Question, table: _ValueTable, outputs: Sequence[NoisyColumn], size: int) -> Sequence[int]:
    """The cells that the answer has without LIMIT and OFFSET, in order."""
    kept: Sequence[int] = [i for i in range(size) if i not in table.withheld] if table.withheld else range(size)
    if question.having is not None:
        (true,) = table.values([question.having])
        kept = [i for i in kept if true[i] is True]
    if question.distinct:
        seen: set[tuple[Value, ...]] = set()
        rows = [(i, tuple(made.values[i] for made in outputs)) for i in kept]
        kept = [i for i, row in rows if row not in seen and not seen.add(row)]  # type: ignore[func-returns-value]
    if not question.ordering and question.sets is None:
        kept = _as_listed(kept, question, table)
    terms = table.values([term.expr for term in question.ordering])
    return kept if not terms else sorted_by(kept, [(values, term.descending, term.nulls_first)
                            for term, values in reversed(list(zip(question.ordering, terms, strict=True)))])


def _as_listed(rows: Sequence[int], question: Question, table: _ValueTable) -> Sequence[int]:
    """Rows, which are in the order of their keys, with the values of keys in the order in which the policy lists them."""
    domains = [key.domain for key in question.keys if key.domain is not None]
    if len(domains) < len(question.keys) or not any(domain.listed for domain in domains):
        return rows
    places: list[Sequence[int]] = []
    for key, domain in zip(question.keys, domains, strict=True):
        own = {value: i for i, value in enumerate((*(domain.listed or domain.values), None))}
        places.append([own.get(value, len(own)) for value in table.columns[key.column][1]])  # public rows may have others
    return sorted(rows, key=lambda i: tuple(own[i] for own in places))


def sorted_by(rows: Sequence[int], terms: Sequence[tuple[Sequence[Value], bool, bool]]) -> list[int]:
    """Sort rows by several terms; the last term is applied first. Each has values, a direction, and a position for NULL."""
    kept = list(rows)
    for values, descending, nulls_first in terms:
        rest = [i for i in kept if values[i] is not None]
        rest.sort(key=lambda i, values=values: _sortable(values[i]), reverse=descending)  # type: ignore[misc]
        nulls = [i for i in kept if values[i] is None]
        kept = [*nulls, *rest] if nulls_first else [*rest, *nulls]
    return kept


def _sortable(value: Value) -> Any:
    """NaN sorts after all numbers, as in DuckDB."""
    if value is None:
        return (0, 0)
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)
