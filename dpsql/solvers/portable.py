"""The same linear programs through PuLP, for machines without highspy: any solver that PuLP finds. Tested with PuLP 3.3.

Not trusted: `extensions.certified` and `extensions.removal_distance` evaluate their points and prices in integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsql.trusted.extensions.linear_program import LinearProgram, Point
from dpsql.trusted.extensions.owned import NOBODY
from dpsql.trusted.extensions.removal_program import RemovalProgram, RemovalSolution

SOLVERS = ("COIN_CMD", "HiGHS_CMD", "GLPK_CMD", "PULP_CBC_CMD")  # PuLP brings the last one along until its version 4


def solve(program: LinearProgram, gap: float) -> Point:
    """Solve by the first of `SOLVERS` that is available. The gap is ignored."""
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
    _solve(problem)
    prices = [abs(problem.get_constraint_by_name(f"e{entity}").pi or 0.0) for entity in range(len(named))]
    return Point(rows=np.array([row.value() or 0.0 for row in rows]), prices=np.array(prices))


def _solve(problem: Any) -> None:
    import pulp

    for name in SOLVERS:
        solver = pulp.getSolver(name, msg=False)
        if solver.available():
            problem.solve(solver)
            return
    raise LookupError("no solver is available")


def leaving(crowd: RemovalProgram, error: float) -> RemovalSolution:
    """The entities to remove (see `removals`), by the same solvers."""
    import pulp

    problem = pulp.LpProblem("removals", pulp.LpMinimize)
    gone = [problem.add_variable(f"y{at}", 0) for at in range(crowd.entities)]
    stays = [problem.add_variable(f"z{at}", 0) for at in range(len(crowd.weights))]
    problem += pulp.lpSum(gone)
    load: list[list[object]] = [[] for _ in crowd.whose]
    for at, (owners, heavy) in enumerate(zip(crowd.owners, crowd.heavy, strict=True)):
        problem += pulp.lpSum(gone[owner] for owner in owners[owners != NOBODY]) + stays[at] >= 1, f"r{at}"
        for share in heavy[heavy != NOBODY]:
            load[share].append(stays[at] * (int(crowd.weights[at]) / crowd.level))
    for share, terms in enumerate(load):
        problem += pulp.lpSum(terms) <= 1, f"s{share}"
    _solve(problem)
    price = [abs(problem.get_constraint_by_name(name).pi or 0.0)
             for name in (*(f"r{at}" for at in range(len(stays))), *(f"s{share}" for share in range(len(load))))]
    return RemovalSolution(entities=np.array([one.value() or 0.0 for one in gone]), rows=np.array(price[: len(stays)]),
                           shares=np.array(price[len(stays):]))
