"""What is read without a charge: relations of public tables, whatever an object says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.sessions import session_of

from dpsql.kernel.publics import Publics, reads_public_tables
from dpsql.plan.node import Node, Stability
from dpsql.plan.operators.distinct import Distinct
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan


@dataclass(frozen=True, kw_only=True)
class Said(Distinct):
    """An operator that says that it is public."""

    def stability(self, below: Any, public: Any) -> Stability:
        return Stability(rows=0, because="it says so")


def scanned(folder: Any) -> tuple[Publics, Scan, Scan]:
    session = session_of(folder)
    found = {table.public: table for table in session.catalog.tables.values()}
    private, public = (Scan(table=found[kind], columns=tuple((f"c{i}", name) for i, name in enumerate(found[kind].columns)), owners=())
                       for kind in (False, True))
    return Publics(session.kernel._reader), private, public


def test_public_tables_are_read(tmp_path: Any) -> None:
    publics, _, public = scanned(tmp_path)
    assert reads_public_tables(public) and len(publics.public_rows(public)) == publics.fanout(public, ())


@pytest.mark.parametrize("make", [
    lambda private: private,
    lambda private: Said(input=private),
    lambda private: Distinct(input=Said(input=private)),
    lambda private: Project(input=Said(input=private), columns=()),
    lambda private: type("Scan", (Scan,), {"stability": lambda self, below, public: Stability(rows=0, because="")})(
        table=private.table, columns=private.columns, owners=()),
])
def test_nothing_else_is_whatever_it_says(make: Callable[[Scan], Node], tmp_path: Any) -> None:
    publics, private, _ = scanned(tmp_path)
    asked = make(private)
    assert not reads_public_tables(asked)
    with pytest.raises(ValueError, match="not public"):
        publics.public_rows(asked)
    with pytest.raises(ValueError, match="not public"):
        publics.fanout(asked, ())
