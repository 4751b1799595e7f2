"""What the requests of a statement cost a person in each period, where that is stated with the charge (`period_reads`, (2))."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dpsql.trusted.accounting.cost import ATTO, FREE, NANO, Charge, Cost
from dpsql.trusted.declarations.growth import CALENDAR
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.measurements.all_measurements import BY_SUMS_ALONE
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.plan.certificate import Certificate


class PeriodCosts:
    """The costs of the requests of one statement, period by period, and the charges that must cover them."""

    def __init__(self, charged: PeriodReads) -> None:
        self._charged = charged
        self._spent = [FREE] * len(charged.periods)
        self._paid = [cost for many, charge in charged.stated for cost in [_cost(charge)] * many]

    def add(self, reads: PeriodReads, request: Request, certificates: Sequence[Certificate]) -> None:
        """Count a request, which reads these periods. Raises ValueError if nothing bounds it in one period, or the charge of a
        period does not cover it beside the requests before."""
        costs = costs_in_periods(reads, request, certificates)
        if costs is None or reads.periods not in self._charged.periods:
            raise ValueError("what a person in one period costs is not known")
        for at, cost in enumerate(_each(costs), reads.periods.first - self._charged.periods.first):
            self._spent[at] += cost
            if not self._paid[at].covers(self._spent[at]):
                raise ValueError("a script asks for more in a period than was charged")


def costs_in_periods(reads: PeriodReads, request: Request, certificates: Sequence[Certificate]) -> list[tuple[int, Cost]] | None:
    """What a request costs a person in each of some successive periods, for all that it reads; None if it has no bound there."""
    if len(certificates) != 1 or (once := certificates[0].in_period) is None:
        return None
    if type(request) is WeightedPeriods:
        alike = (once.numbered_from, request.periods) == (reads.periods.first, len(reads.periods))
        by_place = reads.periods.period != CALENDAR  # where a period may have several numbers, its place is none of them
        return request.costs_in_periods(certificates[0]) if alike and by_place else None
    return [(len(reads.periods), request.cost(once))] if type(request) in BY_SUMS_ALONE else None


def _each(costs: Sequence[tuple[int, Cost]]) -> Iterator[Cost]:
    return (cost for many, cost in costs for _ in range(many))


def _cost(charge: Charge) -> Cost:
    return Cost(epsilon=None if charge.epsilon is None else Fraction(charge.epsilon, NANO), rho=Fraction(charge.rho, NANO),
                delta=Fraction(charge.delta, ATTO))
