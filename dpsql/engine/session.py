"""Who asks, of what, and on which terms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from dpsql.backends.upload_folders import Uploads
from dpsql.budgets.convert import limit
from dpsql.catalog.model import Budget, Catalog
from dpsql.catalog.price import Price
from dpsql.frozen import Frozen, field
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.accounting.cost import Account, Charge
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.period_sums import WindowLimits
from dpsql.trusted.kernel.revisions import Revision, TimeState
from dpsql.trusted.kernel.run import Kernel

if TYPE_CHECKING:
    from dpsql.models.joint_histogram import JointHistogram
    from dpsql.synthesis.measured_counts import MeasuredCounts
    from dpsql.synthesis.released_table import KeptTable


class AwaitedStore(Protocol):
    """A store of the data that may come while a session is open."""

    def look(self) -> None:
        """Between two statements: read the store from now on, if it is there. If it is not, it may be made meanwhile."""
        ...

    def close(self) -> None: ...


class StandingTable(Frozen):
    """A synthetic table whose rows the session's reader holds: what identifies the rows, its declaration, and what was kept."""

    content: str
    table: Table
    kept: KeptTable

    @cached_property
    def counts(self) -> MeasuredCounts:
        """Its counts, from which the errors of answers follow."""
        from dpsql.synthesis.measured_counts import measured_counts  # loaded only where there is such a table

        return measured_counts(self.kept)


class SeriesTable(Frozen):
    """The numbers of a standing query as a table whose rows the session's reader holds: what identifies the rows, its
    declaration, and what an answer from it says."""

    content: str
    table: Table
    note: str


class Session(Frozen):
    """Who asks, of what, and on which terms: the parts of a connection."""

    catalog: Catalog
    budget: Budget
    analyst: str
    kernel: Kernel
    ledger: ReportingLedger
    scratch: Scratch
    price: Price | None = None
    confidence: Fraction = Fraction(19, 20)
    policy: str = ""
    uploads: Uploads = field(default_factory=Uploads)
    notes: tuple[str, ...] = ()
    awaited: AwaitedStore | None = field(default=None, compare=False)
    online: dict[str, JointHistogram] = field(default_factory=dict, compare=False)  # online models, by what they know
    interrupted: Event = field(default_factory=Event, compare=False)  # whether the statement that is asked is to stop
    released: dict[str, StandingTable] = field(default_factory=dict, compare=False)  # synthetic tables, by name in lower case
    series: dict[str, SeriesTable] = field(default_factory=dict, compare=False)  # of standing queries, by name in lower case
    planned: dict[str, tuple[str, Any]] = field(default_factory=dict, compare=False)  # see `answering`
    revised: tuple[Revision, ...] = field(default=(), compare=False)  # of the periods of growing tables, when a statement begins
    grown: dict[dt.date, Catalog] = field(default_factory=dict, compare=False)  # the catalog with what is closed on a day
    before: dict[tuple[str, Account], Charge] = field(default_factory=dict, compare=False)  # what was charged before a day

    @property
    def today(self) -> dt.date:
        """The day by which periods are closed, see `today_by`."""
        return self.today_by(self.ledger.time_state())

    def today_by(self, told: TimeState) -> dt.date:
        """The day by which periods are closed: that of this machine, or of the ledger's newest event if that is later; but not
        later than the day on which the data were read, after which rows of a period that has closed may have arrived."""
        from dpsql.catalog import growing  # loaded only where tables grow

        today, read_on = growing.today() + dt.timedelta(days=told.days_behind), self.catalog.read_on
        return today if read_on is None else min(today, read_on)

    @cached_property
    def account(self) -> Account:
        return Account(budget=self.budget.name, analyst=self.analyst)

    @cached_property
    def answer_key(self) -> str:
        """A text of everything that an answer depends on, apart from the statement, its values and the data."""
        return repr((self.analyst, self.budget.name, self.policy, self.price, self.confidence))

    @property
    def limits(self) -> Mapping[str | None, Limit]:
        """The limits on what this analyst may spend now: their own under their name, with their share of this day if the policy
        gives them one, and the total under None."""
        share = self.share_per_day
        if share is None:
            return self._whole_limits
        from dpsql.budgets.day_shares import limit_today

        return {**self._whole_limits, self.analyst: limit_today(self._whole_limits.get(self.analyst), limit(share),
                                                               self.spent_before_today())}

    @cached_property
    def _whole_limits(self) -> Mapping[str | None, Limit]:
        mine = self.budget.of(self.analyst)
        return {None: limit(self.budget.total), **({self.analyst: limit(mine)} if mine is not None else {})}

    @cached_property
    def period_limits(self) -> Mapping[str | None, Limit]:
        """The limits on what this analyst may spend in each period of growing tables: their own under their name, if the policy
        states one, and the one of all together under None. Empty if no table grows."""
        return {whose: limit(price) for whose, price in self.period_prices.items()}

    @property
    def period_prices(self) -> Mapping[str | None, Price]:
        """The same limits as the policy states them."""
        stated = {None: self.budget.per_period, self.analyst: self.budget.per_analyst_and_period}
        return {whose: price for whose, price in stated.items() if price is not None}

    @cached_property
    def window_limits(self) -> WindowLimits:
        """The limits on what this analyst may spend in any so many consecutive periods, as `period_limits`."""
        return WindowLimits(periods=self.budget.in_any_periods,
                            limits={whose: limit(price) for whose, price in self.window_prices.items()})

    @property
    def window_prices(self) -> Mapping[str | None, Price]:
        """The same limits as the policy states them."""
        stated = {None: self.budget.in_any, self.analyst: self.budget.per_analyst_in_any}
        return {whose: price for whose, price in stated.items() if price is not None}

    def part(self, digest: str) -> str:
        """A part of an answer that the account was told, by its digest."""
        return self.ledger.part(self.account, digest)

    @property
    def share_per_day(self) -> Price | None:
        """What this analyst may spend each day, if the policy says so."""
        terms = self.budget.agents.get(self.analyst)
        return None if terms is None else terms.per_day

    def spent_before_today(self) -> Charge:
        """What this analyst was charged before this day (UTC)."""
        day = dt.datetime.now(dt.UTC).date().isoformat()
        if (day, self.account) not in self.before:
            self.before[day, self.account] = self.ledger.spent_before(self.account, day)
        return self.before[day, self.account]

    def look(self) -> None:
        """Between two statements: see to the store that is awaited, if there is one."""
        if self.awaited is not None:
            self.awaited.look()

    def close(self) -> None:
        if self.awaited is not None:
            self.awaited.close()
        self.kernel.close()
        self.ledger.close()
        self.scratch.close()
