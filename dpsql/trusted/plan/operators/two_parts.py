"""Clipped sums by keys, printed in two parts: rows of entities with a small total are added up row by row.

Clipping groups rows by entity and cell, and joins the groups with the norms of their entities. Most entities are far below the
bound, and grouping their rows by entity alone, which takes a fraction of the time, is enough to show that. As these are most of
the rows, all rows are added up, and those of the others are taken off: an engine finds a few rows faster than it tests all.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.frozen import replace
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import InvalidPlan, Node, Printing, columns_of
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import MOST, Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums, clamped_total, grouped_sums, only_readable
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import cheap, rows_of_each


def clipped(plan: GroupedSums, idle: Callable[[Node], bool]) -> Contributions | None:
    """The contributions that a tally by keys clips and adds up, if its rows can be read twice; None for other plans. `idle` says
    which truncations keep every row, so that their text is that of their input."""
    clip = plan.input
    if not isinstance(clip, Clip) or not isinstance(given := clip.input, Contributions):
        return None
    same = plan.summands == (Clipped(clipped=given.totals),) and clip.columns == given.totals and clip.owner == given.owner
    return given if same and set(plan.keys) == set(given.keys) != set() and cheap(given.input, idle) else None


def in_two_parts(plan: GroupedSums, rows: str, printing: Printing) -> str:
    """The statement of such a tally over the statement `rows` of its contributions; `printing` is for these rows.

    Proof that it gives the same sums. Let s be the sum of the l1 norms of all rows' vectors of an entity, or more. Its
    contributions, as one vector over all cells, have an l1 norm of at most s (triangle inequality), and an l2 norm that is no
    larger. Where s is within the bound, they are therefore not scaled, nor held within 2^50, and add up to the sums over the
    rows. Other entities are clipped as the plan says. Each row belongs to one entity, and so the sums over the rows of the
    former are those over all rows less those over the rows of the others: sums of integers, none of which is held, as they are
    within 2^110 (`grouped_sums.OF_PARTS`). A cell that has a row has one among all rows. The totals are added up, and then held
    within 64 bits as those of the plan.
    """
    clip, given = plan.input, plan.input.inputs[0]
    if not isinstance(clip, Clip) or not isinstance(given, Contributions):
        raise InvalidPlan("only sums of clipped contributions are split in two parts")
    parts = replace(printing, hold=False)
    large = _large(clip, given, rows, printing)
    by_row, others = (grouped_sums(given.input, below, plan.keys, given.summands, plan.totals, parts) for below in (rows, large))
    scaled = clip.render((given.render((large,), printing),), printing)
    by_entity = grouped_sums(clip, scaled, plan.keys, plan.summands, plan.totals, parts)
    keys = ", ".join(f"t0.{quote(key)}" for key in plan.keys)
    totals = ", ".join(f"{clamped_total(f'SUM(t0.{quote(total)})', printing)} AS {quote(total)}" for total in plan.totals)
    less = ", ".join([*(f"t5.{quote(key)}" for key in plan.keys), *(f"-t5.{quote(total)}" for total in plan.totals)])
    added = f"{by_row} UNION ALL SELECT {less} FROM ({others}) AS t5 UNION ALL {by_entity}"
    where = "" if plan.in_engine else only_readable(plan.input, plan.keys)
    return f"SELECT {keys}, {totals} FROM ({added}) AS t0{where} GROUP BY {keys}"


def _large(clip: Clip, given: Contributions, rows: str, printing: Printing) -> str:
    """The rows of those entities whose sum of all rows' norms is beyond the bound. All rows are added up, so no entity may be
    missed: one whose sum is NULL counts as beyond, and a NULL owner equals itself, as when contributions are grouped."""
    most = min(clip.bound, MOST - 1)  # a total that was clamped to 2^50 is above it
    beyond = f"COALESCE(t2.\"#\" > CAST({most} AS HUGEINT), TRUE)"
    owners = f"SELECT t2.\"@\" FROM ({_sizes(given, rows, printing)}) AS t2 WHERE {beyond}"
    kept = ", ".join(columns_of("t3", given.input).values())
    return f"SELECT {kept} FROM ({rows}) AS t3 JOIN ({owners}) AS t4 ON (t3.{quote(given.owner)} IS NOT DISTINCT FROM t4.\"@\")"


def _sizes(given: Contributions, rows: str, printing: Printing) -> str:
    """The statement for a number "#" of each entity "@": the sum of its rows' l1 norms, or more. It reads what the histogram of a
    limit has read before, where that tells enough: the number of rows, or totals that are not negative."""
    if all(isinstance(summand, Count | Moments) for summand in given.summands):
        counted = rows_of_each(given.input, rows, given.owner, printing)
        of_row = sum(summand.l1 for summand in given.summands)
        return f"SELECT t1.\"@\", (CAST(t1.\"#n\" AS HUGEINT) * CAST({of_row} AS HUGEINT)) AS \"#\" FROM ({counted}) AS t1"
    if all(isinstance(summand, GridSum) and summand.grid.least >= 0 for summand in given.summands):
        totals = replace(given, keys=()).render((rows,), printing)
        size = " + ".join(f"CAST(t1.{quote(total)} AS HUGEINT)" for total in given.totals)
        return f"SELECT t1.{quote(given.owner)} AS \"@\", ({size}) AS \"#\" FROM ({totals}) AS t1"
    names, kinds = columns_of("t0", given.input), printing.seen(given.input)
    inner, sizes = [f"{names[given.owner]} AS \"@\""], []
    for i, summand in enumerate(given.summands):
        cells = {f'"#{i}_{j}"': cell for j, cell in enumerate(summand.cells(names, kinds))}
        inner += [f"{cell} AS {alias}" for alias, cell in cells.items()]
        sizes.append(f"COALESCE({summand.size(tuple(f't1.{alias}' for alias in cells))}, 0)")
    read = f"SELECT {', '.join(inner)} FROM ({rows}) AS t0"
    return printing.keep(f"SELECT t1.\"@\", CAST({' + '.join(sizes)} AS HUGEINT) AS \"#\" FROM ({read}) AS t1 GROUP BY t1.\"@\"")
