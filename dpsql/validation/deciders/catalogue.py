"""All deciders, the default first."""

from __future__ import annotations

from dpsql.validation.deciders.base import Decider
from dpsql.validation.deciders.flip import FlipDistance

DECIDERS: tuple[Decider, ...] = (FlipDistance(),)
NAMES = tuple(decider.name for decider in DECIDERS)
