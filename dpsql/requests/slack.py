"""How far answers are from leaving their intervals: what private deciders rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dpsql.accounting.cost import FREE, Cost
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.node import Node
from dpsql.plan.operators.largest import Largest
from dpsql.plan.operators.multiplicities import Multiplicities
from dpsql.plan.operators.shares import Shares, pull, slack
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.plan.rules.disjoint import Known, disjoint, known
from dpsql.plan.rules.flatten import Flat, flattened
from dpsql.requests.levels import are_bounded
from dpsql.requests.noise import Noise

NEVER = 2**50  # entities: more than there are
LISTED = 2**9  # largest values of a sum: a distance beyond is certain at any price that is of use


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A side of an interval: in cell g the answer is on the right side where `sign` * (total of summand `at`) + `constants[g]`
    is 1 or more."""

    at: int
    sign: int
    constants: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Whether the answers of all cells lie within their intervals: all `forms` are 1 or more in every cell.

    With `exact` the forms are the two ends of one sum, without groups, and its flip distance is worked out from its values.
    """

    plan: Tally
    cells: Cells
    forms: tuple[Form, ...]
    exact: bool = False

    @property
    def ways(self) -> tuple[int, ...]:
        """For each form, 1 where rows that come can only raise it, -1 where they can only lower it, 0 elsewhere."""
        parts = [self.plan.summands[form.at] for form in self.forms]
        return tuple(form.sign if isinstance(part, Count) or (isinstance(part, GridSum) and part.grid.least >= 0) else 0
                     for form, part in zip(self.forms, parts, strict=True))

    def sides(self, totals: Sequence[Sequence[int]], values: Callable[[Largest], Sequence[int]]) -> Sides:
        """For each form, the rows of each cell that would have to come or go until it changes: 1 - d or d, or nearer to 0.

        Write F for a form and l for the most that a row moves it. Then ceil(F / l) moves by 1 at most with a row, is 1 or more
        where F is, and never further from the border than the flip distance. For one sum that distance is known from the
        largest values: F falls as rows with large values leave (or, where values may be negative, as rows with the least one
        come), and the fewest that lower it by F are the largest of these. A distance moves by 1 at most with a row; so does the
        smaller one of it and a constant, the number of values that are listed, and the larger one of that and ceil(F / l). Values
        are read for the nearer end only: what the farther one would be is of no account in their minimum.
        """
        numbers = [[form.sign * totals[form.at][g] + form.constants[g] for g in range(len(self.cells))] for form in self.forms]
        plain = [[-(-number // max(1, self.plan.summands[form.at].l1)) for number in side]
                 for form, side in zip(self.forms, numbers, strict=True)]
        if self.exact:  # the nearer end decides; once that is exact and still the nearer one, so is the slack
            for at in sorted(range(len(self.forms)), key=lambda i: plain[i][0]):
                if plain[at][0] <= min(side[0] for side in plain):
                    plain[at] = [self._exact(self.forms[at].sign, numbers[at][0], plain[at][0], values)]
        return plain

    def _exact(self, sign: int, number: int, slack: int, values: Callable[[Largest], Sequence[int]]) -> int:
        """The slack of a form of one sum, no nearer to 0 than `slack`."""
        part = self.plan.summands[self.forms[0].at]
        assert isinstance(part, GridSum)
        inside = number >= 1
        plain, need = (slack, number) if inside else (1 - slack, 1 - number)
        down = (sign == 1) == inside  # the sum has to fall
        come = max(0, -part.grid.least if down else part.grid.most)
        if come == part.l1 or plain >= LISTED:
            return slack
        leave = Largest(input=self.plan.input, summand=part, sign=1 if down else -1, most=LISTED)
        far = max(plain, min(LISTED, fewest(need, come, values(leave))))
        return far if inside else 1 - far


def fewest(need: int, come: int, leave: Iterable[int]) -> int:
    """How few amounts add up to `need`: any number of times `come`, and each of `leave`, which fall, once."""
    many = 0
    for amount in leave:
        if need <= 0 or amount <= come:
            break
        need, many = need - amount, many + 1
    return many if need <= 0 else many + -(-need // come) if come else NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Scarce:
    """Whether the numbers of different values in all cells lie between `first` and `last`, both inside.

    The flip distance is exact where an entity has one row: a value comes with one row, and goes with all rows that it has, so the
    number falls by k as the k scarcest values go. (A column of few possible values may leave none to come: the distance is
    then larger than what is counted here.)
    """

    plan: Multiplicities
    cells: Cells
    first: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def ways(self) -> tuple[int, ...]:
        """Rows that come can only raise the distance to fewer values, and lower that to more."""
        return (1, -1)

    def sides(self, counts: Sequence[Mapping[int, int]]) -> Sides:
        """For either end, the rows that would have to come or go: `counts[cell][n]` values have n rows each."""
        low, high = [], []
        for g, found in enumerate(counts):
            many = sum(found.values())
            above, left = many - self.first[g] + 1, self.last[g] - many + 1
            low.append(above if above < 1 else scarcest(found, above))
            high.append(left if left >= 1 else 1 - scarcest(found, 1 - left))
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Whether a sum over rows that may belong to several entities each, held to `level` for each of them, lies between `first`
    and `last`, both inside, in units of 1 / UNIT.

    An entity moves the held sum F by at most `pull` units (`kernel.extensions.value`), so ceil((F - first + 1) / pull) and
    ceil((last - F + 1) / pull) by 1. Where F is no approximation, an entity that comes can only raise it.
    """

    plan: Shares
    level: int
    first: int
    last: int

    @property
    def ways(self) -> tuple[int, ...]:
        return (0, 0) if slack(self.level, len(self.plan.owners)) else (1, -1)

    def sides(self, held: int) -> Sides:
        """For either end, the entities that would have to come or go, from the held sum."""
        moved = pull(self.level, len(self.plan.owners))
        return ([-(-(held - self.first + 1) // moved)], [-(-(self.last - held + 1) // moved)])


def scarcest(counts: Mapping[int, int], many: int) -> int:
    """The rows of so many values, those with the fewest rows; NEVER where there are not so many values."""
    rows = 0
    for times, values in sorted(counts.items()):
        taken = min(many, values)
        rows, many = rows + taken * times, many - taken
    return rows if many <= 0 else NEVER


Test: TypeAlias = Within | Scarce | Joined
Sides: TypeAlias = Sequence[Sequence[int]]
"""For each side of the intervals the slack of every cell."""


def slack_of(sides: Sides, rows: int) -> int:
    """The slack of all cells and sides together, where an entity moves at most `rows` rows; see `Slack`."""
    cells = [min(slacks) for slacks in zip(*sides, strict=True)]
    inside = min(cells, default=1)
    here = inside if inside >= 1 else 1 - sum(max(0, 1 - cell) for cell in cells)
    return -(-here // max(1, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """The slack of every test, or with `together` of the tightest, plus noise: 1 or more where a test is true, else 0 or less.

    The slack is about the number of entities that would have to come or go until the truth changes. *Cost.* A row of cell g moves
    each side of its interval by at most 1 (`Within`, `Scarce`), and their minimum s_g too. Let S = min s_g where that is 1 or
    more, else 1 - sum over g of max(0, 1 - s_g). A row of cell g moves only s_g: within either case S moves by at most 1; and
    where S passes from one case to the other, s_g passes between 1 and 0 while all others are at least 1, so S passes between 1
    and 0. An entity that moves k rows moves S
    by k, and ceil(S / k) by 1; k is the certificate's. The minimum over tests moves by 1 at most, and so does the slack of
    each test that a row of the entity adds to: at most k t of them, t the most tests that one row adds to (`touched`). Noise
    on so many numbers that move by 1 costs so many times what it costs on one (in l1, and in the square of l2).

    With discrete Laplace noise of scale 1 / epsilon, "yes where the noisy slack is 1 or more" is wrong with probability
    exp(-epsilon (d - 1)) / (1 + exp(epsilon)) at distance d from a change of truth; where the slack is that distance, no
    epsilon-DP decider with the same worst case is better on any database: by group privacy along a shortest path its error is
    at least exp(-epsilon (d - 1)) times that at the border.
    """

    tests: tuple[Test, ...]
    noise: Noise
    together: bool = False

    def cost(self, *certificates: Certificate) -> Cost:
        check_slacks(self.tests, certificates)
        if all(certificate.below.rows == 0 for certificate in certificates):
            return FREE
        once = self.noise.cost(Sensitivity(l1=1, l2=1))
        rows = [moved(test, certificate) for test, certificate in zip(self.tests, certificates, strict=True)]
        many = 1 if self.together else touched(self.tests, max(rows))
        return Cost(epsilon=None if once.epsilon is None else once.epsilon * many, rho=once.rho * many)


def touched(tests: Sequence[Test], rows: int) -> int:
    """A bound on how many tests an entity of so many rows can add to.

    Tests that a row adds to together overlap pairwise, and pairwise overlapping tests have different colours wherever
    overlapping tests do: so the number of colours of any such colouring bounds how many tests one row adds to.
    """
    plans = {id(test.plan): test.plan for test in tests}
    flats = {key: None if isinstance(plan, Shares) else flattened(
        _counted(plan) if isinstance(plan, Multiplicities) else plan) for key, plan in plans.items()}
    conditions = [_condition(test, flats[id(test.plan)]) for test in tests]
    colours: list[int] = []
    for i, mine in enumerate(conditions):
        taken = {colours[j] for j in range(i) if not _never_together(mine, conditions[j])}
        colours.append(next(colour for colour in range(i + 1) if colour not in taken))
    return min(len(tests), rows * (max(colours) + 1))


def moved(test: Test, certificate: Certificate) -> int:
    """The most rows that an entity moves, by which a slack in rows is divided; a held sum is one in entities already."""
    return 1 if isinstance(test, Joined) else certificate.below.rows or 1


Condition = tuple[Node, Known]


def _counted(plan: Multiplicities) -> Tally:
    """A tally of the rows whose values are counted."""
    return Tally(input=plan.input, keys=plan.keys, summands=(Count(column=plan.column, when=plan.when),))


def _condition(test: Test, flat: Flat | None) -> Condition | None:
    """The rows that a test reads, and what is true of those that it counts; None where that is not known."""
    if flat is None or isinstance(test, Joined):
        return None
    own = {flat.parts[form.at].when for form in test.forms} if isinstance(test, Within) else {flat.parts[0].when}
    when = own.pop() if len(own) == 1 else None
    return flat.source, known((*flat.common, *(() if when is None else (when,))))


def _never_together(first: Condition | None, second: Condition | None) -> bool:
    return first is not None and second is not None and disjoint(first[1], second[1]) and first[0] == second[0]


def check_slacks(tests: Sequence[Test], certificates: Sequence[Certificate]) -> None:
    """Raises ValueError where the slack of a test is not bounded by the proof of `Slack`."""
    for test, certificate in zip(tests, certificates, strict=True):
        if isinstance(test, Joined):
            are_bounded(test.plan, (test.level,), 1, certificate)
            if test.plan.signed or test.plan.cell is not None:
                raise ValueError("one sum of what is not below zero is held")
            continue
        if certificate.below.rows is None:
            raise ValueError("the rows that an entity moves are not bounded")
        if isinstance(test, Scarce):
            if not len(test.first) == len(test.last) == len(test.cells):
                raise ValueError("every cell has an interval")
            continue
        if any(form.sign not in (1, -1) or len(form.constants) != len(test.cells) for form in test.forms):
            raise ValueError("a form has a sign and a constant for each cell")
        if any(summand.components != 1 for summand in test.plan.summands):
            raise ValueError("a form reads one total")
        ends = {(test.plan.summands[form.at], form.sign) for form in test.forms}
        if test.exact and (test.plan.keys or len(test.cells) != 1 or len(ends) != 2 or len({part for part, _ in ends}) != 1
                           or not all(isinstance(part, GridSum) for part, _ in ends)):
            raise ValueError("values are listed of the two ends of one sum, without groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slackened:
    """The noisy slack of every test, or the one of all together."""

    slacks: tuple[int, ...]
