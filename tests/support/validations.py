"""Sessions over one table of whole numbers, and validations of them that can be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from support.policies import policy_of
from support.repeating import Repeating
from support.sessions import open_ledger, scratch
from support.worlds import insert

from dpsql.audit.prepared import Remembering
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import price
from dpsql.catalog.schema import fit
from dpsql.engine.session import Session
from dpsql.engine.validating import validation
from dpsql.sql.text.statement import Validate
from dpsql.validation.calls import statement_of
from dpsql.validation.findings import Validation


class Validated:
    """A VALIDATE statement that is planned once and decided many times. Nothing is charged, so its decisions are not private."""

    def __init__(self, statement: Validate, session: Session, synthetic: Mapping[str | None, Any] | None = None) -> None:
        self.session = session
        self.plan = validation(statement, session, (), synthetic)

    def decide(self) -> Validation:
        made: Validation = self.session.kernel._serve(self.plan.steps(), self.plan.allotted)
        return made


@lru_cache(maxsize=64)
def filled(rows: tuple[tuple[int | None, str], ...]) -> duckdb.DuckDBPyConnection:
    """A locked database of these values and groups, which nothing writes to."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, v INTEGER, g VARCHAR)")
    insert(connection, "m", [(i, *row) for i, row in enumerate(rows)])
    lock_down(connection)
    return connection


def session_over(values: Sequence[int | None], folder: Path, *, low: int = 0, high: int = 15, groups: Sequence[str] = (),
                 noise: Any = None) -> Session:
    """A private table m (id, v, g) of these values."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = filled(tuple(zip(values, groups or "a" * len(values), strict=True)))
    policy = policy_of("m", f"""
v = {{ bounds = [{low}, {high}], decimals = 0 }}
g = {{ values = ["a", "b"] }}
""", entity="row", budget="row", price="epsilon = 1000\ndelta = 0.01")
    reader, declared = DuckReader(connection.cursor(), "v1"), parse_policy(policy)
    catalog, book = fit(declared, "row", reader.schema(), lambda *_: []), open_ledger(folder)
    return Session(catalog=catalog, budget=declared.budgets["row"], analyst="ada", kernel=Repeating(Remembering(reader), book, noise),
                   ledger=book, scratch=scratch(), price=price(epsilon=1))


def synthetic(values: Sequence[int | None], groups: Sequence[str] = ()) -> pd.DataFrame:
    return pd.DataFrame({"id": range(len(values)), "v": pd.array(list(values), dtype="Int64"),
                         "g": list(groups) or ["a"] * len(values)})


def validated(queries: Sequence[str] | str, at: Session, frame: pd.DataFrame, within: object, **options: Any) -> Validated:
    texts = [queries] if isinstance(queries, str) else list(queries)
    statement, brought = statement_of(texts, frame, within, options)
    return Validated(statement, at, brought)
