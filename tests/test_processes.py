"""Whole connections in many processes: a race for a budget that is nearly spent, and death at any moment of a statement.

The ledger alone is tried so in `kernel/test_ledger_processes.py`; here everything else is in the way too: the data, the policy,
the looks. Processes are forked from one that has read the code, before anything is opened: what is missing there each would read
anew.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import worlds

from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.kernel import ledger as module

ROOT = Path(module.__file__).parents[3]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
FORKED = """
import contextlib, os, sys, time
from fractions import Fraction
import dpsql, dpsql.engine.answering, dpsql.engine.opening, dpsql.budgets.room_left
import networkx, opendp.prelude, scipy.optimize, scipy.stats
with contextlib.suppress(ImportError):  # for what a refusal tells
    import dp_accounting.pld.privacy_loss_distribution
from dpsql.trusted.kernel.run import Kernel

folder, count = sys.argv[1], int(sys.argv[2])

def connect(me):
    return dpsql.connect(folder + "/people.duckdb", budget="person", analyst=f"client-{me}", epsilon=Fraction(1, 100))

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

def work(me):
    %s

for me in range(count):
    if os.fork() == 0:
        try:
            work(me)
        finally:
            os._exit(0)
for _ in range(count):
    os.wait()
"""
RACE = """
    connection, granted = connect(me), 0
    say("ready", os.getpid())
    while not os.path.exists(folder + "/go"):
        time.sleep(0.002)
    while True:
        try:
            connection.execute("SELECT COUNT(*), AVG(age) FROM people WHERE age <> ?", [granted])
        except dpsql.BudgetExhausted:
            break
        granted += 1
    say("granted", me, granted)
"""
ASK = """
    serve, number = Kernel._serve, 0
    def slow(self, script, cost):
        made = serve(self, script, cost)
        if me == 0 and number == 2:
            say("ready", os.getpid())
            time.sleep(600)
        time.sleep(0.02 * me)
        return made
    Kernel._serve = slow
    connection = connect(me)
    while True:
        if number == 1 and me > 0:
            say("ready", os.getpid())
        number += 1
        ((n,),) = connection.execute(f"SELECT COUNT(*) FROM people WHERE age <> {number}").fetchall()
        say("heard", me, number, n)
"""


def project(folder: Path, epsilon: float) -> Path:
    worlds.world(people=30).save(folder / "people.duckdb")
    (folder / "dpsql.toml").write_text(worlds.POLICY.replace("epsilon = 1000\ndelta = 0.01", f"epsilon = {epsilon}", 1))
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return folder


def start(work: str, folder: Path, count: int) -> tuple[subprocess.Popen[str], list[int], list[list[str]]]:
    """The parent, the processes that are ready, and what was told until they were."""
    code = FORKED.replace("%s", work.strip())
    parent = subprocess.Popen([sys.executable, "-c", code, str(folder), str(count)], stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert parent.stdout is not None
    ready, told = list[int](), list[list[str]]()
    while len(ready) < count:
        told.append(parent.stdout.readline().split())
        assert told[-1], "a process failed"
        ready += [int(told[-1][1])] if told[-1][0] == "ready" else []
    return parent, ready, told


@pytest.mark.slow
def test_sixteen_connections_that_race_are_granted_exactly_what_there_is(tmp_path: Path) -> None:
    folder = project(tmp_path, 0.4)
    parent, *_ = start(RACE, folder, 16)
    (folder / "go").touch()
    told = [line.split() for line in parent.communicate(timeout=600)[0].splitlines()]
    assert len(told) == 16 and sum(int(granted) for _, _, granted in told) == 40
    ledger = ReportingLedger(folder / "dpsql.ledger")
    entries = ledger.entries("person")
    assert len(entries) == 40 and all(entry.body is not None for entry in entries)
    assert ledger.spent("person").epsilon == 40 * entries[0].charge.epsilon  # type: ignore[operator]


@pytest.mark.slow
def test_whoever_heard_an_answer_paid_for_it_whenever_the_process_dies(tmp_path: Path, effort: float) -> None:
    """Killed at random moments, most of them between the charge and the answer, which is made to take its time; one surely there."""
    folder, draw, rounds = project(tmp_path, 500), random.Random(3), max(1, round(2 * effort))
    for round_ in range(rounds):
        parent, processes, told = start(ASK, folder, 4)
        time.sleep(draw.uniform(0.05, 0.3))
        for process in draw.sample(processes, k=len(processes)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            time.sleep(draw.choice([0, 0.01]))
        told += [line.split() for line in parent.communicate(timeout=600)[0].splitlines()]
        ledger = ReportingLedger(folder / "dpsql.ledger")  # which verifies every event
        entries = ledger.entries("person")
        known = {(entry.account.analyst, entry.sql) for entry in entries if entry.body is not None}
        heard = {(f"client-{me}", f"SELECT COUNT(*) FROM people WHERE age <> {number}")
                 for me, number in (words[1:3] for words in told if words[0] == "heard")}
        assert len(heard) > 3 and heard <= known
        assert ledger.spent("person").epsilon == sum(entry.charge.epsilon or 0 for entry in entries)
        assert sum(entry.body is None for entry in entries) > round_, "whoever dies after a charge leaves it behind"
        ledger.close()
