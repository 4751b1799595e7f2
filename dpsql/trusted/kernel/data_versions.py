"""What identifies the data of some tables, for stored answers: of private tables their files, of public ones their rows.

If the rows of a private table decided whether it has another version, then whether a statement is paid anew would tell of them,
and every stored answer would be a test of whether a person's rows changed. So the version of a private table changes when its
files are written, whatever is in them. Nothing here is trusted for privacy: an answer that is found under a wrong version was
paid for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.reader import Reader

TABLES = "tables "  # how the version of some tables begins


class DataVersions:
    """The versions of the tables of a reader. `held` are the tables of released rows, with what identifies their rows."""

    def __init__(self, reader: Reader, publics: Publics, held: Mapping[str, str]) -> None:
        self._reader, self._publics, self._held = reader, publics, held
        self._contents: dict[str, str] = {}  # of public tables, which do not change while the reader is open

    def of(self, tables: Iterable[Table]) -> str:
        """Identifies the content of some tables. A name is that of one table. Raises as `Publics.content` does."""
        found = {table.name: self._one(table) for table in tables}
        return TABLES + hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()

    def _one(self, table: Table) -> str:
        if table.name in self._held:
            return self._held[table.name]
        if not table.public:
            return self._reader.versions.get(table.name.lower(), self._reader.version)
        if table.name not in self._contents:
            self._contents[table.name] = self._publics.content(table)
        return self._contents[table.name]
