"""Errors of dpsql in the terms of PostgreSQL: SQLSTATE, message, hint, and the place as a number of a character.

A budget that cannot pay is 53400, configuration_limit_exceeded: of the codes of PostgreSQL it says best that an administrator set
a limit, and drivers make an OperationalError of its class, which is what it is in Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpsql import errors
from dpsql.errors import Error
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire

BY_CODE: Mapping[str, str] = {
    "unknown-table": "42P01", "undeclared-table": "42P01", "outside-table": "42P01",
    "unknown-column": "42703", "undeclared-column": "42703", "ambiguous-column": "42702",
    "type": "42804", "cast": "42846", "unknown-function": "42883", "group-by": "42803", "aggregate-here": "42803",
    "parameter": "42P02", "parameters": "42P02", "alias": "42712", "interrupted": "57014", "cancelled": "57014",
    "closed": "08003",
    "unknown-setting": "42704", "user": "28000", "bad-setting": "22023", "data-changed": "55000", "account-busy": "53300",
    "role": "42501", "naming": "55006", "login-busy": "53300", "answer-size": "54000",
}
BY_CLASS: tuple[tuple[type[Error], str], ...] = (
    (errors.BudgetExhausted, "53400"), (errors.LedgerError, "58000"), (errors.Incident, "XX000"),
    (errors.InternalError, "XX000"), (errors.NotSupportedError, "0A000"), (errors.OptionError, "22023"),
    (errors.PolicyError, "F0000"), (errors.DataError, "22000"),
    (errors.SqlError, "42601"), (errors.ProgrammingError, "42000"), (errors.IntegrityError, "23000"),
    (errors.OperationalError, "58000"), (errors.InterfaceError, "08000"), (errors.DatabaseError, "XX000"))


def refusal_on_wire(fault: Error, text: str) -> RefusedOnWire:
    """The error of a statement with this text."""
    here = fault.span is not None and fault.text in ("", text)
    source = "" if fault.source == "SQL" or not fault.source else f"in {fault.source}"
    state = "42601" if _is_no_statement(fault, text) else state_of(fault)
    return RefusedOnWire(fault.reason, sqlstate=state, severity="FATAL" if state == "28000" else "ERROR", detail=source,
                         hint=f"try {fault.try_}" if fault.try_ else "",
                         position=fault.span.start + 1 if here and fault.span is not None and text else None)


_WORDS = frozenset(re.findall(
    r"\w+", "ABORT ALTER ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DELETE "
    "DISCARD DO DROP END EXECUTE EXPLAIN FETCH GRANT IMPORT INSERT LISTEN LOAD LOCK MERGE MOVE NOTIFY PREPARE REASSIGN REFRESH "
    "REINDEX RELEASE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SELECT SET SHOW START TABLE TRUNCATE UNLISTEN UPDATE VACUUM "
    "VALUES WITH"))
"""The words with which a statement of PostgreSQL can begin; any other is a syntax error there."""


def _is_no_statement(fault: Error, text: str) -> bool:
    first = re.match(r"[\s(]*(\w+)", text)
    return fault.code == "not-a-query" and first is not None and first[1].upper() not in _WORDS


def state_of(fault: Error) -> str:
    """The SQLSTATE of an error: by its code, or otherwise by its class."""
    return BY_CODE.get(fault.code) or next((state for kind, state in BY_CLASS if isinstance(fault, kind)), "XX000")


def cancelled(*, late: bool = False, charged: str | None = None) -> RefusedOnWire:
    """The error of a statement that was cancelled, or was `late`; after its charge, if `charged` is given."""
    why = "statement timeout" if late else "user request"
    if charged is None:
        return RefusedOnWire(f"canceling statement due to {why}", sqlstate="57014", detail="Nothing was charged.")
    return RefusedOnWire(f"canceling statement due to {why}", sqlstate="57014",
                         detail=f"The statement was charged before ({charged}), and the charge is kept.",
                         hint="SHOW BUDGET shows what is left")
