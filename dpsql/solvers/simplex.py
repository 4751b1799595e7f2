"""The simplex method in floats, for packings whose rows and columns are of very different sizes.

Not trusted: what is found here is checked by `dpsql.trusted.extensions`, in integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsql.trusted.extensions.linear_program import Reals
from dpsql.trusted.extensions.packing import Packing


def solved(packing: Packing) -> tuple[Reals, Reals]:
    """x and the prices of the limits. Tolerances are absolute, so each variable is in units of its largest possible value, or
    otherwise of its largest entry, and each limit is 1."""
    from scipy import optimize
    from scipy.sparse import csr_array

    linprog: Any = optimize.linprog
    entries, limits = np.array(packing.entries, dtype=float), np.maximum(1.0, np.array(packing.limits, dtype=float))
    if packing.most is None:
        largest = np.full(len(packing.costs), 1.0)
        np.maximum.at(largest, packing.columns, np.abs(entries))
        sizes = 1 / largest
    else:
        sizes = np.maximum(1.0, np.array(packing.most, dtype=float))
    gain = np.array(packing.costs, dtype=float) * sizes
    unit = max(1.0, float(np.abs(gain).max(initial=0))) if packing.most is None else float(max(packing.limits))
    matrix = csr_array((entries * sizes[packing.columns] / limits[packing.lines], (packing.lines, packing.columns)),
                       shape=(len(limits), len(gain)))
    found = linprog(-gain / unit, A_ub=matrix, b_ub=np.array(packing.limits, dtype=float) / limits,
                    bounds=(0, None if packing.most is None else 1), method="highs-ds")
    return found.x * sizes, -found.ineqlin.marginals * unit / limits
