"""What auditors and owners see of a budget beyond their own account.

`vault_calls.may_call` decides, in the vault and at each call, who may call this. No function here reads rows or returns an
answer. The results depend on rows only where the ledger does: through statements that failed after their charge and outcomes
that left late. The owner limits the number of both for each analyst (`incidents`, `late`). The cause of a failure may depend on
rows without limit, so it is left out (`vault`): the proof in `kernel.chain` bounds how often it is seen that a statement of an
account failed, and covers no cause. An attacker who controls the front would read what the page of an owner shows, so this page
has no causes either; `dpsql budget` shows them on the owner's machine.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from pathlib import Path

from dpsql.catalog.model import Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import find_ledger
from dpsql.engine.promises import check_promises
from dpsql.errors import Error
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import Entry, ListTerms, ReportingLedger
from dpsql.server.link.told_to_overseers import CheckOutcome, ListedStatements, StoppedStatements
from dpsql.server.link.vault_calls import WITHHELD


def without_answer(entry: Entry) -> Entry:
    return replace(entry, body=None if entry.body is None else WITHHELD)


def listed(ledger: ReportingLedger, budget: str, analyst: str, text: str, outcome: str, since: str, until: str, before: int,
           most: int) -> ListedStatements:
    """The newest `most` statements of a budget that match every given term and come before the charge `before` (0: all)."""
    first, last = (dt.datetime.fromisoformat(each) if each else None for each in (since, until))
    terms = ListTerms(analyst=analyst, text=text, outcome=outcome, since=first, until=last)
    entries, found = ledger.page(budget, most + 1, terms, before)
    page = tuple(map(without_answer, entries[:most]))
    return ListedStatements(entries=page, found=found, before=page[-1].seq if len(entries) > most else 0)


def stopped(ledger: ReportingLedger, budget: str) -> list[StoppedStatements]:
    """How many statements of each analyst were stopped, by cause.

    The causes reveal no more than that the statements were stopped, which is listed as well: the front itself gives the cause
    of an interruption, and that files of the database were changed is told to the analyst, and is an act of the owner.
    """
    counts = Counter((stop.account.analyst, stop.cause) for stop in ledger.stops(budget))
    return [StoppedStatements(analyst=analyst, cause=cause, number=counts[analyst, cause]) for analyst, cause in sorted(counts)]


def checks(policy: Path) -> tuple[CheckOutcome, ...]:
    """Read the policy again, compare it with what charges have promised, and verify every event of the ledger. Only the outcomes
    are returned: details may name files of the owner, who finds them with the command in the outcome."""
    try:
        declared = read_policy(policy)
    except Error:
        return (CheckOutcome(name="policy", fine=False, words="The policy cannot be read; dpsql check says why."),)
    found = [CheckOutcome(name="policy", fine=True, words="The policy can be read."), _pace(declared.pace)]
    try:
        with contextlib.closing(ReportingLedger(*find_ledger(declared), whole=True)) as ledger:
            events, _ = ledger.events, ledger.shared()
            found.append(CheckOutcome(name="ledger", fine=True, words=f"All {events:,} events of the ledger were verified, each "
                                      "linked to the one before it, including all that its anchor has recorded."))
            found.append(_promise(declared, ledger))
    except Error:
        found.append(CheckOutcome(name="ledger", fine=False, words="The ledger cannot be verified; dpsql ledger verify "
                                  "says why."))
    return tuple(found)


def _pace(pace: float | None) -> CheckOutcome:
    if pace is None:
        return CheckOutcome(name="pace", fine=False, words='With pace = "none", the time that a statement takes can reveal '
                            "something about rows; a pace in the policy hides this.")
    return CheckOutcome(name="pace", fine=True, words=f"Answers leave {1000 * pace:g} ms after the request, or 2, 4, 8 "
                        "... times as late.")


def _promise(declared: Policy, ledger: ReportingLedger) -> CheckOutcome:
    try:
        check_promises(declared, ledger)
    except Error:
        return CheckOutcome(name="promise", fine=False, words="The policy changes what earlier charges protect; dpsql budget "
                                                              "--accept-change explains how.")
    return CheckOutcome(name="promise", fine=True, words="The policy protects all that it protected when statements "
                        "were charged.")
