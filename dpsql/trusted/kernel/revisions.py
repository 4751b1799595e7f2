"""Revisions of periods: an owner says that rows of closed periods have changed, and why.

Nothing that privacy rests on depends on them (`chain`, *Revisions*). They tell answers apart: one that was stored before a
revision is about other rows than a new one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from dpsql.frozen import Frozen
from dpsql.trusted.declarations.growth import ALL_KINDS, PeriodKind, PeriodRange

LONGEST_REASON = 200  # letters


class Revision(Frozen):
    """Some periods of a table were revised, for a reason, which is a public text of the owner. `seq` is the number of its event,
    and `at` the time: both are unknown before it is recorded."""

    table: str
    periods: PeriodRange
    reason: str = ""
    seq: int = 0
    at: str = ""

    def as_text(self) -> str:
        """The text of its event."""
        return json.dumps([self.table, self.periods.period, self.periods.first, self.periods.last, self.reason])

    def as_values(self) -> list[Any]:
        """The revision as JSON values."""
        return [self.as_text(), self.seq, self.at]

    @classmethod
    def from_values(cls, text: str, seq: int, at: str) -> Revision:
        """The inverse of `as_values`. Raises ValueError or TypeError for anything else."""
        table, period, first, last, reason = json.loads(text)
        made = cls(table=table, periods=PeriodRange(period=cast(PeriodKind, period), first=first, last=last), reason=reason,
                   seq=seq, at=at)
        numbers, texts = all(type(number) is int for number in (first, last, seq)), (table, period, reason, at)
        if not numbers or not all(type(each) is str for each in texts) or period not in ALL_KINDS or len(reason) > LONGEST_REASON:
            raise ValueError("this is no revision")
        if not all(holds for holds, _ in made.periods.assumptions()):
            raise ValueError("these are no periods of a table")
        return made

    def meets(self, table: str, periods: PeriodRange) -> bool:
        """Whether some of these periods of a table were revised."""
        ours = self.periods
        return (self.table.lower() == table.lower() and ours.period == periods.period
                and ours.first <= periods.last and periods.first <= ours.last)


class TimeState(Frozen):
    """What a ledger says about time: its revisions, oldest first, and by how many days the clock of the machine that asks is
    behind the newest of its events."""

    days_behind: int = 0
    revised: tuple[Revision, ...] = ()


def newest_of(revised: Sequence[Revision]) -> int:
    """The number of the newest of some revisions; 0 if there is none."""
    return max((one.seq for one in revised), default=0)
