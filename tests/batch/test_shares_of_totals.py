"""Shares of totals: their errors know that a part is in its whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.chances import too_few, too_many
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.batch.workload_plan import with_uncorrelated_errors
from dpsql.engine.batches import batch_of, batch_steps, linear_of
from dpsql.engine.session import Session
from dpsql.engine.single import bound_to
from dpsql.estimates import NoiseTerm, constant
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

SHARES = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) sex, COUNT(*) / SUM(COUNT(*)) OVER () AS part, "
          "100.0 * SUM(age) / SUM(SUM(age)) OVER () AS percent FROM people GROUP BY sex")


def releases(text: str, session: Session, times: int) -> Iterator[Answer]:
    """Answers that nothing is charged for."""
    query = parse(text)
    assert isinstance(query, Query)
    question, options = bound_to(query, session, ())
    made, chosen = batch_of([linear_of(query, question, options, session)], options, session)
    for _ in range(times):
        yield session.kernel._serve(batch_steps(made, chosen, session), made.allotted).answers[0]


@pytest.mark.parametrize(("price", "people"), [("epsilon = 1", 200), ("rho = 0.5", 200), ("epsilon = 1", 12)])
def test_intervals_of_shares_cover_as_often_as_they_say(price: str, people: int, tmp_path: Path, effort: float) -> None:
    reader, text, times = reader_of(dense(people=people)), SHARES.format(price), round(240 * effort)
    (tmp_path / "true").mkdir()
    true, = releases(text, session_of(tmp_path / "true", reader=reader, noise=Exact(), at={"epsilon": 900, "delta": 1e-6}), 1)
    hits, squares = 0, list[float]()
    for made in releases(text, session_of(tmp_path, reader=reader), times):
        for row, errors, intervals, truth in zip(made.rows, made.errors, made.intervals, true.rows, strict=True):
            for value, error, ends, known, most in zip(row[1:], errors[1:], intervals[1:], truth[1:], (1, 100), strict=True):
                if value is None:  # the noisy total is 0
                    continue
                assert isinstance(value, float) and isinstance(known, float) and error is not None and ends is not None
                assert 0 <= ends[0] <= ends[1] <= most
                hits += ends[0] - 1e-9 <= known <= ends[1] + 1e-9
                squares.append(((value - known) / error) ** 2)
    assert not too_few(hits, len(squares), 0.93)
    if people > 100:
        assert not too_many(hits, len(squares), 0.98)
        assert 0.55 < np.mean(squares) < 1.8  # of so few runs, whose errors are shared by all rows


def test_pieces_have_the_covariances_of_the_errors() -> None:
    """Also where one is a multiple of another, and where a cell has none."""
    weights = [np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[2.0, 0.0], [0.0, 0.0]])]
    a, b, c = with_uncorrelated_errors([0, 2, 5], [constant(np.zeros(2))] * 3, weights, NoiseTerm(kind="normal", scale=1.0))
    assert np.allclose(a.deviations, [1, 0]) and np.allclose(b.deviations, [5**0.5, 3])
    assert np.allclose((a + b).deviations, [8**0.5, 3]) and np.allclose((c - a * 2.0).deviations, 0, atol=1e-6)
    assert np.allclose((a - b).deviations, [2, 3])
