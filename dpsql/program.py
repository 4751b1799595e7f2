"""What will be done for a question, as far as it can be told before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.accounting.filter import purse
from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price
from dpsql.choose import Choice, choose, shares, weight_of
from dpsql.errors import OptionError, Unsupported
from dpsql.mechanisms.base import Linear, No, Ordered, Task
from dpsql.mechanisms.catalogue import MECHANISMS
from dpsql.mechanisms.select.keys import RULES, KeyChoice, key_choices
from dpsql.options import Options
from dpsql.plan.certificate import certify, first_unbounded, stabilities
from dpsql.plan.expr.nodes import Ref
from dpsql.plan.node import Node, PublicFacts, Stability
from dpsql.plan.operators.clip import Clip
from dpsql.plan.operators.contributions import MOST, Contributions
from dpsql.plan.operators.distinct import Distinct
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.plan.operators.tally import Tally
from dpsql.plan.operators.truncate import Truncate
from dpsql.plan.parts import Decomposition, Distincts, Part, Quantiles, Sums
from dpsql.plan.question import Key, Question
from dpsql.plan.rules.decompose import decompose
from dpsql.plan.rules.limit_rows import limit_rows, row_order
from dpsql.plan.rules.prune_columns import prune_columns
from dpsql.types import Interval, Span, Type

LEARN_SHARE, BOUNDS_SHARE, KEYS_SHARE = Fraction(1, 5), Fraction(1, 10), Fraction(3, 10)
USUAL_GROUPS = 4  # of how many undeclared groups an entity tells, where neither it nor the statement says
MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The decisions of a statement, made from its text, the policy and public tables.

    view      the rows that are asked about, with declared limits enforced and `max_rows` too
    known     the stability of the view
    learn     'rows' or 'totals' where a limit is learned privately first
    searched  columns whose bounds are searched for, with the span of an aggregate that needs them
    hidden    keys whose values are not declared, and the rule that selects them
    purse     what the whole statement spends, and the part of each stage
    """

    question: Question
    options: Options
    view: Node
    known: Stability
    purse: Cost
    learn: str | None
    searched: tuple[str, ...]
    hidden: tuple[Key, ...]
    rule: KeyChoice | None
    groups: int
    decomposition: Decomposition

    @property
    def stages(self) -> dict[str, Cost]:
        """The amounts of the stages, in the order they are run; what is left over goes to the parts."""
        found: dict[str, Cost] = {}
        if self.learn is not None:
            found["limits"] = self.purse.part(LEARN_SHARE)
        if self.searched:
            found["bounds"] = self.purse.part(BOUNDS_SHARE)
        if self.hidden:
            share = KEYS_SHARE if self.decomposition.parts else 1 - (LEARN_SHARE if "limits" in found else 0)
            found["keys"] = self.purse.part(Fraction(share), delta=self.purse.delta / self.delta_takers)
        return found

    @property
    def parts_purse(self) -> Cost:
        """What is left for the parts together."""
        taken = (LEARN_SHARE if self.learn is not None else 0) + (BOUNDS_SHARE if self.searched else 0) + (
            KEYS_SHARE if self.hidden else 0)
        return self.purse.part(1 - Fraction(taken))

    @property
    def delta_takers(self) -> int:
        """How many stages or tasks share the delta of failures."""
        smooth = sum(isinstance(part, Quantiles) for part in self.decomposition.parts) if (
            "smooth_sensitivity" in self.options.mechanisms) else 0
        return max(1, smooth + bool(self.hidden))

    @property
    def cost(self) -> Cost:
        """What is charged: exactly the price, the delta of failures only where something may fail."""
        uses_delta = bool(self.hidden) or "smooth_sensitivity" in self.options.mechanisms
        return replace(self.purse, delta=self.purse.delta if uses_delta else Fraction(0))


def limited_view(question: Question, options: Options, public: PublicFacts, span: Span | None) -> tuple[Node, Stability]:
    """The rows that are asked about, with all limits enforced, and their stability.

    Raises Unsupported, located at `span` or at the join responsible, where no bound can be found.
    """
    view = limit_rows(prune_columns(question.view))
    known = stabilities(view, public)
    here = known[id(view)]
    if options.max_rows is not None and here.owner is not None and not here.public:
        view = Truncate(input=view, rows=options.max_rows, owner=here.owner, order=row_order(view, here.owner))
        return view, stabilities(view, public)[id(view)]
    if here.owner is None and here.rows is None:
        raise _unbounded(view, known, span)
    return view, here


def compile_question(question: Question, options: Options, budget: Budget, public: PublicFacts, view: Node,
                     known: Stability) -> Program:
    """Decide all that can be decided about a private view. Raises Unsupported or OptionError for what cannot be answered."""
    searched = _searched(question)
    parts = decompose(question, owner=known.owner, bounds=dict.fromkeys(searched, Interval(0, 1)))
    hidden = tuple(key for key in question.keys if key.domain is None)
    _check_cells(question)
    price = _price(options.price, budget)
    groups = options.max_groups or min(known.rows or USUAL_GROUPS, USUAL_GROUPS)
    program = Program(question=question, options=options, view=view, known=known, purse=purse(price, concentrated=False),
                      learn=_learn(known, parts, question, options), searched=searched, hidden=hidden, rule=None, groups=groups,
                      decomposition=parts)
    return _check_mechanisms(_with_account(program, price, public))


def _searched(question: Question) -> tuple[str, ...]:
    """Columns that need bounds, have none, and may be searched."""
    found = []
    for call in question.aggregates:
        if call.columns and call.function not in ("count", "count_distinct"):
            known = question.view.field(call.columns[0]).facts
            if known.type.numeric and not known.declared.finite and known.search and call.columns[0] not in found:
                found.append(call.columns[0])
    return tuple(found)


def _learn(known: Stability, parts: Decomposition, question: Question, options: Options) -> str | None:
    """Whether a limit must be learned: of rows where none is known, of totals where they are clipped without a number."""
    if options.bound == "clip" and any(isinstance(part, Sums) for part in parts.parts):
        if known.owner is None:
            raise Unsupported("an entity's total cannot be clipped, as rows here are not owned by one entity each",
                              code="no-owner", try_="bound = 'rows'")
        if known.rows is None and not all(isinstance(part, Sums) for part in parts.parts):
            raise Unsupported("clip bounds sums; the other aggregates of this statement need a limit of rows", code="clip",
                              try_="max_rows = 10, or rows_per_entity in the policy")
        _check_clip(question, options)
        return "totals" if options.clip is None else None
    counted = all(isinstance(part, Distincts) and part.entities for part in parts.parts) and not question.keys
    return "rows" if known.rows is None and not counted else None


def _check_clip(question: Question, options: Options) -> None:
    """A clip is one number, so it must have one meaning."""
    units = dict.fromkeys(call.text if call.function == "sum" else "rows" for call in question.aggregates)
    if options.clip is not None and len(units) > 1:
        raise OptionError("clip could mean " + " or ".join(units) + " here", code="clip", subject="clip",
                          try_="bound = 'clip' without a number: each limit is then learned; or one statement for each")


def _unbounded(view: Node, known: dict[int, Stability], span: Span | None) -> Unsupported:
    node, lost = first_unbounded(view, known)
    tables = sorted({scan.table.name for scan in _scans(node) if not scan.table.public})
    if isinstance(node, Join):
        where = node.span or span
        keys = " and ".join(tables)
        if node.keep_left and known[id(node.left)].public:
            return Unsupported(f"this join keeps the rows of a public table, so whether they meet a row of {keys} would show",
                               code="outer-public", span=where, subject=keys,
                               try_=f"{tables[-1]} on the kept side: FROM {tables[-1]} LEFT JOIN ..., or an inner join")
        return Unsupported(f"one entity's rows of {keys} can meet the rows of many others in this join, so there is no bound on "
                           "what it changes", code="many-to-many", span=where, subject=keys,
                           try_="a join along the foreign key to the entity, or AND the entity's key on both sides: "
                           "ON a.key = b.key AND a.person = b.person")
    return Unsupported(f"no bound is known on what one entity changes here: {lost.because}", code="unbounded", span=span,
                       subject=", ".join(tables), try_="the entity's key among the columns of the subquery")


def _scans(node: Node) -> list[Scan]:
    return [node] if isinstance(node, Scan) else [scan for below in node.inputs for scan in _scans(below)]


def cells_declared(question: Question) -> int:
    """How many cells the keys with declared values have."""
    return math.prod(len(key.domain) + key.nullable for key in question.keys if key.domain is not None)


def _check_cells(question: Question) -> None:
    cells = cells_declared(question)
    if cells > MOST_CELLS:
        raise Unsupported(f"the declared values of the keys make {cells} groups, more than {MOST_CELLS}", code="too-many-groups",
                          span=question.keys[-1].span, try_="fewer or coarser keys")
    if cells == 0:
        raise Unsupported("a key has no values", code="no-groups", span=question.keys[0].span)


def _price(price: Price | None, budget: Budget) -> Price:
    """The price, if the budget can hold it."""
    total = budget.total
    if price is None:
        raise OptionError("no price is given", code="no-price",
                          try_="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) ..., epsilon=0.5 where you connect, or "
                          "[budgets.<name>.per_statement] in the policy")
    if price.rho is not None and total.rho is None and not total.delta:
        raise OptionError(f"the budget {budget.name} is a pure epsilon, and a price in rho is not", code="price", subject="rho",
                          try_="epsilon = 0.5")
    if price.epsilon is not None and price.delta and not total.delta:
        raise OptionError(f"the budget {budget.name} has no delta", code="price", subject="delta", try_="a price without delta")
    return price


# -- which account the price is held in


def _with_account(program: Program, price: Price, public: PublicFacts) -> Program:
    """The program with its price held as a pure epsilon or as rho, whichever promises less error."""
    accounts = (True,) if price.rho is not None else (False, True) if price.delta else (False,)
    tried = [_with_rule(replace(program, purse=purse(price, concentrated=account))) for account in accounts]
    return min(tried, key=lambda candidate: expected_size(candidate, public))


def _with_rule(program: Program) -> Program:
    """The program with the rule that selects its undeclared keys, if it has any."""
    if not program.hidden:
        return program
    name, span = program.hidden[0].name, program.hidden[0].span
    if not program.purse.delta:
        raise Unsupported(f"the values of {name} are not declared, so which of them occur is private, and selecting them needs a "
                          "delta", code="no-delta", span=span, subject=name,
                          try_="OPTIONS (epsilon = 0.5, delta = 1e-6), or values = [...] for the column in the policy")
    found = key_choices(program.stages["keys"], program.groups)
    named = [choice for choice in found if choice.name in program.options.mechanisms]
    if not found:
        raise Unsupported("the price is too small to select groups", code="price", span=span, try_="a larger epsilon or delta")
    return replace(program, rule=(named or list(found))[0])


def expected_size(program: Program, public: PublicFacts) -> float:
    """The weighted mean of the logarithms of expected errors, to compare accounts with."""
    choices, weights = expected(program, public), program.decomposition.weights
    sizes = [weight * math.log(max(choice.yes.error, 1e-9)) for choice, weight in zip(choices, weights, strict=True)
             if choice is not None and math.isfinite(choice.yes.error)]
    return sum(sizes) + (math.log(program.rule.half) if program.rule is not None else 0.0)


def expected(program: Program, public: PublicFacts) -> list[Choice | None]:
    """The choices for all parts, as far as they are known: a limit that is still to be learned counts as one row."""
    view = program.view
    if program.known.rows is None and program.known.owner is not None:
        view = Truncate(input=view, rows=1, owner=program.known.owner, order=row_order(view, program.known.owner))
    tasks = [task_of(i, part, view, program, public, clip=1) for i, part in enumerate(program.decomposition.parts)]
    return assign(program, tasks, cells_declared(program.question))


def assign(program: Program, tasks: Sequence[Task], cells: int) -> list[Choice | None]:
    """Share out what is left for the parts, and choose the mechanism of each."""
    purse_ = program.parts_purse
    weights = [weight_of(task, uses) for task, uses in zip(tasks, program.decomposition.weights, strict=True)]
    found = []
    for task, share in zip(tasks, shares(weights, pure=purse_.epsilon is not None), strict=True):
        smooth = isinstance(task, Ordered) and "smooth_sensitivity" in program.options.mechanisms
        part = purse_.part(share, delta=program.purse.delta / program.delta_takers if smooth else Fraction(0))
        found.append(choose(task, part, cells, program.options.mechanisms))
    return found


def _check_mechanisms(program: Program) -> Program:
    """A mechanism that was named must have something to do."""
    unused = [name for name in program.options.mechanisms if not (name in RULES and program.hidden)]
    account = program.purse
    for name in unused:
        mechanism = next((known for known in MECHANISMS if known.name == name), None)
        reason = "there is no key to select" if mechanism is None else ""
        for i, part in enumerate(program.decomposition.parts if mechanism is not None else ()):
            task = _shape_of(i, part, program)
            assert mechanism is not None
            verdict = mechanism.judge(task, account, cells_declared(program.question) + bool(program.hidden))
            if not isinstance(verdict, No):
                reason = ""
                break
            reason = verdict.because
        if reason:
            raise OptionError(f"{name} cannot answer this statement: {reason}", code="mechanism", subject=name)
    return program


def _shape_of(at: int, part: Part, program: Program) -> Task:
    """A task of this part's kind, for asking mechanisms whether they could do it."""
    from dpsql.plan.certificate import Sensitivity

    if isinstance(part, Quantiles):
        return Ordered(at=at, input=program.view, part=part, rows=program.known.rows or 1)
    summand: Summand = part.summand if isinstance(part, Sums) else Count()
    return Linear(at=at, input=program.view, summand=summand, sensitivity=Sensitivity(l1=1, l2=1))


# -- parts as tasks


def task_of(at: int, part: Part, view: Node, program: Program, public: PublicFacts, *, clip: int | None = None) -> Task:
    """A part over a view whose rows are limited; `clip` is the limit of totals where these are clipped instead."""
    keys = tuple(key.column for key in program.question.keys)
    match part:
        case Quantiles():
            known = stabilities(view, public)[id(view)]
            assert known.rows is not None
            return Ordered(at=at, input=view, part=part, rows=known.rows)
        case Distincts():
            input_: Node = distinct_values(view, part, keys)
            summand: Summand = Count(column=part.column)
        case Sums():
            input_, summand = view, part.summand
            if clips(program) and clip is not None:
                order = 1 if program.purse.epsilon is not None else 2
                input_ = Clip(input=contributions(view, part.summand, program), owner=owner_of(program),
                              columns=totals(part.summand), order=order, bound=clip)
                summand = Clipped(clipped=totals(part.summand))
    certificate = certify(Tally(input=input_, keys=keys, summands=(summand,)), public)
    return Linear(at=at, input=input_, summand=summand, sensitivity=certificate.summands[0])


def distinct_values(view: Node, part: Distincts, keys: Sequence[str]) -> Node:
    """The values of a column in each cell, each once."""
    kept = view if part.when is None else Filter(input=view, condition=Ref(column=part.when, type=Type.BOOLEAN))
    names = dict.fromkeys((*keys, part.column))
    return Distinct(input=Project(input=kept, columns=tuple((name, view.names[name], view.field(name).ref) for name in names)))


def clips(program: Program) -> bool:
    return program.options.bound == "clip"


def owner_of(program: Program) -> str:
    assert program.known.owner is not None
    return program.known.owner


def contributions(view: Node, summand: Summand, program: Program) -> Contributions:
    """What each entity adds to each cell. (The cells of an entity are those that its rows are in, declared or not.)"""
    keys = tuple(key.column for key in program.question.keys)
    return Contributions(input=view, owner=owner_of(program), keys=keys, summands=(summand,))


def totals(summand: Summand) -> tuple[str, ...]:
    return tuple(f"e0_{j}" for j in range(summand.components))


def clip_of(summand: Summand, limit: Fraction) -> int:
    """A limit in the unit of the aggregate as an integer of the summand: rows for counts and moments, values for sums."""
    size = Fraction(base_of(summand)) * limit
    if isinstance(summand, GridSum):
        size = limit / summand.grid.step
    return max(1, min(MOST, math.ceil(size)))


def base_of(summand: Summand) -> int:
    """The integers that one row adds to counts and moments."""
    return summand.total if isinstance(summand, Moments) else 1
