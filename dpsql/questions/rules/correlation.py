"""A confidence interval for a correlation, from noisy sums of products and of squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.estimates import Ends, Estimate, Numbers, laplaces

DIRECTIONS = 97  # ratios of the two spreads that are tried
RIDGE = 1e-6  # added to covariances, which are singular where both columns are the same
CHUNK = 2**14  # number of cells that are computed at a time
MOST_RATIO = 1e6  # of the roots of the spreads, in standard deviations: beyond it one is negligible beside the other


def correlation_ends(joint: Estimate, first: Estimate, second: Estimate, confidence: float) -> Ends:
    """A confidence interval for joint / root(first * second), within [-1, 1], for each cell.

    It has all r such that some point (joint, first, second) with correlation r is within reach of the released point: no further,
    in standard deviations of the noise, than half the width of an interval of one noisy number. This inverts a test of whether
    the true correlation is r; the statistic is the distance to the surface of all points with correlation r. Where this surface
    is flat on the scale of the noise, the distance is that of one normal variable from 0, so the interval has the stated
    coverage; where spreads may well be 0, every r has points within reach, and the interval is [-1, 1]. Where the noise is not
    normal, its own margins are the reach. The surface is a cone, and is searched along a grid of ratios of the two spreads. Where
    no correlation from -1 to 1 is within reach, squared distances are counted from that of the nearest one.
    """
    parts = (joint, first, second)
    deviations = np.stack([part.deviations for part in parts], axis=1)
    points = np.stack([part.values for part in parts], axis=1)
    scales = np.where(deviations > 0, deviations, np.maximum(np.abs(points), 1.0) * 1e-9)
    points = points / scales
    shared = np.empty((len(points), 3, 3))
    for i, a in enumerate(parts):
        for j, b in enumerate(parts):
            both = 1.0 if i == j else ((a + b).deviations ** 2 - (a - b).deviations ** 2) / 4 / scales[:, i] / scales[:, j]
            shared[:, i, j] = both
    reach = _reach(parts, scales, confidence)
    units = scales[:, 0] / np.sqrt(scales[:, 1] * scales[:, 2])
    low, high = np.empty(len(points)), np.empty(len(points))
    for at in range(0, len(points), CHUNK):
        chosen = slice(at, at + CHUNK)
        low[chosen], high[chosen] = _ends(points[chosen], shared[chosen], reach[chosen], units[chosen])
    return low, high


def _reach(parts: Sequence[Estimate], scales: Numbers, confidence: float) -> Numbers:
    """Half the width of intervals of the noise, in standard deviations, by cell; the same for all sums of Laplace noise."""
    if any(error.kind in ("laplace", "laplaces") for part in parts for error, _ in part.slopes.values()):
        return np.full(len(scales), laplaces(confidence))
    wide = np.stack([part.margins(confidence) for part in parts], axis=1) / scales
    return np.asarray(np.maximum(wide.max(axis=1), 1e-6))


def _ends(points: Numbers, shared: Numbers, reach: Numbers, units: Numbers) -> Ends:
    """The ends for points in units of their standard deviations, with the correlations of their noise.

    points (cells, 3), shared (cells, 3, 3), reach (cells,), units (cells,): the factor from these units to a correlation.

    A linear map makes the noise equally wide in every direction. For one ratio of the spreads, the points with any joint number
    form a half-plane; those of them within reach of the released point lie between two rays.
    """
    stretch = _whitened(shared)
    angles = _directions(points, shared, reach)
    sizes = units[:, None] / (np.cos(angles) * np.sin(angles))
    point = np.einsum("cij,cj->ci", stretch, points)[:, None, :]
    joint = np.broadcast_to(stretch[:, None, :, 0], (*angles.shape, 3))
    spreads = np.einsum("cij,cdj->cdi", stretch, np.stack([0 * angles, np.cos(angles) ** 2, np.sin(angles) ** 2], axis=2))

    along = joint / _length(joint)[..., None]
    across = spreads - _dot(spreads, along)[..., None] * along
    across = across / _length(across)[..., None]
    beside = np.abs(_dot(point, np.cross(along, across)))
    s, t = _dot(point, along), _dot(point, across)

    inside = (points[:, 1] > 0) & (points[:, 2] > 0) & (
        np.abs(points[:, 0]) * units <= np.sqrt(np.maximum(points[:, 1] * points[:, 2], 0)))
    nearest = np.minimum(*(_distance(point, spreads + joint * (sign / sizes)[..., None]) for sign in (1, -1))).min(axis=1)
    left = (reach**2 + np.where(inside, 0.0, nearest**2))[:, None] - beside**2
    middle, size = np.arctan2(t, s), np.hypot(s, t)
    near = left >= size**2
    half = np.arcsin(np.sqrt(np.clip(left / np.where(near, 1.0, size**2), 0, 1)))
    first, last = np.where(near, 0.0, np.maximum(middle - half, 0)), np.where(near, np.pi, np.minimum(middle + half, np.pi))
    found = (left >= 0) & (near | (first < last))

    def correlation(angle: Numbers) -> Numbers:
        """The correlation of the points on the ray at this angle to the axis of the joint number."""
        return np.asarray((_dot(spreads, across) / np.tan(angle) - _dot(spreads, along)) / _length(joint) * sizes)

    low = np.where(found, np.where(last < np.pi, correlation(last), -np.inf), np.inf).min(axis=1)
    high = np.where(found, np.where(first > 0, correlation(first), np.inf), -np.inf).max(axis=1)
    unknown = ~(low <= high)  # the nearest points are between two directions
    return np.where(unknown, -1.0, np.clip(low, -1, 1)), np.where(unknown, 1.0, np.clip(high, -1, 1))


def _whitened(shared: Numbers) -> Numbers:
    """The maps after which noise with these covariances is equally wide in every direction. Beside very large numbers, rounding
    leaves covariances that no noise has: their least variances are raised to RIDGE, and unknown ones are left out."""
    known = np.clip(np.where(np.isfinite(shared), shared, 0.0), -1, 1)
    variances, axes = np.linalg.eigh(known + RIDGE * np.eye(3))
    return np.asarray(axes.swapaxes(1, 2) / np.sqrt(np.maximum(variances, RIDGE))[:, :, None])


def _dot(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray((a * b).sum(axis=-1))


def _length(a: Numbers) -> Numbers:
    return np.asarray(np.sqrt(_dot(a, a)))


def _distance(point: Numbers, ray: Numbers) -> Numbers:
    """The distance of a point from the ray that starts at 0 and goes through another."""
    aside = _length(np.cross(point, ray)) / _length(ray)
    return np.where(_dot(point, ray) > 0, aside, _length(point))


def _directions(points: Numbers, shared: Numbers, reach: Numbers) -> Numbers:
    """Angles, in radians, whose tangents are the ratios that the roots of the spreads may have: a grid (cells, DIRECTIONS)."""
    x, y, both = points[:, 1], points[:, 2], shared[:, 1, 2]
    square = (1.5 * reach) ** 2
    leading, half = x**2 - square, x * y - square * both
    inside = square * (x**2 - 2 * x * y * both + y**2) - square**2 * (1 - both**2)
    root = np.sqrt(np.maximum(inside, 0))
    known = (leading > 0) & (inside >= 0) & (x > 0)
    low, high = np.where(known, (half - root) / leading, 0.0), np.where(known, (half + root) / leading, np.inf)
    first, last = (np.log(np.clip(np.sqrt(np.maximum(end, 0)), 1 / MOST_RATIO, MOST_RATIO)) for end in (low, high))
    return np.asarray(np.arctan(np.exp(first[:, None] + (last - first)[:, None] * np.linspace(0, 1, DIRECTIONS))))
