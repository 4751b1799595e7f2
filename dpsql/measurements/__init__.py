"""The measurements of private rows: in each file an exact integer function, its proven sensitivity, and a noise primitive.

A mechanism yields measurements; the kernel derives the certificate of each from its plans, computes its `cost`, charges it,
and answers with `release`. These classes are the only ways to read private rows: a privacy reviewer reads this folder,
`noise`, the operators and `kernel`. Measurements of rows that belong to several entities each are in `several`.

To add one, write a file with a frozen class. Its fields describe what may be requested: each annotation gives a class and, for
numbers, a range (`dpsql.field_types`); `assumptions` says what the proof assumes of several fields together. The kernel checks
these before the charge. Three members follow: `plans` (what is read), `cost` (with the proof; it raises ValueError where a
certificate does not bound what the proof needs) and `release` (the exact function and the noise primitive). List the class in
`MEASUREMENTS`, and add it to the neighbour tests, the audit, the forged requests and the planted faults. New noise primitives
belong in `dpsql.noise`.
"""

from __future__ import annotations

from dpsql.field_types import WIDEST
from dpsql.measurements.above_threshold import (
    SUM_GRAIN,
    AboveThresholdOfCounts,
    AboveThresholdOfSums,
    AboveThresholdOfTests,
    Failed,
    Rising,
    Rung,
    Stopped,
    splits,
)
from dpsql.measurements.block_sums import Axis, Blocked, Blocks
from dpsql.measurements.boxes import Leaves, Tree
from dpsql.measurements.buckets import OUTSIDE, Buckets, Numbered, Partition
from dpsql.measurements.dependent_parents import ChosenParents, ConvexInformation, DependentParents, ProductDistance, Score
from dpsql.measurements.farthest_count import FarCell, FarthestCount, FarthestCounts
from dpsql.measurements.farthest_marginal import Farthest, FarthestMarginal
from dpsql.measurements.flip_distance import (
    MOST_TESTS,
    DistinctWithin,
    ExtensionWithin,
    FlipDistances,
    Form,
    NoisyFlipDistance,
    Sides,
    Test,
    Within,
    moved,
    slack_of,
)
from dpsql.measurements.frequent_keys import FrequentKeys, Keys
from dpsql.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.measurements.online_comparisons import ComparisonResult, Comparisons, Opening
from dpsql.measurements.reading.request import Release, Request
from dpsql.measurements.select import ROUNDING, Segment, Select, Selected, Target, apart
from dpsql.measurements.several.balanced_levels import Balance, BalancedLevel, score_range
from dpsql.measurements.several.degree_histogram import DegreeHistogram, Histogram, Way
from dpsql.measurements.several.levels import COARSEST, ExtensionSums
from dpsql.measurements.several.race import Race
from dpsql.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.measurements.several.smooth_join_sum import SmoothSum
from dpsql.measurements.smooth_quantile import Smooth, Smoothed
from dpsql.measurements.vote import MOST_VOTES, VOTE_GRAIN, Vote, Voted
from dpsql.noise.choice import BLOCK_ROUNDING
from dpsql.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise, spread_of
from dpsql.noise.key_selection import LEAST_TAIL, GaussianThreshold, KeyRule, TruncatedGeometric
from dpsql.noise.smooth import Student
from dpsql.plan.cells import Grid
from dpsql.workload.blocks import IntegerBlock
from dpsql.workload.matrices import (
    AllStretches,
    Centre,
    Halves,
    Prefixes,
    Root,
    Stacked,
    Stretches,
    Sum,
    Unit,
    Written,
)

MEASUREMENTS = frozenset({
    NoisySums, Select, Smooth, AboveThresholdOfCounts, Keys, Race, Balance, Removed, RecursiveSums, NoisyFlipDistance, SmoothSum,
    AboveThresholdOfTests, AboveThresholdOfSums, Vote, Blocks,
    BalancedLevel, DegreeHistogram, DependentParents, FarthestCount, FarthestMarginal, Opening, Partition, Tree,
})
"""The kernel accepts exactly these classes and no subclass: what is charged and released is what their files say."""

VALUES = frozenset({Form, Within, DistinctWithin, ExtensionWithin, Segment, Target, Axis, Numbered, IntegerBlock, Rising,
                    Unit, Sum, Prefixes, AllStretches, Stretches, Written, Stacked, Halves, Centre, Root,
                    ProductDistance, ConvexInformation, Grid, DiscreteLaplace, DiscreteGaussian,
                    TruncatedGeometric, GaussianThreshold, Student})
"""The classes that their fields may hold besides plans and plain values; again no subclasses."""


__all__ = [
    "BLOCK_ROUNDING", "COARSEST", "LEAST_TAIL", "MOST_TESTS", "MOST_VOTES", "OUTSIDE", "ROUNDING", "SUM_GRAIN", "VOTE_GRAIN",
    "WIDEST", "AboveThresholdOfCounts", "AboveThresholdOfSums", "AboveThresholdOfTests", "Axis", "Balance", "BalancedLevel",
    "Blocked", "Blocks", "Buckets", "ChosenParents", "ComparisonResult", "Comparisons", "ConvexInformation",
    "DegreeHistogram", "DependentParents", "DiscreteGaussian", "DiscreteLaplace", "DistinctWithin", "ExtensionSums",
    "ExtensionWithin", "Failed", "FarCell", "Farthest", "FarthestCount", "FarthestCounts", "FarthestMarginal",
    "FlipDistances", "Form",
    "FrequentKeys", "GaussianThreshold", "Histogram", "KeyRule", "Keys", "Leaves", "MeasuredSums", "Noise",
    "NoisyFlipDistance", "NoisySums", "Numbered", "Opening", "Partition", "ProductDistance", "Race", "RecursiveSums",
    "Release", "Removed", "Request", "Rising", "Rung", "Score", "Segment", "Select", "Selected", "Sides", "Smooth",
    "SmoothSum", "Smoothed", "Stopped", "Student", "Target", "Test", "Tree", "TruncatedGeometric", "Vote", "Voted", "Way",
    "Within", "apart", "moved", "score_range", "slack_of", "splits", "spread_of",
]
