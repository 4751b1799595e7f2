"""Rows drawn with some columns given: their conditional shares beside those of the joint distribution, listed cell by cell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from support.networks import MIXED, SHAPES, joint, network, summed

from dpsql.models import conditional_draws
from dpsql.models.conditional_draws import Allowed
from dpsql.models.joint_histogram import JointHistogram
from dpsql.models.table_domain import TableDomain

ROWS = 6000


def shares(places: np.ndarray, domain: TableDomain, columns: tuple[str, ...]) -> np.ndarray:
    at, shape = [domain.columns.index(column) for column in columns], domain.shape(columns)
    cells = np.ravel_multi_index(tuple(places[:, at].T), shape)
    return np.bincount(cells, minlength=domain.cells(columns)).reshape(shape) / len(places)


@pytest.mark.parametrize("shape", SHAPES)
def test_missing_columns_follow_the_given_ones(shape: str) -> None:
    """Low-variance draws: far nearer to the expected shares than independent rows, whose cells would be off by 0.006 and more."""
    made = network(MIXED, SHAPES[shape], seed=4)
    everything = joint(MIXED, made.potentials)
    whole = JointHistogram(domain=MIXED, counts=100 * everything)
    draws = np.random.default_rng(7)
    for count in (0, 1, 2, 3, 5):
        for given in list(combinations(MIXED.columns, count))[::3]:
            values = {column: int(draws.integers(MIXED.cells([column]))) for column in given}
            index = tuple(values.get(column, slice(None)) for column in MIXED.columns)
            expected = np.broadcast_to(everything[index] / everything[index].sum(),
                                       tuple(size for column, size in zip(MIXED.columns, MIXED.sizes, strict=True) if column not in given))
            missing = tuple(column for column in MIXED.columns if column not in given)
            for model in (made, whole):
                places = model.draw_given(ROWS, {column: np.full(ROWS, value) for column, value in values.items()}, draws)
                assert all((places[:, MIXED.columns.index(column)] == value).all() for column, value in values.items())
                assert np.abs(shares(places, MIXED, missing) - expected).max() < 0.025


@pytest.mark.parametrize("shape", ["chain", "star", "cycle", "nested"])
@pytest.mark.parametrize("most", [2**22, 40])
def test_rows_that_are_given_different_values(shape: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the shares of the model itself, the whole is the model; also where groups are drawn a few at a time."""
    monkeypatch.setattr(conditional_draws, "MOST_AT_ONCE", most)
    made = network(MIXED, SHAPES[shape], seed=9)
    draws = np.random.default_rng(1)
    first = made.draw(ROWS, draws)
    for given in (("a",), ("f", "c"), ("b", "e", "a")):
        places = made.draw_given(ROWS, {column: first[:, MIXED.columns.index(column)] for column in given}, draws)
        for column in given:
            np.testing.assert_array_equal(places[:, MIXED.columns.index(column)], first[:, MIXED.columns.index(column)])
        for pair in combinations(MIXED.columns, 2):
            assert np.abs(shares(places, MIXED, pair) - made.marginal(pair) / 100).max() < 0.02


@pytest.mark.parametrize("shape", ["chain", "star", "two parts", "everything"])
def test_values_that_are_not_allowed_do_not_occur(shape: str) -> None:
    made = network(MIXED, SHAPES[shape], seed=2)
    everything = joint(MIXED, made.potentials)
    patterns = np.array([[True, False, True], [False, True, False]])
    at = np.arange(ROWS) % 2
    places = made.draw_given(ROWS, {"a": np.zeros(ROWS, dtype=np.int64)}, np.random.default_rng(3), {"b": Allowed(patterns=patterns, at=at)})
    assert (places[at == 1, 1] == 1).all() and (places[at == 0, 1] != 1).all()
    kept = np.where(patterns[0][:, None, None, None, None], everything[0], 0)
    np.testing.assert_allclose(shares(places[at == 0], MIXED, ("b", "c")), summed(TableDomain(MIXED.columns[1:], MIXED.sizes[1:]), kept, ("b", "c")) / kept.sum(),
                               atol=0.025)


def test_what_the_model_thinks_impossible_may_be_given() -> None:
    domain = TableDomain(("a", "b", "c"), (2, 2, 2))
    counts = np.zeros((2, 2, 2))
    counts[0, 0, 0], counts[1, 1, 1] = 1, 3
    model = JointHistogram(domain=domain, counts=counts)
    given = {"a": np.array([0, 0, 1]), "b": np.array([0, 1, 1])}
    places = model.draw_given(3, given, np.random.default_rng(0), {"c": Allowed(patterns=np.array([[True, True], [False, True]]), at=np.array([0, 1, 1]))})
    assert places[:, 2].tolist()[:1] == [0] and places[1:, 2].tolist() == [1, 1]


def test_independent_columns_stay_independent_given_a_third() -> None:
    """Systematic sampling must not sort siblings alike."""
    made = network(MIXED, [("a", "b"), ("b", "c"), ("b", "e")], seed=5)
    b = np.random.default_rng(0).integers(0, 3, ROWS)
    places = made.draw_given(ROWS, {"b": b}, np.random.default_rng(1))
    for value in range(3):
        here = places[b == value]
        both = shares(here, MIXED, ("c", "e"))
        assert np.abs(both - np.outer(shares(here, MIXED, ("c",)), shares(here, MIXED, ("e",)))).sum() / 2 < 0.05


def test_what_cannot_be_given() -> None:
    made, draws = network(MIXED, SHAPES["chain"]), np.random.default_rng(0)
    for given in ({"a": np.zeros(2, dtype=np.int64)}, {"a": np.full(3, 2)}, {"a": np.full(3, -1)}):
        with pytest.raises(ValueError, match="for each row"):
            made.draw_given(3, given, draws)
    none = Allowed(patterns=np.zeros((1, 3), dtype=bool), at=np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="some values"):
        made.draw_given(3, {}, draws, {"b": none})
    assert made.draw_given(0, {"a": np.zeros(0, dtype=np.int64)}, draws).shape == (0, 6)
