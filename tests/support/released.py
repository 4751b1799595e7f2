"""Releases of a request over stand-ins for the rows, without a kernel around it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def released(request: Any, context: Any, rows: int | None = None) -> Any:
    """What is told where an entity moves `rows` rows, where that matters."""
    return request.release(context, SimpleNamespace(rows=rows))
