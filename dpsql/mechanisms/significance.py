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
    sure = np.flatnonzero(stand_out(numbers, noise, usual=usual, steps=steps))
    if not len(sure):
        return -1
    return _climbed(numbers, int(sure[-1]), exceeded(noise, ALARM * 2.0 ** (-CAUTION * np.arange(len(numbers)) / steps)))


def stand_out(numbers: Reals, noise: Noise, *, usual: int, steps: int) -> NDArray[np.bool_]:
    """Whether each number of a ladder stands out by itself; see `highest`."""
    above = np.maximum(np.arange(len(numbers)) - usual, 0) / steps
    return np.asarray(numbers > exceeded(noise, np.where(above > 0, FIRST * 2.0 ** (-CAUTION * above), SURE)))


def _climbed(numbers: Reals, top: int, steps: Reals) -> int:
    """The highest place from `top` on, each so many places above the last one that is larger than `steps` there."""
    last = top
    for place in range(top + 1, len(numbers)):
        if numbers[place] > steps[place - last - 1]:
            last = place
    return last


def exceeded(noise: Noise, chances: Reals) -> Reals:
    """What noise exceeds with these probabilities."""
    rare = np.maximum(chances, 1e-300)
    match noise:
        case DiscreteLaplace(scale=scale):
            return np.asarray(np.log(0.5 / rare) * scale)
        case DiscreteGaussian(sigma=sigma):
            from scipy.special import ndtri

            return np.asarray(-ndtri(rare) * sigma)
