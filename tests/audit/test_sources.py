"""The sources of noise that audits use, and the statement that is compiled once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.sessions import session_of

import dpsql
from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.audit.prepared import Batched, PreparedStatement, Remembering
from dpsql.engine.answering import answer
from dpsql.errors import Unsupported
from dpsql.trusted.noise.source import Secure


def test_exact_adds_nothing_and_takes_the_best() -> None:
    source = Exact()
    assert source.laplace([3, -4], 2.0) == [3, -4] == source.gaussian([3, -4], 2.0)
    assert source.exponential([0.5, 2.0, 2.0], 1.0) == 1 == source.flip([-3, 0, 0], 1.0)
    assert [source.below(end) for end in (1, 2, 5)] == [0, 0, 2]
    assert source.above([3, 1], 2.0, 17) == [3, 1]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_in_batches_is_the_noise_of_every_answer(kind: str) -> None:
    size, times = 3.0, 20_000
    batched, secure = (np.array(getattr(source, kind)([10] * times, size)) for source in (Batched(), Secure()))
    assert abs(batched.mean() - 10) < 6 * batched.std() / times**0.5  # beyond six standard deviations once in 10^9
    edges = np.quantile(secure, np.linspace(0, 1, 9)[1:-1])
    shares = [np.bincount(np.searchsorted(edges, drawn), minlength=8) / times for drawn in (batched, secure)]
    assert np.abs(shares[0] - shares[1]).max() < 6.5 * (2 * 0.25 * 0.75 / times) ** 0.5


def test_pieces_of_a_batch_are_used_once() -> None:
    source = Batched()
    drawn = [source.laplace([0], 1e9)[0] for _ in range(3 * Batched.SIZE)]
    assert len(set(drawn)) > 0.99 * len(drawn)


def test_a_prepared_statement_answers_as_the_engine_does(tmp_path: Path) -> None:
    session = session_of(tmp_path, noise=Exact(), around=Remembering)
    text = "SELECT sex, COUNT(*) AS n, AVG(age) FROM people GROUP BY sex HAVING n > 0 ORDER BY n DESC LIMIT 2"
    made = answer(text, session)
    assert isinstance(made, Answer)
    prepared = PreparedStatement(text, session)
    assert prepared.release() == made == prepared.release()
    assert len(session.ledger.entries("person")) == 1, "only the engine's own answer was charged"
    assert list(prepared.measure().aggregates) == [call.id for call in prepared.program.question.aggregates]


def test_what_is_refused_is_not_prepared(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    with pytest.raises(Unsupported):
        PreparedStatement("SELECT * FROM people", session)
    for text in ("SELECT COUNT(*) FROM clinics", "SHOW BUDGET"):
        with pytest.raises(ValueError, match=r"noise|queries"):
            PreparedStatement(text, session)


def test_no_door_of_dpsql_leads_to_an_audit() -> None:
    """Connections, cursors and the shell neither import the tools of audits nor let anybody choose the noise. The shell alone
    leads to what the owner reads of rows, which no statement reaches."""
    root = Path(dpsql.__file__).parent
    for path in root.rglob("*.py"):
        if "audit" not in path.parts:
            text = path.read_text(encoding="utf-8")
            for owners in ("owner_page", "policy_on_rows", "rows_read"):
                text = text.replace(f"from dpsql.audit.{owners} import", "") if path.parent == root / "cli" else text
            assert "dpsql.audit" not in text, path
    for path in (root / "engine/opening.py", root / "dbapi.py", *(root / "cli").glob("*.py"), *(root / "engine").rglob("*.py")):
        assert "noise=" not in path.read_text(encoding="utf-8"), path
