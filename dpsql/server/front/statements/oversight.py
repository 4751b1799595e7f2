"""SHOW SPENDING and SHOW ANALYSTS: who asked what, what it cost, and what is left, for auditors and owners.

They are of the server alone, as roles are; which role may see them is decided in the vault. Each is one table, of numbers where
there are some, so that programs can read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsql.answers.spending import BudgetLine
from dpsql.dbapi import Connection
from dpsql.errors import Unsupported
from dpsql.server.front.statements.remote_session import RemoteLedger
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire
from dpsql.server.link.vault_calls import AccountState
from dpsql.trusted.accounting.cost import ATTO, NANO, Charge

PRICE = tuple((name, "DOUBLE") for name in ("epsilon", "rho", "delta"))
LISTINGS = {
    "SPENDING": (("number", "BIGINT"), ("at", "VARCHAR"), ("analyst", "VARCHAR"), *PRICE, ("outcome", "VARCHAR"),
                 ("statement", "VARCHAR")),
    "ANALYSTS": (("analyst", "VARCHAR"), ("statements", "BIGINT"), *PRICE, ("budget", "VARCHAR"), ("share_spent", "DOUBLE"),
                 ("failed", "BIGINT"), ("may_fail", "BIGINT"), ("waits_seconds", "DOUBLE"))}


def listing_named(text: str) -> str | None:
    """The name of the listing that a statement requests."""
    words = text.strip().removesuffix(";").upper().split()
    return words[1] if len(words) == 2 and words[0] == "SHOW" and words[1] in LISTINGS else None


def columns_of(listing: str) -> tuple[ColumnOnWire, ...]:
    return tuple(ColumnOnWire(name=name, kind=kind) for name, kind in LISTINGS[listing])


def rows_of(listing: str, connection: Connection) -> Sequence[tuple[Any, ...]]:
    """The rows of a listing. Raises OperationalError for a role that may not see it."""
    ledger: object = connection.session.ledger
    if not isinstance(ledger, RemoteLedger):
        raise Unsupported("roles exist only on a server", code="role", try_="SHOW RELEASES, or dpsql budget")
    if listing == "SPENDING":
        return [(entry.seq, entry.at, entry.account.analyst, *price_in_numbers(entry.charge),
                 entry.outcome, entry.sql) for entry in ledger.everything()]
    return [(state.analyst, state.statements, *price_in_numbers(state.spent), *_limit(state),
             *((None,) * 3 if state.analyst is None else (state.failed, state.incidents, state.waits)))
            for state in ledger.accounts()]


def _limit(state: AccountState) -> tuple[str | None, float | None]:
    """The limit of an account, and the share of it that is spent, where there is one."""
    if state.total is None:
        return None, None
    return str(state.total), float(1 - BudgetLine(whose=state.analyst, total=state.total, spent=state.spent).share_left)


def price_in_numbers(charge: Charge) -> tuple[float | None, float, float]:
    """The epsilon, rho and delta of a charge; epsilon is None if it is not bounded."""
    return None if charge.epsilon is None else charge.epsilon / NANO, charge.rho / NANO, charge.delta / ATTO
