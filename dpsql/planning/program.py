"""The plan for a question, as far as it can be decided before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from dpsql.budgets.allotment import budgets_by_account
from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price, misfit
from dpsql.errors import OptionError, Unsupported
from dpsql.mechanisms.all_mechanisms import MECHANISMS
from dpsql.mechanisms.mechanism import Linear, No, Occurrences, Ordered, Setting, Shared, Task
from dpsql.mechanisms.named_bounds import Bound
from dpsql.mechanisms.select.shown_counts import noise_of
from dpsql.mechanisms.select.undeclared_keys import RULES, KeyChoice, choices_for_rows, key_choices
from dpsql.planning.centred_averages import centred, middles_of
from dpsql.planning.choose import Choice, choose, split_budget, weight_of
from dpsql.planning.contribution_bound import MANY_ROWS, PUBLIC, ContributionBound, decided, told
from dpsql.planning.declared_rows import declared_rows
from dpsql.planning.degree_questions import DegreeQuestion, degree_question, way_of
from dpsql.planning.frequency_limits import FREQUENCY, unknown_limits
from dpsql.planning.groups import axes_of, not_listed
from dpsql.planning.matchings import check_matchings, vouched_task
from dpsql.planning.options import Options
from dpsql.planning.public import check_exact
from dpsql.planning.shared_centres import columns_to_centre, to_centre, weights_of
from dpsql.planning.tasks import Clipping, Reservoir, clip_of, shared_task, task_of
from dpsql.questions.parts import Decomposition, Distincts, Matchings, Part, Quantiles, Sums
from dpsql.questions.question import Key, Question, Scalar
from dpsql.questions.rules import regression
from dpsql.questions.rules.decompose import decompose
from dpsql.questions.rules.limit_rows import keep_rows
from dpsql.questions.rules.recognise_degrees import degrees_of
from dpsql.questions.rules.squares import with_squares
from dpsql.questions.rules.substitute import substitute
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.kernel.taken import taken
from dpsql.trusted.plan.cells import MOST_CELLS
from dpsql.trusted.plan.certificate import Certificate, Sensitivity, certify, stability
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node, PublicFacts, Stability
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.quantizer import MOST_STEPS
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Interval, Span, Type

LEARN_SHARE, BOUNDS_SHARE, KEYS_SHARE = Fraction(3, 25), Fraction(1, 10), Fraction(3, 10)
CENTRES_SHARE = Fraction(1, 6)
CENTRED = ("balance", "removals", "recursive", "extension")  # bounds that hold each sign of a sum to a level
TOTALS_SHARE = {True: Fraction(9, 50), False: Fraction(3, 25)}  # added for totals, of a pure epsilon or of rho
RESERVE_SHARE = Fraction(1, 5)  # of what is left for the parts: for drawing a limit if the histogram shows none
FREQUENCY_SHARE = Fraction(1, 5)  # for one limit of keys, and twice that for two or more
COUNTED_SHARE = Fraction(1, 2)  # for the keys, if the counts that come with them answer an aggregate
USUAL_GROUPS = 4  # in how many undeclared groups an entity counts, if neither its rows nor the statement limit them
ROWS = Sums(summand=Count())
FEW_VALUES, MOST_VALUES, VALUES_OF_A_ROW = 64, 256, 16  # values tested one by one: in any case, at most, per row of an entity
MOST_LISTED = 2**14  # such values in all declared groups together
MOST_VOUCHED = 4  # groups up to which entities vouch for values: all rows of an entity may be in each of them
USUAL_MOST_ROWS = 2**20  # of one entity, if nothing limits them: the end of a ladder of levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The decisions about a question, made from its text, the policy and public tables.

    view      the rows that are asked about, with declared limits and `max_rows` enforced
    known     the stability of the view
    allotted  what this question spends; `stages` divides it
    decided   the bound on what an entity adds to sums, and the reason for it
    learn     'rows', 'totals', 'frequencies' or 'degrees' if limits on these are learned privately first; 'centres' if averages
              are measured from numbers that are; None otherwise
    searched  columns whose bounds are searched for privately
    hidden    keys whose values are not declared; `rule` selects them
    groups    in how many undeclared groups an entity counts
    unknown   the number of limits on rows and on keys that are to be learned; they are 1 in the view
    degrees   the graph, if the question is about degrees
    whole     what the statement spends
    drawn     whether the reserve was spent, on a limit that had to be drawn
    first     its scalar subqueries, in the order in which they are released
    chosen    the mechanism of each part, if they do not depend on anything that is released first
    """

    question: Question
    options: Options
    view: Node
    known: Stability
    allotted: Cost
    decided: ContributionBound
    learn: str | None
    searched: tuple[str, ...]
    hidden: tuple[Key, ...]
    rule: KeyChoice | None
    groups: int
    decomposition: Decomposition
    unknown: int = 0
    degrees: DegreeQuestion | None = None
    whole: Cost = FREE
    drawn: bool = False
    first: tuple[tuple[Scalar, Program], ...] = ()
    chosen: tuple[Choice, ...] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key.column for key in self.question.keys)

    @property
    def owner(self) -> str:
        assert self.known.owner is not None
        return self.known.owner

    @property
    def bound(self) -> Bound:
        return self.decided.bound

    @property
    def order(self) -> int:
        """The norm for the noise of the account: 1 (l1) for a pure epsilon, 2 (l2) for rho."""
        return 1 if self.allotted.epsilon is not None else 2

    @property
    def learn_share(self) -> Fraction:
        """The share of the price for learning limits. Limits on keys may be several, and the rows of all entities depend on them.

        Totals may have heavy tails, where a limit depends on few entities. So they get a larger share, unless the noise of many
        groups would hide these entities anyway (simulated for the data sets of `tests/bench/clips.py`, and for counts of rows
        most of which belong to a fiftieth of the entities). The share of a pure epsilon is larger, as noise is inversely
        proportional to a share of epsilon, but only to the root of a share of rho.
        """
        if self.learn == "frequencies":
            return min(2 * FREQUENCY_SHARE, self.unknown * FREQUENCY_SHARE)
        if self.learn == "centres":
            return CENTRES_SHARE
        if self.learn == "totals" and not self.hidden:
            return LEARN_SHARE + TOTALS_SHARE[self.order == 1] / max(1, cells_declared(self.question))
        return LEARN_SHARE if self.learn is not None else Fraction(0)

    @property
    def counted(self) -> frozenset[int]:
        """The positions of the parts that are answered by the counts by which undeclared groups are selected: the number of
        entities of each group, if all keys are undeclared and no entity is left out of a group that it is in."""
        parts = enumerate(self.decomposition.parts)
        return frozenset(i for i, part in parts if (part == ROWS and self.keys_tell_rows) or (
            isinstance(part, Distincts) and part.entities and part.when is None and self._keys_tell_entities))

    @property
    def keys_tell_rows(self) -> bool:
        """Whether the counts by which undeclared groups are selected are numbers of rows."""
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
        limited = self.learn is not None or self.bound.mechanism is not None or self.bound.name in ("clip", "reservoir")
        hidden = 0 < len(self.hidden) == len(self.question.keys)
        return hidden and not additive and not limited and self.known.rows is not None

    @property
    def keys_share(self) -> Fraction:
        """The share of the price for selecting undeclared keys: all that is left, if nothing else is measured."""
        if not self.hidden:
            return Fraction(0)
        if len(self.counted) == len(self.decomposition.parts):
            return 1 - self.learn_share - (BOUNDS_SHARE if self.searched else 0)
        return COUNTED_SHARE if self.counted else KEYS_SHARE

    @property
    def stages(self) -> dict[str, Cost]:
        """The cost of each stage, in the order in which they run; the parts get the rest."""
        found: dict[str, Cost] = {}
        if self.learn is not None:
            found["limits"] = self.allotted.part(self.learn_share)
        if self.searched:
            found["bounds"] = self.allotted.part(BOUNDS_SHARE)
        if self.hidden:
            found["keys"] = self.allotted.part(self.keys_share, delta=self.allotted.delta / self.delta_takers)
        return found

    @property
    def parts_allotted(self) -> Cost:
        """The cost of all parts together."""
        return self.allotted.part(self._left * (1 - self.drawn * RESERVE_SHARE))

    @property
    def reserve(self) -> Cost:
        """The part of this that may be spent on a limit that must be drawn."""
        return self.allotted.part(self._left * RESERVE_SHARE)

    @property
    def _left(self) -> Fraction:
        return 1 - self.learn_share - (BOUNDS_SHARE if self.searched else 0) - self.keys_share

    @property
    def may_fail(self) -> int:
        """How many stages or tasks need a part of the delta."""
        smooth = sum(isinstance(part, Quantiles) for part in self.decomposition.parts) if (
            "smooth_sensitivity" in self.options.mechanisms) else 0
        return smooth + bool(self.hidden)

    @property
    def delta_takers(self) -> int:
        return max(1, self.may_fail)

    @property
    def idle(self) -> bool:
        """Whether nothing private is measured: the question shows only declared groups, without aggregates, or public tables."""
        return not self.decomposition.parts and not self.hidden

    @property
    def cost(self) -> Cost:
        """What is charged: exactly the price, but delta only if something uses it."""
        hidden = bool(self.hidden) or any(below.hidden for _, below in self.first)
        uses_delta = hidden or "smooth_sensitivity" in self.options.mechanisms
        return replace(self.whole, delta=self.whole.delta if uses_delta else Fraction(0))


def compile_question(question: Question, options: Options, budget: Budget, public: PublicTables, view: Node,
                     known: Stability, first: Sequence[tuple[Scalar, Node, Stability]] = ()) -> Program:
    """Decide all that can be decided about a private view of known stability.

    `first` are its scalar subqueries, each with its view and stability; if there are any, the outer view may be public. Raises
    Unsupported or OptionError, located, for what cannot be answered.
    """
    program = _outline(question, options, view, known, public)
    if first:
        inside = options.inside(outer_public=known.public)
        program = replace(program, first=tuple(
            (scalar, _outline(scalar.question, inside, rows, stable, public)) for scalar, rows, stable in first))
    _check_clip(program)
    price = priced(options.price, budget, options.span)
    program, choices = _with_account(program, price, public)
    _check_mechanisms(program)
    _check_choices(choices, program, public)
    if program.first or program.learn is not None or program.searched or program.hidden or program.degrees is not None:
        return program
    return replace(program, chosen=tuple(choice for choice in choices[0] if choice is not None))


def _outline(question: Question, options: Options, view: Node, known: Stability, public: PublicTables) -> Program:
    """The decisions that do not depend on the price: the bound, the parts, and what must be learned."""
    if question.together:
        span = next((call.span for call in question.aggregates if call.over is not None), None)
        raise Unsupported("this is answered as a workload only, not beside subqueries that are released first", code="workload",
                          span=span, try_="the aggregate without OVER, in a statement of its own")
    if known.public:
        check_exact(question)
        return Program(question=question, options=options, view=view, known=known, allotted=FREE, decided=PUBLIC, learn=None,
                       searched=(), hidden=(), rule=None, groups=1, decomposition=Decomposition(
                           parts=(), weights=(), recipes={}, uses={}))
    graph = degrees_of(view, question.read, public) if known.rows is None and not known.owners else None
    if graph is not None:
        return _of_degrees(question, options, known, degree_question(question, graph, options, public))
    searched = _searched(question)
    check_cells(question)
    found = decided(question, options, known, searched, cells_declared(question))
    if _each_of_several(found.bound, known.owner):
        question, view = with_squares(question, view)
    parts = parts_of(question, known, dict.fromkeys(searched, Interval(0, 1)), found.bound, options)
    if found.bound.each:
        check_matchings(question, parts, known.owners)
    hidden = tuple(key for key in question.keys if key.domain is None)
    unknown = unknown_limits(question, options, public) if options.bound == FREQUENCY else 0  # other bounds learn none
    return _with_told_counts(Program(
        question=question, options=options, view=view, known=known, allotted=FREE, rule=None, decomposition=parts, decided=found,
        searched=searched, hidden=hidden, unknown=unknown,
        learn="frequencies" if unknown else _learn(known, parts, question, options, found),
        groups=options.max_groups or min(known.rows or USUAL_GROUPS, USUAL_GROUPS)))


def _with_told_counts(program: Program) -> Program:
    """The program with averages that use the counts by which undeclared groups are selected, if these are numbers of rows."""
    if not program.keys_tell_rows or program.known.owner is None or program.searched or program.question.scalars:
        return program
    parts = decompose(program.question, owner=program.known.owner, counted=True)
    centres = middles_of(program.question, parts)
    if not centres:
        return program
    parts, view = centred(program.question, parts, program.view, centres, cut=False)
    return replace(program, decomposition=parts, view=view)


def _of_degrees(question: Question, options: Options, known: Stability, degrees: DegreeQuestion) -> Program:
    """The same for a question about the degrees of a graph: one measurement gives all of its parts."""
    asked, found = degrees.asked(question), way_of(options)
    check_cells(asked)
    return Program(question=asked, options=options, view=asked.view, known=known, allotted=FREE, rule=None, decided=found,
                   groups=1,
                   searched=(), hidden=(), learn=None if degrees.given else "degrees", degrees=degrees,
                   decomposition=parts_of(asked, known, {}, found.bound, options))


def parts_of(question: Question, known: Stability, bounds: Mapping[str, Interval], bound: Bound, options: Options,
             centres: Mapping[str, float] = MappingProxyType({})) -> Decomposition:
    """The parts that a bound can limit. A given clip is a number of rows for averages, so these are computed from moments
    then. Distinct values that are not tested one by one are matched with entities if these may vouch for them."""
    clips = bound.name == "clip"
    found = decompose(question, owner=known.owner, bounds=dict(bounds), each=bound.each, apart=clips,
                      several=_each_of_several(bound, known.owner), learned=clips and options.clip is None, centres=centres)
    return replace(found, parts=tuple(
        Matchings(column=part.column, when=part.when) if isinstance(part, Distincts) and not are_listed(
            part, known, question, options) and _may_vouch(part, known, question, options) else part for part in found.parts))


def _each_of_several(bound: Bound, owner: str | None) -> bool:
    """Whether rows belong to several entities each, and the bound limits one number of each row."""
    return bound.several and bound.each and owner is None


def with_values(program: Program, values: Mapping[str, Value]) -> Program:
    """The program with released values, by the ids of their placeholders. Facts only become narrower, so all decisions remain
    valid, and grids may become finer."""
    if not values:
        return program
    question, view = substitute(program.question, values), substitute(program.view, values)
    parts = program.decomposition if program.known.public else parts_of(
        question, program.known, dict.fromkeys(program.searched, Interval(0, 1)), program.bound,
        program.options)
    return replace(program, question=question, view=view, decomposition=parts)


def _searched(question: Question) -> tuple[str, ...]:
    """Columns that need bounds, have none, and may be searched. Products do not count: they are measured from the midpoints of
    ranges before anything is released, so they need declared bounds."""
    found = []
    for call in question.aggregates:
        if call.columns and call.function not in ("count", "count_distinct", "mode", *regression.DEGREES):
            known = question.view.field(call.columns[0]).facts
            if known.type.numeric and not known.declared.finite and known.search and call.columns[0] not in found:
                found.append(call.columns[0])
    return tuple(found)


def _learn(known: Stability, parts: Decomposition, question: Question, options: Options, found: ContributionBound) -> str | None:
    """What is learned first, if anything: a limit on rows if none is known, on totals if they are clipped without a given limit.

    The noise in the ranks of quantiles grows with the rows that one entity may have. So if the policy allows very many, a limit
    is learned for quantiles too (Amin, Kulesza, Munoz and Vassilvitskii, Bounding User Contributions, ICML 2019).
    """
    if found.bound.name in CENTRED and known.owner is None and options.clip is None and (
            to_centre(question, parts) or columns_to_centre(question, found.bound)):
        return "centres"
    if found.bound.name == "clip" and any(isinstance(part, Sums) for part in parts.parts):
        return "totals" if options.clip is None else None
    if options.bound == "auto" and all(_counts_values(part, known, question, options) for part in parts.parts):
        return None
    counted = all(isinstance(part, Distincts) and part.entities for part in parts.parts) and not question.keys
    limits_rows = found.bound.mechanism is None and found.bound.name != "reservoir"  # a reservoir clamps what it keeps
    if known.rows is not None:
        ranked = bool(parts.parts) and all(isinstance(part, Quantiles) for part in parts.parts)
        free = options.bound == "auto" and options.max_rows is None and known.owner is not None
        return "rows" if limits_rows and ranked and free and known.rows >= MANY_ROWS else None
    return "rows" if limits_rows and not counted else None


def _counts_values(part: Part, known: Stability, question: Question, options: Options) -> bool:
    """Whether no limit on rows is needed, because an entity counts once, or values are tested one by one or matched."""
    return isinstance(part, Matchings) or (isinstance(part, Distincts) and (
        (part.entities and not question.keys) or are_listed(part, known, question, options)))


def _may_vouch(part: Distincts, known: Stability, question: Question, options: Options) -> bool:
    """Whether entities may vouch for values: rows have one owner, an entity may have many rows, there are few groups, and no
    additive mechanism is named in the options."""
    if part.entities or known.owner is None:
        return False
    many = options.bound == "auto" and options.max_rows is None and (known.rows is None or known.rows >= MANY_ROWS)
    declared, keys = all(key.domain is not None for key in question.keys), {key.column for key in question.keys}
    few = declared and cells_declared(question) <= MOST_VOUCHED and not {part.column, known.owner} & keys
    return many and few and not {"laplace", "gaussian"} & set(options.mechanisms)


def are_listed(part: Part, known: Stability, question: Question, options: Options) -> bool:
    """Whether the distinct values of a column are tested one by one: if so few are declared that noise on their number could be
    about as large as the number, and no additive mechanism is named in the options. If there are more values,
    some are likely to be rare and would be lost, so it is better that entities vouch for them, if they can."""
    if not isinstance(part, Distincts) or part.values is None or part.entities or known.owner is None:
        return False
    many, keys = len(part.values), {key.column for key in question.keys}
    if many > FEW_VALUES and _may_vouch(part, known, question, options):
        return False
    few = 0 < many <= (MOST_VALUES if known.rows is None else min(MOST_VALUES, max(FEW_VALUES, VALUES_OF_A_ROW * known.rows)))
    return (few and many * max(1, cells_declared(question)) <= MOST_LISTED and not {part.column, known.owner} & keys
            and not {"laplace", "gaussian"} & set(options.mechanisms))


def _check_clip(program: Program) -> None:
    """Raises OptionError if the number given as clip could be in several units, as of rows and of values."""
    summed = [below.question for below in (program, *(found for _, found in program.first))
              if below.options.clip is not None and any(isinstance(part, Sums) for part in below.decomposition.parts)]
    units: dict[str, None] = {}
    for call in (call for question in summed for call in question.aggregates):
        apart = call.function not in ("count", "sum") and program.bound.each
        units |= dict.fromkeys(["rows", told(call)] if apart else [told(call) if call.function == "sum" else "rows"])
    if len(units) > 1:
        way = "bound = 'clip'" if program.known.owner is not None else "bound = 'balance'"
        raise OptionError("clip could mean " + " or ".join(units) + " here", code="clip", subject="clip",
                          try_=f"{way} without a number: each limit is then learned; or one statement for each")


def cells_declared(question: Question) -> int:
    """The number of combinations of the values of keys with declared values, including NULL, that there can be."""
    if question.combinations:
        return math.prod(len(rows) for _, rows in axes_of(question, [
            i for i, key in enumerate(question.keys) if key.domain is not None]))
    return math.prod(len(key.domain) + key.nullable for key in question.keys if key.domain is not None)


def check_cells(question: Question, most: int = MOST_CELLS) -> None:
    """Raises Unsupported, located, if declared values make more than `most` groups, or none."""
    cells = cells_declared(question)
    if cells > most:
        raise Unsupported(f"the declared values of the keys make {cells} groups, more than {most}", code="too-many-groups",
                          span=question.keys[-1].span, try_="fewer or coarser keys")
    check_values(question)


def check_values(question: Question) -> None:
    """Raises Unsupported, located, if conditions leave no value of a key with declared values."""
    for key in question.keys:
        if key.domain is not None and not key.values:
            raise Unsupported(f"no value of {key.name} is left, so there are no groups", code="no-groups", span=key.span,
                              subject=key.name, try_="conditions that some of its declared values satisfy")


def priced(price: Price | None, budget: Budget, span: Mapping[str, Span] = MappingProxyType({})) -> Price:
    """The price, if there is one that fits the budget; OptionError otherwise. `span` has the places in the text of its
    options."""
    if price is None:
        raise OptionError("no price is given", code="no-price",
                          try_="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) ..., epsilon=0.5 where you connect, or "
                          "[budgets.<name>.per_statement] in the policy")
    if (wrong := misfit(price, budget.total)) is not None:
        name, reason, instead = wrong
        raise OptionError(f"the budget {budget.name} {reason}", code="price", subject=name, span=span.get(name), try_=instead)
    return price


# -- whether the price is spent as a pure epsilon or as rho


def _with_account(program: Program, price: Price, public: PublicFacts) -> tuple[Program, list[list[Choice | None]]]:
    """The program with its price as a pure epsilon or as rho, whichever gives the smaller expected error; and the choices for
    the parts of each of its questions."""
    tasks: dict[tuple[int, int | None], list[Task]] = {}

    def assigned(place: int, below: Program) -> list[Choice | None]:
        account = place, below.order if below.bound.name == "clip" else None
        if account not in tasks:
            tasks[account] = _expected_tasks(below, public)
        return _assigned(below, tasks[account])

    held = [_with_rules(_shared_out(program, given)) for given in budgets_by_account(price)]
    tried = [(candidate, [assigned(place, below) for place, below in enumerate(_questions(candidate))]) for candidate in held]
    return min(tried, key=lambda each: (len(_unused(each[0])), sum(map(_expected_size, _questions(each[0]), each[1]))))


def _questions(program: Program) -> tuple[Program, ...]:
    """A program, then the programs of its scalar subqueries."""
    return (program, *(below for _, below in program.first))


def _shared_out(program: Program, whole: Cost) -> Program:
    """The program with a price that is divided among its questions, in proportion to how many things each measures.

    So all measurements are about equally accurate.
    """
    if not program.first:
        return replace(program, allotted=whole, whole=whole)
    programs = [program, *(below for _, below in program.first)]
    shares_ = [len(below.decomposition.parts) + bool(below.hidden) for below in programs]
    takers = max(1, sum(below.may_fail for below in programs))
    outer, *inner = (replace(below, allotted=whole.part(Fraction(share, sum(shares_) or 1),
                                                        delta=whole.delta * below.may_fail / takers))
                     for below, share in zip(programs, shares_, strict=True))
    return replace(outer, whole=whole, first=tuple(
        (scalar, below) for (scalar, _), below in zip(program.first, inner, strict=True)))


def _with_rules(program: Program) -> Program:
    """The program with the rules that select undeclared keys, its own and those of its scalar subqueries."""
    return replace(_with_rule(program), first=tuple((scalar, _with_rule(below)) for scalar, below in program.first))


def _with_rule(program: Program) -> Program:
    """The program with the rule that selects its undeclared keys, if it has any."""
    if not program.hidden:
        return program
    name, span = program.hidden[0].name, program.hidden[0].span
    because = not_listed(program.question, program.hidden[0])
    between = f"WHERE {name} BETWEEN 1 AND 100, " if program.known.owner is None and program.hidden[0].type is Type.BIGINT else ""
    if program.known.rows is None and program.known.owner is None:
        raise Unsupported(f"{because}, and rows here belong to several entities each, so that one of "
                          "them could be in any number of groups", code="no-owner", span=span, subject=name,
                          try_=f"{between}values = [...] for the column in the policy, or OPTIONS (bound = 'frequency', "
                          "max_frequency = 10)")
    for key in program.hidden:
        if key.column in (program.known.owner, *program.known.owners):
            raise Unsupported(f"each group of {key.name} is one entity, and such groups are never shown", code="entity-group",
                              span=key.span, subject=key.name, try_=f"(SELECT {key.name}, COUNT(*) AS n FROM ... GROUP BY "
                              f"{key.name}) as a subquery, and AVG(n) or another aggregate over it")
    if not program.allotted.delta:
        raise Unsupported(f"{because}, so which of them occur is private, and selecting them needs a delta", code="no-delta",
                          span=span, subject=name,
                          try_=f"{between}OPTIONS (epsilon = 0.5, delta = 1e-6) where the budget has a delta, or values = [...] "
                          "for the column in the policy")
    found = rules_of(program, program.known)
    named = [choice for choice in found if choice.name in program.options.mechanisms]
    if not found:
        raise Unsupported("the price is too small to select groups", code="price", span=span, try_="a larger epsilon or delta")
    return replace(program, rule=(named or list(found))[0])


def rules_of(program: Program, known: Stability) -> tuple[KeyChoice, ...]:
    """The rules that can select undeclared keys of rows with this stability, the best one first; empty if the price is too
    small."""
    price = program.stages["keys"]
    return key_choices(price, program.groups) if known.owner is not None else choices_for_rows(price, known.rows or 1)


def _expected_size(program: Program, choices: Sequence[Choice | None]) -> float:
    """The weighted sum of the logarithms of expected errors, by which accounts are compared."""
    weights = program.decomposition.weights
    sizes = [weights[choice.task.at] * math.log(max(choice.yes.error, 1e-9)) for choice in choices
             if choice is not None and math.isfinite(choice.yes.error)]
    if program.rule is None:
        return sum(sizes)
    counted = sum(weights[at] for at in program.counted)
    of_counts = counted * math.log(max(noise_of(program.rule.rule).scale, 1e-9)) if counted else 0.0
    return sum(sizes) + math.log(program.rule.half) + of_counts


def expected(program: Program, public: PublicFacts) -> list[Choice | None]:
    """The expected choices for the parts that are measured; what is learned first may change them."""
    return _assigned(program, _expected_tasks(program, public))


def _assigned(program: Program, tasks: Sequence[Task]) -> list[Choice | None]:
    return assign(program, tasks, cells_declared(program.question))


def _expected_tasks(program: Program, public: PublicFacts) -> list[Task]:
    """The tasks of the parts that are measured, with limits that are still to be learned set to 1. They depend on the account
    only by the norm of a clip."""
    if program.learn == "degrees" and program.degrees is not None:
        program = replace(program, degrees=program.degrees.at_most(1))
    view = program.view if program.learn != "rows" else keep_rows(program.view, 1, program.owner)
    learned = dict.fromkeys(range(len(program.decomposition.parts)), 1) if program.learn == "totals" else {}
    return tasks_of(program, program.decomposition, view, public, learned)


def tasks_of(program: Program, parts: Decomposition, view: Node, public: PublicFacts, learned: Mapping[int, int]) -> list[Task]:
    """The tasks of all parts that are measured, over the view with its limits; `learned` has limits on totals, by part."""
    counted = program.counted
    return [_task(program, i, part, view, public, learned.get(i)) for i, part in enumerate(parts.parts) if i not in counted]


def _task(program: Program, at: int, part: Part, view: Node, public: PublicFacts, learned: int | None) -> Task:
    bound, options = program.bound, program.options
    if program.degrees is not None:
        return program.degrees.task(at, part, program.keys, bound.name)
    if bound.mechanism is not None:
        rows = program.known.rows
        declared = rows or (declared_rows(view) if bound.name == "extension" or isinstance(part, Quantiles) else None)
        most = declared or USUAL_MOST_ROWS
        groups = [number for number in (rows, options.max_groups) if number is not None]
        return shared_task(at, part, view, program.known.owners, bound.name, most, clip=options.clip,
                           groups=min(groups, default=None), keys=program.keys, declared=declared is not None)
    if isinstance(part, Matchings):
        return vouched_task(at, part, view, program.owner, program.known.rows or USUAL_MOST_ROWS)
    limit: Clipping | Reservoir | None = None
    if isinstance(part, Sums) and bound.name in ("clip", "reservoir"):
        size = learned
        if size is None:
            assert options.clip is not None
            size = clip_of(part.summand, options.clip)
        if bound.name == "clip":
            limit = Clipping(owner=program.owner, order=program.order, bound=size)
        else:
            if size > MOST_STEPS:
                raise OptionError("clip is too large for the grid that values are summed on", code="bound", subject="clip",
                                  span=options.span.get("clip"), try_="bound = 'reservoir', clip = 1000, or coarser values")
            limit = Reservoir(owner=program.owner, groups=program.groups, bound=size)
    return task_of(at, part, view, program.keys, public, limit=limit,
                   listed=are_listed(part, program.known, program.question, options))


def assign(program: Program, tasks: Sequence[Task], cells: int, given: Sequence[float] = ()) -> list[Choice | None]:
    """Divide the cost of the parts, by how many aggregates use each or by the weights `given`, and choose each task's
    mechanism."""
    allotted_ = program.parts_allotted
    if program.learn == "centres":
        given = weights_of(program.question, program.decomposition, program.bound)
    weights = [weight_of(task, (given or program.decomposition.weights)[task.at]) for task in tasks]
    found = []
    for task, share in zip(tasks, split_budget(weights, pure=allotted_.epsilon is not None), strict=True):
        smooth = isinstance(task, Ordered) and "smooth_sensitivity" in program.options.mechanisms
        part = allotted_.part(share, delta=program.allotted.delta / program.delta_takers if smooth else Fraction(0))
        found.append(choose(task, part, cells, program.options.mechanisms))
    return found


def _check_mechanisms(program: Program) -> None:
    """Raises OptionError if a mechanism that was named has nothing to do."""
    unused = _unused(program)
    if unused:
        name, reason = next(iter(unused.items()))
        raise OptionError(f"{name} cannot answer this statement: {reason}", code="mechanism", subject=name,
                          span=program.options.span.get("mechanism"), try_="the statement without it: the best method is chosen")


def _check_choices(choices: Sequence[Sequence[Choice | None]], program: Program, public: PublicFacts) -> None:
    """Raises OptionError unless every part has a mechanism that can do it at this price."""
    for below, found in zip(_questions(program), choices, strict=True):
        if not all(choice is not None and _may_be_asked(choice, below, public) for choice in found):
            raise OptionError("the price is too small for this statement", code="price", try_="a larger epsilon or rho")


def _may_be_asked(choice: Choice, program: Program, public: PublicFacts) -> bool:
    """Whether the kernel takes the first request of a bound's mechanism: a tiny price means noise too wide to be drawn."""
    if not isinstance(choice.task, Shared):
        return True
    several = range(cells_declared(program.question))
    cells = tuple((number,) * len(program.keys) for number in several)  # any that differ: only their number counts
    request = next(choice.mechanism.run([(choice.task, choice.allotted)], Setting(keys=program.keys, cells=cells)))
    plan, = request.plans  # requests of such mechanisms have one plan
    try:
        taken(request).cost(certify(plan, public) if isinstance(plan, GroupedSums) else Certificate(
            below=stability(plan.inputs[0], public), summands=()))
    except ValueError:
        return False
    return True


def _unused(program: Program) -> dict[str, str]:
    """The mechanisms that were named but can do nothing in any question of the statement, each with a reason."""
    if not program.options.mechanisms:
        return {}
    found = _unused_in(program)
    others = [_unused_in(below) for _, below in program.first]
    return {name: reason for name, reason in found.items() if all(name in other for other in others)}


def _unused_in(program: Program) -> dict[str, str]:
    cells = cells_declared(program.question) + bool(program.hidden)
    shapes = [_shape_of(i, part, program) for i, part in enumerate(program.decomposition.parts)]
    found = {}
    for name in program.options.mechanisms:
        if name in RULES:
            if program.rule is None or program.rule.name != name:
                found[name] = "it only selects groups with undeclared keys, and only at certain prices"
            continue
        mechanism = next(known for known in MECHANISMS if known.name == name)
        verdicts = [mechanism.judge(task, program.allotted, cells) for task in shapes]
        reasons = [verdict.because for verdict in verdicts if isinstance(verdict, No)]
        if len(reasons) == len(verdicts):
            found[name] = reasons[-1] if reasons else "nothing is measured"
    return found


def _shape_of(at: int, part: Part, program: Program) -> Task:
    """A task of this part's kind, to find out which mechanisms could do it."""
    if program.degrees is not None:
        return program.degrees.at_most(1).task(at, part, program.keys, program.bound.name)
    if program.bound.mechanism is not None:
        return shared_task(at, part, program.view, program.known.owners, program.bound.name, 1, clip=program.options.clip,
                           keys=program.keys)
    if isinstance(part, Quantiles):
        return Ordered(at=at, input=program.view, part=part, rows=program.known.rows or 1)
    if isinstance(part, Distincts) and part.values is not None and are_listed(part, program.known, program.question,
                                                                              program.options):
        return Occurrences(at=at, input=program.view, owner=program.owner, column=part.column, values=tuple(part.values.values),
                           total=None)
    if isinstance(part, Matchings):
        return vouched_task(at, part, program.view, program.owner, 1)
    summand = part.summand if isinstance(part, Sums) else Count()
    return Linear(at=at, input=program.view, summand=summand, sensitivity=Sensitivity(l1=1, l2=1))
