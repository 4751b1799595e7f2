"""`public` of CREATE SYNTHETIC TABLE: the rows of a public table, coded like the private ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError
from dpsql.frozen import replace
from dpsql.models.sampling import Places
from dpsql.sql.binding.bind import bind
from dpsql.sql.binding.listed_columns import ROWS, listed_columns, over_rows
from dpsql.sql.text.statement import Option, Query
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.method import CodedColumn
from dpsql.trusted.plan.cells import cell_of


def public_places(option: Option, session: Session, forms: Sequence[Form], columns: Sequence[CodedColumn]) -> Places:
    """The rows of the named table as indices into the lists of values; rows with unlisted values are left out.

    The table has the columns of the synthetic one, with the same names and types, and may have others. It is one that the policy
    declares public, or a synthetic table: `session` has these among its tables. Raises OptionError, located at the option, for
    anything else; no private rows are read.
    """
    table = next((table for name, table in session.catalog.tables.items()
                  if isinstance(option.value, str) and name.lower() == option.value.lower()), None)
    known = sorted(name for name, each in session.catalog.tables.items() if each.public)
    if table is None or not table.public:
        why = "is the name of a public table" if not isinstance(option.value, str) else (
            f"names a public table, and {option.value} is private" if table is not None else
            f"names a public table, and there is no table {option.value}")
        raise _wrong(option, f"public {why}", f"one of {', '.join(known)}" if known else "method = 'mwem' or 'aim'")
    present = {name.lower(): name for name in table.columns}
    missing = [form.name for form in forms if form.name.lower() not in present]
    if missing:
        raise _wrong(option, f"{table.name} has no column {', '.join(missing)}", f"without {missing[0]}, or another public table")
    tree = exp.Select(
        expressions=[exp.column(exp.to_identifier(present[form.name.lower()], quoted=True)).as_(form.name, quoted=True)
                     for form in forms],
        from_=exp.From(this=exp.Table(this=exp.to_identifier(table.name, quoted=True))))
    query = Query(tree=tree, text=tree.sql(dialect="duckdb"))
    try:
        found = listed_columns(query, session.catalog, session.kernel, session.scratch, {})
        for form, column in zip(forms, found, strict=True):
            if column.facts.type is not form.type:
                kinds = f"{column.facts.type.value} in {table.name}, and {form.type.value} in the query"
                raise _wrong(option, f"{form.name} is {kinds}", f"CAST({form.name} AS {column.facts.type.value}) in the query")
        rows = exp.to_identifier(ROWS, quoted=True)
        read = [exp.column(exp.to_identifier(form.name, quoted=True), table=rows.copy()) for form in forms]
        keys = [exp.alias_(form.key(column), f"key {at}", quoted=True)
                for at, (form, column) in enumerate(zip(forms, read, strict=True))]
        question = bind(replace(query, tree=over_rows(tree, *keys)), session.catalog, session.kernel, session.scratch, {})
        held = session.kernel.public_rows(question.view)
    except OptionError:
        raise
    except Error as fault:
        raise _wrong(option, f"{table.name} cannot be read: {fault.reason}", "another public table") from None
    at = [[field.id for field in question.view.fields].index(key.column) for key in question.keys]
    places = [{cell_of((value,))[0]: place for place, value in enumerate(column.values)} for column in columns]
    coded = [[lookup.get(cell_of((row[place],))[0], -1) for lookup, place in zip(places, at, strict=True)] for row in held]
    found_rows = np.array(coded, dtype=np.int64).reshape(len(held), len(columns))
    return found_rows[(found_rows >= 0).all(axis=1)]


def _wrong(option: Option, why: str, try_: str) -> OptionError:
    return OptionError(why, span=option.span, subject=str(option.value), try_=try_)
