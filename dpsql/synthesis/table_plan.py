"""The plan of a synthetic table: its coded columns, and the requests that measure them; then the rows that are drawn.

Everything after the last release is post-processing: the fit, the draw, and the comparison of the two.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
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
from dpsql.synthesis.dependent_columns import DependentColumn, dependency_stage, determined, part_for
from dpsql.synthesis.doubtful_nulls import doubtful_nulls
from dpsql.synthesis.learned_bins import LEARNING, learned, learning_stage
from dpsql.synthesis.made_up_columns import MadeUpColumn, seed_of
from dpsql.synthesis.method import CodedColumn, SynthesisTask, with_coarser
from dpsql.synthesis.method_choice import MethodChoice
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.packed_values import PackedValues, joined
from dpsql.synthesis.released_table import CoarserColumn, ReleasedMarginal, SyntheticColumn, released
from dpsql.synthesis.row_rules import Evaluator, RowRule, RowRules
from dpsql.synthesis.stored_values import PartWriter, StoredValues, are_large
from dpsql.synthesis.synthetic_table import SyntheticTable, TableParts
from dpsql.synthesis.table_draw import DrawnPiece, TableDraw, Values
from dpsql.synthesis.table_options import MOST_ROWS, SynthesisTerms
from dpsql.synthesis.valid_combinations import FollowingColumn
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.types import Type
from dpsql.workload.factors import Array

Made = TypeVar("Made")
PIECE = 2**18  # rows that are drawn at a time
MOST_BYTES = 2**29  # of all rows


class TablePlan(Frozen):
    """What will be measured, by which method and for which price, and how the columns are drawn from it: `forms` are those of the
    measured columns, others are `following` from these, `dependent` on them in a way that is learned, or `made_up`;
    `combinations` says which values go together, and `rules` what holds in every row. In `task`, columns whose bins will be
    learned have as many as there can be."""

    name: str
    task: SynthesisTask
    forms: tuple[PlannedForm, ...]
    choice: MethodChoice
    terms: SynthesisTerms
    statement: str
    following: tuple[FollowingColumn, ...] = ()
    dependent: tuple[DependentColumn, ...] = ()
    rules: tuple[RowRule, ...] = ()
    made_up: tuple[MadeUpColumn, ...] = ()
    combinations: tuple[Combinations, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def price(self) -> str:
        """The price of the statement, of which the task may have only a part."""
        return str(price_charged(self.terms.options.price, self.task.price))

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

    @property
    def most_rows(self) -> int:
        """The most rows that can be drawn: so many that their columns fit into memory while they are drawn."""
        each = sum(form.bytes_of(len(column.values)) for form, column in zip(self.forms, self.task.table.columns, strict=True))
        return min(MOST_ROWS, MOST_BYTES // (each + 8 * len(self.made_up)))

    def drawn(self, draw: TableDraw, identity: str) -> SyntheticTable:
        """The table, drawn piece by piece. The draws are public: the identity of the statement determines them."""
        rows, draws, compared = self.rows_of(draw), self.draws(identity), self.compared(draw)
        types = draw.types
        gathered = DrawnInParts(types) if are_large(rows, len(types) + len(self.made_up)) else DrawnTogether()
        done, copied = 0, 0
        for number in piece_sizes(rows):
            tell(f"drawing {rows:,} rows{f', {done:,} of them so far' if done else ''} ...")
            piece, more = draw.drawn(number, draws)
            compared.add(piece.places)
            gathered.add(piece.values)
            done, copied = done + number, copied + more
        return self.table(draw, gathered.values(), compared, identity, draw.notes(rows, copied))

    def drawn_at_once(self, draw: TableDraw, rows: DrawnPiece, identity: str, copied: int) -> SyntheticTable:
        """The table of these rows."""
        compared = self.compared(draw)
        compared.add(rows.places)
        return self.table(draw, rows.values, compared, identity, draw.notes(rows.size, copied))

    def modelled(self, evaluator: Evaluator | None) -> Generator[Request, Any, TableDraw]:
        """Measure marginals, and fit a model to them."""
        return told_to_who_waits(self._modelled(evaluator), (*self.task.table.columns, *(one.coded for one in self.dependent)))

    def _modelled(self, evaluator: Evaluator | None) -> Generator[Request, Any, TableDraw]:
        """The dependencies and bins that are learned, and what the method measures for the rest of the price."""
        price, spent = self.task.price, len(self.dependent) * part_for(self.dependent)
        following = yield from determined(self.task, self.dependent)
        cut = yield from learned(self.task, self.forms)
        rules = RowRules(rules=self.rules, evaluator=evaluator)
        table = replace(cut.table, excluded=rules.ruled_out(cut.forms, cut.table.columns))
        measured = yield from self.choice.method.measure(replace(self.task, table=table, price=price.part(1 - spent - cut.spent)))
        nulls = doubtful_nulls(cut.table, (*measured.marginals, *self.task.known))
        return TableDraw(cut=cut, measured=measured, following=(*self.following, *following), combinations=self.combinations,
                         rules=rules, nulls=nulls)

    def rows_of(self, draw: TableDraw) -> int:
        """How many rows are drawn."""
        total = max(round(draw.measured.model.total), 1)
        return self.terms.rows if self.terms.rows is not None else min(total, self.most_rows)

    @staticmethod
    def draws(identity: str) -> Simulation:
        """The randomness of the rows. It is public: the identity of the statement determines it."""
        return Simulation(int(identity[:16], 16))

    def compared(self, draw: TableDraw) -> DrawnCounts:
        """What counts drawn rows, to compare them with the measured counts."""
        return DrawnCounts(draw.cut.table.domain, (*draw.measured.marginals, *self.task.known), draw.measured.coarser)

    def table(self, draw: TableDraw, values: Values, compared: DrawnCounts, identity: str,
              notes: tuple[str, ...]) -> SyntheticTable:
        """The table of drawn rows with these values."""
        measured = draw.measured
        return SyntheticTable(
            name=self.name, method=self.choice.method.name, price=self.price,
            total=measured.model.total, columns=self._with_made_up(draw.columns(values), identity),
            coarser=tuple(CoarserColumn(name=one.name, of=one.of, merged=one.merged) for one in measured.coarser),
            marginals=compared.released(measured.model.total, keep=True), known=len(self.task.known), statement=self.statement,
            notes=(*self.notes, *notes, *measured.notes, *self.used))

    def _with_made_up(self, columns: Sequence[SyntheticColumn], identity: str) -> tuple[SyntheticColumn, ...]:
        """All columns, in the order of the statement."""
        found, rows = [*columns], len(columns[0].values)
        for each in self.made_up:
            found.insert(each.at, each.made(rows, seed_of(identity, each.name)))
        return tuple(found)


def piece_sizes(rows: int) -> list[int]:
    """The numbers of rows that are drawn at a time."""
    many = max(1, math.ceil(rows / PIECE))
    return [rows * (at + 1) // many - rows * at // many for at in range(many)]


class DrawnTogether:
    """Gathers the values of columns piece by piece, in memory."""

    def __init__(self) -> None:
        self._pieces: list[dict[str, PackedValues]] = []

    def add(self, values: Values) -> None:
        """Add the values of more rows."""
        self._pieces.append({**values})

    def values(self) -> Values:
        """The values of all columns. Pieces are freed column by column, so the table is not in memory twice."""
        return {name: joined([piece.pop(name) for piece in self._pieces]) for name in [*self._pieces[0]]}


class DrawnInParts:
    """The same for a large table, of which only the parts that the ledger will keep are in memory."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        self._types, self._parts = types, TableParts()
        self._writers = {name: PartWriter(self._parts.keep) for name in types}

    def add(self, values: Values) -> None:
        """Add the values of more rows."""
        for name, own in values.items():
            self._writers[name].add(own)

    def values(self) -> Values:
        """The values of all columns."""
        read = self._parts.found.__getitem__
        return {name: StoredValues(writer.told(), self._types[name], read) for name, writer in self._writers.items()}


class DrawnCounts:
    """The counts of drawn rows in the cells of measured marginals."""

    def __init__(self, domain: TableDomain, measured: Iterable[MarginalMeasurement], coarser: Sequence[CodedColumn] = ()) -> None:
        self._domain, self._measured, self._coarser, self._rows = domain, tuple(measured), coarser, 0.0
        self._counts: list[Array] = [np.zeros(each.values.size) for each in self._measured]

    def add(self, places: Places, weights: Array | None = None) -> None:
        """Count more rows, perhaps weighted."""
        self._rows += float(len(places) if weights is None else weights.sum())
        names = [*self._domain.columns, *(one.name for one in self._coarser)]
        rows = with_coarser(self._domain, places, self._coarser)
        for each, counts in zip(self._measured, self._counts, strict=True):
            cells = np.ravel_multi_index(tuple(rows[:, names.index(column)] for column in each.columns), np.shape(each.values))
            counts += np.bincount(cells, weights, minlength=each.values.size)

    def released(self, total: float, *, keep: bool = False) -> tuple[ReleasedMarginal, ...]:
        """The measured marginals, and their distance from these counts, scaled to `total` rows. `keep`: with the counts, which
        are of all rows of the table, and not weighted."""
        scale = total / max(self._rows, 1)
        return tuple(released(each, float(np.abs(counts * scale - np.asarray(each.values).ravel()).mean()),
                              counts if keep else None)
                     for each, counts in zip(self._measured, self._counts, strict=True))


def released_marginals(domain: TableDomain, measured: Iterable[MarginalMeasurement], places: Places, total: float,
                       weights: Array | None = None, coarser: Sequence[CodedColumn] = ()) -> tuple[ReleasedMarginal, ...]:
    """The measured marginals, and their distance from the drawn rows (perhaps weighted), scaled to `total` rows."""
    counts = DrawnCounts(domain, measured, coarser)
    counts.add(places, weights)
    return counts.released(total)


def told_to_who_waits(measuring: Generator[Request, Any, Made], columns: Iterable[CodedColumn]) -> Generator[Request, Any, Made]:
    """The same requests, each announced in the progress line. Everything announced is public."""
    names, number = {source_of(column.column): column.name for column in columns}, 0
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
