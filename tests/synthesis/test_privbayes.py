"""PrivBayes: the network that is chosen, what is made of its counts, and the mistakes of others that it does not repeat."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.coded_tables import Coded, Places, total_variation

from dpsql.audit.exact import Exact
from dpsql.errors import OptionError
from dpsql.models.table_domain import TableDomain
from dpsql.sql.text.statement import Option
from dpsql.synthesis.methods import privbayes
from dpsql.synthesis.methods.all_methods import METHODS, methods_for
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.privbayes import GRAIN, PrivBayes, at_least, entropy, kinks, shares, singles_share
from dpsql.synthesis.table_options import FITS, SCORES, read_terms
from dpsql.trusted.accounting.cost import concentrated, pure
from dpsql.trusted.measurements.dependent_parents import DependentParents
from dpsql.trusted.measurements.noisy_sums import NoisySums

DOMAIN = TableDomain(("a", "b", "c", "d", "e"), (3, 4, 2, 5, 3))
EVERY = [(score, fit) for score in SCORES for fit in FITS]


@cache
def places() -> Places:
    """b follows a, c is whether a and b agree, d follows b; e is by itself."""
    draws, count = np.random.default_rng(8), 5000
    a = draws.choice(3, count, p=[0.5, 0.3, 0.2])
    b = np.where(draws.random(count) < 0.7, a, draws.integers(0, 4, count))
    c = np.where(draws.random(count) < 0.95, a == b, draws.integers(0, 2, count))
    d = np.where(draws.random(count) < 0.7, b, draws.integers(0, 5, count))
    return np.stack([a, b, c, d, draws.integers(0, 3, count)], axis=1)


@cache
def data(exact: bool = False, rows: int = 5000) -> Coded:
    return Coded(DOMAIN, places()[:rows], noise=Exact() if exact else None)


def linked(found: Any) -> list[set[str]]:
    return [set(each.columns) for each in found.marginals if len(each.columns) > 1]


def asked(table: Coded, kind: type) -> list[Any]:
    return [request for request, _ in table.asked if isinstance(request, kind)]


# -- the network


@pytest.mark.parametrize("score", SCORES)
def test_without_noise_each_column_has_the_parents_that_it_depends_on(score: str) -> None:
    found = data(exact=True).measured(PrivBayes(score=score), pure(Fraction(100)))
    sets = linked(found)
    assert {"a", "b", "c"} in sets and any({"b", "d"} <= each for each in sets)


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_those_of_the_paper(score: str) -> None:
    """The score of each candidate of every round, beside the best, from the counts: n R, or n times the mutual information in bits."""
    table, scores = data(exact=True), []

    class Tap(Exact):
        def exponential(self, given: Any, scale: float) -> int:
            scores.append([each / GRAIN for each in given])
            return super().exponential(given, scale)

    tapped = Coded(DOMAIN, places(), noise=Tap())
    tapped.measured(PrivBayes(score=score), pure(Fraction(1)))  # scales so wide that no score is cut off
    for request, drawn in zip(asked(tapped, DependentParents), scores, strict=True):
        expected = []
        for child, *parents in request.candidates:
            names = tuple(DOMAIN.columns[at] for at in (child, *parents))
            joint = table.counts(names).reshape(DOMAIN.sizes[child], -1)
            x, p, n = joint.sum(axis=1), joint.sum(axis=0), joint.sum()
            expected.append(np.abs(joint - np.outer(x, p) / n).sum() / 2 if score == "r" else entropy(x) + entropy(p) - entropy(joint.ravel()))
        assert np.abs(np.array(drawn) - np.array(expected) + max(expected)).max() < (0.2 if score == "r" else 0.003 * len(places()))


def test_a_node_has_at_most_as_many_cells_as_noise_leaves_useful() -> None:
    """Theta-usefulness, by what was released: a mean count of a cell is a multiple of its noise, where all nodes have equal shares."""
    for epsilon in (Fraction(1, 2), Fraction(2), Fraction(10)):
        table = data()
        found, rounds = table.measured(PrivBayes(), pure(epsilon)), len(DOMAIN.columns) - 1
        share = singles_share(table.task(pure(epsilon)), at_least(found.marginals[0]))
        noise = float(rounds / (epsilon * (1 - privbayes.SIZE - share) * (1 - privbayes.STRUCTURE)))
        for each in linked(found):
            assert DOMAIN.cells(each) <= 1.3 * len(places()) / (privbayes.USEFUL * noise)


def test_the_cells_of_the_model_and_the_candidates_of_a_round_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privbayes, "MOST_TRIED", 3)
    table = data()
    table.measured(PrivBayes(), pure(Fraction(100)))
    assert max(len(request.candidates) for request in asked(table, DependentParents)) <= 3 + len(DOMAIN.columns)
    monkeypatch.setattr(privbayes, "MOST_CELLS", 40)
    for fit in FITS:
        model = table.measured(PrivBayes(fit=fit), pure(Fraction(100))).model
        assert sum(each.size for each in model.probabilities) <= 40  # type: ignore[attr-defined]


def test_columns_that_are_given_come_first_and_are_measured_only_with_others() -> None:
    table = data()
    steps, found = PrivBayes().measure(table.task(pure(Fraction(3)), given=frozenset("ab"))), []
    context, release = table.kernel._context(), None
    while True:
        try:
            own, certificates, _ = table.kernel._certified(steps.send(release))
        except StopIteration as done:
            made = done.value
            break
        found.append(own)
        release = table.kernel._look(own, certificates, context)
    assert not any({*each.columns} <= {"a", "b"} for each in made.marginals)
    children = {DOMAIN.columns[places[0]] for own in found if isinstance(own, DependentParents) for places in own.candidates}
    assert children == {"c", "d", "e"} and {"a", "b", "c"} in linked(made)
    assert len([own for own in found if isinstance(own, DependentParents)]) == 3


@pytest.mark.parametrize("price", [pure(Fraction(1)), concentrated(Fraction(1, 50))], ids=["pure", "rho"])
def test_shares_make_the_noise_of_all_cells_least(price: Any) -> None:
    nodes = [("a", ()), ("b", ("a",)), ("d", ("a", "b"))]
    found = shares(DOMAIN, nodes, price)
    power = 1 if price.epsilon is not None else 1 / 2

    def noise(parts: Any) -> float:
        return sum(DOMAIN.cells((column, *parents)) / float(part) ** power for (column, parents), part in zip(nodes, parts, strict=True))

    assert sum(found) == 1
    for one, other in ((0, 1), (1, 2), (2, 0)):
        moved = list(found)
        moved[one] += Fraction(1, 50)
        moved[other] -= Fraction(1, 50)
        assert noise(found) < noise(moved)


def test_kinks_make_a_convex_function_near_the_entropy_of_counts_in_bits() -> None:
    for rows in (1.0, 30.0, 5000.0, 1e7):
        made = kinks(rows)
        rise = GRAIN * ((rows + 1) * math.log2(rows + 1) - rows * math.log2(rows)) if rows > 1 else 0
        assert list(made) == sorted(made) and len(made) >= rise - 1, "in bits: in nats it would be less"
        for count in (1, 2, 3, 17, 1000, 4321, 10**6):
            if count > rows:
                break
            f = sum(count - kink for kink in made if kink < count)
            assert f == pytest.approx(GRAIN * count * math.log2(count), abs=count * 0.2 + 1)


# -- what is made of the counts


@pytest.mark.parametrize(("score", "fit"), EVERY)
@pytest.mark.parametrize("price", [pure(Fraction(2)), concentrated(Fraction(1, 20))], ids=["pure", "rho"])
def test_tables_are_nearer_than_those_of_independent_columns(score: str, fit: str, price: Any) -> None:
    def error(method: Any) -> float:
        draws = np.random.default_rng(1)
        return float(np.mean([total_variation(DOMAIN, places(), data().measured(method, price).model.draw(5000, draws), 2) for _ in range(2)]))

    assert error(PrivBayes(score=score, fit=fit)) < 0.8 * error(Independent())


def test_conditionals_are_the_shares_of_the_measured_counts() -> None:
    table = data(exact=True)
    found = table.measured(PrivBayes(fit="conditionals"), pure(Fraction(50)))
    for each in found.marginals:
        np.testing.assert_allclose(found.model.marginal(each.columns), table.counts(each.columns), atol=1)


@pytest.mark.parametrize("price", [pure(Fraction(1, 50)), concentrated(Fraction(1, 10**6))], ids=["pure", "rho"])
def test_a_low_price_is_for_single_columns_alone(price: Any) -> None:
    table = data(exact=True, rows=2000)
    found = table.measured(PrivBayes(), price)
    assert linked(found) == [] and asked(table, DependentParents) == []
    alone = table.measured(Independent(), price)
    spread = [sum(1 / each.variance for each in made.marginals if each.columns == ("d",)) for made in (found, alone)]
    assert spread[0] > 0.95 * spread[1], "nearly as exact as where nothing else was ever asked"


# -- mistakes of others


def test_nothing_is_bought_twice() -> None:
    """DataSynthesizer measures all columns for the whole epsilon, and then the network for the whole epsilon once more."""
    table = data()
    for score, fit in EVERY:
        table.measured(PrivBayes(score=score, fit=fit), pure(Fraction(3, 2)))
        spent = sum((cost.epsilon or Fraction(0) for _, cost in table.asked), Fraction(0))
        assert Fraction(149, 100) < spent <= Fraction(3, 2)


def test_scores_cost_what_adding_an_entity_moves_them_by() -> None:
    """Not the 3 / n + 2 / n^2 of replacing one of n rows, nor what it would be in nats; and the counts have noise for the same
    neighbours."""
    table = Coded(DOMAIN, places(), rows=5)
    for score in SCORES:
        table.measured(PrivBayes(score=score), pure(Fraction(2)))
        choices, sums = asked(table, DependentParents), asked(table, NoisySums)
        bits = math.log2(1000) + math.log2(math.e)
        for request, cost in ((request, cost) for request, cost in table.asked if isinstance(request, DependentParents)):
            assert cost.epsilon == pytest.approx(5 * GRAIN * 4 / request.scale if score == "r" else 5 * len(request.score.kinks) / request.scale)
            assert score == "r" or len(request.score.kinks) > GRAIN * bits
        assert len(choices) == len(DOMAIN.columns) - 1 and len(sums) > len(DOMAIN.columns)


def test_domains_are_the_declared_ones() -> None:
    """Values that no row has are candidates' cells, and are measured like all others."""
    table = Coded(DOMAIN, np.zeros((3000, 5), dtype=np.int64))
    for score in SCORES:
        for each in table.measured(PrivBayes(score=score), pure(Fraction(2))).marginals:
            assert each.values.shape == DOMAIN.shape(each.columns)


# -- options


def option(name: str, value: Any) -> Option:
    return Option(name=name, value=value, span=None)


def test_options_are_read_by_name_and_only_for_privbayes() -> None:
    given = [option("method", "privbayes"), option("score", "mutual information"), option("fit", "conditionals")]
    terms = read_terms(given, default=None, methods=tuple(METHODS))
    assert methods_for(terms)["privbayes"] == PrivBayes(score="mutual information", fit="conditionals")
    assert methods_for(read_terms(given[:1], default=None, methods=tuple(METHODS)))["privbayes"] == PrivBayes()
    with pytest.raises(OptionError, match="option of the method privbayes only"):
        read_terms(given[1:], default=None, methods=tuple(METHODS))
    with pytest.raises(OptionError, match="there is no score"):
        read_terms([given[0], option("score", "f")], default=None, methods=tuple(METHODS))
    with pytest.raises(OptionError, match="there is no fit"):
        read_terms([given[0], option("fit", 3)], default=None, methods=tuple(METHODS))
