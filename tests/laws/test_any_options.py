"""Whatever options a statement is given, it is refused before the charge or it is answered: nothing fails in between.

A fault that shows only after the charge costs an analyst the price for nothing, so everything that can be known from the text,
the policy and public tables must be found before. Each accepted statement is tried with prices at both ends of what may be
asked, with every mechanism, and with limits that bite, on databases with many, few and no rows.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from support import worlds
from support.golden.dense import dense
from support.laws.texts import HOUSEHOLD, TEXTS
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement, Remembering
from dpsql.engine.answering import answer
from dpsql.engine.batches import batch_of, batch_steps, linear_of
from dpsql.engine.session import Session
from dpsql.engine.single import bound_to
from dpsql.errors import Error
from dpsql.mechanisms.all_mechanisms import NAMES
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.planning.explain import Explanation
from dpsql.sql.text.parse import parse
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Query

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "tests/golden/answers.sql", ROOT / "tests/golden/subqueries.sql", ROOT / "grammar/accepted.sql")
CLAUSE = re.compile(r"WITH\s+DIFFERENTIAL_PRIVACY\s*(OPTIONS\s*\([^()]*\))?", re.IGNORECASE)
PRICES = ("epsilon = 1e-9", "epsilon = 1e-9, delta = 1e-18", "epsilon = 0.5, delta = 1e-6", "epsilon = 999",
          "epsilon = 999, delta = 0.1", "rho = 1e-9", "rho = 0.5, delta = 1e-9", "rho = 900, delta = 0.1",
          "epsilon = 1e-5, delta = 0.1", "epsilon = 0.3, delta = 1e-18")
OTHERS = (*(f"bound = '{bound.name}'" for bound in BOUNDS), "bound = 'extension', clip = 3", "bound = 'extension', clip = 1e9",
          "bound = 'reservoir', clip = 2, max_groups = 2", "bound = 'frequency', max_frequency = 2", "clip = 1", "clip = 1e9",
          "clip = 1e-6", "max_rows = 1", "max_rows = 1000000", "max_groups = 1", "max_groups = 1000", "confidence = 0.999999",
          "confidence = 0.5",
          *(f"mechanism = '{name}'" for name in (*NAMES, *RULES)))
POLICY = worlds.POLICY.replace("delta = 0.01", "delta = 0.1")


def texts() -> list[tuple[str, str]]:
    """Statements that begin with SELECT, without options of their own, and the budgets that they are asked under."""
    found = [*TEXTS, *(text for path in FILES for text in split(path.read_text(encoding="utf-8")))]
    plain = [text for text in found if text.upper().startswith("SELECT") and isinstance(query := parse(text), Query)
             and not query.parameters and not query.goals]
    return [("person", CLAUSE.sub("", text)) for text in plain] + [("household", text) for text in HOUSEHOLD]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, bool], Session]:
    made = {}
    for name, world in (("many", dense(people=120)), ("few", worlds.world(people=12)),
                        ("none", worlds.World({"clinics": list(worlds.CLINICS)}))):
        reader = Remembering(reader_of(world))
        for budget in ("person", "household"):
            for exact in (True, False):
                made[name, budget, exact] = session_of(tmp_path_factory.mktemp(name), reader=reader, budget=budget, policy=POLICY,
                                                       noise=Exact() if exact else None)
    return made


def measured_together(text: str, session: Session) -> None:
    """The answers of a statement that is a workload of one; nothing is charged."""
    query = parse(text)
    assert isinstance(query, Query)
    question, options = bound_to(query, session, ())
    if question.aggregates:
        made, chosen = batch_of([linear_of(query, question, options, session)], options, session)
        session.kernel._serve(batch_steps(made, chosen, session), made.allotted).as_json()


@pytest.mark.slow
def test_no_combination_of_options_fails_after_the_charge(sessions: dict[tuple[str, str, bool], Session], effort: float) -> None:
    draw, asked, answered = random.Random(7), texts(), 0
    for _ in range(int(450 * effort)):
        budget, text = draw.choice(asked)
        options = [draw.choice(PRICES), *draw.sample(OTHERS, draw.choice([0, 1, 1, 2]))]
        text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({', '.join(options)}) {text[6:]}"
        session = sessions[draw.choice(["many", "few", "none"]), budget, draw.random() < 0.5]
        try:
            prepared = PreparedStatement(text, session)
        except Error:
            continue
        except ValueError as fault:
            assert any(word in str(fault) for word in ("public tables", "workload", "several programs")), text
            if "workload" not in str(fault):
                continue
            prepared = None
        try:
            if prepared is None:
                measured_together(text, session)
            else:
                prepared.release().as_json()
        except Error as fault:
            assert prepared is None, (text, fault)  # a workload is refused before anything is asked
            continue
        except Exception as fault:
            raise AssertionError(f"{text} fails after the charge") from fault
        assert isinstance(answer("EXPLAIN PRIVACY " + text, session), Explanation)
        answered += 1
    assert answered > 130 * effort
