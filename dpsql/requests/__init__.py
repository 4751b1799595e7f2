"""What may be asked about private rows, what each question costs, and what comes back: one file a question.

A mechanism yields requests; the kernel derives the certificate of each from its plan, works out the cost with the formulas
here, and answers with a release. These classes are all the ways there are to look at private rows: a reviewer of privacy
reads this folder, the operators and `kernel/`.
"""

from __future__ import annotations

from typing import TypeAlias

from dpsql.requests.keys import LEAST_TAIL, Found, GaussianThreshold, KeyRule, Keys, TruncatedGeometric
from dpsql.requests.levels import COARSEST, Balance, Held, Race, score_range
from dpsql.requests.measure import Measure, Measured
from dpsql.requests.noise import WIDEST, DiscreteGaussian, DiscreteLaplace, Noise, spread_of
from dpsql.requests.select import ROUNDING, Segment, Select, Selected, Target, reach
from dpsql.requests.slack import Form, Slack, Slackened, Within
from dpsql.requests.smooth import Smooth, Smoothed
from dpsql.requests.threshold import Rung, Threshold

Request: TypeAlias = Measure | Select | Smooth | Threshold | Keys | Race | Balance | Slack
Release: TypeAlias = Measured | Selected | Smoothed | Rung | Found | Held | Slackened

__all__ = [
    "COARSEST", "LEAST_TAIL", "ROUNDING", "WIDEST", "Balance", "DiscreteGaussian", "DiscreteLaplace", "Form", "Found",
    "GaussianThreshold", "Held", "KeyRule", "Keys", "Measure", "Measured", "Noise", "Race", "Release", "Request", "Rung",
    "Segment", "Select", "Selected", "Slack", "Slackened", "Smooth", "Smoothed", "Target", "Threshold", "TruncatedGeometric",
    "Within", "reach", "score_range", "spread_of",
]
