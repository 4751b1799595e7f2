"""For programs built on language models: `dpsql mcp`; and for the owner, what they asked for: `dpsql purposes`."""

from __future__ import annotations

import argparse
import contextlib

from dpsql.cli.arguments import Commands, add_place, add_terms
from dpsql.cli.inputs import connected
from dpsql.cli.terminal import waiting
from dpsql.extras import extra


def add(commands: Commands) -> None:
    made = commands.add("mcp", _serve, "serve an agent by the Model Context Protocol, on standard input and output")
    add_place(made)
    add_terms(made)
    made = commands.add("purposes", _purposes, "list what agents asked, and why (for the owner)")
    made.add_argument("--policy", metavar="FILE", help="the policy (default: dpsql.toml in this folder)")
    made.add_argument("--ledger", metavar="FILE", help="the ledger (default: from the policy, or beside it)")
    made.add_argument("--budget", metavar="NAME", help="the budget (required if the policy has several)")
    made.add_argument("--analyst", metavar="NAME", help="only those of this account")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--csv", action="store_true", help="print CSV")


def _serve(options: argparse.Namespace) -> None:
    extra("mcp", "mcp")
    from dpsql.agents.agent_desk import AgentDesk
    from dpsql.agents.protocol_server import local_server

    with connected(options) as connection:
        local_server(AgentDesk(connection)).run("stdio")


def _purposes(options: argparse.Namespace) -> None:
    from dpsql.agents.purposes import listed_purposes
    from dpsql.catalog.policy import read_policy
    from dpsql.cli.show import print_listing
    from dpsql.engine.opening import choose_budget, find_ledger, find_policy
    from dpsql.ledgers.ledger_reports import ReportingLedger

    policy = read_policy(find_policy(None, options.policy))
    budget = choose_budget(policy, options.budget)
    with waiting("reading the ledger ..."), contextlib.closing(ReportingLedger(*find_ledger(policy, options.ledger))) as ledger:
        entries = ledger.entries(budget.name, options.analyst)
    print_listing(listed_purposes(entries), options)
