"""Threads of the vault share one core, but for the time in which rows are read."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from support.sessions import open_ledger, session_of
from support.vaults import remote, vault_of

from dpsql.engine.answering import answer
from dpsql.server.vault.one_core import Cores
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.kernel.run import Kernel

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
                                reason="a process cannot choose among cores here")
ALL = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def test_all_threads_share_the_same_core() -> None:
    cores, met = Cores(), list[set[int]]()

    def inside() -> None:
        with cores.one():
            met.append(os.sched_getaffinity(0))
        met.append(os.sched_getaffinity(0))

    for _ in range(2):
        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
    assert met[0] == met[2] and len(met[0]) == 1 and met[1] == met[3] == ALL


def test_where_no_core_can_be_chosen_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = Cores()
    monkeypatch.setattr(os, "sched_setaffinity", lambda *given: (_ for _ in ()).throw(OSError))
    with cores.one():
        pass
    monkeypatch.delattr(os, "sched_getaffinity")
    with Cores().one():
        pass


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM people", "SELECT sex, AVG(income) FROM people GROUP BY sex",
                                 "SELECT nickname, COUNT(*) FROM people GROUP BY nickname"])
def test_rows_are_read_on_all_cores(sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: dict[str, list[int]] = {"read": [], "write": []}

    def seen(owner: Any, name: str, kind: str) -> None:
        real = getattr(owner, name)

        def inner(*given: Any, **named: Any) -> Any:
            met[kind].append(len(os.sched_getaffinity(0)))
            return real(*given, **named)

        monkeypatch.setattr(owner, name, inner)

    vault = vault_of(lambda user: session_of(tmp_path, ledger=open_ledger(tmp_path), analyst=user))
    with contextlib.closing(remote(vault)) as session:
        for owner, name, kind in ((Kernel, "_look", "read"), (Ledger, "charge", "write"), (Ledger, "answer", "write")):
            seen(owner, name, kind)
        answer(sql, session)
    assert met == {"read": [len(ALL)] * len(met["read"]), "write": [1, 1]} and met["read"]
