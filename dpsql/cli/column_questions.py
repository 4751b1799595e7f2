"""The question of `dpsql init` to an owner about the columns of a table: which of the lists, ranges and bounds that their values
suggest the policy shall declare. What the rows hold is shown on the owner's screen alone; nothing is taken over by itself."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from dpsql.catalog.column_guesses import ColumnGuess, column_guess
from dpsql.catalog.guesses import Evidence
from dpsql.catalog.schema import carried_as
from dpsql.catalog.writing import Value, value
from dpsql.cli.terminal import print_wrapped
from dpsql.trusted.declarations.tables import ForeignKey, TableSchema

Asked: TypeAlias = "Callable[[str, str, str, Callable[[str], str | None]], str]"
"""Asks a question, with why it is asked and the usual answer, until the reader of answers accepts one."""
NAMED = re.compile(r"""\s*("[^"]*"|[^,=\[\]"]+?)\s*(?:=\s*(\[[^\]]*\]))?\s*(?:,|$)""")


def agreed_columns(name: str, table: TableSchema, references: Sequence[ForeignKey], seen: Evidence,
                   ask: Asked) -> dict[str, Mapping[str, Value]]:
    """By column, the declarations suggested by the values that the owner accepted or corrected."""
    tied = {column for key in (*table.foreign_keys, *references) for column in key.columns}
    columns = [(column, kind) for column, kind in table.columns if column not in tied and carried_as(kind) is not None]
    values_of = seen.values_of(name, [column for column, _ in columns])
    guesses = [guess for (column, kind), values in zip(columns, values_of, strict=True) if (
        guess := column_guess(column, kind, values)) is not None]
    if not guesses:
        return {}
    print()
    print_wrapped(f"What the rows of {name} suggest, on your screen alone:")
    width = max(len(guess.column) for guess in guesses)
    for guess in guesses:
        print_wrapped(f"  {guess.column:{width}}  {_written(guess.entries)}  ({guess.why})")
    found: dict[str, Mapping[str, Value]] = {}

    def read(typed: str) -> str | None:
        chosen = _read(typed, guesses)
        if isinstance(chosen, str):
            print(chosen)
            return None
        found.clear()
        found.update(chosen)
        return typed

    ask(f"Which of these should the policy declare for {name}?",
        "Analysts see the policy, so accept only what the codebook or common sense says too. all, none, or names separated "
        "by commas, each with a correction if needed: age = [0, 120], sex.", "none", read)
    return found


def _written(entries: Mapping[str, Value]) -> str:
    return ", ".join(f"{key} = {value(each)}" for key, each in entries.items())


def _read(typed: str, guesses: Sequence[ColumnGuess]) -> dict[str, Mapping[str, Value]] | str:
    """What was chosen; or what is wrong with the answer."""
    if typed.strip().lower() in ("all", "none"):
        return {guess.column: guess.entries for guess in guesses} if typed.strip().lower() == "all" else {}
    by_name = {guess.column.lower(): guess for guess in guesses}
    found: dict[str, Mapping[str, Value]] = {}
    at = 0
    while at < len(typed.rstrip(" ,")):
        part = NAMED.match(typed, at)
        if part is None:
            return "all, none, or names separated by commas, such as age = [0, 120], sex."
        guess = by_name.get(part.group(1).strip('"').lower())
        if guess is None:
            return f"There is no {part.group(1)} above."
        corrected = None if part.group(2) is None else _corrected(guess, part.group(2))
        if isinstance(corrected, str):
            return corrected
        found[guess.column] = guess.entries if corrected is None else corrected
        at = part.end()
    return found


def _corrected(guess: ColumnGuess, text: str) -> dict[str, Value] | str:
    """What is declared with another list, or other ends; or what is wrong with it."""
    try:
        given = tomllib.loads(f"given = {text}")["given"]
    except tomllib.TOMLDecodeError:
        return f"{text} is no list, such as [0, 120] or [\"f\", \"m\"]."
    key = next((key for key in guess.entries if key != "nullable"), None)
    if key is None:
        key = "values" if given and isinstance(given[0], str) else "bounds"
    if key != "values" and len(given) != 2:
        return f"{guess.column} needs two ends, such as [0, 120]."
    return {**guess.entries, key: given}
