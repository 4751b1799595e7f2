"""Which periods of growing tables a statement reads, and what it costs there: the second unit of privacy.

Tables that grow have two units. *In all*: all rows of a person, in all tables, at all times. This is the entity of the budget,
and all certificates are about it. *In one period*: all rows of a person in one period of the growing tables; all other rows
stay, those of the same person included.

The law. Take two streams of databases, one database for each moment, which are equal at all times except for the rows of one
person in one period of the growing tables. Everything that analysts see over all time is (epsilon, delta)-close at the limit of
the account of this period.

Proof. Let u be the person and p the period. A statement whose scans do not include p has the same distribution on both streams,
given what came before, because the scan of a growing table reads the rows of its periods alone (`plan.operators.scan`), and all
other tables are equal. A statement whose scans include p is charged to the account of p before it reads a row, and each of its
requests costs at most what was charged (below). So the statements that read p are a sequence of releases, each paid for before
it is made, with others between them that depend on nothing but earlier releases and data that are equal; and the proof of
`accounting.privacy_filter` holds for this sequence. That rows are added, corrected or removed later changes nothing: each
release is close on the databases of its own moment.

What a request costs. Let c be its cost for an entity, which its certificate determines.

 (1) *One period is read, and each relation that is measured is carried by growth*: c. Either no private table that does not
     grow is read, except along foreign keys, to find owners: then the relation is a function of the rows of p and their owners,
     and takes the same two values on neighbours in one period as on neighbours in all. Or, derived from the checker's facts,
     removing an entity removes exactly its rows of the relation and changes no other, and there is no row of an entity without
     a row of it in p (`_only_with_growth`): then, without the rows of u in p, the relation has no row of u, and the same rows
     of others as if u were not in the database at all. (A `JoinSum` reads the relations below the one that is measured, so only
     the first reason holds for it.)
 (2) *Each relation that is measured is of pairs* (`period_certificate`), and grouped sums of it are measured: the cost that the
     request has for its certificate in a period. For without the rows of u in p, the sums move no further than that certificate
     says, which is all that the cost of these measurements rests on (`BY_SUMS_ALONE`). Several periods may be read. This cost is
     *stated* with the charge, and each request is checked against what is left of it.

 (3) *Otherwise*: 2 epsilon, and 4 rho. Let D and D' differ by the rows of u in p, and let E be both of them without any row of
     u. D and E are neighbours in all, and so are E and D'. Pure costs add up along this way; for zCDP, two steps of rho cost 4
     rho (Bun and Steinke 2016, Proposition 1.9). Requests with a delta are refused here: no such proposition holds for them.

`_only_with_growth`, by induction over the relations, each of one owner: a scan of a growing table has this property. So has what
is computed of a relation that has it row by row, even without a column that names owners: it takes the same two values. A pair of
an inner join has a row of both sides, of the same entity where both are private, so one side suffices; a side that is kept has
rows without a partner, so that side has to have it. What selects, changes or groups rows of one entity has no row without one
below.

Periods of a calendar. The numbers of a period are its days, and a scan reads whole periods alone: from one first day of the
calendar to the day before another one, which the checker verifies (`kernel.shapes`). So a statement that reads a row of a period
p is charged in every day of p, and the sum of the account of any one of these days has all statements that read p; the proof
holds with "the account of p" read as that of one of its days. This rests on one calendar at all times. Further first days change
no period that had an end, and periods without an end are never read. Any other change makes other periods, for which the limits
apply once more: the owner has to accept it (`catalog.promise`).

Why part of a person is not a person: where a query works per person over several periods, removing the rows of one period lets
other rows come, such as a group of the person with another total, and no certificate is about that; hence (3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, TypeAlias, cast

from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import Charge, Cost
from dpsql.trusted.declarations.growth import ALL_KINDS, CALENDAR, PeriodKind, PeriodRange
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.node import Node, Summary, bottom_up
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation

START, STATED = "periods ", "each="
LARGEST = 2**63 - 1  # of the numbers of a charge, as in the columns of a ledger; their floats are finite
Steps: TypeAlias = Literal[1, 2]


class PeriodReads(Frozen):
    """The numbers of the periods that are read, from the first to the last, and what is charged to their accounts.

    steps   how many steps between neighbours in all lead from one neighbour in one period to the other: see (1) and (3)
    stated  what is charged instead of that, see (2): how many successive numbers, with the charge in each of these periods
    """

    periods: PeriodRange
    steps: Steps
    stated: tuple[tuple[int, Charge], ...] = ()

    def __str__(self) -> str:
        told = f"{START}{self.periods.period} {self.periods.first} {self.periods.last} {self.steps}"
        return f"{told} {STATED}{','.join(f'{many}*{_text(charge)}' for many, charge in self.stated)}" if self.stated else told

    @classmethod
    def from_text(cls, text: str) -> PeriodReads | None:
        """The inverse of `str`, which may be followed by a space and more; None for other texts. Raises ValueError if a text only
        begins like one, or states periods that no plan can read."""
        if not text.startswith(START):
            return None
        period, first, last, steps, *more = text.removeprefix(START).split(" ")
        stated = more[0].removeprefix(STATED).split(",") if more and more[0].startswith(STATED) else ()
        made = cls(periods=PeriodRange(period=cast(PeriodKind, period), first=int(first), last=int(last)),
                   steps=cast(Steps, int(steps)), stated=tuple(map(_run, stated)))
        steps_of = (1, 2) if len(made.periods) == 1 or period == CALENDAR else (2,)
        if period not in ALL_KINDS or not all(holds for holds, _ in made.periods.assumptions()) or made.steps not in steps_of:
            raise ValueError("these are no periods that a plan can read")
        if made.stated and (made.steps == 1 or sum(many for many, _ in made.stated) != len(made.periods)):
            raise ValueError("a charge must be stated for each period")
        if not f"{text} ".startswith(f"{made} "):
            raise ValueError("these numbers are written in another way")
        return made

    def __contains__(self, other: PeriodReads) -> bool:
        return other.periods in self.periods and other.steps <= self.steps

    @property
    def numbers(self) -> range:
        """The numbers of the periods."""
        return range(self.periods.first, self.periods.last + 1)

    def joined(self, other: PeriodReads) -> PeriodReads:
        """Both together. Raises ValueError if their periods are of different kinds."""
        if self.periods.period != other.periods.period:
            raise ValueError("tables that grow by different periods are read together")
        periods = PeriodRange(period=self.periods.period, first=min(self.periods.first, other.periods.first),
                              last=max(self.periods.last, other.periods.last))
        return PeriodReads(periods=periods, steps=max(self.steps, other.steps) if self.periods == other.periods else 2)

    def charges(self, in_all: Charge) -> Iterator[tuple[range, Charge]]:
        """What a person is charged in each of the periods with successive numbers, for all of them; given the charge in all."""
        first = self.periods.first
        for many, charge in self.stated or ((len(self.periods), _in_steps(in_all, self.steps)),):
            yield range(first, first + many), charge
            first += many

    def first_charge(self, in_all: Charge) -> Charge:
        """What a person is charged in the first of the periods, given the charge in all."""
        return next(charge for _, charge in self.charges(in_all))

    def can_cost(self, cost: Cost) -> bool:
        """Whether a cost can be bounded in each period: one with a delta only where it takes one step, or is stated."""
        return self.steps == 1 or cost.delta == 0 or bool(self.stated)


def _in_steps(in_all: Charge, steps: Steps) -> Charge:
    if steps == 1:
        return in_all
    return Charge(epsilon=None if in_all.epsilon is None else 2 * in_all.epsilon, rho=4 * in_all.rho, delta=in_all.delta)


def _text(charge: Charge) -> str:
    return ":".join("-" if number is None else str(number) for number in (charge.epsilon, charge.rho, charge.delta))


def _run(text: str) -> tuple[int, Charge]:
    """The inverse of what `PeriodReads` writes for some successive periods. Raises ValueError for other texts."""
    many, _, charge = text.partition("*")
    epsilon, rho, delta = charge.split(":")
    made = int(many), Charge(epsilon=None if epsilon == "-" else int(epsilon), rho=int(rho), delta=int(delta))
    numbers = made[1].epsilon or 0, made[1].rho, made[1].delta
    if made[0] < 1 or min(numbers) < 0 or max(numbers) > LARGEST:
        raise ValueError("neither a number of periods nor a charge is negative, and no charge is larger than a ledger holds")
    return made


class KnownOwners(Protocol):
    """What is known of the owners of relations: claimed by their operators, or derived by the checker."""

    def one_owner(self, node: Node) -> bool:
        """Whether removing an entity removes exactly the rows of a relation that name it in one column."""
        ...

    def is_split(self, node: Node) -> bool:
        """Whether a relation over all entities consists of those over disjoint sets of entities."""
        ...


def reads_of(plans: Iterable[Node], known: KnownOwners) -> PeriodReads | None:
    """The periods that relations and summaries read together; None if they read no growing table. Raises ValueError if their
    periods are of different kinds, or of different calendars."""
    made: PeriodReads | None = None
    calendars = set()
    stays = False  # whether a plan reads only private tables that do not grow
    for plan in plans:
        private = [node for node in bottom_up(plan) if isinstance(node, Scan) and not node.table.public]
        grown = [scan for scan in private if scan.periods is not None]
        steps: Steps = 1 if grown and (len(grown) == len(private) or _is_carried(plan, known)) else 2
        stays |= bool(private) and not grown
        for scan in grown:
            growth, periods = scan.table.growth, scan.periods
            if growth is None or periods is None:
                raise ValueError("a table that does not grow is read in periods")
            calendars.add(growth.calendar)
            here = PeriodReads(periods=periods, steps=steps if scan.in_one_period else 2)
            made = here if made is None else made.joined(here)
    if len(calendars) > 1:
        raise ValueError("tables that grow by different calendars are read together")
    return replace(made, steps=2) if made is not None and stays else made


def static_tables(relations: Iterable[Node]) -> tuple[Table, ...]:
    """The tables that relations read and that do not grow, each once. Those that are only read to find the owners of rows are not
    among them."""
    return tuple({scan.table.name: scan.table for relation in relations for scan in bottom_up(relation)
                  if isinstance(scan, Scan) and scan.periods is None}.values())


def _is_carried(plan: Node, known: KnownOwners) -> bool:
    """The second reason of (1)."""
    if isinstance(plan, JoinSum):
        return False
    relation = plan.input if isinstance(plan, Summary) else plan
    return known.is_split(relation) and _only_with_growth(relation, known)


def _only_with_growth(node: Node, known: KnownOwners) -> bool:
    """Whether a relation has rows only of entities that have rows in the periods that are read."""
    if not known.one_owner(node) and not isinstance(node, Project):
        return False
    if isinstance(node, Scan):
        return node.periods is not None
    below = [_only_with_growth(part, known) for part in node.inputs]
    match node:
        case Join():
            sides = [has for has, kept in zip(below, (node.keep_left, node.keep_right), strict=True) if kept]
            return all(sides) if sides else any(below)
        case Lookup() | SetOperation():
            return below[0]
    return bool(below) and all(below)
