"""Statements with a required accuracy that are answered by themselves: averages, variances, quantiles, numbers of distinct
values, and lists of different aggregates.

The price is the least at which every foreseen error (`planning.foreseen_errors`) is within its target. It is found by bisection,
and at each price the statement is planned anew, as it would be answered: so the plan that is priced is the plan that is run.
Errors depend on numbers of rows, which the analyst states or which follow from earlier answers. No price depends on anything else
that is private.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.answers.answer import ALL_ROWS, Answer, of_json, rows_shown, without_limit
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.batch.goals import Goals, goals_of
from dpsql.catalog.price import LEAST, MOST, Price
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.accuracy import account_price, left_in_limits
from dpsql.engine.charging import Charged, ChargeRequest, compose_answer, located, refusal, with_minimum_frequency
from dpsql.engine.known_rows import EarlierAnswer, least_rows
from dpsql.engine.session import Session
from dpsql.engine.single import SingleStatement, bound_to, compiled
from dpsql.errors import BudgetExhausted, Error, OptionError, Unsupported
from dpsql.estimates import Estimate
from dpsql.frozen import Frozen, replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.choose import allotted_budget
from dpsql.planning.contribution_bound import call_in_words
from dpsql.planning.foreseen_errors import IN_RANKS, PRICE, AskedError, open_side, strain
from dpsql.planning.left_out import left_out
from dpsql.planning.options import Options
from dpsql.planning.program import Program
from dpsql.planning.script import script
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.identity import digest
from dpsql.questions.question import AggregateCall, Question
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Goal, Option, Query
from dpsql.trusted.accounting.cost import NANO, Cost
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.nodes import columns
from dpsql.trusted.plan.node import Node, Stability

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

CLOSE = 1.001  # the price is at most this multiple of the least one
FIRST = 0.1  # the price that is tried first
FARTHEST = 64.0  # the largest step from a price to the next one that is tried
MET = 1 + 1e-9  # times a target: an error up to this meets it, apart from rounding


class SolvedPlan(Frozen):
    """The program at the least price, and what it was solved for."""

    program: Program
    asked: tuple[AskedError, ...]
    told: str

    @property
    def price(self) -> Price:
        found = self.program.options.price
        assert found is not None
        return found


class SolvedStatement(Charged[Answer]):
    """A statement by itself with a required accuracy; a price among its options `given` is a cap. `cheapest` solves for the
    price, once. It raises a located error."""

    question: Question
    goals: Mapping[str, Goal]
    options: Options
    given: Sequence[Option]
    cheapest: Callable[[], SolvedPlan]

    @property
    def identity(self) -> str:
        options = replace(self.options, price=None)
        return digest(self.session.policy, "solved", without_limit(self.question), dict(self.goals),
                      account_price(self.given, self.session), options)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explanation(self) -> Explanation:
        from dpsql.planning.explain import explained

        with located(self.text):
            made = self.cheapest()
        told = explained(made.program, self.session.kernel, entity=self.session.catalog.entity.name,
                         left=left_in_budget(self.session))
        return replace(told, first_line=made.told, notes=self._notes(made.program))

    def _notes(self, program: Program) -> tuple[str, ...]:
        return *self.notes_on_periods(program.cost), *left_out(program, self.session.catalog, self.session.kernel)

    def answer(self) -> Answer:
        with located(self.text):
            made = self.stored_or_paid()
        shown = rows_shown(self.question.limit, self.question.offset)
        return made if shown == ALL_ROWS else made.at(shown)

    def read(self, stored: str) -> Answer:
        return of_json(stored).named([output.name for output in self.question.outputs])

    def bill(self) -> ChargeRequest:
        made, (views, cost) = self.cheapest(), self.queried()
        return ChargeRequest(steps=_steps(made, self.session, self._notes(made.program)), cost=cost, options=made.program.options,
                             views=views)

    def queried(self) -> tuple[Sequence[Node], Cost]:
        program = self.cheapest().program
        return (program.view,), program.cost

    def too_dear(self, refused: Refused, due: ChargeRequest) -> BudgetExhausted:
        """The error, stating which accuracy the remaining budget can buy."""
        fault, made = refusal(refused, due, self.session), self.cheapest()
        left = left_in_limits(self.session, concentrated=made.program.allotted.epsilon is None)
        fault.try_ = reachable(made, left, self.session) or fault.try_
        return fault


def needs_solving(question: Question, clauses: Sequence[Goal], known: Stability) -> bool:
    """Whether a statement with an accuracy is not a workload of COUNT and SUM over rows with a limit for each entity."""
    own, common = {clause.column for clause in clauses}, any(clause.column is None for clause in clauses)
    wanted = [output for at, output in enumerate(question.outputs) if common or at in own]
    read = {name for output in wanted for name in columns(output.expr)}
    return known.rows is None or any(not call.aggregate.linear for call in question.aggregates if call.id in read) or any(
        clause.kind in IN_RANKS for clause in clauses)


def solved(query: Query, question: Question, options: Options, known: Stability, session: Session) -> SolvedStatement:
    """The plan of a statement by itself with required accuracies. Raises a located error if a clause is wrong."""
    for name in ("strategy", "planning"):
        if getattr(options, name) is not None:
            raise OptionError(f"{name} is for workloads, and this accuracy is not one", code="accuracy", subject=name,
                              span=options.span.get(name), try_="the statement without it")
    if options.consistency != "none":
        raise OptionError("consistency and rounding cause a bias, so no accuracy can be promised", code="consistency",
                          subject="consistency", span=options.span.get("consistency"), try_="one of the two")
    if question.together:
        spans = [call.span for call in question.aggregates if not call.aggregate.linear]
        raise Unsupported("an accuracy of several grouping sets, or of groups that are added up, is for COUNT and SUM of rows "
                          "that belong to one entity each", code="accuracy", span=spans[0] if spans else span_of(query.tree),
                          try_=f"one statement for each GROUP BY, or {PRICE}")
    goals = goals_of(question, query.goals, None, linear=False)
    asked = with_minimum_frequency(question, known, session)
    return SolvedStatement(question=asked, goals=goals, options=options, given=query.options, session=session, text=query.text,
                  cheapest=functools.cache(lambda: _cheapest(query, asked, goals, options, session)))


# -- the price


def _cheapest(query: Query, question: Question, goals: Mapping[str, Goal], options: Options, session: Session) -> SolvedPlan:
    """The cheapest plan. Raises an error if none meets the goals, or if it costs more than the given price."""
    account = account_price(query.options, session)
    pure = account.epsilon is not None and not account.delta
    question, span = without_limit(question), span_of(query.tree)
    view, _ = limited_view(question, options, session.kernel, span)
    asked = tuple(_asked(question, view, goals, options, session))
    found: list[SolvedPlan] = []
    problems: list[Error] = []
    ways = [*_ways(question, options, pure=pure)]
    for way in ways:
        try:
            view, known = limited_view(question, way, session.kernel, span)
            made = _solved(question, way, view, known, asked, session, pure=pure)
        except (OptionError, Unsupported) as fault:
            if fault.code == "accuracy-size":
                raise
            problems.append(fault)
            continue
        found += [made] if made is not None else []
    if not found and len(problems) < len(ways):
        raise Unsupported(f"no price meets {_written(goals, options)}", code="accuracy", span=span, try_="a wider error")
    if not found:  # the owner can say that limits hold; all else that is missing may be out of reach
        raise next((problem for problem in problems if problem.try_.startswith("limits_hold")), problems[0])
    best = min(found, key=lambda made: (any(open_side(made.program, one.call) for one in made.asked), _amount(made.price)))
    best = replace(best, told=f"{best.price} meets {_written(goals, options)}{_sizes(best.asked, options)}")
    _check_cap(best, query.options, account, session)
    return best


def _asked(question: Question, view: Node, goals: Mapping[str, Goal], options: Options, session: Session) -> Iterator[AskedError]:
    """The required errors, with the numbers of rows that are known."""
    calls = {call.id: call for call in question.aggregates}
    answered = functools.cache(lambda text: _answered(text, session))
    for name, goal in goals.items():
        call = calls[name]
        if call.aggregate.kind is Kind.RANK and goal.confidence not in (None, options.confidence):
            raise OptionError("the ends of a quantile's interval are chosen for one confidence", code="accuracy", span=goal.span,
                              subject="confidence", try_=f"OPTIONS (confidence = {float(goal.confidence or 0):g})")
        rows: float | None = options.stated_rows
        if rows is None and _sized(call, goal, question):
            rows = _known(question, view, call, session, answered)
        yield AskedError(call=call, goal=goal, confidence=float(goal.confidence or options.confidence), rows=rows,
                         spread=float(options.stated_spread or 0))


def _sized(call: AggregateCall, goal: Goal, question: Question) -> bool:
    """Whether the error of an aggregate depends on the number of rows."""
    kind = call.aggregate.kind
    beside = sum(other.aggregate.kind is Kind.RANK for other in question.aggregates) > 1
    return kind in (Kind.MEAN, Kind.SPREAD) or goal.kind == "share" or (kind is Kind.RANK and beside)


def _known(question: Question, view: Node, call: AggregateCall, session: Session,
           answered: Callable[[str], EarlierAnswer | None]) -> float | None:
    """The number of rows that earlier answers tell. Raises Unsupported, located, if a group may have none."""
    rows = least_rows(question, view, call, session, answered)
    if rows is not None and rows < 1:
        raise Unsupported(f"{'a group' if question.keys else 'this'} may have no rows, so how accurate {call_in_words(call)} is "
                          "cannot be said", code="accuracy-size", span=call.span, subject=call_in_words(call),
                          try_="OPTIONS (rows = 1000): groups of fewer rows then have wider intervals")
    return rows


def _answered(text: str, session: Session) -> EarlierAnswer | None:
    """The stored answer to a statement; None if it is another kind of statement, or was answered otherwise."""
    try:
        query = parse(text)
        if not isinstance(query, Query) or query.parameters:
            return None
        question, options = bound_to(query, session, ())
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public or question.scalars or question.together:
            return None
        made: SolvedStatement | SingleStatement
        if query.goals:
            made = solved(query, question, options, known, session)  # those of workloads are kept as records
            question = made.question
        else:
            question = with_minimum_frequency(question, known, session)
            made = SingleStatement(program=compiled(without_limit(question), options, view, known, session), shown=ALL_ROWS,
                                   text=text, session=session)
    except Error:  # such as a table that is not there any more
        return None
    stored = made.stored_form
    return EarlierAnswer(question=question, view=view, answer=made.read(stored)) if stored is not None else None


def _ways(question: Question, options: Options, *, pure: bool) -> Iterator[Options]:
    """Ways to answer a statement: as its options say; and if they leave this open, those whose errors are known beforehand."""
    ways = [options]
    if options.bound == "auto":
        ways += [replace(options, bound=name) for name in ("rows", "extension")]
    yield from ways
    named = {Kind.DISTINCT: "laplace" if pure else "gaussian", Kind.RANK: "exponential"}
    kinds = {call.aggregate.kind for call in question.aggregates}
    if not options.mechanisms and kinds & named.keys():
        yield from (replace(way, mechanisms=tuple(name for kind, name in named.items() if kind in kinds)) for way in ways)


def _solved(question: Question, options: Options, view: Node, known: Stability, asked: tuple[AskedError, ...],
            session: Session, *, pure: bool) -> SolvedPlan | None:
    """The least price at which the foreseen errors are within their targets, and the program; None if no price is large enough.

    Raises Unsupported or OptionError if an error depends on private rows, or if the options do not fit.
    """
    def program_at(amount: float) -> Program:
        exact = min(max(Fraction(math.ceil(amount * NANO), NANO), LEAST), MOST)
        price = Price(epsilon=exact) if pure else Price(rho=exact)
        return compiled(question, replace(options, price=price), view, known, session)

    def strain_at(amount: float) -> float:
        try:
            return strain(program_at(amount), session.kernel, asked)
        except OptionError as fault:
            if fault.code == "price":  # too small for any answer
                return math.inf
            raise

    amount = _least(strain_at, 1.0 if pure else 2.0)
    return SolvedPlan(program=program_at(amount), asked=asked, told="") if amount is not None else None


def _least(strain_at: Callable[[float], float], power: float) -> float | None:
    """The least amount at which the strain is at most 1, up to `CLOSE`; None if there is none.

    Errors fall as 1 / epsilon or 1 / sqrt(rho), about, so the next amount to try is the last one times a power of the strain, a
    little further; it is still further each time until there is an amount on either side, and then every second one halves the
    range between these.
    """
    low, high, amount, further = 0.0, math.inf, FIRST, CLOSE ** (1 / 3)
    for turn in itertools.count():
        found = strain_at(amount)
        low, high = (low, min(high, amount)) if found <= MET else (max(low, amount), high)
        if high <= low * CLOSE or high <= LEAST or low >= MOST:
            return high if math.isfinite(high) else None
        guess = amount * min(max(found**power, 1 / FARTHEST), FARTHEST) * (further if found > MET else 1 / further)
        if low and math.isfinite(high):
            between = low * CLOSE ** (1 / 4) < guess < high / CLOSE ** (1 / 4)
            amount = guess if between and turn % 2 else math.sqrt(low * high)
        else:
            amount, further = min(max(guess, float(LEAST)), float(MOST)), further**4
    raise AssertionError  # it returns


def _amount(price: Price) -> Fraction:
    return price.epsilon if price.epsilon is not None else price.rho or Fraction(0)


def _written(goals: Mapping[str, Goal], options: Options) -> str:
    return str(Goals(each=(dict(goals),), confidence=options.confidence))


def _sizes(asked: Sequence[AskedError], options: Options) -> str:
    """The numbers of rows that the price rests on, as text for people."""
    rows = sorted({math.floor(one.rows) for one in asked if one.rows is not None})
    stated = "" if options.stated_spread is None else f", and a standard deviation of {float(options.stated_spread):g} or more"
    if not rows:
        return ""
    return f" for {rows[0]:,} rows or more ({'as stated' if options.stated_rows is not None else 'by earlier answers'}){stated}"


# -- caps and budgets


def _check_cap(made: SolvedPlan, given: Sequence[Option], account: Price, session: Session) -> None:
    """Raise OptionError if the price is higher than the one that is given, stating the accuracy that the latter would buy."""
    caps = [option for option in given if option.name in ("epsilon", "rho")]
    if not caps:
        return
    concentrated = made.program.allotted.epsilon is None
    most = allotted_budget(account, concentrated=concentrated)
    left = (most.rho if concentrated else most.epsilon) or Fraction(0)
    if _amount(made.price) > left:
        raise OptionError(f"this accuracy costs {made.price}, more than {account}", code="accuracy", span=caps[0].span,
                          try_=reachable(made, left, session) or "a higher price")


def reachable(made: SolvedPlan, left: Fraction, session: Session) -> str:
    """The accuracy that an amount buys, with all goals widened by the same factor, as text; empty if none."""
    program = made.program
    if left < LEAST:
        return ""
    price = Price(epsilon=left) if program.allotted.epsilon is not None else Price(rho=left)
    try:
        smaller = compiled(program.question, replace(program.options, price=price), program.view, program.known, session)
        factor = strain(smaller, session.kernel, made.asked)
    except (OptionError, Unsupported):
        return ""
    if not math.isfinite(factor):
        return ""
    goals = Goals(each=({one.call.id: one.goal for one in made.asked},), confidence=program.options.confidence)
    return str(goals.wider(max(factor, 1.0) * CLOSE))


# -- the answer


def _steps(made: SolvedPlan, session: Session, notes: tuple[str, ...]) -> Generator[Request, Any, Answer]:
    program = made.program
    released = yield from script(program, session.kernel, session.scratch)
    wider = [note for one in made.asked for note in _wider(one, released.aggregates[one.call.id])]
    released = replace(released, notes=(made.told, *wider, *released.notes, *notes))
    return compose_answer(program.question, program.options, released, session, price=program.price_charged)


def _wider(one: AskedError, estimate: Estimate) -> Iterator[str]:
    """A note on intervals that are wider than was asked for, as there were fewer rows. An open end does not count."""
    if one.goal.kind != "within" or one.rows is None:
        return
    low, high = estimate.ends(one.confidence)
    off = np.maximum(np.where(np.isfinite(low), estimate.values - low, 0), np.where(np.isfinite(high), high - estimate.values, 0))
    many = int((~(off <= one.target * MET) | ~(np.isfinite(low) | np.isfinite(high))).sum())
    if many:
        where = f" in {many:,} of {len(off):,} groups" if len(off) > 1 else ""
        yield (f"the interval of {call_in_words(one.call)} is wider than the accuracy that was asked for{where}: there are "
               f"probably fewer rows than the {math.floor(one.rows):,} that the price was computed for"
               + (", or a smaller standard deviation than was stated" if one.spread and one.call.aggregate.squared else ""))
