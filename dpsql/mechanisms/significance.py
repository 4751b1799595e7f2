"""Which of many noisy numbers stand out of their noise, where it is known that those far up a ladder are mostly zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.measurements import DiscreteGaussian, DiscreteLaplace, Noise

Reals = NDArray[np.float64]

SURE, FIRST, ALARM, CAUTION = 1e-4, 1e-2, 0.02, 1.5


def highest(numbers: Reals, noise: Noise, *, usual: int, steps: int) -> int:
    """The place of the highest number that stands out; -1 where none does. A ladder has so many `steps` to an octave.

    A number stands out that is above what noise exceeds with probability SURE; above the `usual` place, where the totals of
    single rows end, with probability FIRST * 2^(-CAUTION d), d octaves above. From the highest of these upwards, one that
    is d octaves above the last that stood out does so with probability ALARM * 2^(-CAUTION d) at most.

    A false alarm errs by about the size of its place, which doubles with every octave. With CAUTION > 1 what is expected of
    false alarms stays bounded however long the ladder is; with a fixed chance it would be that of its end.
    """
    above = np.maximum(np.arange(len(numbers)) - usual, 0) / steps
    sure = np.flatnonzero(numbers > exceeded(noise, np.where(above > 0, FIRST * 2.0 ** (-CAUTION * above), SURE)))
    climbed = exceeded(noise, ALARM * 2.0 ** (-CAUTION * np.arange(len(numbers)) / steps))
    top = int(sure[-1]) if len(sure) else -1
    if top >= 0:
        for place in range(top + 1, len(numbers)):
            if numbers[place] > climbed[place - top - 1]:
                top = place
    return top


def exceeded(noise: Noise, chances: Reals) -> Reals:
    """What noise exceeds with these probabilities."""
    rare = np.maximum(chances, 1e-300)
    match noise:
        case DiscreteLaplace(scale=scale):
            return np.asarray(np.log(0.5 / rare) * scale)
        case DiscreteGaussian(sigma=sigma):
            from scipy.special import ndtri

            return np.asarray(-ndtri(rare) * sigma)
