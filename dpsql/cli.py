"""The shell: dpsql demo | init | refresh | check | prepare | query | explain | workload | validate | synthesize | budget |
releases | ledger | serve | user | help.

Exit codes: 0 answered; 1 a statement failed after its charge, or a fault of dpsql, or `check --rows` found something suspicious;
2 something in what was given is wrong, and nothing was charged; 3 the budget is spent; 4 the ledger cannot be used.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql import __version__
from dpsql.errors import BudgetExhausted, Error, InternalError, LedgerError, OperationalError
from dpsql.server.commands import add_commands

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dpsql.answers.answer import Answer
    from dpsql.answers.listings import Listing
    from dpsql.audit.policy_on_rows import PolicyOnRows
    from dpsql.audit.reading import TablesRead
    from dpsql.catalog.model import Budget, Catalog, Policy
    from dpsql.dbapi import Connection

EXIT = {"wrong": 2, "budget": 3, "ledger": 4, "failed": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parsed(arguments)
    try:
        return options.run(options) or 0
    except Error as fault:
        _say_fault(fault, as_json=getattr(options, "json", False))
        return exit_code(fault)
    except KeyboardInterrupt:
        print("interrupted; what was charged stays charged, and counts as an incident", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception:  # whatever it was, its text may depend on the data
        _say_fault(InternalError("a fault of dpsql itself; what was charged stays charged, and its answer is kept", code="fault"),
                   as_json=getattr(options, "json", False))
        return EXIT["failed"]


def exit_code(fault: Error) -> int:
    match fault:
        case BudgetExhausted():
            return EXIT["budget"]
        case LedgerError():
            return EXIT["ledger"]
        case InternalError():
            return EXIT["failed"]
        case _:
            return EXIT["wrong"]


def _say_fault(fault: Error, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(fault.as_dict()))
    else:
        print(fault, file=sys.stderr)


# -- arguments


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; leaves with exit code 2 where one is unknown, and says which one may be meant."""
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        usage = options.parser.format_usage()
        name = next((text for text in unknown if text.startswith("--")), unknown[0]).partition("=")[0]
        close = difflib.get_close_matches(name, re.findall(r"--[a-z-]+", usage), n=1)
        options.parser.error(f"there is no option {name}" + (f"; try {close[0]}" if close else "") if name.startswith("-")
                             else f"{name} is one argument too many; put all of a statement in quotes")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dpsql", description="Ask SQL of confidential tables and get private answers.",
                                     epilog="guides: dpsql help; exit codes: 0 answered, 1 failed after a charge, 2 wrong input "
                                     "(nothing charged), 3 budget spent, 4 ledger unusable")
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")

    def command(name: str, run: Callable[[Any], int | None], help_: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help_, description=help_)
        made.set_defaults(run=run, parser=made)
        return made

    demo = command("demo", _demo, "answer some SQL over real data that comes with dpsql")
    demo.add_argument("--to", metavar="FOLDER", help="create a copy of the demo in a new folder instead")
    init = command("init", _init, "draft a policy from the schema of a database, reading no row")
    init.add_argument("database", nargs="+", help="a DuckDB file, or CSV and Parquet files, or the URI of a database such as "
                      "postgresql://host/database; with --from-smartnoise, a YAML file")
    init.add_argument("--from-smartnoise", action="store_true", help="import metadata of SmartNoise SQL")
    init.add_argument("--row-key", action="append", default=[], metavar="TABLE=COLUMN",
                      help="for SmartNoise tables with row privacy: the column that names rows")
    init.add_argument("--to", default="dpsql.toml", metavar="FILE",
                      help="the policy to write (default: %(default)s); - prints it")
    refresh = command("refresh", _refresh, "read tables in databases such as PostgreSQL: take a new snapshot, for the owner")
    refresh.add_argument("--policy", metavar="FILE", help="the policy (default: dpsql.toml, here)")
    refresh.add_argument("--ledger", metavar="FILE", help="the ledger (default: what the policy says, or beside it)")
    check = command("check", _check, "check a policy against its database, and list what can be queried")
    _add_place(check)
    check.add_argument("--rows", action="store_true", help="read the private rows, exactly, and show what the policy cuts off of "
                       "them: for the owner; it shows private facts on this screen and stores none; exit code 0 where nothing is "
                       "suspicious, 1 otherwise")
    check.add_argument("--json", action="store_true", help="print JSON")
    made = command("prepare", _prepare, "store the data once more in buckets of entities, which are read much faster")
    _add_place(made)
    made.add_argument("--buckets", type=int, metavar="NUMBER", help="how many (default: one for each twelve million rows)")
    for name, run, help_ in (("query", _query, "answer SQL"),
                             ("explain", _explain, "show what SQL would do and cost; spends nothing")):
        made = command(name, run, help_)
        made.add_argument("sql", nargs="?", help="statements, parted by semicolons; - or nothing reads them from the input")
        made.add_argument("--file", metavar="FILE", help="read the statements from a file")
        made.add_argument("--param", action="append", default=[], metavar="[NAME=]VALUE",
                          help="the value of a parameter, in order or by name; 'in quotes' it is a text, whatever it looks like")
        _add_place(made)
        _add_terms(made)
        made.add_argument("--json", action="store_true", help="print JSON, one line for each statement")
        if name == "explain":
            made.add_argument("--rows", action="store_true", help="also how many rows it reads, and about how long that takes: "
                              "for the owner; it shows private facts on this screen and stores none")
        if name == "query":
            made.add_argument("--csv", action="store_true", help="print CSV, with standard errors and intervals")
    made = command("workload", _workload, "answer many COUNT and SUM statements together, for one price")
    made.add_argument("sql", nargs="?", help="statements, parted by semicolons; - or nothing reads them from the input")
    made.add_argument("--file", metavar="FILE", help="read the statements from a file")
    _add_place(made)
    _add_terms(made)
    made.add_argument("--json", action="store_true", help="print JSON, one line for each statement")
    made.add_argument("--csv", action="store_true", help="print CSV, with standard errors and intervals")
    made.add_argument("--explain", action="store_true", help="show what it would do and cost instead; spends nothing")
    made.add_argument("--strategy", metavar="NAME", help="how the workload is measured (default: the best)")
    made.add_argument("--error-within", type=_number("error_within"), metavar="X",
                      help="the least price at which every answer is within this of the truth, with the confidence")
    made.add_argument("--standard-error", type=_number("standard_error"), metavar="X",
                      help="the least price at which every answer has this standard error at most")
    made = command("validate", _validate, "decide whether a synthetic table answers queries as the private one does")
    made.add_argument("file", nargs="?", help="a file of queries, parted by semicolons: SELECT ..., or (SELECT ...) WITHIN 5 "
                      "PERCENT; - or nothing reads the input")
    made.add_argument("--sql", metavar="QUERIES", help="the queries, in place of a file")
    made.add_argument("--synthetic", action="append", required=True, metavar="[TABLE=]FILE",
                      help="a CSV or Parquet file, or a public table; optionally with the private table it stands for")
    made.add_argument("--within", metavar="TOLERANCE", help='such as 200, "5 PERCENT" or "5 PERCENT OR 10"')
    for name, help_ in (("decider", "the method that decides (default: the best)"), ("suite", "how checks share the price")):
        made.add_argument(f"--{name}", metavar="NAME", help=help_)
    made.add_argument("--html", metavar="FILE", help="write a report, with charts, to a new file")
    made.add_argument("--failures", type=int, metavar="NUMBER", help="how many failed checks suite = sparse may report")
    made.add_argument("--clip", type=_number("clip"), metavar="NUMBER",
                      help="the most that one entity adds where its rows are not limited (default: learned)")
    made.add_argument("--max-rows", type=int, metavar="NUMBER", help="the most rows of each entity that are used")
    made.add_argument("--alpha", type=_number("alpha"), metavar="NUMBER", help="the share of wrong decisions (default: 0.05)")
    _add_place(made)
    _add_terms(made)
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--csv", action="store_true", help="print CSV")
    made = command("synthesize", _synthesize, "make a synthetic table: rows drawn from a private model of a query's rows")
    made.add_argument("sql", nargs="?", help="SELECT of the columns; - or nothing reads it from the input")
    made.add_argument("--file", metavar="FILE", help="read the query from a file")
    made.add_argument("--name", required=True, metavar="NAME", help="the name of the new table, in later statements")
    made.add_argument("--method", metavar="NAME", help="how the model is measured (default: the best)")
    made.add_argument("--score", metavar="NAME", help="of the method privbayes: 'r' or 'mutual information'")
    made.add_argument("--fit", metavar="NAME", help="of the method privbayes: 'network' or 'conditionals'")
    made.add_argument("--workload", metavar="TEXT", help="what the table should be good at: 'all 3-way', or statements about it")
    made.add_argument("--rows", type=int, metavar="NUMBER", help="how many rows to draw (default: as many as there seem to be)")
    made.add_argument("--bins", type=int, metavar="NUMBER", help="into how many parts the range of a number is cut (default: the "
                      "bins of the policy, or 32)")
    made.add_argument("--max-rows", type=int, metavar="NUMBER", help="the most rows of each entity that are used")
    made.add_argument("--to", metavar="FILE", help="write the rows to a new CSV or Parquet file")
    made.add_argument("--report", metavar="FILE", help="write a page about the table to a new HTML file: what was measured and "
                      "how near the rows are to it, with pictures")
    made.add_argument("--again", action="store_true", help="take the table of this name as it was made before; costs nothing")
    _add_place(made)
    _add_terms(made)
    made.add_argument("--json", action="store_true", help="print JSON")
    for name, run, help_ in (("budget", _budget, "show what was spent, what is left and what failed; --create starts a ledger"),
                             ("releases", _releases, "list the statements that were charged")):
        made = command(name, run, help_)
        _add_place(made)
        made.add_argument("--json", action="store_true", help="print JSON")
        if name == "budget":
            made.add_argument("--create", action="store_true", help="start a new, empty ledger (the owner does this once)")
            made.add_argument("--reopen", metavar="ANALYST", help="reopen the account of an analyst that incidents closed")
    made = command("ledger", _ledger, "verify the whole ledger: every event from the first on, and all that its anchor has seen")
    made.add_argument("action", choices=["verify"], help="what to do with it")
    _add_place(made)
    made.add_argument("--json", action="store_true", help="print JSON")
    add_commands(command)
    made = command("help", _help, "show a guide; without a topic, list them")
    made.add_argument("topic", nargs="?", help="a guide; without one, all of them are listed")
    return parser


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", metavar="FILE", help="a DuckDB, CSV or Parquet file (default: what the policy says)")
    parser.add_argument("--policy", metavar="FILE", help="the policy (default: dpsql.toml beside the database, or here)")
    parser.add_argument("--ledger", metavar="FILE", help="the ledger (default: what the policy says, or beside it)")
    parser.add_argument("--budget", metavar="NAME", help="the budget; needed where the policy has several")
    parser.add_argument("--analyst", metavar="NAME", help="whose statements these are (default: you)")


def _add_terms(parser: argparse.ArgumentParser) -> None:
    for name in ("epsilon", "delta", "rho"):
        parser.add_argument(f"--{name}", type=_number(name), metavar="NUMBER", help=f"{name} of statements that state no price")
    parser.add_argument("--confidence", type=_number("confidence"), metavar="NUMBER", help="of intervals (default: 0.95)")


def _number(name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        from decimal import Decimal, InvalidOperation
        try:
            return Decimal(text)
        except InvalidOperation:
            raise argparse.ArgumentTypeError(f"{name} is a number, not {text!r}") from None

    return read


# -- commands


def _demo(options: argparse.Namespace) -> None:
    import tempfile

    from dpsql.demo import folder

    if options.to is not None:
        policy = folder.export(Path(options.to))
        print(f"The demo is in {policy.parent}. For example:\n  dpsql query --policy {policy} --budget {folder.BUDGET} "
              "\"SELECT plan, COUNT(*) FROM people GROUP BY plan\"")
        return
    from dpsql.dbapi import connect

    with tempfile.TemporaryDirectory(prefix="dpsql-demo-") as temporary:
        policy = folder.export(Path(temporary) / "demo")
        with connect(policy=policy, budget=folder.BUDGET, analyst="demo") as connection:
            _answer_all(folder.statements(), connection, options, show_sql=True)
            _show(connection.execute("SHOW BUDGET"), options)


def _init(options: argparse.Namespace) -> None:
    from dpsql.engine.opening import file_named

    if options.from_smartnoise:
        from dpsql.catalog.smartnoise import imported

        text = imported(_read_file(options.database[0]), source=options.database[0], row_keys=_pairs(options.row_key))
    else:
        text = _drafted_of_database(options.database) or _drafted([file_named(name) for name in options.database])
    if options.to == "-":
        print(text, end="")
        return
    _write_new(options.to, text)
    first = "refresh" if "://" in options.database[0] else "check"
    print(f"{options.to} is drafted. Read it, fill it in, then: dpsql {first} --policy {options.to}")


def _drafted_of_database(names: Sequence[str]) -> str:
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
    return draft(found.tables, database=names[0], relations=found.relations, types=found.types)


def _drafted(files: Sequence[Path]) -> str:
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
        return draft(reader.schema(), sources={name: str(file) for name, file in sources.items()}, types=types)
    if len(files) != 1:
        raise OperationalError("either one DuckDB file is named, or CSV and Parquet files", code="no-database",
                               try_="a draft for each, by two commands, or all tables in one database")
    return draft(open_database(files[0]).schema(), database=str(files[0]))


def _table_name(file: Path) -> str:
    """A table name for a file: letters, digits and _ only."""
    name = re.sub(r"\W", "_", file.stem, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"table_{name}"


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise OperationalError(f"{text} is not TABLE=COLUMN", code="argument")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _refresh(options: argparse.Namespace) -> None:
    from dpsql.dbapi import refresh

    with _waiting("reading the database ..."):
        tables = refresh(policy=options.policy, ledger=options.ledger)
    print(f"a new snapshot of {', '.join(tables)} is in force; connections that are open have to connect again" if tables else
          "all tables are public and have the rows that they had, so the snapshot before stays in force")


def _check(options: argparse.Namespace) -> int:
    from dpsql.answers.listings import listed_tables
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import choose_budget, find_policy, fitted, open_reader
    from dpsql.planning.groups import long_ranges

    policy = read_policy(find_policy(options.database, options.policy))
    chosen = [*policy.budgets.values()] if options.budget is None else [choose_budget(policy, options.budget)]
    if options.rows:
        return _check_rows(policy, chosen, options)
    reader = open_reader(policy, options.database)
    _tell_slips(policy, options, [budget.name for budget in chosen])
    catalogs = [fitted(policy, budget.name, reader) for budget in chosen]
    for text in dict.fromkeys(chain.from_iterable(map(long_ranges, catalogs))):
        print(f"note: {text}", file=sys.stderr)
    found = [(budget, catalog, listed_tables(catalog)) for budget, catalog in zip(chosen, catalogs, strict=True)]
    if options.json:
        for budget, catalog, listing in found:
            names = [name for name, _ in listing.columns]
            print(json.dumps({"budget": budget.name, "total": str(budget.total), "entity": budget.entity,
                              "tables": [dict(zip(names, row, strict=True)) for row in listing.rows],
                              "unusable": dict(catalog.outside)}))
    else:
        for entity in dict.fromkeys(budget.entity for budget in chosen):
            _print_tables([one for one in found if one[0].entity == entity], options)
        print("Nothing of private rows is shown here. For the owner: --rows counts what the policy cuts off of them, exactly; "
              "that shows private facts on this screen, and keeps none.")
    reader.close()
    return 0


def _print_tables(found: Sequence[tuple[Budget, Catalog, Listing]], options: argparse.Namespace) -> None:
    """What may be asked under the budgets of one entity: the same tables, which are listed once."""
    for budget, *_ in found:
        print(f"budget {budget.name}: {budget.total}, protects each {budget.entity}")
    _, catalog, listing = found[0]
    _print_listing(listing, options)
    for table, reason in catalog.outside.items():
        print(f"table {table} cannot be used: {reason}")


def _check_rows(policy: Policy, budgets: Sequence[Budget], options: argparse.Namespace) -> int:
    """Show private facts on the owner's screen. No ledger is opened, and nothing is recorded anywhere."""
    from dpsql.audit.policy_on_rows import policy_on_rows

    for name in ("ledger", "analyst"):
        if getattr(options, name) is not None:
            raise OperationalError(f"--rows is for the owner, and has no {name}", code="argument", try_=f"leaving --{name} out")
    with _waiting("counting ..."):
        found = policy_on_rows(policy, budgets, options.database)
    if options.json:
        print(json.dumps(found.as_dict()))
    else:
        _print_found(found)
    return int(bool(found.suspicions))


def _print_found(found: PolicyOnRows) -> None:
    """Print tables of what was found, and what is suspicious."""
    from dpsql.answers.display import printable
    from dpsql.audit.policy_on_rows import share

    def part(some: int, whole: int) -> str:
        return f"{some:,} ({share(some, whole)})" if some else "0"

    def drawn(titles: str, rows: Iterable[Sequence[object]]) -> None:
        table = _table()
        for i, title in enumerate(titles.split(", ")):
            table.add_column(title, justify="left" if i < 2 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(f"{cell:,}" if isinstance(cell, int) else printable(str(cell)) for cell in row))
        if table.rows:
            _console().print(table)

    print("PRIVATE: exact counts of the rows, for the owner's eyes alone. Nothing of it is kept.")
    drawn("table, key, rows, NULL, repeated or dangling", (
        (key.table, key.key, key.rows, part(key.nulls, key.rows), part(key.broken, key.rows)) for key in found.keys))
    drawn("table, entity, rows, of nobody, entities, rows of each: 50 %, 90 %, 99 %, most, limit, beyond it", (
        (one.table, one.entity, one.rows, part(one.nobodys, one.rows), one.entities, one.half, one.most90, one.most99, one.most,
         *(("none", "") if one.limit is None else (one.limit, part(one.beyond, one.rows)))) for one in found.entities))
    drawn("column, declared, NULL, outside, unused, 98 % lie in", (
        (f"{one.table}.{one.column}", one.declared, part(one.nulls, one.rows), part(one.outside, one.rows - one.nulls),
         f"{len(one.unused):,} of them: {', '.join(one.unused[:3])}" if one.unused else "",
         "" if one.middle is None else f"{one.middle[0]:.6g} .. {one.middle[1]:.6g}") for one in found.columns))
    for text in found.suspicions:
        print(f"suspicious: {printable(text)}")
    print("Analysts see the policy, so what you change because of this tells of the rows: correct slips, and keep limits round."
          if found.suspicions else "nothing is suspicious")


def _tell_slips(policy: Policy, options: argparse.Namespace, budgets: Sequence[str]) -> None:
    """Warn of likely mistakes: budgets that add up, and data that another ledger or budget serves too."""
    from dpsql.engine.opening import allowed_together, find_ledger, noticed
    from dpsql.kernel.ledger import Ledger

    notes = allowed_together(policy)
    with contextlib.suppress(LedgerError), contextlib.closing(Ledger(*find_ledger(policy, options.ledger))) as book:
        for name in budgets:
            notes += noticed(policy, options.database, book, name)[0]
    for text in dict.fromkeys(notes):
        print(f"note: {text}", file=sys.stderr)


def _prepare(options: argparse.Namespace) -> None:
    from dpsql.engine.preparing import prepare

    with _waiting("preparing ..."):
        made = prepare(buckets=options.buckets, **_place(options))
    for one in made:
        tables = ", ".join(one.tables)
        print(f"prepared for each {one.entity}: {tables}, in {one.buckets} bucket{'s' * (one.buckets != 1)} in {one.place}")


def _query(options: argparse.Namespace) -> None:
    with _connected(options) as connection:
        _answer_all(_statements(options), connection, options, show_sql=False)


def _explain(options: argparse.Namespace) -> None:
    with _connected(options) as connection:
        for text, told in _each(_statements(options), options):
            with told:
                made = connection.explain(text, _parameters(options.param))
            read = _reading(text, options) if options.rows else None
            if options.json:
                print(json.dumps(made.as_dict() | ({} if read is None else {"private": read.as_dict()})))
            else:
                print(made if read is None else f"{made}\n{read}")


def _reading(text: str, options: argparse.Namespace) -> TablesRead:
    """What a statement reads, for the owner's screen."""
    from dpsql.audit.reading import reading
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.answering import tables_named
    from dpsql.engine.opening import choose_budget, find_policy
    from dpsql.sql.text.parse import parse

    policy = read_policy(find_policy(options.database, options.policy))
    return reading(policy, choose_budget(policy, options.budget), options.database, options.ledger,
                   named=dict.fromkeys(tables_named(parse(text))))


def _workload(options: argparse.Namespace) -> None:
    names = ("epsilon", "delta", "rho", "strategy", "error_within", "standard_error")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.explain:
        from dpsql.sql.text.split import split

        with _connected(options) as connection, _waiting():
            told = connection.explain(split(_statements(options)), **given)
        print(json.dumps(told.as_dict()) if options.json else told)
        return
    with _connected(options) as connection, _waiting():
        made = connection.workload(_statements(options), **given)
    for answer in made:
        _print_answer(answer, options)
    if not options.json and not options.csv:
        for note in (*made.notes, f"together: {'answered before, no cost' if made.stored else made.cost}"):
            _console().print(note, style="dim", markup=False, highlight=False)


def _validate(options: argparse.Namespace) -> None:
    from dpsql.dbapi import Connection
    from dpsql.sql.text.split import split

    names = ("decider", "suite", "alpha", "failures", "clip", "max_rows")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    named = [part.partition("=") for part in options.synthetic]
    synthetic = {table if found else None: source if found else table for table, found, source in named}
    queries, within = split(_statements(options)), _value(options.within or "null")
    if options.html is not None and Path(options.html).exists():  # checked before anything is charged
        raise OperationalError(f"{options.html} exists, and is not overwritten", code="exists", try_="another name")
    with _connected(options) as connection, _waiting():  # files here belong to whoever has the shell; never those of the policy
        session = replace(connection.session, uploads=connection.session.uploads.also(Path.cwd()))
        made = Connection(session).validate(queries, synthetic=synthetic, within=within, **given)
    if options.html is not None:
        from dpsql.validation.report import page

        _write_new(options.html, page(made))
    if options.json:
        print(made.as_json())
    else:
        _print_answer(made.table(), options)


def _synthesize(options: argparse.Namespace) -> None:
    own = ("method", "score", "fit", "workload", "rows", "bins", "max_rows")
    given = {name: value for name in own if (value := getattr(options, name)) is not None}
    target = _free_file(options.to, "people_syn.csv", ".csv", ".parquet")
    page = _free_file(options.report, "people_syn.html", ".html")
    if options.again and (given or options.sql is not None or options.file is not None):
        raise OperationalError("--again shows a table as it was made, by its name alone", code="argument",
                               try_=f"dpsql synthesize --again --name {options.name}")
    with _connected(options) as connection, _waiting("planning ..."):
        made = (connection.synthetic_table(options.name) if options.again else
                connection.synthesize(_statements(options), name=options.name, **given))
    if target is not None:
        made.write(target)
    if page is not None:
        made.report(page)
    print(json.dumps(made.as_dict()) if options.json else made)


def _free_file(name: str | None, example: str, *forms: str) -> Path | None:
    """A file that can be written, by its name. Raises OperationalError where not: before anything is charged."""
    if name is None:
        return None
    path = Path(name)
    wrong = ("exists, and is not overwritten" if path.exists() else "is in no folder" if not path.parent.is_dir() else
             "" if path.suffix.lower() in forms else f"is not named {' or '.join(forms)}")
    if wrong:
        raise OperationalError(f"{path} {wrong}", code="file", try_=f"another name, such as {example}")
    return path


def _budget(options: argparse.Namespace) -> None:
    from dpsql.answers.listings import listed_failures
    from dpsql.engine.opening import incidents

    if options.create:
        from dpsql.catalog.policy import read_policy
        from dpsql.engine.opening import find_ledger, find_policy
        from dpsql.kernel.ledger import Ledger

        path, anchor = find_ledger(read_policy(find_policy(options.database, options.policy)), options.ledger)
        Ledger.create(path, anchor).close()
        print(f"an empty ledger is at {path}")
        return
    if options.reopen is not None:
        from dpsql.engine.opening import reopen

        forgiven = reopen(options.reopen, **_place(options))
        print(f"{options.reopen} can ask again: {forgiven} of its incidents forgiven; what was charged stays charged" if forgiven
              else f"no incident of {options.reopen} was counted under this budget, so nothing is changed")
        return
    with _connected(options) as connection:
        failed = listed_failures(incidents(**_place(options)))
        state = connection.budget()
        if options.json:
            names = [name for name, _ in failed.columns]
            print(json.dumps(state.as_dict() | {"failed": [dict(zip(names, row, strict=True)) for row in failed.rows]}))
            return
        _show(connection.execute("SHOW BUDGET"), options)
        so_far = f"; together they are ε = {state.tight:.4g} at δ = {state.at:.3g}" if state.tight is not None else ""
        print(f"all analysts: {state.statements} statement{'s were' if state.statements != 1 else ' was'} charged{so_far}")
        if failed.rows:
            print("statements that failed after their charge:")
            _print_listing(failed, options)


def _releases(options: argparse.Namespace) -> None:
    with _connected(options) as connection:
        _show(connection.execute("SHOW RELEASES"), options)


def _ledger(options: argparse.Namespace) -> None:
    """Verify the ledger; no policy but the place it names is looked at, and no database."""
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import find_ledger, find_policy
    from dpsql.kernel.ledger import Ledger

    path, anchor = find_ledger(read_policy(find_policy(options.database, options.policy)), options.ledger)
    with _waiting("verifying ..."), contextlib.closing(Ledger(path, anchor, whole=True)) as ledger:
        events = ledger.events
    if options.json:
        print(json.dumps({"ledger": str(path), "events": events, "whole": True}))
    else:
        print(f"{path} is whole: {events:,} events, each linked to the one before it, and all that its anchor has seen are there")


def _help(options: argparse.Namespace) -> None:
    from dpsql.guides import show

    show(options.topic)


# -- input


def _connected(options: argparse.Namespace) -> Connection:
    from dpsql.dbapi import connect

    given = {name: getattr(options, name, None) for name in ("epsilon", "delta", "rho")}
    confidence = getattr(options, "confidence", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # reported below, in the terms of a shell
        made = connect(options.database, policy=options.policy, budget=options.budget, analyst=options.analyst,
                       ledger=options.ledger, confidence=0.95 if confidence is None else confidence, **given)
    for text in made.notes:
        print(f"note: {text}", file=sys.stderr)
    return made


def _place(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("policy", "database", "budget", "ledger")}


def _statements(options: argparse.Namespace) -> str:
    if options.sql is not None and options.file is not None:
        raise OperationalError("the statements are given twice, as text and as a file", code="argument")
    if options.file is not None and options.file != "-":
        return _read_file(options.file)
    if options.sql in (None, "-"):
        return sys.stdin.read()
    return str(options.sql)


def _read_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = {FileNotFoundError: "there is no such file", IsADirectoryError: "it is a folder",
                  UnicodeDecodeError: "it is not text"}.get(type(fault), type(fault).__name__)
        raise OperationalError(f"{name} cannot be read: {reason}", code="file", try_="the path of a text file") from None


def _write_new(name: str, text: str) -> None:
    """Write a file that does not exist yet."""
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OperationalError(f"{name} exists, and is not overwritten", code="exists", try_="another name: --to FILE") from None
    except OSError as fault:
        raise OperationalError(f"{name} cannot be written ({type(fault).__name__})", code="file") from None


def _parameters(texts: Sequence[str]) -> Any:
    """Values in order, or by name if all have one."""
    named = [re.fullmatch(r"([A-Za-z_]\w*)=(.*)", text, re.DOTALL) for text in texts]
    if texts and all(named):
        return {match.group(1): _value(match.group(2)) for match in named if match is not None}
    return [_value(text) for text in texts]


def _value(text: str) -> Any:
    """A number, boolean or NULL if written as one; otherwise a text, optionally in quotes."""
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text):
        return int(text) if len(text) <= 400 else float(text)
    if re.fullmatch(r"-?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?", text):
        return float(text)
    if re.fullmatch(r"'.*'", text, re.DOTALL):
        return text[1:-1].replace("''", "'")
    return {"true": True, "false": False, "null": None}.get(text.lower(), text)


# -- output


def _answer_all(text: str, connection: Connection, options: argparse.Namespace, *, show_sql: bool) -> None:
    parameters = _parameters(getattr(options, "param", []))
    for statement, told in _each(text, options)[1:]:  # before the first one is charged
        with told:
            _check_statement(statement, connection, parameters)
    for statement, told in _each(text, options):
        if show_sql:
            print("\n" + statement)
        with told, _waiting():
            cursor = connection.execute(statement, parameters)
        _show(cursor, options)


def _each(text: str, options: argparse.Namespace) -> Sequence[tuple[str, contextlib.AbstractContextManager[None]]]:
    """The statements of a script, each with a context that locates its faults in the whole script. An empty one is an error."""
    from dpsql.sql.text.split import split

    found: list[tuple[str, contextlib.AbstractContextManager[None]]] = []
    at = 0
    for statement in split(text) or [text]:
        at = text.index(statement, at)
        found.append((statement, _told_in(text, at, getattr(options, "file", None))))
        at += len(statement)
    return found


@contextlib.contextmanager
def _told_in(text: str, at: int, file: str | None) -> Iterator[None]:
    """Context for a statement that begins at position `at` of a script: its faults are located in the script."""
    from dpsql.types import Span

    try:
        yield
    except Error as fault:
        if fault.span is not None and fault.text and text.startswith(fault.text, at):
            fault.span, fault.text = Span(fault.span.start + at, fault.span.end + at), text
            fault.source = file if file not in (None, "-") else fault.source
        raise


def _check_statement(text: str, connection: Connection, parameters: Any) -> None:
    """Raises the error of a wrong statement, as far as it can be detected beforehand."""
    from dpsql.sql.text.parse import parse
    from dpsql.sql.text.statement import OpenModel, Query, Synthesize, SynthesizeTables, Validate

    if isinstance(parse(text), Query | Validate | Synthesize | SynthesizeTables | OpenModel):
        connection.explain(text, parameters)


@contextlib.contextmanager
def _waiting(what: str = "asking ...") -> Iterator[None]:
    """A sign of life on long work, where a person is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    from dpsql.progress import shown_by
    with Console(stderr=True).status(what) as status, shown_by(status.update, what):
        yield


def _show(cursor: Any, options: argparse.Namespace) -> None:
    if cursor.answer is not None:
        _print_answer(cursor.answer, options)
    elif cursor.synthetic is not None:
        print(json.dumps(cursor.synthetic.as_dict()) if getattr(options, "json", False) else cursor.synthetic)
    elif cursor.database is not None:
        print(cursor.database.as_json() if getattr(options, "json", False) else cursor.database)
    elif cursor.model is not None:
        print(cursor.model.as_json() if getattr(options, "json", False) else cursor.model)
    elif cursor.explanation is not None:
        made = cursor.explanation
        print(json.dumps(made.as_dict()) if getattr(options, "json", False) else made)
    else:
        from dpsql.answers.listings import Listing
        from dpsql.types import Type

        columns = tuple((name, Type(kind)) for name, kind, *_ in cursor.description)
        _print_listing(Listing(columns=columns, rows=tuple(cursor.fetchall())), options)


def _print_answer(answer: Answer, options: argparse.Namespace) -> None:
    from dpsql.answers.display import as_csv, as_dict, legend

    if getattr(options, "json", False):
        print(json.dumps(as_dict(answer)))
        return
    if getattr(options, "csv", False):
        print(as_csv(answer), end="")
        return
    console = _console()
    console.print(_drawn(answer), crop=False)
    for line in (legend(answer), *answer.notes):
        console.print(line, style="dim", markup=False, highlight=False)


def _drawn(answer: Answer) -> Table:
    """A table in which no number and no word of a key is broken or cut off, however narrow the terminal: headings give way."""
    from dpsql.answers.display import interval_text, shown

    table, drawn = _table(), []
    for i, column in enumerate(answer.columns):
        values = [(row[i], ends[i]) for row, ends in zip(answer.rows, answer.intervals, strict=True)]
        cells = [shown(value, ends) for value, ends in values]
        table.add_column(column.name, justify="left" if column.exact and not column.type.numeric else "right", overflow="fold",
                         min_width=_longest_word([*cells, column.name[:len("COUNT(*)")]]))
        drawn.append(cells)
        if not column.exact:
            intervals = [interval_text(ends, value) for value, ends in values]
            table.add_column("", style="dim", justify="left", overflow="fold", min_width=_longest_word(intervals))
            drawn.append(intervals)
    for row in zip(*drawn, strict=True):
        table.add_row(*row)
    return table


def _longest_word(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def _print_listing(listing: Listing, options: argparse.Namespace) -> None:
    names = [name for name, _ in listing.columns]
    if getattr(options, "json", False):
        for row in listing.rows:
            print(json.dumps(dict(zip(names, row, strict=True))))
        return
    if getattr(options, "csv", False):
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(listing.rows)
        return
    from dpsql.answers.display import number

    table = _table()
    for name in names:
        table.add_column(name, overflow="fold")
    for row in listing.rows:
        table.add_row(*(number(value) for value in row))
    _console().print(table)


def _table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False)


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)


if __name__ == "__main__":
    sys.exit(main())
