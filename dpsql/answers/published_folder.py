"""The folder that standing queries are published to, and the file in it that says what was told there, and by which ledger.

Two ledgers never write into one folder, as each would replace the numbers of the other. And a ledger that was put back from an
older copy has forgotten periods that were published: it would measure them again, with other noise, and charge them once more,
without knowing of the first time. Its anchor knows, but it may be lost or put back as well; then this file knows.

It is written before the files that it speaks of. So whoever is killed in between leaves a folder in which every number is in
the ledger. And files that it does not speak of are of somebody else, such as data that have the name of a query: they stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsql.answers.published_series import PublishedSeries
from dpsql.answers.replaced_files import replace_file, temporary
from dpsql.errors import LedgerError, OperationalError
from dpsql.frozen import Frozen

MARKER = ".dpsql-published.json"
INDEX = "index.html"
FORMS = ("csv", "parquet", "json", "html")  # how the names of the files of a query end


class PublishedFolder(Frozen):
    """A folder of one ledger and one budget."""

    place: Path
    ledger: str
    budget: str

    @classmethod
    def of(cls, place: Path, ledger: str, budget: str) -> PublishedFolder:
        """The folder, which is from now on that of this budget in the ledger with this identity. Raises LedgerError if it is that
        of another one."""
        made = cls(place=place, ledger=ledger, budget=budget)
        if not (place / MARKER).exists():
            made._check_free(INDEX)
            made._claim()
        found = made._read()
        if found["budget"] != budget:
            raise OperationalError(f"the budget {found['budget']} is published in {place}", code="folder", try_=_another(budget))
        if found["ledger"] != ledger:
            raise LedgerError(f"another ledger publishes the budget {budget} in {place}", code="ledger-other",
                              try_=f"the policy (--policy) whose ledger has the identity {found['ledger']}; or "
                              f"{_another(budget)}")
        return made

    def told(self, name: str, statement: str, analyst: str) -> tuple[str, ...]:
        """The names of the periods that were published of a standing query that this analyst made with this statement. Raises
        OperationalError if none with this name was published, and there are such files."""
        found = self._read()
        if name.lower() not in {known.lower() for known in found["queries"]}:  # as some folders take both for one
            for form in FORMS:
                self._check_free(f"{name}.{form}")
        return tuple(_periods(found, name, statement, analyst))

    def periods(self, name: str, statement: str, analyst: str) -> tuple[str, ...]:
        """The same names, in order; there may be other files."""
        return tuple(sorted(_periods(self._read(), name, statement, analyst)))

    def tell(self, series: PublishedSeries) -> None:
        """Write down what will be published. Raises LedgerError if other numbers were published before."""
        found = self._read()
        told = _periods(found, series.name, series.statement, series.analyst)
        for period in series.measured:
            rows = period.as_dict()
            now = None if series.changes else _hash(json.dumps([rows["rows"], rows["errors"], rows["intervals"]]))
            if None not in (now, before := told.get(period.name)) and now != before:
                raise LedgerError(f"{self.place} has other numbers for {period.name} of {series.name} than the ledger, of which "
                                  "an older copy may have been put back in between", code="ledger-other",
                                  try_="the copy of the ledger that published these numbers; or another folder")
            told[period.name] = now
        queries = {**found["queries"], series.name: {
            "statement": _hash(series.statement), "analyst": series.analyst, "periods": told}}
        replace_file(self.place / MARKER, self._content(queries))

    def _check_free(self, name: str) -> None:
        if os.path.lexists(self.place / name):
            raise OperationalError(f"{self.place / name} exists, and dpsql publish did not write it", code="exists",
                                   try_=_another(self.budget))

    def _claim(self) -> None:
        """Create the file, unless somebody else does at the same time."""
        fresh = temporary(self.place / f"{MARKER}-{secrets.token_hex(8)}")
        try:
            fresh.write_bytes(self._content({}))
            with contextlib.suppress(FileExistsError):
                os.link(fresh, self.place / MARKER)  # which replaces nothing
        except OSError as fault:
            raise OperationalError(f"{self.place / MARKER} cannot be written ({type(fault).__name__})", code="file",
                                   try_="a folder that you may write to, and space on its disk") from None
        finally:
            fresh.unlink(missing_ok=True)

    def _content(self, queries: Mapping[str, Any]) -> bytes:
        told = {"ledger": self.ledger, "budget": self.budget, "queries": queries}
        return (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode()

    def _read(self) -> dict[str, Any]:
        try:
            found: Any = json.loads((self.place / MARKER).read_text(encoding="utf-8"))
            _check_kinds(found, ledger=str, budget=str, queries=dict)
            for query in found["queries"].values():
                _check_kinds(query, statement=str, periods=dict)
        except (OSError, ValueError, TypeError, KeyError):
            raise OperationalError(f"{self.place / MARKER}, which says what was published there, cannot be read", code="folder",
                                   try_="a copy of this file, or an empty folder") from None
        return dict(found)


def _check_kinds(found: Any, **kinds: type) -> None:
    """Raises TypeError or KeyError if a part is missing, or of another kind."""
    if not isinstance(found, dict) or not all(isinstance(found[name], kind) for name, kind in kinds.items()):
        raise TypeError


def _periods(found: Mapping[str, Any], name: str, statement: str, analyst: str) -> dict[str, str | None]:
    """What was published of a standing query, by the names of its periods. One that was dropped may have had the same name and
    text, but if another account made it, it has other numbers."""
    known = found["queries"].get(name)
    same = known is not None and known["statement"] == _hash(statement) and known.get("analyst", analyst) == analyst
    return dict(known["periods"]) if same else {}


def _another(budget: str) -> str:
    return f"a folder for {budget} alone: --out FOLDER"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
