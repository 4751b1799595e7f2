"""What stands in a plan as a text and is printed as SQL is one of a closed set of texts: no plan, whoever made it, reads other tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.sessions import session_of

from dpsql.engine.session import Session
from dpsql.trusted.plan.expr.nodes import Cast, Expr, Literal
from dpsql.trusted.plan.expr.printing import to_sql
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import ExactAggregate, Statistics
from dpsql.trusted.plan.operators.window import Frame, Window, WindowFunction
from dpsql.types import Type

OTHER = "(SELECT COUNT(*) FROM people)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("forged"))
    yield made
    made.close()


def scan(session: Session) -> Scan:
    return Scan(table=session.catalog.tables["clinics"], columns=(("c", "clinic"), ("b", "beds")))


def cast(target: str) -> Expr:
    return Cast(type=Type.DOUBLE, input=Literal(type=Type.BIGINT, value=1), target=target)


def forged(kind: str, below: Scan) -> Any:
    match kind:
        case "cast":
            return Project(input=below, columns=(("x", "x", cast(f"DECIMAL(9)) + {OTHER} + greatest(1, 0 , CAST(1 AS DOUBLE)")),))
        case "set operation":
            word = f"union all select 'x', {OTHER} union all"
            return SetOperation(left=below, right=below, kind=word, all=False, columns=(("x", "x"), ("y", "y")))  # type: ignore[arg-type]
        case "aggregate":
            return Statistics(input=below, keys=(), calls=(ExactAggregate(id="n", function=f"{OTHER} + COUNT", columns=("b",)),))
        case "window":
            part = WindowFunction(id="w", name="w", function=f"row_number() OVER () + {OTHER} + rank", column=None)  # type: ignore[arg-type]
            return Window(input=below, partition=(), order=(), ties=(), functions=(part,))
        case "frame":
            part = WindowFunction(id="w", name="w", function="sum", column="b", frame=Frame(
                rows=True, start=f"{OTHER}", end=0))  # type: ignore[arg-type]
            return Window(input=below, partition=(), order=(), ties=("c",), functions=(part,))
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["cast", "set operation", "aggregate", "window", "frame"])
def test_a_forged_text_is_never_printed(kind: str, session: Session) -> None:
    try:
        plan = forged(kind, scan(session))
    except Exception:
        return  # it cannot be made at all
    for read in (lambda: session.kernel.public_rows(plan), lambda: session.kernel.fanout(plan, ())):
        with pytest.raises(Exception) as caught:
            read()
        assert "cannot be read" not in str(caught.value), "the engine has seen it"


def test_public_rows_of_known_forms_are_read(session: Session) -> None:
    below = scan(session)
    made = Statistics(input=below, keys=("c",), calls=(ExactAggregate(id="n", function="sum", columns=("b",), type=Type.BIGINT),))
    assert sorted(session.kernel.public_rows(made)) == [("a", 10), ("b", 20), ("c", 5), ("d", None)]
    assert session.kernel.public_rows(Project(input=below, columns=(("x", "x", cast("DECIMAL(9,2)")),))) == [(1.0,)] * 4


def test_a_target_of_a_cast_is_a_type() -> None:
    for target in ("DECIMAL(9,2))", "DECIMAL(9,2", "DECIMAL(9,2)\n", "decimal(9,2)", "DOUBLE)", "DECIMAL(１,2)"):
        with pytest.raises(ValueError, match="type of the engine"):
            to_sql(cast(target), {})
