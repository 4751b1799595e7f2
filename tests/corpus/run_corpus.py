"""Runs the corpus against an engine: python run_corpus.py MODULE:CLASS [FILE ...]

The class is called with the folder of the corpus. Its `answer(sql)` returns an `Answered`, or raises `Refused`.
"""

from __future__ import annotations

import math
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Refused(Exception):
    """Raised by an engine that does not answer a statement."""


@dataclass(frozen=True)
class Answered:
    """Rows without noise, and the bounds that the engine derived, by name: `rows`, `l1 n`, `l2 n`. Leave out what you do not know."""

    rows: Sequence[Sequence[Any]]
    bounds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """A statement of the corpus. `rows` is None if it has to be refused; `notes` are the comments above it, by their first word."""

    place: str
    sql: str
    sort: str
    rows: list[list[str]] | None
    notes: list[str]

    @property
    def bounds(self) -> dict[str, float]:
        return {name: float(number) for name, number in (note.rsplit(" ", 1) for note in self.notes if note.startswith(("rows ", "l1 ", "l2 ")))}


def records(path: Path) -> Iterator[Record]:
    """The records of a file: blocks of lines, with empty lines between them."""
    text = path.read_text(encoding="utf-8")
    for block in re.finditer(r"(?:^.+\n)+", text, flags=re.MULTILINE):
        lines = block[0].splitlines()
        notes = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
        first, *rest = [line for line in lines if not line.startswith("#")] or [""]
        sql, _, cells = "\n".join(rest).partition("\n----")
        place = f"{path.name}:{text.count(chr(10), 0, block.start()) + 1}"
        if first == "statement error":
            yield Record(place, sql, "nosort", None, notes)
        elif first.startswith("query "):
            yield Record(place, sql, first.split()[2], [row.split("\t") for row in cells.split("\n")[1:]], notes)


def shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value or "(empty)"
    return f"{float(value):.10g}" if isinstance(value, float) or hasattr(value, "as_tuple") else str(value)


def same(ours: str, theirs: str) -> bool:
    try:
        return ours == theirs or math.isclose(float(ours), float(theirs), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


def fault(record: Record, answer: Callable[[str], Answered]) -> str:
    """How the engine differs from a record; empty if it does not."""
    try:
        found = answer(record.sql)
    except Refused as refusal:
        return "" if record.rows is None else f"refused: {refusal}"
    if record.rows is None:
        return "not refused"
    order = sorted if record.sort == "rowsort" else list
    rows, expected = order([shown(value) for value in row] for row in found.rows), order(record.rows)
    if len(rows) != len(expected) or not all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(rows, expected, strict=True)):
        return f"{rows} for {expected}"
    wrong = {name: (found.bounds[name], most) for name, most in record.bounds.items() if found.bounds.get(name, most) > most * (1 + 1e-6)}
    return f"bounds above the expected ones: {wrong}" if wrong else ""


if __name__ == "__main__":
    tried = pkgutil.resolve_name(sys.argv[1])(HERE)
    paths = [HERE / name for name in sys.argv[2:]] or sorted(HERE.glob("*.test"))
    sys.exit("\n".join(f"{record.place}: {wrong}" for path in paths for record in records(path) if (wrong := fault(record, tried.answer))))
