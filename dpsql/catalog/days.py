"""Long ranges of days, kept by their ends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, overload

from dpsql.frozen import AbstractFrozen


class Days(AbstractFrozen, Sequence[dt.date], kw_only=False):
    """The days whose numbers (`date.toordinal`) are in a range, in order: a million take no memory."""

    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[dt.date]:
        return map(dt.date.fromordinal, self.numbers)

    def __contains__(self, value: object) -> bool:
        return type(value) is dt.date and value.toordinal() in self.numbers

    @overload
    def __getitem__(self, at: int) -> dt.date: ...

    @overload
    def __getitem__(self, at: slice) -> Days: ...

    def __getitem__(self, at: int | slice) -> Any:
        found = self.numbers[at]
        return Days(found) if isinstance(found, range) else dt.date.fromordinal(found)


KEPT_BY_ENDS = range | Days
"""The classes of declared values that are a whole range, and are not kept one by one."""
