"""The mutants are the changes that are meant, they are put in the place of what runs, and every survivor that is explained still exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants.__main__ import ROOMS, explained, report
from mutants.mutations import ROOT, Mutant, mutants_of, mutated, sites
from mutants.planted import plant
from mutants.trials import forked

from dpsql.trusted.noise import sparse_vector
from dpsql.trusted.noise.sparse_vector import sparse_cost

TEXT = '''
"""1 < 2: text, and no code."""
LIMIT = 2**10

def kept(rows: list[int], most: int = 3, *, wide: bool = False) -> str:
    """More than 0 rows."""
    if most < 1 or not rows:
        raise ValueError(f"{1 + most} rows")
    note(rows)
    return f"SELECT x FROM t WHERE (a < {min(rows) - 1} AND b)" if wide else ", ".join(str(-row) for row in rows if row >= most)
'''
CHANGES = {
    ("2 ** 10", "2 * 10"), ("2", "3"), ("10", "11"), ("3", "4"), ("False", "True"), ("most < 1", "most <= 1"), ("1", "0"), ("not rows", "rows"),
    ("most < 1 or not rows", "most < 1 and (not rows)"), ("most < 1 or not rows", "(most < 1 or not rows, False)[1]"), ("note(rows)", "nothing"),
    ("wide", "not wide"), ("'SELECT x FROM t WHERE (a < '", "'SELECT x FROM t WHERE (a <= '"), ("min(rows) - 1", "min(rows) + 1"),
    ("' AND b)'", "' OR b)'"), ("min(rows)", "max(rows)"), ("-row", "row"), ("row >= most", "row > most"), ("row >= most", "(row >= most, True)[1]")}


def test_each_piece_of_code_is_changed_and_texts_for_people_are_not() -> None:
    found = set()
    for site in sites(ast.parse(TEXT)):
        made = ast.unparse(ast.fix_missing_locations(site.change(site.node)))
        found.add((ast.unparse(site.node), "nothing" if made.startswith("if ().__len__()") else made))
    assert {pair for pair in found if "ValueError" not in pair[0]} == CHANGES
    assert {other for text, other in found if "ValueError" in text} == {"nothing"}


@pytest.mark.parametrize("room", ROOMS)
def test_every_mutant_can_be_compiled_and_differs(room: str) -> None:
    path = max((ROOT / "dpsql" / room).glob("*.py"), key=lambda path: path.stat().st_size)
    text = ast.unparse(ast.parse(path.read_text(encoding="utf-8")))
    for mutant in mutants_of(path)[::25]:
        other = mutated(mutant)
        compile(other, str(path), "exec")
        assert ast.unparse(other) != text


def test_a_mutant_runs_in_the_place_of_the_code_in_a_copy_of_the_process_alone() -> None:
    mutant, = (one for one in mutants_of(Path(sparse_vector.__file__)) if one.original == "most * own / Fraction(scale_query)" and one.kind == "operator")
    assert mutant.mutated == "most * own * Fraction(scale_query)"

    def differs() -> int:
        assert plant(mutant)
        return int(sparse_cost(1, 1, 1.0, 2.0).epsilon == 3)

    assert forked(differs, 20.0) == "killed"
    assert sparse_cost(1, 1, 1.0, 2.0).epsilon == 1.5
    assert forked(lambda: 0, 5.0) == "survived"
    assert forked(endless, 0.2) == "timed out"


def endless() -> int:
    while True:
        pass


def test_every_survivor_that_is_explained_is_a_mutant_and_has_a_reason() -> None:
    known = explained()
    for path in {path for path, *_ in known}:
        unknown = {key for key in known if key[0] == path} - {mutant.key for mutant in mutants_of(ROOT / path)}
        assert unknown == set()
    assert [key for key, why in known.items() if len(why.split()) <= 3] == []


def test_a_survivor_without_a_reason_is_reported() -> None:
    known = dict(zip(("path", "function", "original", "mutated"), next(iter(explained())), strict=True))
    record = {**known, "ended": "survived", "room": "noise", "line": 1, "kind": "constant"}
    assert "1 survivors are explained; 0 are not" in [*report([record])]
    assert any("7  ->  8" in line for line in report([{**record, "original": "7", "mutated": "8"}]))
    assert any("; 0 are not" in line for line in report([{**record, "ended": "killed"}]))


def test_a_mutant_tells_its_room() -> None:
    mutant = Mutant(path="dpsql/trusted/plan/operators/scan.py", number=0, kind="", function="", line=1, lines=(1, 1), original="", mutated="", at_import=False)
    assert mutant.room == "trusted/plan/operators"
