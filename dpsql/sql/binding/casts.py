"""CAST: which types and conversions are accepted."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.sql.binding import typing
from dpsql.sql.text.syntax import TYPES, carrier_of
from dpsql.trusted.plan.expr.functions import CARRIER
from dpsql.trusted.plan.expr.nodes import Cast, Expr, Literal
from dpsql.types import Span, Type


def cast(expr: Expr, target: str, span: Span | None) -> Expr:
    """An expression as another SQL type. Raises SqlError if no value could be converted.

    Casts of texts and doubles stay until their types are agreed (`typing.without_cast`): a text constant takes the type of what
    it is compared with, and a double is rounded beside single-precision numbers, which a cast prevents.
    """
    carrier = carrier_of(target)
    if typing.is_null(expr):
        return Literal(value=None, type=carrier, span=span)
    if isinstance(expr, Literal) and isinstance(expr.value, str) and carrier in (Type.DATE, Type.TIMESTAMP):
        return typing.to(expr, carrier, span)
    if expr.type is not carrier and Type.VARCHAR not in (expr.type, carrier) and expr.type.temporal != carrier.temporal:
        raise SqlError(f"{expr.type.value} cannot be turned into {target}", code="cast", span=span,
                       try_="year(x), or another part of the time" if expr.type.temporal else "CAST(x AS VARCHAR)")
    if isinstance(expr, Literal) and carrier not in (Type.VARCHAR, Type.DOUBLE) and _has_range(expr, target):
        return replace(expr, span=span)  # 30::BIGINT, as some drivers write every constant, is 30
    return Cast(input=expr, target=target, type=carrier, span=span)


def _has_range(constant: Literal, target: str) -> bool:
    """Whether a constant is a value of a type already, so that a cast to it changes nothing."""
    carrier, limits = CARRIER[target]
    return constant.type is carrier and (not isinstance(constant.value, int) or limits.low <= constant.value <= limits.high)


def sql_type(node: exp.Expr, span: Span | None) -> str:
    """The name of the target type of a cast."""
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    if name == "DECIMAL":
        digits = [part.this.name for part in node.expressions] or ["18", "3"]
        if all(re.fullmatch("[0-9]{1,9}", number) for number in digits):
            width, scale = (int(digits[0]), int(digits[1]) if len(digits) > 1 else 0)
            if 1 <= width <= 38 and 0 <= scale <= min(width, 9):
                return f"DECIMAL({width},{scale})"
        raise Unsupported("a DECIMAL has up to 38 digits, up to 9 of them after the point", code="cast", span=span,
                          try_="DECIMAL(18, 3)")
    if name in TYPES:
        return TYPES[name]
    name = {"INT128": "HUGEINT", "UINT128": "UHUGEINT"}.get(name, name)
    raise Unsupported(f"casts to {name} are not answered", code="cast", span=span,
                      try_="one of " + ", ".join(sorted(set(TYPES.values()))))
