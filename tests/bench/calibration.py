"""How often the intervals of answers hold the truth, and whether errors are as large as told: hundreds of statements of all kinds.

    python tests/bench/calibration.py --data ../shared/data --runs 24 --only trips

Each statement is released `--runs` times with independent noise (nothing is stored, but for kept measurements) and compared with
the plain query in DuckDB on the same rows. The unit is a column of an answer. `covered` says how many of its 95 % intervals hold
the truth, over runs and groups; `rms/told` is the root of the mean squared error over the told standard error, of the middle one
of its groups; `open` is the part of intervals with an end that is infinite or no more than a declared bound, as far as it is from the number; `none` the part of numbers without an interval. Columns are
doubtful where fewer than 90 % are covered, or where the error is told 1.5 times too small or too large and intervals have two
ends; what chance explains is left out. Those are run again, four times as often, before they are listed.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
from bench_clock import table
from calibration_cases import DATABASES, Case, Database, cases

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.audit.prepared import Batched, Remembering
from dpsql.batch.workload_answers import Answers
from dpsql.dbapi import Connection
from dpsql.engine.charging import Charged, ChargeRequest
from dpsql.engine.decide import decide
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query, Validate
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.kernel.run import Kernel

HEADS = ("kind", "columns", "covered", "least", "below 90 %", "rms/told", "least", "most", "open", "none")
WORST = ("covered", "rms/told", "open", "none", "truth", "statement", "column")
ACCURACY = re.compile(r" (ERROR WITHIN [\d.]+( PERCENT OF \d+)?( CONFIDENCE [\d.]+)?|STANDARD ERROR [\d.]+)")
FAR = 10.0  # told errors from a number to an end that says no more than the policy does
SURE = 2.3  # standard errors of chance before a coverage or a ratio is doubted


class Column(Frozen):
    """What was found of one column of the answers to a statement, over runs and groups."""

    case: Case
    name: str
    truth: float
    covered: float
    unsure: float
    ratio: float
    open: float
    none: float
    runs: int

    @property
    def low(self) -> bool:
        return self.covered < 0.9 and self.covered + SURE * self.unsure < 0.95

    @property
    def off(self) -> bool:
        """Whether the error is told too large or too small, where intervals have two ends."""
        slack = math.exp(SURE / math.sqrt(self.runs))  # of one Laplace group; the standard deviation of log rms is about 1 / sqrt(runs)
        return self.open < 0.5 and math.isfinite(self.ratio) and not 0.67 / slack < self.ratio < 1.5 * slack


class Unrecorded(Kernel):
    """A kernel that serves without charging: everything else happens as for a connection."""

    def __init__(self, kernel: Kernel, noise: Any) -> None:
        self.__dict__.update(kernel.__dict__)
        self._noise = noise


class Asked:
    """A database: sessions that release without end, and the plain one."""

    def __init__(self, database: Database, folder: Path, data: Path) -> None:
        path, policy = folder / "asked.duckdb", folder / "policy.toml"
        with duckdb.connect(str(path)) as made:
            database.fill(made, data)
        policy.write_text(database.policy, encoding="utf-8")
        Ledger.create(folder / "policy.ledger").close()
        self.session: Session = open_session(path, policy, None, ConnectionTerms(budget=database.budget, analyst="bench"))
        self.session.kernel._reader = Remembering(self.session.kernel._reader)
        noisy, exact = Unrecorded(self.session.kernel, Batched()), Unrecorded(self.session.kernel, Exact())
        self.noisy, self.exact = replace(self.session, kernel=noisy), replace(self.session, kernel=exact)
        twin = folder / "plain.duckdb"
        twin.write_bytes(path.read_bytes())
        self.plain = duckdb.connect(str(twin), read_only=True)

    def close(self) -> None:
        self.plain.close()
        self.session.close()


def released(case: Case, asked: Asked, runs: int) -> Iterator[Any]:
    """Answers to a statement, with independent noise."""
    if case.way == "kept":
        for run in range(runs):
            connection = Connection(replace(asked.noisy, analyst=f"{zlib.crc32(case.name.encode())} {runs} {run}"))
            cursor = [connection.execute(text) for text in case.texts][-1]
            yield cursor._answered()
        return
    if case.way == "workload":
        from dpsql.dbapi import _options, _queries
        from dpsql.engine.together import _decide

        options = {name: float(value) for name, value in (part.split("=") for part in case.options.split(", "))}
        plan: Any = _decide(_queries(list(case.texts)), asked.noisy, _options(options), ())
    else:
        statement = parse(text_of(case))
        assert isinstance(statement, Query | Validate)
        plan = decide(statement, asked.noisy)
    for _ in range(runs):
        yield paid(plan)


def paid(plan: Charged[Any]) -> Any:
    due = plan.bill()
    assert isinstance(due, ChargeRequest), "a free answer"
    return plan.session.kernel._serve(due.steps, due.cost)


def text_of(case: Case) -> str:
    options = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({case.options})" if case.options else ""
    return case.texts[-1].replace("SELECT", f"SELECT{options}", 1)


Cells = Mapping[tuple[Any, ...], Sequence[float]]


def truth_of(text: str, asked: Asked, exact: Sequence[bool]) -> Cells:
    """The numbers of the plain query, by the values of the columns that are exact."""
    plain = re.sub(r" HAVING .*", "", ACCURACY.sub("", text))
    plain = re.sub(r"bin_floor\((\w+)\)", lambda found: binned(found.group(1), asked), plain)
    found = {}
    for row in asked.plain.execute(plain).fetchall():
        key = tuple(keyed(value) for value, is_key in zip(row, exact, strict=True) if is_key)
        found[key] = [number(value) for value, is_key in zip(row, exact, strict=True) if not is_key]
    return found


def binned(name: str, asked: Asked) -> str:
    """The least end of the bin of a value."""
    column = next(found.columns[name] for found in asked.session.catalog.tables.values() if name in found.columns)
    edges = [float(edge) for edge in column.bins]
    whens = " ".join(f"WHEN {name} < {high} THEN {low}" for low, high in zip(edges, edges[1:], strict=False))
    return f"(CASE {whens} ELSE {edges[-1]} END)"


def keyed(value: Any) -> Any:
    return value.isoformat()[:10] if hasattr(value, "isoformat") else float(value) if isinstance(value, int | float) else value


def number(value: Any) -> float:
    return math.nan if value is None else float(value.toordinal()) if hasattr(value, "toordinal") else float(value)


def empty_is_0(name: str) -> bool:
    return name.upper().startswith(("COUNT", "SUM", "N"))


class Tally:
    """Over runs, of every column and group: error, told error, whether covered, which ends are open."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, tuple[Any, ...]], list[tuple[float, float, bool | None, bool]]] = {}
        self.truths: dict[str, float] = {}

    def add(self, name: str, key: tuple[Any, ...], truth: float, value: float, told: float | None, ends: tuple[float, float] | None) -> None:
        rounding = 1e-9 * (1 + abs(truth))
        covered = None if ends is None else ends[0] - rounding <= truth <= ends[1] + rounding
        far = max(value - ends[0], ends[1] - value) if ends is not None else 0.0
        open_ = math.isinf(far) or (told is not None and far > FAR * told)
        self.cells.setdefault((name, key), []).append((value - truth, math.nan if told is None else told, covered, open_))
        self.truths.setdefault(name, truth)

    def columns(self, case: Case, runs: int) -> list[Column]:
        return [self._column(case, name, runs) for name in self.truths]

    def _column(self, case: Case, name: str, runs: int) -> Column:
        mine = [made for (column, _), made in self.cells.items() if column == name]
        held = [[covered for *_, covered, _ in made if covered is not None] for made in mine]
        known = [np.mean(some) for some in held if some]
        every = sum(held, [])
        ratios = []
        for made in mine:
            off, told = np.array([one[:2] for one in made]).T
            kept = np.isfinite(told) & (told > 0)
            if kept.sum() >= max(3, runs / 3):
                ratios.append(math.sqrt((off[kept] ** 2).mean() / (told[kept] ** 2).mean()))
        total = sum(map(len, mine))
        rate = float(np.mean(every)) if every else math.nan
        between = float(np.std(known)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
        return Column(case=case, name=name, truth=self.truths[name], covered=rate, runs=runs,
                      unsure=max(math.sqrt(0.05 * 0.95 / max(len(every), 1)), min(between, 0.05)), ratio=float(np.median(ratios)) if ratios else math.nan,
                      open=sum(one[3] for made in mine for one in made) / max(total, 1), none=1 - len(every) / max(total, 1))


def measured(case: Case, asked: Asked, runs: int) -> list[Column]:
    tally = Tally()
    if case.way == "validated":
        (found,), text = asked_exact(case, asked), case.texts[0]
        assert case.true is not None
        ((truth,),) = asked.plain.execute(case.true).fetchall()
        for validation in released(case, asked, runs):
            finding = validation.findings[0]
            if finding.slack is not None:
                tally.add("slack", (), float(found.slack), finding.slack, finding.spread, finding.slacks)
            if finding.truth is not None:
                tally.add("answer", (), number(truth), number(truth), None, finding.truth)
        return tally.columns(case, runs)
    truths: dict[int, Cells] = {}
    for made in released(case, asked, runs):
        answers = made.answers if isinstance(made, Answers) else (made,)
        texts = case.texts if case.way == "workload" else (case.true or case.texts[-1],)
        for place, (answer, text) in enumerate(zip(answers, texts, strict=True)):
            exact = [column.exact for column in answer.columns]
            if place not in truths:
                truths[place] = truth_of(text, asked, exact)
            noted(tally, answer, exact, truths[place], place)
    return tally.columns(case, runs)


def asked_exact(case: Case, asked: Asked) -> Any:
    statement = parse(text_of(case))
    assert isinstance(statement, Query | Validate)
    return paid(decide(statement, asked.exact)).findings  # type: ignore[arg-type]


def noted(tally: Tally, answer: Answer, exact: Sequence[bool], truths: Cells, place: int) -> None:
    names = [column.name for column, is_key in zip(answer.columns, exact, strict=True) if not is_key]
    for row, errors, ends in zip(answer.rows, answer.errors, answer.intervals, strict=True):
        key = tuple(keyed(value) for value, is_key in zip(row, exact, strict=True) if is_key)
        true = truths.get(key, [math.nan] * len(names))
        parts = [part for part, is_key in zip(zip(row, errors, ends, strict=True), exact, strict=True) if not is_key]
        for name, truth, (value, told, pair) in zip(names, true, parts, strict=True):
            wanted = 0.0 if math.isnan(truth) and empty_is_0(name) else truth
            if value is not None and not math.isnan(wanted):
                tally.add(f"{place} {name}" if place else name, key, wanted, number(value), told, pair)


def each(some: Sequence[Case], data: Path, runs: int) -> Iterator[list[Column] | str]:
    """What was found of each statement, or why nothing was."""
    for database in DATABASES:
        mine = [case for case in some if case.database == database.name]
        if not mine:
            continue
        if database.needs and not (data / database.needs).exists():
            yield f"{len(mine)} statements over {database.name}: {database.needs} is not in the folder of --data"
            continue
        with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
            asked = Asked(database, Path(folder), data)
            for case in mine:
                yield from checked(case, asked, runs)
            asked.close()


def checked(case: Case, asked: Asked, runs: int) -> Iterator[list[Column] | str]:
    try:
        found = measured(case, asked, runs)
        if any(column.low or column.off for column in found):
            found = measured(case, asked, 4 * runs)
        yield found
    except (Error, AssertionError) as fault:
        yield f"{case.database}: {case.name}: {fault}".splitlines()[0]


def line(kind: str, some: Sequence[Column]) -> list[str]:
    covered = [column.covered for column in some if math.isfinite(column.covered)]
    ratios = [column.ratio for column in some if math.isfinite(column.ratio)]
    return [kind, f"{len(some)}", *((f"{100 * np.mean(covered):.1f} %", f"{100 * min(covered):.0f} %") if covered else ("", "")),
            f"{sum(column.low for column in some)}",
            *((f"{np.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}") if ratios else ("", "", "")),
            f"{np.mean([column.open for column in some]):.2f}", f"{np.mean([column.none for column in some]):.2f}"]


def doubt(column: Column) -> list[str]:
    return [f"{100 * column.covered:.0f} %", f"{column.ratio:.2f}", f"{column.open:.2f}", f"{column.none:.2f}", f"{column.truth:.6g}",
            f"{column.case.database}: {column.case.name}", column.name]


NO_KINDS: Mapping[str, list[Column]] = MappingProxyType({})


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--data", type=Path, default=Path("/nowhere"), help="a folder with adult.parquet, acs_ma2019.parquet and graphs/")
    asked.add_argument("--runs", type=int, default=20)
    asked.add_argument("--statements", type=int, default=10**6, help="so many of them, drawn with the seed")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="only statements whose kind, database or text holds this")
    asked.add_argument("--slice", default="0/1", help="of all statements those at these places: 0/4, 1/4, ...")
    given = asked.parse_args()
    some = [case for case in cases() if any(given.only in text for text in (case.kind, case.database, case.name))]
    place, parts = map(int, given.slice.split("/"))
    some = some[place::parts]
    if given.statements < len(some):
        some = random.Random(given.seed).sample(some, given.statements)
    kinds: dict[str, list[Column]] = {}
    missed, answered = [], 0
    for found in each(some, given.data, given.runs):
        if isinstance(found, str):
            missed.append(found)
            continue
        answered += 1
        for column in found:
            kinds.setdefault(column.case.kind, []).append(column)
    every = sum(kinds.values(), [])
    print(table(f"{answered} statements, {given.runs} runs", HEADS, [*(line(kind, own) for kind, own in kinds.items()), line("all", every)]))
    doubted = sorted((column for column in every if column.low or column.off), key=lambda column: (not column.low, column.covered))
    print(table(f"{len(doubted)} columns to doubt", WORST, [doubt(column) for column in doubted]))
    print("\n".join(f"not answered: {reason}" for reason in missed))


if __name__ == "__main__":
    main()
