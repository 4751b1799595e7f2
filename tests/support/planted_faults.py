"""Faults that are planted into the code, and must be found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsql.frozen import Frozen


class PlantedFault(Frozen, kw_only=False):
    """What is wrong, how it is planted, and the test that fails then."""

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]
    test: Callable[[], None]

    def is_found(self, patch: pytest.MonkeyPatch) -> None:
        self.test()
        self.plant(patch)
        with pytest.raises(AssertionError):
            self.test()
