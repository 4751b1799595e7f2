"""The process that prepares a store while statements are asked; see `engine.background`.

It reads what to prepare from its standard input, one line of JSON, and ends at the latest when that input is closed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path

from dpsql.backends.source_files import DataOrigin
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import choose_budget, find_ledger
from dpsql.engine.preparing import make_store
from dpsql.errors import Error
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger

MEMORY = "2GB"  # unless the policy has a limit: four buckets at a time are sorted in it


def main() -> int:
    """Prepare a store; returns 0 if it is in force."""
    with contextlib.suppress(OSError):
        os.nice(19)
    told = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        policy = read_policy(Path(told["policy"]))
        policy = replace(policy, memory=policy.memory or MEMORY)
        with contextlib.closing(ReportingLedger(*find_ledger(policy, told["ledger"]))) as book:
            made = make_store(policy, told["database"], choose_budget(policy, told["budget"]), book,
                              DataOrigin(read_as=told["made_of"]))
    except Error:  # which nobody hears of
        return 1
    return 0 if made else 1


def _end_with_input() -> None:
    """End this process immediately when its standard input is closed, as nobody waits for the store any more."""
    while os.read(0, 1024):  # not by `sys.stdin`, which nobody else may close then
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
