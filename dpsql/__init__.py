"""dpsql: SQL over confidential tables, answered with differential privacy.

>>> import dpsql
>>> con = dpsql.connect("people.duckdb", policy="dpsql.toml", epsilon=0.5)  # doctest: +SKIP
>>> con.execute("SELECT sex, AVG(income) FROM people GROUP BY sex").df(errors=True)  # doctest: +SKIP
"""

from dpsql.dbapi import BINARY, DATETIME, NUMBER, ROWID, STRING, Connection, Cursor, apilevel, connect, paramstyle, threadsafety
from dpsql.errors import (
    BudgetExhausted,
    DatabaseError,
    DataError,
    Error,
    Incident,
    IntegrityError,
    InterfaceError,
    InternalError,
    LedgerError,
    NotSupportedError,
    OperationalError,
    OptionError,
    PolicyError,
    ProgrammingError,
    SqlError,
    Unsupported,
    Warning,
)

__version__ = "0.1.0"
__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "BudgetExhausted", "Connection", "Cursor", "DataError", "DatabaseError",
    "Error", "Incident", "IntegrityError", "InterfaceError", "InternalError", "LedgerError", "NotSupportedError",
    "OperationalError", "OptionError", "PolicyError", "ProgrammingError", "SqlError", "Unsupported", "Warning", "apilevel",
    "connect", "paramstyle", "threadsafety",
]
