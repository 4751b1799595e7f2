"""How many private rows break each rule of the policy, for `dpsql check --rows`: exact, and for the owner alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.model import Catalog
from dpsql.engine.table_rules import Dependency, rules_of_table
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.nodes import Expr
from dpsql.trusted.plan.expr.printing import quote, to_sql
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.reader import Reader, ReaderFault


class RuleOnRows(Frozen):
    """A rule of a table, and the number of rows that break it: on which the condition is false, or whose value is not the most
    frequent one of those that another column determines. `fault` says why they cannot be counted; "" if they were."""

    table: str
    rule: str
    rows: int
    broken: int
    fault: str = ""


def rules_on_rows(table: Table, catalog: Catalog, reader: Reader, rows: int) -> Iterator[RuleOnRows]:
    """The rules of a private table, compared with its rows."""
    with closing(DuckScratch()) as scratch:
        for text, rule in rules_of_table(table, catalog, scratch):
            found = RuleOnRows(table=table.name, rule=text, rows=rows, broken=0)
            if isinstance(rule, Error):
                yield replace(found, fault=rule.reason)
                continue
            try:
                (broken,), = reader.rows(_determined(table, rule) if isinstance(rule, Dependency) else
                                         _false(table, rule.condition, rule.columns))
                yield replace(found, broken=broken)
            except ReaderFault:
                yield replace(found, fault="it cannot be evaluated on the rows")


def _false(table: Table, condition: Expr, columns: Sequence[str]) -> str:
    test = to_sql(condition, {name: f"t.{quote(name)}" for name in columns})
    return f"SELECT COUNT(*) FROM {_rows(table, *columns)} AS t WHERE ({test}) IS FALSE"


def _determined(table: Table, rule: Dependency) -> str:
    """NULL is a value here, as it is in a synthetic table."""
    source = _rows(table, rule.determines, rule.column)
    pairs = f"SELECT {quote(rule.determines)} AS x, {quote(rule.column)} AS y FROM {source} AS t"
    counts = f"SELECT x, COUNT(*) AS n FROM ({pairs}) AS p GROUP BY x, y"
    return ("SELECT CAST(COALESCE(SUM(n - most), 0) AS BIGINT) FROM "
            f"(SELECT SUM(n) AS n, MAX(n) AS most FROM ({counts}) AS c GROUP BY x) AS d")


def _rows(table: Table, *columns: str) -> str:
    """All rows, with columns under their own names."""
    everybodys = replace(table, public=True, owners=())
    shown = tuple((name, name) for name in dict.fromkeys(columns))
    return f"({Scan(table=everybodys, columns=shown).render((), Printing())})"
