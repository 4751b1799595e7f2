"""How far answers are from leaving their intervals: what private deciders rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.accounting.cost import FREE, Cost
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.node import Node
from dpsql.plan.operators.tally import Tally
from dpsql.plan.rules.disjoint import Known, disjoint, known
from dpsql.plan.rules.flatten import Flat, flattened
from dpsql.requests.noise import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A side of an interval: in cell g the answer is on the right side where `sign` * (total of summand `at`) + `constants[g]`
    is 1 or more."""

    at: int
    sign: int
    constants: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Whether the answers of all cells lie within their intervals: all `forms` are 1 or more in every cell."""

    plan: Tally
    cells: Cells
    forms: tuple[Form, ...]

    def slack(self, totals: Sequence[Sequence[int]], rows: int) -> int:
        """The slack of `totals[at][cell]` where an entity moves at most `rows` rows; see `Slack`."""
        reach = [summand.l1 for summand in self.plan.summands]
        cells = [min(-(-(form.sign * totals[form.at][g] + form.constants[g]) // max(1, reach[form.at])) for form in self.forms)
                 for g in range(len(self.cells))]
        inside = min(cells, default=1)
        here = inside if inside >= 1 else 1 - sum(max(0, 1 - cell) for cell in cells)
        return -(-here // max(1, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """The slack of every test, or with `together` of the tightest, plus noise: 1 or more where a test is true, else 0 or less.

    The slack is about the number of entities that would have to come or go until the truth changes. *Cost.* Write l_f for the
    most that a row moves the total of form f (the summand's l1), so a row of cell g moves each ceil(form / l_f) there by at
    most 1, and their minimum s_g too. Let S = min s_g where that is 1 or more, else 1 - sum over g of max(0, 1 - s_g). A row
    of cell g moves only s_g: within either case S moves by at most 1; and where S passes from one case to the other, s_g
    passes between 1 and 0 while all others are at least 1, so S passes between 1 and 0. An entity that moves k rows moves S
    by k, and ceil(S / k) by 1; k is the certificate's. The minimum over tests moves by 1 at most, and so does the slack of
    each test that a row of the entity adds to: at most k t of them, t the most tests that one row adds to (`touched`). Noise
    on so many numbers that move by 1 costs so many times what it costs on one (in l1, and in the square of l2).

    With discrete Laplace noise of scale 1 / epsilon, "yes where the noisy slack is 1 or more" is wrong with probability
    exp(-epsilon (d - 1)) / (1 + exp(epsilon)) at distance d from a change of truth; where the slack is that distance, no
    epsilon-DP decider with the same worst case is better on any database: by group privacy along a shortest path its error is
    at least exp(-epsilon (d - 1)) times that at the border.
    """

    tests: tuple[Within, ...]
    noise: Noise
    together: bool = False

    def cost(self, *certificates: Certificate) -> Cost:
        check_slacks(self.tests, certificates)
        if all(certificate.below.rows == 0 for certificate in certificates):
            return FREE
        once = self.noise.cost(Sensitivity(l1=1, l2=1))
        many = 1 if self.together else touched(self.tests, max(certificate.below.rows or 0 for certificate in certificates))
        return Cost(epsilon=None if once.epsilon is None else once.epsilon * many, rho=once.rho * many)


def touched(tests: Sequence[Within], rows: int) -> int:
    """A bound on how many tests an entity of so many rows can add to.

    Tests that a row adds to together overlap pairwise, and pairwise overlapping tests have different colours wherever
    overlapping tests do: so the number of colours of any such colouring bounds how many tests one row adds to.
    """
    flats = {key: flattened(plan) for key, plan in {id(test.plan): test.plan for test in tests}.items()}
    conditions = [_condition(test, flats[id(test.plan)]) for test in tests]
    colours: list[int] = []
    for i, mine in enumerate(conditions):
        taken = {colours[j] for j in range(i) if not _never_together(mine, conditions[j])}
        colours.append(next(colour for colour in range(i + 1) if colour not in taken))
    return min(len(tests), rows * (max(colours) + 1))


Condition = tuple[Node, Known]


def _condition(test: Within, flat: Flat | None) -> Condition | None:
    """The rows that a test reads, and what is true of those that it counts; None where that is not known."""
    if flat is None:
        return None
    own = {flat.parts[form.at].when for form in test.forms}
    when = own.pop() if len(own) == 1 else None
    return flat.source, known((*flat.common, *(() if when is None else (when,))))


def _never_together(first: Condition | None, second: Condition | None) -> bool:
    return first is not None and second is not None and disjoint(first[1], second[1]) and first[0] == second[0]


def check_slacks(tests: Sequence[Within], certificates: Sequence[Certificate]) -> None:
    """Raises ValueError where the slack of a test is not bounded by the proof of `Slack`."""
    for test, certificate in zip(tests, certificates, strict=True):
        if certificate.below.rows is None:
            raise ValueError("the rows that an entity moves are not bounded")
        if any(form.sign not in (1, -1) or len(form.constants) != len(test.cells) for form in test.forms):
            raise ValueError("a form has a sign and a constant for each cell")
        if any(summand.components != 1 for summand in test.plan.summands):
            raise ValueError("a form reads one total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slackened:
    """The noisy slack of every test, or the one of all together."""

    slacks: tuple[int, ...]
