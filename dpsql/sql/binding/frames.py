"""Reads the frame of a window: ROWS or RANGE, and its two ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.text.places import span_of

FORM = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
Distance = TypeVar("Distance", int, float)


def read_frame(spec: exp.Expr, distance: Callable[[exp.Expr, bool], Distance]) -> tuple[bool, Distance | None, Distance | None]:
    """Whether a frame counts rows, and its beginning and end relative to the current row; None for an open end.

    `distance` reads a number; its second argument says whether rows are counted. Raises SqlError or Unsupported, located.
    """
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE"):
        raise Unsupported(f"frames in {kind} are not answered", code="window-frame", span=span_of(spec), try_=FORM)
    rows = kind == "ROWS"
    number = lambda node: distance(node, rows)
    start = _end(spec, "start", "PRECEDING", number)
    end = _end(spec, "end", "FOLLOWING", number) if spec.args.get("end") is not None else 0
    if start is not None and end is not None and start > end:
        raise SqlError("this frame ends before it begins", code="window-ends", span=span_of(spec), try_=FORM)
    return rows, start, end


def _end(spec: exp.Expr, name: str, default: str, distance: Callable[[exp.Expr], Distance]) -> Distance | None:
    value, side = spec.args.get(name), str(spec.args.get(f"{name}_side") or default).upper()
    if isinstance(value, exp.Expr):
        return distance(value) if side == "FOLLOWING" else -distance(value)
    word = str(value or "").upper()
    if word == "CURRENT ROW":
        return 0
    if word != "UNBOUNDED" or side != default:
        raise SqlError(f"a frame cannot {'begin' if name == 'start' else 'end'} at UNBOUNDED {side}", code="window-frame",
                       span=span_of(spec), try_="ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
    return None
