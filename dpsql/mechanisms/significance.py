"""Which of many noisy numbers are significantly above zero, where most numbers far up a ladder are known to be zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace, Noise

Reals = NDArray[np.float64]

SURE, FIRST, ALARM, CAUTION = 1e-4, 1e-2, 0.02, 1.5


def highest(numbers: Reals, noise: Noise, *, usual: int, steps: int) -> int:
    """The place of the highest significant number; -1 if there is none. A ladder has `steps` places per octave.

    A number is significant if it is above the value that noise exceeds with probability SURE; d octaves above the `usual`
    place, where the totals of single rows end, with probability FIRST * 2^(-CAUTION d). From the highest of these upwards, a
    number d octaves above the last significant one is tested at level ALARM * 2^(-CAUTION d) at most.

    The error of a false alarm is about the size of its place, which doubles with every octave. With CAUTION > 1 the expected
    error from false alarms stays bounded however long the ladder is; at a fixed level it would be of the size of its end.
    """
    sure = np.flatnonzero(stand_out(numbers, noise, usual=usual, steps=steps))
    if not len(sure):
        return -1
    return _climbed(numbers, int(sure[-1]), exceeded(noise, ALARM * 2.0 ** (-CAUTION * np.arange(len(numbers)) / steps)))


def stand_out(numbers: Reals, noise: Noise, *, usual: int, steps: int) -> NDArray[np.bool_]:
    """Whether each number of a ladder is significant on its own; see `highest`."""
    above = np.maximum(np.arange(len(numbers)) - usual, 0) / steps
    return np.asarray(numbers > exceeded(noise, np.where(above > 0, FIRST * 2.0 ** (-CAUTION * above), SURE)))


def _climbed(numbers: Reals, top: int, steps: Reals) -> int:
    """The last place reached by climbing from `top`: each number must exceed `steps` at its distance from the one before."""
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
