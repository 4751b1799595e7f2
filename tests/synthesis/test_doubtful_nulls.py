"""NULL is drawn where so many were measured that somebody has it, and other values are drawn where noise could have made them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsql.answers.simulation import Simulation
from dpsql.models.mirror_descent import fit
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.synthesis.doubtful_nulls import doubtful_nulls
from dpsql.synthesis.method import CodedColumn, CodedTable

VIEW: Any = None  # nothing is read
TABLE = CodedTable(view=VIEW, rows=1, columns=(
    CodedColumn(column="c1", name="x", values=("a", None, "b")), CodedColumn(column="c2", name="y", values=(None, 1, 2, 3)),
    CodedColumn(column="c3", name="z", values=(False, True))))


def measured(*columns: str, values: Any, error: float = 10) -> MarginalMeasurement:
    return MarginalMeasurement(columns=columns, values=np.array(values, dtype=float), variance=error**2)


X = measured("x", values=[300, 12, 700])
Y = measured("y", values=[100, 300, 300, 300])
Z = measured("z", values=[500, 500])


def test_a_count_that_noise_could_make_is_doubtful() -> None:
    found = doubtful_nulls(TABLE, [X, Y, Z])
    assert found.columns == ("x",) and "no NULL is drawn in x" in found.notes[0]
    assert doubtful_nulls(TABLE, [measured("x", values=[300, 20, 700]), Y, Z]).columns == () == doubtful_nulls(TABLE, [Y, Z]).columns
    assert not doubtful_nulls(TABLE, [Y, Z]).notes


def test_all_marginals_of_a_column_tell_of_it() -> None:
    """Two more measurements of 12 or so make it sure that there are some; one of twice as many columns tells less."""
    assert doubtful_nulls(TABLE, [X, X, X, Y]).columns == ()
    pair = measured("x", "z", values=[[150, 150], [6, 6], [350, 350]])
    assert doubtful_nulls(TABLE, [X, pair, Y]).columns == ("x",)


@pytest.mark.parametrize("seed", range(3))
def test_other_columns_stay_as_they_were_drawn(seed: int) -> None:
    """Among the rows without NULL, values are as frequent as before, given the others."""
    together = measured("x", "z", values=[[280, 20], [6, 60], [20, 680]], error=1)
    model, pattern = fit(TABLE.domain, [together, Y]), measured("x", values=[300, 12, 700], error=100)
    drawn = model.draw(20_000, Simulation(seed))
    before, null = drawn.copy(), drawn[:, 0] == 1
    after = doubtful_nulls(TABLE, [pattern, Y]).replaced(drawn, model, Simulation(seed + 9))
    assert null.any() and not (after[:, 0] == 1).any() and (after[:, 1] == 0).any()
    assert (after[~null] == before[~null]).all() and (after[:, 1:] == before[:, 1:]).all()
    truths = after[null & (before[:, 2] == 1), 0]
    assert (truths == 2).mean() == pytest.approx(680 / 700, abs=0.03)
