"""How a checkpoint leads to the checkpoints and events before it.

Each checkpoint names the one before it, with its hash, and for each power of two the newest earlier checkpoint whose number is a
multiple of that power. So any other checkpoint is found in a number of steps that grows with the logarithm of the number of
checkpoints. Each also states a hash of the links of the events since the one before: `past` says how this verifies a single
event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.frozen import Frozen

Head = tuple[int, str]
RESUMABLE = '"period_runs": '  # what the text of a checkpoint contains, outside of its strings, from which a chain can be resumed


class Waypoint(Frozen):
    """The statements of a checkpoint besides the sums. It is the `number`th one, from 1 on.

    `skips` are for 2, 4, 8, ... as far as there are such. `between` is the SHA-256 hash, in hexadecimal digits, of the hashes of
    the events after `before` and before this one, each with the end of a line. Earlier versions stated only `before`: there
    `between` is None, and `number` 0.
    """

    number: int
    before: Head
    skips: tuple[Head, ...]
    between: str | None

    def as_values(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"number": self.number, "before": list(self.before), "skips": [list(skip) for skip in self.skips],
                "between": self.between}

    @classmethod
    def from_values(cls, told: Mapping[str, Any]) -> Waypoint:
        """The inverse of `as_values`. Raises LookupError, TypeError or ValueError for anything else."""
        before = _head(told["before"])
        if "between" not in told:
            return cls(number=0, before=before, skips=(), between=None)
        skips = tuple(map(_head, told["skips"]))
        return cls(number=int(told["number"]), before=before, skips=skips, between=str(told["between"]))

    def skips_after(self, own: Head) -> tuple[Head, ...]:
        """The skips that the next checkpoint states, if this one is at `own`."""
        found = [own if self.number % 2**power == 0 else skip for power, skip in enumerate(self.skips, 1)]
        return (*found, own) if self.number == 2 ** (len(found) + 1) else tuple(found)


def _head(told: Any) -> Head:
    seq, link = told
    return int(seq), str(link)
