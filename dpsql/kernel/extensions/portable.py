"""The same linear program through PuLP, for machines without highspy: any solver that PuLP finds. Tested with PuLP 3.3."""

from __future__ import annotations

import numpy as np

from dpsql.kernel.extensions.linear import MOST_SECONDS, Point, Program, Unsolved
from dpsql.kernel.extensions.owned import NOBODY

SOLVERS = ("HiGHS", "PULP_CBC_CMD", "HiGHS_CMD", "COIN_CMD", "GLPK_CMD")


def solve(program: Program, gap: float, floor: float | None) -> Point:
    """The first of `SOLVERS` that is at hand. It looks at neither gap nor floor."""
    import pulp

    problem = pulp.LpProblem("extension", pulp.LpMaximize)
    rows = [problem.add_variable(f"x{at}", 0, int(weight)) for at, weight in enumerate(program.weights)]
    named: list[list[int]] = [[] for _ in program.capacities]
    for at, owners in enumerate(program.owners):
        for owner in owners[owners != NOBODY]:
            named[owner].append(at)
    problem += pulp.lpSum(rows)
    for entity, (places, capacity) in enumerate(zip(named, program.capacities, strict=True)):
        problem += pulp.lpSum(rows[at] for at in places) <= int(capacity), f"e{entity}"
    for name in SOLVERS:
        solver = pulp.getSolver(name, msg=False, timeLimit=MOST_SECONDS)
        if solver.available():
            break
    else:
        raise Unsolved
    if pulp.LpStatus[problem.solve(solver)] != "Optimal":
        raise Unsolved
    prices = [abs(problem.get_constraint_by_name(f"e{entity}").pi or 0.0) for entity in range(len(named))]
    return Point(rows=np.array([row.value() or 0.0 for row in rows]), prices=np.array(prices))
