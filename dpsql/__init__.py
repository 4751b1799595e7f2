"""dpsql: SQL over confidential tables, answered with differential privacy.

>>> import dpsql
>>> con = dpsql.connect("people.duckdb", policy="dpsql.toml", epsilon=0.5)  # doctest: +SKIP
>>> con.execute("SELECT sex, AVG(income) FROM people GROUP BY sex").df(errors=True)  # doctest: +SKIP
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.dbapi import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Connection,
        Cursor,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
        apilevel,
        connect,
        incidents,
        paramstyle,
        prepare,
        refresh,
        reopen,
        threadsafety,
    )
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

if sys.platform == "win32":
    raise ImportError("dpsql does not run on Windows, which lacks the file locks and permissions that protect its ledger. "
                      "Run it in the Windows Subsystem for Linux (wsl --install), or connect from Windows to `dpsql serve`.")


def load_ipython_extension(shell: object) -> None:
    """Run by `%load_ext dpsql`: lets notebook cells contain statements; see `dpsql.notebooks`."""
    import_module("dpsql.notebooks").load(shell)


def __getattr__(name: str) -> Any:
    """The names of this package, which are imported when they are first used: `import dpsql` alone costs nothing."""
    if name in ("errors", "dbapi"):
        return import_module(f"dpsql.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    home = import_module("dpsql.errors")
    value = getattr(home if hasattr(home, name) else import_module("dpsql.dbapi"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "BudgetExhausted",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "Incident",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "LedgerError",
    "NotSupportedError",
    "OperationalError",
    "OptionError",
    "PolicyError",
    "ProgrammingError",
    "SqlError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Unsupported",
    "Warning",
    "apilevel",
    "connect",
    "incidents",
    "paramstyle",
    "prepare",
    "refresh",
    "reopen",
    "threadsafety",
]
