"""Refuses policies in which a second table has the rows of a growing table, but assigns them to other periods, or to none.

The account of a period limits what answers reveal about the rows of a growing table in that period. If a second table has the
same rows, and does not grow or grows by another column, statements about it are charged to other periods, or to none. Then the
limit of a period no longer holds for its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from dpsql.backends.source_files import SourceFiles
from dpsql.catalog.model import Policy
from dpsql.catalog.promise import PROTECTED, may_share_rows, promise_of, promised_table
from dpsql.errors import OperationalError

ReadFrom = Callable[[str], frozenset[object]]


def check_same_rows(policy: Policy, sources: Mapping[str, SourceFiles], read_from: ReadFrom) -> None:
    """Raise OperationalError if a growing table has the rows of another one that does not grow alike, where both belong to the
    entity of a budget. `read_from` names the stored relations that a table in another database is read from."""
    for budget in policy.budgets.values():
        promise = promise_of(policy, budget)
        tables = {name: promised_table(promise, name) for name in policy.tables}
        protected = [name for name, table in tables.items() if table.state == PROTECTED]
        for one, other in _in_both(policy, protected, sources, read_from):
            grows, others = tables[one].grows, tables[other].grows
            if grows != others:
                how = f"grows by {others}" if others else "does not grow"
                raise OperationalError(
                    f"table {one} grows by {grows}, and has rows of {other}, which {how}: statements about {other} would "
                    "not be charged to the periods of these rows", code="policy-schema", subject=one,
                    try_=f"leaving out one of the two tables, or the same grows_by and period in {other}")


def _in_both(policy: Policy, names: list[str], sources: Mapping[str, SourceFiles],
             read_from: ReadFrom) -> Iterator[tuple[str, str]]:
    """The pairs of tables that may have rows in common, one that grows first."""
    files = {name: frozenset[object](sources[name].places) if name in sources else frozenset() for name in names}
    for one, other in combinations(sorted(names, key=lambda name: policy.tables[name].growth is None), 2):
        if policy.tables[one].growth is not None and (
                files[one] & files[other] or read_from(one) & read_from(other)
                or may_share_rows(policy.tables[one], policy.tables[other], policy)):
            yield one, other
