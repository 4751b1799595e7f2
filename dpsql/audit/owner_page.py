"""A page for the owner alone: who spent what, when and on which statements, what failed, whose account is open, and what the
policy does to the rows.

It is made from the policy and the ledger; the database is read only for what `dpsql check --rows` counts, where that is asked
for. Analysts must not see it: it tells what others asked, and which statements failed, and a failure may have to do with rows.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dpsql.answers.asked import day_and_minute
from dpsql.answers.bars import bars
from dpsql.answers.chart_svg import chart_html
from dpsql.answers.charted import Chart, Series
from dpsql.answers.display import number
from dpsql.answers.html_page import bullets, document, facts, figures, folded, heading, paragraph
from dpsql.answers.listing import Listing
from dpsql.answers.listings import listed_failures, listed_releases, listed_stops, slowed_in_words
from dpsql.answers.spending import REPORT_DELTA, BudgetLine
from dpsql.audit.policy_on_rows import PolicyOnRows
from dpsql.budgets.convert import limit
from dpsql.budgets.reports import tight_epsilon
from dpsql.budgets.room_left import percent, share_spent
from dpsql.catalog.model import Budget
from dpsql.engine.promises import history
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import Entry, Failure, ReportingLedger, Stop
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge

MOST_POINTS, MOST_DRAWN = 150, 8  # of a line, and analysts beside the sum


class BudgetBook(Frozen):
    """A budget and its entries in the ledger: `entries` and `failures` are oldest first, `asked` has the entries of each
    analyst and `paid` what they spent, `epsilon` is the least known for all that was released, at the delta `at_delta`,
    `closed` has the analysts whose accounts incidents closed, and `slowed` those who asked too much that was late, with the first
    step at which their outcomes leave. `promised` says what the charges protected, where that was changed."""

    budget: Budget
    entries: tuple[Entry, ...]
    asked: Mapping[str, Sequence[Entry]]
    paid: Mapping[str, Charge]
    failures: tuple[Failure, ...]
    stops: tuple[Stop, ...]
    spent: Charge
    epsilon: float | None
    at_delta: float
    closed: frozenset[str]
    slowed: Mapping[str, int]
    promised: tuple[str, ...] = ()

    @property
    def whole(self) -> BudgetLine:
        return BudgetLine(whose=None, total=self.budget.total, spent=self.spent)

    @property
    def analysts(self) -> list[str]:
        """All analysts who asked or are named in the policy."""
        return sorted({*self.asked, *(self.budget.listed or ()), *self.budget.analysts})

    def share(self, analyst: str) -> float:
        """The part of the whole budget that an analyst spent."""
        return float(share_spent(limit(self.budget.total), self.paid.get(analyst, NOTHING)))

    def own(self, analyst: str) -> BudgetLine | None:
        """The account of an analyst who has a limit of their own; None for others."""
        total = self.budget.of(analyst)
        return None if total is None else BudgetLine(whose=analyst, total=total, spent=self.paid.get(analyst, NOTHING))


def book_of(budget: Budget, ledger: ReportingLedger) -> BudgetBook:
    """Read a budget's entries again from the ledger."""
    failures = ledger.failures(budget.name)
    entries = ledger.entries(budget.name)
    spent, at = ledger.spent(budget.name), float(budget.total.delta / 2) or REPORT_DELTA
    asked = defaultdict[str, list[Entry]](list)
    for entry in entries:
        asked[entry.account.analyst].append(entry)
    accounts = {name: Account(budget=budget.name, analyst=name) for name in asked}
    closed = frozenset(name for name, account in accounts.items() if len(ledger.failed(account)) >= budget.incidents)
    slowed = {name: first for name, account in accounts.items() if (first := ledger.first_step(account, budget.late))}
    promised = tuple(history(ledger, budget.name))
    return BudgetBook(budget=budget, entries=tuple(entries), asked=dict(asked), failures=tuple(failures),
                      stops=tuple(ledger.stops(budget.name)), spent=spent,
                      paid={name: ledger.spent(budget.name, name) for name in asked}, at_delta=at, closed=closed, slowed=slowed,
                      promised=promised if len(promised) > 1 else (),
                      epsilon=tight_epsilon(spent, ledger.prices(budget.name), at))


def owner_page(books: Sequence[BudgetBook], *, policy: str, events: int, at: dt.datetime, notes: Sequence[str] = (),
               found: PolicyOnRows | None = None) -> str:
    """The page as text; `policy` is the name of the policy file, `events` the number of events in the ledger, `found` the effects
    of the policy on the rows."""
    title = "What was spent, and on what"
    parts = [heading(1, title), f"<p class=owners>{_marking(found)}</p>",
             facts([("policy", policy), ("date", day_and_minute(at)),
                    ("ledger", f"{events:,} events, each linked to the one before it")]),
             *(paragraph(note) for note in notes)]
    for book in books:
        parts += _budget(book)
    parts += _on_rows(found) if found is not None else ()
    return document(title, parts, "bars", "charts", "owner")


def _marking(found: PolicyOnRows | None) -> str:
    told = "Confidential, for the owner of the data alone. It shows what every analyst asked, and which statements failed."
    return told if found is None else f"{told} The end of the page shows exact counts of the private rows, without noise."


def _budget(book: BudgetBook) -> Iterator[str]:
    """One budget: the whole, over time, by analyst, and what failed."""
    budget, whole = book.budget, book.whole
    yield heading(2, f"Budget {budget.name}: {budget.total}, protects each {budget.entity}")
    yield bars([("all analysts", float(1 - whole.share_left), whole.words())])
    if book.epsilon is not None:
        yield paragraph(f"All releases together cost ε = {book.epsilon:.4g} at δ = {book.at_delta:.3g}.", "dim")
    yield from map(paragraph, book.promised)
    if not book.entries:
        yield paragraph("Nothing was charged so far.")
    else:
        yield chart_html(_over_time(book))
    if book.analysts:
        yield "<h3>By analyst</h3>"
        yield figures(("analyst", "state", "statements", "failed", "spent of the whole", "left of their own", "last asked"),
                      (_analyst(book, name) for name in book.analysts), texts=(0, 1))
    yield from _failed(book)
    yield from _stopped(book)
    if book.entries:
        charged = sum(entry.told is None for entry in book.entries)
        shared = f" and every answer that was shared ({len(book.entries) - charged:,})" if charged < len(book.entries) else ""
        yield folded(f"Every statement that was charged ({charged:,}){shared}", _listing(listed_releases(book.entries)))
    yield paragraph("What was refused before a charge, and what an analyst was told a second time, is not recorded.", "dim")


def _over_time(book: BudgetBook) -> Chart:
    """The share of the whole budget that was spent, by time: in all, and by those who spent most."""
    most = sorted(book.analysts, key=lambda name: -book.share(name))[:MOST_DRAWN]
    lines = [("all", book.entries), *((name, book.asked[name]) for name in most if name in book.asked)]
    notes = [f"the {MOST_DRAWN} who spent most, and the sum of all"] if len(book.analysts) > MOST_DRAWN else []
    return Chart(name="% of the whole budget", key="time (UTC)", second="spent by", lines=True, whole=False,
                 series=tuple(_line(book, name, entries) for name, entries in lines), intervals="", notes=tuple(notes))


def _line(book: BudgetBook, name: str, entries: Sequence[Entry]) -> Series:
    """What had been spent after some of these statements, including the last."""
    most, sums, spent = limit(book.budget.total), [], NOTHING
    for entry in entries:
        spent = spent + entry.charge
        sums.append(spent)
    kept = sorted({round(i * (len(entries) - 1) / (MOST_POINTS - 1)) for i in range(MOST_POINTS)})
    shares = tuple(float(100 * share_spent(most, sums[i])) for i in kept)
    return Series(name=name, keys=tuple(dt.datetime.fromisoformat(entries[i].at).replace(tzinfo=None) for i in kept),
                  values=shares, lows=shares, highs=shares, words=tuple(f"{share:.3g} %" for share in shares))


def _analyst(book: BudgetBook, name: str) -> tuple[str, ...]:
    own, entries = book.own(name), book.asked.get(name, ())
    failed = sum(failure.account.analyst == name for failure in book.failures)
    charged = sum(entry.told is None for entry in entries)
    return (name, _state(book, name), f"{charged:,}", str(failed), f"{100 * book.share(name):.3g} %",
            "" if own is None else percent(own.share_left),
            entries[-1].at[:16].replace("T", " ") if entries else "never")


def _state(book: BudgetBook, name: str) -> str:
    """Whether an analyst may go on asking, and why not."""
    budget, own = book.budget, book.own(name)
    if budget.listed is not None and name not in budget.listed:
        return "not listed any more"
    if name in book.closed:
        return f"closed after {budget.incidents} incidents"
    if own is not None and not own.share_left:
        return "has spent all"
    if name in book.slowed:
        return f"slowed down: all {slowed_in_words(book.slowed[name], budget.late)}"
    return "open" if name in book.asked else "has not asked yet"


def _failed(book: BudgetBook) -> Iterator[str]:
    yield "<h3>Failed after their charge</h3>"
    if not book.failures:
        yield paragraph("No statement failed after its charge.")
        return
    yield paragraph(f"The charge is kept. An account is closed after {book.budget.incidents} of them that count; "
                    "dpsql budget --reopen forgives them. Check what these statements have in common: an analyst may provoke "
                    "failures to learn something.")
    yield _listing(listed_failures(book.failures))


def _stopped(book: BudgetBook) -> Iterator[str]:
    if book.stops:
        yield "<h3>Stopped after their charge</h3>"
        yield paragraph("The charge is kept, there is no answer, and none of these counts as failed.")
        yield _listing(listed_stops(book.stops))


def _listing(listing: Listing) -> str:
    return figures([name for name, _ in listing.columns], ([number(cell) for cell in row] for row in listing.rows),
                   texts=range(len(listing.columns)))


def _on_rows(found: PolicyOnRows) -> Iterator[str]:
    """What the policy does to the rows."""
    yield "<h2>What the policy does to the rows: exact, private counts</h2>"
    if found.is_fine:
        yield paragraph("Nothing is suspicious.")
    else:
        yield bullets([*found.errors, *found.suspicions])
        yield paragraph("Analysts see the policy, so changes that you make because of this report reveal something about "
                        "the rows. Correct mistakes, and keep limits round.")
    for table in found.tables():
        yield heading(3, table.title)
        yield figures(table.heads, table.rows, texts=[i for i in range(len(table.heads)) if i not in table.numbers])
