"""Facts about all values that an expression can take, in any database."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction

from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr import intervals as iv
from dpsql.trusted.plan.expr.functions import CARRIER, DECIMAL, HELD, MEMBERSHIP, Overload, day_number, overload
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Placeholder, Ref
from dpsql.types import ANY_NUMBER, Interval, Type, single


class Facts(Frozen, gc=False):
    """Static facts about a column or an expression.

    physical  a range that holds of every value there is in any database, used to prove that integer arithmetic does not
              overflow; a number that is known to lie in a finite one is not NaN. It follows from the text of the expression and
              the types of stored columns alone: from literals, own guards and casts, functions of a known range, and totals that
              are held. So it holds wherever an engine evaluates the expression: on rows that a condition leaves out, before or
              after a join, beside NULLs that pad. Conditions never narrow it, as filters are moved over windows and into joins
    kept      a range in which the rows of the relation hold it, as conditions have left no others. It holds of what a query
              returns, so it tells how many values there are, and nothing may rest on it to be total
    declared  the range the owner declares (days for dates); it becomes a clamp wherever privacy rests on it
    domain    all values the owner declares possible, for the keys of a GROUP BY
    step      values lie on multiples of this number, if the owner declared a grid
    whole     values are whole numbers
    search    it rests on a column whose bounds the owner allows to be searched for
    single    values are numbers of single precision, and constants beside them are read as such
    """

    type: Type
    nullable: bool = True
    physical: Interval = ANY_NUMBER
    declared: Interval = ANY_NUMBER
    domain: Domain | None = None
    step: Fraction | None = None
    whole: bool = False
    search: bool = False
    single: bool = False
    kept: Interval = ANY_NUMBER

    @property
    def returned(self) -> Interval:
        """The range of the values on the rows of a relation, in every database."""
        return self.physical.within(self.kept)


def either(*parts: Facts) -> Facts:
    """Facts about a value that is one of several values of the same type."""
    domains, steps = {part.domain for part in parts}, {part.step for part in parts}
    return Facts(type=parts[0].type, nullable=any(part.nullable for part in parts),
                 physical=iv.hull(*(part.physical for part in parts)), declared=iv.hull(*(part.declared for part in parts)),
                 domain=domains.pop() if len(domains) == 1 else None, step=steps.pop() if len(steps) == 1 else None,
                 whole=all(part.whole for part in parts), search=any(part.search for part in parts),
                 kept=iv.hull(*(part.kept for part in parts)))


class NotTotal(Exception):
    """An expression that might raise: integer arithmetic without a proof, or a function without a fitting overload."""


def facts(expr: Expr, env: Mapping[str, Facts]) -> Facts:
    """Facts about an expression, given facts about its columns.

    Raises NotTotal if the expression is not one that the table of functions prints safely, so that a plan can be
    checked without believing whoever built it.
    """
    match expr:
        case Call(function=name, args=args):
            return _of_call(name, args, tuple([facts(arg, env) for arg in args]))
        case Ref(column=column):
            return env[column]
        case Literal():
            return _of_literal(expr)
        case Placeholder(physical=physical, declared=declared):
            return Facts(type=expr.type, physical=physical, declared=declared, whole=expr.type is Type.BIGINT)
        case Cast(input=below, target=target):
            return _of_cast(facts(below, env), target, expr.type)
        case Case():
            return _of_case(expr, env)
        case other:
            raise NotTotal(f"unknown expression {type(other).__name__}")


def _of_literal(expr: Literal) -> Facts:
    value = expr.value
    if value is None:
        return Facts(type=expr.type, nullable=True)
    if isinstance(value, bool | str) or value != value:  # NaN is in no range
        return Facts(type=expr.type, nullable=False)
    point = day_number(value) if isinstance(value, dt.date) else value
    there = Interval(point, point)
    return Facts(type=expr.type, nullable=False, physical=there, declared=there,
                 whole=isinstance(point, int) or float(point).is_integer())


def _of_cast(below: Facts, target: str, carrier: Type) -> Facts:
    decimal = DECIMAL.fullmatch(target) is not None
    if not decimal and target not in CARRIER:
        raise NotTotal("a cast is to a type of the engine")
    expected, limits = (Type.DOUBLE, ANY_NUMBER) if decimal else CARRIER[target]
    if expected is not carrier:
        raise NotTotal(f"{target} is not carried as {carrier.value}")
    comparable = (below.type.numeric and carrier.numeric) or (below.type.temporal and carrier.temporal)
    if below.type is carrier and below.physical.inside(limits) and target != "FLOAT" and not decimal:
        return replace(below, single=False)
    if below.type is Type.BIGINT and target == "DOUBLE":
        return replace(below, type=Type.DOUBLE, physical=ANY_NUMBER, kept=ANY_NUMBER, domain=None)
    if below.type is Type.BOOLEAN and carrier is Type.BIGINT:
        return Facts(type=carrier, nullable=below.nullable, physical=Interval(0, 1), declared=Interval(0, 1), whole=True)
    if carrier is Type.BIGINT:
        declared = _clip(iv.rounded(round)(below.declared), limits) if comparable else ANY_NUMBER
        return Facts(type=carrier, physical=limits, declared=declared, whole=True, search=below.search)
    step = Fraction(1, 10 ** int(target[len("DECIMAL(") : -1].split(",")[1])) if decimal else None
    rule = iv.to_grid(step) if step is not None else iv.rounded(single) if target == "FLOAT" else iv.first
    return Facts(type=carrier, nullable=below.nullable or target != "VARCHAR",
                 declared=rule(below.declared) if comparable else ANY_NUMBER, step=step, search=below.search,
                 single=target == "FLOAT")


def _clip(inner: Interval, outer: Interval) -> Interval:
    """The part of `inner` within `outer`; all of `outer` if they are disjoint."""
    low, high = max(inner.low, outer.low), min(inner.high, outer.high)
    return Interval(low, high) if low <= high else outer


def _of_case(expr: Case, env: Mapping[str, Facts]) -> Facts:
    if any(facts(when, env).type is not Type.BOOLEAN for when, _ in expr.branches):
        raise NotTotal("a condition of CASE is not a truth value")
    outcomes = [*(then for _, then in expr.branches), expr.otherwise]
    parts = [facts(outcome, env) for outcome in outcomes]
    if len({part.type for part in parts}) != 1:
        raise NotTotal("the branches of CASE differ in type")
    # A branch that is a literal NULL adds no value to a range.
    known = [part for part, outcome in zip(parts, outcomes, strict=True)
             if not (isinstance(outcome, Literal) and outcome.value is None)] or parts
    steps = {part.step for part in known}
    return Facts(type=parts[0].type, nullable=any(part.nullable for part in parts),
                 physical=iv.hull(*(part.physical for part in known)), declared=iv.hull(*(part.declared for part in known)),
                 step=steps.pop() if len(steps) == 1 else None, whole=all(part.whole for part in known),
                 search=any(part.search for part in known))


def _of_call(name: str, args: tuple[Expr, ...], known: tuple[Facts, ...]) -> Facts:
    if name == MEMBERSHIP:
        if len({part.type for part in known}) != 1 or not all(isinstance(arg, Literal) for arg in args[1:]):
            raise NotTotal("IN takes constants of one type")
        return Facts(type=Type.BOOLEAN, nullable=any(part.nullable for part in known))
    row = overload(name, [part.type for part in known])
    if row is None:
        raise NotTotal(f"{name} is not defined for these types")
    _check_constants(name, row, args)
    if row.proved is not None and not row.proved(*(part.physical for part in known)):
        raise NotTotal(f"{name} could leave 64 bits")
    physical = ANY_NUMBER if row.result is not Type.BIGINT else _range(
        row, tuple([part.physical for part in known]), [not _certain(arg) for arg in args])
    declared = _range(row, tuple([part.declared for part in known]), [part.nullable for part in known])
    return Facts(type=row.result, nullable=_nullable(name, row, known), physical=physical, declared=declared,
                 whole=row.whole or row.result is Type.BIGINT, search=any(part.search for part in known))


def _check_constants(name: str, row: Overload, args: tuple[Expr, ...]) -> None:
    values = [arg.value for i in row.constants for arg in args[i : i + 1] if isinstance(arg, Literal)]
    if len(values) != len(row.constants):
        raise NotTotal(f"{name} takes a constant here")
    if row.accepts is not None and (wrong := row.accepts(values)):
        raise NotTotal(wrong)


def _nullable(name: str, row: Overload, known: tuple[Facts, ...]) -> bool:
    if row.undefined:
        return True
    if name in ("is null", "is not null", "is distinct from", "is not distinct from"):
        return False
    if name in ("coalesce", "least", "greatest"):
        return all(part.nullable for part in known)
    if name == HELD:  # values that are held there already stay
        return known[0].nullable or not (
            known[1].physical.low <= known[0].returned.low and known[0].returned.high <= known[2].physical.high)
    return any(part.nullable for part in known)


def _certain(expr: Expr) -> bool:
    """Whether a value is proved not to be NULL for any row. What the policy declares is not a proof."""
    match expr:
        case Literal(value=value):
            return value is not None
        case Call(function="least" | "greatest" | "coalesce", args=args):
            return any(_certain(arg) for arg in args)
        case _:
            return False


def _range(row: Overload, parts: tuple[Interval, ...], nullable: list[bool]) -> Interval:
    """The range of a result, from the ranges of the arguments and whether each may be NULL."""
    return row.range(*parts) if row.null_skipping_range is None else row.null_skipping_range(parts, tuple(nullable))
