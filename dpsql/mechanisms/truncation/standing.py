"""Which of many noisy numbers stand out of their noise, where it is known that those far up a ladder are mostly zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.requests import DiscreteGaussian, DiscreteLaplace, Noise

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A number stands out that is above what noise exceeds with probability `sure`, wherever it is. From the highest of these
    upwards, one that is d steps above the last that stood out does so above what noise exceeds with probability
    alarm * 2^(-caution d).

    A false alarm at a number that counts 2^j-fold errs by about 2^j. With a caution of more than an octave of the ladder for each
    step, what is expected from false alarms stays bounded however long the ladder is; with a fixed chance it is that of its end.
    """

    sure: float
    alarm: float
    caution: float

    def limits(self, noise: Noise, most: int) -> Reals:
        """What a number must exceed: anywhere, and d = 1, 2, ... `most` steps above one that stood out."""
        chances = np.array([self.sure, *(self.alarm * 2.0 ** (-self.caution * d) for d in range(most))])
        match noise:
            case DiscreteLaplace(scale=scale):
                return np.asarray(np.log(0.5 / chances) * scale)
            case DiscreteGaussian(sigma=sigma):
                from scipy.special import ndtri

                return np.asarray(-ndtri(chances) * sigma)


def highest(numbers: Reals, limits: Reals) -> int:
    """The place of the highest that stands out; -1 where none does."""
    sure = np.flatnonzero(numbers > limits[0])
    top = int(sure[-1]) if len(sure) else -1
    for place in range(top + 1, len(numbers)):
        if numbers[place] > limits[place - top]:
            top = place
    return top
