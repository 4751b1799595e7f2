"""How the catalog of a database is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Rows: TypeAlias = Callable[[str], list[tuple[Any, ...]]]
"""The rows of a query of a catalog."""
