"""Binding statements over a world: what the tests of the grammar and of the binder share."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import duckdb
from support import worlds

from dpsql.backends.duckdb import open_database
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.around_statements import meant
from dpsql.engine.opening import public_values
from dpsql.frozen import Frozen, field_names, replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.postprocessing.around_released import AroundReleased, bind_around
from dpsql.questions.question import Question
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.keep_first import keep_first
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.sql.binding.bind import bind
from dpsql.sql.binding.binding_context import BindingContext, Names, distinct_names
from dpsql.sql.binding.relations import QueryBinder
from dpsql.sql.text import border
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Explain, Query
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.plan.node import Node, Printing, fold
from dpsql.trusted.plan.operators import window
from dpsql.trusted.plan.operators.groupby import GroupBy, fold_sql
from dpsql.trusted.plan.operators.window import Window
from dpsql.trusted.reader import Reader


class Bench(Frozen, kw_only=False):
    """A world in a database file, with the catalogs of its entities and a plain connection beside."""

    reader: Reader
    kernel: Kernel
    scratch: DuckScratch
    catalogs: Mapping[str, Catalog]
    plain: duckdb.DuckDBPyConnection

    def query(self, text: str) -> Query:
        statement = parse(text)
        found = statement.query if isinstance(statement, Explain) else statement
        assert isinstance(found, Query)
        return found

    def bind(self, text: str, parameters: Mapping[str, Any] | None = None, *, budget: str = "person") -> Question:
        return bind(self.query(text), self.catalogs[budget], self.kernel, self.scratch, parameters or {})

    def around(self, text: str, parameters: Mapping[str, Any] | None = None, *, budget: str = "person") -> AroundReleased | None:
        """The statement as SQL over released rows; None where it is none."""
        found = bind_around(self.query(text), self.catalogs[budget], self.kernel, self.scratch, parameters or {})
        return found if found is not None and meant(found) else None

    def relation(self, text: str, *, budget: str = "person") -> tuple[Node, list[str], list[str]]:
        """A query as it is bound inside another one: its plan, and the identifiers and names of its visible columns."""
        query = self.query(text)
        border.check(query.tree, text)
        context = BindingContext(catalog=self.catalogs[budget], public=self.kernel, scratch=self.scratch, parameters={},
                                 queries=QueryBinder())
        found = QueryBinder().relation(query.tree, context, Names())
        names = distinct_names([name for name, _ in found.columns])
        return keep_first(push_equalities(found.node)), [column.id for _, column in found.columns], names

    def rows(self, node: Node) -> list[tuple[Any, ...]]:
        """The rows of a plan, as its printed text gives them."""
        return self.plain.execute(printed(node)).fetchall()


def printed(node: Node) -> str:
    return fold(node, lambda part, below: part.render(below, Printing(salt=7)))


def unclamped(node: Node) -> Node:
    """The plan with exact sums and averages: no grid, no clamp to declared bounds."""
    def change(part: Node) -> Node:
        if isinstance(part, Window):
            return _ExactWindow(**{name: getattr(part, name) for name in field_names(type(part))})
        if not isinstance(part, GroupBy):
            return part
        return _Exact(input=part.input, keys=part.keys, folds=part.folds, most_rows=part.most_rows)

    return rebuild(node, change)


class _Exact(GroupBy):
    """A GROUP BY whose sums and averages are those of plain SQL."""

    def _aggregate(self, part: Any, names: dict[str, str]) -> str:
        if part.function in ("sum", "avg") and part.grid is not None:
            return f"{part.function.upper()}({names[part.column]})"
        return super()._aggregate(replace(part), names)


class _ExactWindow(Window):
    """Window functions whose sums and averages are those of plain SQL."""

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        def plain(part: Any, name: str, kind: Any, over: str = "") -> str:
            exact = part.function in ("sum", "avg") and part.grid is not None
            return f"{part.function.upper()}({name}){over}" if exact else fold_sql(part, name, kind, over)

        with patch.object(window, "fold_sql", plain):
            return super().render(below, printing)


def table(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as sorted text, numbers to ten digits, whatever their type."""
    return sorted("|".join(map(_shown, row)) for row in rows)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return "none" if math.isnan(number) else f"{number + 0.0:.10g}"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"{value} 00:00:00"
    return str(value)


@contextmanager
def bench(world: worlds.World | None = None) -> Iterator[Bench]:
    """A bench over a world, in a directory of its own."""
    with TemporaryDirectory() as folder:
        path = (world if world is not None else worlds.world()).save(Path(folder) / "world.duckdb")
        reader = open_database(path)
        ledger = ReportingLedger.create(Path(folder) / "ledger")
        scratch = DuckScratch()
        plain = duckdb.connect(":memory:", config={"threads": 1})
        (world if world is not None else worlds.world()).fill(plain)
        plain.execute("ALTER TABLE people DROP COLUMN secret")  # what the policy does not declare is not there
        plain.execute("SET error_on_division_by_zero = false")  # NULL, as everywhere in dpsql
        policy = parse_policy(worlds.POLICY)
        try:
            yield Bench(reader=reader, kernel=Kernel(reader, ledger), scratch=scratch, plain=plain, catalogs={
                name: fit(policy, name, reader.schema(), public_values(reader)) for name in ("person", "household")})
        finally:
            plain.close()
            scratch.close()
            reader.close()
            ledger.close()
