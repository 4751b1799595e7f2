"""Synthetic tables of `synthetic.py` by dpsql: CREATE SYNTHETIC TABLE over a file, with a policy that declares what is public."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import bench_clock  # noqa: F401  nothing that a benchmark makes is noted as served
import pandas as pd
from synthetic_tables import BenchTable

from dpsql.frozen import Frozen

POLICY = """
version = 1
[entities.row]
table = "rows"
key = "row_id"
[tables.rows]
source = "rows.parquet"
key = "row_id"
[tables.rows.columns]
row_id = {{}}
{columns}
[budgets.main]
entity = "row"
{price}
"""


class Run(Frozen, eq=False):
    """One table that was drawn, with the CPU seconds and the megabytes of memory it took; or why there is none."""

    drawn: pd.DataFrame | None = None
    cpu: float = 0.0
    mb: float = 0.0
    failed: str = ""


def by_statement(table: BenchTable, method: str, epsilon: Fraction, *, is_pure: bool) -> Run:
    """One table by the statement, in a process of its own."""
    options: dict[str, Any] = {"epsilon": float(epsilon)} | ({} if is_pure else {"delta": float(table.delta)}) | {"method": method}
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        table.rows.assign(row_id=range(len(table.rows))).to_parquet(Path(folder, "rows.parquet"))
        Path(folder, "dpsql.toml").write_text(policy_of(table, epsilon, is_pure=is_pure), encoding="utf-8")
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            return pool.submit(_synthesized, folder, [column.name for column in table.columns], options).result()


def policy_of(table: BenchTable, epsilon: Fraction, *, is_pure: bool) -> str:
    columns = "\n".join(f"{json.dumps(column.name)} = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in column.declared.items())} }}"
                        for column in table.columns)
    return POLICY.format(columns=columns, price=f"epsilon = {float(epsilon)!r}" + ("" if is_pure else f"\ndelta = {float(table.delta)!r}"))


def _synthesized(folder: str, columns: list[str], options: dict[str, Any]) -> Run:
    import dpsql
    from dpsql.trusted.kernel.ledger import Ledger

    Ledger.create(Path(folder, "dpsql.ledger")).close()
    start = time.process_time()
    with dpsql.connect(policy=Path(folder, "dpsql.toml"), budget="main", analyst="bench") as connection:
        listed = ", ".join(f'"{name}"' for name in columns)
        try:
            drawn = connection.synthesize(f"SELECT {listed} FROM rows", name="drawn", **options).df()
        except dpsql.Error as error:
            return Run(failed="refused: " + str(error).splitlines()[0])
    return Run(drawn=drawn, cpu=time.process_time() - start, mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
