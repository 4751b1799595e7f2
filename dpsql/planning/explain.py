"""EXPLAIN PRIVACY: what a statement would do and cost, as data and as text. Nothing is spent and no private row is read."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dpsql.answers.described_columns import OF_EXPLANATION
from dpsql.answers.listing import Listing
from dpsql.budgets.reports import amount
from dpsql.catalog.price import short
from dpsql.estimates import Estimate, released
from dpsql.frozen import Frozen, asdict, replace
from dpsql.mechanisms.additive_noise import Gaussian, Laplace, estimates
from dpsql.mechanisms.mechanism import Accepted, Estimates, Linear, Verdict
from dpsql.mechanisms.select.shown_counts import noise_of
from dpsql.planning.account_choice import expected
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.bounded_view import for_subquery
from dpsql.planning.centred_averages import averages_of
from dpsql.planning.choose import Choice
from dpsql.planning.frequency_limits import with_limits
from dpsql.planning.groups import cells_declared
from dpsql.planning.left_out import kept_by
from dpsql.planning.program import Program
from dpsql.planning.public import check_exact
from dpsql.planning.shared_centres import to_centre
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.labels import label
from dpsql.questions.parts import Decomposition
from dpsql.questions.question import Question
from dpsql.questions.rules.limit_in_periods import is_in_periods
from dpsql.trusted.plan.certificate import splits, stabilities
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import Node, PublicFacts, SplitBy, Stability
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys


class Step(Frozen):
    """An operator of the plan: its depth, what it does, its stability (how many rows one entity can change), and why."""

    depth: int
    label: str
    stability: str
    because: str


class Measurement(Frozen):
    """A measurement: what, for which aggregates, at which price, by which mechanism and noise; `against` has, by name, the
    reasons against the other mechanisms, and `about` further lines."""

    what: str
    aggregates: tuple[str, ...]
    price: str
    mechanism: str
    noise: str
    against: dict[str, str]
    about: tuple[str, ...] = ()


class Expected(Frozen):
    """The expected standard error of an aggregate, in its unit; None if it depends on private rows. `named` says what is
    counted, and `column` is the name of the column that shows the aggregate, empty if none shows it alone."""

    aggregate: str
    error: float | None
    named: str
    column: str = ""


class Explanation(Frozen):
    """The whole explanation. `left` has what remains in each account before the statement, `first_line` the price of an accuracy,
    `notes` what the answer will not count; `reading` how rows are read, which decides on time and memory; `stored` says that
    the statement was answered before, and costs nothing now."""

    entity: str
    steps: tuple[Step, ...]
    rewrites: tuple[str, ...]
    stages: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    expected: tuple[Expected, ...]
    groups: str
    cost: str
    left: tuple[str, ...]
    bound: str = ""
    reading: str = ""
    first: tuple[First, ...] = ()
    first_line: str = ""
    stored: bool = False
    notes: tuple[str, ...] = ()
    FIELD: ClassVar[str] = "explanation"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_table(self) -> Listing:
        """The lines of the explanation."""
        return Listing(columns=OF_EXPLANATION, rows=tuple((line,) for line in str(self).splitlines()))

    def __str__(self) -> str:
        lines = [f"price   {self.first_line}"] if self.first_line else []
        lines += [line for found in self.first for line in found.lines()]
        was_free = self.cost.startswith("nothing")
        cost = f"nothing, as it was answered before; it cost {self.cost}" if self.stored and not was_free else self.cost
        notes = [note for note in self.notes if not any(note in rewrite for rewrite in self.rewrites)]
        lines += [*self._lines(), *(f"note    {note}" for note in notes), f"cost    {cost}"]
        return "\n".join([*lines, *(f"left    {line}" for line in self.left)])

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def _lines(self) -> list[str]:
        lines = [f"plan (what one {self.entity} can change)"]
        width = max((2 * step.depth + len(step.label) for step in self.steps), default=0)
        lines += [f"  {'  ' * step.depth + step.label:<{width}}  {step.stability}: {step.because}" for step in self.steps]
        lines += [f"bound   {self.bound}"] if self.bound else []
        lines += [f"read    {self.reading}"] if self.reading else []
        for title, items in (("rewrites", self.rewrites), ("stages", self.stages)):
            if items:
                lines += [title, *(f"  {item}" for item in items)]
        if self.measurements:
            lines.append("measured")
        for part in self.measurements:
            lines.append(f"  {part.what}  for {', '.join(part.aggregates)}")
            lines += [f"    {line}" for line in part.about]
            lines.append(f"    {part.mechanism} at {part.price}: {part.noise}")
            for why in dict.fromkeys(part.against.values()):
                lines.append(f"    not {', '.join(name for name, other in part.against.items() if other == why)}: {why}")
        lines.append("expected standard errors")
        lines += [f"  {item.aggregate}: " + ("depends on the data" if item.error is None else f"{item.error:.6g}") +
                  (f"  ({item.named})" if item.named else "") for item in self.expected]
        return [*lines, f"groups  {self.groups}"]


class First(Frozen):
    """A scalar subquery whose value is released before the rest and is public from then on: its text, price and explanation."""

    text: str
    price: str
    explanation: Explanation

    def lines(self) -> list[str]:
        return [f"first   {self.text} is released, for {self.price}", *(f"  {line}" for line in self.explanation._lines())]


def explained(program: Program, public: PublicFacts, *, entity: str, left: Sequence[str]) -> Explanation:
    """The explanation of a program."""
    first = tuple(First(text=scalar.awaited.text, price=amount(below.allotted), explanation=explained(
        below, public, entity=entity, left=())) for scalar, below in program.first)
    if program.known.public:
        return replace(explained_public(program.question, program.view, public, entity=entity), first=first, left=tuple(left),
                       cost=str(program.price_charged))
    known = stabilities(program.view, public)
    choices = expected(program, public)
    return Explanation(
        first=first, entity=entity, reading=_reading(splits(program.view, known)[id(program.view)], entity),
        steps=tuple(steps(program.view, known, 0, entity)), bound=_bound(program, entity),
        rewrites=tuple(_rewrites(program, entity, public)), stages=tuple(_stages(program)),
        measurements=tuple(_measurements(program, choices)),
        expected=tuple(_expected(program, choices)), groups=_groups(program), left=tuple(left),
        cost="nothing: only declared groups are shown" if program.idle and not first else str(program.price_charged))


def explained_public(question: Question, view: Node, public: PublicFacts, *, entity: str) -> Explanation:
    """The explanation of a statement that reads public tables only. Raises Unsupported if it has no answer."""
    check_exact(question)
    columns = _columns(question)
    return Explanation(
        entity=entity, steps=tuple(steps(view, stabilities(view, public), 0, entity)), rewrites=(), stages=(), measurements=(),
        expected=tuple(Expected(aggregate=call.text or call.function, error=0.0, named="",
                                column=columns.get(call.id, "")) for call in question.aggregates),
        groups="the values in the public tables" if question.keys else "one", left=(),
        cost="nothing: only public tables are read")


def steps(node: Node, known: dict[int, Stability], depth: int, entity: str) -> list[Step]:
    here = known[id(node)]
    moved = "public" if here.public else "no limit" if here.rows is None else f"{here.rows} row{'s' if here.rows > 1 else ''}"
    owned = "" if here.public else _owned(here, entity)
    found = [Step(depth=depth, label=label(node), stability=moved + owned, because=here.because)]
    for below in node.inputs:
        found += steps(below, known, depth + 1, entity)
    return found


def _reading(split: SplitBy, entity: str) -> str:
    """What makes a statement take more time and memory than others: not to be read bucket by bucket where there is a store."""
    return "" if split is SplitBy.ENTITIES else f"all at once, as rows of more than one {entity} are combined"


def _owned(here: Stability, entity: str) -> str:
    if not here.owners:
        return ", without an owner"
    return f", owned by one {entity} each" if here.owner is not None else f", owned by {len(here.owners)} of {entity} each"


def _rewrites(program: Program, entity: str, public: PublicFacts) -> list[str]:
    found: list[str] = []
    unknown = with_limits(program.question, program.options, public)[1] if program.unknown else []

    def visit(node: Node, above: str) -> None:
        if isinstance(node, Truncate) or (isinstance(node, TruncateKeys) and is_in_periods(node) is not None):
            found.append(f"truncate: {kept_by(node, entity, unknown)}")
        elif isinstance(node, TruncateKeys) and node.first:
            kept = label(node).removeprefix("Keep ")
            found.append(f"keep first: {kept}, as the statement asks; ties are broken by a keyed hash")
        elif isinstance(node, TruncateKeys):
            key = " and ".join(node.input.names[key] for key in node.keys)
            found.append(f"truncate: {kept_by(node, entity, unknown)}, because any number of rows may have the same {key} and be "
                         f"matched on it in: {above}")
        if isinstance(node, Join) and for_subquery(node):
            keys = " and ".join(dict.fromkeys(node.right.names[theirs] for _, theirs in node.equated)) or "nothing"
            found.append(f"decorrelate: a subquery that is linked to the row around it becomes a left join with groups by {keys}")
        for below in node.inputs:
            visit(below, label(node))

    visit(program.view, "the view")
    found += [f"decompose: {', '.join(names)} from one measurement" for names in _shared(program) if len(names) > 1]
    return list(dict.fromkeys(found))


def _bound(program: Program, entity: str) -> str:
    """The line about the bound on sums: what it does, its limit, and the reason for it; empty if nothing is summed."""
    if not program.decomposition.sums:
        return ""
    bound, clip = program.bound, program.options.clip
    limit = f" ({short(clip)})" if clip is not None else " (which is learned)" if program.learned_limit is not None else ""
    return f"{bound.name}: what each {entity} adds {bound.does}{limit}; {program.decided.because}"


def _shared(program: Program) -> list[list[str]]:
    texts = {call.id: call.text or call.function for call in program.question.aggregates}
    return [[texts[name] for name, uses in program.decomposition.uses.items() if i in uses]
            for i in range(len(program.decomposition.parts))]


def _stages(program: Program) -> list[str]:
    one = f"{program.unknown} limits are each" if program.unknown > 1 else "a limit is"
    if program.learned_limit == "centres":
        what = "each average" if to_centre(program.question, program.decomposition) else "the values of each column"
        return [f"a number near {what} is searched for at {amount(program.stages['limits'])}, to measure it from"]
    how = "drawn according to how many entities are above it" if program.degrees is not None else "learned from a noisy histogram"
    words = {"limits": f"{one} {how}", "bounds": "bounds are searched for",
             "keys": "groups that enough entities have are selected"}
    drawn = f"; if it shows none, one on rows is drawn at {amount(program.reserve)} more" if (
        program.learned_limit in ("rows", "totals") and program.known.rows is None and program.decomposition.parts) else ""
    shared = ", which also decides how averages divide what is left" if program.learned_limit == "totals" and averages_of(
        program.question, program.decomposition) else ""
    more = {"limits": shared + drawn}
    return [f"{words[name]} at {amount(cost)}{more.get(name, '')}" for name, cost in program.stages.items()]


def _what(program: Program, i: int) -> str:
    part = program.decomposition.parts[i]
    return KINDS[type(part)].words(part, program)


def _measurements(program: Program, choices: Sequence[Choice | None]) -> list[Measurement]:
    shared = _shared(program)
    found = [_counted(program, i, shared[i]) for i in sorted(program.counted)]
    for choice in choices:
        assert choice is not None
        i, noise = choice.task.at, choice.yes.noise
        if program.learned_limit is not None:
            noise = f"{noise}, times the learned limit"
        against = {name: _because(verdict, choice.yes) for name, verdict in choice.verdicts.items()
                   if name != choice.mechanism.name}
        found.append(Measurement(what=_what(program, i), aggregates=tuple(shared[i]), price=amount(choice.allotted),
                                 mechanism=choice.mechanism.name, noise=noise, against=against))
    return found


def _because(verdict: Verdict, chosen: Accepted) -> str:
    """The reason against a mechanism."""
    if not isinstance(verdict, Accepted):
        return verdict.because
    if not math.isfinite(verdict.error):
        return "only by name"
    if verdict.error < chosen.error:
        return f"wider intervals (error {verdict.error:.4g})"
    return f"larger error ({verdict.error:.4g})"


def _counted(program: Program, i: int, aggregates: Sequence[str]) -> Measurement:
    """A part that is answered by the counts by which groups are selected."""
    assert program.rule is not None
    return Measurement(what=_what(program, i), aggregates=tuple(aggregates), price="the price of the groups", against={},
                       mechanism=program.rule.name, noise="the noisy counts by which groups are chosen, released with them")


def _expected(program: Program, choices: Sequence[Choice | None]) -> list[Expected]:
    given = {choice.task.at: made for choice in choices if choice is not None and (made := _without_data(choice)) is not None}
    if program.rule is not None:
        given |= {at: (released((at, 0), np.zeros(1), noise_of(program.rule.rule)),) for at in program.counted}
    found, columns = [], _columns(program.question)
    for call in program.question.aggregates:
        estimate = _recipe(program.decomposition, call.id, given) if call.aggregate.kind is not Kind.MODE else None
        error = None
        if estimate is not None and estimate.linear and program.learned_limit is None and not program.searched:
            error = float(estimate.deviations[0])
        part = program.decomposition.parts[program.decomposition.uses[call.id][0]]
        named = KINDS[type(part)].counted(part, program)
        found.append(Expected(aggregate=call.text or call.function, error=error, named=named,
                              column=columns.get(call.id, "")))
    return found


def _columns(question: Question) -> dict[str, str]:
    """The columns that show a key or an aggregate alone, by its name in outputs."""
    return {output.expr.column: output.name for output in question.outputs if isinstance(output.expr, Ref)}


def _recipe(parts: Decomposition, name: str, given: dict[int, Estimates]) -> Estimate | None:
    return parts.recipes[name](given) if all(i in given for i in parts.uses[name]) else None


def _without_data(choice: Choice) -> Estimates | None:
    """Estimates for one cell with the right noise and a value of 0; None if the noise depends on the data."""
    if not isinstance(choice.task, Linear) or not isinstance(choice.mechanism, Laplace | Gaussian):
        return None
    noise = choice.mechanism.noise(choice.task, choice.allotted)
    return estimates(choice.task.at, [[0]] * choice.task.summand.components, noise)


def _groups(program: Program) -> str:
    return _cells(program) + withheld([program.question])


def withheld(questions: Sequence[Question]) -> str:
    """The policy's rules for small groups, to be appended to the line about groups."""
    return "".join(f"; {rule}" for rule in dict.fromkeys(question.minimum for question in questions) if rule is not None)


def _cells(program: Program) -> str:
    if not program.question.keys:
        return "one"
    declared = cells_declared(program.question)
    if program.degrees is not None:
        most = str(program.degrees.most) if program.degrees.given else "the learned limit"
        return f"the degrees from 1 to {most}"
    if program.rule is None:
        return f"{declared}, all that the policy declares; groups without rows are shown too"
    names = ", ".join(key.name for key in program.undeclared_keys)
    times = f", each with the {declared} declared groups" if declared > 1 else ""
    if program.known.owner is None:
        least = "" if program.learned_limit is not None else f" of about {program.rule.half} rows or more"
        return f"{names}{least} ({program.rule.name}; all rows that one entity changes count){times}"
    return (f"{names} of about {program.rule.half} entities or more ({program.rule.name}; each entity counts in at most "
            f"{program.groups}){times}")
