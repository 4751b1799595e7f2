"""Pieces of the text of a policy: TOML keys, values, comments, and the parts that every drafted policy has.

A drafted policy is written as text, piece by piece, because its comments are what the owner works from. The standard library
reads TOML but does not write it, and a writer that keeps comments would be a dependency for the sake of a few lines.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from dpsql.trusted.declarations.tables import Scalar

Value = Scalar | Sequence["Value"] | Mapping[str, "Value"]
WIDTH, NOTES_AT = 120, 36
EPSILON, PER_STATEMENT = "1.0", "0.1"  # in a draft

COLUMNS = """
What can be declared for a column. All of it is optional; leaving something out only means that fewer queries can be answered:

  values = ["a", "b"]       the complete list: a GROUP BY shows every value, and spends nothing to find them
  values_from = "t.column"  the same list, from a column of a public table
  range = [0, 100]          least and greatest value; for whole numbers and dates, each one in between is a value
  bounds = [0, 1000.0]      values are clamped to these ends before they are summed
  bounds = "search"         a statement that needs bounds spends a part of its price to find them
  bins = 10                 this many equal bins of range or bounds, or a list of cut points, for bin_floor(column)
  decimals = 2              values are rounded to this many decimal places before they are summed
  power_of_two = -4         or to multiples of this power of two
  others = false            no row has any other value: workloads need no group for the rest, and totals are sharper
  like = "[A-Z]{2}-[0-9]{4}"  for texts without values: in synthetic tables, new ones by this pattern stand for them
  nullable = false          NULL does not occur, so it gets no group
  type = "BIGINT"           for CSV files, so that it does not depend on the rows, and for columns in the names of folders,
                            as in year=2019/; or BOOLEAN, DOUBLE, VARCHAR, DATE, TIMESTAMP. In a database such as PostgreSQL,
                            the type as which the column is read, if it differs from the type there

Columns without declarations may also be listed in the section of their table: other_columns = ["a", "b"] means a = {} and b = {}.
Take these from the codebook, the law or common sense, never from the rows: analysts see them.
"""


def key(name: str) -> str:
    """A TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def column(table: str, name: str) -> str:
    """A column as it is written in `values_from` and `column`."""
    return f"{table}.{name}" if "." not in table and '"' not in table else '"' + table.replace('"', '""') + f'".{name}'


def value(item: Value) -> str:
    """A TOML value."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return _string(item)
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, dt.date):
        return item.isoformat()
    if isinstance(item, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {value(part)}" for name, part in item.items()) + " }" if item else "{}"
    return "[" + ", ".join(map(value, item)) + "]"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def comment(text: str) -> list[str]:
    """The lines of a comment. Indented and empty lines are kept as they are; the others are filled as paragraphs."""
    lines: list[str] = []
    for shaped, part in itertools.groupby(text.strip("\n").split("\n"), lambda line: not line or line.startswith(" ")):
        whole = [printable(line) for line in part]
        lines += whole if shaped else textwrap.wrap(" ".join(whole), WIDTH - 2, break_long_words=False)
    return [f"# {line}".rstrip() for line in lines]


def note(line: str, text: str, *, at: int = NOTES_AT) -> str:
    """A line followed by a comment."""
    return f"{line:{at}}  # {printable(text)}" if text else line


def printable(text: str) -> str:
    """Text without line breaks and control characters, so that it cannot escape from its comment."""
    return "".join(char if char.isprintable() else " " for char in text)


def columns(lines: Iterable[tuple[str, Mapping[str, Value] | None, str]]) -> list[str]:
    """The lines of [tables.<name>.columns], each from a name, its declaration (None: the column is left out), and a comment."""
    written = []
    for name, declared, text in lines:
        line = f"{key(name)} = {value(declared or {})}"
        written.append(note(line if declared is not None else f"# {printable(line)}", text))
    return written


def budget(entity: str, *, name: str = "main", epsilon: str = EPSILON, per_statement: str = PER_STATEMENT) -> list[str]:
    """The lines of a budget section. The amounts are written as given."""
    return [
        *comment(f"What may be spent on one {entity}, by all statements together. Raise it only with care: epsilon bounds what "
                 "anybody can learn about one of them, delta the probability that more is learned."), "",
        f"[budgets.{key(name)}]",
        f"entity = {value(entity)}",
        note(f"epsilon = {epsilon}", "or rho = 0.01, for zero-concentrated differential privacy"),
        note("delta = 1e-6", "far below one in the number of protected entities; leave it out for pure epsilon"),
        note(f"per_statement = {{ epsilon = {per_statement}, delta = 1e-8 }}", "the default price of a statement", at=52),
        note("# per_analyst = { epsilon = 0.5, delta = 1e-6 }", "the limit of each analyst", at=52),
        note("# analysts.alice = { epsilon = 1.0, delta = 1e-6 }", "the limit of one analyst", at=52),
        note("# share_answers = true", "what one analyst was told is free for the others", at=52),
    ]
