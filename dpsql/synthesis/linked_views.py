"""Several tables that hang together by foreign keys, and the views of them from which they are drawn.

A table hangs on at most one other, its parent. The rows of one parent follow each other: in the order of the key, as years do, or
of the columns where there is no key. Each view is measured as a table by itself:

rows    one row for each row of the top table, on which all others hang: its columns; and of each table right below it, how many
        rows hang on this row, and the columns of the first of them
first   of each table further below, the same of its parent's rows, as far as they have any
later   of each table but the top one, a row for each row but the first of each parent: the parent's columns, how many rows there
        are, the columns of the row before, and its own

So an entity adds one row to the first of these, however many rows it has below; of the others, one of its rows is counted. How
rows of one parent resemble each other is learned from the last: a chain from row to row. In each of them, a row has
the numbers of rows directly below it as further columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from dpsql.frozen import Frozen, replace
from dpsql.sql.text.statement import Query
from dpsql.synthesis.column_forms import ListedColumn, PlannedForm, UncutColumn
from dpsql.synthesis.dependent_columns import DependentColumn
from dpsql.synthesis.made_up_columns import MadeUpColumn
from dpsql.synthesis.row_rules import RowRule
from dpsql.trusted.cached import cached_property
from dpsql.types import Type


class LinkedTable(Frozen):
    """One of the tables, with its columns as they are named in its query.

    at       its place in the statement
    base     the private table that its rows are of
    query    of its rows, without the columns that are `made_up`
    names    all columns, and `own` those that are drawn, with their `forms`
    key      the column that names its rows, which are numbered anew; None if it is not among the columns
    rules    what holds in every row, about columns of `own` and `dependent` ones
    dependent  columns whose values follow from columns of `own`, in a way that is learned
    """

    at: int
    base: str
    name: str
    query: Query
    names: tuple[str, ...]
    own: tuple[str, ...]
    forms: tuple[PlannedForm, ...]
    key: str | None
    made_up: tuple[MadeUpColumn, ...] = ()
    rules: tuple[RowRule, ...] = ()
    dependent: tuple[DependentColumn, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of its query."""
        return tuple(name for at, name in enumerate(self.names) if at not in [each.at for each in self.made_up])

    def column(self, own: str) -> str:
        """The name of one of its columns in views."""
        return f"{self.name}.{own}"


class LowerTable(LinkedTable):
    """A table that hangs on another one, its parent.

    parent     the place of the parent in the statement
    link       the column that names the parent's row, by the parent's column `reference`
    order      the columns of its private table in whose order rows of one parent follow each other; none: that of `own`
    step       the one of `own` that tells rows of one parent apart, and rises from row to row; None if there is no such one
    most       how many rows of one parent there are at most
    nullable   those of `own` that may be NULL
    """

    parent: int
    link: str
    reference: str
    order: tuple[str, ...]
    step: str | None
    most: int
    nullable: frozenset[str]

    @property
    def distinct(self) -> bool:
        """Whether the step is another listed value in each row of one parent, and not a value in a bin."""
        return self.step is not None and isinstance(self.forms[self.own.index(self.step)], ListedColumn)

    @property
    def rows(self) -> str:
        """The name, in views, of the number of its rows."""
        return f"rows of {self.name}"

    def before(self, own: str) -> str:
        """The name, in views, of a column of the previous row."""
        return f"previous {self.column(own)}"


class LinkedTables(Frozen):
    """The table on which all others hang, and these, each after its parent; and what a reader should know of them."""

    top: LinkedTable
    lower: tuple[LowerTable, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def by_place(self) -> Mapping[int, LinkedTable]:
        """Each table by its place in the statement."""
        return {table.at: table for table in (self.top, *self.lower)}

    @property
    def dependent(self) -> tuple[DependentColumn, ...]:
        """The columns of all tables whose values follow from others in a way that is learned."""
        return tuple(one for table in (self.top, *self.lower) for one in table.dependent)

    def below(self, table: LinkedTable) -> tuple[LowerTable, ...]:
        """The tables that refer to this one."""
        return tuple(each for each in self.lower if each.parent == table.at)

    def drawn(self, table: LinkedTable) -> tuple[str, ...]:
        """The columns of views that are drawn with a row of a table: its own, and the numbers of its child rows."""
        return (*(table.column(own) for own in table.own), *(below.rows for below in self.below(table)))

    def forms(self, view: exp.Query, *, some_lack_rows: bool) -> tuple[PlannedForm, ...]:
        """The forms of a view's columns; a column has the same form in all views. Columns of lower tables are NULL where there is
        no row, if some rows of the view have none."""
        known: dict[str, PlannedForm] = {}
        for table in (self.top, *self.lower):
            absent = some_lack_rows and table is not self.top
            known |= {table.column(own): _form(form, table.column(own), absent=absent)
                      for own, form in zip(table.own, table.forms, strict=True)}
        for below in self.lower:
            known[below.rows] = ListedColumn(name=below.rows, type=Type.BIGINT)
            known |= {below.before(own): _form(form, below.before(own), absent=False)
                      for own, form in zip(below.own, below.forms, strict=True)}
        return tuple(known[name] for name in view.named_selects)

    def rows(self) -> exp.Query:
        """The rows of the top table, each with the first of its child rows."""
        items = [f"x.{_quoted(own)} AS {_quoted(self.top.column(own))}" for own in self.top.own]
        source, firsts = f"{_rows_of(self.top)} AS x", list[str]()
        for below in self.below(self.top):
            name = f"f{below.at}"
            inner = self._text([f'r.{_quoted(below.link)} AS "link"', f'r."rows" AS {_quoted(below.rows)}', *_own(below)],
                               f"({_ranked(below)}) AS r", below, "r", ' WHERE r."place" = 1')
            source += f' LEFT JOIN ({inner}) AS {name} ON x.{_quoted(below.reference)} = {name}."link"'
            items.append(f"LEAST(COALESCE({name}.{_quoted(below.rows)}, 0), {below.most}) AS {_quoted(below.rows)}")
            firsts += [f"{name}.{_quoted(column)} AS {_quoted(column)}" for column in self.drawn(below)]
        return self._tree(f"SELECT {', '.join([*items, *firsts])} FROM {source}")

    def first(self, table: LowerTable) -> exp.Query:
        """For each row of the parent, its first child row."""
        return self._pairs(table, [], "= 1")

    def later(self, table: LowerTable) -> exp.Query:
        """Each later child row, together with the one before it."""
        before = [f'r."previous {i}" AS {_quoted(table.before(own))}' for i, own in enumerate(table.own)]
        return self._pairs(table, before, "> 1")

    def _pairs(self, table: LowerTable, before: Sequence[str], place: str) -> exp.Query:
        parent = self.by_place[table.parent]
        items = [f"x.{_quoted(own)} AS {_quoted(parent.column(own))}" for own in parent.own]
        items += [f'LEAST(r."rows", {table.most}) AS {_quoted(table.rows)}', *before, *_own(table)]
        joined = f"{_rows_of(parent)} AS x JOIN ({_ranked(table)}) AS r ON x.{_quoted(table.reference)} = r.{_quoted(table.link)}"
        return self._tree(self._text(items, joined, table, "r", f' WHERE r."place" {place}'))

    def _text(self, items: Sequence[str], source: str, table: LinkedTable, alias: str, where: str) -> str:
        """SELECT items, and for each table below how many rows hang on a row, FROM source."""
        joins, counts = "", list(items)
        for below in self.below(table):
            number, link = f"n{below.at}", f"y.{_quoted(below.link)}"
            joins += (f' LEFT JOIN (SELECT {link} AS "link", COUNT(*) AS "rows" FROM {_rows_of(below)} AS y GROUP BY {link}) '
                      f'AS {number} ON {alias}.{_quoted(below.reference)} = {number}."link"')
            counts.append(f'LEAST(COALESCE({number}."rows", 0), {below.most}) AS {_quoted(below.rows)}')
        return f"SELECT {', '.join(counts)} FROM {source}{joins}{where}"

    def _tree(self, text: str) -> exp.Query:
        """The query, with those of the tables in it."""
        tree = sqlglot.parse_one(text, dialect="duckdb", into=exp.Select)
        for name in list(tree.find_all(exp.Table)):
            alias = exp.TableAlias(this=exp.to_identifier(name.alias, quoted=True))
            name.replace(exp.Subquery(this=_ordered(self.by_place[int(name.name.removeprefix(PLACE))]), alias=alias))
        return tree


PLACE = "rows of table "


def _form(form: PlannedForm, name: str, *, absent: bool) -> PlannedForm:
    """The form of a column in a view, where it is NULL if there is no such row."""
    if isinstance(form, ListedColumn):
        return replace(form, name=name)
    return replace(form, name=name, nullable=form.nullable or absent or not isinstance(form, UncutColumn))


def _rows_of(table: LinkedTable) -> str:
    """What stands for the query of a table until it is put there."""
    return _quoted(f"{PLACE}{table.at}")


def _own(table: LowerTable) -> list[str]:
    """The columns of ranked rows, under their names in views."""
    return [f"r.{_quoted(own)} AS {_quoted(table.column(own))}" for own in table.own]


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
    items = [f"y.{_quoted(name)} AS {_quoted(name)}" for name in table.read]
    items += [f'LAG(y.{_quoted(own)}) {window} AS "previous {i}"' for i, own in enumerate(table.own)]
    return (f'SELECT {", ".join(items)}, ROW_NUMBER() {window} AS "place", COUNT(*) OVER ({apart}) AS "rows" '
            f"FROM {_rows_of(table)} AS y")


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
