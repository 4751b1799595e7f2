"""The numbers of the rule by which keys are shown: the scale of its noise is not below 1 / epsilon, and its reach is the least."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpsql.trusted.noise.key_selection import TruncatedGeometric, shown
from dpsql.trusted.noise.source import Secure


def chance_of_the_end(rule: TruncatedGeometric, reach: int) -> Decimal:
    """P(z = reach) of noise with probability proportional to exp(-epsilon |z|) for |z| <= reach."""
    epsilon = Decimal(rule.epsilon.numerator) / rule.epsilon.denominator
    end = (-epsilon * reach).exp()
    return end / (1 + 2 * sum((-epsilon * z).exp() for z in range(1, reach + 1)))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("delta", [Fraction(1), Fraction(9, 10), Fraction(1, 2), Fraction(1, 7), Fraction(1, 10**6)])
def test_the_reach_is_the_least(epsilon: Fraction, delta: Fraction) -> None:
    rule = TruncatedGeometric(epsilon=epsilon, delta=delta)
    with localcontext(prec=50):
        most = Decimal(delta.numerator) / delta.denominator
        assert chance_of_the_end(rule, rule.reach) <= most
        assert rule.reach == 0 or chance_of_the_end(rule, rule.reach - 1) > most


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(7, 5), Fraction(4)])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_the_failure_of_several_moves_is_hardly_above_that_of_group_privacy(epsilon: Fraction, rows: int) -> None:
    delta = Fraction(1, 10**12)
    with localcontext(prec=50):
        exact = rows * (Decimal((rows - 1) * epsilon.numerator) / epsilon.denominator).exp() / 10**12
        found = TruncatedGeometric(epsilon=epsilon, delta=delta).cost_of_moves(rows).delta
        assert exact <= Decimal(found.numerator) / found.denominator < exact * (1 + Decimal(10) ** -8)


def test_the_threshold_is_the_least_count_that_is_shown() -> None:
    """A noise of 1, by which a count of `reach` passes, has a chance of a sixth."""
    rule = TruncatedGeometric(epsilon=Fraction(1), delta=Fraction(1, 100))
    assert min(count for count in shown([rule.reach] * 400, rule, Secure()) if count is not None) == rule.threshold


def test_the_noise_is_never_less_than_epsilon_asks_for() -> None:
    for epsilon in (Fraction(part, whole) for part in range(1, 50) for whole in (1, 3, 97, 10**9)):
        scale = Fraction(TruncatedGeometric(epsilon=epsilon, delta=Fraction(1, 10**6)).scale)
        assert 1 <= scale * epsilon < 1 + Fraction(1, 10**14)
