"""Three small tables for the tests of operators: `people` and `visits` are private, `towns` is public."""

from __future__ import annotations

from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import Column, OwnerPath, OwnerStep, Table
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, Value
from dpsql.trusted.plan.node import Node, Norm, Stability
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Interval, Type

INTEGER = Interval(-(2**31), 2**31 - 1)
TRUE = Literal(value=True, type=Type.BOOLEAN)


def _column(name: str, kind: Type, sql_type: str = "", *, nullable: bool = True, declared: Interval | None = None) -> Column:
    physical = INTEGER if sql_type == "INTEGER" else Interval(float("-inf"), float("inf"))
    return Column(name=name, type=kind, sql_type=sql_type or kind.value, nullable=nullable, physical=physical,
                  declared=declared or Interval(float("-inf"), float("inf")))


PEOPLE = Table(
    name="people", public=False, key=("id",), unique=(frozenset(["id"]),), rows=1,
    owners=(OwnerPath(steps=(), column="id", type=Type.BIGINT, not_null=True),),
    columns={column.name: column for column in (
        _column("id", Type.BIGINT, "INTEGER", nullable=False), _column("name", Type.VARCHAR),
        _column("x", Type.DOUBLE, declared=Interval(0, 10)), _column("age", Type.BIGINT, "INTEGER", declared=Interval(0, 100)),
        _column("active", Type.BOOLEAN), _column("born", Type.DATE))})
VISITS = Table(
    name="visits", public=False, key=("visit",), unique=(frozenset(["visit"]),), rows=3,
    owners=(OwnerPath(steps=(), column="person", type=Type.BIGINT),),
    columns={column.name: column for column in (
        _column("visit", Type.BIGINT, "INTEGER", nullable=False), _column("person", Type.BIGINT, "INTEGER"),
        _column("town", Type.VARCHAR), _column("cost", Type.DOUBLE, "DECIMAL(9,2)", declared=Interval(0, 10)))})
NOTES = Table(
    name="notes", public=False, rows=None,
    owners=(OwnerPath(type=Type.BIGINT, column="person", steps=(
        OwnerStep(columns=("visit",), table="visits", references=("visit",), types=(Type.BIGINT,)),)),),
    columns={column.name: column for column in (_column("visit", Type.BIGINT, "INTEGER"), _column("word", Type.VARCHAR))})
TOWNS = Table(
    name="towns", public=True, key=("town",), unique=(frozenset(["town"]),),
    columns={column.name: column for column in (
        _column("town", Type.VARCHAR, nullable=False), _column("land", Type.VARCHAR), _column("size", Type.BIGINT, "INTEGER"))})


def scan(table: Table, prefix: str, *names: str) -> Scan:
    """The table with columns `<prefix>_<name>`: all of them, or those that are named and what the owner needs."""
    kept = [name for name in table.columns if not names or name in names or (table.owner and name == table.owner.column)]
    owners = tuple(f"{prefix}_{way.column}" if not way.steps else f"{prefix}_owner" for way in table.owners)
    return Scan(table=table, columns=tuple((f"{prefix}_{name}", name) for name in kept), owners=owners)


def people(prefix: str = "p", *names: str) -> Scan:
    return scan(PEOPLE, prefix, *names)


def visits(prefix: str = "v", *names: str) -> Scan:
    return scan(VISITS, prefix, *names)


def notes(prefix: str = "n", *names: str) -> Scan:
    return scan(NOTES, prefix, *names)


def towns(prefix: str = "t", *names: str) -> Scan:
    return scan(TOWNS, prefix, *names)


def ref(node: Node, column: str) -> Ref:
    return node.field(column).ref


def equal(a: Expr, b: Expr) -> Call:
    return Call(function="=", args=(a, b), type=Type.BOOLEAN)


def both(a: Expr, b: Expr) -> Call:
    return Call(function="and", args=(a, b), type=Type.BOOLEAN)


def literal(value: Value, kind: Type) -> Literal:
    return Literal(value=value, type=kind)


class Meets(Frozen, kw_only=False):
    """Public facts: as many rows share a value as is said."""

    rows: int

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        return self.rows


PUBLIC = Stability(rows=0, because="public")


def owned(owner: str, rows: int | None = None, norm: Norm | None = None) -> Stability:
    return Stability(rows=rows, owners=(owner,), norm=norm)
