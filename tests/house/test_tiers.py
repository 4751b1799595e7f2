"""The fast tier runs nearly every test function once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


def test_nearly_every_test_function_has_a_fast_instance(tiers: Any) -> None:
    """Shown by `pytest -s`: those that have none."""
    if tiers.files != set(TESTS.rglob("test_*.py")):
        pytest.skip("some files only were collected")
    slow = sorted(tiers.functions - tiers.fast)
    print(*slow, sep="\n")
    assert len(slow) <= 0.05 * len(tiers.functions), slow
