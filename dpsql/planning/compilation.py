"""Decides about a question all that can be decided before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dpsql.catalog.model import Budget
from dpsql.errors import OptionError, Unsupported
from dpsql.frozen import replace
from dpsql.mechanisms.mechanism import Shared, TaskContext
from dpsql.mechanisms.named_bounds import Bound
from dpsql.planning.account_choice import with_account
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.centred_averages import centred, middles_of
from dpsql.planning.choose import Choice
from dpsql.planning.contribution_bound import MANY_ROWS, PUBLIC, BoundedQuestion, call_in_words, decided
from dpsql.planning.cut_off import with_values_beyond
from dpsql.planning.degree_questions import DegreeQuestion, degree_question, way_of
from dpsql.planning.frequency_limits import FREQUENCY, unknown_limits
from dpsql.planning.groups import cells_declared, check_cells
from dpsql.planning.options import SPEED, Options
from dpsql.planning.program import Program, priced, questions
from dpsql.planning.public import check_exact
from dpsql.planning.rows_beyond import missing
from dpsql.planning.shared_centres import columns_to_centre, to_centre
from dpsql.planning.unused_mechanisms import check_mechanisms
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.parts import Decomposition
from dpsql.questions.question import Question, Scalar
from dpsql.questions.rules.decompose import decompose
from dpsql.questions.rules.recognise_degrees import degrees_of
from dpsql.questions.rules.squares import with_squares
from dpsql.questions.rules.substitute import substitute
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.trusted.accounting.cost import FREE
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.plan.certificate import Certificate, certify, stability
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node, PublicFacts, Stability
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.types import Interval

CENTRED = ("balance", "removals", "recursive", "extension")  # bounds that hold each sign of a sum to a level
USUAL_GROUPS = 4  # in how many undeclared groups an entity counts, if neither its rows nor the statement limit them


def compile_question(question: Question, options: Options, budget: Budget, public: PublicTables, view: Node,
                     known: Stability, first: Sequence[tuple[Scalar, Node, Stability]] = ()) -> Program:
    """Make all decisions about a private view of known stability.

    `first` are its scalar subqueries, each with its view and stability; if there are any, the outer view may be public. Raises
    Unsupported or OptionError, located, for what cannot be answered.
    """
    program = _undecided_program(question, options, view, known, public)
    if first:
        inside = options.inside(outer_public=known.public)
        program = replace(program, first=tuple(
            (scalar, _undecided_program(scalar.question, inside, rows, stable, public)) for scalar, rows, stable in first))
    _check_clip(program)
    price = priced(options.price, budget, options.span)
    program, choices = with_account(program, price, public)
    if options.mechanisms:
        check_mechanisms(program)
    _check_choices(choices, program, public)
    if (program.first or program.learned_limit is not None or program.searched or program.undeclared_keys
            or program.degrees is not None):
        return program
    return replace(program, chosen=tuple(choice for choice in choices[0] if choice is not None))


def _undecided_program(question: Question, options: Options, view: Node, known: Stability, public: PublicTables) -> Program:
    """The decisions that do not depend on the price: the bound, the parts, and what must be learned."""
    if question.together:
        span = next((call.span for call in question.aggregates if call.over is not None), None)
        raise Unsupported("this is answered as a workload only, not beside subqueries that are released first", code="workload",
                          span=span, try_="the aggregate without OVER, in a statement of its own")
    if known.public:
        check_exact(question)
        return Program(question=question, options=options, view=view, known=known, allotted=FREE, decided=PUBLIC,
                       learned_limit=None, searched=(), undeclared_keys=(), rule=None, groups=1, decomposition=Decomposition(
                           parts=(), weights=(), recipes={}, uses={}))
    graph = degrees_of(view, question.read, public) if known.rows is None and not known.owners else None
    if graph is not None:
        return _of_degrees(question, options, known, degree_question(question, graph, options, public))
    left_out = missing(view)
    question = with_values_beyond(question, left_out)
    searched = _searched(question)
    check_cells(question)
    found = decided(question, options, known, searched, cells_declared(question), complete=left_out.nothing)
    if _each_of_several(found.bound, known.owner):
        question, view = with_squares(question, view)
    asked = BoundedQuestion(question=question, options=options, view=view, known=known, decided=found)
    parts = parts_of(asked, dict.fromkeys(searched, Interval(0, 1)))
    hidden = tuple(key for key in question.keys if key.domain is None)
    unknown = unknown_limits(question, options, public) if options.bound == FREQUENCY else 0  # other bounds learn none
    return _with_told_counts(Program(
        question=question, options=options, view=view, known=known, allotted=FREE, rule=None, decomposition=parts, decided=found,
        searched=searched, undeclared_keys=hidden, unknown=unknown,
        learned_limit="frequencies" if unknown else _learn(asked, parts),
        groups=options.max_groups or min(known.rows or USUAL_GROUPS, USUAL_GROUPS)))


def _with_told_counts(program: Program) -> Program:
    """The program with averages that use the counts by which undeclared groups are selected, if these are numbers of rows."""
    if not program.keys_tell_rows or program.known.owner is None or program.searched or program.question.scalars:
        return program
    parts = decompose(program.question, owner=program.known.owner, counted=True)
    centres = middles_of(program.question, parts)
    if not centres:
        return program
    parts, view = centred(program.question, parts, program.view, centres)
    return replace(program, decomposition=parts, view=view)


def _of_degrees(question: Question, options: Options, known: Stability, degrees: DegreeQuestion) -> Program:
    """The same for a question about the degrees of a graph: one measurement gives all of its parts."""
    question, found = degrees.asked(question), way_of(options)
    check_cells(question)
    asked = BoundedQuestion(question=question, options=options, view=question.view, known=known, decided=found)
    return Program(question=question, options=options, view=question.view, known=known, allotted=FREE, rule=None,
                   decided=found, searched=(), undeclared_keys=(), learned_limit=None if degrees.given else "degrees",
                   degrees=degrees, decomposition=parts_of(asked, {}))


def parts_of(asked: BoundedQuestion, bounds: Mapping[str, Interval],
             centres: Mapping[str, float] = MappingProxyType({}), *, moments: bool = False) -> Decomposition:
    """The parts whose contributions a bound can limit. If a clip is given, it is a number of rows for averages, so these are
    computed from moments; and so they are where `moments` says it. Distinct values that are not tested one by one are matched
    with entities, if entities may vouch for them."""
    bound, owner = asked.bound, asked.known.owner
    clips = bound.name == "clip"
    found = decompose(asked.question, owner=owner, bounds=dict(bounds), each=bound.each, apart=clips,
                      several=_each_of_several(bound, owner), learned=clips and asked.options.clip is None and not moments,
                      centres=centres)
    return replace(found, parts=tuple(KINDS[type(part)].measured_as(part, asked) for part in found.parts))


def _each_of_several(bound: Bound, owner: str | None) -> bool:
    """Whether rows belong to several entities each, and the bound limits one number of each row."""
    return bound.several and bound.each and owner is None


def with_values(program: Program, values: Mapping[str, Value]) -> Program:
    """The program with released values, by the ids of their placeholders. Facts only become narrower, so all decisions remain
    valid, and grids may become finer."""
    if not values:
        return program
    program = replace(program, question=substitute(program.question, values), view=substitute(program.view, values))
    if program.known.public:
        return program
    return replace(program, decomposition=parts_of(program, dict.fromkeys(program.searched, Interval(0, 1))))


def _searched(question: Question) -> tuple[str, ...]:
    """Columns that need bounds, have none, and may be searched. Products do not count: they are measured from the midpoints of
    ranges before anything is released, so they need declared bounds."""
    found = []
    for call in question.aggregates:
        if call.aggregate.bounded and call.aggregate.kind is not Kind.PAIR:
            known = question.view.field(call.columns[0]).facts
            if known.type.numeric and not known.declared.finite and known.search and call.columns[0] not in found:
                found.append(call.columns[0])
    return tuple(found)


def _learn(asked: BoundedQuestion, parts: Decomposition) -> str | None:
    """What is learned first, if anything: a limit on rows if none is known, on totals if they are clipped without a given limit.

    The noise in the ranks of quantiles grows with the rows that one entity may have. So if the policy allows very many, a limit
    is learned for quantiles too (Amin, Kulesza, Munoz and Vassilvitskii, Bounding User Contributions, ICML 2019).
    """
    question, options, known, bound = asked.question, asked.options, asked.known, asked.bound
    kinds = [(KINDS[type(part)], part) for part in parts.parts]
    if bound.name in CENTRED and known.owner is None and options.clip is None and (
            to_centre(question, parts) or columns_to_centre(question, bound)):
        return "centres"
    if bound.name == "clip" and parts.sums:
        return "totals" if options.clip is None else None
    if options.bound == "auto" and all(kind.counts_once(part, asked) for kind, part in kinds):
        return None
    counted = all(kind.counts_entities(part) for kind, part in kinds) and not question.keys
    limits_rows = bound.mechanism is None and bound.name != "reservoir"  # a reservoir clamps what it keeps
    if known.rows is not None:
        ranked = bool(kinds) and all(kind.ranked for kind, _ in kinds)
        free = options.bound == "auto" and options.max_rows is None and options.prefer != SPEED and known.owner is not None
        return "rows" if limits_rows and ranked and free and known.rows >= MANY_ROWS else None
    return "rows" if limits_rows and not counted else None


def _check_clip(program: Program) -> None:
    """Raises OptionError if the number given as clip could be in several units, as of rows and of values."""
    summed = [below.question for below in (program, *(found for _, found in program.first))
              if below.options.clip is not None and below.decomposition.sums]
    units: dict[str, None] = {}
    for call in (call for question in summed for call in question.aggregates):
        apart, total = not call.aggregate.linear and program.bound.each, call.aggregate.kind is Kind.TOTAL
        units |= dict.fromkeys(["rows", call_in_words(call)] if apart else [call_in_words(call) if total else "rows"])
    if len(units) > 1:
        way = "bound = 'clip'" if program.known.owner is not None else "bound = 'balance'"
        raise OptionError("clip could mean " + " or ".join(units) + " here", code="clip", subject="clip",
                          try_=f"{way} without a number: each limit is then learned; or one statement for each")


def _check_choices(choices: Sequence[Sequence[Choice | None]], program: Program, public: PublicFacts) -> None:
    """Raises OptionError unless every part has a mechanism that can do it at this price."""
    for below, found in zip(questions(program), choices, strict=True):
        if not all(choice is not None and _may_be_asked(choice, below, public) for choice in found):
            raise OptionError("the price is too small for this statement", code="price", try_="a larger epsilon or rho")


def _may_be_asked(choice: Choice, program: Program, public: PublicFacts) -> bool:
    """Whether the kernel takes the first request of a bound's mechanism: a tiny price means noise too wide to be drawn."""
    if not isinstance(choice.task, Shared):
        return True
    several = range(cells_declared(program.question))
    cells = tuple((number,) * len(program.keys) for number in several)  # any that differ: only their number counts
    request = next(choice.mechanism.run([(choice.task, choice.allotted)], TaskContext(keys=program.keys, cells=cells)))
    plan, = request.plans  # requests of such mechanisms have one plan
    try:
        copied_request(request).cost(certify(plan, public) if isinstance(plan, GroupedSums) else Certificate(
            below=stability(plan.inputs[0], public), summands=()))
    except ValueError:
        return False
    return True
