"""Detects a mistake of owners that costs privacy: under another ledger or budget, the same data start with a full budget.

A ledger knows only what was spent in it. So a connection records, in a file in the user's own folder, which files are served
under which ledger and budget, and warns if the same files were served differently before. The record is an aid, not a guarantee:
it belongs to one user on one machine, and recognises files by their location, or by name, size and modification time if they
were moved. So nothing is refused because of its contents or because it cannot be read, even where the two protect different
rows: a warning says so. It holds names, but no data.

Its folder is DPSQL_STATE (if that is empty, nothing is recorded), or else dpsql in XDG_STATE_HOME or ~/.local/state.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from dpsql.frozen import Frozen, asdict

FILE = "served.jsonl"


class Served(Frozen):
    """A record that files were served: `data` are their marks, `ledger` is the identity of the ledger, `place` its location, and
    `promise` what its charges promise (`catalog.promise`, as JSON; earlier versions recorded none)."""

    data: tuple[str, ...]
    entity: str
    budget: str
    ledger: str
    place: str
    policy: str
    promise: str = ""

    def in_words(self, *, places: bool = True) -> str:
        """In words; without `places`, these say nothing of where it is."""
        return f"{f'ledger {self.place}' if places else 'a ledger that the log of the server names'}, budget {self.budget}"


def marks(files: Sequence[Path], places: Sequence[str] = ()) -> tuple[str, ...]:
    """Two texts for each file that identify it: its location, and its name with its size and modification time. `places` of
    tables in other databases are used as they are."""
    found = [*places]
    for file in files:
        with contextlib.suppress(OSError):
            state = file.stat()
            found += [str(file.resolve()), f"{file.name}:{state.st_size}:{state.st_mtime_ns}"]
    return tuple(sorted(found))


def others(now: Served) -> list[Served]:
    """Records of the same files under other ledgers or budgets; the newest of each."""
    found = {(old.ledger, old.budget): old for old in _read() if set(old.data) & set(now.data)
             and (old.ledger, old.budget) != (now.ledger, now.budget)}
    return list(found.values())


def note(now: Served) -> bool:
    """Record that files are served; False if that is recorded already, or cannot be recorded."""
    folder = _folder()
    if folder is None or now in _read():
        return False
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{json.dumps(asdict(now))}\n".encode())
        finally:
            os.close(handle)
        return True
    return False


def _read() -> list[Served]:
    folder, found = _folder(), []
    if folder is None:
        return []
    with contextlib.suppress(OSError):
        for line in (folder / FILE).read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                body = json.loads(line)
                texts = {name: str(value) for name, value in body.items() if name != "data"}
                found.append(Served(data=tuple(map(str, body["data"])), **texts))
    return found


def _folder() -> Path | None:
    named = os.environ.get("DPSQL_STATE")
    if named is not None:
        return Path(named) if named else None
    with contextlib.suppress(RuntimeError):  # there may be no home
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dpsql"
    return None
