"""A table of very many groups that are all alike, so that one answer is a sample of very many answers; and its neighbours, all at once.

In one database every group has one entity more than in the other. The two are no neighbours; but what is released of a group rests
on that group alone, so a pair of groups is what neighbours show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from support.policies import policy_of
from support.sessions import open_ledger, session_of

import dpsql
from dpsql.audit.prepared import PreparedStatement, Remembering
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.dbapi import Connection
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger

Numbers = NDArray[np.float64]
CELLS = 50_000
TABLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, cell INTEGER, amount DOUBLE, note VARCHAR)"
CONCENTRATED = """
[budgets.concentrated]
entity = "person"
rho = 1000
delta = 0.1
"""


class Alike(Frozen, kw_only=False):
    """`cells` groups, each with rows of these amounts; `note` is the same in a group, so that it is a key that is not declared.

    Only every `step`-th group has the last of them: with 2, neighbours differ in one of every two groups.
    """

    amounts: tuple[float, ...]
    cells: int = CELLS
    step: int = 1

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(TABLE)
        for i, amount in enumerate(self.amounts):
            last = i == len(self.amounts) - 1
            connection.execute(f"INSERT INTO people SELECT {i * self.cells} + c, c, {amount}, 'note ' || c FROM range({self.cells}) t(c) "
                               f"WHERE c % {self.step if last else 1} = 0")

    @property
    def policy(self) -> str:
        return policy_of("people", f"""
cell = {{ range = [0, {self.cells - 1}] }}
amount = {{ bounds = [0, 100], decimals = 0 }}
note = {{}}
""", CONCENTRATED, price="epsilon = 1000\ndelta = 0.1")

    def prepared(self, text: str, folder: Path, noise: Any = None) -> PreparedStatement:
        """A statement over these groups, to be released many times."""
        folder.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(":memory:", config={"threads": 1})
        self.fill(connection)
        lock_down(connection)
        return PreparedStatement(text, session_of(folder, reader=DuckReader(connection, "v"), around=Remembering, policy=self.policy,
                                                  ledger=open_ledger(folder), noise=noise))

    def connected(self, folder: Path, **more: Any) -> Connection:
        """A connection, as anybody opens one."""
        folder.mkdir(parents=True)
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            self.fill(connection)
        (folder / "dpsql.toml").write_text(self.policy, encoding="utf-8")
        ReportingLedger.create(folder / "dpsql.ledger").close()
        return dpsql.connect(folder / "people.duckdb", **({"budget": "person", "analyst": "ada"} | more))
