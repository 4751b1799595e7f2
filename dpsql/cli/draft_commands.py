"""`dpsql init`: the draft of a policy, from a schema."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dpsql.cli.arguments import Commands
from dpsql.cli.inputs import free_name, read_file
from dpsql.errors import OperationalError

if TYPE_CHECKING:
    from dpsql.catalog.draft import Chosen
    from dpsql.catalog.model import TableSchema

Choose: TypeAlias = "Callable[[Mapping[str, TableSchema]], Chosen | None]"


def add(commands: Commands) -> None:
    init = commands.add("init", _init, "draft a policy from the schema of a database, reading no row")
    init.add_argument("database", nargs="+", help="a DuckDB file, or CSV and Parquet files, or the URI of a database such as "
                      "postgresql://host/database; with --from-smartnoise, a YAML file")
    init.add_argument("--from-smartnoise", action="store_true", help="import metadata of SmartNoise SQL")
    init.add_argument("--row-key", action="append", default=[], metavar="TABLE=COLUMN",
                      help="for SmartNoise tables with row privacy: the column that names rows")
    init.add_argument("--to", default="dpsql.toml", metavar="FILE",
                      help="the policy to write (default: %(default)s); - prints it")


def _init(options: argparse.Namespace) -> int:
    from dpsql.answers.new_files import save
    from dpsql.cli.draft_questions import chosen_by
    from dpsql.engine.opening import file_named

    if options.from_smartnoise:
        from dpsql.catalog.smartnoise import imported

        text = imported(read_file(options.database[0]), source=options.database[0], row_keys=_pairs(options.row_key))
    else:
        asked = options.to != "-" and sys.stdin.isatty() and sys.stdout.isatty()
        if asked:
            free_name(options.to)
        choose = chosen_by if asked else _nothing_chosen
        try:
            text = (_drafted_of_database(options.database, choose)
                    or _drafted([file_named(name) for name in options.database], choose))
        except KeyboardInterrupt:
            print("\nnothing is written", file=sys.stderr)
            return 130
    if options.to == "-":
        print(text, end="")
        return 0
    free_name(options.to)
    save(text, options.to)
    first = "refresh" if "://" in options.database[0] else "check"
    print(f"{options.to} is drafted. Read it, fill it in, then: dpsql {first} --policy {options.to}")
    return 0


def _nothing_chosen(schema: Mapping[str, TableSchema]) -> None:
    """Where nobody is there to answer, the draft says what it guessed."""


def _drafted_of_database(names: Sequence[str], choose: Choose) -> str:
    """The draft for a database of another kind, such as PostgreSQL, that is named by its URI; empty for files."""
    from dpsql.backends.database_schemas import database_schema
    from dpsql.catalog.database_uris import fault_of_uri, scheme_of
    from dpsql.catalog.draft import draft

    if not any(scheme_of(name) for name in names):
        return ""
    several = "one database is drafted at a time", "a draft for each, by two commands"
    wrong = several if len(names) > 1 else fault_of_uri(names[0])
    if wrong is not None:
        raise OperationalError(wrong[0], code="argument", try_=wrong[1])
    found = database_schema(names[0])
    return draft(found.tables, database=names[0], relations=found.relations, types=found.types,
                 chosen=choose(found.tables))


def _drafted(files: Sequence[Path], choose: Choose) -> str:
    """The draft for a DuckDB file, or for CSV and Parquet files."""
    from dpsql.backends.duckdb import open_database
    from dpsql.backends.file_tables import FileTable, open_files
    from dpsql.backends.source_files import READERS, files_of, folder_columns
    from dpsql.catalog.draft import draft

    if all(file.suffix.lower() in READERS or file.is_dir() for file in files):
        sources: dict[str, Path] = {}
        for file in files:
            if (other := sources.setdefault(_table_name(file), file)) is not file:
                raise OperationalError(f"{other} and {file} would both be table {_table_name(file)}", code="argument",
                                       try_="files of different names")
        tables = [FileTable(source=files_of(name, file)) for name, file in sources.items()]
        held = open_files(tables, empty=True).schema()
        types = {table.name: {column: kind for column, kind in folder_columns(table.source).items()
                              if column.lower() not in {own.lower() for own, _ in held[table.name].columns}}
                 for table in tables if table.source.is_parquet}
        reader = open_files([replace(table, types=types.get(table.name, {})) for table in tables], empty=True)
        return draft(reader.schema(), sources={name: str(file) for name, file in sources.items()}, types=types,
                     chosen=choose(reader.schema()))
    if len(files) != 1:
        raise OperationalError("either one DuckDB file is named, or CSV and Parquet files", code="no-database",
                               try_="a draft for each, by two commands, or all tables in one database")
    schema = open_database(files[0]).schema()
    return draft(schema, database=str(files[0]), chosen=choose(schema))


def _table_name(file: Path) -> str:
    """A table name for a file: letters, digits and _ only."""
    name = re.sub(r"\W", "_", file.stem, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"table_{name}"


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise OperationalError(f"{text} is not TABLE=COLUMN", code="argument")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}
