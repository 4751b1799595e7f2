"""The recorded figures of speed, and the comparison with them.

`results.jsonl` has one line for each figure, with the commit and the date: those of the last recorded run of each benchmark at
each size. Earlier ones are in the history of the file, where every change of a figure is a line:

    git log -p -U0 -- tests/bench/results.jsonl | grep '^+.*"line": "median by clinic"'

A figure is a ratio: the CPU time of dpsql over that of a baseline in the same run. A line is worse only if its time exceeds, by 25 %
and by 3 milliseconds, the larger of two expectations: the recorded ratio times its baseline now, and the recorded time scaled by the
median change of all baselines of the run. The second one helps where the baseline of a line takes few milliseconds, and happened to
be fast. A benchmark fails if a line is worse in two runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from bench_clock import Time, milliseconds, table

from dpsql.frozen import Frozen, asdict

PROJECT = Path(__file__).parents[2]
RESULTS = PROJECT / "tests" / "bench" / "results.jsonl"
LIMIT, FLOOR = 1.25, 0.003  # a line is worse if it takes more than this many times what is expected, and so many seconds more
PLAIN = "the plain query"
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Figure(Frozen):
    """What a benchmark measured for one line: times of dpsql, and of what the ratio is to."""

    line: str
    ours: Time
    base: Time
    beside: str = PLAIN

    @property
    def ratio(self) -> float:
        return self.ours.cpu / self.base.cpu


class Record(Frozen):
    """A line of the file: the ratio of CPU times; for information, milliseconds of both, and wall time of dpsql."""

    bench: str
    size: int
    line: str
    beside: str
    ratio: Positive
    ms: Positive
    beside_ms: Positive
    wall_ms: Positive
    runs: int
    date: str
    commit: str

    @property
    def key(self) -> tuple[str, int, str]:
        return self.bench, self.size, self.line


class Line(Frozen, kw_only=False):
    """A line of a table that a benchmark prints, and what of it is recorded."""

    cells: list[str]
    figures: tuple[Figure, ...] = ()


def shown(title: str, heads: Sequence[str], lines: Iterable[Line]) -> list[Figure]:
    """Print a table, and return its figures."""
    made = list(lines)
    print(table(title, heads, [line.cells for line in made]))
    return [figure for line in made for figure in line.figures]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--record", action="store_true", help="write the ratios to the file of results")
    either.add_argument("--compare", action="store_true", help="fail if a ratio is 25 %% worse than recorded, in two runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="another file of results")


def conclude(measure: Callable[[], list[Figure]], bench: str, size: int, given: argparse.Namespace) -> None:
    """Measure, and record or compare the figures if that was asked for. With `--only`, lines that were not chosen stay as they are."""
    kept = read(given.results)
    before = {record.line: record for record in kept if (record.bench, record.size) == (bench, size)}
    if given.compare and not before:
        raise SystemExit(f"{given.results} has no figures of {bench} at size {size:,}: record them first, with --record")
    at = commit() if given.record else ""
    found = measure()
    if not (given.record or given.compare):
        return
    if getattr(given, "only", ""):
        before = {line: record for line, record in before.items() if line in {figure.line for figure in found}}
    if given.record:
        made = [recorded(figure, bench, size, getattr(given, "runs", 1), at) for figure in found]
        write(given.results, [*made, *(record for record in kept if record not in before.values())])
        print(f"{bench} at size {size:,}: {len(found)} lines recorded.")
    if given.compare or before:
        compare(found, before, measure, f"{bench} at size {size:,}", fails=given.compare)


def compare(found: Sequence[Figure], before: Mapping[str, Record], again: Callable[[], list[Figure]], title: str, *, fails: bool) -> None:
    """Print how figures differ from the recorded ones. If lines are worse also when all is measured again, exit with code 1."""
    worse, repeated = worse_lines(found, before), {}
    if worse and fails:
        print(f"{title}, worse than recorded: {'; '.join(worse)}. All is measured again.\n")
        repeated = {figure.line: figure for figure in again()}
        worse = [line for line in worse if line in worse_lines(list(repeated.values()), before)]
    now = {figure.line: figure for figure in found if comparable(figure, before)}
    if worse:
        print(table(f"{title}: worse than recorded by more than {(LIMIT - 1) * 100:.0f} %",
                    ("line", "beside", "recorded", "now", "again", "ms recorded", "ms now", "of", "commit"),
                    [compared(now[line], repeated.get(line), before[line]) for line in worse]))
    for said, lines in {
        "not recorded yet": [figure.line for figure in found if not comparable(figure, before)],
        "recorded, but not measured": [line for line in before if line not in now],
        "faster than recorded: record them, or they may be lost unnoticed": faster_lines(found, before),
    }.items():
        if lines:
            print(f"{title}, {said}: {'; '.join(lines)}.")
    print(f"{title}: {len(now)} lines compared, {len(worse)} worse.")
    if worse and fails:
        raise SystemExit(1)


def compared(now: Figure, again: Figure | None, before: Record) -> list[str]:
    return [now.line, now.beside, f"{before.ratio:.2f}", f"{now.ratio:.2f}", f"{again.ratio:.2f}" if again else "", f"{before.ms:.1f}",
            milliseconds(now.ours.cpu), before.date, before.commit]


def comparable(figure: Figure, before: Mapping[str, Record]) -> bool:
    """Whether this line is recorded with a ratio to the same baseline."""
    return figure.line in before and before[figure.line].beside == figure.beside


def worse_lines(found: Sequence[Figure], before: Mapping[str, Record]) -> list[str]:
    return [figure.line for figure, low, high in expected(found, before)
            if figure.ours.cpu > LIMIT * high and figure.ours.cpu > high + FLOOR]


def faster_lines(found: Sequence[Figure], before: Mapping[str, Record]) -> list[str]:
    return [figure.line for figure, low, high in expected(found, before)
            if LIMIT * figure.ours.cpu < low and figure.ours.cpu + FLOOR < low]


def expected(found: Sequence[Figure], before: Mapping[str, Record]) -> list[tuple[Figure, float, float]]:
    """Figures that are recorded, each with the smaller and the larger of the CPU seconds that the record leads one to expect."""
    pairs = [(figure, before[figure.line]) for figure in found if comparable(figure, before)]
    if not pairs:
        return []
    pace = statistics.median(figure.base.cpu / record.beside_ms for figure, record in pairs)
    both = [(figure, record.ratio * figure.base.cpu, record.ms * pace) for figure, record in pairs]
    return [(figure, min(times), max(times)) for figure, *times in both]


def read(path: Path) -> list[Record]:
    """The recorded figures. A file that is not as `write` left it is refused by its name and the number of the line."""
    found: dict[tuple[str, int, str], Record] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), start=1):
        try:
            record = msgspec.json.decode(text, type=Record)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise SystemExit(f"{path}, line {number}: {error}") from None
        if record.key in found:
            raise SystemExit(f"{path}, line {number}: {record.line} of {record.bench} at size {record.size:,} occurs twice")
        found[record.key] = record
    return list(found.values())


def write(path: Path, records: Iterable[Record]) -> None:
    """Write the records, sorted, so that a changed figure is a changed line."""
    lines = [json.dumps(asdict(record), ensure_ascii=False) for record in sorted(records, key=lambda record: record.key)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def recorded(figure: Figure, bench: str, size: int, runs: int, commit: str) -> Record:
    return Record(bench=bench, size=size, line=figure.line, beside=figure.beside, ratio=rounded(figure.ratio),
                  ms=rounded(figure.ours.cpu * 1000), beside_ms=rounded(figure.base.cpu * 1000), wall_ms=rounded(figure.ours.wall * 1000),
                  runs=runs, date=f"{datetime.now(UTC):%Y-%m-%d}", commit=commit)


def rounded(number: float) -> float:
    return float(f"{number:.4g}")


def commit() -> str:
    """The commit that is checked out, with a plus sign if files other than the results were changed since."""
    def git(*words: str) -> str:
        ended = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"Figures are recorded with their commit, but git says: {ended.stderr.strip()}")
        return ended.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{RESULTS.relative_to(PROJECT)}")
    return git("rev-parse", "--short=9", "HEAD") + "+" * bool(changed)
