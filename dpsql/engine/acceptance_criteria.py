"""`accept` of CREATE SYNTHETIC TABLE: a table is drawn until given answers of it are close to the private ones.

The criteria are queries of the new table, each with a tolerance, as in VALIDATE. The same queries of the rows that the table is
made of are measured *once*, as a workload, for `SHARE` of the price. Every candidate is then compared with these noisy answers,
and accepted if each of its answers is within the tolerance for every private answer in the 95 % interval.

**Proof.** The statement makes two adaptively chosen measurements: the model, for 1 - `SHARE` of the price, and the answers to
the criteria, for the rest. Their costs add up to the price, in one account, and the kernel checks that. All else is a function
of these two releases, the text, the policy and public randomness: the candidates, how many were drawn, which one was accepted,
what each criterion shows, and the error where none was. So these have no price, however many candidates there are, and the
statement is as private as its two measurements.

**Confidence.** The noise of the answers is drawn once, so it errs by the same amount for all candidates. If the interval of a
criterion contains the private answer, with a probability of 95 %, the criterion is right about every candidate at once. So the
probability that a table is accepted although this criterion does not hold is at most 5 %, however many candidates there are.

**Why not Liu and Talwar (Private Selection from Private Candidates, STOC 2019).** Their Algorithm 1 measures a new model and its
score in each run, stops at the first score above a threshold, and after any other run with probability gamma. A result x has the
probability Q(x) / (p + gamma (1 - p)), where Q is the distribution of one run, and p the probability that it passes. If a run
costs a pure epsilon, both the numerator and the denominator change by a factor of e^epsilon, so the loop costs 2 epsilon,
however many runs there are. So each candidate, with its criteria, gets half of the price; here it gets 1 - `SHARE` of it. The
loop must also hide how many runs there were: the probability that the first j runs fail may change by a factor of e^(epsilon j).
Here that number is public. For rho, there is a loop whose number K of runs is random (Papernot and Steinke, Hyperparameter Tuning
with Renyi Differential Privacy, ICLR 2022). It adds log(E[K]) / (a - 1) to the Renyi divergence of order a, and no rho bounds
that for all orders. Two other ways are less accurate still: k models for an equal share of the price each; and a decision by
`NoisyFlipDistance` about the criteria of each of k candidates, for 1 / k of what is spent here on all of them.

**What differs between candidates.** Rows are drawn with so little error (`models.sampling`) that two tables of one model differ
far less than two models of the same rows: most of what a criterion misses is in the model. So the rows of the second candidate
and of later ones are chosen with weights (`synthesis.raked_rows`), the nearest to equal ones with which the measured answers
come out. The first candidate has none: if it is accepted, nothing of it was changed. Of 20 tables of 5,912 people, eight
candidates at most, 16 truly met all of four criteria at epsilon 4, and 16 at rho 0.4. Without weights it was 2 and 11, with one
table at the whole price 5 and 3, with the loop of Liu and Talwar 0 and 8, and with eight models at an eighth of the price each
1 and 1 (`tests/bench/candidates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.batch.linear_queries import linear
from dpsql.batch.workload_plan import Batch, identity_of, least
from dpsql.catalog.price import Price
from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError, SqlError, Unsupported
from dpsql.estimates import Estimate
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.begun import begun
from dpsql.models.sampling import Places, UniformDraws
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.explain import Expected
from dpsql.planning.options import Options
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.questions.rules.flatten import lowered
from dpsql.sql.binding.bind import bind
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.parse import parse_criterion
from dpsql.sql.text.places import span_of
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import CheckedQuery, Query, Width
from dpsql.synthesis.acceptance import Acceptance, JudgedAnswer, JudgedCriterion, group_text
from dpsql.synthesis.column_forms import PlannedForm
from dpsql.synthesis.raked_rows import MOST_NUMBERS, chosen, weights
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.table_options import ACCEPT, AcceptanceTerms
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Value, all_of, whole
from dpsql.trusted.plan.node import Node
from dpsql.types import Span
from dpsql.validation.prepare import check_shape

SHARE = Fraction(1, 5)  # of the price, for the answers to the criteria
CONFIDENCE = 0.95
MOST_CRITERIA, MOST_ANSWERS = 100, 1000
SLACK = 0.1  # of its error, by which a weighted sum may miss a measured answer
MeasuredAnswers = Sequence[tuple[Cells, Estimate]]
"""For each criterion its groups, and the private answers in them."""


class Criterion(Frozen):
    """A query of the new table, and how far its answers may be from the private ones.

    keys, value  for a row of the table the values of its keys, and what is added up or counted in it, NULL where it is left out:
                 expressions over the columns of the table by their numbers
    """

    query: str
    width: Width
    kind: Kind
    keys: tuple[Expr, ...]
    value: Expr

    def possible(self, numbers: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Numbers of private rows are not negative."""
        return [np.maximum(each, 0) if self.kind is Kind.COUNT else each for each in numbers]

    def tolerance(self, drawn: float) -> float:
        """The distance from this answer that is allowed, as in VALIDATE."""
        return float(max(self.width.absolute or 0, (self.width.percent or 0) / 100 * abs(Fraction(drawn))))


class Criteria(Frozen):
    """All criteria of a statement, and how the private answers to them are measured."""

    criteria: tuple[Criterion, ...]
    batch: Batch
    candidates: int

    @property
    def identity(self) -> tuple[object, ...]:
        """Identifies the criteria in the statement's digest."""
        widths = [(one.width.absolute, one.width.percent) for one in self.criteria]
        return "accept", identity_of(self.batch.asked), widths, self.batch.allotted, self.candidates

    @property
    def views(self) -> list[Node]:
        """The relations that are queried."""
        return [group.view for group in self.batch.groups]

    @property
    def expected(self) -> tuple[Expected, ...]:
        """The errors of the private answers that are known from public facts, for EXPLAIN."""
        found = []
        for one, (error,) in zip(self.criteria, (each.values() for each in self.batch.foreseen()), strict=True):
            known = None if np.isnan(error.deviations).any() else float(error.deviations.max())
            within = "" if known is None else f" to within {float(error.margins(CONFIDENCE).max()):,.4g}"
            found.append(Expected(aggregate=one.query, error=known,
                                  named=f"a criterion: measured once{within}, and compared with every candidate"))
        return tuple(found)

    @property
    def note(self) -> str:
        """What is done, for EXPLAIN."""
        return (f"at most {self.candidates} candidates are drawn, until one agrees with the criteria, which are measured for "
                f"{float(100 * SHARE):g} % of the price. If none does, no table is made, and the price is spent all the same")

    def measured(self) -> Generator[Request, Any, MeasuredAnswers]:
        """Measure the private answers. Whatever may fail for public reasons fails at once."""
        return _answers(begun(self.batch.steps()))

    def judged(self, columns: Sequence[SyntheticColumn], known: MeasuredAnswers, scratch: Scratch, *, made: int,
               weighted: bool) -> Acceptance:
        """Compare a candidate with the private answers; `made` is its number."""
        found = []
        for one, (cells, private), rows in zip(self.criteria, known, self._rows(columns, known, scratch), strict=True):
            low, high = one.possible(private.ends(CONFIDENCE))
            found.append(JudgedCriterion(query=one.query, answers=tuple(
                JudgedAnswer(group=group_text(cell), drawn=drawn, low=_finite(low[at]), high=_finite(high[at]),
                             tolerance=0.0 if drawn is None else one.tolerance(drawn))
                for at, (cell, drawn) in enumerate(zip(cells, rows.answers(one.kind), strict=True)))))
        return Acceptance(candidates=self.candidates, made=made, weighted=weighted, criteria=tuple(found))

    def weighted(self, columns: Sequence[SyntheticColumn], known: MeasuredAnswers, draws: UniformDraws,
                 scratch: Scratch) -> Places | None:
        """The rows of a candidate, by their indices, chosen so that its answers are close to the private ones; None if there
        is nothing to choose by."""
        size = len(columns[0].values)
        if size * sum(len(cells) for cells, _ in known) > MOST_NUMBERS:
            return None
        added, sums, errors = [], [], []
        for one, (cells, private), rows in zip(self.criteria, known, self._rows(columns, known, scratch), strict=True):
            (middle,), deviations = one.possible((private.values,)), private.deviations
            for at in range(len(cells)):
                inside = rows.cells == at
                goal = float(middle[at])
                if not np.isfinite(goal) or not inside.any():
                    continue
                mean = one.kind is Kind.MEAN  # of which deviations from the goal add up to 0
                part = np.where(inside, rows.values - goal if mean else rows.values, 0.0)
                added.append(part)
                sums.append(0.0 if mean else goal)
                error = float(deviations[at]) * (float(inside.sum()) if mean else 1)
                errors.append(SLACK * error if np.isfinite(error) else 0.0)
        if not added:
            return None
        table = np.stack(added, axis=1)
        return chosen(weights(table, np.array(sums), np.array(errors)), table, draws)

    def _rows(self, columns: Sequence[SyntheticColumn], known: MeasuredAnswers, scratch: Scratch) -> list[CriterionRows]:
        """For each criterion what the rows of a candidate add to its answers."""
        held = {_identifier(at): (column.type, column.values) for at, column in enumerate(columns)}
        rows = scratch.evaluate([expr for one in self.criteria for expr in (*one.keys, one.value)], held)
        across, start, found = [*zip(*rows, strict=True)], 0, []
        for one, (cells, _) in zip(self.criteria, known, strict=True):
            end = start + len(one.keys)
            found.append(CriterionRows.of(across[start:end], across[end], cells, one.kind))
            start = end + 1
        return found


class CriterionRows(Frozen, eq=False):
    """What the rows of a candidate add to the answers of a criterion: for each row the number of its group, -1 where it is in
    none, and the number that is added up there; 1 where rows are counted."""

    cells: NDArray[np.int64]
    values: NDArray[np.float64]
    groups: int

    @classmethod
    def of(cls, keys: Sequence[Sequence[Value]], values: Sequence[Value], cells: Cells, kind: Kind) -> CriterionRows:
        places = {cell: at for at, cell in enumerate(cells)}
        own = zip(*keys, strict=True) if keys else [()] * len(values)
        at = np.array([-1 if value is None else places.get(cell, -1) for cell, value in zip(own, values, strict=True)],
                      dtype=np.int64)
        if kind is Kind.COUNT:
            return cls(cells=at, values=np.ones(len(at)), groups=len(cells))
        numbers = np.array([np.nan if value is None else float(value) for value in values])  # type: ignore[arg-type]
        there = (at >= 0) & ~np.isnan(numbers)
        return cls(cells=np.where(there, at, -1), values=np.where(there, numbers, 0.0), groups=len(cells))

    def answers(self, kind: Kind) -> list[float | None]:
        """The answer in each group."""
        inside = self.cells >= 0
        sums = np.bincount(self.cells[inside], self.values[inside], minlength=self.groups)
        if kind is not Kind.MEAN:
            return [float(total) for total in sums]
        counts = np.bincount(self.cells[inside], minlength=self.groups)
        return [float(total / count) if count else None for total, count in zip(sums, counts, strict=True)]


def _answers(steps: Generator[Request, Any, Any]) -> Generator[Request, Any, MeasuredAnswers]:
    release = yield from steps
    return [(cells, next(iter(aggregates.values()))) for cells, aggregates in release.statements]


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _identifier(at: int) -> str:
    """The identifier that `flatten.lowered` gives to a column of a table."""
    return f"k{at}"


def bound_criteria(terms: AcceptanceTerms, name: str, rows: Query, columns: Sequence[PlannedForm], options: Options,
                   allotted: Cost, session: Session, values: Mapping[str, ParameterValue]) -> Criteria:
    """The criteria of the table `name`, made of these `rows` and with these columns, for the cost `allotted`; nothing private is
    read. Raises OptionError, located at the option, or an Error located in the text of the criterion that is wrong."""
    option, found, asked, queries = terms.option, list[Criterion](), [], list[CheckedQuery]()
    table = Table(name=name, public=True, columns={form.name: Column(name=form.name, type=form.type, sql_type=form.type.value)
                                                   for form in columns})
    texts = split(str(option.value))
    if not texts or len(texts) > MOST_CRITERIA:
        raise OptionError("there are no criteria" if not texts else f"there are {len(texts)} criteria, and at most "
                          f"{MOST_CRITERIA} are possible", span=option.span, subject="accept", try_=ACCEPT)
    for number, text in enumerate(texts, start=1):
        def read(text: str = text) -> None:
            check = parse_criterion(text)
            check_names(check.query, name)
            here = bind(check.query, replace(session.catalog, tables={name: table}), session.kernel, session.scratch, {})
            question = bind(_of_rows(check.query, name, rows), session.catalog, session.kernel, session.scratch, values)
            check_shape(question, check.query)
            asked.append(linear(question, _view(question, check.query, options, session)))
            found.append(_criterion(check, here))
            queries.append(check)
        _in_text(read, text, number)
    price = Price(epsilon=allotted.epsilon) if allotted.epsilon is not None else Price(rho=allotted.rho)
    try:
        made = least(asked, replace(options, price=price, strategy="auto"), session.kernel, session.scratch)
    except Error as fault:
        raise _at_option(fault, option.span) from None
    criteria = Criteria(criteria=tuple(found), batch=made, candidates=terms.candidates)
    for number, (text, check, errors) in enumerate(zip(texts, queries, made.foreseen(), strict=True), start=1):
        _in_text(lambda text=text, check=check, errors=errors: _check_price(text, check.width, errors), text, number)  # type: ignore[misc]
    if sum(len(found) for one in made.expected() for found in one.values()) > MOST_ANSWERS:
        raise OptionError(f"the criteria have more than {MOST_ANSWERS:,} answers", span=option.span, subject="accept",
                          try_="fewer groups")
    return criteria


def _in_text(act: Callable[[], None], text: str, number: int) -> None:
    """Run this, and locate its errors in the text of a criterion."""
    try:
        act()
    except Error as fault:
        if fault.span is None:
            fault.span = Span(0, len(text))
        fault.source = f"criterion {number} of accept" if fault.text in ("", text) else fault.source
        raise fault.located(text, fault.source) from None


def _at_option(fault: Error, span: Span | None) -> Error:
    """An error of all criteria together, located at the option."""
    if fault.text == "":
        fault.span = span
    return fault


def check_names(query: Query, name: str) -> None:
    """Raises SqlError or Unsupported, located, if a query is not about the table `name` alone."""
    tables = [part for part in query.tree.walk() if isinstance(part, exp.Table)]
    for part in tables:
        if part.name.lower() != name.lower():
            raise SqlError(f"a criterion must query the new table {name}, not {part.name}", code="accept", span=span_of(part),
                           subject=part.name, try_=name)
    if len(tables) != 1:
        raise Unsupported(f"a criterion queries the new table {name}, once", code="accept",
                          span=span_of(tables[1] if tables else query.tree), try_=f"SELECT COUNT(*) FROM {name} WITHIN 5 PERCENT")
    if query.parameters:
        raise Unsupported("a criterion cannot have parameters", code="parameters", span=span_of(query.tree),
                          try_="the values themselves")


def _of_rows(query: Query, name: str, rows: Query) -> Query:
    """The same query of the rows that the table is made of."""
    def replaced(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Table):
            return part
        alias = part.args.get("alias") or exp.TableAlias(this=exp.to_identifier(part.name, quoted=True))
        return exp.Subquery(this=rows.tree.copy(), alias=alias.copy())

    tree = query.tree.transform(replaced)
    assert isinstance(tree, exp.Query)
    return replace(query, tree=tree)


def _view(question: Question, query: Query, options: Options, session: Session) -> Node:
    """The rows that a criterion reads, with the limits of the table. Raises Unsupported, located."""
    call = question.aggregates[0]
    if call.aggregate.kind not in (Kind.COUNT, Kind.TOTAL, Kind.MEAN) or not call.aggregate.plain:
        name = call.text or call.function.upper()
        raise Unsupported(f"a criterion counts or adds up rows, and {name} does neither", code="accept", span=call.span,
                          subject=name, try_="COUNT, SUM or AVG; or VALIDATE with the new table, which decides it")
    view, known = limited_view(question, options, session.kernel, span_of(query.tree))
    if known.rows is None or stability(view, session.kernel).public:
        raise Unsupported(f"there is no limit on the rows of one {session.catalog.entity.name}", code="no-limit",
                          span=span_of(query.tree), try_="max_rows = 10 among the OPTIONS, or rows_per_entity in the policy")
    return view


def _criterion(check: CheckedQuery, question: Question) -> Criterion:
    """The query over rows of the new table."""
    call, width = question.aggregates[0], check.width
    assert width is not None
    asked = [key.column for key in question.keys] + [column for column in (*call.columns, call.when) if column]
    below = lowered(question.view, [question.view.field(column).ref for column in asked])
    exprs = [expr for expr in below.exprs if expr is not None]
    keys, rest = exprs[:len(question.keys)], exprs[len(question.keys):]
    value = rest[0] if call.columns else whole(1)
    condition = all_of([*below.common, *rest[len(call.columns):]])
    if condition is not None:
        value = Case(branches=((condition, value),), otherwise=Literal(value=None, type=value.type), type=value.type)
    query = " ".join(check.query.text.split())
    return Criterion(query=query, width=width, kind=call.aggregate.kind, keys=tuple(keys), value=value)


def _check_price(text: str, width: Width | None, errors: Mapping[str, Estimate]) -> None:
    """Raises OptionError, located, if no table can be accepted because the private answer will not be known well enough."""
    (error,) = errors.values()
    margins = error.margins(CONFIDENCE)
    if width is None or width.percent is not None or width.absolute is None or not np.isfinite(margins).all():
        return
    widest = float(margins.max())
    if widest >= width.absolute:
        raise OptionError(f"the price is too small for this criterion: the private answer will be known to within {widest:,.4g}, "
                          f"and the tolerance is {float(width.absolute):g}", code="accept", span=width.span, subject="accept",
                          try_=f"a larger price, or WITHIN {float(f'{2 * widest:.2g}'):g}")


