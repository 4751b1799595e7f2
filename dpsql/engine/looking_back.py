"""Whether rows that SQL computes of released rows stay as they are when rows of later periods are added.

Proof, by induction over the relations: rows of a period are a function of the released rows up to this period, and each row has
one, which a column tells. Of released rows this is so. Projections and filters compute each row of one row. A window is computed
within one period if it is partitioned by the column that tells the period. Otherwise its first term orders rows by this column,
ascending, so rows of later periods come after all others; and its functions read no row that comes after the last peer of the row
itself. A join that equates the columns that tell the periods of both sides makes pairs of rows of one period; and a left row that
is kept without a partner depends on right rows of its own period alone. (A right row that is kept has no period on the left.)

What is not of this form may stay as well, but that is not claimed.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.postprocessing.around_released import AroundReleased
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import FOLDS
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.window import Window, WindowFunction

BACK = ("row_number", "rank", "dense_rank", "lag")
FRAMED = ("first_value", "last_value", *FOLDS)


def looks_back(around: AroundReleased, keys: Mapping[str, str]) -> bool:
    """Whether rows of a period follow from rows up to it. `keys` are the columns of the tables that tell the period."""
    rows = around.rows
    whole = not around.awaits and rows.limit is None and not rows.offset and len(keys) == len(around.tables)
    return whole and period_shown(around, keys) is not None and _looks_back(rows.node, keys)


def period_shown(around: AroundReleased, keys: Mapping[str, str]) -> int | None:
    """The column of the answer that tells the period of its row; None if there is none."""
    told = _telling(around.rows.node, keys)
    return next((at for at, (_, field) in enumerate(around.rows.shown) if field.id in told), None)


def _telling(node: Node, keys: Mapping[str, str]) -> frozenset[str]:
    """The columns of a relation that tell the period of its rows."""
    match node:
        case Scan():
            return frozenset(column for column, name in node.columns if keys.get(node.table.name) == name)
        case Project():
            below = _telling(node.input, keys)
            return frozenset(new for old, new in node.passed.items() if old in below)
        case Filter() | Window():
            return _telling(node.input, keys)
        case Join() if not node.keep_right and not node.bare:
            left, right = _telling(node.left, keys), _telling(node.right, keys)
            return left if node.keep_left else left | right
    return frozenset()


def _looks_back(node: Node, keys: Mapping[str, str]) -> bool:
    match node:
        case Scan():
            return node.table.name in keys
        case Project() | Filter():
            return _looks_back(node.input, keys)
        case Join() if not node.keep_right and not node.bare:
            left, right = _telling(node.left, keys), _telling(node.right, keys)
            alike = any(one in left and other in right for one, other in node.equated)
            return alike and _looks_back(node.left, keys) and _looks_back(node.right, keys)
        case Window():
            told = _telling(node.input, keys)
            if not _looks_back(node.input, keys):
                return False
            return not told.isdisjoint(node.partition) or (
                bool(node.order) and node.order[0].column in told and not node.order[0].descending
                and all(map(_is_back, node.functions)))
    return False


def _is_back(part: WindowFunction) -> bool:
    return part.function in BACK or (part.function in FRAMED and part.frame.end is not None and part.frame.end <= 0)
