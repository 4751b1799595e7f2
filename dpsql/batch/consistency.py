"""Fit a table of counts to the numbers of a workload, if a statement names a method: they become the answers of one table.

This is post-processing of released numbers, by the room `microdata`: it costs no privacy, and no failure of it depends on more
than them. What is fitted are the answers, each in units of its standard error, and not the strategy's measurements: so what is
asked is what the table is near to. Methods without negative cells have an unknown bias, so fitted numbers are shown with the
standard errors and intervals of the measured numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy

from dpsql.answers.simulation import Simulation
from dpsql.batch.group import Group, GroupPlan, Told
from dpsql.batch.measured import MeasuredGroup
from dpsql.errors import OptionError
from dpsql.frozen import Frozen, replace
from dpsql.microdata import limits
from dpsql.microdata.all_fits import FAILURES, fit
from dpsql.microdata.diagnosis_lines import after, before
from dpsql.microdata.noisy_answers import NoisyAnswers, query_group
from dpsql.microdata.sparse_queries import of_workload, sums_and_entries
from dpsql.planning.options import Options
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Span
from dpsql.workload.factors import Array

TOTAL = "total"  # the group of the public number of rows
LEAST_VARIANCE = 1e-12  # of noise so small that its variance is 0 in floats
BIASED = "no number is negative, so small numbers are too large on average; intervals are those of the measured numbers"


class Consistency(Frozen):
    """By which method of `microdata.all_fits` a table is fitted, whether it has whole numbers, and how many rows it has, if that
    is public."""

    method: str
    whole: bool = False
    total: int | None = None

    def __str__(self) -> str:
        whole = ", in whole numbers" if self.whole else ""
        rows = f", of {self.total:,} rows as the statement says" if self.total is not None else ""
        return f"a table is fitted to the noisy numbers by {self.method}{whole}{rows}, and its answers are shown"


def consistency_of(options: Options) -> Consistency | None:
    """The consistency method that a statement's options request; None if there is none."""
    if options.consistency == "none":
        return None
    return Consistency(method=options.consistency, whole=options.rounding == "whole", total=options.total)


def applies(group: Group, way: Consistency) -> bool:
    """Whether the method can be applied: the sums of the group must be those of a table without negative cells. Sums of values of
    both signs are changed by least squares only."""
    return way.method == "ols" or isinstance(group.summand, Count) or group.summand.grid.low >= 0


def check(groups: tuple[Group, ...], way: Consistency, strategy: str, span: Mapping[str, Span], *, adaptive: bool) -> None:
    """Raise OptionError, located, if the table is too large for the method; if the method needs errors that the `adaptive`
    strategy does not provide beforehand; or if a total is given but not exactly one kind of rows is counted."""
    if adaptive and way.method in ("max_fit", "reweight"):
        raise OptionError(f"{way.method} needs the errors of numbers, which strategy = '{strategy}' does not provide",
                          code="consistency", subject="consistency", span=span.get("consistency"), try_="consistency = 'nnls'")
    for group in (group for group in groups if applies(group, way)):
        workload = group.smaller.workload
        cells = workload.domain.size
        sums, entries = sums_and_entries(workload) if cells <= limits.MOST_CELLS else (0, 0)
        why = limits.refusal(way.method, cells=cells, sums=sums, entries=entries)
        if why is not None:
            raise OptionError(f"this workload is too large for {way.method}: {why}", code="consistency", subject="consistency",
                              span=span.get("consistency"), try_="the statement without it, fewer numbers, or coarser keys")
    counts = sum(isinstance(group.summand, Count) for group in groups)
    if way.total is not None and counts != 1:
        raise OptionError("total is the number of counted rows, and this statement counts "
                          f"{'none' if counts == 0 else f'rows of {counts} kinds'}", code="consistency", subject="total",
                          span=span.get("total"), try_="COUNT(*) among the numbers" if counts == 0 else "one workload for each")


def made_consistent(group: Group, plan: GroupPlan, price: Cost, told: Told, way: Consistency | None) -> Told:
    """The answers of the table that is fitted to a group's answers; or the unchanged answers, with a note, if no such table is
    found."""
    if way is None or not applies(group, way):
        return told
    counts = isinstance(group.summand, Count)
    try:
        noisy = _noisy(group, told.values / group.unit, told.variances / group.unit**2, told.kind == "laplaces", way)
        found = fit(noisy, way.method, whole=way.whole and counts)
        lines = after(noisy, found, _errors(group, plan, price, noisy), part_names(group))
    except FAILURES:
        return replace(told, notes=(*told.notes, f"{way.method} found no table, so the measured numbers are shown unchanged"))
    answers = found.answers[noisy.slices[TOTAL].stop:] if TOTAL in noisy.slices else found.answers
    kept = ("no table of whole numbers is close to all numbers; only its total is",) if found.kept == TOTAL else ()
    notes = (*told.notes, f"{way}{'' if way.method == 'ols' else f'; {BIASED}'}", *kept, *lines)
    if way.method == "ols":  # whose errors are at most those of the measured numbers
        return replace(told, values=answers * group.unit, kind="approximate", mixed=None, notes=notes)
    return replace(told, shown=answers * group.unit, notes=notes)


def expected_effect(group: Group, plan: GroupPlan, price: Cost, way: Consistency) -> tuple[str, ...]:
    """Notes on how the method would change tables of public shapes, computed before anything is charged."""
    variances = plan.variances(price)
    if variances is None or not applies(group, way):
        return ()
    noisy = _noisy(group, np.zeros(group.workload.rows), variances / group.unit**2, group.pure, way)
    total = float(way.total) if way.total is not None and isinstance(group.summand, Count) else None
    return before(noisy, way.method, _errors(group, plan, price, noisy), part_names(group), total)


def _noisy(group: Group, values: Array, variances: Array, laplace: bool, way: Consistency) -> NoisyAnswers:
    """The answers as those of a table: one group for each part of the workload, after the public total."""
    spread = np.ones(len(values)) if np.isnan(variances).any() else np.maximum(variances, LEAST_VARIANCE)
    found = of_workload(group.smaller.workload, values, spread, noise="laplace" if laplace else "gaussian")
    if way.total is None or not isinstance(group.summand, Count):
        return found
    counted = np.diff(found.matrix.tocsc().indptr) > 0
    all_ = query_group(TOTAL, scipy.sparse.csr_array(counted[None, :].astype(float)), [float(way.total)], 0.0, stage=-1)
    return NoisyAnswers((all_, *found.groups))


def _errors(group: Group, plan: GroupPlan, price: Cost, noisy: NoisyAnswers) -> Callable[[], Array] | None:
    """Draws errors as the answers have them, in the integers of the summand; None if they depend on the data."""
    if not isinstance(plan, MeasuredGroup):
        return None
    draw = plan.simulated_errors(price, Simulation(0))
    exact = np.zeros(1 if TOTAL in noisy.slices else 0)
    return lambda: np.concatenate([exact, draw() / group.unit])


def part_names(group: Group) -> dict[str, str]:
    """The parts of a workload in words, by the names of their groups."""
    names = dict[str, str]()
    for i, part in enumerate(group.workload.parts):
        columns = [column.name for column, factor in zip(group.columns, part.factors, strict=False) if factor.rows > 1]
        names[f"part {i}"] = f"by {', '.join(columns)}" if columns else "one number" if part.axes else "the total"
    return names
