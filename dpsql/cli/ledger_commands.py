"""What was spent and released: `dpsql budget`, `dpsql releases` and `dpsql ledger`."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import sys
from pathlib import Path

from dpsql.cli.arguments import Commands, add_place
from dpsql.cli.inputs import connected, page_of, place_of
from dpsql.cli.show import print_listing, show
from dpsql.cli.terminal import print_wrapped, waiting
from dpsql.errors import OperationalError, OptionError


def add(commands: Commands) -> None:
    for name, run, help_ in (("budget", _budget, "show what was spent, what is left and what failed; --create starts the ledger"),
                             ("releases", _releases, "list the statements that were charged")):
        made = commands.add(name, run, help_)
        add_place(made)
        made.add_argument("--json", action="store_true", help="print JSON")
        if name == "budget":
            made.add_argument("--tight", action="store_true", help="also show the smallest ε known for all charges together, "
                              "from the library dp-accounting, and what is left of each sum; this takes some seconds")
            made.add_argument("--create", action="store_true", help="start a new, empty ledger (the owner does this once)")
            made.add_argument("--accept-change", action="store_true", help="explain how the policy changes what earlier "
                              "charges protect, and accept it if you confirm (default: in all budgets)")
            made.add_argument("--yes", action="store_true", help="with --accept-change: do not ask")
            made.add_argument("--html", metavar="FILE", help="write a page for the owner alone to a new file: who spent what, "
                              "when and on what, and what failed (default: in all budgets)")
            made.add_argument("--rows", action="store_true", help="with --html: add the private report of dpsql check --rows")
            made.add_argument("--reopen", metavar="ANALYST", help="reopen an analyst's account that incidents closed, or "
                              "that late outcomes slowed down")
    made = commands.add("revise", _revise, "say that rows of closed periods of a growing table have changed")
    made.add_argument("table", nargs="?", metavar="TABLE", help="the table that grows")
    made.add_argument("--period", metavar="NAME", help="the period, such as 2026-03, 2026-Q1, 2026, or a day in it")
    made.add_argument("--to", metavar="NAME", help="the last one, if there are several")
    made.add_argument("--all", action="store_true", help="all closed periods, of all growing tables unless one is named")
    made.add_argument("--reason", metavar="TEXT", default="", help="why; analysts see it")
    add_place(made)
    made = commands.add("ledger", _ledger,
                        "verify every event of the ledger, and everything that its anchor has recorded")
    made.add_argument("action", choices=["verify", "correct-clock"], help="what to do: verify it; or say that the clock of this "
                      "machine is right, after an earlier one was ahead")
    add_place(made)
    made.add_argument("--json", action="store_true", help="print JSON")


def _revise(options: argparse.Namespace) -> None:
    from dpsql.engine.revising import revise
    from dpsql.trusted.declarations.growth import names_of

    if options.all is bool(options.period or options.to) or (options.table is None and not options.all):
        raise OptionError("it is not clear what is revised", code="option", subject="period",
                          try_="TABLE --period 2026-03, TABLE --all, or --all")
    place = {name: value for name, value in place_of(options).items() if name != "budget"}
    made = revise(options.table, period=options.period, to=options.to, reason=options.reason, **place)
    for one in made:
        print_wrapped(f"{names_of(one.periods)} of {one.table}: statements about it are measured and charged anew from now on, "
                      "to the same budgets; earlier answers stay in the ledger")
    if not made:
        print("no period is closed yet, so nothing is revised")


def _budget(options: argparse.Namespace) -> None:
    from dpsql.answers.listings import listed_failures, listed_late, listed_stops, slowed_in_words
    from dpsql.engine.promises import history
    from dpsql.trusted.accounting.cost import Account

    if options.create:
        from dpsql.catalog.policy import read_policy
        from dpsql.engine.opening import find_ledger, find_policy
        from dpsql.ledgers.ledger_reports import ReportingLedger

        place = find_ledger(read_policy(find_policy(options.database, options.policy)), options.ledger)
        with contextlib.closing(ReportingLedger.create(*place)) as ledger:
            print(f"an empty ledger is at {ledger.place}")
        return
    if options.accept_change or options.yes:
        _accept_change(options)
        return
    if options.reopen is not None:
        from dpsql.engine.opening import reopen

        forgiven = reopen(options.reopen, **place_of(options))
        print(f"{options.reopen} can ask again: {forgiven} of its incidents and late outcomes are forgiven; the charges are "
              "kept" if forgiven else
              f"no incident of {options.reopen} was counted under this budget, and no late outcome, so nothing is changed")
        return
    if options.html is not None or options.rows:
        _page(options)
        return
    with connected(options) as connection:
        ledger, budget = connection.session.ledger, connection.session.budget.name
        late = ledger.late(budget)
        found = {"failed": listed_failures(ledger.failures(budget)), "stopped": listed_stops(ledger.stops(budget)),
                 "late": listed_late(late)}
        promised = history(ledger, budget)
        state = connection.budget()
        if options.json:
            print(json.dumps(state.as_dict(tight=options.tight) | {"promised": promised, **{
                what: [dict(zip((name for name, _ in listing.columns), row, strict=True)) for row in listing.rows]
                for what, listing in found.items()}}))
            return
        show(connection.execute("SHOW BUDGET"), options)
        so_far = f"; together they are ε = {state.tight:.4g} at δ = {state.at:.3g}" if (
            options.tight and state.tight is not None) else ""
        print(f"all analysts: {state.statements} statement{'s were' if state.statements != 1 else ' was'} charged{so_far}")
        for account in state.accounts if options.tight else ():
            print_wrapped(f"left exactly ({account.whose or 'all'}): {account.left_exactly()}")
        for told in promised if len(promised) > 1 else ():
            print_wrapped(told)
        for what, words in (("failed", "statements that failed after their charge:"),
                            ("stopped", "statements that were stopped after their charge, which do not count as failed:"),
                            ("late", "statements whose outcome left the server late, after 2^step times the pace; lateness can "
                                     "depend on rows:")):
            if found[what].rows:
                print(words)
                print_listing(found[what], options)
        for name in dict.fromkeys(analyst for analyst, _, _ in late):
            for crowded, what in ((False, "all"), (True, "while others ask, all")):
                first = ledger.first_step(Account(budget=budget, analyst=name), connection.session.budget.late, crowded=crowded)
                if first:
                    print_wrapped(f"{what} that {name} asks {slowed_in_words(first, connection.session.budget.late)}; dpsql "
                                  f"budget --budget {budget} --reopen {name} forgives that")
                    break


def _accept_change(options: argparse.Namespace) -> None:
    """Record what the owner agrees to, after it was said. A database is opened only for first days of periods."""
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import choose_budget, find_ledger, find_policy, read_calendars
    from dpsql.engine.promises import accept, in_words, not_accepted
    from dpsql.ledgers.ledger_reports import ReportingLedger

    if not options.accept_change:
        raise OperationalError("--yes needs --accept-change, which names the change to accept", code="argument",
                               try_="dpsql budget --accept-change --yes")
    policy = read_calendars(read_policy(find_policy(options.database, options.policy)), options.database)
    chosen = [*policy.budgets.values()] if options.budget is None else [choose_budget(policy, options.budget)]
    with contextlib.closing(ReportingLedger(*find_ledger(policy, options.ledger))) as ledger:
        found = [(budget, differences) for budget in chosen if (differences := not_accepted(policy, budget, ledger))]
        if not found:
            print("the policy changes nothing that earlier charges protect, so there is nothing to accept")
            return
        for told in dict.fromkeys(told for _, differences in found for told in in_words(differences)):
            print_wrapped(told)
        print_wrapped("What was charged stays charged. The ledger keeps this change; dpsql budget shows it.")
        if not options.yes and not _is_agreed():
            print("nothing is changed")
            return
        for budget, differences in found:
            accept(policy, budget, ledger, differences)
    print("the change is accepted; connections that are open must connect again")


def _is_agreed() -> bool:
    """Whether the owner says so. Raises OperationalError if nobody can be asked."""
    if not sys.stdin.isatty():
        raise OperationalError("no terminal to ask whether the change is accepted", code="argument", try_="--yes, if it is")
    try:
        return input("Accept it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _page(options: argparse.Namespace) -> None:
    """Write the owner's page. The database is opened only for what is counted of its rows."""
    from dpsql.answers.new_files import save
    from dpsql.audit.owner_page import book_of, owner_page
    from dpsql.audit.policy_on_rows import policy_on_rows
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import allowed_together, choose_budget, find_ledger, find_policy
    from dpsql.ledgers.ledger_reports import ReportingLedger

    target = page_of(options, "budget.html")
    if target is None:
        raise OperationalError("what is found in the rows is shown by dpsql check --rows, or on a page", code="argument",
                               try_="dpsql budget --rows --html budget.html")
    policy = read_policy(find_policy(options.database, options.policy))
    chosen = [*policy.budgets.values()] if options.budget is None else [choose_budget(policy, options.budget)]
    with waiting("reading the ledger ..."), contextlib.closing(ReportingLedger(*find_ledger(policy, options.ledger))) as ledger:
        books, events = [book_of(budget, ledger) for budget in chosen], ledger.events
        found = policy_on_rows(policy, chosen, options.database) if options.rows else None
        text = owner_page(books, policy=Path(policy.path).name, events=events, at=dt.datetime.now(dt.UTC),
                          notes=allowed_together(policy), found=found)
    save(text, target, private=True)
    print(f"{target} is written. It is for the owner only; no other user of this machine can read it")


def _releases(options: argparse.Namespace) -> None:
    with connected(options) as connection:
        show(connection.execute("SHOW RELEASES"), options)


def _correct_clock(options: argparse.Namespace) -> None:
    from dpsql.engine.revising import correct_clock

    days = correct_clock(policy=options.policy, database=options.database, ledger=options.ledger)
    print_wrapped(f"the newest event is {days:,} days ahead of this machine's clock; from now on, periods are closed by this "
                  "clock again, and what was charged stays charged" if days else
                  "no event is ahead of this machine's clock, so nothing is changed")


def _ledger(options: argparse.Namespace) -> None:
    """Verify the ledger, or correct its clock; no policy but the place it names is looked at, and no database."""
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import find_ledger, find_policy
    from dpsql.ledgers.ledger_reports import ReportingLedger

    if options.action == "correct-clock":
        _correct_clock(options)
        return
    place = find_ledger(read_policy(find_policy(options.database, options.policy)), options.ledger)
    with waiting("verifying ..."), contextlib.closing(ReportingLedger(*place, whole=True)) as ledger:
        path, events, shared = ledger.place, ledger.events, ledger.shared()
    if options.json:
        print(json.dumps({"ledger": path, "events": events, "shared": shared, "whole": True}))
    else:
        print(f"{path} is intact: {events:,} events, each linked to the one before it, including all that its anchor has "
              "recorded" + (f"; {shared:,} times an answer was shared with another analyst" if shared else ""))
