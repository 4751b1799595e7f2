"""Coarser versions of columns of numbers: which values they merge, that they are counted so, and what they let through."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.coded_tables import Coded, Places

from dpsql.audit.exact import Exact
from dpsql.budgets.convert import rho_of
from dpsql.frozen import replace
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.coarser_versions import LEVELS, grouped, with_levels
from dpsql.synthesis.method import with_coarser
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.marginal_requests import candidates, noise_for
from dpsql.synthesis.methods.mst import SpanningTree
from dpsql.trusted.accounting.cost import concentrated
from dpsql.trusted.measurements.noisy_sums import NoisySums

DOMAIN = TableDomain(("x", "y", "kind"), (60, 50, 3))


def rows(count: int = 5000) -> Places:
    """y follows x, but for some noise; the kind is that of the third of x."""
    draws = np.random.default_rng(7)
    x = np.minimum(draws.exponential(12, count).astype(int), 59)
    y = np.clip(x * 4 // 5 + draws.integers(-4, 5, count), 0, 49)
    return np.stack([x, y, np.minimum(x // 10, 2)], axis=1)


def ordered(exact: bool = False) -> Coded:
    made = Coded(DOMAIN, rows(), noise=Exact() if exact else None)
    made.table = replace(made.table, columns=tuple(replace(one, ordered=one.name != "kind") for one in made.table.columns))
    return made


def test_groups_are_consecutive_and_have_about_equally_many_rows() -> None:
    draws = np.random.default_rng(0)
    for _ in range(300):
        counts = draws.exponential(100, draws.integers(2, 120)) * draws.choice([0, 1, 10], 1)[0] + draws.normal(0, 5, 1)
        most = int(draws.integers(1, 40))
        found = grouped(counts, most)
        assert found[0] == 0 and set(np.diff(found)) <= {0, 1} and found[-1] < most
    assert len(set(grouped(np.ones(64), 16))) == 16 and set(np.bincount(grouped(np.ones(64), 16))) == {4}


def test_a_value_that_many_rows_share_stays_apart() -> None:
    counts = np.array([5.0, 5, 900, 5, 5, 40, 40])
    for most in (4, 6):
        found = grouped(counts, most)
        assert (found == found[2]).sum() == 1


@pytest.mark.parametrize("counts", [{}, {"x": np.r_[5000.0, np.zeros(59)], "y": np.ones(50)}], ids=["unknown", "one value"])
def test_versions_are_counted_as_the_values_that_they_merge(counts: dict[str, np.ndarray]) -> None:
    made = ordered(exact=True)
    leveled = with_levels(made.table, counts)
    assert {one.of.split(" in ")[0] for one in leveled.coarser} <= {"x", "y"} and leveled.coarser
    wide = with_coarser(DOMAIN, rows(), leveled.coarser)
    names = [*DOMAIN.columns, *(one.name for one in leveled.coarser)]
    context = made.kernel._context()
    for one in leveled.coarser:
        assert len(one.values) <= max(LEVELS)
        columns = (one.name, "kind")
        request = NoisySums(plan=leveled.levels.plan(columns), cells=leveled.levels.cells(columns), noises=(noise_for(leveled, concentrated(Fraction(1))),))
        own, certificates, _ = made.kernel._certified(request)
        counted = np.array(made.kernel._look(own, certificates, context).totals[0][0]).reshape(len(one.values), 3)
        expected = np.zeros_like(counted)
        np.add.at(expected, (wide[:, names.index(one.name)], rows()[:, 2]), 1)
        assert (counted == expected).all()
        merged = leveled.impossible[one.of, one.name]
        assert (merged.sum(axis=1) == len(one.values) - 1).all()


def test_null_stays_by_itself_and_values_are_merged_in_their_order() -> None:
    made = ordered().table
    shuffled = np.random.default_rng(1).permutation(60).tolist()
    column = replace(made.columns[0], values=(*shuffled[:30], None, *shuffled[30:]))
    first = with_levels(replace(made, columns=(column, *made.columns[1:])), {}).coarser[0]
    assert first.values[-1] is None and first.merged.count(len(first.values) - 1) == 1 and first.merged[30] == len(first.values) - 1
    numbers = [(value, group) for value, group in zip(column.values, first.merged, strict=True) if value is not None]
    assert [group for _, group in sorted(numbers)] == sorted(group for _, group in numbers)


def test_pairs_are_tried_in_each_version_and_more_columns_in_the_coarsest() -> None:
    task = ordered().task(concentrated(Fraction(1, 10)))
    task = replace(task, table=with_levels(task.table, {}))
    tried = [each.columns for each in candidates(task, 10**6)]
    assert tried[:3] == [("x",), ("y",), ("kind",)] and {("x", "y"), ("x in 15 parts", "y in 13 parts")} <= set(tried)
    assert [each for each in tried if len(each) == 3] == [("x in 4 parts", "y in 4 parts", "kind")]
    assert {each.weight for each in candidates(task, 10**6) if len(each.columns) == 2} == {2}


@pytest.mark.parametrize("method", [AdaptiveMarginals(), SpanningTree()], ids=["aim", "mst"])
def test_numbers_that_go_together_stay_together(method: AdaptiveMarginals | SpanningTree) -> None:
    """At this price noise hides the 3,000 cells of the pair; without versions, most of the correlation is lost."""
    found = {}
    for name, made in (("versions", ordered()), ("values", Coded(DOMAIN, rows()))):
        model = made.measured(method, concentrated(rho_of(Fraction(1), Fraction(1, 10**6)))).model
        drawn = model.draw(5000, np.random.default_rng(0))[:, [model.domain.columns.index(column) for column in ("x", "y")]]
        found[name] = np.corrcoef(drawn.T)[0, 1]
    real = np.corrcoef(rows()[:, :2].T)[0, 1]
    assert real > 0.9 and found["versions"] > 0.6
