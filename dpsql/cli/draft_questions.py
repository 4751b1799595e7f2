"""The questions of `dpsql init` to an owner at a terminal. They are about the schema, and rows decide what is proposed.

Each is explained in one line and has a default, which Enter takes. A default never makes anything public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from dpsql.catalog.draft import Chosen, tables_of
from dpsql.catalog.guesses import (
    Evidence,
    Guess,
    entity_key,
    free_column,
    guess_of,
    person_in,
    references_of,
    singular,
    tables_above,
)
from dpsql.catalog.model import Entity
from dpsql.catalog.policy import written_reference
from dpsql.catalog.price import MOST
from dpsql.catalog.writing import EPSILON, PER_STATEMENT
from dpsql.cli.column_questions import agreed_columns
from dpsql.cli.terminal import print_wrapped
from dpsql.frozen import replace
from dpsql.trusted.declarations.tables import ForeignKey, TableSchema

USUAL_ROWS = 10
BY_ROW = "row"  # the name of a column that tells rows apart where none of the file does


def chosen_by(schema: Mapping[str, TableSchema], seen: Evidence | None = None) -> Chosen:
    """The owner's answers to the questions. `seen` is evidence from the rows, if they may be read. Raises OperationalError if
    there is no table."""
    tables = tables_of(schema)
    print_wrapped("A few questions. Enter accepts the answer in brackets; everything can be changed in the file later.")
    guess = _entity(tables, seen)
    entity = guess.entity
    proposed = _proposed(tables, entity, seen)
    likely = _linked(tables, proposed)
    public, references = set(), {}
    for name in tables:
        if entity.table in tables_above(likely, name):
            references[name] = [key for key in proposed[name] if entity.table in tables_above(likely, key.table)
                                and _names_a_row(name, key)]
        elif _agreed(f"May everybody see every row of {name}?",
                     f"Say yes only for lists such as countries or tariffs, which contain nothing about a {entity.name}."
                     f"{_named_by(tables, name, seen)}", usual=False):
            public.add(name)
    rows = {name: _number(f"How many rows of {name} may one {entity.name} add to an answer?",
                          "Further rows are left out; fewer rows mean less noise.", USUAL_ROWS)
            for name in _with_several_rows(tables, guess, references)}
    protected = [name for name in tables if name == entity.table or name in references]
    columns = {name: agreed_columns(name, tables[name], references.get(name, ()), seen, _asked)
               for name in protected if seen is not None}
    epsilon = _amount(f"What may all answers together reveal about one {entity.name} (epsilon)?",
                      "At 1, any outcome is at most 2.7 times as likely with one of them as without.", EPSILON)
    usual = PER_STATEMENT if Decimal(PER_STATEMENT) <= Decimal(epsilon) else epsilon
    price = _amount("What does a statement cost if it states no price (epsilon)?",
                    "A lower price allows more statements, with more noise.", usual, most=Decimal(epsilon))
    return Chosen(guess=guess, public=frozenset(public), references=references, rows=rows, epsilon=epsilon, per_statement=price,
                  columns=columns)


def guessed(schema: Mapping[str, TableSchema], seen: Evidence | None = None) -> Chosen | None:
    """The default answers; None if it is not clear who is protected. Raises OperationalError if there is no table."""
    tables = tables_of(schema)
    guess = guess_of(tables, seen)
    if guess is None:
        return None
    proposed = _proposed(tables, guess.entity, seen)
    likely = _linked(tables, proposed)
    references = {name: [key for key in keys if guess.entity.table in tables_above(likely, key.table)]
                  for name, keys in proposed.items()}
    return Chosen(guess=guess, public=frozenset(), references=references, epsilon=EPSILON, per_statement=PER_STATEMENT,
                  rows=dict.fromkeys(_with_several_rows(tables, guess, references), USUAL_ROWS))


def _proposed(tables: Mapping[str, TableSchema], entity: Entity, seen: Evidence | None) -> dict[str, list[ForeignKey]]:
    """The foreign keys that names, and rows, suggest."""
    return {name: [key for key in references_of(tables, name, seen) if _can_lead(tables, entity, key)] for name in tables}


def _with_several_rows(tables: Mapping[str, TableSchema], guess: Guess,
                       references: Mapping[str, Sequence[ForeignKey]]) -> list[str]:
    """The tables that may have several rows of one entity."""
    linked, of = _linked(tables, references), guess.entity.table
    return [name for name in tables if (of in tables_above(linked, name) if name != of else guess.several)]


def _entity(tables: Mapping[str, TableSchema], seen: Evidence | None) -> Guess:
    """The protected entity: a row of one table, or the rows that share a value of one column."""
    guess = guess_of(tables, seen)
    first = guess.entity.table if guess is not None else next(iter(tables))
    table = _one_of("Which table has rows of each person (or household, firm) to protect?",
                    "An answer protects any one of them, with all rows of other tables that belong to them.", list(tables), first)
    columns = [column for column, _ in tables[table].columns]
    by_row = free_column(tables[table], BY_ROW)
    usual = guess.entity.key if guess is not None and guess.entity.table == table else None
    key = _one_of(f"Which column of {table} tells them apart?",
                  f"Rows with the same value in this column belong to the same one. {by_row} if every row is a different one.",
                  [*columns, by_row], usual or entity_key(table, tables[table], seen) or by_row)
    if guess is not None and (guess.entity.table, guess.entity.key) == (table, key):
        return guess
    several = key != by_row and not (seen.is_key(table, key) if seen is not None else True)
    name = (person_in(key) if several else None) or singular(table)
    return Guess(entity=Entity(name=name, table=table, key=key), why="", several=several, by_row=key == by_row)


def _named_by(tables: Mapping[str, TableSchema], name: str, seen: Evidence | None) -> str:
    """What suggests that a table is a list: columns of others that name its rows."""
    found = [f"{other}.{key.columns[0]}" for other in tables if other != name for key in references_of(tables, other, seen)
             if key.table == name]
    return f" It may be one: {' and '.join(found[:3])} seem{'s' * (len(found) == 1)} to name a row of it." if found else ""


def _can_lead(tables: Mapping[str, TableSchema], entity: Entity, key: ForeignKey) -> bool:
    """Whether a row that names another one surely belongs to one entity: it names the entity itself, or a row by what the
    database keeps unique."""
    return (key.table, key.references) == (entity.table, (entity.key,)) or frozenset(key.references) in tables[key.table].unique


def _linked(tables: Mapping[str, TableSchema], references: Mapping[str, Sequence[ForeignKey]]) -> dict[str, TableSchema]:
    """The tables with further foreign keys."""
    return {name: replace(table, foreign_keys=(*table.foreign_keys, *references.get(name, ()))) for name, table in tables.items()}


def _names_a_row(name: str, key: ForeignKey) -> bool:
    """Whether the owner agrees to a foreign key that names suggest."""
    return _agreed(f"Does {name}.{key.columns[0]} name a row of {written_reference(key.table, key.references)}?",
                   f"Then a row of {name} belongs to that row, and is protected with it.", usual=True)


def _asked(question: str, why: str, usual: str, read: Callable[[str], str | None]) -> str:
    """The answer to a question, asked again until `read` accepts it; the usual one where nothing is typed."""
    print()
    print_wrapped(question)
    print_wrapped(f"  {why}")
    while True:
        try:
            typed = input(f"[{usual}] > ").strip()
        except EOFError:
            typed = ""
            print()
        found = read(typed or usual)
        if found is not None:
            return found


def _one_of(question: str, why: str, names: Sequence[str], usual: str) -> str:
    def read(typed: str) -> str | None:
        found = next((name for name in names if name.lower() == typed.lower()), None)
        if found is None:
            print(f"One of {', '.join(names)}.")
        return found

    return _asked(question, why, usual, read)


def _agreed(question: str, why: str, *, usual: bool) -> bool:
    def read(typed: str) -> str | None:
        found = {"y": "y", "yes": "y", "n": "n", "no": "n"}.get(typed.lower())
        if found is None:
            print("y or n.")
        return found

    return _asked(question, why, "y" if usual else "n", read) == "y"


def _number(question: str, why: str, usual: int) -> int:
    def read(typed: str) -> str | None:
        if typed.isascii() and typed.isdigit() and 1 <= int(typed[:9]) <= 10**6:
            return typed
        print("A whole number from 1 to 1000000.")
        return None

    return int(_asked(question, why, str(usual), read))


def _amount(question: str, why: str, usual: str, most: Decimal = Decimal(int(MOST))) -> str:
    def read(typed: str) -> str | None:
        try:
            found = Decimal(typed)
        except InvalidOperation:
            found = Decimal(0)
        if found.is_finite() and Decimal("0.000001") <= found <= most:
            return f"{found:f}"
        print(f"A number above 0 and up to {most:f}.")
        return None

    return _asked(question, why, usual, read)
