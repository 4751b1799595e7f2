"""What was decided about a question before anything is spent, with the stages in which it is answered and their prices."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price, misfit
from dpsql.errors import OptionError
from dpsql.frozen import replace
from dpsql.mechanisms.select.undeclared_keys import RULES, KeyChoice
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.choose import Choice, price_charged
from dpsql.planning.contribution_bound import BoundedQuestion
from dpsql.planning.degree_questions import DegreeQuestion
from dpsql.planning.groups import cells_declared
from dpsql.questions.parts import Decomposition
from dpsql.questions.question import Key, Scalar
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.types import Span

LEARN_SHARE, BOUNDS_SHARE, KEYS_SHARE = Fraction(3, 25), Fraction(1, 10), Fraction(3, 10)
CENTRES_SHARE = Fraction(1, 6)
TOTALS_SHARE = {True: Fraction(9, 50), False: Fraction(3, 25)}  # added for totals, of a pure epsilon or of rho
RESERVE_SHARE = Fraction(1, 5)  # of what is left for the parts: for drawing a limit if the histogram shows none
FREQUENCY_SHARE = Fraction(1, 5)  # for one limit of keys, and twice that for two or more
COUNTED_SHARE = Fraction(1, 2)  # for the keys, if the counts that come with them answer an aggregate


class Program(BoundedQuestion):
    """The decisions about a question, made from its text, the policy and public tables.

    allotted         what this question spends; `stages` divides it
    learned_limit    'rows', 'totals', 'frequencies' or 'degrees' if limits on these are learned privately first; 'centres' if
                     averages are measured from numbers that are learned privately first; None otherwise
    searched         columns whose bounds are searched for privately
    undeclared_keys  keys whose values are not declared; `rule` selects them
    unknown          the number of limits on rows and on keys that are to be learned; they are 1 in the view
    degrees          the graph, if the question is about degrees
    whole            what the statement spends
    reserve_spent    whether the reserve was spent, on a limit that had to be drawn
    limit_unused     whether the limit that was learned was then not used, so that it cuts off nothing
    first            its scalar subqueries, in the order in which they are released
    chosen           the mechanism of each part, if they do not depend on anything that is released first
    """

    allotted: Cost
    learned_limit: str | None
    searched: tuple[str, ...]
    undeclared_keys: tuple[Key, ...]
    rule: KeyChoice | None
    decomposition: Decomposition
    unknown: int = 0
    degrees: DegreeQuestion | None = None
    whole: Cost = FREE
    reserve_spent: bool = False
    limit_unused: bool = False
    first: tuple[tuple[Scalar, Program], ...] = ()
    chosen: tuple[Choice, ...] | None = None

    @property
    def order(self) -> int:
        """The norm for the noise of the account: 1 (l1) for a pure epsilon, 2 (l2) for rho."""
        return 1 if self.allotted.epsilon is not None else 2

    @property
    def learn_share(self) -> Fraction:
        """The share of the price for learning limits. There may be several limits on keys, and they affect the rows of all
        entities.

        Totals may have heavy tails, where a limit depends on few entities. So they get a larger share, unless the noise of many
        groups would hide these entities anyway (simulated for the data sets of `tests/bench/clips.py`, and for counts of rows
        most of which belong to a fiftieth of the entities). The share of a pure epsilon is larger, as noise is inversely
        proportional to a share of epsilon, but only to the root of a share of rho.
        """
        if self.learned_limit == "frequencies":
            return min(2 * FREQUENCY_SHARE, self.unknown * FREQUENCY_SHARE)
        if self.learned_limit == "centres":
            return CENTRES_SHARE
        if self.learned_limit == "totals" and not self.undeclared_keys:
            return LEARN_SHARE + TOTALS_SHARE[self.order == 1] / max(1, cells_declared(self.question))
        return LEARN_SHARE if self.learned_limit is not None else Fraction(0)

    @property
    def counted(self) -> frozenset[int]:
        """The positions of the parts that follow from the counts which select undeclared groups: the number of entities of each
        group, if all keys are undeclared and no entity is omitted from any of its groups."""
        rows, entities = self.keys_tell_rows, self._keys_tell_entities
        return frozenset(i for i, part in enumerate(self.decomposition.parts)
                         if KINDS[type(part)].told_by_keys(part, rows=rows, entities=entities))

    @property
    def keys_tell_rows(self) -> bool:
        """Whether the counts that select undeclared groups are numbers of rows."""
        owner, rows = self.known.owner, self.known.rows
        alone = rows == 1 or (owner is not None and self.view.max_frequency((owner, *self.keys)) == 1)
        return (self._keys_are_counted and owner is None) or (self._keys_tell_entities and alone)

    @property
    def _keys_tell_entities(self) -> bool:
        owner, rows = self.known.owner, self.known.rows
        return self._keys_are_counted and owner is not None and rows is not None and rows <= self.groups and (
            not self.view.field(owner).facts.nullable)

    @property
    def _keys_are_counted(self) -> bool:
        additive = [name for name in self.options.mechanisms if name not in RULES]
        limited = self.learned_limit is not None or self.bound.mechanism is not None or self.bound.name in ("clip", "reservoir")
        hidden = 0 < len(self.undeclared_keys) == len(self.question.keys)
        return hidden and not additive and not limited and self.known.rows is not None

    @property
    def keys_share(self) -> Fraction:
        """The share of the price for selecting undeclared keys: everything that is left if nothing else is measured."""
        if not self.undeclared_keys:
            return Fraction(0)
        if len(self.counted) == len(self.decomposition.parts):
            return 1 - self.learn_share - (BOUNDS_SHARE if self.searched else 0)
        return COUNTED_SHARE if self.counted else KEYS_SHARE

    @property
    def stages(self) -> dict[str, Cost]:
        """The cost of each stage, in the order in which they run; the parts get the rest."""
        found: dict[str, Cost] = {}
        if self.learned_limit is not None:
            found["limits"] = self.allotted.part(self.learn_share)
        if self.searched:
            found["bounds"] = self.allotted.part(BOUNDS_SHARE)
        if self.undeclared_keys:
            found["keys"] = self.allotted.part(self.keys_share, delta=self.allotted.delta / self.delta_takers)
        return found

    @property
    def parts_allotted(self) -> Cost:
        """The cost of all parts together."""
        return self.allotted.part(self._left * (1 - self.reserve_spent * RESERVE_SHARE))

    @property
    def reserve(self) -> Cost:
        """The reserve within this cost that may be spent on drawing a limit."""
        return self.allotted.part(self._left * RESERVE_SHARE)

    @property
    def _left(self) -> Fraction:
        return 1 - self.learn_share - (BOUNDS_SHARE if self.searched else 0) - self.keys_share

    @property
    def may_fail(self) -> int:
        """The number of stages or tasks that need a share of the delta."""
        smooth = "smooth_sensitivity" in self.options.mechanisms
        return smooth * sum(KINDS[type(part)].ranked for part in self.decomposition.parts) + bool(self.undeclared_keys)

    @property
    def delta_takers(self) -> int:
        return max(1, self.may_fail)

    @property
    def idle(self) -> bool:
        """Whether nothing private is measured: the question only shows declared groups without aggregates, or public tables."""
        return not self.decomposition.parts and not self.undeclared_keys

    @property
    def cost(self) -> Cost:
        """The cost that is charged: exactly the price, but with delta only if something uses it."""
        hidden = bool(self.undeclared_keys) or any(below.undeclared_keys for _, below in self.first)
        uses_delta = hidden or "smooth_sensitivity" in self.options.mechanisms
        return replace(self.whole, delta=self.whole.delta if uses_delta else Fraction(0))

    @property
    def price_charged(self) -> Price | None:
        """The price as far as it is charged; see `choose`."""
        return price_charged(self.options.price, self.cost)


def questions(program: Program) -> tuple[Program, ...]:
    """A program, then the programs of its scalar subqueries."""
    return (program, *(below for _, below in program.first))


def priced(price: Price | None, budget: Budget, span: Mapping[str, Span] = MappingProxyType({})) -> Price:
    """The price. Raises OptionError if there is none, or if it does not fit the budget. `span` has the positions of its options
    in the text."""
    if price is None:
        raise OptionError("no price is given", code="no-price",
                          try_="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) ..., epsilon=0.5 where you connect, or "
                          "[budgets.<name>.per_statement] in the policy")
    if (wrong := misfit(price, budget.total)) is not None:
        name, reason, instead = wrong
        raise OptionError(f"the budget {budget.name} {reason}", code="price", subject=name, span=span.get(name), try_=instead)
    return price
