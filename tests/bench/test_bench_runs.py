"""The benchmarks still run: each with tiny data, once. What they print is for people; no time is asserted."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from support.benches import printed
from support.clusters import needs_spark

SMARTNOISE = Path(tempfile.gettempdir()) / "dpsql-bench"


@pytest.mark.slow
@pytest.mark.long
def test_speed(tmp_path: Path) -> None:
    lines = printed("speed.py", "--rows", 3000, "--runs", 1, "--data", tmp_path)
    assert lines[0] == ["3000 rows: CPU milliseconds, median of 1"]
    named = {line[0] for line in lines[3:]}
    assert {"count", "median by clinic", "clip of totals: sum", "text key: declared limit bites, sum"} <= named
    assert all(float(cell) >= 0 for line in lines[3:] for cell in line[1:4])


@pytest.mark.slow
@pytest.mark.long
def test_candidates() -> None:
    lines = printed("candidates.py", "--runs", 1, "--method", "independent")
    assert [line[0] for line in lines[3:]] == ["weighted", "drawn again", "one", "models", "Liu and Talwar"]


@pytest.mark.slow
@pytest.mark.long
def test_small_statements(tmp_path: Path) -> None:
    lines = printed("small_statements.py", "--rows", 1000, "--runs", 1, "--only", "count", "--data", tmp_path)
    assert lines[0] == ["1000 rows: CPU milliseconds, median of 1"]
    assert [line[:2] for line in lines[3:]] == [[name, limit] for limit in ("1000", "learned") for name in ("count", "count where", "count by year")]
    assert all(float(cell) >= 0 for line in lines[3:] for cell in (*line[2:5], line[6]))


@pytest.mark.slow
@pytest.mark.long
def test_server_rate(tmp_path: Path) -> None:
    for module in ("pygwire", "scramp", "psycopg"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    lines = printed("server_rate.py", "--rows", 1000, "--clients", 2, "--share", 0.02, "--data", tmp_path)
    assert lines[0] == ["1,000 rows, 2 clients, pace none: of all clients together, and each statement"]
    assert [line[0] for line in lines[3:]] == ["new counts", "sums by year", "averages by year", "stored answers"]
    assert all(float(cell.replace(",", "")) >= 0 for line in lines[3:] for cell in line[1:8])


@pytest.mark.slow
@pytest.mark.long
def test_server_soak() -> None:
    for module in ("pygwire", "scramp", "uvicorn", "mcp", "psycopg_pool", "asyncpg"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    lines = printed("server_soak.py", "--minutes", 0.15, "--clients", 8, "--accounts", 2, "--rate", 10, "--every", 2, "--rest", 1)
    assert lines[0] == ["8 clients of 2 accounts for 0.15 minutes: samples, with the requests since the one before"]
    found = dict(line[-1].split(": ", 1) for line in lines[lines.index(["Findings"]) + 1:])
    assert found["statements that failed after a charge"] == "0" and "is intact" in found["the ledger verified"]
    assert int(found["refused or broken, but for typos"].split()[0]) == 0, lines
    everything, = (line for line in lines if line[0] == "all")
    assert int(everything[3].replace(",", "")) > 10


@pytest.mark.slow
@pytest.mark.long
def test_server_day() -> None:
    for module in ("pygwire", "scramp", "sqlalchemy", "psycopg2"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    lines = {line[0]: line[1:] for line in printed("server_day.py", "--openings", 4, "--minutes", 0.1, "--visits", 2000, "--no-baseline")}
    assert lines["dashboards complete"][0] == "4" and lines["charts"][0] == "48" and lines["refused"][0] == "0"
    assert float(lines["dashboard complete, p95 ms"][0]) >= float(lines["dashboard complete, p50 ms"][0]) >= 0


@pytest.mark.slow
@pytest.mark.long
def test_periods(tmp_path: Path) -> None:
    for more in ((), ("--in-any", 30)):
        lines = printed("periods.py", "--years", 1, "--data", tmp_path, *more)
        assert [line[:2] for line in lines[3:]] == [["365", "no"], ["365", "yes"]]
        assert all(float(cell.replace(",", "")) >= 0 for line in lines[3:] for cell in line[2:])


def test_ledger(tmp_path: Path) -> None:
    lines = printed("ledger.py", "--statements", 12, "--threads", 1, 3, "--events", 1500, "--data", tmp_path)
    one, three = (next(line for line in lines if line[0] == threads) for threads in ("1", "3"))
    opened = next(line for line in lines if line[:2] == ["file", "1,500"])
    assert [float(cell) for cell in one[4:]] == [2, 1] and float(three[4]) <= 2, "a sync for each charge, each answer, and one of the anchor"
    assert all(float(cell) >= 0 for cell in opened[2:])


def test_public_files(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    rows = [f"{i},{i // 4},{'NA' if i % 7 == 0 else i / 2},{'ab'[i % 2]}" for i in range(30)]
    (tmp_path / "some" / "visits.csv").write_text("\n".join(["visit,user_id,cost,site", *rows]) + "\n")
    (tmp_path / "some" / "aligned.txt").write_text("\n".join(["   x    y", *(f"{i:5} {i * 11.5:7}" for i in range(30))]) + "\n")
    (tmp_path / "some" / "README.txt").write_text("a,b\n" * 30)
    lines = printed("public_files.py", "--files", tmp_path)
    assert ["about", "1"] in lines and ["all", "2", "2", "100.0 %", "6", "0", "0", "0", "0", "0"] in [line[:10] for line in lines]
    assert lines[-1] == ["----", "-----", "----"], "no difference from pandas"


@pytest.mark.slow
@pytest.mark.long
def test_many_cells() -> None:
    lines = printed("many_cells.py", "--side", 40, "--rows", 3000)
    assert lines[0] == ["3,000 rows: CPU seconds"] and [line[1] for line in lines[3:]] == ["1,600", "100", "1,600", "1,600"]
    assert all(float(cell) >= 0 for line in lines[3:] for cell in line[2:])


@pytest.mark.slow
@pytest.mark.long
def test_scale(tmp_path: Path) -> None:
    lines = printed("scale.py", "--rows", 3000, "--memory", "500MB", "--data", tmp_path)
    assert lines[0] == ["3,000 visits of 300 people, 500MB"] and [line[0] for line in lines[3:]][-1] == "average by clinic"
    assert all(float(cell) >= 0 for line in lines[3:] for cell in line[1:])


@pytest.mark.slow
@pytest.mark.long
def test_growing_stores(tmp_path: Path) -> None:
    lines = printed("growing_stores.py", "--rows", 20_000, "--data", tmp_path)
    found = {line[0]: float(line[3]) for line in lines[3:]}
    assert len(found) == 22 and found["store: people of one day"] < found["files: people of one day"]


@pytest.mark.slow
@pytest.mark.long
def test_dashboards(tmp_path: Path) -> None:
    lines = printed("dashboards.py", "--days", 1, 4, 8, "--people", 200, "--data", tmp_path)
    at = next(i for i, line in enumerate(lines) if line[0].startswith("After 8 days"))
    charts = {line[0]: line for line in lines[at + 3:at + 13]}
    assert len(charts) == 10 and all(line[7].startswith("0 of ") for line in charts.values()), "numbers of the past stay"
    assert all(0 < float(line[4]) <= 3 for name, line in charts.items() if name.startswith("running"))


@pytest.mark.slow
@pytest.mark.long
def test_over_time() -> None:
    lines = printed("over_time.py", "--periods", 64, "--runs", 30)
    found = {line[0]: [float(cell) for cell in line[1:5]] for line in lines[3:7]}
    assert all(told == pytest.approx(measured, rel=0.4) for measured, told, *_ in found.values())
    assert found["square root"][1] < found["Honaker"][1] < found["binary"][1] < found["adding up"][1]


@pytest.mark.slow
@pytest.mark.long
def test_timing() -> None:
    for module in ("pygwire", "scramp", "psycopg"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    lines = printed("timing.py", "--rows", 2000, "--runs", 2, "--only", "condition", "--paces", "none", "20 ms")
    assert [line[0] for line in lines if len(line) == 7] == ["statement", "-" * 13, "one condition"] * 2
    assert all(float(cell) >= 0 for line in lines if line[0] == "one condition" for cell in line[1:3])


@needs_spark
def test_spark(tmp_path: Path) -> None:
    lines = printed("spark.py", "--rows", 3000, "--buckets", 2, "--runs", 1, "--memory", "500MB", "--data", tmp_path)
    assert lines[0] == ["3,000 visits in 2 buckets, local[2]: seconds"] and [line[0] for line in lines[3:]][-1] == "average by clinic"
    assert all(float(cell) >= 0 for line in lines[3:] for cell in line[1:])


@pytest.mark.slow
@pytest.mark.long
def test_accuracy() -> None:
    lines = printed("accuracy.py", "--rows", 2000, "--runs", 3)
    rows = {line[0]: line for line in lines[3:]}
    assert abs(float(rows["a"][2])) < 2000 and float(rows["a"][3]) < 30
    assert len(rows) >= 9


def test_calibration() -> None:
    lines = printed("calibration.py", "--runs", 3, "--statements", 12, "--only", "FROM people")
    assert lines[0] == ["12 statements, 3 runs"]
    everything, = (line for line in lines if line[0] == "all")
    assert int(everything[1]) >= 12 and float(everything[2].split()[0]) > 60
    assert "acs_ma2019.parquet is not in the folder" in " ".join(printed("calibration.py", "--runs", 1, "--only", "FROM acs GROUP BY race")[-1])


@pytest.mark.slow
@pytest.mark.long
def test_startup(tmp_path: Path) -> None:
    lines = printed("startup.py", "--rows", 2000, "--runs", 1, "--data", tmp_path)
    named = [line[0] for line in lines]
    assert "import dpsql" in named and "first answer: undeclared keys" in named and "several aggregates by group" in named


@pytest.mark.slow
@pytest.mark.long
def test_clips() -> None:
    lines = printed("clips.py", "--entities", 300, "--runs", 1)
    assert len(lines) == 3 + 5 * 2 * 2 and lines[3][0] == "lognormal, sigma 2"


@pytest.mark.slow
@pytest.mark.long
def test_distinct() -> None:
    lines = printed("distinct.py", "--entities", 60, "--runs", 2)
    assert lines[0] == ["60 entities, epsilon = 1, 2 runs"] and [line[0] for line in lines[3:]][-1] == "visits.own, no list"
    assert all(float(cell) >= 0 for line in lines[3:] for cell in line[2:5])


def test_degrees(tmp_path: Path) -> None:
    duckdb.sql("SELECT i % 9 AS u, 9 + i % 7 AS v FROM range(60) AS t(i) GROUP BY ALL").write_parquet(str(tmp_path / "us_power.parquet"))
    lines = printed("degrees.py", tmp_path, "--runs", 2, "--only", "us_power")
    assert [line[:5] for line in lines[3:]] == [["us_power", "16", "60", "9", str(limit)] for limit in (8, 16, 32, 64, 128)]


def test_levels(tmp_path: Path) -> None:
    duckdb.sql("SELECT i % 9 AS u, 9 + i % 7 AS v FROM range(60) AS t(i) GROUP BY ALL").write_parquet(str(tmp_path / "us_power.parquet"))
    lines = printed("levels.py", tmp_path, "--runs", 2, "--only", "us_power edges")
    assert lines[1][3:7] == ["r2t", "balance", "removals", "recursive"] and lines[3][:3] == ["us_power", "edges", "60"]
    assert all(float(cell.replace(",", "")) >= 0 for cell in lines[3][3:])


@pytest.mark.slow
@pytest.mark.long
def test_synthetic(tmp_path: Path) -> None:
    duckdb.sql("SELECT i % 3 AS a, i % 2 AS b, i % 6 AS c, i % 5 AS d FROM range(3000) AS t(i)").write_parquet(str(tmp_path / "adult_coded14.parquet"))
    (tmp_path / "adult_coded14.domain.json").write_text('{"a": 3, "b": 2, "c": 6, "d": 5}')
    for price in (("--epsilons", 4), ("--epsilons", "3/2", "--pure")):
        lines = printed("synthetic.py", "--tables", tmp_path, "--no-packages", "--only", "adult,acs", "--runs", 1, "--methods", "auto,independent", *price)
        assert lines[1] == ["1-way", "2-way", "3-way", "CPU s", "MB"]
        found = {line[0]: [float(error) for error in line[1:4]] for line in lines[3:7]}
        assert max(found["auto"]) < 0.05 < found["independent"][1] and set(found) > {"real rows drawn again", "independent columns, exact"}
        assert ["acs: acs_ma2019.parquet is not in the folder"] in lines
        assert [line[:2] for line in lines if line[0] == "2-way"] == [["2-way", "1"]], "it is compared with the other method"


@pytest.mark.slow
@pytest.mark.long
def test_linked() -> None:
    lines = printed("linked.py", "--people", 400, "--most", 400, "--runs", 1, "--epsilons", 8, "--ways", "auto,independent")
    assert lines[1] == ["auto", "independent", "drawn again", "columns apart", "ratio to again", "to apart"]
    found = {line[0]: [float(cell) for cell in line[1:5]] for line in lines[3:12]}
    assert found["visits next row"][0] < found["visits next row"][1] and found["visits fan-out"][3] == 0
    assert any(line[0] == "sd of totals of people" for line in lines)


@pytest.mark.slow
@pytest.mark.long
def test_mwem(tmp_path: Path) -> None:
    sizes = {"sex": 2, "income>50K": 2, "race": 3, "relationship": 3, "marital-status": 2, "education-num": 4, "hours-per-week": 3}
    (tmp_path / "adult_mwempub13.meta.json").write_text(json.dumps({
        "domain": sizes, "workload_3way_256": [["sex", "race", "education-num"], ["income>50K", "race", "hours-per-week"]]}))
    columns = ", ".join(f'(i // {3 + at}) % {size} AS "{name}"' for at, (name, size) in enumerate(sizes.items()))
    duckdb.sql(f"SELECT {columns}, (i % 5 > 0)::INT AS private FROM range(3000) AS t(i)").write_parquet(str(tmp_path / "adult_mwempub13.parquet"))
    for year in (2018, 2019):
        (tmp_path / f"acs_ma{year}.parquet").touch()
    lines = printed("mwem.py", "--data", tmp_path, "--runs", 1, "--parts", "pub,plain,dual", "--epsilons", "4")
    assert [line[0] for line in lines if line[0] in ("0", "0.1", "0.3")] == ["0", "0.1", "0.3"]
    plain, = (line for line in lines if line[:2] == ["4", "marginals"])
    assert all(float(cell.split(" / ")[0]) < 0.02 for cell in plain[2:4])


@pytest.mark.slow
@pytest.mark.long
def test_tpch() -> None:
    lines = printed("tpch.py", "--runs", 2, "--only", "500 with")
    assert lines[1][:4] == ["rows", "groups", "truth", "Laplace"] and len(lines) == 9
    assert all(float(cell.replace(",", "")) >= 0 for line in lines[3:] for cell in line[1:] if cell != "-")


@pytest.mark.skipif(not (SMARTNOISE / "smartnoise").exists(), reason="the environment of smartnoise-sql was not made; see README.md")
def test_against_smartnoise() -> None:
    lines = printed("against_smartnoise.py", "--rows", 2000, "--runs", 1, "--data", SMARTNOISE)
    assert [line[0] for line in lines].count("AVG(income)") == 2
    assert not any("refused" in cell for line in lines for cell in line)


@pytest.mark.slow
@pytest.mark.long
def test_deciders() -> None:
    lines = printed("deciders.py", "--runs", 3, "--rows", 3000, "--draws", 1)
    errors = {line[0]: line for line in lines if len(line) == 6 and line[-1].isdigit()}
    assert float(errors["flip, clip at most"][1]) < float(errors["additive (LM_sum)"][1]) and errors["bands"][-1] == "72"
    assert {"sparse, failures = 5, counts and sums", "COUNT(DISTINCT educ)", "60 checks, sparse"} <= {line[0] for line in lines}


def test_microdata(tmp_path: Path) -> None:
    rows = [(name, "synthetic", i, j, 10_000 if i + max(j, 0) == 0 else 0) for name, height, columns in (("line", 9, (-1,)), ("square", 3, (0, 1, 2)))
            for i in range(height) for j in columns]
    pd.DataFrame(rows, columns=["dataset", "kind", "row", "col", "count"]).to_csv(tmp_path / "microdata_benchmark.csv.gz", index=False)
    lines = printed("microdata.py", tmp_path, "--runs", 3, "--whole")
    assert {tuple(line[:2]) for line in lines[3:33]} == {(name, of) for name in ("line", "square") for of in ("sum", "total", "max")}
    assert all(float(line[3]) >= 0 for line in lines[3:33])
    assert [line[:3] for line in lines[-5:]] == [[method, "6", "0"] for method in ("ols", "nnls", "max_fit", "sequential", "reweight")]


@pytest.mark.long
def test_choices() -> None:
    lines = printed("choices.py", "--rows", 400, "--runs", 2, "--only", "SELECT COUNT(*) FROM people at")
    assert [line[:2] for line in lines[3:]] == [["COUNT(*) FROM people", "epsilon = 1"], ["COUNT(*) FROM people", "rho = 0.1"]]
    assert all(float(line[4]) >= 0 and float(line[5]) >= 0 for line in lines[3:])
