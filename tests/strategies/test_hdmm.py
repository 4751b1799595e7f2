"""Products, unions and marginals for Laplace noise: errors by their definition, and against the published ones."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from support.dense_algebra import by_definition, cost, own_variances, products, variances

from dpsql.strategies import kronecker, marginals, unions_of_products
from dpsql.strategies.marginal_products import MarginalProducts
from dpsql.strategies.marginals import Marginals
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.strategies.two_products import TwoProducts
from dpsql.strategies.unions_of_products import Union
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix, Total
from dpsql.workload.workload import Product, Workload, product_of, reduced

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
from workload_cases import ADULT8, sf1  # noqa: E402

RANDOM = np.random.default_rng(29)


def rmse(made: Strategy | Refusal, workload: Workload) -> float:
    assert isinstance(made, Strategy) and made.certificate is not None
    assert made.certificate.covers == "Laplace strategies" and made.certificate.bound <= made.certificate.value
    return float(np.sqrt(made.certificate.value / workload.rows))


def test_products_are_planned_attribute_by_attribute() -> None:
    ranges, prefixes = products([AllRange(64)] * 2, (2,)), products([Prefix(64)] * 2, (2,))
    assert rmse(kronecker.plan(ranges), ranges) < 21.9
    assert rmse(kronecker.plan(prefixes), prefixes) < 20.034
    one = kronecker.plan(products([AllRange(64), Total(64)], (2,)))
    assert isinstance(one, Strategy) and one.blocks[0].factors[1] == Total(64)  # what is summed out costs nothing


@pytest.mark.slow
def test_the_census_workload_is_answered_by_a_union() -> None:
    """Published: 7.459 by a product, 9.588 by marginals, 32.43 by a union whose groups were given."""
    asked = sf1()
    assert (asked.rows, len(asked.parts), asked.domain.shape) == (4151, 33, (2, 2, 64, 17, 115))
    small = reduced(asked).workload
    assert rmse(kronecker.plan(small), asked) < 7.46
    made = unions_of_products.plan(small)
    assert rmse(made, asked) < 6.4
    assert isinstance(made, TwoProducts) and made.sensitivity.exact
    assert made.sensitivity.value <= 1 + 1e-9
    table = RANDOM.integers(0, 5, small.domain.shape)
    exact = [product_of(block, small.domain).apply(table).reshape(-1) for block in made.blocks]
    assert np.allclose(made.reconstruct(exact, small), small.apply(table), atol=1e-3)


@pytest.mark.parametrize(("sizes", "ways", "published"), [
    (ADULT8, (2,), 25.988), ((10,) * 8, (0, 1, 2, 3), 69.53), ((10,) * 10, (0, 1, 2, 3), 144.52)], ids=["adult", "8", "10"])
def test_marginals_have_smaller_errors_than_published(sizes: tuple[int, ...], ways: tuple[int, ...], published: float) -> None:
    asked = products([Identity(size) for size in sizes], ways)
    assert rmse(marginals.plan(asked), asked) < published * 0.985


def test_three_way_marginals_of_eight_attributes_are_covered_by_a_steiner_system() -> None:
    asked = MarginalProducts.of(products([Identity(10)] * 8, (3,)))
    kinds = marginals.candidates(asked)
    chosen = [kinds[at] for at in marginals.cover(kinds, asked)]
    assert len(chosen) == 14 and all(len(kind) == 4 for kind in chosen)
    triples = [triple for kind in chosen for triple in itertools.combinations(kind, 3)]
    assert len(triples) == len(set(triples)) == math.comb(8, 3)


@pytest.mark.parametrize("asked", [products([Identity(3), Identity(4), Identity(2)], (1, 2)), products([Prefix(3), Identity(4)], (0, 1)),
                                   products([AllRange(3), Identity(2), Prefix(3)], (1, 3)), products([Identity(2)] * 4, (2,))])
def test_marginals_are_least_squares(asked: Workload) -> None:
    """Variances and answers are those of a pseudo-inverse of all that is measured, whatever the weights."""
    found = marginals.plan(asked)
    assert isinstance(found, Marginals)
    axes = range(len(asked.domain.shape))
    everything = [kind for size in range(len(axes) + 1) for kind in itertools.combinations(axes, size)]
    other = Marginals(name="", domain=asked.domain, noise="laplace", weights={kind: RANDOM.uniform(0.1, 1) for kind in everything})
    for made in (found, other):
        assert cost(made) == pytest.approx(sum(made.weights.values())) == pytest.approx(float(made.sensitivity.value))
        assert np.allclose(made.variances(asked), 2 * cost(made) * variances(made, asked))
        assert np.allclose(made.variances(asked), own_variances(made, asked))
        table = RANDOM.integers(0, 9, asked.domain.size)
        ours, theirs = by_definition(made, asked, table, [RANDOM.normal(size=block.rows) for block in made.blocks])
        assert np.allclose(ours, theirs)
    assert found.variances(asked).sum() <= other.variances(asked).sum()


def test_no_weights_nearby_are_better() -> None:
    asked = products([Identity(5), Identity(3), Identity(4)], (1, 2))
    found = marginals.plan(asked)
    assert isinstance(found, Marginals)
    for _ in range(100):
        weights = {kind: weight * float(np.exp(RANDOM.normal() * 0.2)) for kind, weight in found.weights.items()}
        other = Marginals(name="", domain=asked.domain, noise="laplace", weights=weights)
        assert other.variances(asked).sum() >= found.variances(asked).sum() * (1 - 1e-6)


@pytest.mark.slow
def test_many_attributes_are_planned_by_their_subsets() -> None:
    asked = products([Identity(10)] * 20, (1, 2))
    assert len(marginals.plan(products([Identity(10)] * 320, (1,))).blocks) > 0  # more cells than a float can count
    made = marginals.plan(asked)
    direct = math.sqrt(2) * len(asked.parts)  # noise on the queries themselves
    assert rmse(made, asked) < direct and isinstance(made, Marginals)
    assert made.sensitivity.value <= 1 + 1e-9


def test_shares_of_a_union_are_the_best_ones() -> None:
    asked = products([AllRange(40)] * 3, (1,))
    made = unions_of_products.plan(asked)
    assert isinstance(made, Union) and len(made.groups) == 3
    errors = [group.at(1.0).error for group in made.groups]
    value = asked.rows * rmse(made, asked) ** 2
    assert value == pytest.approx(sum(error ** (1 / 3) for error in errors) ** 3, rel=1e-6)
    for shares in ((0.3, 0.3, 0.4), (0.32, 0.34, 0.34), (0.4, 0.4, 0.2)):
        assert sum(error / share**2 for error, share in zip(errors, shares, strict=True)) >= value * (1 - 1e-9)


def test_a_union_answers_only_its_own_queries_each_from_its_group() -> None:
    asked = products([Identity(6), Prefix(30), AllRange(9)], (1,))
    made = unions_of_products.plan(asked)
    assert isinstance(made, Union) and sorted(at for group in made.groups for at in group.members) == [0, 1, 2]
    assert np.allclose(made.variances(asked), own_variances(made, asked), rtol=1e-5)
    with pytest.raises(ValueError, match="only the workload it was made for"):
        made.variances(products([Identity(6), Prefix(30), AllRange(9)], (1, 2)))


@pytest.mark.parametrize("asked", [products([AllRange(9), Prefix(12)], (1,)), products([Identity(4), Prefix(5), Identity(3)], (1, 2)),
                                   Workload(domain(3, 7), (Product((Identity(3), Prefix(7))), Product((Total(3), AllRange(7)))))])
def test_two_products_are_solved_exactly(asked: Workload) -> None:
    """Random integer factors, some of them of few rows: least squares by the attributes' common form, and by a pseudo-inverse."""
    for few in (False, True):
        blocks = []
        for part, scale in ((asked.parts[0], 0.7), (asked.parts[-1], 3.0)):
            own = [factor if few else Dense(np.vstack([factor.dense(), RANDOM.integers(-3, 4, (factor.n, factor.n))])) for factor in part.factors]
            blocks.append(Block(axes=tuple(range(len(own))), factors=tuple(own), scale=scale))
        made = TwoProducts(name="", domain=asked.domain, noise="laplace", measured=(blocks[0], blocks[1]))
        what = Workload(asked.domain, (asked.parts[0], asked.parts[-1])) if few else asked
        assert np.allclose(made.variances(what), 2 * cost(made) * variances(made, what), rtol=1e-6)
        table = RANDOM.integers(0, 9, asked.domain.size)
        ours, theirs = by_definition(made, what, table, [RANDOM.normal(size=block.rows) for block in made.blocks])
        assert np.allclose(ours, theirs, atol=1e-6)


def test_two_products_refuse_what_they_do_not_measure() -> None:
    blocks = [Block(axes=(axis,), factors=(Identity(5),), scale=1.0) for axis in (0, 1)]
    made = TwoProducts(name="", domain=domain(5, 5), noise="laplace", measured=(blocks[0], blocks[1]))
    assert np.isfinite(made.variances(products([Prefix(5)] * 2, (1,)))).all()
    with pytest.raises(ValueError, match="does not measure"):
        made.variances(products([Prefix(5)] * 2, (2,)))


def test_two_groups_gain_from_each_other_and_agree() -> None:
    asked = products([AllRange(64)] * 2, (1,))
    made = unions_of_products.plan(asked)
    assert isinstance(made, TwoProducts)
    assert rmse(made, asked) < 10.6  # published: union 11.268, marginals 11.328, product 18.56
    table = RANDOM.integers(0, 9, asked.domain.size)
    ours = made.reconstruct([product_of(block, asked.domain).apply(table.reshape(64, 64)).reshape(-1) + RANDOM.normal(size=block.rows) * 1e6
                             for block in made.blocks], asked)
    rows, columns = ours[:2080], ours[2080:]
    assert rows[63] == pytest.approx(columns[63])  # the range over all values, asked along both attributes
