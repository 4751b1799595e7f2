"""Solvers made of doors that a test gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpsql.frozen import replace
from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers

BY_FRACTIONS = NO_SOLVERS


def by(*doors: Any) -> Solvers:
    """These for a program, and what refines when they are not near enough."""
    return replace(USUAL, programs=lambda program: doors)


def leaving_by(*doors: Callable[..., Any], error: float = 0.0) -> Solvers:
    """These for a crowd, and what refines when they are not near enough."""
    return replace(USUAL, crowds=lambda crowd: tuple(partial(door, error=error) for door in doors))
