"""Compares what a policy promises with what the charges in a ledger promised, and refuses what the owner has not accepted.

`catalog.promise` decides what differs; `kernel.ledger` keeps the records. This module is called whenever a ledger is opened to
serve: before any statement, and again by the ledger in the turn in which something is recorded.

A change is refused if statements were charged under the promise that it changes. While none was, it takes effect at once, but for
tables that were public: whoever was connected could read them without a charge.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from dpsql.catalog.model import Budget, Policy, TablePolicy
from dpsql.catalog.promise import CLOSED, PROTECTED, Change, Promise, changes, extended, left_out, may_be_in, promise_of, replaced
from dpsql.catalog.sections import locate
from dpsql.errors import LedgerError, PolicyError
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.kernel.ledger import Promised

KEYS = {"unlinked": "foreign_keys", "linked": "foreign_keys", "key": "key", "type": "columns", "format": "csv",
        "periods": "grows_by", "calendar": "period"}
"""The key of a table in the policy that a kind of change is about, if it is not `public`."""


class Difference(Frozen):
    """A change of what the charges of a budget promised: `charged` is how many statements that concerns."""

    budget: str
    change: Change
    entity: str
    charged: int

    @property
    def costs(self) -> bool:
        """Whether something was revealed under the earlier promise."""
        return self.charged > 0 or self.change.kind == "withdrawn"


@dataclasses.dataclass(slots=True, kw_only=True)
class Comparison:
    """The promise of one budget of a policy, compared with the records of a ledger, which may change in between. `accepted` holds
    the differences that the owner accepts; `notes` say what the last comparison will record."""

    policy: Policy
    budget: Budget
    ledger: ReportingLedger
    accepted: Sequence[Difference] = ()
    notes: list[str] = dataclasses.field(default_factory=list)

    def due(self, records: Mapping[str, Promised]) -> dict[str, tuple[str, bool]]:
        """The records to make, as `Ledger.rely_on` expects them. Raises PolicyError if a difference is not accepted."""
        self.notes.clear()
        found = self.differences(records)
        accepted = {(one.budget, one.change) for one in self.accepted}
        refused = [one for one in found if one.costs and (one.budget, one.change) not in accepted]
        if refused:
            raise self._refusal(refused)
        due = {}
        for name in {one.budget for one in found}:
            changed = replaced(read(records[name]), self._now(name), of_another=name != self.budget.name)
            due[name] = self._recorded(name, changed, True)
        if self.budget.name not in due:
            due |= self._own(records.get(self.budget.name))
        return due

    def differences(self, records: Mapping[str, Promised]) -> list[Difference]:
        """All differences between the policy and what the ledger's charges promised, those of this budget first."""
        own, found = self.budget.name, []
        for name in sorted(records, key=lambda name: (name != own, name)):
            record = read(records[name])
            found += [Difference(budget=name, change=change, entity=record.entity, charged=_charged(self.ledger, name))
                      for change in changes(record, self._now(name), of_another=name != own)]
        return found

    def _now(self, name: str) -> Promise:
        return promise_of(self.policy, self.policy.budgets.get(name, self.budget))

    def _own(self, kept: Promised | None) -> dict[str, tuple[str, bool]]:
        """What is to be recorded of this budget where nothing is to be accepted."""
        name, now = self.budget.name, self._now(self.budget.name)
        if kept is None:
            if charged := _charged(self.ledger, name):
                self.notes.append(f"{_statements(charged)} charged to the budget {name} before ledgers kept what charges "
                                  f"protect; it is assumed that they protect {now.protected}, and kept from now on")
            return {name: self._recorded(name, now, True)}
        record = read(kept)
        if (longer := extended(record, now)) == record:
            return {}
        self.notes += [_addition(change, now.entity) for change in additions(record, now) if change.kind != "new"]
        return {name: self._recorded(name, longer, False)}

    def _recorded(self, name: str, promise: Promise, changed: bool) -> tuple[str, bool]:
        return json.dumps({"charged": _charged(self.ledger, name), "promise": promise.as_values()}), changed

    def _refusal(self, refused: Sequence[Difference]) -> PolicyError:
        path = _place(self.policy, self.budget, refused[0])
        return PolicyError(
            f"{'.'.join(path)}: {'; '.join(in_words(refused))}", code="promise-changed", subject=".".join(path),
            text=self.policy.text, source=self.policy.path, span=locate(self.policy.text, path),
            try_=f"the earlier policy; or, if the change is intended, dpsql budget --budget {self.budget.name} --accept-change")


def check_promise(policy: Policy, budget: Budget, ledger: ReportingLedger) -> None:
    """Raise PolicyError if a policy breaks what charges promised, and the owner has not accepted that. Records nothing."""
    Comparison(policy=policy, budget=budget, ledger=ledger).due(ledger.promised())


def check_promises(policy: Policy, ledger: ReportingLedger) -> None:
    """Raise PolicyError as `check_promise` does, for any budget of a policy."""
    for budget in policy.budgets.values():
        check_promise(policy, budget, ledger)


def check_views(policy: Policy, reads: Callable[[TablePolicy], frozenset[str]], ledger: ReportingLedger) -> None:
    """Raise PolicyError if a public view reads a table that charges protected but the policy no longer mentions. `reads` names
    the tables that a public one reads; it is called only if such a table exists."""
    missing = [(budget, name, table) for budget, kept in ledger.promised().items()
               for name, table in left_out(read(kept), policy).items()]
    for public in (table for table in policy.tables.values() if table.public and missing):
        names = reads(public)
        for budget, name, table in missing:
            if may_be_in(table, policy, names, public.source):
                path = ("tables", public.name)
                raise PolicyError(
                    f"{'.'.join(path)} is a view that reads {name}, which the budget {budget} protected when "
                    f"{_statements(_charged(ledger, budget))} charged", code="promise-changed", subject=".".join(path),
                    text=policy.text, source=policy.path, span=locate(policy.text, path),
                    try_="a table made from it, if everybody may see all of its rows as they are")


def rely_on_promise(policy: Policy, budget: Budget, ledger: ReportingLedger) -> list[str]:
    """Let a ledger charge under the promise of a budget, which is recorded if it is new. Returns notes about it. Raises
    PolicyError as `check_promise` does, and LedgerError."""
    compared = Comparison(policy=policy, budget=budget, ledger=ledger)
    ledger.rely_on(budget.name, compared.due)
    return compared.notes


def not_accepted(policy: Policy, budget: Budget, ledger: ReportingLedger) -> list[Difference]:
    """The changes of a policy that break what charges promised, and that the owner has not accepted."""
    found = Comparison(policy=policy, budget=budget, ledger=ledger).differences(ledger.promised())
    return [one for one in found if one.costs]


def accept(policy: Policy, budget: Budget, ledger: ReportingLedger, shown: Sequence[Difference]) -> None:
    """Record that the owner accepts the differences that were shown. Raises PolicyError if there are others by now."""
    ledger.rely_on(budget.name, Comparison(policy=policy, budget=budget, ledger=ledger, accepted=shown).due)


def history(ledger: ReportingLedger, budget: str) -> list[str]:
    """What the charges of a budget promised, and since when, oldest first. For the owner. Empty if nothing is recorded."""
    kept, found = ledger.promised().get(budget), list[Promised]()
    while kept is not None:
        found.insert(0, kept)
        kept = ledger.promised_before(kept)
    if not found:
        return []
    lines = [f"{_when(found[0])}: protects {read(found[0]).protected}"]
    if charged := _charged_before(found[0]):
        lines[0] += f"; this was recorded after {_statements(charged)} charged, and it is assumed that they protect the same"
    for old, new in pairwise(found):
        before, now, charged = read(old), read(new), _charged_before(new)
        for change in changes(before, now) if new.changed else ():
            told = meaning(Difference(budget=budget, change=change, entity=before.entity, charged=charged))
            lines.append(f"{_when(new)}, after {_statements(charged)} charged: {told}")
        if not new.changed:
            lines += [f"{_when(new)}: {added}" for change in additions(before, now) if (added := _addition(change, now.entity))]
    return lines


def recorded_elsewhere(policy: Policy, budget: Budget) -> str:
    """The promise of a budget, as text for the register of data that are served."""
    return json.dumps(promise_of(policy, budget).as_values())


def compared_with(policy: Policy, budget: Budget, promise: str) -> str:
    """What follows, in words, from charges to the same data under another ledger with this promise; "" if that is unknown."""
    try:
        other = Promise.from_values(json.loads(promise))
    except (AttributeError, LookupError, TypeError, ValueError):
        return ""
    now = promise_of(policy, budget)
    told = [meaning(Difference(budget=budget.name, change=change, entity=other.entity, charged=0))
            for change in changes(other, now, of_another=True)]
    same = other.kinds == now.kinds
    told.insert(0, "what both reveal about one of them is bounded by the sum of both budgets" if same else
                f"it protected {other.protected}, which gives no bound for {now.protected}, nor the reverse")
    return "; ".join(told)


def read(kept: Promised) -> Promise:
    """A recorded promise. Raises LedgerError if it was written by a later version in another form."""
    try:
        return Promise.from_values(json.loads(kept.text)["promise"])
    except (AttributeError, LookupError, TypeError, ValueError):
        raise LedgerError("the ledger keeps what charges protect in a form that this version does not provide",
                          code="ledger-version", try_="the version of dpsql that was used before, or a newer one") from None


def additions(record: Promise, now: Promise) -> list[Change]:
    """The changes of a policy that do not affect earlier charges and are not yet recorded."""
    found = []
    for name, table in now.tables.items():
        old = record.tables.get(name)
        if old is None:
            found.append(Change(kind="new", table=name, now=table.state))
        elif old.state != table.state:
            found.append(Change(kind="opened", table=name, before=old.state, now=table.state))
        elif not table.places & old.places:
            found.append(Change(kind="moved", table=name))
    return found + [Change(kind="delta", before=" and ".join(sorted(record.delta)), now=use)
                    for use in sorted(now.delta - record.delta)]


# -- in words


def in_words(found: Sequence[Difference]) -> list[str]:
    """Differences, by budget, each with an explanation."""
    charged = {one.budget: one.charged for one in found}
    return [f"this changes what the budget {name} promised {f'when {_statements(number)} charged' if number else 'before'}: "
            + "; ".join(dict.fromkeys(meaning(one) for one in found if one.budget == name)) for name, number in charged.items()]


def meaning(one: Difference) -> str:
    """One sentence that states a difference and explains what it means for people."""
    change, entity, table = one.change, one.entity, one.change.table
    match change.kind:
        case "entity":
            return (f"it protected {change.before}, and now protects {change.now}; the earlier charges do not bound what was "
                    "revealed about one of these")
        case "unlinked":
            return (f"the foreign key from {change.now} is gone; rows of {table} were protected together with the {entity} that "
                    "they refer to by it, and from now on they are not")
        case "linked":
            return (f"the foreign key from {change.now} is new; the earlier charges did not protect rows of {table} together "
                    f"with the {entity} that they refer to by it")
        case "key":
            now = f"now has the key ({change.now})" if change.now else "now has no key"
            return (f"{table} had the key ({change.before}), and {now}; the earlier charges depend on that key, and may reveal "
                    "more if rows share a value of it")
        case "type":
            return (f"{table}.{change.before} says which {entity} a row belongs to, and now is {change.now}; rows may belong to "
                    f"another {entity} than when they were protected")
        case "format":
            return (f"files of {table} were read {_read_as(change.before)}, and now are read {_read_as(change.now)}; rows may "
                    f"belong to another {entity} than when they were protected")
        case "periods":
            before = f"{table} grew by {change.before}" if change.before else f"{table} did not grow"
            if not change.now:
                return f"{before}, and now does not grow; charges for its rows are no longer limited by period"
            return (f"{before}, and now grows by {change.now}; the earlier charges are not counted in these periods, so more may "
                    f"have been revealed about one {entity} in one period than their limit says")
        case "calendar":
            gone = f"periods of {table} began on {change.before}, and now do not" if change.before else ""
            new = f"periods of {table} now begin on {change.now}, and did not" if change.now else ""
            return (f"{'; '.join(filter(None, (gone, new)))}; the earlier charges were counted in other periods, so more may "
                    f"have been revealed about one {entity} in one period than their limit says")
        case "unlimited":
            return f"what is spent on one {entity} in one period was limited, and now is not"
        case "shorter":
            return (f"what is spent on one {entity} in any {change.before} consecutive periods was limited, and now "
                    + (f"only in any {change.now}" if change.now else "is not"))
        case "published":
            return f"rows of {table} were protected, and now it is public: all who may ask can read them exactly"
        case "withdrawn":
            return (f"{table} was public, and now is private: all who could ask could read its rows exactly, which no budget "
                    "counts")
        case _:
            return (f"its claims were about databases in which {change.before}, and now are about those in which {change.now}; "
                    "the earlier charges do not bound that")


def _read_as(written: str) -> str:
    return f"with {written}" if written else "as files of their kind usually are"


def _addition(change: Change, entity: str) -> str:
    """What a policy adds, in words."""
    match change.kind:
        case "new":
            told = {PROTECTED: f"its rows are protected with the {entity} they refer to", CLOSED: "it is private"}
            return f"table {change.table} was added, and {told.get(change.now, 'it is public')}"
        case "opened":
            return f"table {change.table} could not be queried, and now it is {change.now}"
        case "moved":
            return f"rows of {change.table} come from another place than before; earlier charges count for them too"
        case _:
            return f"delta is for {change.now}, and was for {change.before}"


def _statements(number: int) -> str:
    return f"{number:,} statements were" if number > 1 else "1 statement was" if number else "no statement was"


def _when(kept: Promised) -> str:
    return kept.at[:16].replace("T", " ")


def _charged(ledger: ReportingLedger, budget: str) -> int:
    """How many statements were charged to a budget."""
    return sum(times for _, times in ledger.prices(budget))


def _charged_before(kept: Promised) -> int:
    return int(json.loads(kept.text)["charged"])


def _place(policy: Policy, budget: Budget, one: Difference) -> tuple[str, ...]:
    """Where in the policy a difference is."""
    change = one.change
    if change.kind == "unlimited":
        return "budgets", budget.name, "per_period"
    if change.kind == "shorter":
        return "budgets", budget.name, "in_any"
    if not change.table:
        return ("entities", budget.entity) if budget.entity == one.entity else ("budgets", budget.name, "entity")
    table = next((name for name in policy.tables if name.lower() == change.table.lower()), change.table)
    return "tables", table, KEYS.get(change.kind, "public")
