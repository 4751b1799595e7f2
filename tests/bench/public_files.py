"""Hundreds of public data files, each opened as an owner would open it: `dpsql init --yes`, `dpsql check --rows`, and three statements.

    python tests/bench/public_files.py --data bench-data
    python tests/bench/public_files.py --data bench-data --only penguins --drafts

The files are those of `public_packages`, which says what counts as a table. All is done in this process, by the functions behind the
commands. A file is *opened* where the draft is written, is read back, and its rows can be asked as it stands: nobody edits it.

What is compared is asked of the policy after three edits that an owner would make: as many rows of an entity are used as the largest has,
so that none is cut off, and it counts in all groups; the column that is averaged gets its least and largest value, by pandas, as bounds; and NULL is not declared away.
Answers are made without noise (`audit.exact`), so a difference from pandas is one. pandas reads the file by itself (the first of commas,
semicolons, tabs, bars and runs of blanks that makes several columns), after the lines that the draft skips, which are listed, all cells as texts; the words for NULL are those of the policy, and a column is a number where
`pandas.to_numeric` takes all the other cells. Besides the three statements all columns are compared: how many cells have a value, and the
sums of numbers. *Lines* are counted by neither: those that are not blank, with quotes in balance, less the header.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from bench_clock import table
from public_packages import NO_TABLE, installed, public_files, text_of

from dpsql.frozen import replace

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.catalog import writing
from dpsql.catalog.model import TablePolicy
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.reading_words import reading_in_words
from dpsql.cli.entry import main as dpsql
from dpsql.engine.answering import answer
from dpsql.engine.opening import open_reader
from dpsql.errors import Error
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.reader import Reader

CLOSE = 1e-6  # of the largest value: as far as sums on a grid may be from those of floats
FEW = 60  # values of a column that is grouped by
NUMBERS = "BIGINT", "DOUBLE"
MEMORY = Path("/dev/shm")  # a ledger waits for its disk at every step


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of one file: `failed` is the step that did not work, with the reason; `differ` are differences from pandas or from the
    number of lines, by what they are about."""

    name: str
    failed: str = ""
    why: str = ""
    entity: str = ""
    rows: int = 0
    asked: int = 0
    seconds: float = 0.0
    unread: int = 0
    differ: list[tuple[str, str]] = field(default_factory=list)
    policy: str = ""


def said(*words: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = dpsql([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def opened(name: str, path: Path, folder: Path) -> Outcome:
    found, begun = Outcome(name=name), time.process_time()
    policy = folder / "dpsql.toml"
    code, _, told = said("init", "--yes", path, "--to", policy)
    found.policy = policy.read_text(encoding="utf-8") if policy.exists() else ""
    if code or "FILL IN" in found.policy:
        found.failed, found.why = "init", told or "no entity is guessed"
        return found
    code, shown, told = said("check", "--rows", "--json", "--policy", policy)
    checked = json.loads(shown) if shown else {}
    if code > 1 or "files" not in checked:
        found.failed, found.why = "check", checked.get("reason", told)
        return found
    try:
        _compare(found, path, checked, folder)
    except Error as fault:
        found.failed, found.why = "ask", str(fault).splitlines()[0]
    found.seconds = time.process_time() - begun
    return found


def _compare(found: Outcome, path: Path, checked: Mapping[str, Any], folder: Path) -> None:
    declared = parse_policy(found.policy)
    (table,), (entity,) = declared.tables.values(), declared.entities.values()
    table = replace(table, columns={name: column for name, column in table.columns.items() if name != table.row_key})
    found.entity = f"{entity.name}: {'each row' if table.row_key else entity.key}{' (several)' if entity.several else ''}"
    with contextlib.closing(open_reader(declared, None)) as reader:  # as it was drafted
        (found.rows,), = reader.rows(f"SELECT COUNT(*) FROM {quote(table.name)}")
        frame = read_by_pandas(path, table)
        counts = _counts(reader, table)
    (file,) = checked["files"]
    found.unread = sum(column["cells"] for column in file["cells"])
    found.differ += _lines(path, table, found.rows, file)
    if frame is None:
        found.differ.append(("pandas", "cannot read it"))
        return
    if len(frame.columns) != len(table.columns):
        found.differ.append(("columns", f"{len(table.columns)}, and {len(frame.columns)} by pandas"))
        return
    frame.columns = pd.Index([*table.columns])
    numbers = {column: values for column in frame.columns if (values := _numbers(frame[column])) is not None}
    found.differ += _types(table, frame, numbers)
    if len(frame) != found.rows:
        found.differ.append(("rows", f"{found.rows:,}, and {len(frame):,} by pandas"))
        return
    found.differ += _cells(table, frame, numbers, counts)
    for statement, ours, theirs in _asked(found, table, frame, numbers, checked, folder):
        found.asked += 1
        if not _same(ours, theirs):
            found.differ.append(("answer", f"{statement}: {ours!r}, and {theirs!r} by pandas"[:160]))


# -- what pandas says


def read_by_pandas(path: Path, table: TablePolicy) -> pd.DataFrame | None:
    """All cells as texts, those for NULL missing; None where pandas reads nothing."""
    how = table.csv
    tries = [",", ";", "\t", "|", *([r"\s+"] if len(table.columns) > 1 else [])]
    frames: list[pd.DataFrame] = []
    text = text_of(path) or ""
    for sign in tries:
        with contextlib.suppress(ValueError, pd.errors.ParserError, StopIteration, TypeError):
            frame = pd.read_csv(io.StringIO(text), sep=sign, dtype=str, keep_default_na=False, skiprows=how.skip if how is not None else 0,
                                comment=(how.comment or None) if how is not None else None,
                                header="infer" if how is None or how.header else None)
            frames.append(frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index())
    found = next((frame for frame in frames if len(frame.columns) > 1), frames[0] if frames else None)
    if found is not None and len(found.columns) == len(table.columns):
        for place, column in enumerate(table.columns.values()):
            cells = found.iloc[:, place].astype(object)
            cells = cells.str.strip() if column.reading.trim else cells
            words = {str(word) for word in column.reading.null} | {""}
            found.isetitem(place, cells.where(cells.notna() & ~cells.isin(words), None))
    return found


def _numbers(cells: pd.Series[Any]) -> pd.Series[Any] | None:
    """The cells as numbers, where all are that are not missing."""
    with contextlib.suppress(ValueError, TypeError):
        found = pd.to_numeric(cells)
        if cells.notna().any() and found.dtype != bool:
            return found.astype(float)
    return None


# -- what is compared


def _lines(path: Path, table: TablePolicy, rows: int, file: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Differences between the rows and the lines of the file."""
    text = text_of(path) or ""
    physical = [line for line in text.splitlines() if line.strip()]
    balanced, is_open = 0, False
    for line in physical:
        is_open ^= line.count('"') % 2 == 1
        balanced += not is_open
    ahead = (table.csv.header if table.csv is not None else True) + sum(
        bool(line.strip()) for line in text.splitlines()[: table.csv.skip if table.csv is not None else 0])
    comments = sum(line.startswith(table.csv.comment) for line in physical) if table.csv is not None and table.csv.comment else 0
    if rows not in (len(physical) - ahead - comments, balanced - ahead - comments):
        yield "lines", f"{rows:,} rows of {len(physical) - ahead - comments:,} lines"
    if table.csv is not None and table.csv.skip:
        yield "skipped", " / ".join(text.splitlines()[: table.csv.skip])[:100]
    if file["lines"] != rows:
        yield "check", f"{rows:,} rows of {file['lines']:,} lines, as check --rows counts"
    if file["short"] or file["long"]:
        yield "widths", f"{file['short']:,} lines are too short, {file['long']:,} too long"
    for column in file["cells"]:
        yield "unread", f"{column['cells']:,} cells of {column['column']} are no {column['type']}: {column['examples']}"


def _counts(reader: Reader, table: TablePolicy) -> dict[str, tuple[int, float | None]]:
    """How many cells of each column have a value, and the sum of those that are numbers."""
    asked = [(name, f"COUNT({quote(name)})", f"SUM(CAST({quote(name)} AS DOUBLE))" if column.type in NUMBERS else "NULL")
             for name, column in table.columns.items()]
    found: dict[str, tuple[int, float | None]] = {}
    for start in range(0, len(asked), 200):
        part = asked[start : start + 200]
        row, = reader.rows(f"SELECT {', '.join(f'{count}, {total}' for _, count, total in part)} FROM {quote(table.name)}")
        found |= {name: (row[2 * i], row[2 * i + 1]) for i, (name, *_) in enumerate(part)}
    return found


def _types(table: TablePolicy, frame: pd.DataFrame, numbers: Mapping[str, pd.Series[Any]]) -> Iterator[tuple[str, str]]:
    for name, column in table.columns.items():
        if column.type in NUMBERS and name not in numbers:
            yield "types", f"{name} is {reading_in_words(column.reading)}, and no number by pandas: {_some(frame[name])}"
        if column.type == "VARCHAR" and name in numbers:
            yield "types", f"{name} is a text, and a number by pandas: {_some(frame[name])}"


def _some(cells: pd.Series[Any]) -> list[str]:
    return [str(cell)[:30] for cell in cells.dropna().unique()[:4]]


def _cells(table: TablePolicy, frame: pd.DataFrame, numbers: Mapping[str, pd.Series[Any]],
           counts: Mapping[str, tuple[int, float | None]]) -> Iterator[tuple[str, str]]:
    for name, (count, total) in counts.items():
        theirs = int(frame[name].notna().sum())
        if count != theirs:
            yield "cells", f"{name}: {count:,} values, and {theirs:,} by pandas"
        if total is not None and name in numbers and not _same(total, float(numbers[name].sum()), float(numbers[name].abs().sum())):
            yield "sums", f"{name}: {total!r}, and {float(numbers[name].sum())!r} by pandas"


def _asked(found: Outcome, table: TablePolicy, frame: pd.DataFrame, numbers: Mapping[str, pd.Series[Any]], checked: Mapping[str, Any],
           folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Each statement with our answer and that of pandas."""
    of = quote(table.name)
    most = max((one["most"] for one in checked["entities"]), default=1)
    free = [name for name, column in table.columns.items() if column.type in NUMBERS and name in numbers and name not in table.key
            and numbers[name].abs().max() < 1e14]
    owned = frame.notna().any(axis=1) if table.row_key or not table.key else frame[[*table.key]].notna().all(axis=1)
    entity = next(iter(parse_policy(found.policy).entities.values()))
    if entity.key in frame:
        owned &= frame[entity.key].notna()
    elif table.row_key:
        owned |= True
    frame, numbers = frame[owned], {name: values[owned] for name, values in numbers.items()}
    averaged = next((name for name in free if numbers[name].nunique() > 2), free[0] if free else None)
    ends = None if averaged is None or not numbers[averaged].notna().any() else (float(numbers[averaged].min()), float(numbers[averaged].max()))
    text = edited(found.policy, table, most, averaged if ends else None, ends)
    with contextlib.closing(open_reader(parse_policy(text), None)) as reader:
        session = session_of(folder, reader=reader, noise=Exact(), budget="main", policy=text, at={"epsilon": 300, "delta": 1e-7})
        def one(sql: str) -> list[tuple[Any, ...]]:
            made = answer(sql, session)
            assert isinstance(made, Answer)
            return [*made.rows]

        yield "COUNT(*)", float(one(f"SELECT COUNT(*) FROM {of}")[0][0] or 0), float(len(frame))
        if averaged is not None and ends is not None:
            yield f"AVG({averaged})", _float(one(f"SELECT AVG({quote(averaged)}) FROM {of}")[0][0]), float(numbers[averaged].mean())
        grouped = next((name for kinds in (("VARCHAR", "BOOLEAN"), NUMBERS) for name, column in table.columns.items()
                        if column.type in kinds and 1 < frame[name].nunique() <= FEW and name not in (*table.key, entity.key)), None)
        if grouped is not None:
            every = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups = {frame[grouped].nunique() + 1}) " if entity.several else ""
            made = {_group(key): float(count) for key, count in one(f"SELECT {every}{quote(grouped)}, COUNT(*) FROM {of} GROUP BY {quote(grouped)}")
                    if count}
            cells = frame[grouped].map(lambda cell: cell) if grouped not in numbers or table.columns[grouped].type not in NUMBERS else numbers[grouped]
            theirs = Counter(_group(None if pd.isna(cell) else cell) for cell in cells)
            if table.columns[grouped].type == "BOOLEAN":
                yield f"GROUP BY {grouped}", sorted(made.values()), sorted(map(float, theirs.values()))
            else:
                yield f"GROUP BY {grouped}", made, {key: float(count) for key, count in theirs.items()}


def _group(key: Any) -> str:
    return "NULL" if key is None else f"{float(key):.17g}" if isinstance(key, int | float) and not isinstance(key, bool) else str(key)


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _same(ours: Any, theirs: Any, size: float | None = None) -> bool:
    if isinstance(ours, Mapping):
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, Sequence):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return abs(ours - theirs) <= CLOSE * max(1.0 if size is None else size, abs(theirs)) or (math.isnan(ours) and math.isnan(theirs))


def edited(policy: str, table: TablePolicy, most: int, averaged: str | None, ends: tuple[float, float] | None) -> str:
    """The policy as an owner would fill it in: all rows of an entity are used, and the averaged column has bounds."""
    lines = policy.splitlines()
    lines = [re.sub(r"^rows_per_entity = \d+", f"rows_per_entity = {max(most, 1)}", line) for line in lines]
    if averaged is not None and ends is not None:
        begin = writing.key(averaged) + " = {"
        first = next(i for i, line in enumerate(lines) if line.startswith("[tables.") and ".columns]" in line)
        place = next(i for i in range(first, len(lines)) if lines[i].startswith(begin))
        (declared,) = tomllib.loads(lines[place]).values()
        whole = table.columns[averaged].type == "BIGINT"
        bounds = [int(end) if whole else end for end in ends]
        lines[place] = f"{writing.key(averaged)} = {writing.value({**declared, 'bounds': bounds, **({} if whole else {'power_of_two': _power(ends)})})}"
    text = "\n".join(lines) + "\n"
    return re.sub(r"^epsilon = 1\.0", "epsilon = 1000", text, count=1, flags=re.MULTILINE)


def _power(ends: tuple[float, float]) -> int:
    """A grid of which the largest value has thirty-some places."""
    return max(-40, min(40, math.frexp(max(abs(end) for end in ends) or 1.0)[1] - 36))


# -- what is printed


def summary(found: Sequence[Outcome]) -> Iterator[list[str]]:
    packages: dict[str, list[Outcome]] = {}
    for one in found:
        packages.setdefault(one.name.partition("/")[0], []).append(one)
    for package, ones in [*packages.items(), ("all", [*found])]:
        good = [one for one in ones if not one.failed]
        about = [Counter(kind for kind, _ in one.differ) for one in ones]
        yield [package, f"{len(ones)}", f"{len(good)}", f"{100 * len(good) / len(ones):.1f} %", f"{sum(one.asked for one in ones)}",
               *(f"{sum(1 for each in about if any(each[kind] for kind in kinds))}" for kinds in (
                   ("answer", "sums"), ("lines", "check"), ("rows", "columns", "pandas"), ("types",), ("cells", "unread", "widths"))),
               f"{sum(one.seconds for one in ones) / len(ones):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder in which the environment is kept between runs")
    parser.add_argument("--files", type=Path, help="a folder with a folder of files for each package, in place of those of pip")
    parser.add_argument("--most", type=int, default=120, help="files of one package")
    parser.add_argument("--only", default="", help="files whose name holds one of these, with commas")
    parser.add_argument("--drafts", action="store_true", help="print what was drafted of each file")
    parser.add_argument("--to", type=Path, help="a JSON file for all outcomes")
    asked = parser.parse_args()
    os.environ["DPSQL_STATE"] = os.environ["DPSQL_CACHE"] = ""
    with contextlib.ExitStack() as stack:
        data = asked.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpsql-bench-")))
        root = asked.files or installed(data)
        there = public_files(root, asked.most)
        outcomes = []
        for _, path in there.tables:
            name = str(path.relative_to(root))
            if not any(part in name.lower() for part in asked.only.lower().split(",")):
                continue
            with tempfile.TemporaryDirectory(prefix="dpsql-file-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
                outcomes.append(opened(name, path, Path(folder)))
            if asked.drafts:
                one = outcomes[-1]
                print(f"=== {one.name} [{one.entity}] {one.failed} {one.why}", *one.differ, one.policy.partition("[tables.")[2], sep="\n", flush=True)
    print(table("files that are no tables", ("rule", "files"), [[rule, f"{there.left_out[rule]}"] for rule in NO_TABLE]))
    print(table("files opened as they were drafted", ("package", "files", "opened", "share", "asked", "numbers", "lines", "shape", "types", "cells", "CPU s"),
                list(summary(outcomes))))
    print(table("not opened", ("file", "step", "why"), [[one.name, one.failed, " ".join(one.why.split())[:150]] for one in outcomes if one.failed]))
    print(table("differences", ("file", "about", "what"), [[one.name, kind, what] for one in outcomes for kind, what in one.differ]))
    if asked.to is not None:
        asked.to.write_text(json.dumps([{key: getattr(one, key) for key in Outcome.__slots__} for one in outcomes], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
