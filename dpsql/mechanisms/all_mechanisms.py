"""Every mechanism that a statement can be answered with."""

from __future__ import annotations

from dpsql.mechanisms.additive_noise import Gaussian, Laplace
from dpsql.mechanisms.local.smooth_sensitivity import SmoothSensitivity
from dpsql.mechanisms.mechanism import Mechanism
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.mechanisms.select.declared_values import DeclaredValues
from dpsql.mechanisms.select.exponential import Exponential
from dpsql.mechanisms.select.permute_and_flip import PermuteAndFlip
from dpsql.mechanisms.select.rank_counts import RankCounts
from dpsql.mechanisms.select.threshold_search import ThresholdSearch

MECHANISMS: tuple[Mechanism, ...] = (Laplace(), Gaussian(), Exponential(), PermuteAndFlip(), RankCounts(),
                                     SmoothSensitivity(), DeclaredValues(), ThresholdSearch(),
                                     *(bound.mechanism for bound in BOUNDS if bound.mechanism is not None))
NAMES = tuple(mechanism.name for mechanism in MECHANISMS)
