"""What a statement moves by when a database deletes a person, beside what was claimed: over snapshots from before and after."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from support.laws.asked import plans_of, view_of
from support.laws.family import Salt
from support.postgres import Postgres, fresh

import dpsql
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.policy import read_policy
from dpsql.catalog.schema import fit
from dpsql.engine.opening import open_reader
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.parse import parse
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.plan.certificate import certify
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums


class Source:
    """A database of a kind, `postgresql` or `sqlite`, and a policy for it."""

    def __init__(self, kind: str, folder: Path, *statements: str) -> None:
        self.policy, self.file = folder / "dpsql.toml", folder / "source.sqlite"
        self.database: Postgres | None = fresh() if kind == "postgresql" else None
        self.uri = self.database.uri if self.database is not None else "sqlite:///source.sqlite"
        self.run(*statements)

    def run(self, *statements: str) -> None:
        if self.database is not None:
            self.database.run(*statements)
            return
        with contextlib.closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("PRAGMA foreign_keys = ON")
            for sql in statements:
                connection.execute(sql)

    def declare(self, text: str) -> None:
        self.policy.write_text(f'version = 1\ndatabase = "{self.uri}"\n{text}', encoding="utf-8")

    def refresh(self) -> None:
        dpsql.refresh(policy=self.policy)

    @contextlib.contextmanager
    def opened(self) -> Iterator[DuckReader]:
        self.refresh()
        with contextlib.closing(open_reader(read_policy(self.policy), None)) as reader:
            assert isinstance(reader, DuckReader)
            yield reader

    def total(self, text: str) -> tuple[int, float]:
        """The exact value of a statement of one total, and by how much it is claimed that one person moves it."""
        with self.opened() as reader:
            kernel = Kernel(reader, Salt())  # type: ignore[arg-type]
            policy = read_policy(self.policy)
            catalog = fit(policy, next(iter(policy.budgets)), reader.schema(), lambda *_: [])
            question = bind(parse(text), catalog, kernel, DuckScratch(), {})  # type: ignore[arg-type]
            plan = next(plan for plan in plans_of(question, SimpleNamespace(kernel=kernel), view_of(question))  # type: ignore[arg-type]
                        if isinstance(plan, GroupedSums))
            claimed = certify(plan, kernel).summands[0].l1
            assert claimed is not None
            rows = reader.rows(kernel._context().query(plan)[0])
            return int(rows[0][-1]) if rows else 0, float(claimed)
