"""Which of many noisy numbers are significantly above zero, where those far up a ladder are known to be mostly zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.measurements import DiscreteGaussian, DiscreteLaplace, Noise

Reals = NDArray[np.float64]

SURE, FIRST, ALARM, CAUTION = 1e-4, 1e-2, 0.02, 1.5


def highest(numbers: Reals, noise: Noise, *, usual: int, steps: int) -> int:
    """The position of the highest number that stands out of the noise; -1 if none does. An octave has `steps` positions.

    A number stands out if it exceeds what noise exceeds with probability SURE; d octaves above the position `usual`, where the
    totals of single rows end, with probability FIRST * 2^(-CAUTION d). From the highest of these upwards, a number d octaves
    above the last one that stood out must exceed what noise exceeds with probability ALARM * 2^(-CAUTION d).

    A false alarm causes an error of about the size of its position, which doubles with every octave. With CAUTION > 1 the
    expected error from false alarms stays bounded however long the ladder is; with a fixed probability it would grow with the
    ladder.
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
    """The highest position reached from `top`, going up to each number that stands out, given how far it is above the last
    one."""
    last = top
    for place in range(top + 1, len(numbers)):
        if numbers[place] > steps[place - last - 1]:
            last = place
    return last


def exceeded(noise: Noise, chances: Reals) -> Reals:
    """The values that noise exceeds with these probabilities."""
    rare = np.maximum(chances, 1e-300)
    match noise:
        case DiscreteLaplace(scale=scale):
            return np.asarray(np.log(0.5 / rare) * scale)
        case DiscreteGaussian(sigma=sigma):
            from scipy.special import ndtri

            return np.asarray(-ndtri(rare) * sigma)
