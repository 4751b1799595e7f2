"""`dpsql synthesize`: rows drawn from a private model of a query's rows."""

from __future__ import annotations

import argparse
import json

from dpsql.cli.arguments import Commands, add_place, add_terms
from dpsql.cli.inputs import connected, statements_of
from dpsql.cli.terminal import waiting
from dpsql.errors import OperationalError


def add(commands: Commands) -> None:
    made = commands.add("synthesize", _synthesize, "make a synthetic table: rows drawn from a private model of a query's rows")
    made.add_argument("sql", nargs="?", help="a SELECT of the columns (default, or -: read standard input)")
    made.add_argument("--file", metavar="FILE", help="read the query from a file")
    made.add_argument("--name", required=True, metavar="NAME", help="the name of the new table, in later statements")
    made.add_argument("--method", metavar="NAME", help="how the model is measured (default: the best)")
    made.add_argument("--score", metavar="NAME", help="for the method privbayes: 'r' or 'mutual information'")
    made.add_argument("--fit", metavar="NAME", help="for the method privbayes: 'network' or 'conditionals'")
    made.add_argument("--workload", metavar="TEXT", help="what the table should be good at: 'all 3-way', or statements about it")
    made.add_argument("--rows", type=int, metavar="NUMBER", help="how many rows to draw (default: about as many as the private "
                                                                 "table has)")
    made.add_argument("--bins", type=int, metavar="NUMBER", help="into how many bins the range of a number is cut (default: the "
                      "bins of the policy, or bins that follow the rows)")
    made.add_argument("--made-up", metavar="TEXT", help="columns that are made up and cost nothing: 'id', or for texts "
                      "'code LIKE [A-Z]{2}-[0-9]{4}'")
    made.add_argument("--max-rows", type=int, metavar="NUMBER", help="the most rows of each entity that are used")
    made.add_argument("--rules", metavar="TEXT", help="what holds in every row, such as 'income = 0 OR hours > 0'; semicolons "
                      "between several")
    made.add_argument("--accept", metavar="TEXT", help="draw until these criteria hold, such as 'SELECT COUNT(*) FROM people_syn "
                      "WITHIN 5 PERCENT'; semicolons between several")
    made.add_argument("--candidates", type=int, metavar="NUMBER", help="for --accept: how many tables are drawn at most (8)")
    made.add_argument("--to", metavar="FILE", help="write the rows to a new CSV or Parquet file")
    made.add_argument("--report", metavar="FILE", help="write a page to a new HTML file: what was measured, and how close the "
                      "rows are to it, with charts")
    made.add_argument("--again", action="store_true", help="return the existing table of this name, at no cost")
    add_place(made)
    add_terms(made)
    made.add_argument("--json", action="store_true", help="print JSON")


def _synthesize(options: argparse.Namespace) -> None:
    from dpsql.answers.new_files import free_file

    own = ("method", "score", "fit", "workload", "rows", "bins", "made_up", "max_rows", "rules", "accept", "candidates")
    given = {name: value for name in own if (value := getattr(options, name)) is not None}
    target = None if options.to is None else free_file(options.to, "people_syn.csv", ".csv", ".parquet")
    page = None if options.report is None else free_file(options.report, "people_syn.html", ".html")
    if options.again and (given or options.sql is not None or options.file is not None):
        raise OperationalError("--again returns an existing table, and needs only its name", code="argument",
                               try_=f"dpsql synthesize --again --name {options.name}")
    with connected(options) as connection:
        with waiting("planning ..."):
            made = (connection.synthetic_table(options.name) if options.again else
                    connection.synthesize(statements_of(options), name=options.name, **given))
        if target is not None:
            made.write(target)
        if page is not None:
            made.report(page)
        shown = json.dumps(made.as_dict()) if options.json else str(made)
    print(shown)
