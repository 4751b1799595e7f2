"""A dialect of SQLAlchemy: `create_engine("dpsql:///dpsql.toml?budget=main&analyst=ada")`.

The path is that of the policy, and the rest of the URL are the terms of `dbapi.connect`. Tables, columns, keys and foreign keys
are those of the policy, so that reflection reads no row and costs nothing. Every connection of a pool asks for the same analyst,
from the same budget. Intervals, errors and costs are in `result.cursor`, until the last row is fetched.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.engine import URL, default, reflection
from sqlalchemy.sql import compiler
from sqlalchemy.sql.elements import BindParameter

import dpsql
from dpsql.catalog.model import Catalog
from dpsql.dbapi import Connection
from dpsql.engine.answering import with_all_tables
from dpsql.errors import InterfaceError, OptionError
from dpsql.sql.text.border import PUBLIC, STANDING
from dpsql.sql.text.schemas import name_of_standing, schema_and_name
from dpsql.trusted.declarations.tables import Table
from dpsql.types import Type

TERMS = ("database", "budget", "analyst", "epsilon", "delta", "rho", "confidence", "ledger")  # of a URL, after the question mark
NUMBERS = ("epsilon", "delta", "rho", "confidence")
TYPES = {Type.BOOLEAN: types.BOOLEAN, Type.BIGINT: types.BIGINT, Type.DOUBLE: types.DOUBLE, Type.VARCHAR: types.VARCHAR,
         Type.DATE: types.DATE, Type.TIMESTAMP: types.TIMESTAMP}


class LikePattern(types.TypeDecorator):
    """A text that is a part of a pattern of LIKE; the value of a parameter becomes the whole pattern."""

    impl, cache_ok = types.String, True

    def __init__(self, before: str, after: str) -> None:
        super().__init__()
        self.before, self.after = before, after

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None else f"{self.before}{value}{self.after}"


def _matches(name: str, word: str, before: str, after: str) -> Any:
    """A method that prints `x.contains(value)` and the like: LIKE takes one parameter, and no text that is put together."""
    usual = getattr(compiler.SQLCompiler, f"visit_{name}_op_binary")

    def visit(self: DpsqlCompiler, binary: Any, operator: Any, **kw: Any) -> str:
        if not isinstance(binary.right, BindParameter):
            return usual(self, binary, operator, **kw)  # type: ignore[no-any-return]
        binary, pattern = binary._clone(), binary.right._clone()
        pattern.type = LikePattern(before, after)
        binary.right = pattern
        return self.like(binary, word, **kw)

    return visit


class DpsqlCompiler(compiler.SQLCompiler):
    """Prints what the dialect of dpsql writes in another way."""

    visit_contains_op_binary = _matches("contains", "LIKE", "%", "%")
    visit_not_contains_op_binary = _matches("not_contains", "NOT LIKE", "%", "%")
    visit_startswith_op_binary = _matches("startswith", "LIKE", "", "%")
    visit_not_startswith_op_binary = _matches("not_startswith", "NOT LIKE", "", "%")
    visit_endswith_op_binary = _matches("endswith", "LIKE", "%", "")
    visit_not_endswith_op_binary = _matches("not_endswith", "NOT LIKE", "%", "")
    visit_icontains_op_binary = _matches("icontains", "ILIKE", "%", "%")
    visit_istartswith_op_binary = _matches("istartswith", "ILIKE", "", "%")
    visit_iendswith_op_binary = _matches("iendswith", "ILIKE", "%", "")

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET as numbers in the text, because they are part of the statement and cannot be parameters."""
        return self._numbers(("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause), **kw)

    def fetch_clause(self, select: Any, **kw: Any) -> str:
        """FETCH FIRST, written as LIMIT. PERCENT and WITH TIES are passed on and refused."""
        if any((select._fetch_clause_options or {}).values()):
            return super().fetch_clause(select, **kw)  # type: ignore[no-any-return]
        return self._numbers(("LIMIT", select._fetch_clause), ("OFFSET", select._offset_clause), **kw)

    def _numbers(self, *clauses: tuple[str, Any], **kw: Any) -> str:
        return "".join(f"\n {word} " + self.process(clause, **{**kw, "literal_execute": True})
                       for word, clause in clauses if clause is not None)

    def visit_date_trunc_func(self, function: Any, **kw: Any) -> str:
        """A date function with its unit in the text, because the unit is part of the statement."""
        unit, *rest = function.clauses
        parts = [self.process(unit, **{**kw, "literal_execute": True}), *(self.process(part, **kw) for part in rest)]
        return f"{function.name}({', '.join(parts)})"

    visit_date_part_func = visit_date_diff_func = visit_date_trunc_func

    def visit_floordiv_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left, **kw)} // {self.process(binary.right, **kw)}"


    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self.like(binary, "ILIKE", **kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self.like(binary, "NOT ILIKE", **kw)

    def like(self, binary: Any, word: str, **kw: Any) -> str:
        """A comparison with a pattern."""
        escape = binary.modifiers.get("escape")
        tail = "" if escape is None else f" ESCAPE {self.render_literal_value(escape, types.STRINGTYPE)}"
        return f"{self.process(binary.left, **kw)} {word} {self.process(binary.right, **kw)}{tail}"


class DpsqlTypeCompiler(compiler.GenericTypeCompiler):
    """The names of types in CAST."""

    def visit_integer(self, type_: Any, **kw: Any) -> str:
        return "BIGINT"

    def visit_string(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR"

    def visit_numeric(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_datetime(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP"

    visit_small_integer = visit_big_integer = visit_INTEGER = visit_integer
    visit_text = visit_unicode = visit_unicode_text = visit_VARCHAR = visit_TEXT = visit_string
    visit_float = visit_double = visit_FLOAT = visit_NUMERIC = visit_DECIMAL = visit_numeric


class DpsqlDialect(default.DefaultDialect):
    """See the module."""

    name, driver = "dpsql", "dpsql"
    statement_compiler, type_compiler_cls = DpsqlCompiler, DpsqlTypeCompiler
    default_paramstyle = "qmark"
    div_is_floordiv = False
    supports_statement_cache = supports_native_boolean = supports_simple_order_by_label = True
    supports_alter = supports_default_values = supports_empty_insert = supports_sequences = supports_comments = False
    postfetch_lastrowid = insert_returning = False
    returns_native_bytes = True

    @classmethod
    def import_dbapi(cls) -> Any:
        return dpsql

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """The connection arguments in a URL. Raises OptionError for unknown ones."""
        unknown = [name for name in url.query if name not in TERMS] + [
            name for name in ("host", "username", "password", "port") if getattr(url, name)]
        if unknown:
            raise OptionError(f"a URL of dpsql has no {unknown[0]}", code="url", subject=unknown[0],
                              try_="dpsql:///dpsql.toml?budget=main&analyst=ada, or " + ", ".join(TERMS))
        return [], {"policy": url.database or None, **{name: _term(name, value) for name, value in url.query.items()}}

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the connection is alive, which it is until it is closed, as there is no server."""
        _ = dbapi_connection.session
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, InterfaceError) and e.code == "closed"

    # -- reflection

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        named = map(schema_and_name, _catalog(connection).tables)
        return [name for own, name in named if own == (PUBLIC if schema is None else schema)]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return _found(connection, table_name, schema) is not None

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        return [{"name": column.name, "type": TYPES[column.type](), "nullable": column.nullable, "default": None}
                for column in _table(connection, table_name, schema).columns.values()]

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The declared key, if all of its columns can be queried."""
        table = _table(connection, table_name, schema)
        return {"constrained_columns": list(table.key) if set(table.key) <= set(table.columns) else [], "name": None}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """The declared foreign keys between columns that can be queried."""
        catalog, table = _catalog(connection), _table(connection, table_name, schema)
        return [{"name": None, "constrained_columns": list(key.columns), "referred_schema": None, "referred_table": above.name,
                 "referred_columns": list(key.references), "options": {}}
                for key in table.foreign_keys if (above := catalog.table(key.table)) is not None
                and set(key.columns) <= set(table.columns) and set(key.references) <= set(above.columns)]

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        return []

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        return []

    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return reflection.ReflectionDefaults.table_comment()


def _term(name: str, value: str | tuple[str, ...]) -> str | Decimal:
    """A term as `dbapi.connect` takes it. Raises OptionError if it stands twice, or is no number and should be."""
    if isinstance(value, str):
        with contextlib.suppress(InvalidOperation):
            return Decimal(value) if name in NUMBERS else value
    raise OptionError(f"{name} is not {'one number' if name in NUMBERS else 'one text'}", code="url", subject=name,
                      try_=f"{name}={'0.5' if name in NUMBERS else '...'}")


def _catalog(connection: Any) -> Catalog:
    """What can be asked, with the synthetic tables of the analyst, and those of standing queries in the schema of these."""
    driver: Connection = connection.connection.driver_connection
    with driver._used() as session:
        return with_all_tables(session).catalog


def _found(connection: Any, name: str, schema: str | None) -> Table | None:
    if schema not in (None, STANDING):
        return None
    return _catalog(connection).table(name if schema is None else name_of_standing(name))


def _table(connection: Any, name: str, schema: str | None) -> Table:
    found = _found(connection, name, schema)
    if found is None:
        raise exc.NoSuchTableError(name if schema is None else f"{schema}.{name}")
    return found
