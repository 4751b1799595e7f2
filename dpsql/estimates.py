"""Released numbers that know their own errors.

An `Estimate` is a column of an answer: one number for each cell, and how it moves with each independent piece of noise that
went into it. Arithmetic carries the noise along: exactly for sums and multiples, to first order for products, quotients and
roots (the delta method), and then `linear` is False and intervals are approximate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One piece of noise, independent of all others and from cell to cell.

    kind    laplace (on integers, of this scale), gaussian (this standard deviation), or approximate: of about this standard
            deviation, as far as is known
    """

    kind: Literal["laplace", "gaussian", "approximate"]
    scale: float

    @property
    def variance(self) -> float:
        if self.kind != "laplace":
            return self.scale**2
        q = math.exp(-1 / self.scale)
        return 2 * q / (1 - q) ** 2


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Values over cells, NaN where there is none; `slopes` maps each piece of noise to how fast the value moves with it."""

    values: Numbers
    slopes: Mapping[tuple[int, ...], tuple[Error, Numbers]] = field(default_factory=dict)
    linear: bool = True

    def __add__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return replace(self, values=self.values + other)
        slopes = dict(self.slopes)
        for name, (error, slope) in other.slopes.items():
            slopes[name] = (error, slopes[name][1] + slope if name in slopes else slope)
        return Estimate(values=self.values + other.values, slopes=slopes, linear=self.linear and other.linear)

    def scaled(self, factor: float | Numbers, *, linear: bool = True) -> Estimate:
        """The estimate times a known number; with `linear` False the number is only a first-order slope."""
        return Estimate(values=self.values * factor, linear=self.linear and linear,
                        slopes={name: (error, slope * factor) for name, (error, slope) in self.slopes.items()})

    def __mul__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return self.scaled(other)
        if not other.slopes:
            return self.scaled(other.values)
        if not self.slopes:
            return other.scaled(self.values)
        moved = self.scaled(other.values, linear=False) + other.scaled(self.values, linear=False)
        return replace(moved, values=self.values * other.values)

    def __sub__(self, other: Estimate | float) -> Estimate:
        return self + (other * -1.0 if isinstance(other, Estimate) else -other)

    def __truediv__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return self.scaled(1 / other)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(other.values != 0, 1 / other.values, np.nan)
            if not other.slopes:
                return self.scaled(inverse)
            ratio = self.values * inverse
            moved = self.scaled(inverse, linear=False) + other.scaled(-ratio * inverse, linear=False)
        return replace(moved, values=ratio)

    def root(self) -> Estimate:
        """The square root; 0 of what is negative."""
        values = np.sqrt(np.maximum(self.values, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(values > 0, 0.5 / values, 0)
        return replace(self.scaled(slope, linear=False), values=values)

    def within(self, low: float, high: float) -> Estimate:
        """Moved into a range that the truth is known to lie in."""
        return replace(self, values=np.clip(self.values, low, high))

    def where(self, condition: NDArray[np.bool_]) -> Estimate:
        """No value where the condition does not hold."""
        return replace(self, values=np.where(condition, self.values, np.nan))

    @property
    def deviations(self) -> Numbers:
        """The standard error of each value."""
        total = np.zeros_like(self.values)
        for error, slope in self.slopes.values():
            total = total + error.variance * np.asarray(slope) ** 2
        return np.sqrt(total)

    @property
    def approximate(self) -> bool:
        return not self.linear or any(error.kind == "approximate" for error, _ in self.slopes.values())

    def margins(self, confidence: float) -> Numbers:
        """Half the width of the interval that covers the truth with this probability, for each value."""
        names = list(self.slopes)
        if not names:
            return np.zeros_like(self.values)
        table = np.stack([np.broadcast_to(np.abs(self.slopes[name][1]), self.values.shape) for name in names], axis=1)
        errors = tuple(self.slopes[name][0] for name in names)
        rows, places = np.unique(np.round(np.nan_to_num(table), 12), axis=0, return_inverse=True)
        widths = np.array([margin(errors, tuple(float(slope) for slope in row), confidence) for row in rows])
        return np.asarray(widths[places.reshape(-1)], dtype=np.float64)


def constant(values: Numbers) -> Estimate:
    """Numbers without error."""
    return Estimate(values=values)


def released(name: tuple[int, ...], values: Numbers, error: Error, *, unit: float = 1.0) -> Estimate:
    """Noisy integers times a unit."""
    return Estimate(values=values * unit, slopes={name: (error, np.full(values.shape, unit))})


@lru_cache(maxsize=4096)
def margin(errors: tuple[Error, ...], slopes: tuple[float, ...], confidence: float) -> float:
    """The least w, up to rounding upwards, with P(|sum of slope * noise| <= w) >= confidence.

    Exact for one piece of Laplace noise (on integers) and for Gaussian noise. For several pieces the distribution function is
    inverted numerically from the characteristic function of the continuous noises, and half a unit of each discrete one is
    added, which makes the interval a little wider than it need be.
    """
    laplace = [(error.scale, slope) for error, slope in zip(errors, slopes, strict=True) if error.kind == "laplace" and slope > 0]
    spread = math.sqrt(sum((error.scale * slope) ** 2 for error, slope in zip(errors, slopes, strict=True)
                           if error.kind != "laplace"))
    if not laplace:
        from scipy.special import ndtri
        return float(ndtri(0.5 + confidence / 2)) * spread
    if len(laplace) == 1 and spread == 0:
        scale, slope = laplace[0]
        q = math.exp(-1 / scale)  # P(|z| > w) = 2 q^(w + 1) / (1 + q)
        return slope * max(0, math.ceil(math.log((1 - confidence) * (1 + q) / 2) / math.log(q) - 1 - 1e-9)) if q > 0 else 0.0
    widths = [scale * slope for scale, slope in laplace]
    size = math.sqrt(2 * sum(width**2 for width in widths) + spread**2)
    covered = _coverage([width / size for width in widths], spread / size)
    low, high = 0.0, 2.0
    while covered(high) < confidence:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if covered(middle) < confidence else (low, middle)
    return high * size + 0.5 * sum(slope for _, slope in laplace)


def _coverage(widths: list[float], spread: float) -> Callable[[float], float]:
    """w -> P(|X| <= w) for a sum of Laplace variables and a normal one, by inversion (Gil-Pelaez 1951)."""
    reach = 60 / max(widths) if len(widths) > 1 or spread > 0 else 1e4
    t = np.linspace(0, reach, 20001)[1:]
    weight = np.exp(-((spread * t) ** 2) / 2)
    for width in widths:
        weight = weight / (1 + (width * t) ** 2)
    step = t[1] - t[0]

    def covered(w: float) -> float:
        wave = np.sin(t * w) / t * weight
        return float(2 / math.pi * step * (wave.sum() + (w - wave[-1]) / 2))  # trapezoids; the integrand is w at 0

    return covered
