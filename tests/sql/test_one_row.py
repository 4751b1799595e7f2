"""A row of the table of functions is all there is to add: each row is checked here as it stands, and toy rows in a copy of the package."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from support import worlds
from support.binding import Bench, bench, printed, table
from support.function_table import WRITTEN
from support.golden.comparison import as_carried
from support.laws.asked import SCRATCH
from support.laws.bad_worlds import KINDS
from support.laws.family import Family, catalog
from support.laws.law import violations

from dpsql.errors import Unsupported
from dpsql.sql.binding.binding_context import BindingContext, Names
from dpsql.sql.binding.relations import QueryBinder
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

ROOT = Path(__file__).parents[2]
SOURCE = "people JOIN visits USING (person_id)"
WAYS = [(name, way) for name, written in WRITTEN.items() for way in written]


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.world(7, people=25)) as made:
        yield made


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_what_is_printed_gives_what_duckdb_gives_for_what_is_written(a_bench: Bench, name: str, way: str) -> None:
    query = f"SELECT {way} AS x FROM {SOURCE}"
    try:
        expected = a_bench.plain.execute(as_carried(query)).fetchall()
    except duckdb.Error:
        expected = None
    node, (column,), _ = a_bench.relation(query)
    ours = a_bench.plain.execute(f'SELECT t."{column}" FROM ({printed(node)}) AS t').fetchall()  # which may not raise
    if expected is not None and name in ("acos", "asin"):  # as other functions, these are NULL where they are not defined
        expected = [(None,) if value is not None and math.isnan(value) else (value,) for value, in expected]
    assert expected is None or table(ours) == table(expected)


@pytest.mark.parametrize("world", KINDS)
def test_functions_move_no_more_rows_than_is_claimed(world: str) -> None:
    family = Family(KINDS[world](5), name=world, tame=world == "tame")
    query = parse("SELECT " + ", ".join(f"{way} AS x{i}" for i, (_, way) in enumerate(WAYS)) + f" FROM {SOURCE}")
    assert isinstance(query, Query)
    queries = QueryBinder()
    context = BindingContext(catalog=catalog("person"), public=family.kernel, scratch=SCRATCH, parameters={}, queries=queries)
    broken = violations((queries.relation(query.tree, context, Names()).node,), "person", family)
    family.close()
    assert [f"{found.claim}: {found.detail}" for found in broken] == []


# -- toy rows

TOYS = {
    "asinh": '_row(_real("asinh({0})", iv.monotone(math.asinh)), "asinh(cost)")',  # a node of sqlglot
    "even": '_row(_real("even({0})"), "even(cost)")',  # which sqlglot knows by name only
    "hypot": '_row((Overload(args=(DOUBLE, DOUBLE), result=DOUBLE, sql="sqrt(({0} * {0}) + ({1} * {1}))"),), '
             '"hypot(cost, age)")',  # of two arguments, and none of DuckDB's
    "unicode": '_row(_text("CAST(unicode({0}) AS BIGINT)", result=BIGINT, rule=iv.constant(-1, 2**21)), '
               '"unicode(note)", "ord(note)")',
}
CHECKS = ["tests/grammar/test_readme.py", "tests/sql/test_one_row.py", "tests/sql/test_border.py", "tests/plan/expr/test_totality.py"]
ALWAYS = ("files_say", "words_for_hints", "more_rows", "reached", "every_function_is_tried")


def test_toys_are_not_functions(a_bench: Bench) -> None:
    for name in TOYS:
        with pytest.raises(Unsupported):
            a_bench.bind(f"SELECT COUNT(*) FROM {SOURCE} WHERE {name}(cost) IS NULL")


@pytest.mark.slow
def test_one_row_adds_a_function(tmp_path: Path) -> None:
    for name in ("dpsql", "grammar", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))  # with what is compiled
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "dpsql/trusted/plan/expr/functions.py"
    rows = "".join(f'    "{name}": {row},\n' for name, row in TOYS.items())
    path.write_text(path.read_text().replace("    # text\n", rows + "    # text\n", 1))
    assert run(tmp_path, "-m", "tests.support.function_table").split() == ["expr.lark", "is", "written", "anew", "README.md", "is", "written", "anew"]
    assert re.search(r"^NUMBER_FUNCTION: .*ASINH.*EVEN", (tmp_path / "grammar/expr.lark").read_text(), re.MULTILINE)
    assert "| `hypot` | `hypot(cost, age)` | DOUBLE, DOUBLE → DOUBLE |  |" in (tmp_path / "grammar/README.md").read_text()
    told = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not spark", *CHECKS, "-k",
               f"not test_toys and not test_one_row_adds and ({' or '.join((*TOYS, *ALWAYS))})")
    assert int(re.search(r"(\d+) passed", told)[1]) >= 2 * len(TOYS) + len(ALWAYS)  # type: ignore[index]
    path.write_text(path.read_text().replace("CAST(unicode({0}) AS BIGINT)", "unicode({0})"))  # which is an INTEGER
    with pytest.raises(AssertionError, match="FAILED.*more_rows"):
        run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", CHECKS[1], "-k", "more_rows")


def run(folder: Path, *args: str) -> str:
    """What a program says that runs in a copy."""
    done = subprocess.run([sys.executable, *args], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
