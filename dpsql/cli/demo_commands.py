"""What to do first: `dpsql demo` and `dpsql help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpsql.cli.arguments import Commands


def add(commands: Commands) -> None:
    demo = commands.add("demo", _demo, "run some SQL on real data that comes with dpsql")
    demo.add_argument("--to", metavar="FOLDER", help="create a copy of the demo in a new folder instead")
    made = commands.add("help", _help, "show a guide, or list all guides")
    made.add_argument("topic", nargs="?", help="the guide to show (default: list all guides)")


def _demo(options: argparse.Namespace) -> None:
    import tempfile

    from dpsql.demo import folder

    if options.to is not None:
        policy = folder.export(Path(options.to))
        print(f"The demo is in {policy.parent}. For example:\n  dpsql query --policy {policy} --budget {folder.BUDGET} "
              "\"SELECT plan, COUNT(*) FROM people GROUP BY plan\"")
        return
    from dpsql.cli.show import show
    from dpsql.cli.statements import answer_all
    from dpsql.dbapi import connect

    with tempfile.TemporaryDirectory(prefix="dpsql-demo-") as temporary:
        policy = folder.export(Path(temporary) / "demo")
        with connect(policy=policy, budget=folder.BUDGET, analyst="demo") as connection:
            answer_all(folder.statements(), connection, options, show_sql=True)
            show(connection.execute("SHOW BUDGET"), options)


def _help(options: argparse.Namespace) -> None:
    from dpsql.guides import show

    show(options.topic)
