"""What kind of answer a statement gets does not depend on private rows: the same on neighbours, and on no rows at all.

Without noise, a statement must be answered on all of these databases or refused on all; with the same error, to the letter; with
the same columns; with the same groups where they are declared; for the same charge. Nothing may fail after the charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.laws import extremes
from support.sections import sections
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident
from dpsql.frozen import Frozen


def listed(name: str) -> list[str]:
    return [text.replace("OPTIONS", "WITH DIFFERENTIAL_PRIVACY OPTIONS", 1) for text in LISTS[name]]


LISTS = sections(Path(__file__).with_name("outcomes.sql"))
NUMBERS = listed("NUMBERS")
STATEMENTS: list[tuple[str, str]] = [
    *(("declared", f"SELECT COUNT({e}), SUM(LEAST(GREATEST({e}, -5), 5)), COUNT({f}), SUM(LEAST(GREATEST({f}, 1), 2)) "
       "FROM things") for e, f in zip(NUMBERS[::2], NUMBERS[1::2], strict=True)),
    *(("declared", f"SELECT b, COUNT(*) FILTER (WHERE NOT ({e})) FROM things WHERE ({e}) IS NOT TRUE GROUP BY b")
      for e in listed("TRUTHS")),
    *((name.lower(), text) for name in ("DECLARED", "FLOATING", "REFUSED") for text in listed(name)),
]


class Outcome(Frozen, kw_only=False):
    """What an analyst sees of a statement, apart from numbers that noise would hide."""

    kind: str
    text: str
    charge: tuple[int | None, int, int]
    groups: tuple[tuple[Any, ...], ...] = ()


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    """Databases with nobody, with ordinary people, and with the odd person among them."""
    made = {}
    for name, tame, odd in (("others", 40, False), ("and the odd one", 40, True), ("nobody", 0, False)):
        made[name] = session_of(tmp_path_factory.mktemp("ledger"), reader=extremes.database(tame=tame, odd=odd), noise=Exact(),
                                policy=extremes.POLICY, at={"epsilon": 0.5, "delta": 1e-4})
        answer("SELECT COUNT(*) FROM people", made[name])  # so that the whole budget is too much, whatever else has run
    yield made
    for session in made.values():
        session.close()


def outcome(text: str, session: Session, *, groups: bool) -> Outcome:
    before = session.ledger.spent("person")
    kind, said, shown = "answer", "", ()
    try:
        made = answer(text, session)
        assert isinstance(made, Answer)
        said = str([(column.name, column.type, column.exact) for column in made.columns])
        keys = [i for i, column in enumerate(made.columns) if column.exact]
        shown = tuple(tuple(row[i] for i in keys) for row in made.rows) if groups else ()
    except Error as fault:
        kind, said = type(fault).__name__, f"{fault} {fault.as_dict()}"
    after = session.ledger.spent("person")
    charge = after.epsilon - before.epsilon if after.epsilon is not None and before.epsilon is not None else None
    return Outcome(kind, said, (charge, after.rho - before.rho, after.delta - before.delta), shown)


def test_there_are_enough_statements() -> None:
    assert len({text for _, text in STATEMENTS}) >= 180


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["declared", "floating", "refused"])
def test_the_outcome_of_a_statement_is_the_same_whoever_is_in_the_database(kind: str, family: dict[str, Session], effort: float) -> None:
    """Every second statement is tried with the usual effort, and each with twice as much."""
    broken = []
    for text in [text for one, text in STATEMENTS if one == kind][::max(1, round(0.5 / effort))]:
        seen = {name: outcome(text, session, groups=kind == "declared") for name, session in family.items()}
        expected = seen["others"]
        if any(found != expected for found in seen.values()):
            broken.append(f"{text}\n" + "\n".join(f"    {name}: {found}" for name, found in seen.items()))
        elif expected.kind == Incident.__name__:
            broken.append(f"{text}\n    fails after the charge, whatever the data")
        elif (expected.kind == "answer") == (kind == "refused"):
            broken.append(f"{text}\n    {expected.kind}: {expected.text}")
        elif expected.kind != "answer" and any(expected.charge):
            broken.append(f"{text}\n    is refused and charged {expected.charge}")
    assert not broken, "\n".join(broken)


def test_a_key_that_cannot_be_read_as_itself_would_be_caught(family: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.trusted.plan.operators.grouped_sums.all_readable", lambda columns: "")
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups = 7) seen, COUNT(*), AVG(x) FROM things GROUP BY seen"
    seen = {outcome(text, session, groups=False).kind for session in family.values()}
    assert seen == {"answer", "Incident"}
