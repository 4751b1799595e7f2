"""What a connection knows and answers, in the shapes of `http_bodies`: made in the threads that use the connection.

Everything told here is public, or was released.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from dpsql.answers.answer import Answer
from dpsql.answers.confirming import takes_much
from dpsql.answers.listings import described_column, limit_of_rows, price_in_words, price_of_entry
from dpsql.answers.spending import ALL, BudgetLine, Spending, share_of_rest
from dpsql.catalog.model import Catalog
from dpsql.dbapi import Connection, Cursor
from dpsql.engine.accounts import accounts_of, left_if_known, releases_of
from dpsql.engine.answering import with_all_tables
from dpsql.engine.stored_models import models
from dpsql.engine.synthesizing import with_synthetic_tables
from dpsql.errors import OperationalError, Unsupported
from dpsql.extras import extra
from dpsql.frozen import replace
from dpsql.server.front.http.http_charts import charts_of, orders_of
from dpsql.server.front.statements.described import described_by_name, names_of
from dpsql.server.front.statements.leaving_times import leave_after, waits_of, waits_told
from dpsql.server.front.statements.oversight import columns_of, listing_named, rows_of
from dpsql.server.front.statements.remote_session import RemoteKernel, RemoteLedger
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.sql.text.offered_words import KEYWORDS, function_names, listed_texts
from dpsql.sql.text.parse import parse
from dpsql.trusted.accounting.cost import Charge
from dpsql.trusted.declarations.tables import Table

if TYPE_CHECKING:
    from dpsql.planning.explain import Expected

MOST_TOLD = 1000  # of the statements of an analyst, the newest
PIECE = 1000  # rows
WHOLE = 2**53 - 1  # the greatest whole number that JavaScript keeps as it is


def account_of(connection: Connection, limits: ServerLimits, policy: str) -> dict[str, Any]:
    """The user, and the terms of their account. Raises OperationalError if they are no longer a user."""
    session = connection.session
    cast(RemoteKernel, session.kernel).check_now()
    return {"name": session.analyst, "role": cast(RemoteLedger, session.ledger).role,
            "budget": session.budget.name, "unit": unit_of(session.catalog), "grows": session.catalog.grows,
            "confidence": float(session.confidence), "policy": policy,
            "price": None if session.price is None else str(session.price), "notes": list(session.notes),
            "limits": {"text_bytes": limits.text_bytes, "statements_a_minute": limits.statements_a_minute,
                       "statements_at_once": limits.statements_of_account, "idle_seconds": limits.session_idle_seconds,
                       "session_seconds": limits.session_seconds}}


def unit_of(catalog: Catalog) -> str:
    """Who is protected, in words."""
    entity = catalog.entity
    kinds = f" (one of {', '.join(entity.any_of)})" if entity.any_of else f" (one row of {entity.table})"
    return f"each {entity.name}{kinds}, with all rows that refer to it"


def tables_of(connection: Connection) -> dict[str, Any]:
    """The tables and online models that statements may name, the reasons why other tables cannot be queried, and SQL keywords."""
    session = connection.session
    catalog = with_all_tables(session).catalog
    told = [{"name": table.name, "public": table.public, "notes": [*_notes_of(table, catalog)], "columns": [
        {"name": column.name, "type": column.type.value, "nullable": column.nullable, "words": described_column(column),
         "values": [] if column.domain is None else [*listed_texts(column.domain.values)]}
        for column in table.columns.values()]} for table in catalog.tables.values()]
    told += [{"name": name, "public": True, "notes": ["an online model, which was paid for"], "columns": [
        {"name": column, "type": "VARCHAR", "nullable": True, "words": "of the model", "values": []}
        for column in made.domain.columns]}
        for name, made in models(session).items()]
    told += [{"name": name, "public": False, "columns": [], "notes": [why]} for name, why in catalog.outside.items()]
    return {"tables": told, "words": [*KEYWORDS, *function_names()]}


def _notes_of(table: Table, catalog: Catalog) -> Iterator[str]:
    yield "public: free, and exact" if table.public else f"private; {limit_of_rows(table, catalog.entity.name)}"
    if table.key:
        yield f"key: {', '.join(table.key)}"
    for key in table.foreign_keys:
        yield f"{', '.join(key.columns)}: a row of {key.table} ({', '.join(key.references)})"


def budget_of_analyst(connection: Connection) -> dict[str, Any]:
    spending: Spending = connection.budget()
    entries = releases_of(connection.session)[-MOST_TOLD:]
    words = " ".join((spending.about, *(f"{told[0].upper()}{told[1:]}." for told in waits_of(connection.session))))
    windows = [{**_line(window.line), "whose": window.name, "limit": window.total} for window in spending.windows]
    return {"budget": spending.budget, "words": words, "accounts": [*map(_line, spending.accounts), *windows],
            "today": None if (today := spending.today) is None else {**_line(today.line), "renews": today.renews.isoformat()},
            "history": [{"at": entry.at, "sql": entry.sql, "cost": price_of_entry(entry),
                         "outcome": entry.outcome} for entry in entries]}


def _line(account: BudgetLine) -> dict[str, Any]:
    return {"whose": account.whose or ALL, "limit": str(account.total), "spent": price_in_words(account.spent),
            "left": account.left(), "exactly": account.left_exactly(), "share": float(1 - account.share_left)}


def releases(connection: Connection) -> dict[str, Any]:
    session = connection.session
    entries = [entry for entry in releases_of(session) if entry.body is not None][-MOST_TOLD:]
    own = with_synthetic_tables(session).catalog.tables
    return {"answers": [{"number": entry.seq, "at": entry.at, "sql": entry.sql, "cost": price_of_entry(entry)}
                        for entry in entries],
            "tables": [{"name": name, "columns": [*table.columns]} for name, table in own.items()
                       if name not in session.catalog.tables]}


def shape_of(connection: Connection, sql: str, parameters: Any) -> dict[str, Any]:
    """The columns and parameters of a statement; no charge."""
    if (listing := listing_named(sql)) is not None:
        return {"columns": [{"name": column.name, "type": column.kind} for column in columns_of(listing)], "parameters": []}
    statement = parse(sql)
    if parameters:
        columns = connection.describe(sql, parameters)
        kinds = {name: _kind(_value(name, parameters)) for name in names_of(statement)}
    else:
        kinds, found = described_by_name(statement, sql, connection)
        columns = [(column.name, column.kind) for column in found.columns or ()]
    return {"columns": [{"name": name, "type": kind} for name, kind in columns],
            "parameters": [{"name": name, "type": kind} for name, kind in kinds.items()]}


def _value(name: str, parameters: Any) -> Any:
    """The value of a parameter, from those by name or in order."""
    return parameters.get(name) if isinstance(parameters, Mapping) else parameters[int(name.lstrip("?")) - 1]


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{_kind(next((each for each in value if each is not None), None))}[]"
    kinds = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", dt.date: "DATE", dt.datetime: "TIMESTAMP"}
    return kinds.get(type(value), "VARCHAR")


def price_of(connection: Connection, sql: str, parameters: Any) -> dict[str, Any]:
    """What a statement would cost, and how accurate its answer would be; no charge."""
    if listing_named(sql) is not None:
        raise Unsupported("a listing has no price", code="explain", try_="it; it is free")
    made, due = connection.priced(sql, parameters)
    accounts = [] if due is None else accounts_of(connection.session)
    paying = [_paying(account, due) for account in accounts if due is not None]
    share = None if due is None else share_of_rest(accounts, due)
    return {"cost": made.cost, "affordable": all(told["left_after"] is not None for told in paying), "stored": made.stored,
            "costly": takes_much(share), "share": None if share is None else float(share), "accounts": paying,
            "errors": [_expected(item) for item in made.expected], "notes": list(made.notes),
            "plan": str(made).splitlines(), "tree": tree_of(str(made).splitlines())}


def _paying(now: BudgetLine, due: Charge) -> dict[str, Any]:
    then = replace(now, spent=now.spent + due)
    has_room = then.limit.allows(then.spent)
    return {"whose": now.whose or ALL, "left": now.left_exactly(), "part_left": float(now.share_left),
            "left_after": then.left_exactly() if has_room else None,
            "part_left_after": float(then.share_left) if has_room else None}


def tree_of(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Lines as a tree: an indented line is a child of the line before it. Text after a gap in a line is the reason."""
    root: list[dict[str, Any]] = []
    path = [(-1, root)]
    for line in filter(str.strip, lines):
        depth, (words, *why) = len(line) - len(line.lstrip()), re.split(r" {2,}", line.strip())
        while path[-1][0] >= depth:
            path.pop()
        below: list[dict[str, Any]] = []
        path[-1][1].append({"words": words, "because": " ".join(why), "children": below})
        path.append((depth, below))
    return root


def _expected(item: Expected) -> dict[str, Any]:
    words = "depends on the data" if item.error is None else f"standard error {item.error:.6g}"
    return {"column": item.column or item.aggregate, "error": None if item.error is None else _cell(item.error),
            "words": f"{words} ({item.named})" if item.named else words}


# -- answers


def answered_json(connection: Connection, sql: str, parameters: Any, name: str | None, most: int, *, pace: float,
                  charts: bool) -> bytes:
    """Answer a statement, which is charged, as JSON. The answer leaves after `pace` seconds or later, and includes its charts on
    request. Raises OperationalError if it would have more than `most` bytes."""
    if (listing := listing_named(sql)) is not None:
        return _listed(listing, connection, name, most)
    leave_after(connection.session, pace)
    cursor = connection.execute(sql, parameters)
    rows, answer = cursor.fetchall(), cursor.answer
    columns = [_exact_column(title, kind) for title, kind, *_ in cursor.description or ()] if answer is None else [
        {"name": column.name, "type": column.type.value, "exact": column.exact, "approximate": column.approximate}
        for column in answer.columns]
    cells = ([_cell(value) for value in row] for row in rows)
    errors = ([None] * len(columns) for _ in rows) if answer is None else _errors(answer)
    drawn = charts_of(answer, orders_of(answer, sql, connection.session.catalog)) if charts else {"charts": [], "undrawn": None}
    return _in_full({"name": name, "columns": columns, **_about(cursor, sql), **drawn}, cells, errors, most)


def released_body(answer: Answer, sql: str, catalog: Catalog) -> dict[str, Any]:
    """A stored answer in the shape of `ToldAnswer`, with its charts."""
    columns = [{"name": column.name, "type": column.type.value, "exact": column.exact, "approximate": column.approximate}
               for column in answer.columns]
    return {"name": None, "columns": columns, "rows": [[_cell(value) for value in row] for row in answer.rows],
            "errors": [*_errors(answer)], "cost": "", "stored": True, "notes": [*answer.notes], "left": "",
            "confidence": answer.confidence, **charts_of(answer, orders_of(answer, sql, catalog))}


def _listed(listing: str, connection: Connection, name: str | None, most: int) -> bytes:
    """A listing for auditors and owners, in the shape of an answer. Raises OperationalError for other roles."""
    columns = [_exact_column(each.name, each.kind) for each in columns_of(listing)]
    cells = [[_cell(value) for value in row] for row in rows_of(listing, connection)]
    about = {"name": name, "columns": columns, "cost": "", "stored": False, "left": left_if_known(connection.session),
             "notes": [], "confidence": None, "charts": [], "undrawn": "only answers of SELECT are drawn"}
    return _in_full(about, cells, ([None] * len(columns) for _ in cells), most)


def _exact_column(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "exact": True, "approximate": False}


def _in_full(about: dict[str, Any], cells: Iterable[list[Any]], errors: Iterable[list[Any]], most: int) -> bytes:
    """An answer as JSON. Raises OperationalError if it would have more than `most` bytes."""
    made = bytearray()
    for piece in chain((as_json(about)[:-1], b',"rows":['), _in_pieces(cells), (b'],"errors":[',), _in_pieces(errors), (b"]}",)):
        made += piece
        if len(made) > most:
            raise OperationalError(f"an answer in JSON can have at most {most} bytes", code="answer-size",
                                   try_="Accept: application/vnd.apache.arrow.stream; the answer is kept, and repeating the "
                                        "query is free")
    return bytes(made)


def as_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _in_pieces(rows: Iterable[list[Any]]) -> Iterator[bytes]:
    """The rows of a list in JSON. While a piece is made, no other thread runs: all at once would stop the server for a while."""
    rows, comma = iter(rows), b""
    while piece := [*islice(rows, PIECE)]:
        yield comma + as_json(piece)[1:-1]
        comma = b","


def _errors(answer: Answer) -> Iterator[list[Any]]:
    for i, row in enumerate(answer.errors):
        yield [_error(answer, i, j, error) for j, error in enumerate(row)]


def _error(answer: Answer, i: int, j: int, error: float | None) -> dict[str, Any] | None:
    ends = answer.ends(i, j)
    if ends is None and error is None:
        return None
    low, high = ends or (None, None)
    return {"low": _cell(low), "high": _cell(high), "error": _cell(error)}


def _cell(value: Any) -> Any:
    """A value as JSON can hold it."""
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) <= WHOLE else str(value)
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dt.date():
            return value.isoformat()
    return str(value)


def _about(cursor: Cursor, sql: str) -> dict[str, Any]:
    """What an answer cost, what is left, and what a reader should know."""
    made = cursor.made
    return {"cost": "" if made is None else cursor.cost, "stored": made is not None and made.stored,
            **({"shared": True} if cursor.answer is not None and cursor.answer.shared else {}),
            "left": left_if_known(cursor.connection.session),
            "notes": [*(() if made is None else made.notes), *waits_told(cursor, sql)],
            "confidence": cursor.answer.confidence if cursor.answer is not None else None}


def answered_arrow(connection: Connection, sql: str, parameters: Any, *, pace: float,
                   errors: bool) -> tuple[bytes, dict[str, Any]]:
    """The same as an Arrow stream, with the facts about it as JSON, which are also in its schema under ``dpsql``. With `errors`,
    standard errors and the ends of intervals follow each noisy column. Raises InterfaceError, before anything is charged, if the
    library is not installed."""
    extra("pyarrow", "arrow")
    import pyarrow as pa

    leave_after(connection.session, pace)
    cursor = connection.execute(sql, parameters)
    table, about = cursor.arrow(), _about(cursor, sql)
    if errors and cursor.answer is not None:
        table = _with_errors(table, cursor.answer)
    table = table.replace_schema_metadata({"dpsql": json.dumps(about)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue(), about


def _with_errors(table: Any, answer: Answer) -> Any:
    import pyarrow as pa

    for j in reversed([j for j, column in enumerate(answer.columns) if not column.exact]):
        ends = [answer.ends(i, j) or (None, None) for i in range(answer.size)]
        lows, highs = zip(*ends, strict=True) if ends else ((), ())
        added = {"error": [row[j] for row in answer.errors], "low": lows, "high": highs}
        of_dates = answer.columns[j].type.temporal
        for place, (kind, values) in enumerate(added.items()):
            stored = pa.array(values, type=pa.date32() if of_dates and kind != "error" else pa.float64())
            table = table.add_column(j + 1 + place, f"{answer.columns[j].name}_{kind}", stored)
    return table
