"""All deciders, the default first."""

from __future__ import annotations

from dpsql.validation.deciders.additive import Additive
from dpsql.validation.deciders.coin import Coin
from dpsql.validation.deciders.decider import Decider
from dpsql.validation.deciders.flip import FlipDistance
from dpsql.validation.deciders.ladder import RaceSum, SparseSum
from dpsql.validation.deciders.ordered import DrawnValue, Sides
from dpsql.validation.deciders.unlimited_rows import ExtensionDistance

DECIDERS: tuple[Decider, ...] = (
    FlipDistance(), ExtensionDistance(), Additive(), Coin("coin", blunt=False), Coin("naive_coin", blunt=True), DrawnValue(),
    Sides(),
    RaceSum(), SparseSum("svt", private_stop=True), SparseSum("svt_all_levels", private_stop=False))
NAMES = tuple(decider.name for decider in DECIDERS)
