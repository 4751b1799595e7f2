"""The tables, codes and measures of `synthetic.py`, on a table made by hand."""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from synthetic import AGAIN, Case, Line, recorded, relative, shown, standing
from synthetic_measures import MEASURES, measured
from synthetic_ours import policy_of
from synthetic_peers import PEERS, chosen_peers, codes_of, numbers_of, size_of
from synthetic_tables import DECLARED, BenchColumn, BenchTable, Classes, Regression, fulfilled

ROWS = pd.DataFrame({"age": pd.array([20, 34, 35, 70, 50, 66] * 50, dtype="Int64"), "pay": [0.0, 1.5, 2.5, None, 4.0, 9.75] * 50,
                     "plan": pd.Series(["a", "b", None, "a", "b", "b"] * 50, dtype="str")})
TABLE = BenchTable(
    name="people", rows=ROWS, held=None, delta=Fraction(1, 10**6), rules=("plan IS NULL OR age <> 35", "(age, plan) IN (SELECT (age, plan) FROM real) OR plan IS NULL"),
    classes=Classes(column="plan", when="plan = 'a'"), regression=Regression(target="pay", on=("age",)), columns=(
        BenchColumn(name="age", declared={"range": [18, 99], "nullable": False}, values=tuple(range(18, 100)), low=18, high=99, whole=True),
        BenchColumn(name="pay", declared={"bounds": [0, 10], "nullable": True}, values=(), low=0, high=10, whole=False),
        BenchColumn(name="plan", declared={"values": ["a", "b"], "nullable": True}, values=("a", "b"), low=0, high=0, whole=False)))


def test_rows_come_back_from_their_floats() -> None:
    pd.testing.assert_frame_equal(TABLE.frame(TABLE.real), ROWS)


def test_codes_come_back_as_values_of_the_same_bin() -> None:
    codes = codes_of(TABLE)
    assert [size_of(column) for column in TABLE.columns] == [32, 33, 3] and codes.min() == 0 and list(codes.max(axis=0)) == [20, 32, 2]
    back = numbers_of(TABLE, codes, np.random.default_rng(0))
    assert (np.isnan(back) == np.isnan(TABLE.real)).all()
    assert (np.nanmax(np.abs(back - TABLE.real), axis=0) <= [82 / 32 + 1, 10 / 32, 0]).all()


def test_real_rows_are_off_by_nothing() -> None:
    found = measured(TABLE, ROWS, None)
    assert found == pytest.approx(dict.fromkeys([measure.name for measure in MEASURES if measure.name not in ("AUC", "CPU s", "MB")], 0))


def test_what_is_measured_of_other_rows() -> None:
    drawn = ROWS.assign(pay=ROWS["pay"] + 1, plan="a")
    found = measured(TABLE, drawn, None)
    assert found["means"] == pytest.approx(1 / ROWS["pay"].std(ddof=0) / 2), "one of two numbers is off"
    assert found["quantiles"] == pytest.approx(found["means"]) and found["corr."] == pytest.approx(0) == pytest.approx(found["coef."])
    assert found["1-way"] >= 4 / 6 / 3 and found["broken"] == pytest.approx(4 / 6)


def test_null_fulfils_no_condition() -> None:
    assert fulfilled(TABLE, ROWS, "plan = 'b'").sum() == 150 and fulfilled(TABLE, ROWS, "plan <> 'b'").sum() == 100


def test_the_policy_declares_what_is_public() -> None:
    assert 'pay" = { bounds = [0, 10], nullable = true }' in (told := policy_of(TABLE, Fraction(1, 2), is_pure=False))
    assert "epsilon = 0.5\ndelta = 1e-06" in told and "delta" not in policy_of(TABLE, Fraction(1, 2), is_pure=True)


def test_peers_are_chosen_by_parts_of_their_names() -> None:
    assert chosen_peers(["all"]) == list(PEERS) and [peer.line for peer in chosen_peers(["MST, dpmm"])] == ["MST, dpmm"]


def test_where_a_method_is_behind(tmp_path: Path) -> None:
    lines = (Line(name="auto", means={"1-way": 0.1, "AUC": 0.9, "MB": 200}, errors={"1-way": 0.003}),
             Line(name="mst", means={"1-way": 0.05, "AUC": 0.89, "MB": 90}, errors={"1-way": 0.004}),
             Line(name="MST, dpmm", means={"1-way": 0.2, "MB": 400}), Line(name=AGAIN, means={"1-way": 0.01}), Line(name="aim", failed="refused: no"))
    case = Case(table="people", epsilon="1", about="6 rows", lines=lines)
    told = standing([case], "auto")
    assert ["1-way", "people at 1", ".1000", ".0500", ".0100", "mst"] in [re.split(r" {2,}", line) for line in told.splitlines()]
    assert told.count("people at 1") == 1, "an AUC that is better, less memory than programs"
    assert "people at 1: 6 rows" in shown(case) and "aim: refused: no" in shown(case)
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, (case, Case(table="people", epsilon="1", about="6 rows", lines=(Line(name="auto", means={"1-way": 0.04}),))))))
    found, = recorded(path)
    assert [line.name for line in found.lines] == ["auto", "mst", "MST, dpmm", "aim", AGAIN] and found.lines[0].means == {"1-way": 0.04}


def test_what_is_printed_as_nothing_is_no_better_than_the_least_that_is_not() -> None:
    broken = next(measure for measure in MEASURES if measure.name == "broken")
    assert relative(0.002, 0, broken) == pytest.approx(2) and relative(0, 0, broken) == 1


def test_every_table_says_what_is_asked_of_it() -> None:
    for name, declared in DECLARED.items():
        assert "coded" in declared or {"columns", "classify"} <= set(declared), name
        if "regress" in declared:
            target, _, on = declared["regress"].partition(" ~ ")
            assert {target, *on.split(" + ")} <= set(declared["columns"]), name
