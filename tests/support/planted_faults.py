"""Faults that are planted into the code, and must be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class PlantedFault:
    """What is wrong, how it is planted, and the test that fails then."""

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]
    test: Callable[[], None]

    def is_found(self, patch: pytest.MonkeyPatch) -> None:
        self.test()
        self.plant(patch)
        with pytest.raises(AssertionError):
            self.test()
