"""Tables of texts and numbers: the form of every result that is not the answer to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

if TYPE_CHECKING:
    from dpsql.answers.answer import Answer


class Tabular(Protocol):
    """A result that can be shown as a table.

    FIELD  the attribute of a cursor that holds the result itself; empty if the rows say all of it
    """

    FIELD: ClassVar[str]

    def as_table(self) -> Answer | Listing:
        """The result as rows with column names."""
        ...


class Listing(Frozen):
    """Rows of texts and numbers under names."""

    columns: tuple[tuple[str, Type], ...]
    rows: tuple[tuple[Value, ...], ...]
    FIELD: ClassVar[str] = ""

    def as_table(self) -> Listing:
        return self
