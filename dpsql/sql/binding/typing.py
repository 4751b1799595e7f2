"""Chooses overloads and converts types, as DuckDB does where that is safe."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from dpsql.errors import SqlError
from dpsql.frozen import replace
from dpsql.sql.text.literals import read_text
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.functions import FUNCTIONS, HELD, MEMBERSHIP, Overload, overload, times
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, rewrite, whole
from dpsql.types import Span, Type, single

Env = Mapping[str, Facts]

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"))
CONNECTIVES = frozenset(("and", "or", "not"))  # which never fail; their parts were checked, and the whole is with its relation
MOST_WEIGHT = 20_000  # most parts of an expression once it is printed


def call(name: str, args: Sequence[Expr], env: Env, span: Span | None) -> Expr:
    """A function or operator applied to expressions, converted to an overload that never fails.

    Raises SqlError if no overload fits.
    """
    agreed = _agree(name, list(args), span)
    if name in COMPARISONS:
        agreed = _of_one_precision(agreed, env)
    agreed = [without_cast(arg) for arg in agreed]
    problem = ""
    for attempt in _attempts(agreed, env):
        row = overload(name, [arg.type for arg in attempt])
        if row is None:
            continue
        expr = _light(Call(function=name, args=tuple(attempt), type=row.result, span=span))
        if name in CONNECTIVES:
            return expr
        try:
            facts(expr, env)
        except NotTotal as fault:
            problem = str(fault)
        else:
            return expr
    shown = written(name)
    if problem:
        raise _not_total(problem, shown, agreed, rows=FUNCTIONS.get(name, ()), span=span)
    rows = FUNCTIONS.get(name, ())
    if not any(len(row.args) == len(agreed) or row.variadic for row in rows):
        counts = sorted({len(row.args) for row in rows})
        wanted = " or ".join(map(str, counts)) + (" argument" if counts == [1] else " arguments")
        raise SqlError(f"{shown} takes {wanted}, and {len(agreed)} are given", code="type", span=span, subject=shown)
    types = " and ".join(arg.type.value for arg in agreed)
    raise SqlError(f"{shown} cannot be applied to {types}", code="type", span=span, subject=shown, try_=_cast_hint(rows, agreed))


def _attempts(agreed: list[Expr], env: Env) -> Iterator[list[Expr]]:
    """Conversions of the arguments to try, the closest first."""
    yield agreed
    yield _held(agreed, env)
    yield _as_doubles(agreed[:1]) + agreed[1:]
    yield _as_doubles(agreed)


def _held(parts: Sequence[Expr], env: Env) -> list[Expr]:
    """Expressions with guards around integer columns that conditions on the rows restrict to a smaller range.

    On the rows that these conditions keep, a guard changes nothing. On others it gives NULL, so that arithmetic stays in range
    wherever the engine evaluates it.
    """
    def change(part: Expr) -> Expr | None:
        if isinstance(part, Call) and part.function == HELD:
            return part
        if not isinstance(part, Ref) or part.type is not Type.BIGINT:
            return None
        ends = env[part.column].returned
        if not ends.finite or ends == env[part.column].physical:
            return None
        return Call(function=HELD, args=(part, whole(int(ends.low)), whole(int(ends.high))), type=Type.BIGINT, span=part.span)

    return [rewrite(part, change) for part in parts]


def _of_one_precision(parts: Sequence[Expr], env: Env) -> list[Expr]:
    """Constants beside single-precision numbers, rounded to single precision: a FLOAT 0.1 equals 0.1, but not the DOUBLE 0.1."""
    if not any(part.type is Type.DOUBLE and not isinstance(part, Literal) and facts(part, env).single for part in parts):
        return list(parts)
    return [replace(part, value=single(part.value)) if isinstance(part, Literal) and isinstance(part.value, float) else part
            for part in parts]


def _not_total(problem: str, shown: str, args: Sequence[Expr], *, rows: Sequence[Overload], span: Span | None) -> SqlError:
    """Why an overload that fits cannot be printed safely."""
    places = {place for row in rows if len(row.args) == len(args) for place in row.constants}
    variable = next((arg for i, arg in enumerate(args) if i in places and not isinstance(arg, Literal)), None)
    if variable is not None:
        return SqlError(f"{shown} takes a constant here", code="type", span=variable.span or span, subject=shown,
                        try_="a constant or a parameter")
    if "64 bits" in problem:
        return SqlError(f"{shown} could overflow 64 bits", code="type", span=span, subject=shown, try_="CAST(... AS DOUBLE)")
    return SqlError(f"{shown}: {problem}", code="type", span=span, subject=shown, try_="another constant")


def _cast_hint(rows: Sequence[Overload], args: Sequence[Expr]) -> str:
    """A cast for the first argument whose type fits no overload."""
    if len(args) == 2 and all(arg.type.temporal for arg in args):
        return "date_diff('second', a, b)"
    for arg, kind in zip(args, rows[0].args, strict=False):
        if all(arg.type not in row.args for row in rows):
            return f"CAST(... AS {kind.value})"
    return ""


def written(name: str) -> str:
    """The SQL name of a function of the table."""
    for prefix in ("date_trunc", "date_diff", "date_sub", "time_bucket"):
        if name.startswith(prefix + "_"):
            return f"{prefix}('{name[len(prefix) + 1:]}', ...)"
    if name.startswith("add_") and name != "add_to_date":
        return "INTERVAL"
    other = {"negate": "-", "add_to_date": "+", "days_between": "-", "like": "LIKE", "ilike": "ILIKE", "like_escape": "LIKE",
             "ilike_escape": "ILIKE"}
    return other.get(name, name.upper() if " " in name else name)


def weight(expr: Expr) -> int:
    """The number of parts of an expression when printed; guards repeat their arguments."""
    match expr:
        case Call(function=name, args=args):
            row = overload(name, [arg.type for arg in args])
            repeated = times(row.sql, len(args)) if row is not None else (1,) * len(args)
            return 1 + sum([often * weight(arg) for often, arg in zip(repeated, args, strict=True)])
        case Case(branches=branches, otherwise=otherwise):
            return 1 + sum(weight(when) + weight(then) for when, then in branches) + weight(otherwise)
        case Cast(input=below):
            return 1 + weight(below)
        case _:
            return 1


def _light(expr: Expr) -> Expr:
    """The same expression. Raises SqlError if it is too large, before anything else is done with it."""
    if weight(expr) > MOST_WEIGHT:
        raise SqlError("this expression is too large", code="too-large", span=expr.span,
                       try_="a subquery that computes a part of it")
    return expr


def membership(subject: Expr, values: Sequence[Expr], env: Env, span: Span | None) -> Expr:
    """x IN (constants)."""
    parts = [without_cast(part) for part in _of_one_precision(common([subject, *values], span), env)]
    return _light(Call(function=MEMBERSHIP, args=tuple(parts), type=Type.BOOLEAN, span=span))


def case(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, span: Span | None) -> Expr:
    for when, _ in branches:
        if when.type is not Type.BOOLEAN:
            raise SqlError("a condition must be true or false", code="type", span=when.span or span, try_="a comparison")
    rest = otherwise if otherwise is not None else Literal(value=None, type=branches[0][1].type)
    outcomes = [without_cast(part) for part in common([*(then for _, then in branches), rest], span)]
    return _light(Case(branches=tuple((when, then) for (when, _), then in zip(branches, outcomes, strict=False)),
                       otherwise=outcomes[-1], type=outcomes[0].type, span=span))


def common(parts: Sequence[Expr], span: Span | None) -> list[Expr]:
    """Expressions converted to a common type: that of the columns, to which text constants are converted. Raises SqlError if
    there is none."""
    given = [part for part in parts if not is_null(part)]
    if not given:  # NULLs of several types, as by CAST(NULL AS DATE)
        return [Literal(value=None, type=parts[0].type, span=part.span) for part in parts]
    kinds = {part.type for part in given if not _is_text(part)} or {Type.VARCHAR}
    if kinds == {Type.BIGINT, Type.DOUBLE}:
        wanted = Type.DOUBLE
    elif kinds == {Type.DATE, Type.TIMESTAMP}:
        wanted = Type.TIMESTAMP
    else:
        wanted = next(part.type for part in given if part.type in kinds)
    return [to(part, wanted, span) for part in parts]


def to(expr: Expr, wanted: Type, span: Span | None) -> Expr:
    """The expression converted to another type. Raises SqlError if that needs an explicit CAST."""
    converted = convert(expr, wanted)
    if converted is None:
        raise _mismatch(expr, wanted, span)
    return converted


def _is_text(part: Expr) -> bool:
    return isinstance(part, Literal) and isinstance(part.value, str)


_THINGS = {Type.BIGINT: "a whole number", Type.DOUBLE: "a number", Type.DATE: "a date", Type.TIMESTAMP: "a moment",
           Type.BOOLEAN: "true or false"}
_EXAMPLES = {Type.BIGINT: "42", Type.DOUBLE: "4.2", Type.DATE: "DATE '2020-12-31'", Type.BOOLEAN: "TRUE",
             Type.TIMESTAMP: "TIMESTAMP '2020-12-31 23:59:00'"}


def _mismatch(part: Expr, wanted: Type, span: Span | None) -> SqlError:
    if isinstance(part, Literal) and isinstance(part.value, str):
        return SqlError(f"this text is not {_THINGS[wanted]}", code="type", span=part.span or span, try_=_EXAMPLES[wanted])
    hint = f"CAST(... AS {wanted.value})"
    if isinstance(part, Literal):
        hint = _EXAMPLES.get(wanted, f"'{part.value}'")
    return SqlError(f"{part.type.value} and {wanted.value} cannot be combined", code="type", span=part.span or span, try_=hint)


def convert(expr: Expr, wanted: Type) -> Expr | None:
    """The expression converted to another type implicitly; None if that is impossible."""
    if expr.type is wanted:
        return expr
    if is_null(expr):
        return Literal(value=None, type=wanted, span=expr.span)
    if expr.type is Type.BIGINT and wanted is Type.DOUBLE:
        return as_double(expr)
    if expr.type is Type.DATE and wanted is Type.TIMESTAMP:
        return _as_moment(expr)
    if isinstance(expr, Literal) and isinstance(expr.value, str):
        value = read_text(expr.value, wanted)
        return None if value is None else replace(expr, value=value, type=wanted)
    return None


def without_cast(expr: Expr) -> Expr:
    """A constant in place of its cast to the type that it has, as in 'f'::VARCHAR, so that both are one question: the cast
    changes no value. Only for expressions whose types are agreed."""
    same = isinstance(expr, Cast) and isinstance(expr.input, Literal) and expr.input.type is expr.type and (
        expr.target == expr.type.value)
    return replace(expr.input, span=expr.span) if same and isinstance(expr, Cast) else expr


def is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def as_double(expr: Expr) -> Expr:
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return Literal(value=float(expr.value), type=Type.DOUBLE, span=expr.span)
    return Cast(input=expr, target="DOUBLE", type=Type.DOUBLE, span=expr.span)


def _as_moment(day: Expr) -> Expr:
    """The first moment of a day: of a constant, a constant, from which more is known."""
    if isinstance(day, Literal) and isinstance(day.value, dt.date):
        return Literal(value=dt.datetime.combine(day.value, dt.time()), type=Type.TIMESTAMP, span=day.span)
    return Cast(input=day, target="TIMESTAMP", type=Type.TIMESTAMP, span=day.span)


def as_text(expr: Expr) -> Expr:
    """The text of a value, unless it depends on how a fractional number is represented."""
    if expr.type in (Type.VARCHAR, Type.DOUBLE):
        return expr
    return Cast(input=expr, target="VARCHAR", type=Type.VARCHAR, span=expr.span)


_SAME = {"=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from", "coalesce", "nullif", "least", "greatest"}


def _agree(name: str, args: list[Expr], span: Span | None) -> list[Expr]:
    """Arguments converted towards one type where the operator wants that."""
    if name in _SAME or name.startswith(("date_diff_", "date_sub_")):
        return common(args, span)
    if name == "||":
        return [as_text(arg) for arg in args]
    kinds = {arg.type for arg in args}
    if len(args) == 2 and kinds == {Type.BIGINT, Type.DOUBLE} and name not in ("round",):
        return _as_doubles(args)
    if any(is_null(arg) or _is_text(arg) for arg in args):
        for row in FUNCTIONS.get(name, ()):
            if len(row.args) == len(args):
                tried = [convert(arg, kind) for arg, kind in zip(args, row.args, strict=True)]
                if all(part is not None for part in tried):
                    return [part for part in tried if part is not None]
    return args


def _as_doubles(args: list[Expr]) -> list[Expr]:
    return [as_double(arg) if arg.type is Type.BIGINT else arg for arg in args]
