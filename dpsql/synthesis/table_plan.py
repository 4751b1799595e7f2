"""The plan of a synthetic table: its coded columns, and the requests that measure them; then the rows that are drawn.

Everything after the last release is post-processing: the fit, the draw, and the comparison of the two.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

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
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.dependent_columns import DependentColumn, dependency_stage, determined, part_for
from dpsql.synthesis.learned_bins import LEARNING, LearnedTable, learned, learning_stage
from dpsql.synthesis.method import CodedColumn, Measured, SynthesisTask, with_coarser
from dpsql.synthesis.method_choice import MethodChoice
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.released_table import CoarserColumn, ReleasedMarginal, SyntheticColumn, released
from dpsql.synthesis.row_rules import Evaluator, Mask, RowRule, RowRules, drawn_again, names_of
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.synthesis.table_options import MOST_ROWS, SynthesisTerms
from dpsql.synthesis.valid_combinations import FollowingColumn, valid_rows
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type
from dpsql.workload.factors import Array

Made = TypeVar("Made")
Drawn: TypeAlias = Sequence[NDArray[Any]]


class TablePlan(Frozen):
    """What will be measured, by which method and for which price, and how the columns are drawn from it: `forms` are those of the
    measured columns, others are `following` from these, or `dependent` on them in a way that is learned; `combinations` says
    which values go together, and `rules` what holds in every row. In `task`, columns
    whose bins will be learned have as many as there can be."""

    name: str
    task: SynthesisTask
    forms: tuple[PlannedForm, ...]
    choice: MethodChoice
    terms: SynthesisTerms
    statement: str
    following: tuple[FollowingColumn, ...] = ()
    dependent: tuple[DependentColumn, ...] = ()
    rules: tuple[RowRule, ...] = ()
    combinations: tuple[Combinations, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What will be measured, for EXPLAIN."""
        method, task = self.choice.method, self.task
        names = [form.name for form in self.forms if isinstance(form, UncutColumn)]
        rest = 1 - (LEARNING if names else 0) - len(self.dependent) * part_for(self.dependent)
        stages = (*((dependency_stage(task, self.dependent),) if self.dependent else ()),
                  *((learning_stage(task, names),) if names else ()), *method.stages(replace(task, price=task.price.part(rest))))
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

    def steps(self, identity: str, evaluator: Evaluator) -> Generator[Request, Any, SyntheticTable]:
        """Measure marginals, fit a model to them, and draw the table. The draws are public: they are determined by the identity
        of the statement."""
        made = yield from told_to_who_waits(self._measured(evaluator), (
            *self.task.table.columns, *(one.coded for one in self.dependent)))
        model, measured = made.measured.model, made.measured
        rows = self.terms.rows if self.terms.rows is not None else min(max(round(model.total), 1), MOST_ROWS)
        draws = Simulation(int(identity[:16], 16))
        tell(f"drawing {rows:,} rows ...")
        places, columns, notes = self._drawn(made, rows, draws, RowRules(rules=self.rules, evaluator=evaluator))
        return SyntheticTable(
            name=self.name, method=self.choice.method.name, price=str(price_charged(self.terms.options.price, self.task.price)),
            total=model.total,
            columns=columns,
            coarser=tuple(CoarserColumn(name=one.name, of=one.of, merged=one.merged) for one in measured.coarser),
            marginals=released_marginals(made.cut.table.domain, (*measured.marginals, *self.task.known), places, model.total,
                                         coarser=measured.coarser),
            known=len(self.task.known), notes=(*self.notes, *notes, *measured.notes, *self.used), statement=self.statement)


    def _measured(self, evaluator: Evaluator) -> Generator[Request, Any, _Made]:
        """The dependencies and bins that are learned, and what the method measures for the rest of the price."""
        price, spent = self.task.price, len(self.dependent) * part_for(self.dependent)
        following = yield from determined(self.task, self.dependent)
        cut = yield from learned(self.task, self.forms)
        rules = RowRules(rules=self.rules, evaluator=evaluator)
        table = replace(cut.table, ruled_out=rules.ruled_out(cut.forms, cut.table.columns))
        task = replace(self.task, table=table, price=price.part(1 - spent - cut.spent))
        measured = yield from self.choice.method.measure(task)
        return _Made(cut=cut, measured=measured, following=(*self.following, *following))

    def _drawn(self, made: _Made, rows: int, draws: Simulation, rules: RowRules) -> tuple[
            Places, tuple[SyntheticColumn, ...], tuple[str, ...]]:
        """The rows, as indices into the lists of values and as columns, and what is to be said of them."""
        table, model = made.cut.table, made.measured.model
        at = [model.domain.columns.index(column.name) for column in table.columns]

        def draw(count: int) -> Drawn:
            places = valid_rows(model.draw(count, draws)[:, at], table.columns, self.combinations, draws)
            values = {form.name: form.values(column.values, places[:, number], draws.random(count))
                      for number, (form, column) in enumerate(zip(made.cut.forms, table.columns, strict=True))}
            values |= {one.form.name: one.drawn(values[one.of]) for one in made.following}
            return [places, *(_array(values[name]) for name in made.types)]

        def obeyed(drawn: Drawn) -> Mask:
            return rules.obeyed({name: (kind, column.tolist())
                                 for (name, kind), column in zip(made.types.items(), drawn[1:], strict=True)})

        (places, *values), copied = drawn_again(draw, obeyed, rows, draws) if rules.rules else (draw(rows), 0)
        told = [f"in every row: {names_of(rules.rules)}"] if rules.rules else []
        if copied == rows:
            told = [f"no row that was drawn obeyed the rules, so they were not applied: {names_of(rules.rules)}"]
        elif copied:
            told.append(f"{copied:,} rows are copies of other made-up rows, as no draw obeyed the rules")
        columns = [SyntheticColumn(name=name, type=kind, counted=made.counted[name], values=tuple(column.tolist()))
                   for (name, kind), column in zip(made.types.items(), values, strict=True)]
        return places, tuple(columns), tuple(told)


class _Made(Frozen, eq=False):
    """The bins that were learned, what the method measured, and the columns that follow from others."""

    cut: LearnedTable
    measured: Measured
    following: tuple[FollowingColumn, ...]

    @cached_property
    def types(self) -> Mapping[str, Type]:
        """The names of all columns with their types, in the order of the statement."""
        found = [(form.name, form.type) for form in self.cut.forms]
        for one in sorted(self.following, key=lambda one: one.at):
            found.insert(one.at, (one.form.name, one.form.type))
        return dict(found)

    @cached_property
    def counted(self) -> Mapping[str, CountedValues]:
        """What the counts of each column are of."""
        found = {form.name: form.counted(column.values)
                 for form, column in zip(self.cut.forms, self.cut.table.columns, strict=True)}
        return found | {one.form.name: one.form.counted(tuple(dict.fromkeys(one.values.values()))) for one in self.following}


def _array(values: Sequence[Value]) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


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


def told_to_who_waits(measuring: Generator[Request, Any, Made], columns: Iterable[CodedColumn]) -> Generator[Request, Any, Made]:
    """The same requests, each announced in the progress line. Everything announced is public."""
    names, number = {column.column: column.name for column in columns}, 0
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
