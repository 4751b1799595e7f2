"""The public list of values of a key: derived from the declared values of its columns, without those that conditions exclude.

Groups that cannot have rows, by the text of the statement alone, are not shown. A group is left out only if this is certain for
all values that rows may have, undeclared ones included. There are four arguments.
 - A condition that reads only the key is a function of it, so the groups for which it is not true have no rows.
 - Where conditions restrict every column of a key to a few values (x IN (...), x = 3, whole numbers BETWEEN two others), the key
   has one of the values that it takes at these.
 - Whole numbers in a range give keys in a range, by the rules that prove arithmetic safe.
 - The start of a minute, hour, day, week, month, quarter, year or bucket is never after what it is of, and later moments never
   have earlier ones. So where conditions leave moments between two ends, keys are between the starts of the ends, and before an
   end that is left out.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Protocol

from dpsql.catalog.days import KEPT_BY_ENDS, Days
from dpsql.frozen import replace
from dpsql.questions.rules.flatten import lowered
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.trusted.declarations.tables import Domain, Scalar
from dpsql.trusted.plan.cells import MOST_CELLS
from dpsql.trusted.plan.disjoint import Ends, Said
from dpsql.trusted.plan.disjoint import known as where_true
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.functions import LONGEST_DAYS, MEMBERSHIP, UNITS
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value, children, columns, predicate, rewrite
from dpsql.trusted.plan.expr.upper_limits import limit_of
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Interval, Type

MOST_COMBINATIONS, MOST_NUMBERS = 100_000, 10_000
KEY = "key"  # the column that stands for a key in conditions that read it alone
AT_ONCE = 100  # conditions that are evaluated by one statement
DAY = dt.timedelta(days=1)
OF_A_DAY = {"second": 86400, "minute": 1440, "hour": 24}  # how many there are in a day
STARTS = frozenset((*(f"date_trunc_{unit}" for unit in UNITS), *(f"time_bucket_{unit}s" for unit in LONGEST_DAYS)))
CLOCK = re.compile("%[HMSpI]")  # parts of a format of which the day says nothing
TOTAL = ("+", "-", "*", "negate", "abs", "floor", "ceil", "trunc")  # NULL only where an argument is


class Scratch(Protocol):
    """Evaluates expressions over public values, with the semantics of the engine."""

    def evaluate(self, exprs: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> list[tuple[Any, ...]]:
        """The values of expressions over rows given column by column."""
        ...

    def truths(self, tests: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> Any:
        """Whether each condition is true, and neither false nor NULL, for each of these rows: an array (conditions, rows)."""
        ...

    def compiles(self, pattern: str) -> bool:
        """Whether the engine accepts a regular expression, so that it cannot fail on a row."""
        ...

    def close(self) -> None: ...


def domain_of(expr: Expr, env: Mapping[str, Facts], scratch: Scratch) -> tuple[Domain | None, bool]:
    """All values that an expression can take (None if they do not follow from the policy), and whether NULL is one of them.

    They are known for declared columns, truth values, CASE over constants, expressions over columns with declared values
    (evaluated over all combinations), whole numbers in a declared range, such as floor(income / 1000), multiples of a power of
    ten in one, such as round(income, -3), the months, years and the like of dates between declared bounds, functions of these,
    such as floor(income / 1000) * 1000, and columns of whole numbers that a condition restricts to a range: WHERE n BETWEEN 1
    AND 20.
    """
    known = facts(expr, env)
    if isinstance(expr, Ref) and known.domain is None and known.type is Type.BOOLEAN:
        return Domain((False, True)), known.nullable
    if isinstance(expr, Ref):
        held = known.domain is None and known.returned == known.declared
        return (_whole_numbers(known) if held else known.domain), known.nullable
    if isinstance(expr, Literal):
        return Domain(() if expr.value is None else (expr.value,)), expr.value is None
    evaluated = _over_combinations(expr, env, scratch) or _truncated(expr, env, scratch)
    if evaluated is not None:
        return _with_otherwise(expr, env, *evaluated)
    if known.type is Type.BOOLEAN:
        return Domain((False, True)), known.nullable
    if isinstance(expr, Case):
        outcomes = [*(then for _, then in expr.branches), expr.otherwise]
        if all(isinstance(outcome, Literal) for outcome in outcomes):
            values = {outcome.value for outcome in outcomes if isinstance(outcome, Literal) and outcome.value is not None}
            return Domain(tuple(sorted(values))), known.nullable
    in_range = _rounded(expr, env) if isinstance(expr, Call) and expr.function == "round" else _whole_numbers(known)
    of_parts = _of_parts(expr, env, scratch)
    if of_parts is None or (in_range is not None and len(in_range) <= len(of_parts[0])):
        return in_range, known.nullable
    return of_parts


def known_values(expr: Expr, node: Node, scratch: Scratch) -> tuple[Domain | None, bool]:
    """The same over the rows of a relation. An expression computed in a subquery is looked up there."""
    found = domain_of(expr, compared(node), scratch)
    if found[0] is None and isinstance(node, Project | Filter):
        below = lowered(node, [expr])
        if below.exprs[0] is not None and below.exprs[0] != expr and not has_placeholders(below.exprs[0]):
            return domain_of(below.exprs[0], below.source.env, scratch)
    return found


def _with_otherwise(expr: Expr, env: Mapping[str, Facts], found: Domain, nullable: bool) -> tuple[Domain, bool]:
    """The values of a key, and the constant after ELSE, which gives undeclared values a group."""
    if not (isinstance(expr, Case) and isinstance(expr.otherwise, Literal) and expr.otherwise.value is not None and any(
            env[column].type is not Type.BOOLEAN for column in columns(expr))):
        return found, nullable
    otherwise = expr.otherwise.value
    listed = (*found.listed, *(() if otherwise in found.listed else (otherwise,))) if found.listed else ()
    return Domain(tuple(sorted({*found.values, otherwise})), listed=listed), nullable


def _whole_numbers(known: Facts) -> Domain | None:
    """The whole numbers of a declared range, if these are not too many."""
    ends = known.declared.within(known.returned)
    if not (known.whole and known.type.numeric and ends.finite and ends.high - ends.low <= MOST_NUMBERS):
        return None
    numbers = range(math.ceil(ends.low), math.floor(ends.high) + 1)
    return Domain(tuple(numbers) if known.type is Type.BIGINT else tuple(float(n) for n in numbers))


def _rounded(expr: Call, env: Mapping[str, Facts]) -> Domain | None:
    """The results of rounding the numbers of a declared range to some digits, if these are not too many."""
    number, *digits = expr.args
    power = next((digit.value for digit in digits if isinstance(digit, Literal)), 0)
    below = facts(number, env)
    ends = below.declared.within(below.returned)
    if not isinstance(power, int) or not ends.finite:
        return None
    ten = Fraction(10) ** power
    least, most = math.ceil(Fraction(ends.low) * ten - Fraction(1, 2)), math.floor(Fraction(ends.high) * ten + Fraction(1, 2))
    if most - least > MOST_NUMBERS:
        return None
    kind = int if expr.type is Type.BIGINT else float
    return Domain(tuple(kind(n / ten) for n in range(least, most + 1)))


def _truncated_column(expr: Expr) -> Ref | None:
    """The date or time of which an expression is the day, or the start of the hour, week, bucket and the like."""
    match expr:
        case Call(function=name, args=(Ref() as moment, *_)) if name in STARTS:
            return moment
        case Cast(input=Ref(type=Type.TIMESTAMP) as moment, target="DATE"):
            return moment
    return None


def _truncated(expr: Expr, env: Mapping[str, Facts], scratch: Scratch) -> tuple[Domain, bool] | None:
    """The days, hours, weeks, buckets and the like of a date or time between declared bounds, or their days in a format, if these
    are not too many."""
    moment = _truncated_column(expr)
    if moment is None and isinstance(expr, Call) and expr.function == "strftime" and isinstance(expr.args[0], Ref) and (
            isinstance(form := expr.args[1], Literal) and not CLOCK.search(str(form.value).replace("%%", ""))):
        moment = expr.args[0]
    if moment is None:
        return None
    known = env[moment.column]
    ends = known.declared.within(known.returned)
    steps = _steps_of_a_day(expr)
    if not ends.finite or (ends.high - ends.low) * steps > MOST_NUMBERS:
        return None
    days = [dt.date.fromordinal(n) for n in range(math.floor(ends.low), math.floor(ends.high) + 1)]
    values: list[dt.date] = days
    if moment.type is Type.TIMESTAMP:
        values = [dt.datetime.combine(day, dt.time()) + step * DAY // steps for day in days for step in range(steps)]
        if steps * len(days) > 1:  # buckets need not begin with the first moment, so the last one is in one of its own
            values.append(dt.datetime.combine(days[-1], dt.time.max))
    return _over_combinations(expr, {moment.column: replace(known, domain=Domain(tuple(values)))}, scratch)


def _steps_of_a_day(expr: Expr) -> int:
    """How many moments of a day are enough to see all starts: no two of them are further apart than a start and the next."""
    if not isinstance(expr, Call) or expr.function not in STARTS:
        return 1
    unit = expr.function.rpartition("_")[2].rstrip("s")
    number = expr.args[1].value if len(expr.args) > 1 and isinstance(expr.args[1], Literal) else 1
    return math.ceil(OF_A_DAY[unit] / number) if unit in OF_A_DAY and isinstance(number, int) else 1


def _of_parts(expr: Expr, env: Mapping[str, Facts], scratch: Scratch) -> tuple[Domain, bool] | None:
    """The values of a function of parts whose values are known, over all their combinations."""
    known: dict[Expr, str] = {}
    stand_ins: dict[str, Facts] = {}
    for part in children(expr):
        if isinstance(part, Literal) or part in known:
            continue
        domain, nullable = domain_of(part, env, scratch)
        if domain is None:
            return None
        known[part] = f"part {len(known)}"
        stand_ins[known[part]] = Facts(type=part.type, domain=domain, nullable=nullable)
    whole = rewrite(expr, lambda part: Ref(column=known[part], type=part.type) if part in known else None)
    return _over_combinations(whole, stand_ins, scratch)


def _over_combinations(expr: Expr, env: Mapping[str, Facts], scratch: Scratch) -> tuple[Domain, bool] | None:
    """The values over all combinations of the columns' own values; None where these are not declared or too many, or where the
    expression waits for a value."""
    if has_placeholders(expr):
        return None
    read = sorted(columns(expr))
    domains = [env[column].domain for column in read]
    known = [domain for domain in domains if domain is not None]
    if not read or len(known) < len(read) or math.prod(map(len, known)) > MOST_COMBINATIONS:
        return None
    lists = [[*domain.values, *([None] if env[column].nullable else [])] for column, domain in zip(read, known, strict=True)]
    if math.prod(map(len, lists)) > MOST_COMBINATIONS:
        return None
    rows = list(product(*lists))
    given = {column: (env[column].type, [row[i] for row in rows]) for i, column in enumerate(read)}
    found = {value for value, inside in scratch.evaluate([expr, _readable(expr)], given) if inside is not False}
    values = [value for value in found if value is not None and value == value]
    return Domain(tuple(sorted(values))), None in found


def _readable(expr: Expr) -> Expr:
    """Whether Python can represent a value: groups of days outside the years 1 to 9999 are not shown."""
    if not expr.type.temporal:
        return Literal(value=True, type=Type.BOOLEAN)
    kind = dt.date if expr.type is Type.DATE else dt.datetime
    first, last = (Literal(value=end, type=expr.type) for end in (kind.min, kind.max))
    return predicate("and", predicate(">=", expr, first), predicate("<=", expr, last))


# -- values that satisfy the conditions


def compared(node: Node) -> Mapping[str, Facts]:
    """Facts about the columns of a relation, including the ranges to which WHERE restricts double-precision numbers and
    moments. They describe only the remaining rows, as only these have groups."""
    if not isinstance(node, Filter):
        return node.env
    env, tests = dict(node.env), []
    while isinstance(node, Filter):
        tests.append(node.condition)
        node = node.input
    for ref, said in where_true(tests).items():
        if said.empty:
            continue
        known = env[ref.column]
        if ref.type is Type.DOUBLE:
            ends = _ends_of(said)
            env[ref.column] = replace(known, physical=known.physical.within(ends), declared=known.declared.within(ends))
        elif ref.type is Type.TIMESTAMP:
            env[ref.column] = replace(known, declared=known.declared.within(_days_of(said)))
    return env


def _days_of(said: Said) -> Interval:
    """The days of the moments that a column can have."""
    low, high = (None if end is None else end[1].toordinal() for end in (said.ends.low, said.ends.high))
    days = [moment.toordinal() for _, moment in said.places or ()]
    return Interval(max(-math.inf if low is None else low, min(days, default=-math.inf)),
                    min(math.inf if high is None else high, max(days, default=math.inf)))


def _ends_of(said: Said) -> Interval:
    """The least range that contains all numbers a column can be; NaN is above all numbers."""
    ends, low, high = said.ends, -math.inf, math.inf
    if ends.low is not None and not ends.low[0]:
        low = ends.low[1] if ends.low_in else math.nextafter(ends.low[1], math.inf)
    if ends.high is not None and not ends.high[0]:
        high = ends.high[1] if ends.high_in else math.nextafter(ends.high[1], -math.inf)
    numbers = [number for nan, number in said.places or () if not nan]
    return Interval(max(low, min(numbers, default=low)), min(high, max(numbers, default=high)))


def values_left(expr: Expr, node: Node, domain: Domain | None, scratch: Scratch, *, nullable: bool,
                most: int = MOST_CELLS) -> tuple[Domain | None, bool]:
    """The declared values of a key that rows of `node` can have, and whether NULL is possible; None if they are more than `most`
    numbers."""
    if domain is None or not columns(expr):
        return domain, nullable
    low, high = _ends(expr, node.env)
    null = nullable and not never_null(expr, node.env)
    filtered = any(isinstance(part, Filter) for part in bottom_up(node))
    if isinstance(domain.values, KEPT_BY_ENDS):
        if isinstance(domain.values, Days):
            low, high = _days_compared(expr, node)
        domain = Domain(_between(domain.values, low, high))
        if not filtered or len(domain) > most:
            return domain if len(domain) <= most else None, null
    values: list[Value] = [value for value in domain.values if not (
        isinstance(value, int | float) and not isinstance(value, bool) and not low <= value <= high)]
    values += [None] if null else []
    if filtered:
        values = _where(expr, node, values, scratch)
    return domain.only(tuple(value for value in values if value is not None)), None in values


def _between(values: Sequence[Scalar], low: float, high: float) -> Sequence[Scalar]:
    """The whole numbers of a range, or the days of one by their numbers, that lie within ends, which may be infinite."""
    numbers = values.numbers if isinstance(values, Days) else values
    assert isinstance(numbers, range)
    first = numbers.start if low <= numbers.start else math.ceil(min(low, numbers.stop))
    stop = numbers.stop if high >= numbers.stop else math.floor(max(high, numbers.start - 1)) + 1
    return values[first - numbers.start : max(first, stop) - numbers.start]


def _days_compared(expr: Expr, node: Node) -> tuple[float, float]:
    """The numbers of the first and the last day that conditions leave of a column of days, which they compare with constants;
    infinite where they leave all, or the key is no column."""
    below = lowered(node, [expr])
    said = next((said for ref, said in where_true(below.common).items() if ref == below.exprs[0]), Said())
    days = [day.toordinal() for _, day in said.places or ()]
    low = said.ends.low[1].toordinal() if said.ends.low is not None else -math.inf
    high = said.ends.high[1].toordinal() if said.ends.high is not None else math.inf
    return max(low, min(days, default=low)), min(high, max(days, default=high))


def _where(expr: Expr, node: Node, values: list[Value], scratch: Scratch) -> list[Value]:
    """The values of a key that satisfy the conditions."""
    below = lowered(node, [expr])
    (key,) = below.exprs
    tests = [test for test in below.common if not has_placeholders(test)]
    if key is None or not columns(key) or not tests or not values or has_placeholders(key):
        return values  # a constant has its group whatever the conditions are, also where a subquery computes it
    left = _starts_between(key, tests, _true_of(key, tests, values, scratch), scratch)
    reached = _reached(key, tests, below.source.env, scratch)
    return left if reached is None else [value for value in left if value in reached]


def _starts_between(key: Expr, tests: Sequence[Expr], values: list[Value], scratch: Scratch) -> list[Value]:
    """The values of a key that starts of days, weeks and the like can be where conditions compare the moments with constants."""
    moment = _truncated_column(key)
    ends = Ends() if moment is None else where_true(tests).get(moment, Said()).ends
    if moment is None or (ends.low is None and ends.high is None):
        return values
    low, high = (None if end is None else end[1] for end in (ends.low, ends.high))
    (first,), (last,) = scratch.evaluate([key], {moment.column: (moment.type, [low, high])})
    before = None if high is None or ends.high_in else _moment(high)
    return [value for value in values if value is not None and (first is None or value >= first)
            and (last is None or value <= last) and (before is None or _moment(value) < before)]


def _moment(value: Any) -> dt.datetime:
    """A moment itself, or the first one of a day."""
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def never_null(expr: Expr, env: Mapping[str, Facts]) -> bool:
    """Whether an expression is never NULL, assuming that columns declared free of NULL are so."""
    if not facts(expr, env).nullable:
        return True
    match expr:
        case Call(function="//" | "%" | "/", args=(part, Literal(value=value))):
            return value not in (None, 0, -1) and never_null(part, env)
        case Call(function=name, args=args) if name in TOTAL:
            return all(never_null(arg, env) for arg in args)
        case Cast(input=part, target="DOUBLE") if part.type is Type.BIGINT:
            return never_null(part, env)
        case Case(branches=branches, otherwise=otherwise):
            return all(never_null(outcome, env) for outcome in (*(then for _, then in branches), otherwise))
    return False


def _ends(expr: Expr, env: Mapping[str, Facts]) -> tuple[float, float]:
    """A range of all values of an expression on the rows of the relation."""
    if expr.type is not Type.BIGINT:
        return -math.inf, math.inf
    try:
        held = facts(expr, {column: replace(env[column], physical=env[column].returned) for column in columns(expr)})
    except NotTotal:
        return -math.inf, math.inf
    return held.physical.low, held.physical.high


def _true_of(key: Expr, tests: Sequence[Expr], values: list[Value], scratch: Scratch) -> list[Value]:
    """The values of a key on which the conditions that read it alone are true."""
    whole = Ref(column=KEY, type=key.type)
    moved = [rewrite(test, lambda part: whole if part == key else None) for test in tests]
    own = [test for test in moved if columns(test) == {KEY} and _only(test, whole)]
    return [value for value, left in zip(values, _all_true(own, {KEY: (key.type, values)}, scratch), strict=True) if left]


def _only(test: Expr, whole: Ref) -> bool:
    """Whether a condition on the key uses only functions that are defined for its type."""
    try:
        return facts(test, {KEY: Facts(type=whole.type)}).type is Type.BOOLEAN
    except NotTotal:
        return False


def _reached(key: Expr, tests: Sequence[Expr], env: Mapping[str, Facts], scratch: Scratch) -> set[Value] | None:
    """All values of a key, from the few values to which conditions restrict its columns; None where there are more."""
    read = sorted(columns(key))
    lists = [_few(column, tests, env) for column in read]
    known = [found for found in lists if found is not None]
    if len(known) < len(lists) or math.prod(map(len, known)) > MOST_COMBINATIONS:
        return None
    rows = list(product(*known))
    if not rows:
        return set()
    given = {column: (env[column].type, [row[i] for row in rows]) for i, column in enumerate(read)}
    left = _all_true([test for test in tests if columns(test) <= set(read)], given, scratch)
    return {found for (found,), here in zip(scratch.evaluate([key], given), left, strict=True) if here}


def _all_true(tests: Sequence[Expr], given: Mapping[str, tuple[Type, Sequence[Value]]], scratch: Scratch) -> list[bool]:
    """For each row of values whether all conditions are true."""
    left = [True] * len(next(iter(given.values()))[1])
    for first in range(0, len(tests), AT_ONCE):
        rows = scratch.evaluate(tests[first : first + AT_ONCE], given)
        left = [here and all(value is True for value in row) for here, row in zip(left, rows, strict=True)]
    return left


def _few(column: str, tests: Sequence[Expr], env: Mapping[str, Facts]) -> list[Value] | None:
    """All values of a column where the conditions are true, if the conditions list them; else None."""
    known = env[column]
    found = [values for test in tests if (values := _listed(column, test)) is not None]
    if found:
        return min(found, key=len)
    if known.type is Type.BOOLEAN:
        return [False, True, None]
    lows, highs = zip(*_limits(column, tests), (known.returned.low, known.returned.high), strict=True)
    low, high = max(lows), min(highs)
    if known.type is not Type.BIGINT or not (math.isfinite(low) and math.isfinite(high)) or high - low > MOST_NUMBERS:
        return None
    return [*range(int(low), int(high) + 1), None]


def _listed(column: str, test: Expr) -> list[Value] | None:
    """The values of a column on which a condition can be true, if it lists them."""
    match test:
        case Call(function="or", args=args):
            parts = [_listed(column, arg) for arg in args]
            lists = [part for part in parts if part is not None]
            return list(dict.fromkeys(value for part in lists for value in part)) if len(lists) == len(parts) else None
        case Call(function="and", args=args):
            return next((found for arg in args if (found := _listed(column, arg)) is not None), None)
        case Call(function=name, args=(Ref(column=own), *others)) if own == column and name in (MEMBERSHIP, "="):
            return _constants(others)
        case Call(function="=", args=(*others, Ref(column=own))) if own == column:
            return _constants(others)
    return None


def _constants(exprs: Sequence[Expr]) -> list[Value] | None:
    found = [expr.value for expr in exprs if isinstance(expr, Literal)]
    return [value for value in found if value is not None] if len(found) == len(exprs) else None


def _limits(column: str, tests: Sequence[Expr]) -> Iterator[tuple[float, float]]:
    for test in tests:
        limit = limit_of(test)
        if limit is not None and limit.column == column:
            yield -math.inf if limit.low is None else limit.low, math.inf if limit.high is None else limit.high
