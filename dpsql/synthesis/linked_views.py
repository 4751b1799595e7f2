"""Several tables that hang together by foreign keys, and the views of them from which they are drawn.

A table hangs on at most one other, its parent. Three kinds of views are measured, each as a table by itself:

rows    one row for each row of the table on which all others hang: its columns, and for each table below how many of its rows
        name this row
first   one row for each row of a parent that has rows below: the parent's columns, how many rows there are, and the columns of
        the first of them
next    one row for each later row: the parent's columns, how many rows there are, the columns of the row before, and its own

So an entity adds one row to `rows` and `first`, however many rows it has below. How rows of one parent resemble each other is
learned from `next`: a chain from row to row, in the order of the key, as years follow each other, or of the columns where there
is no key. Of the rows below, the views hold the number of rows that hang on them as well, and so on for any depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp

from dpsql.sql.text.statement import Query
from dpsql.types import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTable:
    """One of the tables, with its columns as they are named in its query.

    at     its place in the statement
    names  all columns, and `own` those that are drawn
    key    the column that names its rows, which are numbered anew; None where it is not among the columns
    """

    at: int
    name: str
    query: Query
    span: Span | None
    names: tuple[str, ...]
    own: tuple[str, ...]
    key: str | None

    def column(self, own: str) -> str:
        """The name of one of its columns in views."""
        return f"{self.name}.{own}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerTable(LinkedTable):
    """A table that hangs on another one, its parent.

    parent     the place of the parent in the statement
    link       the column that names the parent's row, by the parent's column `reference`
    order      the columns of its private table in whose order rows of one parent follow each other; none: that of `own`
    step       the one of `own` that tells rows of one parent apart; None where several columns do, or none
    most       how many rows of one parent there are at most
    """

    parent: int
    link: str
    reference: str
    order: tuple[str, ...]
    step: str | None
    most: int

    @property
    def rows(self) -> str:
        """The name of the number of its rows, in views."""
        return f"rows of {self.name}"

    def before(self, own: str) -> str:
        """The name of a column of the row before, in views."""
        return f"previous {self.column(own)}"


@dataclass(frozen=True, kw_only=True)
class LinkedTables:
    """The table on which all others hang, and these, each after its parent."""

    top: LinkedTable
    lower: tuple[LowerTable, ...]

    @cached_property
    def by_place(self) -> Mapping[int, LinkedTable]:
        """Each table by its place in the statement."""
        return {table.at: table for table in (self.top, *self.lower)}

    def below(self, table: LinkedTable) -> tuple[LowerTable, ...]:
        """The tables that hang on this one."""
        return tuple(each for each in self.lower if each.parent == table.at)

    def rows(self) -> exp.Query:
        """The rows of the table on which all others hang."""
        items = [f"x.{_quoted(own)} AS {_quoted(self.top.column(own))}" for own in self.top.own]
        return self._view(items, f"{_rows_of(self.top)} AS x", self.top, "x", "")

    def first(self, table: LowerTable) -> exp.Query:
        """The first row of each row of the parent."""
        return self._pairs(table, [], "= 1")

    def later(self, table: LowerTable) -> exp.Query:
        """Each other row, beside the one before it."""
        before = [f'r."previous {i}" AS {_quoted(table.before(own))}' for i, own in enumerate(table.own)]
        return self._pairs(table, before, "> 1")

    def _pairs(self, table: LowerTable, before: Sequence[str], place: str) -> exp.Query:
        parent = self.by_place[table.parent]
        items = [f"x.{_quoted(own)} AS {_quoted(parent.column(own))}" for own in parent.own]
        items += [f'LEAST(r."rows", {table.most}) AS {_quoted(table.rows)}', *before]
        items += [f"r.{_quoted(own)} AS {_quoted(table.column(own))}" for own in table.own]
        joined = f"{_rows_of(parent)} AS x JOIN ({_ranked(table)}) AS r ON x.{_quoted(table.reference)} = r.{_quoted(table.link)}"
        return self._view(items, joined, table, "r", f' WHERE r."place" {place}')

    def _view(self, items: Sequence[str], source: str, table: LinkedTable, alias: str, where: str) -> exp.Query:
        """SELECT items, and for each table below how many rows hang on a row, FROM source."""
        joins, counts = "", list(items)
        for below in self.below(table):
            number, link = f"n{below.at}", f"y.{_quoted(below.link)}"
            joins += (f' LEFT JOIN (SELECT {link} AS "link", COUNT(*) AS "rows" FROM {_rows_of(below)} AS y GROUP BY {link}) '
                      f'AS {number} ON {alias}.{_quoted(below.reference)} = {number}."link"')
            counts.append(f'LEAST(COALESCE({number}."rows", 0), {below.most}) AS {_quoted(below.rows)}')
        tree = sqlglot.parse_one(f"SELECT {', '.join(counts)} FROM {source}{joins}{where}", dialect="duckdb", into=exp.Select)
        for name in list(tree.find_all(exp.Table)):
            alias_of = exp.TableAlias(this=exp.to_identifier(name.alias, quoted=True))
            name.replace(exp.Subquery(this=_ordered(self.by_place[int(name.name.removeprefix(PLACE))]), alias=alias_of))
        return tree


PLACE = "rows of table "


def _rows_of(table: LinkedTable) -> str:
    """What stands for the query of a table until it is put there."""
    return _quoted(f"{PLACE}{table.at}")


def _ordered(table: LinkedTable) -> exp.Expr:
    """The query of a table, with the columns of its order."""
    tree = table.query.tree.copy()
    if isinstance(table, LowerTable):
        source = tree.args["from_"].this.alias_or_name
        for i, column in enumerate(table.order):
            read = exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(source, quoted=True))
            tree.append("expressions", exp.alias_(read, f"order {i}", quoted=True))
    return tree


def _ranked(table: LowerTable) -> str:
    """The rows of a table with their places among those of their parent, and the columns of the row before."""
    order = [f'y."order {i}"' for i in range(len(table.order))] or [f"y.{_quoted(own)}" for own in table.own]
    apart = f"PARTITION BY y.{_quoted(table.link)}"
    window = f"OVER ({apart} ORDER BY {', '.join(order)})"
    items = [f"y.{_quoted(name)} AS {_quoted(name)}" for name in table.names]
    items += [f'LAG(y.{_quoted(own)}) {window} AS "previous {i}"' for i, own in enumerate(table.own)]
    return (f'SELECT {", ".join(items)}, ROW_NUMBER() {window} AS "place", COUNT(*) OVER ({apart}) AS "rows" '
            f"FROM {_rows_of(table)} AS y")


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
