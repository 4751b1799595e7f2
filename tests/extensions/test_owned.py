"""Rows as sets of entities: names to codes, doubles, missing names, signs."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from support.extensions.hypergraphs import Rows, random_rows

from dpsql.trusted.extensions.owned import NOBODY, Owned, arranged, loads, owned, signed


def listed(rows: Owned) -> dict[frozenset[int], int]:
    found = {frozenset(int(code) for code in row if code != NOBODY): int(weight)
             for row, weight in zip(rows.owners, rows.weights, strict=True)}
    assert len(found) == len(rows.weights), "each set is one row"
    return found


def test_rows_of_one_set_are_one_row_in_whatever_order_they_name_it() -> None:
    rows = owned([np.array([7, 3, 9]), np.array([3, 7, 3])], np.array([1, 10, 100]))
    assert listed(rows) == {frozenset({0, 1}): 11, frozenset({0, 2}): 100}
    assert rows.entities == 3 and rows.total == 111
    assert Owned(rows.weights, rows.owners, 3).capacities(5).tolist() == rows.capacities(5).tolist() == [5, 5, 5]


def test_an_owner_named_twice_in_a_row_counts_once() -> None:
    rows = owned([np.array([5, 5]), np.array([5, 5]), np.array([5, 8])], np.array([2, 3]))
    assert listed(rows) == {frozenset({0}): 2, frozenset({0, 1}): 3}
    assert loads(rows.owners, rows.weights, rows.entities).tolist() == [5, 3]


def test_a_missing_name_is_nobody_and_a_row_of_nobody_is_dropped() -> None:
    first = np.ma.array([4, 4, 0], mask=[False, False, True])
    second = np.ma.array([0, 6, 0], mask=[True, False, True])
    assert listed(owned([first, second], np.array([1, 2, 50]))) == {frozenset({0}): 1, frozenset({0, 1}): 2}
    texts = np.array(["b", None, "a"], dtype=object)
    assert listed(owned([texts], np.array([1, 2, 4]))) == {frozenset({1}): 1, frozenset({0}): 4}


def test_rows_without_weight_are_dropped_and_negative_ones_are_a_part_of_their_own() -> None:
    names = [np.array([1, 2, 3, 3]), np.array([2, 3, 1, 1])]
    positive, negative = signed(names, np.array([5, 0, 4, -10]))
    assert listed(positive) == {frozenset({0, 1}): 5} and listed(negative) == {frozenset({0, 2}): 6}
    with pytest.raises(ValueError, match="below zero"):
        owned(names, np.array([5, 0, 4, -10]))


def test_no_rows() -> None:
    empty = owned([np.array([], dtype=np.int64)] * 3, np.array([], dtype=np.int64))
    assert empty.entities == 0 and empty.total == 0 and empty.owners.shape == (0, 3)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("kind", ["dense", "sparse", "text"])
def test_equal_contents_give_equal_arrays(width: int, kind: str) -> None:
    draw = random.Random(width)
    for _ in range(20):
        rows = random_rows(draw, width, most=40, entities=12, largest=9)
        rename = {"dense": lambda n: n - 3, "sparse": lambda n: n * 10**15 - 3, "text": lambda n: f"n{n:02}"}[kind]
        expected = Counter[frozenset[int]]()
        for row, weight in zip(rows.names, rows.weights, strict=True):
            expected[frozenset(row) - {None}] += weight
        names = sorted(rows.entities)

        def built(rows: Rows) -> Owned:
            columns = [np.array([None if row[at] is None else rename(row[at]) for row in rows.names], dtype=object)
                       for at in range(width)]
            if kind != "text":
                columns = [np.ma.array([0 if name is None else name for name in column], mask=[name is None for name in column],
                                       dtype=np.int64) for column in columns]
            return owned(columns, np.array(rows.weights))

        found = built(rows)
        sets = {frozenset(names[code] for code in one): weight for one, weight in listed(found).items()}
        assert sets == {one: weight for one, weight in expected.items() if one and weight}
        order = list(range(len(rows.weights)))
        draw.shuffle(order)
        turned = [draw.sample(rows.names[i], width) for i in order]
        again = built(Rows(tuple(map(tuple, turned)), tuple(rows.weights[i] for i in order)))
        assert again.owners.tolist() == found.owners.tolist() and again.weights.tolist() == found.weights.tolist()


def test_many_owners_whose_codes_do_not_fit_into_one_number() -> None:
    draw = np.random.default_rng(3)
    names = [draw.integers(0, 2000, 5000) for _ in range(8)]
    found = owned([*names], np.ones(5000, dtype=np.int64))
    assert found.total == 5000 and (np.diff(found.owners[:, 0]) >= 0).all()
    assert loads(found.owners, found.weights, found.entities).sum() == sum(len(set(row)) for row in np.stack(names, 1).tolist())


def test_codes_that_just_exceed_one_number_are_in_order() -> None:
    many = 2**21  # its third power is one more than a word holds
    order, new = arranged(np.array([[many - 1, many - 2, many - 3], [0, NOBODY, NOBODY]], dtype=np.int32), many)
    assert order.tolist() == [1, 0] and new.all()


def test_a_row_of_the_last_code_is_not_taken_for_one_of_nobody_in_the_next_cell() -> None:
    order, new = arranged(np.array([[1, NOBODY], [0, 2]], dtype=np.int32), 3)
    assert order.tolist() == [1, 0] and new.all()


def test_loads_are_exact_where_floats_are_not() -> None:
    heavy = owned([np.array([1, 2]), np.array([2, 3])], np.array([2**60, 1]))
    assert loads(heavy.owners, heavy.weights, 3).tolist() == [2**60, 2**60 + 1, 1]
    assert loads(np.zeros((3, 1), dtype=np.int32), np.full(3, 2**53 - 1), 1).tolist() == [3 * (2**53 - 1)]
