"""What clients ask of PostgreSQL's system catalogue, answered of public facts without charge.

The catalogue is a DuckDB database in memory (`catalog_tables`), which the connections of an account share. Each question has a
cursor of its own, little time, and little memory.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.catalog.model import Catalog
from dpsql.errors import Error, OperationalError, SqlError, Unsupported
from dpsql.frozen import Frozen
from dpsql.server.front.catalogue.catalog_parameters import constant
from dpsql.server.front.catalogue.catalog_rewriting import SCHEMAS, Asking, relation_named, rewritten, type_name
from dpsql.server.front.catalogue.catalog_tables import RELATIONS
from dpsql.server.front.catalogue.catalog_words import SETTINGS
from dpsql.server.front.catalogue.shared_catalogues import SharedCatalogues
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire
from dpsql.server.front.terms.lists_on_wire import LIST_OIDS
from dpsql.sql.text.tokens import MOST_BYTES, MOST_TOKENS

SECONDS, MOST_ROWS = 5.0, 100_000
MOST_COLUMNS, MOST_LETTERS = 1600, 2**25  # of an answer: its rows take more than those of DuckDB, which are many times one text
PARSER_FAULTS = (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError)  # on odd texts
_QUESTIONS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN)
_OF_POSTGRES = ("oid", "name", "regclass", "regtype")
_WORDS = ("pg_", "information_schema", "current_schema", "current_database", "current_setting", "version()")


class CatalogAnswer(Frozen):
    """Rows of the catalogue."""

    columns: tuple[ColumnOnWire, ...]
    rows: list[tuple[object, ...]]


def read_question(text: str, tables: Sequence[str]) -> exp.Query | None:
    """The tree of a query that reads the catalogue, or no table at all; None for others. `tables` are those of the policy, whose
    names take precedence."""
    lowered = text.lower()
    if len(text) > MOST_BYTES or (not any(word in lowered for word in _WORDS) and "from" in lowered):
        return None
    try:
        tokens = _readable(Postgres().tokenize(text))
        if not tokens or len(tokens) > MOST_TOKENS or tokens[0].token_type not in _QUESTIONS:
            return None
        found = Postgres().parser(error_level=sqlglot.ErrorLevel.IMMEDIATE).parse(tokens, text)
    except PARSER_FAULTS:
        return None
    tree = found[0] if len(found) == 1 else None
    return tree if isinstance(tree, exp.Query) and _asks_catalogue(tree, tables) else None


def _readable(tokens: list[Token]) -> list[Token]:
    """The tokens as sqlglot's parser takes them: arrays of types that it does not know under their names in the catalogue, as in
    ::_oid for ::oid[], and words of SQL that are names after AS or a point as such."""
    found: list[Token] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1].token_type if at else None
        if token.text.upper() in ("SELECT", "INSERT", "UPDATE", "DELETE") and before in (TokenType.ALIAS, TokenType.DOT):
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
        if token.token_type is TokenType.R_BRACKET and before is TokenType.L_BRACKET and _is_type(found[-5:-1]):
            name = found[-2]
            found[-2:] = [Token(TokenType.VAR, f"_{name.text}", name.line, name.col, name.start, name.end)]
            continue
        found.append(token)
    return [token for token in found if token.token_type is not TokenType.SEMICOLON]


def _is_type(tokens: Sequence[Token]) -> bool:
    """Whether the last of these tokens is the type of a cast ::name or ::schema.name, one that sqlglot does not know: of
    these four are enough."""
    if not tokens or (tokens[-1].token_type is not TokenType.VAR and tokens[-1].text.lower() not in _OF_POSTGRES):
        return False
    at = len(tokens) - 1
    if at > 1 and tokens[at - 1].token_type is TokenType.DOT:
        at -= 2
    return at > 0 and tokens[at - 1].token_type is TokenType.DCOLON


def _asks_catalogue(tree: exp.Query, tables: Sequence[str]) -> bool:
    """Whether all relations that are named may be those of the catalogue, and none is a table of the policy."""
    own, made = {name.lower() for name in tables}, {each.alias.lower() for each in tree.find_all(exp.CTE)}
    named = [table for table in tree.find_all(exp.Table) if not isinstance(table.this, exp.Func | exp.Dot)
             and (table.db or table.name.lower() not in made)]
    if any(not table.db and table.name.lower() in own for table in named):
        return False
    return all(table.db.lower() in SCHEMAS or (not table.db and (
        table.name.lower().startswith("pg_") or relation_named("", table.name.lower(), RELATIONS.keys()))) for table in named)


class CatalogDatabase:
    """The catalogue of one connection. Its methods raise Unsupported, SqlError or OperationalError, without a place."""

    def __init__(self, catalog: Catalog, asking: Asking, shared: SharedCatalogues | None = None) -> None:
        """`shared` are the databases of connections that may share them."""
        self.asking, self._shared = asking, SharedCatalogues(idle=0) if shared is None else shared
        self._mark, self._tables = self._shared.take(catalog, asking.user, asking.database)
        self._is_open = True

    def ask(self, tree: exp.Query, parameters: Sequence[object] = (), kinds: Sequence[str] = ()) -> CatalogAnswer:
        """The answer to a query on the catalogue; `kinds` are those of the parameters, where they are known."""
        return self._run(self._printed(tree, [constant(value, kind) for value, kind in zip_longest(
            parameters, kinds[:len(parameters)], fillvalue="")]))

    def describe(self, tree: exp.Query, kinds: Sequence[str]) -> tuple[ColumnOnWire, ...]:
        """The columns of the answer, given the kinds of parameters."""
        return self.ask(tree, [None] * len(kinds), kinds).columns

    def columns_of_rows(self, tree: exp.Query) -> tuple[ColumnOnWire, ...]:
        """The columns of an accepted query over tables of the policy. These tables have no rows here."""
        plain = tree.copy()  # in which the schema of standing queries is a part of their names
        for node in list(plain.find_all(exp.Table, exp.Column)):
            node.set("db", None)
        return self._run(plain.sql(dialect="duckdb")).columns

    def _printed(self, tree: exp.Query, parameters: Sequence[exp.Expr]) -> str:
        try:
            return rewritten(tree, RELATIONS.keys(), self.asking, parameters).sql(dialect="duckdb")
        except Error:
            raise
        except PARSER_FAULTS:
            raise _unanswered() from None

    def _run(self, text: str) -> CatalogAnswer:
        cursor = self._tables.cursor(self.asking.settings if SETTINGS in text else None)
        late = threading.Timer(SECONDS, cursor.interrupt)
        late.start()
        try:
            found = _fetched(cursor.execute(text))
            columns = tuple(_column(name, _kind(str(kind))) for name, kind, *_ in cursor.description or ())
        except duckdb.InterruptException:
            raise OperationalError("this query of the system catalogue takes too long", code="interrupted") from None
        except (duckdb.Error, RecursionError):
            raise _unanswered() from None
        finally:
            late.cancel()
            cursor.close()
        return CatalogAnswer(columns=columns, rows=[tuple(map(_value, row)) for row in found])

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._shared.give_back(self._mark)


def _column(name: str, kind: str) -> ColumnOnWire:
    """A column of an answer. DuckDB has no type for oids, so a list of them is recognised by its name alone. Drivers read such
    lists before they know any other type of list."""
    return ColumnOnWire(name=name, kind="OID[]" if kind == "BIGINT[]" and name.endswith("oids") else kind)


def _fetched(cursor: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """The rows of an answer, one by one. Raises Unsupported if they are too many or too long."""
    if len(cursor.description or ()) > MOST_COLUMNS:
        raise _unanswered()
    found: list[tuple[Any, ...]] = []
    letters = 0
    while (row := cursor.fetchone()) is not None:
        found.append(row)
        letters += sum(len(value) for value in row if isinstance(value, str | list))
        if len(found) > MOST_ROWS or letters > MOST_LETTERS:
            raise Unsupported(f"the system catalogue gives at most {MOST_ROWS:,} rows, with {MOST_LETTERS:,} letters in all",
                              code="catalogue", try_="LIMIT")
    return found


def _unanswered() -> Unsupported:
    return Unsupported("this query of the system catalogue is not answered", code="catalogue",
                       try_="SHOW TABLES, or DESCRIBE and a table")


def parameter_kinds(tree: exp.Query, given: Sequence[str | None]) -> tuple[str, ...]:
    """The types of the parameters of a query: those given, or those of a cast; otherwise text."""
    found: dict[int, str] = {}
    for node in tree.find_all(exp.Parameter):
        number = int(node.name) if node.name.isdigit() else 0
        if number < 1:
            raise SqlError("parameters are numbered", code="parameter", try_="$1")
        parent = node.parent
        told = _cast_kind(parent.to) if isinstance(parent, exp.Cast) else (
            "BIGINT" if isinstance(parent, exp.Limit | exp.Offset) else "VARCHAR")
        found.setdefault(number, told.replace("INT2VECTOR", "BIGINT[]"))
    count = max([*found, len(given)], default=0)
    kinds = ((given[i] if i < len(given) else None) or found.get(i + 1, "VARCHAR") for i in range(count))
    return tuple(kind.replace("NUMERIC", "DECIMAL") for kind in kinds)


def _cast_kind(to: exp.Expr) -> str:
    """The kind of a parameter that is cast."""
    if type_name(to) == "_oid":
        return "OID[]"
    return _kind(str(to.sql(dialect="duckdb")))


_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "INT", "UTINYINT", "USMALLINT", "UINTEGER", "OID")


def _kind(kind: str) -> str:
    """The kind on the wire of a type of DuckDB; what has none is shown as a text."""
    plain = kind.upper().split("(")[0]
    if plain == "SMALLINT[]":
        return "INT2VECTOR"
    if kind.endswith("[]"):
        inner = f"{_kind(kind.removesuffix('[]'))}[]"
        return inner if inner in LIST_OIDS else "VARCHAR[]"
    if plain in _WHOLE:
        return "BIGINT"
    if plain in ("HUGEINT", "UBIGINT", "UHUGEINT"):
        return "HUGEINT"
    if plain in ("DECIMAL", "NUMERIC"):
        return "DECIMAL"
    if plain in ("DOUBLE", "FLOAT", "REAL", "DOUBLE PRECISION"):
        return "DOUBLE"
    if plain.startswith("TIMESTAMP"):
        return "TIMESTAMP"
    return plain if plain in ("BOOLEAN", "DATE") else "VARCHAR"


def _value(value: object) -> object:
    """A value as its kind is: structures as PostgreSQL writes them."""
    if isinstance(value, bool | int | float | str | dt.date | Decimal) or value is None:
        return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return "(" + ",".join("" if each is None else str(each) for each in value.values()) + ")"
    return str(value)
