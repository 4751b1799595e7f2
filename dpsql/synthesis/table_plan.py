"""The plan of a synthetic table: its coded columns, and the requests that measure them; then the rows that are drawn.

Everything after the last release is post-processing: the fit, the draw, and the comparison of the two.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.measurements import Request
from dpsql.models.sampling import Places
from dpsql.models.table_domain import TableDomain
from dpsql.planning.explain import Measurement
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.method import Measured, Method, SynthesisTask
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.synthetic_table import ReleasedMarginal, SyntheticColumn, SyntheticTable, released
from dpsql.synthesis.table_options import MOST_ROWS, SynthesisTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What will be measured, by which method and for which price, and how the columns are drawn from it."""

    name: str
    task: SynthesisTask
    forms: tuple[Form, ...]
    method: Method
    terms: SynthesisTerms
    statement: str
    notes: tuple[str, ...] = ()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What will be measured, for EXPLAIN."""
        return tuple(measurement(line, self.name, self.method.name, self.task.price) for line in self.method.told(self.task))

    def steps(self, identity: str) -> Generator[Request, Any, SyntheticTable]:
        """Measures marginals, fits a model to them, and draws the table. The draws, which are public, follow from the identity of
        the statement."""
        measured = yield from self.method.measure(self.task)
        model, coded_columns = measured.model, self.task.table.columns
        rows = self.terms.rows if self.terms.rows is not None else min(max(round(model.total), 1), MOST_ROWS)
        draws = Simulation(int(identity[:16], 16))
        places = model.draw(rows, draws)
        columns = tuple(SyntheticColumn(name=form.name, type=form.type, counted=form.counted(coded.values), values=tuple(
            form.values(coded.values, places[:, at], draws.random(rows))))
            for at, (form, coded) in enumerate(zip(self.forms, coded_columns, strict=True)))
        return SyntheticTable(
            name=self.name, method=self.method.name, price=str(self.terms.options.price), total=model.total, columns=columns,
            marginals=released_marginals(self.task.table.domain, measured, places), notes=self.notes, statement=self.statement)


def released_marginals(domain: TableDomain, measured: Measured, places: Places) -> tuple[ReleasedMarginal, ...]:
    """What was measured, and how far drawn rows are from it, scaled to as many rows as were estimated."""
    found = []
    for each in measured.marginals:
        at, shape = [domain.columns.index(column) for column in each.columns], domain.shape(each.columns)
        cells = np.ravel_multi_index(tuple(places[:, column] for column in at), shape)
        counts = np.bincount(cells, minlength=each.values.size)
        off = np.abs(counts * (measured.model.total / max(len(places), 1)) - np.asarray(each.values).ravel()).mean()
        found.append(released(each, float(off)))
    return tuple(found)
