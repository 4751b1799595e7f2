"""Choosing overloads and converting types, the way DuckDB does where that is safe."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpsql.errors import SqlError
from dpsql.plan.expr.facts import Facts, NotTotal, facts
from dpsql.plan.expr.functions import FUNCTIONS, MEMBERSHIP, overload
from dpsql.plan.expr.nodes import Call, Case, Cast, Expr, Literal
from dpsql.types import Span, Type

Env = Mapping[str, Facts]


def call(name: str, args: Sequence[Expr], env: Env, span: Span | None) -> Expr:
    """A function or operator applied to expressions, converted to an overload that is total.

    Raises SqlError where no overload fits.
    """
    agreed = _agree(name, list(args))
    problem = ""
    for attempt in (agreed, _as_doubles(agreed[:1]) + agreed[1:], _as_doubles(agreed)):
        row = overload(name, [arg.type for arg in attempt])
        if row is None:
            continue
        expr = Call(function=name, args=tuple(attempt), type=row.result, span=span)
        try:
            facts(expr, env)
        except NotTotal as fault:
            problem = str(fault)
        else:
            return expr
    if problem:
        raise SqlError(f"{name}: {problem}", code="type", span=span, subject=name)
    rows = FUNCTIONS.get(name, ())
    if not any(len(row.args) == len(agreed) or row.variadic for row in rows):
        raise SqlError(f"{name} does not take {len(agreed)} argument{'s' if len(agreed) != 1 else ''}", code="type", span=span,
                       subject=name)
    types = " and ".join(arg.type.value for arg in agreed)
    raise SqlError(f"{name} cannot be applied to {types}", code="type", span=span, subject=name,
                   try_=f"CAST(... AS {rows[0].args[0].value})")


def membership(subject: Expr, values: Sequence[Expr], span: Span | None) -> Expr:
    """x IN (constants)."""
    parts = common([subject, *values], span)
    return Call(function=MEMBERSHIP, args=tuple(parts), type=Type.BOOLEAN, span=span)


def case(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, span: Span | None) -> Expr:
    for when, _ in branches:
        if when.type is not Type.BOOLEAN:
            raise SqlError("a condition must be true or false", code="type", span=when.span or span, try_="a comparison")
    rest = otherwise if otherwise is not None else Literal(value=None, type=branches[0][1].type)
    outcomes = common([*(then for _, then in branches), rest], span)
    return Case(branches=tuple((when, then) for (when, _), then in zip(branches, outcomes, strict=False)),
                otherwise=outcomes[-1], type=outcomes[0].type, span=span)


def common(parts: Sequence[Expr], span: Span | None) -> list[Expr]:
    """Expressions converted to one type. Raises SqlError where there is none."""
    types = {part.type for part in parts if not is_null(part)}
    if not types:
        return list(parts)
    if types <= {Type.BIGINT, Type.DOUBLE}:
        wanted = Type.DOUBLE if Type.DOUBLE in types else Type.BIGINT
    else:
        named = {part.type for part in parts if not isinstance(part, Literal)} or types
        wanted = Type.TIMESTAMP if named == {Type.DATE, Type.TIMESTAMP} else min(named, key=lambda kind: kind is Type.VARCHAR)
    converted = [convert(part, wanted) for part in parts]
    for part, result in zip(parts, converted, strict=True):
        if result is None:
            raise SqlError(f"{part.type.value} and {wanted.value} do not go together", code="type", span=part.span or span,
                           try_=f"CAST(... AS {wanted.value})")
    return [part for part in converted if part is not None]


def convert(expr: Expr, wanted: Type) -> Expr | None:
    """The conversions that happen without being written; None where there is none."""
    if expr.type is wanted:
        return expr
    if is_null(expr):
        return Literal(value=None, type=wanted, span=expr.span)
    if expr.type is Type.BIGINT and wanted is Type.DOUBLE:
        return as_double(expr)
    if expr.type is Type.DATE and wanted is Type.TIMESTAMP:
        return Cast(input=expr, target="TIMESTAMP", type=Type.TIMESTAMP, span=expr.span)
    if isinstance(expr, Literal) and isinstance(expr.value, str):
        return _read(expr, wanted)
    return None


def is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def as_double(expr: Expr) -> Expr:
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return Literal(value=float(expr.value), type=Type.DOUBLE, span=expr.span)
    return Cast(input=expr, target="DOUBLE", type=Type.DOUBLE, span=expr.span)


def _read(expr: Literal, wanted: Type) -> Expr | None:
    """A text constant read as another type, as in d >= '2020-01-01'."""
    text = str(expr.value).strip()
    try:
        value: bool | int | float | dt.date | dt.datetime
        if wanted is Type.DATE:
            value = dt.date.fromisoformat(text)
        elif wanted is Type.TIMESTAMP:
            value = dt.datetime.fromisoformat(text).replace(tzinfo=None)
        elif wanted is Type.BIGINT:
            value = int(text)
        elif wanted is Type.DOUBLE:
            value = float(text)
        elif wanted is Type.BOOLEAN and text.lower() in ("true", "false"):
            value = text.lower() == "true"
        else:
            return None
    except ValueError:
        return None
    return replace(expr, value=value, type=wanted)


_SAME = {"=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from", "coalesce", "nullif", "least", "greatest"}


def _agree(name: str, args: list[Expr]) -> list[Expr]:
    """Arguments converted towards one type where the operator wants that."""
    if name in _SAME:
        span = None
        for arg in args:
            span = arg.span.join(span) if arg.span else span
        return common(args, span)
    kinds = {arg.type for arg in args}
    if len(args) == 2 and kinds == {Type.BIGINT, Type.DOUBLE} and name not in ("round",):
        return _as_doubles(args)
    rows = FUNCTIONS.get(name, ())
    if any(is_null(arg) or (isinstance(arg, Literal) and isinstance(arg.value, str)) for arg in args):
        for row in rows:
            if len(row.args) == len(args):
                tried = [convert(arg, kind) for arg, kind in zip(args, row.args, strict=True)]
                if all(part is not None for part in tried):
                    return [part for part in tried if part is not None]
    return args


def _as_doubles(args: list[Expr]) -> list[Expr]:
    return [as_double(arg) if arg.type is Type.BIGINT else arg for arg in args]
