"""Figures of speed: what is recorded, what the comparison fails on, and whether the guides quote what is recorded."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pytest

from dpsql.frozen import replace
from dpsql.guides import page

sys.path.insert(0, str(Path(__file__).parent))
import bench_results
from bench_clock import Time
from bench_results import Figure, Line, add_arguments, conclude, read, shown

BEFORE = [Figure(line=name, ours=Time(cpu=ours, wall=ours), base=Time(cpu=base, wall=base))
          for name, ours, base in (("count", 0.2, 0.1), ("median", 0.6, 0.2), ("tiny", 0.004, 0.001), ("sum", 0.3, 0.1))]
QUOTED = (  # a page, what it says, and the figure whose seconds these are
    ("owner", r"for 200 million \(two processors, 2 GB\), preparing took (\d+) s", ("scale", 200_000_000, "prepare")),
    ("owner", r"and a `MEDIAN` then (\d+) s", ("scale", 200_000_000, "median")),
)


class Bench:
    """A benchmark that measures these figures, one list in each run."""

    def __init__(self, path: Path) -> None:
        self.path = path / "results.jsonl"
        self.left: list[list[Figure]] = []

    def measure(self) -> list[Figure]:
        return shown("Some", ("statement", "ratio"), [Line([figure.line, f"{figure.ratio:.1f}"], (figure,)) for figure in self.left.pop(0)])

    def __call__(self, *runs: list[Figure], how: str, size: int = 1000, only: str = "") -> None:
        self.left = [*runs]
        parser = argparse.ArgumentParser()
        parser.add_argument("--only", default="")
        add_arguments(parser)
        conclude(self.measure, "speed", size, parser.parse_args([*how.split(), "--results", str(self.path), "--only", only]))
        assert self.left == [], "a run that was not needed"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(bench_results, "commit", lambda: "abc123def")  # tests also run where there is no git
    made = Bench(tmp_path)
    made(BEFORE, how="--record")
    return made


def slower(by: float, line: str = "median", all_by: float = 1) -> list[Figure]:
    """The figures, one of them slower by a factor, on a machine that is slower by another one."""
    factors = {figure.line: by if figure.line == line else 1.0 for figure in BEFORE}
    return [replace(figure, ours=Time(cpu=figure.ours.cpu * factors[figure.line] * all_by, wall=1.0),
                    base=Time(cpu=figure.base.cpu * all_by, wall=1.0)) for figure in BEFORE]


def fails(bench: Bench, *runs: list[Figure]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench(*runs, how="--compare")
    assert ended.value.code == 1


def test_worse_by_24_percent_passes(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench(slower(1.24), how="--compare")
    assert capsys.readouterr().out.endswith("speed at size 1,000: 4 lines compared, 0 worse.\n")


def test_worse_by_26_percent_twice_fails_with_a_table(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    fails(bench, slower(1.26), slower(1.3))
    said = [re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()]
    row, = (line for line in said if line[:2] == ["median", "the plain query"])
    assert row[2:7] == ["3.00", "3.78", "3.90", "600.0", "756.0"]
    assert row[8] == "abc123def"
    assert said[-1] == ["speed at size 1,000: 4 lines compared, 1 worse."]


def test_worse_once_passes(bench: Bench) -> None:
    bench(slower(1.4), slower(1.2), how="--compare")
    bench(slower(1.4), slower(1.4, "sum"), how="--compare")


@pytest.mark.parametrize("pace", [0.3, 4])
def test_machines_may_differ(bench: Bench, pace: float) -> None:
    bench(slower(1.2, all_by=pace), how="--compare")
    fails(bench, slower(1.3, all_by=pace), slower(1.3, all_by=pace))


def test_a_baseline_that_was_fast_by_chance_is_no_loss(bench: Bench) -> None:
    lucky = [replace(figure, base=Time(cpu=figure.base.cpu / 2, wall=1.0)) if figure.line == "count" else figure for figure in BEFORE]
    bench(lucky, how="--compare")


def test_few_milliseconds_are_not_judged(bench: Bench) -> None:
    bench(slower(1.7, "tiny"), how="--compare")
    fails(bench, slower(1.8, "tiny"), slower(1.8, "tiny"))


def test_new_and_missing_lines_are_told(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    found = [replace(BEFORE[0], line="new"), replace(BEFORE[1], beside="GROUP BY entity"), *BEFORE[2:]]
    bench(found, how="--compare")
    said = capsys.readouterr().out
    assert "speed at size 1,000, not recorded yet: new; median.\n" in said
    assert "speed at size 1,000, recorded, but not measured: count; median.\n" in said and "2 lines compared, 0 worse" in said


def test_faster_lines_are_told(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench(slower(0.7), how="--compare")
    assert "faster than recorded: record them, or they may be lost unnoticed: median.\n" in capsys.readouterr().out


def test_only_some_lines(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    kept = read(bench.path)
    bench(BEFORE[1:2], how="--compare", only="med")
    assert "not measured" not in capsys.readouterr().out
    bench(slower(0.5)[1:2], how="--record", only="med")
    assert [(record.line, record.ratio) for record in read(bench.path)] == [("count", 2), ("median", 1.5), ("sum", 3), ("tiny", 4)]
    assert [record for record in kept if record.line != "median"] == [record for record in read(bench.path) if record.line != "median"]


def test_records_of_a_size_are_replaced_and_others_stay(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench(BEFORE[:2], how="--record", size=20)
    bench(slower(1.5)[:2], how="--record")
    assert [(record.size, record.line, record.ratio) for record in read(bench.path)] == [
        (20, "count", 2), (20, "median", 3), (1000, "count", 2), (1000, "median", 4.5)]
    said = capsys.readouterr().out
    assert "worse than recorded by more than 25 %" in said, "whoever records sees what is lost"


def test_nothing_is_measured_if_nothing_can_be_compared(bench: Bench) -> None:
    with pytest.raises(SystemExit, match=r"results.jsonl has no figures of speed at size 7: record them first, with --record"):
        bench(how="--compare", size=7)


@pytest.mark.parametrize(("text", "error"), [
    ("<<<<<<< HEAD", "line 2: JSON is malformed"), ('{"bench": "speed"}', "line 2: Object missing required field `size`"),
    ('{"bench": "speed", "size": 1, "line": "count", "beside": "x", "ratio": 0}', r"line 2: Expected `float` > 0.0 - at `\$.ratio`"),
    (None, "line 2: count of speed at size 1,000 occurs twice"),
])
def test_a_broken_file_is_named(bench: Bench, text: str | None, error: str) -> None:
    first = bench.path.read_text(encoding="utf-8").splitlines()[0]
    bench.path.write_text(f"{first}\n{text or first}\n", encoding="utf-8")
    for how in ("--compare", "--record"):
        with pytest.raises(SystemExit, match=f"results.jsonl, {error}"):
            bench(how=how)


def test_without_a_wish_figures_are_only_printed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    kept = bench.path.read_text(encoding="utf-8")
    capsys.readouterr()
    bench(slower(3), how="")
    assert bench.path.read_text(encoding="utf-8") == kept and "recorded" not in capsys.readouterr().out


def test_the_job_runs_every_benchmark_that_takes_part() -> None:
    job = (bench_results.PROJECT / ".ci" / "speed").read_text(encoding="utf-8")
    taking_part = {path.name for path in Path(__file__).parent.glob("*.py") if re.search(r"^    add_arguments\(", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert set(re.findall(r'^run (\w+\.py) .*"\$how"$', job, re.MULTILINE)) == taking_part - {Path(__file__).name}
    assert {record.bench + ".py" for record in read(bench_results.RESULTS)} <= taking_part


def test_the_recorded_figures_can_be_read_and_are_sorted() -> None:
    keys = [record.key for record in read(bench_results.RESULTS)]
    assert keys == sorted(keys)


@pytest.mark.parametrize(("topic", "pattern", "key"), QUOTED)
def test_guides_quote_what_is_recorded(topic: str, pattern: str, key: tuple[str, int, str]) -> None:
    """Within a tenth. As long as no figure of this size is recorded, only that the guide still quotes one."""
    said = re.search(pattern, re.sub(r"\s+", " ", page(topic)))
    assert said is not None, "a figure is quoted in other words: change them here too"
    for record in read(bench_results.RESULTS):
        assert record.key != key or abs(record.wall_ms / 1000 / float(said[1]) - 1) < 0.1, record
