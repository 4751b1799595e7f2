"""The plan of a synthetic table: its coded columns, and the requests that measure them; then the rows that are drawn.

Everything after the last release is post-processing: the fit, the draw, and the comparison of the two.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.frozen import Frozen, replace
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.sampling import Places
from dpsql.models.table_domain import TableDomain
from dpsql.planning.choose import price_charged
from dpsql.planning.explain import Expected, Measurement
from dpsql.progress import tell
from dpsql.questions.question import Combinations
from dpsql.synthesis.binned_views import source_of
from dpsql.synthesis.column_forms import PlannedForm, UncutColumn
from dpsql.synthesis.learned_bins import LEARNING, LearnedTable, learned, learning_stage
from dpsql.synthesis.method import CodedColumn, CodedTable, Measured, SynthesisTask, with_coarser
from dpsql.synthesis.method_choice import MethodChoice
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.released_table import CoarserColumn, ReleasedMarginal, SyntheticColumn, released
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.synthesis.table_options import MOST_ROWS, SynthesisTerms
from dpsql.synthesis.valid_combinations import FollowingColumn, valid_rows
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.workload.factors import Array

Made = TypeVar("Made")


class TablePlan(Frozen):
    """What will be measured, by which method and for which price, and how the columns are drawn from it: `forms` are those of the
    measured columns, and others are `following` from these; `combinations` says which values go together. In `task`, columns
    whose bins will be learned have as many as there can be."""

    name: str
    task: SynthesisTask
    forms: tuple[PlannedForm, ...]
    choice: MethodChoice
    terms: SynthesisTerms
    statement: str
    following: tuple[FollowingColumn, ...] = ()
    combinations: tuple[Combinations, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What will be measured, for EXPLAIN."""
        method, task = self.choice.method, self.task
        names = [form.name for form in self.forms if isinstance(form, UncutColumn)]
        stages = method.stages(task)
        if names:
            stages = (learning_stage(task, names), *method.stages(replace(task, price=task.price.part(1 - LEARNING))))
        told = measurement(stages[0], self.name, method.name, task.price, stages[1:])
        return (replace(told, against=dict(self.choice.against)),)

    @property
    def expected(self) -> tuple[Expected, ...]:
        """The errors that are known from public facts, for EXPLAIN; those of the measured counts follow from the stages above."""
        table, price, many = self.task.table, self.task.price, len(self.task.workload)
        alone = math.sqrt(noise_for(table, price.part(Fraction(1, many))).variance)
        return (
            Expected(aggregate="COUNT(*) by a measured marginal", error=None, named="reported with the table"),
            Expected(aggregate="COUNT(*) by any other", error=None, named="how columns depend on each other is not known yet"),
            Expected(aggregate="for comparison, noise alone", error=alone,
                     named=f"all {many:,} marginals of the workload by themselves, each for an equal share of the price"))

    @property
    def used(self) -> tuple[str, ...]:
        """The counts that earlier statements released, which are reused at no cost."""
        known = "; ".join(f"{', '.join(each.columns)} (± {math.sqrt(each.variance):,.4g})" for each in self.task.known)
        return (f"counts from earlier statements are reused at no cost: {known}",) if known else ()

    def steps(self, identity: str) -> Generator[Request, Any, SyntheticTable]:
        """Measure marginals, fit a model to them, and draw the table. The draws are public: they are determined by the identity
        of the statement."""
        cut, measured = yield from told_to_who_waits(self._measured(), self.task.table)
        model, coded_columns = measured.model, cut.table.columns
        rows = self.terms.rows if self.terms.rows is not None else min(max(round(model.total), 1), MOST_ROWS)
        draws = Simulation(int(identity[:16], 16))
        tell(f"drawing {rows:,} rows ...")
        drawn = model.draw(rows, draws)[:, [model.domain.columns.index(column.name) for column in coded_columns]]
        places = valid_rows(drawn, coded_columns, self.combinations, draws)
        columns = [SyntheticColumn(name=form.name, type=form.type, counted=form.counted(coded.values), values=tuple(
            form.values(coded.values, places[:, at], draws.random(rows))))
            for at, (form, coded) in enumerate(zip(cut.forms, coded_columns, strict=True))]
        return SyntheticTable(
            name=self.name, method=self.choice.method.name, price=str(price_charged(self.terms.options.price, self.task.price)),
            total=model.total,
            columns=self._with_following(columns),
            coarser=tuple(CoarserColumn(name=one.name, of=one.of, merged=one.merged) for one in measured.coarser),
            marginals=released_marginals(cut.table.domain, (*measured.marginals, *self.task.known), places, model.total,
                                         coarser=measured.coarser),
            known=len(self.task.known), notes=(*self.notes, *measured.notes, *self.used), statement=self.statement)


    def _measured(self) -> Generator[Request, Any, tuple[LearnedTable, Measured]]:
        """The bins that are learned, and what the method measures for the rest of the price."""
        cut = yield from learned(self.task, self.forms)
        task = replace(self.task, table=cut.table, price=self.task.price.part(1 - cut.spent))
        return cut, (yield from self.choice.method.measure(task))

    def _with_following(self, columns: Sequence[SyntheticColumn]) -> tuple[SyntheticColumn, ...]:
        """All columns, in the order of the statement."""
        known, found = {column.name: column for column in columns}, [*columns]
        for one in sorted(self.following, key=lambda one: one.at):
            values, listed = one.drawn(known[one.of].values), tuple(dict.fromkeys(one.values.values()))
            found.insert(one.at, SyntheticColumn(name=one.form.name, type=one.form.type, counted=one.form.counted(listed),
                                                 values=tuple(values)))
        return tuple(found)


def released_marginals(domain: TableDomain, measured: Iterable[MarginalMeasurement], places: Places, total: float,
                       weights: Array | None = None, coarser: Sequence[CodedColumn] = ()) -> tuple[ReleasedMarginal, ...]:
    """The measured marginals, and their distance from the drawn rows (perhaps weighted), scaled to `total` rows."""
    found, whole = [], float(len(places) if weights is None else weights.sum())
    names, rows = [*domain.columns, *(one.name for one in coarser)], with_coarser(domain, places, coarser)
    for each in measured:
        cells = np.ravel_multi_index(tuple(rows[:, names.index(column)] for column in each.columns), np.shape(each.values))
        counts = np.bincount(cells, weights, minlength=each.values.size)
        off = np.abs(counts * (total / max(whole, 1)) - np.asarray(each.values).ravel()).mean()
        found.append(released(each, float(off)))
    return tuple(found)


def told_to_who_waits(measuring: Generator[Request, Any, Made], table: CodedTable) -> Generator[Request, Any, Made]:
    """The same requests, each announced in the progress line. Everything announced is public."""
    names, number = {column.column: column.name for column in table.columns}, 0
    try:
        request = next(measuring)
        while True:
            if isinstance(request, NoisySums):
                number += 1
                tell(f"marginal {number}: counting {', '.join(names[source_of(key)] for key in request.plan.keys)} ...")
            elif isinstance(request, FarthestCount | FarthestMarginal):
                tell(f"after {number} marginals: looking for what the model describes worst ...")
            release = yield request
            tell(f"marginal {number}: fitting the model ...")
            request = measuring.send(release)
    except StopIteration as done:
        made: Made = done.value
        return made
