"""The closed set of requests that the kernel accepts: the classes of all measurements, and of the values in their fields."""

from __future__ import annotations

from dpsql.trusted.matrices.blocks import IntegerBlock
from dpsql.trusted.matrices.matrices import AllStretches, Centre, Halves, Prefixes, Root, Stacked, Stretches, Sum, Unit, Written
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfCounts, AboveThresholdOfSums, AboveThresholdOfTests, Rising
from dpsql.trusted.measurements.block_sums import Axis, Blocks, MergedAxis
from dpsql.trusted.measurements.boxes import Tree
from dpsql.trusted.measurements.buckets import Numbered, Partition
from dpsql.trusted.measurements.dependent_parents import ConvexInformation, DependentParents, ProductDistance
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.flip_distance import DistinctWithin, ExtensionWithin, Form, NoisyFlipDistance, Within
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.online_comparisons import Opening
from dpsql.trusted.measurements.select import Segment, Select, Target
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram
from dpsql.trusted.measurements.several.race import Race
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.trusted.measurements.several.smooth_join_sum import SmoothSum
from dpsql.trusted.measurements.smooth_quantile import Smooth
from dpsql.trusted.measurements.vote import Vote
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.noise.key_selection import GaussianThreshold, TruncatedGeometric
from dpsql.trusted.noise.smooth import Student
from dpsql.trusted.plan.cells import Grid

MEASUREMENTS: frozenset[type] = frozenset({
    NoisySums, Select, Smooth, AboveThresholdOfCounts, Keys, Race, Balance, Removed, RecursiveSums, NoisyFlipDistance, SmoothSum,
    AboveThresholdOfTests, AboveThresholdOfSums, Vote, Blocks,
    BalancedLevel, DegreeHistogram, DependentParents, FarthestCount, FarthestMarginal, Opening, Partition, Tree, WeightedPeriods,
})
"""The kernel accepts exactly these classes and no subclass: what is charged and released is what their files say."""

BY_SUMS_ALONE: frozenset[type] = frozenset({NoisySums, Blocks})
"""Those whose releases are functions of the exact sums of cells and of noise, and whose cost rests on nothing but how far these
sums move (`Certificate.summands`): whatever makes them move so far."""

VALUES = frozenset({Form, Within, DistinctWithin, ExtensionWithin, Segment, Target, Axis, MergedAxis, Numbered, IntegerBlock,
                    Rising, Unit, Sum, Prefixes, AllStretches, Stretches, Written, Stacked, Halves, Centre, Root,
                    ProductDistance, ConvexInformation, Grid, DiscreteLaplace, DiscreteGaussian,
                    TruncatedGeometric, GaussianThreshold, Student})
"""The classes that their fields may hold besides plans and plain values; again no subclasses."""
