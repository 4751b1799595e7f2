"""Connections to databases of other kinds, through the drivers of ADBC, which deliver rows as streams of Arrow batches.

What a driver says of a fault may hold a password, or a value of a row. So none of it is shown: an error says what was tried, and
the standard's code of five characters (SQLSTATE) where there is one.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator
from typing import Any

import duckdb

from dpsql.backends.dialects import DIALECTS, Dialect
from dpsql.backends.duckdb import SMALL, connected
from dpsql.catalog.database_uris import file_of, place_of, scheme_of
from dpsql.errors import OperationalError

WRONG = (  # what drivers say where no connection can be made, why that is, and what helps
    (r"password|authenticat|pg_hba|role .* does not exist|Incorrect username", "it does not accept the user or the password",
     "the user in the URI, and the password in ~/.pgpass, PGPASSWORD, or the variable that [store.passwords] names"),
    (r"translate host name|no such host|Name or service not known", "its host is unknown", "the name of the host in the URI"),
    (r'database ".*" does not exist', "there is no such database there", "the name of the database in the URI"),
    (r"refused|time(d )?out|unreachable|No such file|Is the server running", "nobody answers there",
     "host and port in the URI, and whether the server runs"),
)


class DriverFault(Exception):
    """A database refused a statement. `code` is the standard's code of the reason, or empty."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code


class SourceDatabase:
    """An open database of another kind, in one transaction if it has such."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self._connection, self.dialect = connection, dialect
        self._open: list[Any] = []  # what has to be closed before the connection, or it stays open
        self._engine = connected(config=SMALL)  # which reads the few rows of catalogs

    def stream(self, sql: str) -> Any:
        """The rows of a query, as a stream of Arrow batches that is read once. Raises DriverFault."""
        from adbc_driver_manager import AdbcStatement, Error

        code: str | None = None
        try:
            statement = AdbcStatement(self._connection)
            self._open.append(statement)
            statement.set_sql_query(sql)
            found, _ = statement.execute_query()
            return found
        except Error as fault:
            code = fault.sqlstate or ""
        raise DriverFault(code)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query on the catalog. Raises DriverFault."""
        found = self.stream(sql)
        with contextlib.suppress(duckdb.Error):
            rows: list[tuple[Any, ...]] = self._engine.from_arrow(found).fetchall()
            return rows
        raise DriverFault("")

    def rows_or_none(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query on the catalog; none if the database refuses it."""
        with contextlib.suppress(DriverFault):
            return self.rows(sql)
        return []

    def begin(self) -> None:
        """Begin a transaction that sees one version of all tables. Raises DriverFault."""
        from adbc_driver_manager import AdbcStatement, Error

        code: str | None = None
        try:
            for sql in self.dialect.begin:
                statement = AdbcStatement(self._connection)
                statement.set_sql_query(sql)
                statement.execute_update()
                statement.close()
        except Error as fault:
            code = fault.sqlstate or ""
        if code is not None:
            raise DriverFault(code)

    def close(self) -> None:
        self._engine.close()
        for each in (*self._open, self._connection):
            with contextlib.suppress(Exception):  # it is only read from, and was interrupted perhaps
                each.close()


@contextlib.contextmanager
def opened(uri: str, password: str | None, subject: str) -> Iterator[SourceDatabase]:
    """A database in a transaction. Raises OperationalError about `subject` if its driver is missing or it cannot be opened."""
    dialect = DIALECTS[scheme_of(uri) or ""]
    source = SourceDatabase(connection(dialect, uri, password, subject), dialect)
    try:
        begun = _begun(source)
        if not begun:
            raise OperationalError(f"{place_of(uri)} cannot start reading", code="no-database", subject=subject,
                                   try_="a readable database of a supported version")
        unfit = source.rows_or_none(dialect.unfit) if dialect.unfit else []
        if unfit:
            raise OperationalError(f"{place_of(uri)} cannot be read: {unfit[0][0]}", code="no-database", subject=subject,
                                   try_="a copy of it in UTF-8")
        yield source
    finally:
        source.close()


def _begun(source: SourceDatabase) -> bool:
    with contextlib.suppress(DriverFault):
        source.begin()
        return True
    return False


def connection(dialect: Dialect, uri: str, password: str | None, subject: str) -> Any:
    """A connection of a driver. Raises OperationalError."""
    file = file_of(uri)
    if file is not None and not file.is_file():
        raise OperationalError(f"there is no file {file}", code="no-database", subject=subject,
                               try_="its path: sqlite:///file.sqlite beside the policy, or sqlite:////whole/path.sqlite")
    driver = _driver(dialect, subject)
    told: str | None = None
    from adbc_driver_manager import AdbcConnection, AdbcDatabase, Error

    try:
        return AdbcConnection(AdbcDatabase(driver=driver, **dialect.options(uri, password)))
    except Error as fault:
        told = str(fault)
    unknown = "", "the connection failed", "the same URI in a client of that database"
    _, reason, try_ = next((one for one in WRONG if re.search(one[0], told)), unknown)
    raise OperationalError(f"{place_of(uri)} cannot be opened: {reason}", code="no-database", subject=subject, try_=try_)


def _driver(dialect: Dialect, subject: str) -> str:
    """The file of a driver. Raises OperationalError if it is not installed."""
    with contextlib.suppress(ImportError):
        importlib.import_module("adbc_driver_manager")
        return str(importlib.import_module(dialect.module)._driver_path())
    raise OperationalError(f"reading this database needs the package {dialect.package}, which is not installed", code="no-driver",
                           subject=subject, try_=f"pip install 'dpsql[{dialect.extra}]'")
