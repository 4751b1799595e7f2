"""Aggregates of one entity's rows that depend on the order of values: MEDIAN, quantiles, ARG_MAX and ARG_MIN in a subquery.

They are MIN and MAX over the rows in certain places. A window function numbers the rows of each group in the order of the values,
another counts the values:

    MEDIAN(x)      (MIN(x) + MAX(x)) / 2 over the one or two rows in the middle
    ARG_MAX(x, y)  MIN(x) over the first row by y DESC, of those in which x and y have a value
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from dpsql.errors import SqlError
from dpsql.sql.binding import typing
from dpsql.sql.binding.aggregates import Aggregated
from dpsql.sql.binding.binding_context import SelectHost
from dpsql.sql.binding.present_values import present, where
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, real, whole
from dpsql.types import Span, Type


class OrderedGroup(Protocol):
    """The rows of a SELECT in groups by expressions, of which aggregates become columns; and the facts about all columns."""

    @property
    def host(self) -> SelectHost: ...

    @property
    def within(self) -> tuple[Expr, ...]: ...

    @property
    def env(self) -> typing.Env: ...

    def known(self, found: Aggregated) -> Expr:
        """The column of an aggregate over the rows of each group."""
        ...


def quantile(found: Aggregated, group: OrderedGroup) -> Expr:
    """The quantile of each group."""
    host, span = group.host, found.span
    value = _value(found.args[0], [found.when], host, span)
    place, size = host.places(group.within, value, span, descending=False)
    fraction = found.fraction
    assert fraction is not None
    count = group.known(_fold("count", value, host, span))

    def apply(name: str, *args: Expr) -> Expr:
        return typing.call(name, args, group.env, span)

    def at(name: str, which: Sequence[Expr]) -> Expr:
        """MIN or MAX of the values in certain places."""
        tests = [apply("=", place, one) for one in which]
        return group.known(_fold(name, typing.case([(test, value) for test in tests], None, span), host, span))

    if found.discrete:
        share = apply("*", real(float(fraction)), typing.to(size, Type.DOUBLE, span))
        wanted = apply("-", size, apply("floor", apply("-", size, share)))
        return at("min", [apply("greatest", wanted, whole(1))])
    if fraction * 2 == 1:
        middle = [apply("//", apply("+", size, whole(more)), whole(2)) for more in (1, 2)]
        return apply("/", apply("+", at("min", middle), at("max", middle)), whole(2))

    def position(of: Expr) -> Expr:
        return apply("*", real(float(fraction)), apply("-", of, whole(1)))

    low, high = (typing.to(at("min", [apply("+", apply(name, position(size)), whole(1))]), Type.DOUBLE, span)
                 for name in ("floor", "ceil"))
    share = apply("-", position(count), apply("floor", position(count)))
    between = apply("+", low, apply("*", apply("-", high, low), share))
    ends = facts(value, host.env).declared
    if not ends.finite:
        return between
    held = apply("least", apply("greatest", between, real(float(ends.low))), real(float(ends.high)))
    return Case(branches=((apply("is not null", between), held),), otherwise=Literal(value=None, type=Type.DOUBLE),
                type=Type.DOUBLE, span=span)


def by_order(node: exp.Expr, when: Expr | None, group: OrderedGroup, span: Span | None) -> Expr:
    """ARG_MAX(x, y) or ARG_MIN(x, y) of each group."""
    host, name = group.host, "ARG_MAX" if isinstance(node, exp.ArgMax) else "ARG_MIN"
    if node.args.get("expression") is None:
        raise SqlError(f"{name} takes a value and what it is chosen by", code="type", span=span, try_=f"{name}(x, y)")
    shown, chosen = host.bind(node.this), host.bind(node.expression)
    tests = [when, present(shown, host.env, span)]
    chosen = _value(chosen, tests, host, span)
    place, _ = host.places(group.within, chosen, span, descending=isinstance(node, exp.ArgMax))
    first = typing.call("=", [place, whole(1)], host.env, span)
    there = typing.call("is not null", [chosen], host.env, span)
    return group.known(_fold("min", where([first, there], shown), host, span))


def _value(expr: Expr, tests: Sequence[Expr | None], host: SelectHost, span: Span | None) -> Expr:
    """A value where all tests are true and it is one, else NULL."""
    return where([*tests, present(expr, host.env, span)], expr)


def _fold(name: str, value: Expr, host: SelectHost, span: Span | None) -> Aggregated:
    return Aggregated(id=host.context.fresh.column(), function=name, args=(value,), when=None, fraction=None, discrete=False,
                      type=Type.BIGINT if name == "count" else value.type, span=span)
