"""Synthetic tables in the place of private ones, so that a query can be asked of them as it stands.

They are public: a table that the policy declares public, or an uploaded file or frame that is loaded into a database of its
own, under the types of the private table and beside copies of the public tables that the queries name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from dpsql.backends.upload_folders import Uploads
from dpsql.backends.uploaded_tables import Upload, open_uploads
from dpsql.catalog.days import KEPT_BY_ENDS
from dpsql.catalog.model import Catalog
from dpsql.catalog.writing import key
from dpsql.errors import OptionError, SqlError
from dpsql.frozen import Frozen, replace
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.sql.text.statement import Query, Standing
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.scan import Scan


class Substitution(Frozen):
    """The catalog in which synthetic tables have the names of private ones, and the database that holds them."""

    catalog: Catalog
    public: PublicTables


def private_tables(queries: Iterable[Query], catalog: Catalog) -> tuple[str, ...]:
    """The private tables that queries name."""
    return tuple(table.name for table in _named(queries, catalog) if not table.public)


def _named(queries: Iterable[Query], catalog: Catalog) -> list[Table]:
    """The declared tables that queries name, each once."""
    names = dict.fromkeys(name for query in queries for name in query.tables)
    found = [catalog.table(name) for name in names]
    return list({table.name: table for table in found if table is not None}.values())


def declared(standing: Sequence[Standing], queries: Sequence[Query], catalog: Catalog, public: PublicTables) -> Substitution:
    """Replace private tables by tables that the policy declares public. Raises SqlError or OptionError, located."""
    private = private_tables(queries, catalog)
    tables: dict[str, Table] = {}
    for stand in standing:
        found = catalog.table(stand.table)
        if found is None or not found.public:
            why = "is private" if found is not None else "is not declared"
            raise SqlError(f"{stand.table} {why}, but a synthetic table must be public", code="synthetic", span=stand.span,
                           subject=stand.table, try_=f"public = true in [tables.{key(stand.table)}] of the policy, or a file: "
                           "con.validate(..., synthetic=\"people.csv\")")
        name = _instead(stand, private, catalog)
        tables[name] = _fitted(catalog.tables[name], found.columns, found.name, stand)
    _all_stand(private, tables)
    made = Substitution(catalog=_with(catalog, tables), public=public)
    _check_values(tables, catalog, made)
    return made


def brought(sources: Mapping[str | None, Any], queries: Sequence[Query], catalog: Catalog, public: PublicTables,
            uploads: Uploads) -> Substitution:
    """Replace private tables by files (paths of uploads) or frames, given by the names of the private tables; None for the
    only one.

    Raises OptionError or OperationalError if one cannot be read as that table.
    """
    private = private_tables(queries, catalog)
    named: dict[str, Path | Any] = {}
    for name, source in sources.items():
        stand = Standing(table="the synthetic table", instead=name, span=None)
        named[_instead(stand, private, catalog)] = Path(source) if isinstance(source, str | PurePath) else source
    _all_stand(private, named)
    reader, present = open_uploads({
        **{name: Upload(source=source, kinds=_kinds(catalog.tables[name])) for name, source in named.items()},
        **{table.name: Upload(kinds=_kinds(table), rows=_rows(table, public))
           for table in _named(queries, catalog) if table.public}}, uploads)
    tables = {}
    for name in named:
        columns = {column: catalog.tables[name].columns[column] for column in present[name]}
        stand = Standing(table="the synthetic table", instead=name, span=None)
        tables[name] = _fitted(catalog.tables[name], columns, name, stand)
    made = Substitution(catalog=_with(catalog, tables), public=Publics(reader))
    _check_values(tables, catalog, made)
    return made


def _instead(stand: Standing, private: Sequence[str], catalog: Catalog) -> str:
    """The private table that a synthetic one stands for."""
    if stand.instead is not None:
        table = catalog.table(stand.instead)
        if table is None or table.public:
            raise OptionError(f"there is no private table {stand.instead}", code="synthetic", span=stand.span,
                              subject=stand.instead, try_="one of " + ", ".join(private))
        return table.name
    if len(private) != 1:
        raise OptionError("the queries name " + (" and ".join(private) or "no private table") + ", so say which one "
                          f"{stand.table} replaces", code="synthetic", span=stand.span, subject=stand.table,
                          try_=f"{stand.table} FOR {private[0]}" if private else "a query over a private table")
    return private[0]


def _all_stand(private: Sequence[str], tables: Mapping[str, Any]) -> None:
    missing = [name for name in private if name not in tables]
    if missing:
        raise OptionError(f"no synthetic table replaces {missing[0]}, which the queries use", code="synthetic",
                          subject=missing[0], try_=f"AGAINST ..., <synthetic table> FOR {missing[0]}")


def _fitted(private: Table, columns: Mapping[str, Column], name: str, stand: Standing) -> Table:
    """The private table's declaration over the columns of a synthetic one; a column that it lacks is left out."""
    theirs = {column.lower(): found for column, found in columns.items()}
    kept = {}
    for column in private.columns.values():
        found = theirs.get(column.name.lower())
        if found is None:
            continue
        if found.type is not column.type:
            kinds = f"{found.sql_type} in {stand.table} and {column.sql_type} in {private.name}"
            raise OptionError(f"column {column.name} is {kinds}", code="synthetic", span=stand.span,
                              subject=column.name, try_=f"CAST({column.name} AS {column.sql_type}) where {stand.table} is made")
        kept[column.name] = replace(column, sql_type=found.sql_type, physical=found.physical, nullable=True)
    if not kept:
        raise OptionError(f"{stand.table} has no column of {private.name}", code="synthetic", span=stand.span, subject=name,
                          try_="the columns " + ", ".join(private.columns))
    return Table(name=name, public=True, columns=kept)


def _with(catalog: Catalog, tables: Mapping[str, Table]) -> Catalog:
    return replace(catalog, tables={**catalog.tables, **tables})


def _kinds(table: Table) -> dict[str, str]:
    return {column.name: column.sql_type for column in table.columns.values()}


def _rows(table: Table, public: PublicTables) -> list[tuple[Any, ...]]:
    """The rows of a public table, of its declared columns."""
    pairs = tuple((f"c{i}", name) for i, name in enumerate(table.columns))
    return list(public.public_rows(Scan(table=table, columns=pairs, owners=())))


def _check_values(tables: Mapping[str, Table], catalog: Catalog, made: Substitution) -> None:
    """Raises OptionError if a synthetic table has values that are not among those declared: no group would hold them. The
    values are not shown, as a file may contain something it should not."""
    for name, table in tables.items():
        for column in table.columns.values():
            domain = catalog.tables[name].columns[column.name].domain
            if domain is None:
                continue
            known = domain.values if isinstance(domain.values, KEPT_BY_ENDS) else set(domain.values)
            values = made.public.public_rows(Distinct(input=Scan(table=table, columns=(("c0", column.name),), owners=())))
            if any(value is not None and value not in known for value, in values):
                raise OptionError(f"column {column.name} of the synthetic {name} has values that are not declared",
                                  code="synthetic", subject=column.name,
                                  try_="one of " + ", ".join(str(value) for value in domain.values[:6]))
