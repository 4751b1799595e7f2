"""A view that casts to a type which the file names is not taken to be fixed: the name may stand for one of moments."""

from __future__ import annotations

import pytest

from dpsql.backends.fixed_views import fixed_views


@pytest.mark.parametrize(("kind", "fixed"), [("moment", False), ("INTEGER", True), ("moment[]", False), ("VARCHAR", True)])
def test_only_types_of_the_engine_are_known_to_read_no_clock(kind: str, fixed: bool) -> None:
    text = f"CREATE VIEW v AS SELECT CAST(s AS {kind}) AS x FROM t"
    assert fixed_views({"v": text}, frozenset({"t"})) == (frozenset({"v"}) if fixed else frozenset())
