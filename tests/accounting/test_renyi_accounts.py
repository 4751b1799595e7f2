"""The Renyi accounts of a budget: what a charge costs at each order, what an order can hold, and that accounts side by side are sound.

Floats are checked against fifty digits; the rule against another writing of it, in exact numbers; the promise against composed
privacy losses of what passed, and against customers who choose adaptively between accounts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from operator import add
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.budgets import convert
from dpsql.budgets.convert import FOR_FAILURES, FOR_ORDERS, FOR_RHO, limit, renyi_limit
from dpsql.budgets.room_left import epsilon_left, rho_left, share_spent, times_left
from dpsql.catalog.price import Price
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting import cost, privacy_filter
from dpsql.trusted.accounting.cost import ATTO, NANO, NOTHING, ORDERS, Account, Charge, Cost, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.kernel.ledger import Refused

mpmath = pytest.importorskip("mpmath", reason="the oracle of these tests, which comes with dp-accounting")

MILLIONTH = Fraction(1, 10**6)
TWENTY = Price(epsilon=Fraction(20), delta=MILLIONTH)
ONE, LITTLE = pure(Fraction(1)).rounded(), concentrated(Fraction(8, 10**4)).rounded()
DIGITS = 50


def exact(number: Fraction | float) -> mpmath.mpf:
    number = Fraction(number)
    return mpmath.mpf(number.numerator) / number.denominator


@contextmanager
def many_digits() -> Iterator[None]:
    with mpmath.workdps(DIGITS):
        yield


def renyi_of_pure(epsilon: Fraction, order: int) -> mpmath.mpf:
    """The divergence of randomized response, as it is defined: log sum of p^a q^(1 - a), divided by a - 1."""
    high = 1 / (1 + mpmath.exp(-exact(epsilon)))
    low = 1 - high if epsilon < 50 else mpmath.exp(-exact(epsilon)) * high
    return mpmath.log(high**order * low ** (1 - order) + low**order * high ** (1 - order)) / (order - 1)


def delta_of_order(order: int, divergence: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """Canonne, Kamath and Steinke 2020, Proposition 12, at one order."""
    return mpmath.exp((order - 1) * exact(divergence - epsilon)) / (order - 1) * mpmath.power(1 - mpmath.mpf(1) / order, order)


def sizes(seed: int, count: float, low: float = -9, high: float = 3) -> list[Fraction]:
    draw = random.Random(seed)
    return [Fraction(math.ceil(10 ** draw.uniform(low, high) * NANO), NANO) for _ in range(round(count))]


# -- what a charge costs at an order


def check_costs(effort: float = 1) -> None:
    """Never below the exact divergence, and hardly above."""
    with many_digits():
        for epsilon in [Fraction(1, NANO), Fraction(1), Fraction(1000), *sizes(1, 40 * effort)]:
            for order, found in zip(ORDERS, pure(epsilon).rounded().renyi, strict=True):
                true = renyi_of_pure(epsilon, order) * NANO
                assert true <= found, (epsilon, order)
                assert found <= min(epsilon, order * epsilon**2 / 2) * NANO + order, (epsilon, order)
                assert found <= true + 3 or found == order * math.ceil(epsilon**2 / 2 * NANO), (epsilon, order)
        for rho in sizes(2, 40 * effort):
            assert concentrated(rho).rounded().renyi == tuple(order * rho * NANO for order in ORDERS)


def test_a_pure_charge_costs_what_randomized_response_does(effort: float) -> None:
    check_costs(effort)


def test_a_billionth_is_left_for_the_rounding_of_floats(effort: float) -> None:
    with many_digits():
        for epsilon in sizes(11, 10 * effort, low=-2):
            for order, found in zip(ORDERS, pure(epsilon).rounded().renyi, strict=True):
                if found < min(epsilon * NANO, order * math.ceil(epsilon**2 / 2 * NANO)):
                    assert found >= renyi_of_pure(epsilon, order) * NANO + 1 - exact(MILLIONTH), (epsilon, order)


def test_no_pure_release_costs_more(effort: float) -> None:
    """Laws of several outcomes whose ratios are anywhere between e^-epsilon and e^epsilon, in both directions."""
    draw = random.Random(3)
    for _ in range(round(150 * effort)):
        epsilon, size = draw.choice([0.01, 0.3, 1.0, 3.0]), draw.randint(2, 6)
        q = [draw.random() for _ in range(size)]
        z = [math.exp(draw.choice([-1, 1, draw.uniform(-1, 1)]) * epsilon) for _ in range(size)]
        mean = sum(a * b for a, b in zip(q, z, strict=True)) / sum(q)
        p = [a * b for a, b in zip(q, z, strict=True)]
        gone = max(abs(math.log(b / mean)) for b in z)  # after norming: what epsilon this pair truly has
        charged = pure(Fraction(gone)).rounded()
        for first, second in ((p, q), (q, p)):
            for order, most in zip(ORDERS, charged.renyi, strict=True):
                terms = [order * math.log(a / sum(first)) + (1 - order) * math.log(b / sum(second))
                         for a, b in zip(first, second, strict=True)]
                top = max(terms)
                found = (top + math.log(sum(math.exp(term - top) for term in terms))) / (order - 1)
                assert found <= most / NANO + 1e-12


def test_an_outside_accountant_agrees() -> None:
    pytest.importorskip("dp_accounting", reason="the oracle of this test")
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.rdp import rdp_privacy_accountant
    for epsilon in (0.01, 0.1, 1.0, 5.0):
        charge = pure(Fraction(epsilon)).rounded()
        laplace = rdp_privacy_accountant.RdpAccountant(ORDERS)
        laplace.compose(dp_event.LaplaceDpEvent(1 / epsilon))
        response = rdp_privacy_accountant.RdpAccountant(ORDERS, NeighboringRelation.REPLACE_ONE)
        response.compose(dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2))
        for ours, theirs, worst in zip(charge.renyi, laplace._rdp, response._rdp, strict=True):
            assert theirs <= ours / NANO and worst == pytest.approx(ours / NANO, rel=1e-6, abs=2e-9)


# -- what an order can hold


TOTALS = [Price(epsilon=Fraction(epsilon), delta=Fraction(delta)) for epsilon in ("1/1000000000", "1/100", "1", "3", "20", "1000")
          for delta in (Fraction(1, 10), Fraction(1, 1000), MILLIONTH, Fraction(1, 10**9), Fraction(1, 10**18))]


def check_limits() -> None:
    """An order's limit implies its part of delta, and three billionths more would not; the parts are no more than delta together."""
    assert FOR_FAILURES + FOR_RHO + FOR_ORDERS == 1
    with many_digits():
        for total in TOTALS:
            assert total.epsilon is not None
            most = limit(total)
            assert most.rho is not None and len(most.renyi) == len(ORDERS)
            each = total.delta * FOR_ORDERS / len(ORDERS)
            for order, held in zip(ORDERS, most.renyi, strict=True):
                assert delta_of_order(order, Fraction(held, NANO), total.epsilon) <= exact(each)
                assert delta_of_order(order, Fraction(held + 4, NANO), total.epsilon) > exact(each)
            together = exact(Fraction(most.delta, ATTO)) + sum(
                delta_of_order(order, Fraction(held, NANO), total.epsilon) for order, held in zip(ORDERS, most.renyi, strict=True))
            assert together + exact(convert.delta_of(most.rho / NANO, float(total.epsilon))) <= exact(total.delta)


def test_limits_of_orders_keep_their_part_of_delta() -> None:
    check_limits()


def test_the_conversion_holds_at_every_single_loss() -> None:
    """(z - e^epsilon)+ <= c z^a, with the two touching: so that it may be applied on a part of the transcripts."""
    with many_digits():
        for order in ORDERS[:8]:
            for epsilon in (Fraction(1, 10), Fraction(2)):
                c = delta_of_order(order, Fraction(0), epsilon)
                touch = mpmath.exp(exact(epsilon)) * order / (order - 1)
                assert mpmath.almosteq(touch - mpmath.exp(exact(epsilon)), c * touch**order, 1e-40)
                for factor in (Fraction(k, 20) for k in range(1, 60)):
                    z = touch * exact(factor)
                    assert max(0, z - mpmath.exp(exact(epsilon))) <= c * z**order * (1 + mpmath.mpf(10) ** -40)


def test_an_outside_accountant_converts_alike() -> None:
    pytest.importorskip("dp_accounting", reason="the oracle of this test")
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
    for total in TOTALS:
        for order, held in zip(ORDERS, limit(total).renyi, strict=True):
            if held > 0 and total.epsilon is not None:
                found, _ = compute_epsilon([order], [held / NANO], float(total.delta * FOR_ORDERS / len(ORDERS)))
                assert found <= float(total.epsilon) + 1e-9 and (found == 0 or found >= float(total.epsilon) - 1e-8)


@pytest.mark.parametrize("total", [Price(epsilon=Fraction(1)), Price(rho=Fraction(1)), Price(rho=Fraction(1), delta=MILLIONTH)])
def test_other_budgets_have_no_orders(total: Price) -> None:
    assert limit(total).renyi == ()


def test_orders_are_these_for_ever() -> None:
    """What passed under other orders would be covered by no proof."""
    assert ORDERS == (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
    assert limit(TWENTY) == Limit(epsilon=20 * NANO, rho=4634275775, delta=4375 * 10**8, renyi=(
        2025606357, 14296217524, 17664781897, 18958665234, 19519008307, 19774449865, 19893601776, 19949735425, 19976275262,
        19988827267, 19994755097, 19997547485, 19998858522, 19999471606, 19999756964, 19999889060))


# -- sums


CHARGES = st.builds(lambda size, kind: (pure if kind else concentrated)(size).rounded(),
                    st.fractions(Fraction(1, NANO), Fraction(3), max_denominator=NANO), st.booleans())


@given(st.lists(CHARGES, max_size=12), st.randoms(use_true_random=False))
def test_sums_are_exact_in_any_order(charges: list[Charge], shuffled: random.Random) -> None:
    once = sum(charges, NOTHING)
    assert once.renyi == tuple(sum(column) for column in zip(*(charge.renyi for charge in charges), strict=True)) or not charges
    other = charges.copy()
    shuffled.shuffle(other)
    cut = shuffled.randint(0, len(other))
    again = sum(other[:cut], NOTHING) + sum(other[cut:], NOTHING)
    assert again == once and again.renyi == once.renyi


@given(st.lists(CHARGES, min_size=1, max_size=12), st.lists(CHARGES, max_size=6), st.sampled_from(TOTALS))
def test_who_has_spent_more_may_never_do_more(charges: list[Charge], more: list[Charge], total: Price) -> None:
    most, spent = limit(total), sum(charges, NOTHING)
    if most.allows(spent + sum(more, NOTHING)):
        assert most.allows(spent) and all(most.allows(charge) for charge in charges)


def test_a_sum_that_is_changed_is_counted_anew() -> None:
    """What was added is forgotten with a change, and the epsilon and rho of the whole are costs of the whole."""
    spent = ONE + ONE + LITTLE
    for changed in (replace(spent, rho=spent.rho + 1), replace(spent, epsilon=3 * NANO)):
        assert changed.renyi == Charge(epsilon=changed.epsilon, rho=changed.rho, delta=0).renyi
        assert all(whole >= part for whole, part in zip(changed.renyi, (ONE + ONE).renyi, strict=True))


@given(st.lists(st.fractions(Fraction(1, NANO), Fraction(2), max_denominator=NANO), min_size=1, max_size=5))
def test_releases_of_one_statement_cost_no_more_than_its_charge(parts: list[Fraction]) -> None:
    whole = pure(sum(parts)).rounded()
    with many_digits():
        for order, charged in zip(ORDERS, whole.renyi, strict=True):
            assert sum(renyi_of_pure(part, order) for part in parts) * NANO <= charged


def test_what_is_not_pure_never_becomes_it() -> None:
    spent = LITTLE + ONE
    assert spent.epsilon is None and (NOTHING + spent).epsilon is None and (spent + NOTHING).epsilon is None


@pytest.mark.parametrize("count", [1, 1000, 10**5])
def test_no_charge_is_too_small_to_count(count: int) -> None:
    least = pure(Fraction(1, NANO)).rounded()
    assert least.renyi == (1,) * len(ORDERS)
    assert concentrated(Fraction(1, 10**15)).rounded().renyi == ORDERS
    spent = NOTHING
    for _ in range(min(count, 1000)):
        spent = spent + least
    assert spent.renyi == (min(count, 1000),) * len(ORDERS)


# -- the rule


def passed(most: Limit, charge: Charge, spent: Charge = NOTHING) -> int:
    count = 0
    while most.allows(spent + charge):
        spent, count = spent + charge, count + 1
    return count


def test_a_statement_in_rho_is_no_cliff() -> None:
    assert passed(limit(TWENTY), ONE) == 20
    assert passed(limit(TWENTY), ONE, LITTLE) == 19, "9 by the sums alone"
    spent = sum([ONE] * 18, LITTLE)
    assert limit(TWENTY).allows(spent) and spent.rho > (limit(TWENTY).rho or 0)


def test_the_order_of_statements_does_not_matter() -> None:
    for before in range(20):
        spent = sum([ONE] * before, NOTHING) + LITTLE
        assert before + (passed(limit(TWENTY), ONE, spent) if limit(TWENTY).allows(spent) else 0) == 19


class Exact:
    """The rule once more, in exact numbers and fifty digits, with what the floats of the true one may lose as `slack`."""

    def __init__(self, total: Price, slack: Fraction = Fraction(0)) -> None:
        assert total.epsilon is not None
        self.epsilon, self.delta, self.costs, self.slack = total.epsilon, total.delta, list[Cost](), exact(slack)
        self.rho = convert.rho_of(total.epsilon, total.delta / 2)

    def allows(self, new: Cost) -> bool:
        costs = [*self.costs, new]
        if sum(one.delta for one in costs) > self.delta * FOR_FAILURES:
            return False
        if all(one.epsilon is not None for one in costs) and sum(one.epsilon or 0 for one in costs) <= self.epsilon:
            return True
        if exact(sum(one.rho for one in costs)) <= exact(self.rho) - self.slack * len(costs):
            return True
        part = exact(self.delta / 16 / 16)
        return any(sum(self.at(one, 2**k) for one in costs) + self.slack * len(costs) * 2**k
                   <= exact(self.epsilon) + (mpmath.log(part * (2**k - 1)) - 2**k * mpmath.log(1 - mpmath.mpf(2) ** -k)) / (2**k - 1)
                   for k in range(1, 17))

    @staticmethod
    def at(one: Cost, order: int) -> mpmath.mpf:
        return order * exact(one.rho) if one.epsilon is None else renyi_of_pure(one.epsilon, order)


def check_rule(effort: float = 1) -> None:
    """Random customers: what passes, passes exactly, and what would pass with a few billionths to spare does pass."""
    draw, decided = random.Random(5), [0, 0]
    with many_digits():
        for number in range(round(20 * effort)):
            total = Price(epsilon=Fraction(draw.choice([3, 10, 40, 200, 800]), 10), delta=Fraction(1, 10 ** draw.randint(2, 9)))
            strict, loose = Exact(total), Exact(total, Fraction(4, NANO))
            most, spent, small = limit(total), NOTHING, draw.choice([1000, 30, 3])
            for _ in range(25):
                size = Fraction(draw.randint(1, 1000), 4000) * (total.epsilon or 0)
                new = draw.choice([pure(size), pure(size), pure(size, total.delta / 9), concentrated(size / 8 / small / 4)])
                found = most.allows(spent + new.rounded())
                decided[found] += 1
                if found:
                    assert strict.allows(new), (number, new)
                    spent = spent + new.rounded()
                    strict.costs.append(new)
                    loose.costs.append(new)
                else:
                    assert not loose.allows(new), (number, new)
    assert min(decided) > 20 * effort


def test_the_rule_is_that_of_exact_numbers(effort: float) -> None:
    check_rule(effort)


def composed(costs: list[Cost], delta: float) -> float:
    """The least epsilon that an outside accountant finds: the worst of losses, normal noise and randomized response, composed."""
    from dp_accounting.pld import common, privacy_loss_distribution
    together = None
    for one in costs:
        if one.epsilon is None:
            worst = privacy_loss_distribution.from_gaussian_mechanism(
                float(1 / math.sqrt(2 * one.rho)), value_discretization_interval=1e-3)
        else:
            worst = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(float(one.epsilon), 0), value_discretization_interval=1e-3)
        together = worst if together is None else together.compose(worst)
    return float(together.get_epsilon_for_delta(delta)) if together is not None else 0.0


@pytest.mark.parametrize(("epsilon", "delta", "sizes_of"), [(20, 1e-6, (1, 0.0008)), (20, 1e-6, (2, 0.05)), (3, 1e-9, (0.3, 0.0005)),
                                                          (1, 1e-6, (0.1, 1e-4)), (8, 1e-2, (1, 0.01))])
def test_mixtures_that_pass_compose_to_what_was_promised(epsilon: float, delta: float, sizes_of: tuple[float, float]) -> None:
    pytest.importorskip("dp_accounting", reason="the oracle of this test")
    total = Price(epsilon=Fraction(epsilon), delta=Fraction(str(delta)))
    for share in (0.1, 0.5):
        draw, most, spent, costs = random.Random(6), limit(total), NOTHING, list[Cost]()
        for _ in range(200):
            in_rho = draw.random() < share
            new = (concentrated if in_rho else pure)(Fraction(str(sizes_of[in_rho])))
            if not most.allows(spent + new.rounded()):
                break
            spent = spent + new.rounded()
            costs.append(new)
        assert costs and {one.epsilon is None for one in costs} == {True, False}
        assert composed(costs, delta) <= epsilon + 0.001 * len(costs)


def worst_of(most: Limit, epsilon: float, offers: list[tuple[Cost, ...]], by_orders: set[Charge]) -> float:
    """The most that a customer gets who sees every loss and chooses for it: sup of E[(1 - e^(epsilon - loss))+].

    Where a release fails, it tells everything, and the loss is without limit. Every release is a randomized response; some are charged as pure, some in rho, as what would be worse than it is at most
    orders. After each coin the customer picks an offer, or none, so that accounts are left and entered on purpose. What passes by
    orders alone is put into `by_orders`.
    """
    sums = replace(most, renyi=())

    def best(i: int, spent: Charge, loss: float) -> float:
        if i == len(offers):
            return max(0.0, -math.expm1(epsilon - loss))
        found = [best(i + 1, spent, loss)]
        for one in offers[i]:
            after = spent + one.rounded()
            if most.allows(after):
                if not sums.allows(after):
                    by_orders.add(after)
                size = math.sqrt(2 * one.rho)
                high = 1 / (1 + math.exp(-size))
                coin = high * best(i + 1, after, loss + size) + (1 - high) * best(i + 1, after, loss - size)
                found.append(float(one.delta) + (1 - float(one.delta)) * coin)
        return max(found)

    return best(0, NOTHING, 0.0)


def test_no_customer_between_accounts_gets_more_than_delta(effort: float) -> None:
    draw, by_orders = random.Random(7), set[Charge]()
    for _ in range(round(12 * effort)):
        epsilon, delta = Fraction(draw.randint(4, 30), 10), Fraction(draw.choice([4, 20, 90]), 1000)
        offers = [(pure(epsilon / draw.randint(1, 5)), concentrated((epsilon / draw.randint(4, 30)) ** 2 / 2)) for _ in range(6)]
        most = limit(Price(epsilon=epsilon, delta=delta))
        assert worst_of(most, float(epsilon), offers, by_orders) <= float(delta * (FOR_RHO + FOR_ORDERS))
    assert len(by_orders) > 50 * effort


def test_failures_and_accounts_together_are_no_more_than_delta(effort: float) -> None:
    """The worst release of an (epsilon, delta): randomized response, which tells everything with probability delta."""
    draw, by_orders, parts = random.Random(8), set[Charge](), []
    for _ in range(round(8 * effort)):
        epsilon, delta = Fraction(draw.randint(4, 30), 10), Fraction(draw.choice([4, 20, 90]), 1000)
        offers = [(pure(epsilon / draw.randint(1, 5), delta / draw.randint(3, 30)), concentrated((epsilon / draw.randint(4, 30)) ** 2 / 2),
                   pure(epsilon / draw.randint(2, 9))) for _ in range(5)]
        most = limit(Price(epsilon=epsilon, delta=delta))
        parts.append(worst_of(most, float(epsilon), offers, by_orders) / float(delta))
    assert 0.3 < max(parts) <= 1 and {True, False} == {bool(spent.delta) for spent in by_orders}


# -- attacks


def test_failures_are_not_paid_for_by_orders() -> None:
    most, part = limit(TWENTY), MILLIONTH * FOR_FAILURES
    assert most.allows(pure(Fraction(1), part).rounded() + LITTLE)
    assert not most.allows(pure(Fraction(1), part + Fraction(1, ATTO)).rounded() + LITTLE)


def test_no_account_is_left_for_a_fresh_one() -> None:
    """After everything is spent in one account, the others do not begin anew, whatever is asked next."""
    for first in (ONE, LITTLE, pure(Fraction(1, 10)).rounded(), concentrated(Fraction(1, 10)).rounded()):
        most, spent = limit(TWENTY), NOTHING
        while most.allows(spent + first):
            spent = spent + first
        for second in (pure(Fraction(3)).rounded(), concentrated(Fraction(1, 5)).rounded()):
            assert not most.allows(spent + second)
    spent = sum([ONE] * 20, NOTHING)
    assert limit(TWENTY).allows(spent)
    for least in (concentrated(Fraction(1, NANO)), pure(Fraction(1, NANO))):
        assert not limit(TWENTY).allows(spent + least.rounded())


@pytest.mark.parametrize("total", [Price(epsilon=Fraction(1, NANO), delta=Fraction(1, ATTO)),
                                   Price(epsilon=Fraction(1, NANO), delta=Fraction(1, 10))])
def test_the_smallest_budgets_hold_next_to_nothing(total: Price) -> None:
    most = limit(total)
    assert most.allows(NOTHING) and most.allows(pure(Fraction(1, NANO)).rounded())
    assert not most.allows(pure(Fraction(2, NANO)).rounded()) or total.delta == Fraction(1, 10)
    assert not most.allows(ONE) and not most.allows(concentrated(Fraction(1, 10)).rounded())


def test_the_largest_charges_are_counted() -> None:
    """What sqlite can hold, and far more than a price may be: floats neither overflow nor lose the epsilon."""
    for epsilon in (10**12, 10**15 + 1, 2**63 - 1):
        charge = Charge(epsilon=epsilon, rho=epsilon**2, delta=0)
        assert all(epsilon - NANO < found <= epsilon for found in charge.renyi) and not limit(TWENTY).allows(charge)


def test_limits_without_orders_are_not_widened_by_charges_that_have_some() -> None:
    for most in (Limit(epsilon=NANO, rho=None, delta=0), Limit(epsilon=None, rho=NANO, delta=0)):
        assert passed(most, ONE) == (1 if most.epsilon is not None else 2)
        assert passed(most, LITTLE) == (0 if most.rho is None else 1250)


ADA, EVE = Account(budget="main", analyst="ada"), Account(budget="main", analyst="eve")


def charged(ledger: ReportingLedger, account: Account, charge: Charge, mine: Price | None = None) -> bool:
    allows = {None: limit(TWENTY)} | ({account.analyst: limit(mine)} if mine is not None else {})
    try:
        ledger.charge(account, charge, digest="d", data="v", sql="SELECT 1", allows=allows)
    except Refused:
        return False
    return True


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Its file has epsilon, rho and delta of each charge, as ever; costs at orders follow from them when it is opened."""
    ledger = ReportingLedger.create(tmp_path / "old.ledger")
    for charge in (ONE, LITTLE, *[ONE] * 17):
        assert charged(ledger, ADA, charge)
    before = ledger.spent("main")
    ledger.close()
    again = ReportingLedger(tmp_path / "old.ledger")
    assert again.spent("main") == before and again.spent("main").renyi == before.renyi == sum([ONE] * 18, LITTLE).renyi
    assert charged(again, ADA, ONE) and not charged(again, ADA, ONE)
    assert again.spent("main").renyi == sum([ONE] * 19, LITTLE).renyi, "what is refused is not counted"
    again.close()


def test_a_ledger_whose_failures_took_half_of_delta_is_full_not_broken(tmp_path: Path) -> None:
    ledger = ReportingLedger.create(tmp_path / "old.ledger")
    ledger.charge(ADA, pure(Fraction(1), MILLIONTH / 2).rounded(), digest="d", data="v", sql="SELECT 1",
                  allows={None: Limit(epsilon=20 * NANO, rho=4634275775, delta=5 * 10**11)})
    assert not charged(ledger, ADA, ONE) and not charged(ledger, ADA, LITTLE)
    assert epsilon_left(limit(TWENTY), ledger.spent("main")) == 0
    ledger.close()


def test_two_analysts_share_the_total_and_have_limits_of_their_own(tmp_path: Path) -> None:
    ledger = ReportingLedger.create(tmp_path / "two.ledger")
    mine = Price(epsilon=Fraction(12), delta=MILLIONTH)
    assert charged(ledger, ADA, LITTLE, mine) and charged(ledger, EVE, LITTLE, mine)
    counts = [0, 0]
    for _ in range(30):
        for i, account in enumerate((ADA, EVE)):
            counts[i] += charged(ledger, account, ONE, mine)
    assert sum(counts) == 19 and abs(counts[0] - counts[1]) <= 1
    assert ledger.spent("main").renyi == tuple(map(add, ledger.spent("main", "ada").renyi, ledger.spent("main", "eve").renyi))
    ledger.close()
    ledger = ReportingLedger.create(tmp_path / "one.ledger")
    assert charged(ledger, ADA, LITTLE, mine) and sum(charged(ledger, ADA, ONE, mine) for _ in range(30)) == 11
    assert sum(charged(ledger, EVE, ONE, mine) for _ in range(30)) == 8
    ledger.close()


# -- what is told


@given(st.lists(CHARGES, max_size=8), st.sampled_from([*TOTALS, Price(epsilon=Fraction(2)), Price(rho=Fraction(1))]))
def test_what_is_told_to_be_left_is_what_passes(charges: list[Charge], total: Price) -> None:
    most, spent = limit(total), NOTHING
    for charge in charges:
        spent = spent + charge if most.allows(spent + charge) else spent
    for left, made in ((epsilon_left, pure), (rho_left, concentrated)):
        amount = left(most, spent)
        assert not amount or most.allows(spent + made(amount).rounded())
        assert not most.allows(spent + made(amount + Fraction(2, NANO)).rounded())
    assert 0 <= share_spent(most, spent) <= 1
    if charges:
        times = times_left(charges[0], [(most, spent)])
        for count in {0, 1, 2, times, times + 1} if times < 40 else ():
            assert most.allows(sum([charges[0]] * count, spent)) == (count <= times)


# -- faults


def _wrong(owner: object, name: str, wrong: Callable[..., object]) -> Callable[[pytest.MonkeyPatch], None]:
    original = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *args: wrong(original, *args))


FAULTS = {
    "the cost at an order is rounded down, not up": (_wrong(cost, "_below", lambda true, e, a: true(e, a) + 2), check_costs),
    "the exponent 2a - 1 is 2a + 1": (_wrong(cost, "_below", lambda true, e, a: math.floor(NANO / (a - 1) * (
        math.log1p(math.exp(-e / NANO)) - math.log1p(math.exp(-(2 * a + 1) * e / NANO)))) - 1), check_costs),
    "rho is not multiplied by the order": (_wrong(cost, "_renyi", lambda true, e, rho: tuple(
        min(rho, one) for one in true(e, rho))), check_costs),
    "a sum costs what its largest charge does": (_wrong(Charge, "__add__", lambda true, one, other: replace(
        true(one, other), epsilon=max(one.epsilon or 0, other.epsilon or 0))), check_rule),
    "an order's limit is rounded up": (_wrong(convert, "renyi_limit", lambda true, *args: true(*args) + 2), check_limits),
    "an order has all of their part of delta": (_wrong(convert, "renyi_limit", lambda true, a, e, d: true(a, e, 16 * d)), check_limits),
    "an order's limit lacks the factor of delta": (_wrong(convert, "renyi_limit", lambda true, a, e, d: math.floor(e * NANO)),
                                                   check_limits),
    "failures keep half of delta": (lambda patch: patch.setattr(convert, "FOR_FAILURES", Fraction(1, 2)), check_limits),
    "the largest order holds everything": (_wrong(privacy_filter.Limit, "accounts", lambda true, self, spent: [
        *true(self, spent), (spent.renyi[0], self.renyi[-1])]), check_rule),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_the_accounts_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = FAULTS[fault]
    cost._renyi.cache_clear()
    plant(monkeypatch)
    try:
        with pytest.raises(AssertionError):
            check()
    finally:
        monkeypatch.undo()
        cost._renyi.cache_clear()


def test_a_limit_of_an_order_is_monotone() -> None:
    for order in ORDERS:
        found = [renyi_limit(order, Fraction(1), Fraction(1, 10**k)) for k in range(1, 18)]
        assert found == sorted(found, reverse=True)
        assert renyi_limit(order, Fraction(2), MILLIONTH) == renyi_limit(order, Fraction(1), MILLIONTH) + NANO
