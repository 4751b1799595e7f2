"""What was spent and released: `dpsql budget`, `dpsql releases` and `dpsql ledger`."""

from __future__ import annotations

import argparse
import contextlib
import json

from dpsql.cli.arguments import Commands, add_place
from dpsql.cli.inputs import connected, place_of
from dpsql.cli.show import print_listing, show
from dpsql.cli.terminal import waiting


def add(commands: Commands) -> None:
    for name, run, help_ in (("budget", _budget, "show what was spent, what is left and what failed; --create starts a ledger"),
                             ("releases", _releases, "list the statements that were charged")):
        made = commands.add(name, run, help_)
        add_place(made)
        made.add_argument("--json", action="store_true", help="print JSON")
        if name == "budget":
            made.add_argument("--create", action="store_true", help="start a new, empty ledger (the owner does this once)")
            made.add_argument("--reopen", metavar="ANALYST", help="reopen the account of an analyst that incidents closed")
    made = commands.add("ledger", _ledger,
                        "verify the whole ledger: every event from the first on, and all that its anchor has seen")
    made.add_argument("action", choices=["verify"], help="what to do with it")
    add_place(made)
    made.add_argument("--json", action="store_true", help="print JSON")


def _budget(options: argparse.Namespace) -> None:
    from dpsql.answers.listings import listed_failures
    from dpsql.engine.opening import incidents

    if options.create:
        from dpsql.catalog.policy import read_policy
        from dpsql.engine.opening import find_ledger, find_policy
        from dpsql.kernel.ledger import Ledger

        place = find_ledger(read_policy(find_policy(options.database, options.policy)), options.ledger)
        with contextlib.closing(Ledger.create(*place)) as ledger:
            print(f"an empty ledger is at {ledger.place}")
        return
    if options.reopen is not None:
        from dpsql.engine.opening import reopen

        forgiven = reopen(options.reopen, **place_of(options))
        print(f"{options.reopen} can ask again: {forgiven} of its incidents forgiven; what was charged stays charged" if forgiven
              else f"no incident of {options.reopen} was counted under this budget, so nothing is changed")
        return
    with connected(options) as connection:
        failed = listed_failures(incidents(**place_of(options)))
        state = connection.budget()
        if options.json:
            names = [name for name, _ in failed.columns]
            print(json.dumps(state.as_dict() | {"failed": [dict(zip(names, row, strict=True)) for row in failed.rows]}))
            return
        show(connection.execute("SHOW BUDGET"), options)
        so_far = f"; together they are ε = {state.tight:.4g} at δ = {state.at:.3g}" if state.tight is not None else ""
        print(f"all analysts: {state.statements} statement{'s were' if state.statements != 1 else ' was'} charged{so_far}")
        if failed.rows:
            print("statements that failed after their charge:")
            print_listing(failed, options)


def _releases(options: argparse.Namespace) -> None:
    with connected(options) as connection:
        show(connection.execute("SHOW RELEASES"), options)


def _ledger(options: argparse.Namespace) -> None:
    """Verify the ledger; no policy but the place it names is looked at, and no database."""
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import find_ledger, find_policy
    from dpsql.kernel.ledger import Ledger

    place = find_ledger(read_policy(find_policy(options.database, options.policy)), options.ledger)
    with waiting("verifying ..."), contextlib.closing(Ledger(*place, whole=True)) as ledger:
        path, events = ledger.place, ledger.events
    if options.json:
        print(json.dumps({"ledger": path, "events": events, "whole": True}))
    else:
        print(f"{path} is whole: {events:,} events, each linked to the one before it, and all that its anchor has seen are there")
