"""All requests of a statement to the kernel, in order: limits, bounds, keys, parts. Each may depend on earlier releases."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpsql.answers.answer import Single, single
from dpsql.budgets.reports import amount
from dpsql.estimates import Estimate, constant
from dpsql.frozen import Frozen, field, replace
from dpsql.mechanisms.begun import begun
from dpsql.mechanisms.mechanism import Estimates, TaskContext
from dpsql.mechanisms.select.range_search import found_bounds, rows_to_find
from dpsql.mechanisms.select.shown_counts import shown_counts
from dpsql.mechanisms.select.undeclared_keys import found_keys
from dpsql.mechanisms.truncation.frequencies import learned_frequency
from dpsql.mechanisms.truncation.graph_degrees import learned_degree
from dpsql.mechanisms.truncation.histogram import Deviation, LearnedLimit, deviation_of, drawn, learned, norms_of, rows_of
from dpsql.planning.account_choice import assign, tasks_of
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.averages_of_moments import moments_err_less
from dpsql.planning.centred_averages import AverageCentre, averages_of, centred, centred_totals, centres_of
from dpsql.planning.choose import Choice, shares_of_averages
from dpsql.planning.compilation import parts_of, with_values
from dpsql.planning.contribution_bound import WHOLE
from dpsql.planning.contribution_bound import call_in_words as told_of
from dpsql.planning.cut_off import EITHER, beyond_kept, cuts_off, open_ends, uncovered
from dpsql.planning.entity_totals import columns_of, of_totals, read_at_once
from dpsql.planning.frequency_limits import with_limits
from dpsql.planning.groups import axes_of, cells_declared, combined, groups_of
from dpsql.planning.program import Program
from dpsql.planning.program_keys import rules_of
from dpsql.planning.public import exact
from dpsql.planning.quantile_parts import open_at_found_bounds
from dpsql.planning.rows_beyond import missing
from dpsql.planning.shared_centres import searched_centres
from dpsql.planning.slack_ranges import is_slack
from dpsql.planning.sum_parts import base_of, contributions
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.labels import summand_label
from dpsql.questions.parts import Decomposition, Sums
from dpsql.questions.question import Scalar
from dpsql.questions.rules.limit_rows import keep_rows
from dpsql.questions.rules.squares import with_squares
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.cells import Cells, sort_key
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.contributions import MOST
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand
from dpsql.types import Interval

MOST_ROWS = 2**20  # the largest limit on rows of one entity that may be learned
FAR_BELOW = 4  # times: a learned limit that is not so far below a declared one is not worth intervals that it leaves open
SMALL_PART = 1 / 8  # of the range of values: how far a mean of all rows may be off to be preferred
OF_VALUES = 4  # a limit on totals of values gets this multiple of the price of a limit on numbers of rows


class Released(Frozen):
    """The noisy results of a question: the key of each cell, for each aggregate its estimates by cell, and the values of its
    scalar subqueries, which were released before."""

    cells: Cells
    aggregates: Mapping[str, Estimate]
    choices: Sequence[Choice] = ()
    notes: tuple[str, ...] = ()
    singles: Mapping[str, Single] = field(default_factory=dict)


def script(program: Program, public: PublicTables, scratch: Scratch) -> Generator[Request, Any, Released]:
    """A generator of the requests of a statement, those of its scalar subqueries first; returns what was released."""
    singles: dict[str, Single] = {}
    notes: list[str] = []
    for place, (scalar, below) in enumerate(program.first):
        released = yield from _asked(with_values(below, values_of(singles)), public)
        estimates = {name: estimate.under(place) for name, estimate in released.aggregates.items()}
        found = single(scalar.awaited, below.question, released.cells, estimates, scratch, singles)
        singles[scalar.awaited.id] = found
        notes += [*released.notes, release_note(scalar, found, below)]
    released = yield from _asked(with_values(program, values_of(singles)), public)
    return replace(released, notes=(*notes, *released.notes), singles=singles) if singles else released


def parts_released(program: Program, parts: Collection[str], public: PublicTables,
                   scratch: Scratch) -> Generator[Request, Any, Mapping[str, Released]]:
    """A generator of the requests of a statement's released parts, named by the ids of their placeholders, and of the scalar
    subqueries that these need; returns what was released for each part."""
    singles: dict[str, Single] = {}
    found: dict[str, Released] = {}
    notes: list[str] = []
    for place, (scalar, below) in enumerate(program.first):
        released = yield from _asked(with_values(below, values_of(singles)), public)
        estimates = {name: estimate.under(place) for name, estimate in released.aggregates.items()}
        if scalar.awaited.id in parts:
            found[scalar.awaited.id] = replace(released, aggregates=estimates, singles=dict(singles),
                                               notes=(*notes, *released.notes))
            notes = []
            continue
        one = single(scalar.awaited, below.question, released.cells, estimates, scratch, singles)
        singles[scalar.awaited.id] = one
        notes += [*released.notes, release_note(scalar, one, below)]
    return found


def values_of(singles: Mapping[str, Single]) -> dict[str, Value]:
    return {name: found.value for name, found in singles.items()}


def release_note(scalar: Scalar, found: Single, program: Program) -> str:
    """The note on a value that was released for the question around it."""
    value = "NULL" if found.value is None else f"{found.value:.6g}" if isinstance(found.value, float) else f"{found.value}"
    sure = f" (standard error {found.error:.4g})" if found.error is not None else ""
    return f"{scalar.awaited.text} = {value}{sure} was released first, for {amount(program.allotted)}"


def _asked(program: Program, public: PublicTables) -> Generator[Request, Any, Released]:
    """A generator of the requests of one question; returns what was released."""
    if program.known.public:
        cells, aggregates = exact(program.question, program.view, public)
        return Released(cells=cells, aggregates=aggregates)
    if program.idle:
        return Released(cells=declared_cells(program), aggregates={})
    notes: list[str] = []
    program = yield from _with_degrees(program, notes)
    program, view = yield from _limited(program, public, notes)
    parts, unknown = yield from _with_bounds(program, view, public, notes)
    cells, counted = yield from _cells(program, view, public, notes)
    program, choices, parts = yield from _chosen(program, parts, view, public, len(cells), notes)
    if program.bound.mechanism is not None:
        cut = "" if program.bound.decomposes else uncovered(program)
        notes.append(f"each entity's contribution {program.bound.does}{cut}")
    elif program.options.clip is not None and program.bound.name in ("clip", "reservoir"):
        notes.append(f"each entity's total is limited to clip = {float(program.options.clip):g}{uncovered(program)}")
    context = TaskContext(keys=program.keys, cells=cells, confidence=program.options.confidence)
    estimates = counted | (yield from _measured(choices, parts, context))
    aggregates = {name: recipe(estimates) for name, recipe in parts.recipes.items()}
    lost = missing(program.view)
    for call in program.question.aggregates:
        below, above = open_ends(program, call, lost)
        if program.searched:
            aggregates[call.id] = open_at_found_bounds(call, program.searched, parts, aggregates[call.id])
        aggregates[call.id] = aggregates[call.id].beyond(below, above)
        if not call.aggregate.counts and not unknown.isdisjoint(call.columns):
            aggregates[call.id] = aggregates[call.id].where(np.zeros(len(cells), dtype=np.bool_))
    for kind in dict.fromkeys(type(part) for part in parts.parts):
        notes += KINDS[kind].notes(program, parts, view, estimates, kept=cuts_off(program) or not lost.nothing)
    notes += _not_told(program, aggregates)
    return Released(cells=cells, choices=choices, notes=tuple(notes), aggregates=aggregates)


def _not_told(program: Program, aggregates: Mapping[str, Estimate]) -> Iterator[str]:
    """Notes on statistics of two columns that are NULL in some cell."""
    for call in program.question.aggregates:
        if call.aggregate.kind is Kind.PAIR and np.isnan(aggregates[call.id].values).any():
            yield f"{told_of(call)} is NULL where the noisy sums suggest too few rows, or a column that does not vary"


def _with_degrees(program: Program, notes: list[str]) -> Generator[Request, Any, Program]:
    """The program with a limit on degrees, if it is about a graph; learned if none is given."""
    degrees, how = program.degrees, ""
    if degrees is None:
        return program
    if program.learned_limit == "degrees":
        most = yield from learned_degree(degrees.graph.arcs, program.stages["limits"], program.parts_allotted)
        degrees, how = degrees.at_most(most), ", a limit that was learned privately"
    notes.append(f"degrees are reduced to at most {degrees.most}{how}; entities of degree 0 are not counted")
    return replace(program, degrees=degrees)


def _limited(program: Program, public: PublicFacts, notes: list[str]) -> Generator[Request, Any, tuple[Program, Node]]:
    """The program, and the view with a limit on the rows of each entity, which is learned if none is known. The program records
    if the reserve was spent on this."""
    if program.learned_limit == "frequencies":
        return program, (yield from _with_frequencies(program, public, notes))
    if program.learned_limit != "rows":
        return program, program.view
    sizes, deviation = rows_of(program.view, program.owner), _deviation(program, cells_declared(program.question))
    found, declared = (yield from learned(sizes, 1, program.stages["limits"], deviation)), program.known.rows
    rows = found.limit if found is not None else None
    if declared is not None and (found is None or found.limit >= declared or (
            found.limit * FAR_BELOW >= declared and missing(program.view).nothing)):
        return replace(program, limit_unused=True), program.view
    if rows is None and program.decomposition.parts:
        rows, program = (yield from drawn(sizes, program.owner, program.reserve)), replace(program, reserve_spent=True)
    rows = min(rows or 1, MOST_ROWS)
    kept = f"{rows} rows of each entity" if declared is None else f"{rows} of the {declared} rows that an entity may have"
    notes.append(f"at most {kept} were kept, a limit that was learned privately{uncovered(program)}")
    return program, keep_rows(program.view, rows, program.owner)


def _with_frequencies(program: Program, public: PublicFacts, notes: list[str]) -> Generator[Request, Any, Node]:
    """The view with limits on the rows of each entity and of each value of a key, which are learned one after the other."""
    found: list[int] = []
    price, noise_of = program.stages["limits"].part(Fraction(1, program.unknown)), _deviation(program, cells_declared(
        program.question))

    def deviation(limit: float, times: int) -> float:
        """The standard error of the noise if the next `times` limits are this one, and any after them 1."""
        view, _ = with_limits(program.question, program.options, public, [*found, *[math.ceil(limit)] * times])
        return noise_of(stability(view, public).rows or 0)

    while True:
        view, unknown = with_limits(program.question, program.options, public, found)
        if len(unknown) == len(found):
            return view
        place = unknown[len(found)]
        known = stability(place.relation, public)
        if place.keys:
            noise = partial(deviation, times=program.unknown - len(found))  # assuming that further limits are similar
            lost = _alike if place.mutual else _one
            limit = yield from learned_frequency(place.relation, place.keys, known.rows or 1, price, noise, lost)
        else:
            assert known.owner is not None
            rows = yield from learned(rows_of(place.relation, known.owner), 1, price, partial(deviation, times=1))
            limit = rows.limit if rows is not None else 1
        found.append(limit)
        notes.append(f"at most {limit} row{'s' if limit > 1 else ''} of {place.of} were kept, a limit that was learned privately")


def _alike(limit: float) -> float:
    """The loss if both sides of a join are limited: a row left out would have matched as many rows as the other side keeps."""
    return limit


def _one(limit: float) -> float:
    return 1.0


def _with_bounds(program: Program, view: Node, public: PublicFacts,
                 notes: list[str]) -> Generator[Request, Any, tuple[Decomposition, frozenset[str]]]:
    """The parts of the question, with bounds searched for where columns have none; and the columns for which none were found.
    What is asked of these is NULL: a number that was held in bounds of no meaning would be false, and its interval too."""
    if not program.searched:
        return program.decomposition, frozenset()
    found: dict[str, Interval | None] = {}
    rows = stability(view, public).rows or 1
    share = program.stages["bounds"].part(Fraction(1, len(program.searched)))
    for column in program.searched:
        ends = found[column] = yield from found_bounds(view, column, rows, share)
        name = view.names[column]
        notes.append(f"values of {name} were clamped to {ends}, bounds that were found privately" if ends is not None else
                     f"no bounds of {name} were found privately, so results computed from it are NULL: at this price, finding "
                     f"them takes about {rows_to_find(rows, share):,} values of the same size")
    parts = parts_of(program, {column: ends or Interval(0, 1) for column, ends in found.items()})
    return parts, frozenset(column for column, ends in found.items() if ends is None)


def _cells(program: Program, view: Node, public: PublicFacts,
           notes: list[str]) -> Generator[Request, Any, tuple[Cells, dict[int, Estimates]]]:
    """The cells of the answer: every combination of declared values with the undeclared keys that were selected. Also the
    estimates of parts that come with the selection."""
    keys = program.question.keys
    if program.degrees is not None:
        return program.degrees.cells(keys), {}
    if not program.undeclared_keys:
        return declared_cells(program), {}
    hidden, owner = [key.column for key in program.undeclared_keys], program.known.owner
    rules = rules_of(program, stability(view, public)) if owner is None else ()
    if owner is None and not rules:
        notes.append("one entity may change so many rows here that the price is too small to show any group")
        return (), {at: (constant(np.zeros(0)),) for at in program.counted}
    choice = rules[0] if rules else program.rule
    assert choice is not None
    found = yield from found_keys(view, owner, hidden, program.groups, choice.rule)
    counts = ", chosen by their noisy counts" if program.counted else ""
    notes.append(f"only groups with roughly {choice.half} entities or more are shown{counts}; each entity counts in at "
                 f"most {program.groups} of them" if owner is not None else
                 f"only groups with roughly {choice.half} rows or more are shown{counts}")
    declared = list(combined(axes_of(program.question, [i for i, key in enumerate(keys) if key.domain is not None])))
    cells = []
    for values in found.keys:
        given = dict(zip(hidden, values, strict=True))
        cells += [tuple(given[key.column] if key.column in given else held[i] for i, key in enumerate(keys)) for held in declared]
    told = np.array(found.counts, dtype=np.int64)  # by cell, since all keys are undeclared if some part is counted
    return tuple(sorted(cells, key=sort_key)), {at: (shown_counts((at, 0), told, choice.rule),) for at in program.counted}


def declared_cells(program: Program) -> Cells:
    """Every combination of declared values."""
    return groups_of(program.question)


def _chosen(program: Program, parts: Decomposition, view: Node, public: PublicFacts, cells: int,
            notes: list[str]) -> Generator[Request, Any, tuple[Program, list[Choice], Decomposition]]:
    """The mechanism of every part, with limits on totals or centres learned if the statement needs them; and the program and its
    parts, which these may change."""
    if program.chosen is not None:
        return program, list(program.chosen), parts
    limits: Mapping[int, int] = {}
    weights: Sequence[float] = ()
    together: tuple[Summand, ...] = ()
    if program.learned_limit == "totals":
        together = _read_together(parts) if read_at_once(view, program.keys) else ()
        program, parts, limits, found = yield from _totals(program, parts, view, together, cells, notes)
        if found:
            parts, weights = _centred(program, parts, found, notes)
    if program.learned_limit == "centres":
        parts, view = yield from _with_centres(program, parts, view, notes)
    if together:  # moments may be none of these
        together = tuple(dict.fromkeys([*together, *(part.summand for part in parts.parts if isinstance(part, Sums)
                                                     and part.totals is None)]))
    choices = assign(program, tasks_of(program, parts, view, public, limits, together), cells, weights)
    assert all(choice is not None for choice in choices)
    return program, [choice for choice in choices if choice is not None], parts


def _is_better_whole(program: Program, found: Mapping[int, LearnedLimit], cells: int) -> bool:
    """Whether the intervals are better with all rows that the policy allows than with the totals scaled down to these limits.

    A limit leaves intervals open, those of means on both sides. So where the rows that the policy allows are all there are, it
    must be far smaller; and means use all rows if they are then known to a small part of the range of their values.
    """
    rows = program.known.rows
    if rows is None or program.options.bound != "auto" or not missing(program.view).nothing:
        return False
    sums = program.decomposition.sums
    if all(rows * sums[at].l1 <= FAR_BELOW * known.limit for at, known in found.items()):
        return True
    open_calls = [call for call in program.question.aggregates if beyond_kept(program.question, call) == EITHER]
    if any(is_slack(program.question.view, call.columns[0]) for call in open_calls if call.columns):
        return False  # their ranges are far wider than their values
    counted = [known.total for at, known in found.items() if not isinstance(sums[at], GridSum)]  # by which rows are measured
    return bool(open_calls and counted) and all(call.aggregate.average for call in open_calls) and (
        2 * _deviation(program, cells)(rows) <= SMALL_PART * min(counted))


def _read_together(parts: Decomposition) -> tuple[Summand, ...]:
    """The summands of all parts and of the histograms for their limits."""
    return tuple(dict.fromkeys([*_measured_sums(parts).values(), *parts.sums.values()]))


def _measured_sums(parts: Decomposition) -> dict[int, GridSum | Count]:
    """The summand whose totals tell the limit of each part: that of the rows for moments."""
    return {i: summand if isinstance(summand, GridSum | Count) else Count(when=summand.when) for i, summand in parts.sums.items()}


def _totals(program: Program, parts: Decomposition, view: Node, together: tuple[Summand, ...], cells: int, notes: list[str],
            ) -> Generator[Request, Any, tuple[Program, Decomposition, Mapping[int, int], Mapping[int, LearnedLimit]]]:
    """Learn a limit on the totals of each part; parts that count the same rows share one. Returns the program, which records if
    the reserve was spent or if the limits are not used; the parts, or others for which these limits serve better; the limits by
    part, in integers; and all that was learned by part, if every limit was and is used.

    If a histogram shows no limit, a limit on rows takes its place, with every row at its bound.
    """
    measured = _measured_sums(parts)
    different: list[GridSum | Count] = list(dict.fromkeys(measured.values()))
    shown = yield from _histograms(program, parts, view, different, together, cells)
    found = {i: shown[summand] for i, summand in measured.items()} if len(shown) == len(different) else {}
    if found and _is_better_whole(program, found, cells):
        program = replace(program, decided=WHOLE, limit_unused=True)
        notes.append("no contribution was scaled down: a limit was learned privately, and the one that the policy declares gives "
                     "better intervals")
        return program, parts_of(program, {}), {}, {}
    if found and not program.searched and moments_err_less(program.question, parts, found, pure=program.order == 1):
        return program, *_of_moments(program, parts, found, notes, derived=bool(together)), {}
    limits = {summand: known.limit for summand, known in shown.items()}
    if len(limits) < len(different):
        sizes = norms_of(contributions(view, program.owner, program.keys, Count()), program.order)
        rows, program = (yield from drawn(sizes, program.owner, program.reserve)), replace(program, reserve_spent=True)
        rows = min(rows, program.known.rows or rows)
        limits |= {summand: rows * summand.l1 for summand in different if summand not in limits}
    for summand, limit in limits.items():
        size = limit * (float(summand.grid.step) if isinstance(summand, GridSum) else 1)
        notes.append(_scaled_down(program, summand_label(summand, dict(view.names)), size))
    return program, parts, {i: min(MOST, limits[measured[i]] * base_of(summand)) for i, summand in parts.sums.items()}, found


def _histograms(program: Program, parts: Decomposition, view: Node, summands: Sequence[GridSum | Count],
                together: tuple[Summand, ...], cells: int) -> Generator[Request, Any, dict[GridSum | Count, LearnedLimit]]:
    """The limits on totals of these summands, as far as the histograms of their sizes show any."""
    shares = [OF_VALUES if isinstance(summand, GridSum) else 1 for summand in summands]
    found = {}
    for summand, share in zip(summands, shares, strict=True):
        keys = program.keys if together else _told_apart(program, summand)
        given = contributions(view, program.owner, keys, *(together or (summand,)))
        sizes = norms_of(given, program.order, columns_of(given, summand))
        price = program.stages["limits"].part(Fraction(share, sum(shares)))
        of_noise = Fraction(share, sum(shares)) if averages_of(program.question, parts) else None
        known: LearnedLimit | None = yield from learned(sizes, summand.l1, price, _deviation(program, cells, of_noise))
        if known is not None:
            found[summand] = known
    return found


def _of_moments(program: Program, parts: Decomposition, found: Mapping[int, LearnedLimit], notes: list[str], *,
                derived: bool) -> tuple[Decomposition, dict[int, int]]:
    """The parts of averages that are computed from moments, and their limits in integers: those on the numbers of rows. Moments
    may be `derived` from totals of entities."""
    averages = {(average.call.columns[0], average.call.when): average for average in averages_of(program.question, parts)}
    moments = parts_of(program, {}, moments=True)
    rows, new = {}, list(moments.parts)
    for i, summand in moments.sums.items():
        average = averages[summand.columns[0], summand.when]
        rows[i] = found[average.count].limit
        if derived:
            new[i] = of_totals(summand, parts.total(average.total), parts.parts[average.count])
    notes += [_scaled_down(program, "rows", limit) for limit in dict.fromkeys(rows.values())]
    return replace(moments, parts=tuple(new)), {i: min(MOST, rows[i] * base_of(summand)) for i, summand in moments.sums.items()}


def _scaled_down(program: Program, added: str, most: float) -> str:
    """The note on a limit of totals."""
    whole_rows = "" if program.known.rows is None else "; bound = 'rows' uses all rows that the policy allows instead"
    return (f"each entity's contribution to {added} was scaled down to at most {most:.6g}, a limit that was learned privately"
            f"{uncovered(program)}{whole_rows}")


def _told_apart(program: Program, summand: GridSum | Count) -> tuple[str, ...]:
    """The keys of the cells over which the norm of a total is taken. Numbers that are not negative add up to their l1 norm, so
    they need not be summed by cell first, which takes several times as long. Where only rows are counted and a limit on them is
    declared, this l1 norm stands for the l2 norm, which is no larger: less is cut off then than the histogram says."""
    added = isinstance(summand, Count) or summand.grid.least >= 0
    counts = program.known.rows is not None and all(isinstance(each, Count) for each in program.decomposition.sums.values())
    return () if counts or (added and program.order == 1) else program.keys


def _centred(program: Program, parts: Decomposition, found: Mapping[int, LearnedLimit],
             notes: list[str]) -> tuple[Decomposition, Sequence[float]]:
    """The parts with averages measured from centres, and the weight of each part."""
    centres = centres_of(program.question, parts, found)
    off = {centre.average.call.id: centre.off for centre in centres}
    weights = shares_of_averages(
        [(each.total, each.count, off.get(each.call.id, 1.0)) for each in averages_of(program.question, parts)], parts.weights,
        {i: known.limit / max(known.limit, known.total) for i, known in found.items()})
    notes += [f"{_measured_from(centre)}, a number near it" for centre in centres]
    return centred_totals(program.question, parts, centres), weights


def _with_centres(program: Program, parts: Decomposition, view: Node,
                  notes: list[str]) -> Generator[Request, Any, tuple[Decomposition, Node]]:
    """The parts and the view for rows that belong to several entities each, where centres are searched for."""
    found = yield from searched_centres(program.question, parts, program.bound, view, program.known.owners,
                                        program.stages["limits"])
    if found.columns:
        question, view = with_squares(program.question, view, found.columns)
        parts = parts_of(replace(program, question=question), {}, found.columns)
    for column, value in found.columns.items():
        calls = [told_of(call) for call in program.question.aggregates if column in call.columns and call.aggregate.squared]
        notes.append(f"{', '.join(dict.fromkeys(calls))}: measured by deviations of {program.view.names[column]} from "
                     f"{value:.6g}")
    for centre in found.averages:
        notes.append(_measured_from(centre))
    return centred(program.question, parts, view, found.averages)


def _measured_from(centre: AverageCentre) -> str:
    return f"{told_of(centre.average.call)} was measured by deviations of rows from {centre.value:.6g}"


def _deviation(program: Program, cells: int, share: Fraction | None = None) -> Deviation:
    """The noise of a part as a function of its limit, if it gets this share of the price; None: all parts get the same."""
    return deviation_of(program.parts_allotted.part(share or Fraction(1, len(program.decomposition.parts) or 1)), cells)


def _measured(choices: Sequence[Choice], parts: Decomposition,
              context: TaskContext) -> Generator[Request, Any, dict[int, Estimates]]:
    """Each mechanism answers all of its tasks at once, except those of modes, which have more cells. Estimates by part."""
    scripts: list[tuple[list[Choice], Generator[Request, Any, Sequence[Estimates]]]] = []
    measured = [parts.parts[choice.task.at] for choice in choices]
    contexts = [KINDS[type(part)].context(part, context) for part in measured]
    for mechanism, own in dict.fromkeys((choice.mechanism, own) for choice, own in zip(choices, contexts, strict=True)):
        mine = [choice for choice, other in zip(choices, contexts, strict=True) if choice.mechanism is mechanism and other == own]
        scripts.append((mine, begun(mechanism.run([(choice.task, choice.allotted) for choice in mine], own))))
    found: dict[int, Estimates] = {}
    for mine, steps in scripts:
        estimates = yield from steps
        found |= {choice.task.at: estimate for choice, estimate in zip(mine, estimates, strict=True)}
    return found
