"""What synthetic tables are good for, by method, beside other programs: counts, numbers, models, rules, seconds and memory.

    python tests/bench/synthetic.py --tables ../shared/data --epsilons .1,1,10 --runs 3 --peers all --data bench-data
    python tests/bench/synthetic.py --only mroz,slid --methods auto,mst --peers dpmm SDV

Tables of real rows are declared in `synthetic_tables.toml`, with public bounds: Adult and the ACS of Massachusetts, from the folder of
--tables, coded and with their numbers, and tables that packages of Python ship. Each row is an entity. Our methods are asked as a user
would ask them, by CREATE SYNTHETIC TABLE with a policy of these bounds. Other programs (`synthetic_peers.py`) get the same rows and the
same (epsilon, delta). Their environments, and what they drew, are kept in the folder of --data. Every run has a process of its own.
With --record, results are added to a file; --recorded prints all that were, such as earlier ones of programs beside new ones of ours.

`synthetic_measures.py` says what is measured. Cells are means of the runs. For comparison: as many real rows drawn again, with
replacement; and each column by itself, exactly. The last tables say where `auto` is behind.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
from bench_clock import table as printed
from synthetic_measures import MEASURES, Classifier, Measure, measured
from synthetic_ours import Run, by_statement
from synthetic_peers import PEERS, by_peer, chosen_peers, environment
from synthetic_tables import DECLARED, BenchTable, read_table

from dpsql.frozen import Frozen, replace

OURS = "auto", "aim", "mst", "privbayes", "independent"
CLOSE = 1.03  # times the best is as good as the best
AGAIN, APART = "real rows drawn again", "independent columns, exact"
NOT_PRIVATE = {AGAIN, APART, *(peer.line for peer in PEERS if not peer.private)}
PUBLISHED = {
    ("adult", "1"): (("MST, mbi 2.0.0", ".0087 .0553 .1197", "19", "1040"),
                     ("MST, dpmm 0.1.9, 10,000 iterations", ".0094 .0585 .1260", "80", "230"),
                     ("AIM, dpmm 0.1.9, 28 rounds, 1 MB", ".0104 .0441 .0972", "43", "242"),
                     ("AIM, dpmm 0.1.9, 56 rounds, 4 MB", ".0096 .0386 .0863", "140", "253"),
                     ("PrivBayes with a network, dpmm 0.1.9", ".0235 .0738 .1396", "45", "231"),
                     ("PrivBayes, DataSynthesizer, of twice epsilon", ".0529 .1210 .1971", "37", "306")),
    ("adult", "1/10"): (("MST, mbi 2.0.0", ".0621 .1689 .2893", "", ""),),
    ("adult", "10"): (("MST, mbi 2.0.0", ".0061 .0495 .1115", "", ""),),
}


class Line(Frozen):
    """The means of the measures of some runs of one method, and the standard errors of these means; or why there are none."""

    name: str
    means: dict[str, float] = {}
    errors: dict[str, float] = {}
    failed: str = ""


class Case(Frozen):
    """A table at an epsilon."""

    table: str
    epsilon: str
    about: str
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        return f"{self.table} at {self.epsilon}"

    def best(self, measure: Measure, among: Collection[str]) -> Line | None:
        found = [line for line in self.lines if line.name in among and measure.name in line.means]
        return (min if measure.best == "least" else max)(found, key=lambda line: line.means[measure.name]) if found else None


def line_of(name: str, table: BenchTable, runs: Iterator[Run], classifier: Classifier | None) -> Line:
    """The means of some runs; the first one that fails is the last."""
    found: list[dict[str, float]] = []
    for run in runs:
        if run.drawn is None:
            return Line(name=name, failed=run.failed)
        found.append(measured(table, run.drawn, classifier) | {"CPU s": run.cpu, "MB": run.mb})
    numbers = {each: np.array([one[each] for one in found]) for each in found[0]}
    return Line(name=name, means={each: float(np.mean(those)) for each, those in numbers.items()}, errors={
        each: float(np.std(those, ddof=1) / len(those) ** 0.5) for each, those in numbers.items() if len(those) > 1})


def references(table: BenchTable, classifier: Classifier | None) -> Iterator[Line]:
    """The real rows drawn again, and columns by themselves."""
    draws = np.random.default_rng(0)
    again = table.real[draws.integers(0, len(table.real), len(table.real))]
    apart = np.stack([draws.permutation(column) for column in table.real.T], axis=1)
    for name, floats in ((AGAIN, again), (APART, apart)):
        yield Line(name=name, means=measured(table, table.frame(floats), classifier))


def compared(table: BenchTable, epsilon: Fraction, chosen: argparse.Namespace, classifier: Classifier | None) -> Iterator[Line]:
    for method in chosen.methods.split(","):
        runs = (by_statement(table, method, epsilon, is_pure=chosen.pure) for _ in range(chosen.runs))
        yield line_of(method, table, runs, classifier)
    for peer in chosen_peers(chosen.peers):
        runs = (by_peer(table, peer, epsilon, seed, chosen.data, chosen.patience) for seed in range(chosen.runs))
        yield line_of(peer.line, table, runs, classifier)


def shown(case: Case, published: Sequence[tuple[str, str, str, str]] = ()) -> str:
    """The table of a case, with the measures that it has, and what failed below it."""
    used = [measure for measure in MEASURES if any(measure.name in line.means for line in case.lines)]
    rows = [[line.name, *(short(line.means[measure.name], measure) if measure.name in line.means else "" for measure in used)]
            for line in case.lines if line.means]
    for name, errors, seconds, mb in published:
        told = dict(zip(("1-way", "2-way", "3-way"), errors.split(), strict=True)) | {"CPU s": seconds, "MB": mb}
        rows.append([f"published: {name}", *(told.get(measure.name, "") for measure in used)])
    failed = "".join(f"{line.name}: {line.failed}\n" for line in case.lines if line.failed)
    return printed(f"{case.name}: {case.about}", ["", *(measure.name for measure in used)], rows) + failed


def short(number: float, measure: Measure) -> str:
    return f"{number:.{measure.decimals}f}".replace("0.", ".", 1) if abs(number) < 1 and measure.decimals > 1 else f"{number:.{measure.decimals}f}"


def standing(cases: Sequence[Case], ours: str) -> str:
    """Where a method is behind all other private ones, measure by measure; what programs take is compared with other programs only."""
    counts, behind = list[list[str]](), list[list[str]]()
    programs = [peer.line for peer in PEERS if peer.private]
    for measure in MEASURES:
        first = close = 0
        ratios = list[float]()
        for case in cases:
            others = [line.name for line in case.lines if line.name not in NOT_PRIVATE and line.name != ours]
            mine, best = case.best(measure, [ours]), case.best(measure, programs if measure.of_programs else others)
            if mine is None or best is None:
                continue
            one, other = mine.means[measure.name], best.means[measure.name]
            ratio = relative(one, other, measure)
            ratios.append(ratio)
            first, close = first + (ratio <= 1), close + (1 < ratio <= CLOSE)
            if ratio > CLOSE:
                noise = 2 * np.hypot(*(line.errors.get(measure.name, np.nan) for line in (mine, best)))
                behind.append([measure.name, case.name, *(short(each, measure) for each in (one, other)), "" if np.isnan(noise) else short(noise, measure), best.name])
        if ratios:
            counts.append([measure.name, str(len(ratios)), str(first), str(close), str(len(ratios) - first - close),
                           f"{np.exp(np.mean(np.log(ratios))):.2f}"])
    return (printed(f"{ours} beside the best other private method", ["", "cases", "first", "within 3 %", "behind", "mean ratio"], counts) + "\n"
            + printed(f"where {ours} is behind; ± is twice the standard error of the difference, if there are several runs",
                      ["", "table at epsilon", ours, "best", "±", "by"], behind))


def relative(mine: float, best: float, measure: Measure) -> float:
    """How many times as bad as the best; what is printed as 0 is as good as the least that is not."""
    least = 10.0 ** -measure.decimals
    mine, best = max(mine, least), max(best, least)
    return mine / best if measure.best == "least" else best / mine


def sources(folder: Path) -> Path:
    """The folder of the tables of packages, read at the first time."""
    place, python = folder / "tables", environment(folder, "tables")
    if not isinstance(python, str) and not (place / "complete").exists():
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, Path(__file__).with_name("synthetic_sources.py"), place], check=True, capture_output=True)
        (place / "complete").touch()
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=Path(), help="where Adult and the ACS are")
    parser.add_argument("--only", default=",".join(DECLARED), help="names of tables")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--pure", action="store_true", help="pure epsilons, for our methods")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--methods", default=",".join(OURS))
    parser.add_argument("--peers", nargs="*", default=(), help="parts of the names of other programs' methods, or `all`")
    parser.add_argument("--patience", type=int, default=300, help="CPU seconds for one run of another program")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where environments are kept")
    parser.add_argument("--no-packages", action="store_true", help="without an environment of packages: no tables of theirs, no models")
    parser.add_argument("--record", type=Path, help="add the cases to this file")
    parser.add_argument("--recorded", type=Path, help="only print what such a file has; the newest of lines of the same name")
    chosen = parser.parse_args()
    if chosen.recorded:
        cases = recorded(chosen.recorded)
        print(*map(shown, cases), standing(cases, chosen.methods.split(",")[0]), sep="\n")
        return
    if chosen.no_packages:
        run(chosen, chosen.data / "tables", None)
        return
    place, python = sources(chosen.data), environment(chosen.data, "tables")
    if isinstance(python, str):
        raise SystemExit(f"packages with tables: {python}; see --no-packages")
    with Classifier(python) as classifier:
        run(chosen, place, classifier)


def run(chosen: argparse.Namespace, place: Path, classifier: Classifier | None) -> None:
    cases = []
    for name in chosen.only.split(","):
        table = read_table(name, chosen.tables, place)
        if isinstance(table, str):
            print(f"{name}: {table}\n")
            continue
        known = tuple(references(table, classifier))
        for epsilon in map(Fraction, chosen.epsilons.split(",")):
            delta = "pure" if chosen.pure else f"delta = {float(table.delta):g}"
            case = Case(table=name, epsilon=f"{float(epsilon):g}", about=f"{len(table.rows)} rows of {len(table.columns)} columns, {delta}, {chosen.runs} runs",
                        lines=(*compared(table, epsilon, chosen, classifier), *known))
            print(shown(case, PUBLISHED.get((name, str(epsilon)), ())), flush=True)
            cases.append(case)
            if chosen.record:
                with chosen.record.open("a", encoding="utf-8") as file:
                    file.write(msgspec.json.encode(case).decode() + "\n")
    if cases:
        print(standing(cases, chosen.methods.split(",")[0]))


def recorded(path: Path) -> list[Case]:
    """The cases of a file of --record; of lines of the same name the last ones."""
    found: dict[tuple[str, str], Case] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        case = msgspec.json.decode(text, type=Case)
        before = found.get((case.table, case.epsilon))
        named = {line.name: line for line in (*(before.lines if before else ()), *case.lines)}
        ours, theirs = [line for name, line in named.items() if name not in NOT_PRIVATE], [line for name, line in named.items() if name in NOT_PRIVATE]
        found[case.table, case.epsilon] = replace(case, lines=(*ours, *theirs))
    return list(found.values())


if __name__ == "__main__":
    main()
