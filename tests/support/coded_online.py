"""An online model over a coded table, asked for counts through a kernel with a ledger."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from support.coded_tables import Coded, Places

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.models.joint_histogram import GroupCount
from dpsql.models.table_domain import TableDomain
from dpsql.planning.options import read_options
from dpsql.synthesis.column_forms import ListedColumn
from dpsql.synthesis.online_model import OnlineModel, OnlinePlan
from dpsql.synthesis.online_options import OnlineTerms, usual_updates
from dpsql.trusted.accounting.cost import Account, Cost
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.online_comparisons import Comparisons
from dpsql.types import Type

ADA = Account(budget="main", analyst="ada")


class Online:
    """A model that is opened for a price, and asked for one count after another."""

    def __init__(self, columns: tuple[str, ...], sizes: tuple[int, ...], places: Places, ledger: Path, cost: Cost, queries: int,
                 updates: int | None = None, *, adds: bool = True) -> None:
        self.coded = Coded(TableDomain(columns, sizes), places)
        ReportingLedger.create(ledger).close()
        self.kernel = Kernel(self.coded.kernel._reader, ReportingLedger(ledger))
        options = read_options([], default=price(epsilon=1), confidence=Fraction(19, 20), known=())
        self.plan = OnlinePlan(
            name="m", table=self.coded.table, forms=tuple(ListedColumn(name=name, type=Type.BIGINT) for name in columns), allotted=cost,
            terms=OnlineTerms(options=options, queries=queries), updates=updates or usual_updates(cost), adds=adds, statement="")
        self.model: OnlineModel = self.kernel.run(
            self.plan.steps("model"), cost=cost, account=ADA, limits={None: limit(price(rho=1000))}, digest="model", sql="CREATE",
            encode=lambda made: made.as_json())
        self.histogram, self.found = self.model.start, list[GroupCount]()

    @property
    def used(self) -> int:
        return len(self.found)

    def count(self, at: tuple[int, ...], inside: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
        """What is answered, less the exact count."""
        names = tuple(self.coded.domain.columns[place] for place in at)
        exact = float(self.coded.counts(names)[inside].sum())
        told = round(float(self.histogram.marginal(names)[inside].sum()))
        if self.used >= self.model.updates:
            return told - exact
        result = self.kernel.compare(Comparisons(
            view=self.coded.table.view, limit=self.model.limit, groups=tuple(np.where(inside.reshape(-1), 0, -1).tolist()), expected=(told,),
            axes=tuple(Axis(column=f"c{place}", values=tuple(range(self.coded.domain.sizes[place]))) for place in at)),
            model="model", account=ADA, sql="SELECT")
        assert result is not None
        if result.count is None:
            return told - exact
        self.found.append(GroupCount(columns=names, inside=inside, count=float(result.count)))
        self.histogram = self.model.start.agreeing(self.found)
        return max(result.count, 0) - exact
