"""`dpsql validate`: whether a synthetic table answers as the private one does."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpsql.cli.arguments import Commands, add_place, add_terms, number
from dpsql.cli.inputs import connected, page_of, statements_of, value_of
from dpsql.cli.show import print_answer
from dpsql.cli.terminal import waiting
from dpsql.frozen import replace


def add(commands: Commands) -> None:
    made = commands.add("validate", _validate, "decide whether a synthetic table answers queries like the private one")
    made.add_argument("file", nargs="?", help="a file of queries, separated by semicolons: SELECT ..., or (SELECT ...) "
                      "WITHIN 5 PERCENT (default, or -: read standard input)")
    made.add_argument("--sql", metavar="QUERIES", help="the queries, instead of a file")
    made.add_argument("--synthetic", action="append", required=True, metavar="[TABLE=]FILE",
                      help="a CSV or Parquet file, or a public table; optionally with the private table that it replaces")
    made.add_argument("--within", metavar="TOLERANCE", help='the largest difference: 200, "5 PERCENT", "5 PERCENT OR 10"')
    for name, help_ in (("decider", "the method that decides (default: the best)"), ("suite", "how checks share the price")):
        made.add_argument(f"--{name}", metavar="NAME", help=help_)
    made.add_argument("--html", metavar="FILE", help="write a report, with charts, to a new file")
    made.add_argument("--failures", type=int, metavar="NUMBER", help="how many failed checks a sparse suite may report")
    made.add_argument("--clip", type=number("clip"), metavar="NUMBER",
                      help="the most that one entity adds if its rows are not limited (default: learned)")
    made.add_argument("--max-rows", type=int, metavar="NUMBER", help="the most rows of each entity that are used")
    made.add_argument("--alpha", type=number("alpha"), metavar="NUMBER", help="the share of wrong decisions (default: 0.05)")
    add_place(made)
    add_terms(made)
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--csv", action="store_true", help="print CSV")


def _validate(options: argparse.Namespace) -> None:
    from dpsql.answers.new_files import save
    from dpsql.dbapi import Connection
    from dpsql.sql.text.split import split
    from dpsql.validation import report

    names = ("decider", "suite", "alpha", "failures", "clip", "max_rows")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    named = [part.partition("=") for part in options.synthetic]
    synthetic = {table if found else None: source if found else table for table, found, source in named}
    queries, within = split(statements_of(options)), value_of(options.within or "null")
    page = page_of(options, "validation.html")
    with connected(options) as connection:
        # files here belong to whoever has the shell; never those of the policy
        session = replace(connection.session, uploads=connection.session.uploads.also(Path.cwd()))
        with waiting():
            made = Connection(session).validate(queries, synthetic=synthetic, within=within, **given)
        if options.json:
            print(made.as_json())
        else:
            print_answer(made.as_table(), options)
        if page is not None:
            save(report.page(made), page)
