"""The closed set of requests that the kernel accepts: every class of a measurement, and of the values that its fields hold."""

from __future__ import annotations

from dpsql.measurements.above_threshold import AboveThresholdOfCounts, AboveThresholdOfSums, AboveThresholdOfTests, Rising
from dpsql.measurements.block_sums import Axis, Blocks
from dpsql.measurements.boxes import Tree
from dpsql.measurements.buckets import Numbered, Partition
from dpsql.measurements.dependent_parents import ConvexInformation, DependentParents, ProductDistance
from dpsql.measurements.farthest_count import FarthestCount
from dpsql.measurements.farthest_marginal import FarthestMarginal
from dpsql.measurements.flip_distance import DistinctWithin, ExtensionWithin, Form, NoisyFlipDistance, Within
from dpsql.measurements.frequent_keys import Keys
from dpsql.measurements.noisy_sums import NoisySums
from dpsql.measurements.online_comparisons import Opening
from dpsql.measurements.select import Segment, Select, Target
from dpsql.measurements.several.balanced_levels import Balance, BalancedLevel
from dpsql.measurements.several.degree_histogram import DegreeHistogram
from dpsql.measurements.several.race import Race
from dpsql.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.measurements.several.smooth_join_sum import SmoothSum
from dpsql.measurements.smooth_quantile import Smooth
from dpsql.measurements.vote import Vote
from dpsql.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.noise.key_selection import GaussianThreshold, TruncatedGeometric
from dpsql.noise.smooth import Student
from dpsql.plan.cells import Grid
from dpsql.workload.blocks import IntegerBlock
from dpsql.workload.matrices import AllStretches, Centre, Halves, Prefixes, Root, Stacked, Stretches, Sum, Unit, Written

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
