"""Statements with a required accuracy instead of a price: charged the least price that meets it, or nothing if earlier
measurements do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.batch.accuracy_plan import (
    AccuracyPlan,
    AnsweredFromKept,
    MeasuredAnew,
    accuracy_plan,
    check_cap,
    price_of,
    reachable_accuracy,
)
from dpsql.batch.explain_workload import explained_batch
from dpsql.batch.goals import Goals, goals_of, with_minimum_goal
from dpsql.batch.linear_queries import LinearStatement
from dpsql.batch.records import without_requests
from dpsql.batch.workload_answers import Answers
from dpsql.batch.workload_plan import batch, check_fitting, identity_of, left_out_of, time_for
from dpsql.budgets.room_left import epsilon_left, rho_left
from dpsql.catalog.price import Price
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.batches import all_linear, answers_read, batch_steps, which
from dpsql.engine.charging import Charged, ChargeRequest, located, refusal
from dpsql.engine.kept_measurements import all_records
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, OptionError
from dpsql.frozen import replace
from dpsql.planning.explain import Explanation
from dpsql.planning.options import Options, read_options
from dpsql.planning.program import priced
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.sql.text.statement import Goal, Option, Query
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.plan.node import Node


class Accurate(Charged[Answers]):
    """Statements with a required accuracy instead of a price. `given` are the options as written; a price among them is a cap.
    `cheapest` looks for the cheapest plan, once. It raises a located error."""

    queries: Sequence[Query]
    asked: Sequence[LinearStatement]
    goals: Goals
    options: Options
    given: Sequence[Option]
    cheapest: Callable[[], AccuracyPlan]

    @property
    def identity(self) -> str:
        options = replace(self.options, price=None, planning=None)
        return digest(self.session.policy, "accuracy", identity_of(self.asked), self.goals,
                      account_price(self.given, self.session), options)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.asked[0].question)

    def explanation(self) -> Explanation:
        with located(self.queries[0].text):
            made = self.cheapest()
            told = explained_batch(made, self.session.kernel, entity=self.session.catalog.entity.name,
                                   price=str(price_of(made) or "nothing"), left=left_in_budget(self.session))
            notes = *self.notes_on_periods(made.allotted), *left_out_of(made, self.session.catalog)
            return replace(told, first_line=made.goals_and_price, notes=notes)

    def answer(self) -> Answer:
        return self.answers()[0]

    def answers(self) -> Answers:
        """The answers to all statements, in order."""
        with located(self.queries[0].text):
            return self.stored_or_paid()

    def read(self, stored: str) -> Answers:
        return answers_read(stored, self.asked)

    def bill(self) -> ChargeRequest | Answers:
        """The bill for the cheapest plan, or the answers themselves if earlier measurements suffice."""
        made = self.cheapest()
        options = replace(self.options, price=price_of(made))
        if made.free:
            found: Answers = without_requests(batch_steps(made, options, self.session))
            return found
        steps = batch_steps(made, options, self.session, self.notes_on_periods(made.allotted))
        return Dear(steps=steps, cost=made.allotted, views=[group.view for group in made.groups], options=options, made=made)

    def queried(self) -> tuple[Sequence[Node], Cost] | None:
        made = self.cheapest()
        return None if made.free else ([group.view for group in made.groups], made.allotted)

    def uses(self) -> tuple[int, ...]:
        used = [plan.basis for plan in self.cheapest().chosen if isinstance(plan, AnsweredFromKept | MeasuredAnew)]
        return tuple(sorted({record.charge for basis in used if basis is not None for record in basis.records if record.charge}))

    def too_dear(self, refused: Refused, due: ChargeRequest) -> BudgetExhausted:
        """The error, stating which accuracy the remaining budget can buy."""
        fault = refusal(refused, due, self.session)
        if isinstance(due, Dear):
            left = left_in_limits(self.session, concentrated=due.made.allotted.epsilon is None)
            fault.try_ = reachable_accuracy(due.made, left) or fault.try_
        return fault


class Dear(ChargeRequest):
    """The bill for an accuracy, with the plan that meets it."""

    made: AccuracyPlan


def accurate(queries: Sequence[Query], questions: Sequence[Question], general: Goal | None, options: Options,
             given: Sequence[Option], session: Session) -> Accurate:
    """The plan of statements with required accuracies; `general` is the accuracy required of all statements, if any.

    Raises a located error if one of them is wrong.
    """
    asked, goals = _goals(queries, questions, general, options, session)
    return Accurate(queries=queries, asked=asked, goals=goals, options=options, given=given, session=session,
                    text=";\n".join(query.text for query in queries),
                    cheapest=functools.cache(lambda: cheapest(queries, asked, goals, given, options, session)))


def _goals(queries: Sequence[Query], questions: Sequence[Question], general: Goal | None, options: Options,
           session: Session) -> tuple[list[LinearStatement], Goals]:
    """The statements as linear queries, and the accuracy required of each. Raises a located error if either is wrong."""
    if options.consistency != "none":
        raise OptionError("consistency and rounding cause a bias, so no accuracy can be promised",
                          code="consistency", subject="consistency", span=options.span.get("consistency"), try_="one of the two")
    each = []
    for number, (query, question) in enumerate(zip(queries, questions, strict=True)):
        with located(query.text, which(number, queries)):
            check_fitting(options)
            if options.strategy is not None:
                raise OptionError("an accuracy determines the strategy", code="accuracy", span=options.span.get("strategy"),
                                  subject="strategy", try_="the price, or the accuracy without a strategy")
            each.append(goals_of(question, query.goals, general))
    asked = all_linear(queries, questions, options, session)
    goals = tuple(with_minimum_goal(one, goals) for one, goals in zip(asked, each, strict=True))
    return asked, Goals(each=goals, confidence=options.confidence)


def account_price(given: Sequence[Option], session: Session) -> Price:
    """The price that is given, which is a cap; or else the limit of the analyst, if that is a pure epsilon, or of the budget: it
    says whether a pure epsilon or rho is charged."""
    own = read_options([option for option in given if option.name in ("epsilon", "delta", "rho")], default=None,
                       confidence=session.confidence, known=())
    if own.price is not None:
        return priced(own.price, session.budget, own.span)
    mine = session.budget.of(session.analyst)
    return mine if mine is not None and mine.epsilon is not None and not mine.delta else session.budget.total


def left_in_limits(session: Session, *, concentrated: bool) -> Fraction:
    """The most that one more statement may cost: in rho, or as a pure epsilon."""
    left = rho_left if concentrated else epsilon_left
    return min(left(most, session.ledger.spent(session.budget.name, name)) for name, most in session.limits.items())


def cheapest(queries: Sequence[Query], asked: Sequence[LinearStatement], goals: Goals, given: Sequence[Option],
             options: Options, session: Session) -> AccuracyPlan:
    """The cheapest plan. Raises a located error if it costs more than the given price, or if no plan meets the accuracy."""
    account = account_price(given, session)
    unit = pure(Fraction(1)) if account.epsilon is not None and not account.delta else concentrated(Fraction(1))
    with located(queries[0].text), time_for(options):
        made = accuracy_plan(batch(asked, unit, session.kernel, session.scratch), goals, all_records(session))
        max_frequencies = [option for option in given if option.name in ("epsilon", "rho")]
        check_cap(made, account if max_frequencies else None, max_frequencies[0].span if max_frequencies else None)
        for _, plan, price in made.shares:
            plan.check(price)
    return made
