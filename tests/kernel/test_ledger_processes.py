"""The ledger under many processes: races for the last grant, sudden death, forks, and opening while others write."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from support.ledgers import BOTH

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, Charge, pure
from dpsql.trusted.kernel import ledger as module

ROOT = Path(module.__file__).parents[3]
COMMON = """
import os, sys, time
from support import ledgers
from fractions import Fraction
from dpsql.trusted.accounting.cost import pure
from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.trusted.accounting.cost import Account
from dpsql.trusted.kernel.ledger import Refused
from dpsql.ledgers.ledger_reports import ReportingLedger

ledgers.in_programs()
path, name = sys.argv[1], sys.argv[2]
me = Account(budget="main", analyst=name)
COST = pure(Fraction(1, 100)).rounded()

def charge(ledger, total=1000, digest="d"):
    return ledger.charge(me, COST, digest=digest, data="v", sql="SELECT 1", allows={None: limit(price(epsilon=total))})

def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.002)
"""
HUNDREDTH = pure(Fraction(1, 100)).rounded()


def start(script: str, path: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", COMMON + script, str(path), name], stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"})


def finish(*processes: subprocess.Popen[str]) -> list[str]:
    found = [process.communicate(timeout=600)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return found


RACE = """
ledger, granted = ReportingLedger(path), 0
print("ready", flush=True)
wait_for(path + ".go")
while True:
    try:
        charge(ledger, total=Fraction(%d, 100))
    except Refused:
        break
    granted += 1
print(granted)
"""


@BOTH
@pytest.mark.slow
def test_exactly_as_many_are_granted_as_fit(tmp_path: Path, effort: float) -> None:
    path, grants = tmp_path / "ledger", round(150 * effort)
    ReportingLedger.create(path).close()
    racers = [start(RACE % grants, path, f"racer {i}") for i in range(16)]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    path.with_name("ledger.go").touch()
    granted = [int(found) for found in finish(*racers)]
    assert sum(granted) == grants
    ledger = ReportingLedger(path)
    assert ledger.spent("main") == Charge(epsilon=HUNDREDTH.epsilon * grants, rho=HUNDREDTH.rho * grants, delta=0)
    assert [entry.seq for entry in ledger.entries("main")] == list(range(1, grants + 1))
    for i, mine in enumerate(granted):
        assert len(ledger.entries("main", f"racer {i}")) == mine


ANSWERS = """
import threading
from dpsql.trusted.kernel import chain
chain.EVERY, chain.ChainSums.size, threads = %s

def work(thread):
    ledger, i = ReportingLedger(path), 0
    while True:
        i += 1
        seq = charge(ledger, digest=f"{name} {thread} {i}")
        body = f"{name} {thread} heard {i} of {seq}"
        ledger.answer(seq, body)
        os.write(1, (body + chr(10)).encode())

for thread in range(1, threads):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
work(0)
"""


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("pace", ["chain.EVERY, chain.ChainSums.size, 1", "0, 0, 1", "8, 0, 6"])
def test_what_was_heard_was_paid_for_whenever_the_process_dies(pace: str, tmp_path: Path, effort: float) -> None:
    """Also if a checkpoint is written in nearly every turn, or several threads share one."""
    path, draw, heard = tmp_path / "ledger", random.Random(11), set()
    ReportingLedger.create(path).close()
    charged, rounds = 0, max(2, round(10 * effort))
    for round_ in range(rounds):
        clients = [start(ANSWERS % pace, path, f"client {round_}.{i}") for i in range(3)]
        assert clients[0].stdout is not None
        first = clients[0].stdout.readline() + clients[0].stdout.readline()  # they are under way
        time.sleep(draw.uniform(0, 0.25))
        for client in draw.sample(clients, k=len(clients)):
            client.kill()
            time.sleep(draw.choice([0, 0.01]))
        told = [first, *(client.communicate()[0] for client in clients)]
        heard |= {line for text in told for line in text.split("\n")[:-1]}
        ReportingLedger(path, whole=True).close()  # which verifies every event, and that the anchor has seen no other
        ledger = ReportingLedger(path)
        entries = ledger.entries("main")
        assert heard <= {entry.body for entry in entries}
        assert len(entries) > charged, "the ledger works again after each death"
        charged = len(entries)
        assert ledger.spent("main") == Charge(epsilon=HUNDREDTH.epsilon * charged, rho=HUNDREDTH.rho * charged, delta=0)
        seq = ledger.charge(Account(budget="main", analyst="owner"), HUNDREDTH, digest="d", data="v", sql="s",
                            allows={None: limit(price(epsilon=1000))})
        ledger.answer(seq, "restarted")
        charged += 1
        ledger.close()
    assert len(heard) >= 2 * rounds


OPENS = """
wait_for(path + ".go")
for _ in range(%d):
    ledger = ReportingLedger(path)
    ledger.stored(me, "d", "v")
    ledger.close()
print("fine")
"""
WRITES = """
wait_for(path + ".go")
for _ in range(%d):
    ledger = ReportingLedger(path)
    ledger.answer(charge(ledger), "body")
    ledger.close()
print("fine")
"""


@pytest.mark.slow
def test_opening_closing_and_writing_do_not_disturb_each_other(tmp_path: Path, effort: float) -> None:
    path, times = tmp_path / "ledger", round(80 * effort)
    ReportingLedger.create(path).close()
    running = [start(script % times, path, f"client {i}") for i, script in enumerate([OPENS, OPENS, WRITES, WRITES, WRITES])]
    path.with_name("ledger.go").touch()
    assert finish(*running) == ["fine\n"] * 5
    assert len(ReportingLedger(path).entries("main")) == 3 * times


FORKS = """
ledger, other = ReportingLedger(path), ReportingLedger(path)
charge(ledger)
other.refresh()
readable, writable = os.pipe()
child = os.fork()
if child == 0:
    charge(ledger)
    charge(other)
    os.write(writable, b"charged")
    wait_for(path + ".go")
    for _ in range(5):
        charge(ledger)
        charge(other)
    ledger.refresh()
    os._exit(0 if ledger.spent("main") == other.spent("main") else 1)
os.read(readable, 7)
charge(other)
ledger.close()
other.close()
open(path + ".go", "w").close()
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_fork_loses_no_charge_when_its_parent_closes(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    watching = ReportingLedger.create(path)
    watching.close()
    assert finish(start(FORKS, path, "forker")) == ["0\n"]
    assert len(ReportingLedger(path).entries("main")) == 14


ORPHANS = """
ledger = ReportingLedger(path)
charge(ledger)
child = os.fork()
if child == 0:
    wait_for(path + ".go")
    charge(ledger)
    os._exit(0)
open(path + ".go", "w").close()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_fork_goes_on_when_its_parent_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ReportingLedger.create(path).close()
    finish(start(ORPHANS, path, "forker"))
    deadline = time.monotonic() + 30
    while len(ReportingLedger(path).entries("main")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(ReportingLedger(path).entries("main")) == 2
