"""Pseudo-random numbers for simulating how noise propagates. No answer is ever made with them:
whoever knows the seed knows them all, and so may everybody, as they only tell how wide an interval is."""

from __future__ import annotations

import math

import numpy as np

from dpsql.estimates import NoiseTerm, Numbers

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Simulation:
    """A sequence of numbers determined by the seed. Source: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""

    def __init__(self, seed: int) -> None:
        self._seed, self._drawn = np.uint64(seed % 2**64), 0

    def uniform(self, shape: tuple[int, int]) -> Numbers:
        """Numbers strictly between 0 and 1."""
        size = shape[0] * shape[1]
        with np.errstate(over="ignore"):
            state = self._seed + _STEP * np.arange(self._drawn + 1, self._drawn + 1 + size, dtype=np.uint64)
            state = (state ^ (state >> np.uint64(30))) * _FIRST
            state = (state ^ (state >> np.uint64(27))) * _SECOND
            state = state ^ (state >> np.uint64(31))
        self._drawn += size
        return np.asarray(((state >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53).reshape(shape)

    def random(self, size: int) -> Numbers:
        """This many numbers strictly between 0 and 1."""
        return self.uniform((1, size)).reshape(-1)

    def noise(self, term: NoiseTerm, shape: tuple[int, int]) -> Numbers:
        """Draws of a noise term. If it may depend on other terms, the draws have variance 1."""
        from scipy.special import ndtri
        if term.together is not None or term.kind in ("normal", "approximate"):
            return np.asarray(ndtri(self.uniform(shape))) * (1.0 if term.together is not None else term.scale)
        match term.kind:
            case "gaussian":
                return np.asarray(np.rint(ndtri(self.uniform(shape)) * term.scale))
            case "laplace":
                scale = max(term.scale, 1e-3)
                return np.asarray(np.floor(-scale * np.log(self.uniform(shape))) - np.floor(-scale * np.log(self.uniform(shape))))
        return (np.log(self.uniform(shape)) - np.log(self.uniform(shape))) * (term.scale / math.sqrt(2))
