"""Whether a price is spent as a pure epsilon or as rho, how it is shared out among questions and their parts, and which mechanism
answers each part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpsql.catalog.price import Price
from dpsql.frozen import replace
from dpsql.mechanisms.mechanism import Ordered, Task
from dpsql.mechanisms.select.shown_counts import noise_of
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.choose import Choice, budgets_by_account, choose, split_budget, weight_of
from dpsql.planning.groups import cells_declared
from dpsql.planning.part_kind import LimitedRows
from dpsql.planning.program import Program, questions
from dpsql.planning.program_keys import with_rules
from dpsql.planning.shared_centres import weights_of
from dpsql.planning.unused_mechanisms import unused
from dpsql.questions.parts import Decomposition, Part
from dpsql.questions.rules.limit_rows import keep_rows
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.summands import Summand


def with_account(program: Program, price: Price, public: PublicFacts) -> tuple[Program, list[list[Choice | None]]]:
    """The program with its price as a pure epsilon or as rho, whichever gives the smaller expected error; and the choices for
    the parts of each of its questions."""
    tasks: dict[tuple[int, int | None], list[Task]] = {}

    def assigned(place: int, below: Program) -> list[Choice | None]:
        account = place, below.order if below.bound.name == "clip" else None
        if account not in tasks:
            tasks[account] = _expected_tasks(below, public)
        return _assigned(below, tasks[account])

    held = [_with_rules(_shared_out(program, given)) for given in budgets_by_account(price)]
    tried = [(candidate, [assigned(place, below) for place, below in enumerate(questions(candidate))]) for candidate in held]
    return min(tried, key=lambda each: (_number_unused(each[0]), sum(map(_expected_size, questions(each[0]), each[1]))))


def _with_rules(program: Program) -> Program:
    return with_rules(program) if any(below.undeclared_keys for below in questions(program)) else program


def _number_unused(program: Program) -> int:
    return len(unused(program)) if program.options.mechanisms else 0


def _shared_out(program: Program, whole: Cost) -> Program:
    """The program with a price that is divided among its questions, in proportion to how many things each measures.

    So all measurements are about equally accurate.
    """
    if not program.first:
        return replace(program, allotted=whole, whole=whole)
    programs = [program, *(below for _, below in program.first)]
    shares_ = [len(below.decomposition.parts) + bool(below.undeclared_keys) for below in programs]
    takers = max(1, sum(below.may_fail for below in programs))
    outer, *inner = (replace(below, allotted=whole.part(Fraction(share, sum(shares_) or 1),
                                                        delta=whole.delta * below.may_fail / takers))
                     for below, share in zip(programs, shares_, strict=True))
    return replace(outer, whole=whole, first=tuple(
        (scalar, below) for (scalar, _), below in zip(program.first, inner, strict=True)))


def _expected_size(program: Program, choices: Sequence[Choice | None]) -> float:
    """The weighted sum of the logarithms of expected errors, by which accounts are compared."""
    weights = program.decomposition.weights
    sizes = [weights[choice.task.at] * math.log(max(choice.compared, 1e-9)) for choice in choices
             if choice is not None and math.isfinite(choice.compared)]
    if program.rule is None:
        return sum(sizes)
    counted = sum(weights[at] for at in program.counted)
    of_counts = counted * math.log(max(noise_of(program.rule.rule).scale, 1e-9)) if counted else 0.0
    return sum(sizes) + math.log(program.rule.half) + of_counts


def expected(program: Program, public: PublicFacts) -> list[Choice | None]:
    """The expected choices for the parts that are measured; limits that are learned first may change them."""
    return _assigned(program, _expected_tasks(program, public))


def _assigned(program: Program, tasks: Sequence[Task]) -> list[Choice | None]:
    return assign(program, tasks, cells_declared(program.question))


def _expected_tasks(program: Program, public: PublicFacts) -> list[Task]:
    """The tasks of the parts that are measured, with limits that are still to be learned set to 1. They depend on the account
    only by the norm of a clip."""
    if program.learned_limit == "degrees" and program.degrees is not None:
        program = replace(program, degrees=program.degrees.at_most(1))
    view = program.view if program.learned_limit != "rows" else keep_rows(program.view, 1, program.owner)
    learned = dict.fromkeys(range(len(program.decomposition.parts)), 1) if program.learned_limit == "totals" else {}
    return tasks_of(program, program.decomposition, view, public, learned)


def tasks_of(program: Program, parts: Decomposition, view: Node, public: PublicFacts, learned: Mapping[int, int],
             together: tuple[Summand, ...] = ()) -> list[Task]:
    """The tasks of all parts that are measured, over the view with its limits; `learned` has limits on totals, by part, and
    `together` the summands that are read at once."""
    rows = LimitedRows(view=view, public=public, order=program.order, together=together)
    return [_task(program, i, part, replace(rows, total=learned.get(i))) for i, part in enumerate(parts.parts)
            if i not in program.counted]


def _task(program: Program, at: int, part: Part, rows: LimitedRows) -> Task:
    if program.degrees is not None:
        return program.degrees.task(at, part, program.keys, program.bound.name)
    kind = KINDS[type(part)]
    if program.bound.mechanism is not None:
        return kind.shared_task(at, part, program, rows.view)
    return kind.task(at, part, program, rows)


def assign(program: Program, tasks: Sequence[Task], cells: int, given: Sequence[float] = ()) -> list[Choice | None]:
    """Divide the cost of the parts, by how many aggregates use each or by the weights `given`, and choose each task's
    mechanism."""
    allotted_ = program.parts_allotted
    if program.learned_limit == "centres":
        given = weights_of(program.question, program.decomposition, program.bound)
    weights = [weight_of(task, (given or program.decomposition.weights)[task.at]) for task in tasks]
    found = []
    for task, share in zip(tasks, split_budget(weights, pure=allotted_.epsilon is not None), strict=True):
        smooth = isinstance(task, Ordered) and "smooth_sensitivity" in program.options.mechanisms
        part = allotted_.part(share, delta=program.allotted.delta / program.delta_takers if smooth else Fraction(0))
        found.append(choose(task, part, cells, program.options.mechanisms))
    return found
