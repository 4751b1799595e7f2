"""MWEM: a histogram over all combinations of values, moved in rounds towards what it describes worst.

At first columns are independent. See `query_rounds` for the rounds. With 'single' one count is measured in each, as in the
original; whole marginals cost the same and tell more. On Adult with seven columns at epsilon = 1, single counts leave a largest
error of about 0.012 over all marginals of three columns, and whole marginals 0.005.

Source: Hardt, Ligett and McSherry, A simple and practical algorithm for differentially private data release, NIPS 2012.
"""

from __future__ import annotations

from typing import ClassVar

from dpsql.frozen import AbstractFrozen
from dpsql.models.joint_histogram import JointHistogram, of_columns
from dpsql.models.table_domain import most_numbers
from dpsql.synthesis.method import Impossible, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.query_rounds import QueryRounds
from dpsql.synthesis.methods.stages import size_stage

MOST_CELLS = 2**21  # of the histogram
SINGLE_ROUNDS = 30
ROUNDS = 1  # of whole marginals, for each column
WORTH = 0.02  # of the rows: how much independent columns are believed
SHARP = 0.005  # of all rows


class MultiplicativeWeights(AbstractFrozen, Method):
    """MWEM. `cells`: of the histogram, at most."""

    cells: int = MOST_CELLS
    name: ClassVar[str] = "mwem"

    def refusal(self, task: SynthesisTask) -> Impossible | None:
        """Why the table has too many cells; every combination of values needs one."""
        cells = task.table.domain.cells(task.table.domain.columns)
        if cells <= min(self.cells, most_numbers()):
            return None
        return Impossible(why=f"its columns have {cells:,} combinations of values, and the method holds a number for each: "
                          f"{self.cells:,} at most", try_="fewer columns, fewer bins, or method = 'aim'")

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the single columns, then marginals or single counts of the workload."""
        return self._rounds(task).measure(task)

    def _rounds(self, task: SynthesisTask) -> QueryRounds[JointHistogram]:
        domain, single = task.table.domain, task.single
        return QueryRounds(start=lambda found, total: of_columns(domain, total, [each.values for each in found]),
                           worth=lambda model: WORTH * model.total, sharp=SHARP,
                           rounds=SINGLE_ROUNDS if single else ROUNDS * len(domain.columns), single=single)

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        domain = task.table.domain
        return (*self._rounds(task).stages(task), size_stage(domain.cells(domain.columns)))
