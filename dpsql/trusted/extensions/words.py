"""Exact sums of integers that exceed one machine word."""

from __future__ import annotations

import operator

import numpy as np

from dpsql.trusted.extensions.owned import Codes, Integers, loads

WORD = 20  # bits of the lower part that a factor is split into


def total(numbers: Integers) -> int:
    """The sum of up to 2^31 integers."""
    return (int((numbers >> 32).sum()) << 32) + int((numbers & (2**32 - 1)).sum())


def dot(left: Integers, right: Integers) -> int:
    """The sum of products of integers >= 0."""
    some = right > 0
    if not some.all():
        left, right = left[some], right[some]
    largest, high = int(left.max(initial=0)), int(right.max(initial=0))
    if largest * high * len(left) < 2**63:
        return int(left @ right)
    if largest * max(high >> WORD, 2**WORD) * len(left) < 2**63:
        return (int(left @ (right >> WORD)) << WORD) + int(left @ (right & (2**WORD - 1)))
    return sum(map(operator.mul, left.tolist(), right.tolist()))


def gathered(owners: Codes, left: Integers, right: Integers, entities: int) -> list[int]:
    """For each entity the sum of left * right over the rows that name it; of integers >= 0."""
    largest, high = int(left.max(initial=0)), int(right.max(initial=0))
    if largest * high * len(left) < 2**63:
        return loads(owners, left * right, entities).tolist()  # type: ignore[no-any-return]
    if largest * max(high >> WORD, 2**WORD) * len(left) < 2**63:
        upper, lower = (loads(owners, left * part, entities).tolist() for part in (right >> WORD, right & (2**WORD - 1)))
        return [(above << WORD) + below for above, below in zip(upper, lower, strict=True)]
    found = [0] * entities
    for row, a, b in zip(owners.tolist(), left.tolist(), right.tolist(), strict=True):
        for owner in row:
            if owner >= 0:
                found[owner] += a * b
    return found


def scaled(left: Integers, right: Integers, bits: int, most: int) -> Integers:
    """min(most, floor(left * right / 2^bits)), for 0 <= left < 2^37, 0 <= right < 2^45, bits <= 40 and most < 2^41.

    The product is `above` * 2^20 + `rest` with rest < 2^20, each a word: left times either part of `right` is below 2^63.
    """
    lower = left * (right & (2**WORD - 1))
    above, rest = left * (right >> WORD) + (lower >> WORD), lower & (2**WORD - 1)
    if bits >= WORD:
        found: Integers = above >> (bits - WORD)
    else:
        found = (np.minimum(above, 2**41) << (WORD - bits)) + (rest >> bits)
    return np.minimum(found, np.int64(most))
