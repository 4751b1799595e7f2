"""An online model: a public histogram that answers counts, and what was paid for to make it better where it is far off.

What is stored is public: the columns, the histogram that the model began with, and the scales of noise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpsql.answers.described_columns import OF_ONLINE_MODEL
from dpsql.answers.listing import Listing
from dpsql.estimates import margin
from dpsql.frozen import Frozen, field
from dpsql.mechanisms.additive_noise import bought, error_of, scale_of
from dpsql.models.joint_histogram import JointHistogram, of_columns
from dpsql.models.table_domain import TableDomain
from dpsql.planning.choose import price_charged
from dpsql.planning.explain import Expected
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.method import CodedTable, SynthesisTask
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.online_options import OnlineTerms
from dpsql.synthesis.released_table import SyntheticColumn, packed, unpacked
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.online_comparisons import Opening
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise, spread_of

PLAIN_FIELDS = ("price", "total", "limit", "shared", "gaussian", "scale", "updates", "queries", "identity", "singles", "cells",
                "statement", "notes")
START = Fraction(1, 10)  # of the price, for the columns by themselves
EAGER = 0.75  # of what noise alone reaches: a lower limit finds more, and wastes some updates on noise


class OnlineModel(Frozen):
    """A model as it was opened.

    columns  the values of each column: of a column in bins, the least of each bin
    singles  the noisy counts of each column's values
    total    the estimated number of rows
    limit    how far a count may be off before it is measured
    shared   the scale of the noise that comparisons share
    gaussian whether the noise of a measured count is Gaussian, and not Laplace; `scale`: its standard deviation, or scale
    updates  how many counts can be measured; `queries`: for how many counts the limit was chosen
    identity of the statement that opened it
    cells    the counts of all combinations of values, if the model does not begin with independent columns
    stored   that it was opened before, so that it costs nothing now
    """

    name: str
    price: str
    columns: tuple[SyntheticColumn, ...]
    singles: tuple[tuple[float, ...], ...]
    total: float
    limit: int
    shared: float
    gaussian: bool
    scale: float
    updates: int
    queries: int
    identity: str
    cells: tuple[float, ...] = ()
    statement: str = ""
    notes: tuple[str, ...] = ()
    stored: bool = field(default=False, compare=False)
    FIELD: ClassVar[str] = "model"

    def as_table(self) -> Listing:
        """Its columns, with the number of values of each."""
        return Listing(columns=OF_ONLINE_MODEL, rows=tuple((each.name, len(each.values)) for each in self.columns))

    @property
    def cost(self) -> str:
        """What it cost when it was opened."""
        return self.price

    @cached_property
    def domain(self) -> TableDomain:
        """The names of the columns, and the number of values of each."""
        return TableDomain(columns=tuple(each.name for each in self.columns),
                           sizes=tuple(len(each.values) for each in self.columns))

    @cached_property
    def start(self) -> JointHistogram:
        """The initial model."""
        if self.cells:
            return JointHistogram(domain=self.domain, counts=np.array(self.cells).reshape(self.domain.sizes))
        return of_columns(self.domain, self.total, [np.array(single) for single in self.singles])

    def reach(self, confidence: float) -> float:
        """The largest error of a count that was found to be near the model's."""
        return reach(self.limit, self.shared, confidence)

    @property
    def noise(self) -> Noise:
        """The noise of a measured count."""
        return DiscreteGaussian(sigma=self.scale) if self.gaussian else DiscreteLaplace(scale=self.scale)

    @property
    def spread(self) -> float:
        """The standard error of a measured count."""
        return math.sqrt(self.noise.variance)

    def as_json(self) -> str:
        """The stored form."""
        return json.dumps({"online model": self.name, **{name: getattr(self, name) for name in PLAIN_FIELDS},
                           "columns": [packed(column) for column in self.columns]})

    def __str__(self) -> str:
        cost = f"nothing, as it was opened before; it cost {self.price}" if self.stored else self.price
        heading = (f"{self.name}: an online model of {len(self.columns)} columns of about {self.total:,.0f} rows; "
                   f"cost {cost}")
        if not self.updates:
            return "\n".join([heading, f"counts are within {self.reach(0.95):,.0f} with 95 % chance", *self.notes])
        return "\n".join([
            heading,
            f"up to {self.updates:,} counts that are far from the model are measured: standard error {self.spread:,.3g}",
            f"other counts are within {self.reach(0.95):,.0f} of the model with 95 % chance", *self.notes])


def reach(limit: int, scale: float, confidence: float) -> float:
    """The largest error of a count that was found to be near the model's: the limit, plus the effect of the shared noise.

    A count is near where its distance is at most limit + z - noise on both sides, and noise is never negative. Each z exceeds
    scale * log(2 / (1 - confidence)) with half of the probability that is left.
    """
    return limit + scale * math.log(2 / (1 - confidence)) + 1


def within(noise: Noise, confidence: float) -> float:
    """The largest error of a count with this noise."""
    error = error_of(noise)
    return margin((error,), (1.0,), confidence) if error is not None else 0.0


def model_of_json(stored: str) -> OnlineModel:
    """The model of a stored form."""
    told = json.loads(stored)
    return OnlineModel(
        **{**{name: told[name] for name in PLAIN_FIELDS}, "name": told["online model"], "notes": tuple(told["notes"]),
           "stored": True, "cells": tuple(told["cells"]), "columns": tuple(map(unpacked, told["columns"])),
           "singles": tuple(map(tuple, told["singles"]))})


class OnlinePlan(Frozen):
    """What an online model will cost, and what its answers will be worth."""

    name: str
    table: CodedTable
    forms: tuple[Form, ...]
    terms: OnlineTerms
    allotted: Cost
    updates: int
    adds: bool
    statement: str
    notes: tuple[str, ...] = ()
    method: str = "pmw"

    @cached_property
    def _each(self) -> Cost:
        """The price of one update: half of it finds the count, half measures it."""
        return self.allotted.part((1 - START) / (2 * self.updates))

    @cached_property
    def opening(self) -> Opening:
        """The request that opens the model. The noise shared by comparisons is drawn once for many of them, so more of the price
        is spent on the noise of single comparisons: in the ratio that nearly minimises the largest noise overall."""
        rows = self.table.rows * (1 if self.adds else 2)
        epsilon = self._each.as_epsilon
        share = Fraction(1 / (1 + math.sqrt(math.log(2 * self.terms.queries)))).limit_denominator(1000)
        return Opening(view=self.table.view, updates=self.updates, noise=self.noise,
                       scale_limit=scale_of(Fraction(rows) / (epsilon * share)),
                       scale_query=scale_of(Fraction(rows) / (epsilon * (1 - share))))

    def reach(self, confidence: float) -> float:
        """The largest error of a count that is found to be near the model's."""
        return reach(self.limit, self.opening.scale_limit, confidence)

    @property
    def noise(self) -> Noise:
        """The noise of a measured count."""
        return bought(self.table.rows, self._each)

    @property
    def limit(self) -> int:
        """The distance at which a count is far from the model's: a fraction of what the noise of all comparisons can reach, so
        that few updates are wasted on counts that are near."""
        return math.ceil(EAGER * self.opening.scale_query * math.log(2 * self.terms.queries))

    @property
    def stages(self) -> tuple[str, ...]:
        """The lines of EXPLAIN about its answers, compared with noise for every count."""
        queries, updates = self.terms.queries, self.updates
        alone = within(bought(self.table.rows, self.allotted.part(Fraction(1, queries))), 0.95)
        pays = "pays" if alone >= self.reach(0.95) else "does not pay off; it would for more counts, as with queries = 100000"
        return ("the columns one by one, and counts that are far from the model",
                f"up to {updates:,} counts that are far from the model: within {within(self.noise, 0.95):,.4g}",
                f"other counts: within {self.reach(0.95):,.4g} of the model",
                f"{queries:,} counts with separate noise, for the same price: within {alone:,.4g}, so a model {pays}",
                f"after {updates:,} measured counts, the model answers alone, and no accuracy is promised")

    @property
    def expected(self) -> Expected:
        """The error that is known before anything is measured."""
        return Expected(aggregate="COUNT(*) that is measured", error=math.sqrt(self.noise.variance), named="")

    def steps(self, identity: str) -> Generator[Request, Any, OnlineModel]:
        """Open the model, and measure the columns one by one to initialise it."""
        yield self.opening
        measured = yield from Independent().measure(SynthesisTask(
            table=self.table, price=self.allotted.part(START), workload=()))
        model, domain = measured.model, self.table.domain
        return OnlineModel(
            name=self.name, price=str(price_charged(self.terms.options.price, self.allotted)),
            columns=shown_columns(self.table, self.forms),
            total=max(model.total, 1.0), limit=self.limit,
            singles=tuple(tuple(model.marginal((column,)).tolist()) for column in domain.columns),
            shared=self.opening.scale_limit, gaussian=type(self.noise) is DiscreteGaussian, scale=spread_of(self.noise),
            updates=self.updates, queries=self.terms.queries, identity=identity, notes=self.notes, statement=self.statement)


def shown_columns(table: CodedTable, forms: Sequence[Form]) -> tuple[SyntheticColumn, ...]:
    """The columns with their listed values converted to their types; a bin is represented by its lower end."""
    return tuple(SyntheticColumn(name=form.name, type=form.type, values=tuple(
        form.values(coded.values, np.arange(len(coded.values)), np.zeros(len(coded.values)))))
        for form, coded in zip(forms, table.columns, strict=True))
