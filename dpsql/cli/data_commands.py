"""What an owner does with data: `dpsql check`, `dpsql refresh` and `dpsql prepare`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from dpsql.cli.arguments import Commands, add_place
from dpsql.cli.drawn_tables import DrawnColumn, draw
from dpsql.cli.inputs import place_of
from dpsql.cli.show import print_listing
from dpsql.cli.terminal import console, print_wrapped, waiting
from dpsql.errors import LedgerError, OperationalError

if TYPE_CHECKING:
    from dpsql.answers.listing import Listing
    from dpsql.audit.policy_on_rows import PolicyOnRows
    from dpsql.catalog.model import Budget, Catalog, Policy

ADVICE = ("Analysts see the policy, so changes that you make because of this report reveal something about the rows: correct "
          "mistakes, and keep limits round. If something is intended, add the word in brackets to its table: "
          "expected = [\"several\"].")


def add(commands: Commands) -> None:
    refresh = commands.add("refresh", _refresh, "take a new snapshot of tables in databases such as PostgreSQL")
    refresh.add_argument("--policy", metavar="FILE", help="the policy (default: dpsql.toml in this folder)")
    refresh.add_argument("--ledger", metavar="FILE", help="the ledger (default: from the policy, or beside it)")
    refresh.add_argument("--all", action="store_true", help="read closed periods of growing tables again, after a correction")
    check = commands.add("check", _check, "check a policy against its database, and list what can be queried")
    add_place(check)
    check.add_argument("--rows", action="store_true", help="count exactly which private rows and values the policy cuts off (for "
                       "the owner: shows private facts on this screen, and stores none); exit code 1 if anything is suspicious")
    check.add_argument("--json", action="store_true", help="print JSON")
    made = commands.add("prepare", _prepare, "copy the data into buckets of entities, which are read much faster")
    add_place(made)
    made.add_argument("--buckets", type=int, metavar="NUMBER", help="how many buckets (default: one per twelve million rows)")


def _refresh(options: argparse.Namespace) -> None:
    from dpsql.dbapi import refresh

    with waiting("reading the database ..."):
        tables = refresh(policy=options.policy, ledger=options.ledger, again=options.all)
    print(f"a new snapshot of {', '.join(tables)} is in force; connections that are open must connect again" if tables else
          "all tables are public and no row has changed, so the previous snapshot is still used")


def _check(options: argparse.Namespace) -> int:
    from dpsql.answers.listings import listed_tables
    from dpsql.catalog.calendars import with_calendars
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import choose_budget, find_policy, fitted, open_reader, public_values
    from dpsql.engine.refreshing import check_unread
    from dpsql.planning.groups import long_ranges

    policy = read_policy(find_policy(options.database, options.policy))
    chosen = [*policy.budgets.values()] if options.budget is None else [choose_budget(policy, options.budget)]
    if options.database is None:
        check_unread(policy)
    if options.rows:
        return _check_rows(policy, chosen, options)
    reader = open_reader(policy, options.database)
    policy = with_calendars(policy, reader.schema(), public_values(reader))
    _tell_slips(policy, options, [budget.name for budget in chosen])
    catalogs = [fitted(policy, budget.name, reader) for budget in chosen]
    for text in dict.fromkeys(chain.from_iterable(map(long_ranges, catalogs))):
        print_wrapped(f"note: {text}", sys.stderr)
    found = [(budget, catalog, listed_tables(catalog)) for budget, catalog in zip(chosen, catalogs, strict=True)]
    if options.json:
        for budget, catalog, listing in found:
            names = [name for name, _ in listing.columns]
            print(json.dumps({"budget": budget.name, "total": str(budget.total), "entity": budget.entity,
                              "pace": policy.pace, "tables": [dict(zip(names, row, strict=True)) for row in listing.rows],
                              "unusable": dict(catalog.outside)}))
    else:
        for entity in dict.fromkeys(budget.entity for budget in chosen):
            _print_tables([one for one in found if one[0].entity == entity], options)
        print_wrapped(_pace_in_words(policy))
        print_wrapped("Nothing about private rows is shown here. For the owner: --rows counts exactly what the policy cuts off. "
                      "It shows private facts on this screen, and stores none.")
    reader.close()
    return 0


def _pace_in_words(policy: Policy) -> str:
    if policy.pace is None:
        return ('pace = "none": analysts of a server see how long statements take, which can reveal whether a particular '
                "entity is in the data")
    return f"from a server, answers leave after {1000 * policy.pace:g} ms, or after 2, 4, 8 ... times as long"


def _print_tables(found: Sequence[tuple[Budget, Catalog, Listing]], options: argparse.Namespace) -> None:
    """What may be asked under the budgets of one entity: the same tables, which are listed once."""
    for budget, *_ in found:
        print(f"budget {budget.name}: {budget.total}, protects each {budget.entity}")
    _, catalog, listing = found[0]
    print_listing(listing, options)
    for table, reason in catalog.outside.items():
        print(f"table {table} cannot be used: {reason}")


def _check_rows(policy: Policy, budgets: Sequence[Budget], options: argparse.Namespace) -> int:
    """Show private facts on the owner's screen. No ledger is opened, and nothing is recorded anywhere."""
    from dpsql.audit.policy_on_rows import policy_on_rows

    for name in ("ledger", "analyst"):
        if getattr(options, name) is not None:
            raise OperationalError(f"--rows is for the owner and cannot be combined with --{name}", code="argument",
                                   try_=f"leaving --{name} out")
    with waiting("counting ..."):
        found = policy_on_rows(policy, budgets, options.database)
    if options.json:
        print(json.dumps(found.as_dict()))
    else:
        _print_found(found)
    return int(not found.is_fine)


def _print_found(found: PolicyOnRows) -> None:
    """Print tables of what was found, and what is suspicious."""
    from dpsql.answers.display import printable

    print("PRIVATE: exact counts of the rows, for the owner alone. Nothing here is stored.")
    for table in found.tables():
        columns = zip(table.heads, zip(*table.rows, strict=True), strict=True)
        draw([DrawnColumn(title=title, values=[*map(printable, values)], number=i in table.numbers)
              for i, (title, values) in enumerate(columns)], console())
    for text in found.errors:
        print_wrapped(f"error: {printable(text)}")
    for text in found.suspicions:
        print_wrapped(f"suspicious: {printable(text)}" + (f" [{found.words[text]}]" if text in found.words else ""))
    for text in found.expected:
        print_wrapped(f"expected: {printable(text)}")
    print_wrapped("nothing is suspicious" if found.is_fine else ADVICE)


def _tell_slips(policy: Policy, options: argparse.Namespace, budgets: Sequence[str]) -> None:
    """Warn of likely mistakes: budgets that add up, data that another ledger or budget serves too, and what was promised before.
    Raises PolicyError if the policy changes that, and the owner has not accepted it."""
    from dpsql.engine.opening import allowed_together, find_ledger, noticed
    from dpsql.engine.promises import check_promise, history
    from dpsql.ledgers.ledger_reports import ReportingLedger

    notes = allowed_together(policy)
    with contextlib.suppress(LedgerError), contextlib.closing(ReportingLedger(*find_ledger(policy, options.ledger))) as book:
        for name in budgets:
            check_promise(policy, policy.budgets[name], book)
            notes += noticed(policy, options.database, book, name)[0]
            notes += [f"budget {name}, {told}" for told in history(book, name)[1:]]
    for text in dict.fromkeys(notes):
        print_wrapped(f"note: {text}", sys.stderr)


def _prepare(options: argparse.Namespace) -> None:
    from dpsql.engine.preparing import prepare

    with waiting("preparing ..."):
        made = prepare(buckets=options.buckets, **place_of(options))
    for one in made:
        tables = ", ".join(one.tables)
        print(f"prepared for each {one.entity}: {tables}, in {one.buckets} bucket{'s' * (one.buckets != 1)} in {one.place}")
