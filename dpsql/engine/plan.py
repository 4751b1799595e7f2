"""What every plan of a statement can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import DescribedColumn
from dpsql.answers.listing import Tabular

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

Result = Answer | Tabular
"""What a statement gives: the answer to a query, or something else that can be shown as a table."""


class Plan(Protocol):
    """What will be done for a statement."""

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        """The columns that the answer will have."""
        ...

    def explain(self) -> Explanation:
        """What the statement would do and cost; spends nothing."""
        ...

    def answer(self) -> Result:
        """The answer, stored or paid for."""
        ...
