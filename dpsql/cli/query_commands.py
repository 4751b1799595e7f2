"""What an analyst asks: `dpsql query`, `dpsql explain` and `dpsql workload`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from dpsql.cli.arguments import Commands, add_notes, add_place, add_terms, number
from dpsql.cli.inputs import connected, page_of, parameters_of, statements_of
from dpsql.cli.show import print_answer, print_notes
from dpsql.cli.statements import answer_all, each_statement
from dpsql.cli.terminal import print_wrapped, waiting
from dpsql.errors import OperationalError

if TYPE_CHECKING:
    from dpsql.audit.rows_read import TablesRead


def add(commands: Commands) -> None:
    for name, run, help_ in (("query", _query, "answer SQL"),
                             ("explain", _explain, "show what SQL would do and cost, free of charge")):
        made = commands.add(name, run, help_)
        made.add_argument("sql", nargs="?", help="statements, separated by semicolons (default, or -: read standard input)")
        made.add_argument("--file", metavar="FILE", help="read the statements from a file")
        made.add_argument("--param", action="append", default=[], metavar="[NAME=]VALUE",
                          help="the value of a parameter: in order, or as name=value; a value 'in quotes' is text")
        add_place(made)
        add_terms(made)
        made.add_argument("--json", action="store_true", help="print JSON, one line for each statement")
        if name == "explain":
            made.add_argument("--rows", action="store_true", help="also estimate how many rows it reads, and how long that takes "
                              "(for the owner: shows private facts on this screen, and stores none)")
        if name == "query":
            made.add_argument("--csv", action="store_true", help="print CSV, with standard errors and intervals")
            add_notes(made)
            made.add_argument("--html", metavar="FILE", help="also write the answer as a page to a new file, with charts and "
                              "explanations")
    made = commands.add("workload", _workload, "answer many COUNT and SUM statements together, for one price")
    made.add_argument("sql", nargs="?", help="statements, separated by semicolons (default, or -: read standard input)")
    made.add_argument("--file", metavar="FILE", help="read the statements from a file")
    add_place(made)
    add_terms(made)
    made.add_argument("--json", action="store_true", help="print JSON, one line for each statement")
    made.add_argument("--csv", action="store_true", help="print CSV, with standard errors and intervals")
    add_notes(made)
    made.add_argument("--html", metavar="FILE", help="also write the answers as a page to a new file, with charts")
    made.add_argument("--explain", action="store_true", help="only show what it would do and cost, free of charge")
    made.add_argument("--strategy", metavar="NAME", help="how the workload is measured (default: the best)")
    made.add_argument("--error-within", type=number("error_within"), metavar="X",
                      help="pay the least for answers that are each within X of the exact one, with the confidence")
    made.add_argument("--standard-error", type=number("standard_error"), metavar="X",
                      help="pay the least for answers that each have a standard error of at most X")


def _query(options: argparse.Namespace) -> None:
    text, page = statements_of(options), page_of(options, "answer.html")
    if page is not None and len(each_statement(text, options)) > 1:
        raise OperationalError("a page is about one statement, or about a workload", code="argument",
                               try_="one statement; or dpsql workload --html, of statements that are answered together")
    with connected(options) as connection:
        (cursor, *_) = answer_all(text, connection, options, show_sql=False)
        if page is not None:
            cursor.report(page)


def _explain(options: argparse.Namespace) -> None:
    with connected(options) as connection:
        for text, told in each_statement(statements_of(options), options):
            with told:
                made = connection.explain(text, parameters_of(options.param))
            read = _reading(text, options) if options.rows else None
            if options.json:
                print(json.dumps(made.as_dict() | ({} if read is None else {"private": read.as_dict()})))
            else:
                print_wrapped(str(made) if read is None else f"{made}\n{read}")


def _reading(text: str, options: argparse.Namespace) -> TablesRead:
    """What a statement reads, for the owner's screen."""
    from dpsql.audit.rows_read import reading
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
    page = page_of(options, "workload.html")
    if options.explain:
        from dpsql.sql.text.split import split

        with connected(options) as connection, waiting():
            told = connection.explain(split(statements_of(options)), **given)
        if options.json:
            print(json.dumps(told.as_dict()))
        else:
            print_wrapped(str(told))
        return
    with connected(options) as connection:
        with waiting():
            made = connection.workload(statements_of(options), **given)
        for answer in made:
            print_answer(answer, options)
        if not options.json and not options.csv:
            print_notes([*made.notes, f"together: {made.charged}"], options)
        if page is not None:
            made.report(page)
