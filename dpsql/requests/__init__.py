"""What may be asked about private rows, what each question costs, and what comes back: one file a question.

A mechanism yields requests; the kernel derives the certificate of each from its plan, works out the cost with the formulas
here, and answers with a release. These classes are all the ways there are to look at private rows: a reviewer of privacy
reads this folder, the operators and `kernel/`.
"""

from __future__ import annotations

from typing import TypeAlias

from dpsql.requests.blocks import Axis, Blocked, Blocks
from dpsql.requests.degrees import Degrees, Histogram, Way
from dpsql.requests.join_sum import SmoothSum, Student
from dpsql.requests.keys import LEAST_TAIL, Found, GaussianThreshold, KeyRule, Keys, TruncatedGeometric
from dpsql.requests.levels import COARSEST, Balance, Held, Level, Race, score_range
from dpsql.requests.measure import Measure, Measured
from dpsql.requests.noise import WIDEST, DiscreteGaussian, DiscreteLaplace, Noise, spread_of
from dpsql.requests.partition import OUTSIDE, Buckets, Numbered, Partition
from dpsql.requests.removals import Recursive, Removed
from dpsql.requests.select import ROUNDING, Segment, Select, Selected, Target, reach
from dpsql.requests.slack import Form, Joined, Scarce, Sides, Slack, Slackened, Test, Within, moved, slack_of
from dpsql.requests.smooth import Smooth, Smoothed
from dpsql.requests.sparse import SUM_GRAIN, Above, Failed, Failing, Rising, Stopped, splits
from dpsql.requests.threshold import Rung, Threshold
from dpsql.requests.tree import Leaves, Tree
from dpsql.requests.vote import MOST_VOTES, VOTE_GRAIN, Vote, Voted

Request: TypeAlias = (Measure | Select | Smooth | Threshold | Keys | Race | Balance | Removed | Recursive | Slack |
                      SmoothSum | Failing | Above | Vote | Blocks | Level | Degrees | Partition | Tree)
Release: TypeAlias = (Measured | Selected | Smoothed | Rung | Found | Held | Slackened | Failed | Stopped | Voted | Blocked |
                      Histogram | Buckets | Leaves)

__all__ = [
    "COARSEST", "LEAST_TAIL", "MOST_VOTES", "OUTSIDE", "ROUNDING", "SUM_GRAIN", "VOTE_GRAIN", "WIDEST", "Above", "Axis",
    "Balance", "Blocked", "Blocks", "Buckets", "Degrees", "DiscreteGaussian", "DiscreteLaplace", "Failed", "Failing", "Form",
    "Found", "GaussianThreshold", "Held", "Histogram", "Joined", "KeyRule", "Keys", "Leaves", "Level", "Measure", "Measured",
    "Noise", "Numbered", "Partition", "Race", "Recursive", "Release", "Removed", "Request", "Rising", "Rung", "Scarce",
    "Segment", "Select", "Selected", "Sides", "Slack", "Slackened", "Smooth", "SmoothSum", "Smoothed", "Stopped", "Student",
    "Target", "Test", "Threshold", "Tree", "TruncatedGeometric", "Vote", "Voted", "Way", "Within", "moved", "reach",
    "score_range", "slack_of", "splits", "spread_of",
]
