"""What the files of `grammar/` say of functions, as the rows of `plan/expr/functions.py` have it, and of aggregates, as those of
`plan/all_aggregates.py` do: `python -m tests.support.function_table` writes it. Tests compare.

Of `expr.lark` these are the terminals that list words: which one a word belongs to follows from the types of the arguments. Of
`README.md` it is the table of functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsql.questions.all_aggregates import AGGREGATES, Kind
from dpsql.sql.text.syntax import OF_ONE, PARTS, calls_of
from dpsql.trusted.plan.expr.functions import MEMBERSHIP, TABLE, UNITS, Function, Overload
from dpsql.types import Type

FOLDER = Path(__file__).parents[2] / "grammar"
IN = ("sex IN ('f', 'm')",)  # which is no row, as it takes any number of arguments
WRITTEN: dict[str, tuple[str, ...]] = {**{name: row.written for name, row in TABLE.items() if row.written}, MEMBERSHIP: IN}

# -- expr.lark

NUMBER, TEXT, TIME = (frozenset(kinds) for kinds in (
    (Type.BIGINT, Type.DOUBLE), (Type.VARCHAR,), (Type.DATE, Type.TIMESTAMP)))
SHAPES = {  # the kinds of the arguments, by terminal
    "NUMBER_FUNCTION": (NUMBER,), "NUMBER_PAIR": (NUMBER, NUMBER), "TEXT_FUNCTION": (TEXT,), "TEXT_TEST": (TEXT, TEXT),
    "TEXT_PART": (TEXT, NUMBER), "TEXT_CHANGE": (TEXT, TEXT, TEXT), "PADDING": (TEXT, NUMBER, TEXT), "TEXT_GROUP": (TEXT, TEXT, NUMBER), "TIME_TEXT": (TIME, TEXT),
    "NUMBER_TRIPLE": (NUMBER, NUMBER, NUMBER), "SUBSTRING": (TEXT, NUMBER, NUMBER), "TIME_PART": (TIME,),
}
VARIADIC = {True: "NULL_FUNCTION", False: "NULL_PAIR"}  # of arguments of one type, whichever; any number of them, or two
OWN = {"NUMBER_PAIR": ["log"], "NULL_PAIR": ["ifnull"]}  # words that take other arguments than their function
APART = {"trim", "concat", *OWN["NULL_PAIR"]}  # words with a production of their own, or above


def terminals() -> dict[str, list[str]]:
    """The words of each terminal. Raises ValueError for a function that no production has."""
    found = {name: list(OWN.get(name, ())) for name in (*SHAPES, *VARIADIC.values())}
    for row in TABLE.values():
        for word, count in calls_of(row):
            if word not in APART:
                found[_terminal(word, row, count)].append(word)
    return found | {"PART": list(PARTS), "UNIT": list(UNITS), **aggregates()}


def aggregates() -> dict[str, list[str]]:
    """The words of the aggregates of one column and of two."""
    words = {pair: [way.partition("(")[0] for row in AGGREGATES.values() if (row.kind is Kind.PAIR) is pair for way in row.written]
             for pair in (False, True)}
    return {"STATISTIC": [*words[False], "median", "mode"], "PAIR": [*words[True], *(kind.sql_name() for kind in OF_ONE)]}


def _terminal(word: str, row: Function, count: int) -> str:
    fitting = [over for over in row.overloads if len(over.args) == count or over.variadic]
    if len({over.args[0] for over in fitting}) >= len(Type) - 1:
        return VARIADIC[fitting[0].variadic]
    name = next((name for name, shape in SHAPES.items() if len(shape) == count and all(
        kind in kinds for over in fitting for kind, kinds in zip(over.args, shape, strict=True))), None)
    if name is None:
        raise ValueError(f"{word}() with {count} arguments of these types has no production in expr.lark")
    return name


def lark(text: str) -> str:
    """The text of expr.lark with these words."""
    for name, words in terminals().items():
        listed = "|".join(sorted({word.upper() for word in words}, key=lambda word: (-len(word), word)))
        text, count = re.subn(rf"^{name}: .*$", lambda _, line=f"{name}: /({listed})/i": line, text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"expr.lark has {count} terminals {name}")
    return text


# -- README.md

HEADER = "| function | written | types | undefined values |\n|---|---|---|---|"
BEGIN, END = "<!-- functions -->\n", "<!-- end of functions -->"


def readme(text: str) -> str:
    """The text of README.md with the table of functions."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + "\n" + END + after


def table() -> str:
    """One line for each function; those of a family, which differ in a unit, share one with the ways to write the first of them."""
    families: dict[str, list[Function]] = {}
    for name, row in TABLE.items():
        if row.written:
            families.setdefault(_family(name), []).append(row)
    lines = [HEADER]
    for name, rows in families.items():
        overloads = [over for row in rows for over in row.overloads]
        undefined = "NULL" if any(over.undefined for over in overloads) else ""
        lines.append(_line(name, rows[0].written, _types(overloads), undefined))
        if name == "is not null":
            lines.append(_line(MEMBERSHIP, IN, "T, *T*, ... → BOOLEAN", ""))
    return "\n".join(lines)


def _family(name: str) -> str:
    unit = re.fullmatch(rf"(date_trunc_|date_diff_|date_sub_|time_bucket_|add_)({'|'.join(UNITS)})s?", name)
    return unit[1] + "*" if unit is not None else name


def _line(name: str, written: Sequence[str], types: str, undefined: str) -> str:
    shown = ", ".join(f"`{way}`" for way in written)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{name}`", shown, types, undefined)) + " |"


def _types(overloads: list[Overload]) -> str:
    for result in ("T", ""):  # T stands for the type of the arguments, in the result too or not
        alike = {_shape(row, {row.args[0]: "T"}, result or row.result.value) for row in overloads}
        fits = not result or all(row.result is row.args[0] for row in overloads)
        if len({row.args[0] for row in overloads}) >= len(Type) - 1 and len(alike) == 1 and fits:
            return alike.pop()
    return "; ".join(dict.fromkeys(_shape(row, {}, row.result.value) for row in overloads))


def _shape(row: Overload, names: dict[Type, str], result: str) -> str:
    args = [names.get(kind, kind.value) for kind in row.args]
    shown = [f"*{name}*" if i in row.constants else name for i, name in enumerate(args)]
    return f"{', '.join(shown)}{', ...' if row.variadic else ''} → {result}"


# -- files


def files() -> Iterator[tuple[Path, str, str]]:
    """Each file with its text, and as it should be."""
    for name, change in (("expr.lark", lark), ("README.md", readme)):
        text = (FOLDER / name).read_text(encoding="utf-8")
        yield FOLDER / name, text, change(text)


if __name__ == "__main__":
    for path, text, wanted in files():
        if text != wanted:
            path.write_text(wanted, encoding="utf-8")
            print(f"{path.name} is written anew")
