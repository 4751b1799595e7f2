"""`dpsql init`: the draft of a policy, from a schema."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dpsql.cli.arguments import Commands
from dpsql.cli.inputs import free_name, read_file
from dpsql.errors import OperationalError
from dpsql.frozen import replace

if TYPE_CHECKING:
    from dpsql.backends.foreign_rows import ForeignFile
    from dpsql.catalog.draft import Chosen
    from dpsql.catalog.drafted_files import DraftedFile
    from dpsql.catalog.guesses import Evidence
    from dpsql.trusted.declarations.tables import TableSchema

Choose: TypeAlias = "Callable[[Mapping[str, TableSchema], Evidence | None], Chosen | None]"


def add(commands: Commands) -> None:
    init = commands.add("init", _init, "draft a policy for files or a database")
    init.add_argument("database", nargs="+", help="a DuckDB file; files of CSV, Parquet, Arrow, Excel, SPSS, Stata or SAS; the "
                      "URI of a database, such as postgresql://host/database; with --from-smartnoise, a YAML file")
    init.add_argument("--from-smartnoise", action="store_true", help="import metadata of SmartNoise SQL")
    init.add_argument("--row-key", action="append", default=[], metavar="TABLE=COLUMN",
                      help="for SmartNoise tables with row privacy: the column that identifies rows")
    init.add_argument("--yes", action="store_true", help="ask nothing and accept all guesses")
    init.add_argument("--to", default="dpsql.toml", metavar="FILE",
                      help="the policy to write (default: %(default)s; - prints it)")


def _init(options: argparse.Namespace) -> int:
    from dpsql.answers.new_files import save
    from dpsql.catalog.file_names import is_copied
    from dpsql.cli.draft_questions import chosen_by, guessed
    from dpsql.engine.opening import file_named

    if options.from_smartnoise:
        from dpsql.catalog.smartnoise import imported

        text = imported(read_file(options.database[0]), source=options.database[0], row_keys=_pairs(options.row_key))
    else:
        asked = not options.yes and options.to != "-" and sys.stdin.isatty() and sys.stdout.isatty()
        if asked:
            free_name(options.to)
        choose = chosen_by if asked else guessed if options.yes else _nothing_chosen
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
    first = "refresh" if "://" in options.database[0] or any(map(is_copied, options.database)) else "check"
    print(f"{options.to} is drafted. Read it, fill it in, then: dpsql {first} --policy {options.to}")
    return 0


def _nothing_chosen(schema: Mapping[str, TableSchema], seen: Evidence | None = None) -> None:
    """Where nobody is there to answer, the draft says what it guessed."""


def _drafted_of_database(names: Sequence[str], choose: Choose) -> str:
    """The draft for a database of another kind, such as PostgreSQL, that is named by its URI; empty for files."""
    from dpsql.backends.database_schemas import database_schema
    from dpsql.catalog.database_uris import fault_of_uri, scheme_of
    from dpsql.catalog.draft import draft

    if not any(scheme_of(name) for name in names):
        return ""
    several = "one database is drafted at a time", "two commands with one draft each"
    wrong = several if len(names) > 1 else fault_of_uri(names[0])
    if wrong is not None:
        raise OperationalError(wrong[0], code="argument", try_=wrong[1])
    found = database_schema(names[0])
    return draft(found.tables, database=names[0], relations=found.relations, types=found.types,
                 chosen=choose(found.tables, None))


def _drafted(files: Sequence[Path], choose: Choose) -> str:
    """The draft for a DuckDB file, or for files with a table each."""
    from dpsql.backends.duckdb import open_database
    from dpsql.backends.row_evidence import RowEvidence
    from dpsql.catalog.draft import draft
    from dpsql.catalog.file_names import is_copied, is_of_rows

    if all(is_of_rows(file.name) or is_copied(file.name) or file.is_dir() for file in files):
        with tempfile.TemporaryDirectory(prefix="dpsql-init-") as copies:
            return _drafted_of_files(files, choose, Path(copies))
    if len(files) != 1:
        raise OperationalError("name either one DuckDB file, or CSV and Parquet files", code="no-database",
                               try_="two commands with one draft each, or all tables in one database")
    with contextlib.closing(open_database(files[0])) as reader:
        schema, seen = reader.schema(), RowEvidence(reader)
        return draft(schema, database=str(files[0]), rows=seen, chosen=choose(schema, seen))


def _drafted_of_files(files: Sequence[Path], choose: Choose, copies: Path) -> str:
    """The draft for files with a table each, or one in each sheet. Those of other programs are copied to the folder `copies`."""
    from dpsql.backends.csv_drafts import drafted
    from dpsql.backends.file_tables import FileTable, open_files
    from dpsql.backends.foreign_drafts import drafted_copy
    from dpsql.backends.row_evidence import RowEvidence
    from dpsql.backends.source_files import FileState, SourceFiles, files_of, folder_columns
    from dpsql.catalog.draft import draft
    from dpsql.catalog.reading import CellReading

    sources, foreign, aside = _tables_of(files)
    tables: list[FileTable] = []
    found: dict[str, DraftedFile] = {}
    for name, file in sources.items():
        if name in foreign:
            copy = copies / f"{len(tables)}.parquet"
            found[name] = drafted_copy(foreign[name], copy)
            state = FileState.of(Path(os.path.realpath(copy)))
            source = SourceFiles(table=name, reader="read_parquet", files=(state,))
        else:
            source = files_of(name, file)
            if not source.is_parquet:
                found[name] = drafted(source.paths[0], name)
        tables.append(FileTable(source=source, csv=found[name].csv, cells=found[name].readings) if name in found
                      else FileTable(source=source))
    held = open_files(tables, empty=True).schema()
    types = {table.name: {column: kind for column, kind in folder_columns(table.source).items()
                          if column.lower() not in {own.lower() for own, _ in held[table.name].columns}}
             for table in tables if table.source.is_parquet}
    named = {name: {column: CellReading(type=kind) for column, kind in folders.items()} for name, folders in types.items()}
    with contextlib.closing(open_files([replace(table, cells={**table.cells, **named.get(table.name, {})})
                                        for table in tables])) as reader:
        schema, seen = {**reader.schema()}, RowEvidence(reader)
        for name in foreign:
            columns = [pair for pair in schema[name].columns if pair[0] in found[name].columns]
            schema[name] = replace(schema[name], columns=(*columns, *found[name].unread.items()))
        return draft(schema, sources={name: str(file) for name, file in sources.items()}, types=types, files=found, rows=seen,
                     sheets={name: file.sheet for name, file in foreign.items() if file.sheet is not None}, aside=aside,
                     chosen=choose(schema, seen))


def _tables_of(files: Sequence[Path]) -> tuple[dict[str, Path], dict[str, ForeignFile], dict[str, str]]:
    """The file of each table, those of other programs among them, and why there is no table in some sheets of workbooks."""
    from dpsql.backends.column_names import distinct_names
    from dpsql.backends.foreign_drafts import tables_in
    from dpsql.backends.foreign_rows import ForeignFile
    from dpsql.catalog.file_names import PACKED, is_copied

    sources: dict[str, Path] = {}
    foreign: dict[str, ForeignFile] = {}
    aside: dict[str, str] = {}
    for file in files:
        stem = Path(file.stem).stem if file.suffix.lower() in PACKED else file.stem
        named: dict[str, ForeignFile | None] = {_table_name(stem): None}
        if is_copied(file.name):
            inside, why = tables_in(ForeignFile(table=_table_name(file.stem), path=Path(os.path.realpath(file))))
            named = dict(zip(distinct_names([_table_name(each.sheet or file.stem) for each in inside]), inside, strict=True))
            aside |= {f"the sheet {sheet} of {file}": reason for sheet, reason in why.items()}
        for name, each in named.items():
            if name in sources:
                raise OperationalError(f"{sources[name]} and {file} would both be table {name}", code="argument",
                                       try_="files of different names")
            sources[name] = file
            if each is not None:
                foreign[name] = replace(each, table=name)
    return sources, foreign, aside


def _table_name(called: str) -> str:
    """A table name for a file or a sheet: letters, digits and _ only."""
    name = re.sub(r"\W", "_", called, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"table_{name}"


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise OperationalError(f"{text} is not TABLE=COLUMN", code="argument")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}
