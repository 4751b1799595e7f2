"""Groups of rows whose counts are asked of an online model, and the counts that were measured, as the ledger keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, replace
from dpsql.models.joint_histogram import GroupCount, JointHistogram
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.synthesis.packed_numbers import packed_numbers, unpacked_numbers
from dpsql.workload.factors import Array

NOWHERE = -1


class CountedGroups(Frozen, eq=False):
    """For each combination of values of some columns, the last changing first, the number of its group, NOWHERE for none.

    size  how many groups there are
    """

    columns: Columns
    groups: NDArray[np.int64]
    size: int

    def counts(self, histogram: JointHistogram) -> Array:
        """The count of each group in a histogram."""
        inside = self.groups != NOWHERE
        weights = histogram.marginal(self.columns).reshape(-1)[inside]
        return np.bincount(self.groups[inside], weights=weights, minlength=self.size).astype(np.float64)

    def after(self, first: int) -> CountedGroups:
        """The groups from number `first` on."""
        return replace(self, groups=np.maximum(self.groups - first, NOWHERE), size=self.size - first)

    def as_text(self) -> str:
        """A short text that `counts_of` reads."""
        return json.dumps({"columns": self.columns, "groups": packed_numbers(self.groups, "<i4")})


def counts_of(answers: Iterable[str], domain: TableDomain) -> list[GroupCount]:
    """The counts that were measured, from the stored answers to comparisons."""
    found = []
    for told in map(json.loads, answers):
        if told["count"] is not None:
            about = json.loads(told["about"])
            columns = tuple(about["columns"])
            groups = unpacked_numbers(about["groups"], "<i4")
            found.append(GroupCount(columns=columns, inside=(groups == told["near"]).reshape(domain.shape(columns)),
                                    count=float(told["count"])))
    return found
