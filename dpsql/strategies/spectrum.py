"""The nuclear norm of a weighted matrix, and its singular values and vectors, from its Gram matrix."""

from __future__ import annotations

import numpy as np
import scipy

from dpsql.frozen import Frozen
from dpsql.workload.factors import Array

TINY = 1e-300  # a divisor in place of zero where the dividend is zero too: columns that no query counts


class Spectrum(Frozen):
    """The singular values of B diag(weights)^(1/2) that are numerically above zero, and the right singular vectors."""

    s: Array
    vectors: Array
    weights: Array
    lost: float  # a bound on the error of the sum of the singular values

    def form(self, power: float) -> Array:
        """D^(1/2) V S^-power V' D^(1/2)."""
        half = np.sqrt(self.weights)[:, None] * self.vectors / self.s ** (power / 2)
        return np.asarray(half @ half.T)

    @property
    def norms(self) -> Array:
        """The diagonal of D^(-1/2) V S V' D^(-1/2): squared norms of the columns of S^(1/2) V' D^(-1/2)."""
        return np.asarray((self.vectors**2) @ self.s / self.weights)

    @property
    def steepness(self) -> Array:
        """A bound on - d log norms_j / d log weights_j; see `fixed_point.FixedPointStep.steepness`."""
        return np.asarray(((self.vectors**2) @ np.sqrt(self.s)) ** 2 / np.maximum(2 * self.norms * self.weights, TINY))


def spectrum(gram: Array, weights: Array) -> Spectrum:
    """From B'B.

    The eigenvalues of two symmetric matrices differ by at most the norm of their difference (Weyl), which for a backward stable
    solver is a small multiple of the rounding error of the largest eigenvalue. `lost` is the resulting error of the square roots.
    """
    root = np.sqrt(weights)
    values, vectors = eigh(gram * root[:, None] * root)
    s = np.sqrt(np.maximum(values, 0.0))
    near = 4 * len(values) ** 0.5 * np.finfo(float).eps * float(values[-1])
    kept = values > near
    lost = float(np.sum(s[kept] - np.sqrt(np.maximum(values[kept] - near, 0.0))))
    return Spectrum(s=s[kept], vectors=vectors[:, kept], weights=weights, lost=lost)


def exact_spectrum(matrix: Array, weights: Array) -> Spectrum:
    """The spectrum from B itself: finds singular values a million times smaller than from B'B, and takes several times as
    long."""
    _, s, rows = scipy.linalg.svd(matrix * np.sqrt(weights), full_matrices=False, check_finite=False)
    kept = s > 1e-15 * s[0]
    lost = 4 * len(s) ** 1.5 * np.finfo(float).eps * float(s[0])
    return Spectrum(s=s[kept], vectors=rows[kept].T, weights=weights, lost=lost)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order, and eigenvectors; faster where reversing all rows and columns leaves the matrix unchanged.

    Then eigenvectors are (y, J y) or (y, -J y), with J the reversal, so y is an eigenvector of A + B J or of A - B J, where A and
    B are the upper quarters: two problems of half the size, a quarter of the work. (If n is odd, the middle row and column belong
    to the first, times sqrt 2.)
    """
    size = len(matrix)
    mirrored = matrix[::-1, ::-1]
    if size < 64 or np.abs(matrix - mirrored).max() > 1e-11 * np.abs(matrix).max():
        return _eigh(matrix)
    half, odd = size // 2, size % 2
    matrix = (matrix + mirrored) / 2
    corner, across = matrix[:half, :half], matrix[:half, : -half - 1 : -1]
    even = np.zeros((half + odd, half + odd))
    even[:half, :half] = corner + across
    if odd:
        even[half, :half] = even[:half, half] = np.sqrt(2) * matrix[half, :half]
        even[half, half] = matrix[half, half]
    (a, plus), (b, minus) = _eigh(even), _eigh(corner - across)
    vectors = np.zeros((size, size))
    vectors[:half, : half + odd], vectors[-half:, : half + odd] = plus[:half] / np.sqrt(2), plus[:half][::-1] / np.sqrt(2)
    vectors[half : half + odd, : half + odd] = plus[half:]
    vectors[:half, half + odd :], vectors[-half:, half + odd :] = minus / np.sqrt(2), -minus[::-1] / np.sqrt(2)
    values = np.concatenate([a, b])
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def _eigh(matrix: Array) -> tuple[Array, Array]:
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return np.asarray(values), np.asarray(vectors)
