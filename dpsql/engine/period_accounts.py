"""What is left in the periods of growing tables, in single ones and in any so many consecutive ones: the list of them, and the
error where a statement costs more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsql.answers.listing import Listing
from dpsql.answers.spending import BudgetLine, FullestWindow
from dpsql.catalog import growing
from dpsql.catalog.price import Price
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted
from dpsql.planning.claimed_periods import told_of
from dpsql.trusted.accounting.cost import NOTHING, Charge
from dpsql.trusted.declarations.growth import Growth, PeriodKind, PeriodRange, names_of
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.kernel.period_runs import ChargesByPeriod
from dpsql.trusted.kernel.revisions import Revision
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Span, Type

COLUMNS = (("tables", Type.VARCHAR), ("period", Type.VARCHAR), ("account", Type.VARCHAR), ("limit", Type.VARCHAR),
           ("left", Type.VARCHAR), ("revised", Type.VARCHAR))


def periods_of(session: Session) -> Listing:
    """The closed periods of the growing tables, the newest first, and what is left in each for everybody and for the analyst;
    before them the consecutive periods in which the least is left, if the budget limits them."""
    told = session.ledger.time_state()
    closed = growing.on_day(session.catalog, session.today_by(told)).periods
    windows = [(", ".join(closed), window.periods, window.line.whose or "all", window.total, window.line.part_left(), "")
               for window in fullest_windows(session)]
    session.ledger.refresh()
    spent = {whose: session.ledger.spent_in_periods(session.budget.name, whose) for whose in session.period_prices}
    numbers = {period.first: period for name, found in closed.items() for period in _growth_of(name, session).each(found)}
    rows = (([name for name, found in closed.items() if found.first <= number <= found.last], number, line)
            for number in sorted(numbers, reverse=True)
            for line in _lines(session, {whose: each.get(number, NOTHING) for whose, each in spent.items()}))
    return Listing(columns=COLUMNS, rows=(*windows, *(
        (", ".join(tables), names_of(numbers[number]), line.whose or "all", str(line.total), line.part_left(),
         _revised(told.revised, tables, number, session)) for tables, number, line in rows)))


def fullest_windows(session: Session) -> tuple[FullestWindow, ...]:
    """For each limit in so many consecutive periods, those in which the least is left of it."""
    ledger, many = session.ledger, session.budget.in_any_periods
    ledger.refresh()
    return tuple(_fullest(session, whose, ledger.spent_in_windows(session.budget.name, whose, many))
                 for whose in session.window_prices)


def _fullest(session: Session, whose: str | None, spent: ChargesByPeriod) -> FullestWindow:
    """The window with the least left, among them one that ends with the newest closed period or else the first one."""
    price, many = session.window_prices[whose], session.budget.in_any_periods
    closed = growing.on_day(session.catalog, session.today).periods
    newest = max((found.last for found in closed.values()), default=_since(session)) - many + 1
    found = [(first, last, BudgetLine(whose=whose, total=price, spent=charge)) for first, last, charge in spent.runs]
    unspent = newest, newest, BudgetLine(whose=whose, total=price, spent=NOTHING)
    first, last, line = min(found, key=lambda run: run[2].share_left, default=unspent)
    return FullestWindow(line=line, length=f"{many} {_kind(session)}s",
                         periods=window_name(session, min(max(first, newest), last), many))


def _revised(revised: Sequence[Revision], tables: Iterable[str], number: int, session: Session) -> str:
    """When a period of some tables was revised last, and why; empty if it was not."""
    period = _period(session, number)
    found = [one for one in revised if any(one.meets(table, period) for table in tables)]
    return told_of(found[-1]) if found else ""


def exhausted_in(refused: Refused, number: int, price: Price | None, session: Session, views: Sequence[Node],
                 span: Span | None = None) -> BudgetExhausted:
    """The error for a charge that a period, or several consecutive ones, cannot pay. It says if they were revised, which does not
    renew their accounts."""
    many = refused.periods
    total = (session.period_prices if many == 1 else session.window_prices)[refused.analyst]
    line = BudgetLine(whose=refused.analyst, total=total, spent=refused.spent)
    whose = "the budget" if line.whose is None else f"the budget of {line.whose}"
    where = names_of(_period(session, number)) if many == 1 else window_name(session, number, many)
    scans = [node for view in views for node in bottom_up(view) if isinstance(node, Scan)]
    tables = {scan.table.name for scan in scans if scan.periods is not None}
    when = _revised(session.revised, tables, number, session) if many == 1 else ""
    revised = f"; the period was revised on {when}, which does not renew its budget" if when else ""
    return BudgetExhausted(
        f"the statement costs {price}, and {whose} for {where} has left: {line.part_left()}{revised}",
        code="period-exhausted", span=span, subject=line.whose or "all",
        try_="other periods, a lower price, or a statement that was answered before; SHOW PERIODS lists what is left")


def _lines(session: Session, spent: dict[str | None, Charge]) -> list[BudgetLine]:
    return [BudgetLine(whose=whose, total=session.period_prices[whose], spent=charge) for whose, charge in spent.items()]


def _period(session: Session, number: int) -> PeriodRange:
    """The period with a number; this number alone, if a calendar does not say how long the period lasts."""
    growth = next(table.growth for table in session.catalog.tables.values() if table.growth is not None)
    return growth.containing(number) or PeriodRange(period=growth.period, first=number, last=number)


def _growth_of(table: str, session: Session) -> Growth:
    growth = session.catalog.tables[table].growth
    assert growth is not None
    return growth


def window_name(session: Session, first: int, many: int) -> str:
    """The names of the first and the last of so many consecutive periods, without those before any table begins."""
    kind = _kind(session)
    return names_of(PeriodRange(period=kind, first=max(first, _since(session)), last=first + many - 1))


def _since(session: Session) -> int:
    """The first period of any table."""
    return min(table.growth.since for table in session.catalog.tables.values() if table.growth is not None)


def _kind(session: Session) -> PeriodKind:
    """The kind of the periods, which is one for all tables of a budget."""
    return next(table.growth.period for table in session.catalog.tables.values() if table.growth is not None)
