"""Every kind of part, by its class in `questions.parts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.planning.distinct_parts import DistinctsKind
from dpsql.planning.matching_parts import MatchingsKind
from dpsql.planning.mode_parts import ModesKind
from dpsql.planning.part_kind import PartKind
from dpsql.planning.quantile_parts import QuantilesKind
from dpsql.planning.sum_parts import SumsKind
from dpsql.questions.parts import Distincts, Matchings, Modes, Part, Quantiles, Sums

KINDS: Mapping[type[Part], PartKind[Any]] = {
    Sums: SumsKind(),
    Distincts: DistinctsKind(),
    Quantiles: QuantilesKind(),
    Modes: ModesKind(),
    Matchings: MatchingsKind(),
}
