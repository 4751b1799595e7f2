"""What is left in the periods of growing tables: the list of them, and the error where a statement costs more."""

from __future__ import annotations

from dpsql.answers.listing import Listing
from dpsql.answers.spending import BudgetLine
from dpsql.catalog import growing
from dpsql.catalog.price import Price
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted
from dpsql.trusted.accounting.cost import NOTHING, Charge
from dpsql.trusted.declarations.growth import PeriodKind, name_of
from dpsql.trusted.kernel.ledger import Refused
from dpsql.types import Span, Type

COLUMNS = (("tables", Type.VARCHAR), ("period", Type.VARCHAR), ("account", Type.VARCHAR), ("limit", Type.VARCHAR),
           ("left", Type.VARCHAR))


def periods_of(session: Session) -> Listing:
    """The closed periods of the growing tables, the newest first, and what is left in each for everybody and for the analyst."""
    closed = growing.on_day(session.catalog, growing.today()).periods
    session.ledger.refresh()
    spent = {whose: session.ledger.spent_in_periods(session.budget.name, whose) for whose in session.period_prices}
    numbers = sorted({number for found in closed.values() for number in range(found.first, found.last + 1)}, reverse=True)
    rows = ((", ".join(name for name, found in closed.items() if found.first <= number <= found.last), number, line)
            for number in numbers
            for line in _lines(session, {whose: each.get(number, NOTHING) for whose, each in spent.items()}))
    return Listing(columns=COLUMNS, rows=tuple((tables, name_of(_kind(session), number), line.whose or "all", str(line.total),
                                                line.part_left()) for tables, number, line in rows))


def exhausted_in(refused: Refused, number: int, price: Price | None, session: Session,
                 span: Span | None = None) -> BudgetExhausted:
    """The error for a charge that a period cannot pay."""
    line, = _lines(session, {refused.analyst: refused.spent})
    whose = "the budget" if line.whose is None else f"the budget of {line.whose}"
    return BudgetExhausted(
        f"the statement costs {price}, and {whose} for {name_of(_kind(session), number)} has left: {line.part_left()}",
        code="period-exhausted", span=span, subject=line.whose or "all",
        try_="other periods, a lower price, or a statement that was answered before; SHOW PERIODS lists what is left")


def _lines(session: Session, spent: dict[str | None, Charge]) -> list[BudgetLine]:
    return [BudgetLine(whose=whose, total=session.period_prices[whose], spent=charge) for whose, charge in spent.items()]


def _kind(session: Session) -> PeriodKind:
    """The kind of the periods, which is one for all tables of a budget."""
    return next(table.growth.period for table in session.catalog.tables.values() if table.growth is not None)
