"""The corpus for other engines: dpsql passes all of it, and plain DuckDB the cells that no limit changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from corpus.corpus_engines import Dpsql, PlainDuckDB
from corpus.run_corpus import HERE, Answered, Record, fault, records

RECORDS = {path.name: [*records(path)] for path in sorted(HERE.glob("*.test"))}


@pytest.fixture(scope="module")
def ours() -> Dpsql:
    return Dpsql(HERE)


@pytest.mark.parametrize("name", ["limited.test", *(pytest.param(name, marks=pytest.mark.slow) for name in ("accepted.test", "refused.test"))])
def test_dpsql_passes(name: str, ours: Dpsql) -> None:
    assert [(record.place, wrong) for record in RECORDS[name] if (wrong := fault(record, ours.answer))] == []


def test_plain_sql_gives_the_cells_that_no_limit_changes() -> None:
    plain = PlainDuckDB(HERE)
    assert [(record.place, wrong) for record in RECORDS["accepted.test"] if (wrong := fault(record, plain.answer))] == []
    assert all(fault(record, plain.answer) for record in RECORDS["limited.test"][:3])


def test_it_is_large_and_most_sums_have_bounds() -> None:
    answered = [record for found in RECORDS.values() for record in found if record.rows is not None]
    assert len(answered) >= 100 and sum(map(len, RECORDS.values())) >= 250
    assert sum("rows" in record.bounds for record in answered) > len(answered) / 2
    assert sum(len(record.bounds) > 1 for record in answered) > len(answered) / 4


def test_the_runner_is_short_and_needs_only_python(tmp_path: Path) -> None:
    assert len((HERE / "run_corpus.py").read_text(encoding="utf-8").splitlines()) <= 100
    (tmp_path / "nothing.py").write_text("class Nothing:\n    def __init__(self, folder): pass\n    def answer(self, sql): raise SystemExit('asked')\n",
                                         encoding="utf-8")
    made = subprocess.run([sys.executable, "-S", HERE / "run_corpus.py", "nothing:Nothing"], env={"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)
    assert made.stderr == "asked\n"


def test_wrong_cells_bounds_and_refusals_are_found() -> None:
    record = Record("here", "SELECT 1", "rowsort", [["1", "a"], ["2", "NULL"]], ["rows 3"])
    right = [(2, None), (1, "a")]
    assert fault(record, lambda _: Answered(right, {"rows": 3})) == fault(record, lambda _: Answered(right)) == ""
    for wrong in (Answered(right, {"rows": 4}), Answered(right[:1]), Answered([(2, None), (1, "b")]), Answered([(2, None), (1.1, "a")])):
        assert fault(record, lambda _, wrong=wrong: wrong) != ""
    assert fault(Record("here", "SELECT 1", "nosort", record.rows, []), lambda _: Answered(right)) != ""
    assert fault(Record("here", "SELECT 1", "nosort", None, []), lambda _: Answered(right)) == "not refused"
