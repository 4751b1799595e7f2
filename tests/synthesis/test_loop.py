"""Synthesize, query, VALIDATE, report: the loop end to end on the demo, as the example does it."""

from __future__ import annotations

import html
import runpy
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.demo.folder import export
from dpsql.validation.report import page

EXAMPLE = Path(__file__).parents[2] / "examples" / "synthetic_loop.py"


@pytest.mark.slow
def test_what_is_decided_of_twenty_answers_is_true_of_nearly_all(tmp_path: Path) -> None:
    shown = runpy.run_path(str(EXAMPLE))
    with dpsql.connect(policy=export(tmp_path / "study"), budget="study", analyst="ada") as con:
        table = con.synthesize(shown["COLUMNS"], name="people_syn", epsilon=1, delta=1e-7)
        made = con.validate(shown["SUITE"], synthetic="people_syn", within="5 PERCENT OR 60", epsilon=2)
        assert len(made.findings) == len(shown["SUITE"]) == 20
        frame = table.df()
    people = duckdb.sql(f"SELECT * FROM '{tmp_path / 'study' / 'people.parquet'}'").df()
    wrong = 0
    for found in made.findings:
        (truth, ours), low, high = (answers(found.query, people, frame), found.low, found.high)
        assert ours == pytest.approx(found.synthetic, rel=1e-3)  # DuckDB's median lies between two values, ours is one of them
        assert html.escape(found.query) in page(made)
        within = all(a <= x <= b for a, x, b in zip(low, truth, high, strict=True))
        wrong += found.decision in ("yes", "no") and (found.decision == "yes") != within
    assert wrong <= 4 and sum(found.decision == "yes" for found in made.findings) >= 8  # one wrong is expected at most


def answers(query: str, people: Any, people_syn: Any) -> list[tuple[float, ...]]:
    """The numbers of a query, of the private rows and of the synthetic ones, in the order of their keys."""
    ordered = f"{query} ORDER BY 1" if "GROUP BY" in query else query
    found = []
    for rows in (people, people_syn):
        with duckdb.connect() as engine:
            engine.register("people", rows)
            found.append(tuple(float(row[-1]) for row in engine.execute(ordered).fetchall()))
    return found


def test_the_example_writes_rows_and_two_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(tmp_path / "out")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    told = capsys.readouterr().out
    assert "what it can be used for" in told and "20 checks:" in told
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["people_syn.csv", "people_syn.html", "validation.html"]
    assert "SELECT AVG(education_years) FROM people WHERE education_years IS NOT NULL" in (tmp_path / "out" / "validation.html").read_text()
