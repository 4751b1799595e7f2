"""Parquet files of a table that grows: each is verified once, when it is new, and queries of some periods read only the files
that have rows of these.

Which periods a file has rows of is found by reading all of its rows, when it is verified; nothing is taken from its name, its
folder, or what it says of itself. The view of the table then consists of groups of files, each with a condition that all of its
rows satisfy: that their time lies between the least and the largest of the group. So the view has the rows that it would have
without conditions, and the engine, which sees that a condition contradicts the periods of a query, does not open its files.
The engine writes some times as texts that it cannot read, such as the first day of all that a DATE can be; if one of these is an
end of a file, its group has no condition there. Otherwise one person's row would make every statement fail.
What was found of a file is remembered beside the ledger, for this very file and these columns, and hidden there like all
answers to questions about private rows (`ledgers.proven_facts`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb

from dpsql.backends.source_files import FileState
from dpsql.backends.store import RememberedFacts
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.printing import quote, text_literal

MOST_GROUPS = 48  # of one table: opening the first file of each takes time in every query
NEWEST = 16  # files that are groups of their own
NONE = "none"
OPEN = "open"


class FileSpan(Frozen):
    """A file, the least and the largest time of its rows as text, both None if no row has one, and whether a row has none. An end
    is `OPEN` if the engine cannot read its text."""

    path: Path
    least: str | None
    most: str | None
    without: bool

    def as_text(self) -> str:
        return "|".join((self.least or NONE, self.most or NONE, str(int(self.without))))

    @classmethod
    def from_text(cls, path: Path, text: str) -> FileSpan:
        """The inverse of `as_text`."""
        least, most, without = text.split("|")
        return cls(path=path, least=None if least == NONE else least, most=None if most == NONE else most, without=without == "1")


class GrowingFiles(Frozen):
    """The files of a table that grows by the column `time`, of the type `kind`. `rows` is the query of the rows of some of them,
    and `read` are the declared columns."""

    table: str
    files: tuple[FileState, ...]
    rows: Callable[[Sequence[Path]], str]
    time: str
    kind: str
    read: tuple[str, ...]

    def spans(self, connection: duckdb.DuckDBPyConnection, facts: RememberedFacts, tell: Callable[[str], None]) -> list[FileSpan]:
        """All files with the times of their rows. Files that are new are read. Raises OperationalError, which names the file, if
        one cannot be read; duckdb.OutOfMemoryException."""
        asked = [self._question(file) for file in self.files]
        known = facts.recall_each(asked)
        new = sum(text is None for text in known)
        if new:
            tell(f"reading {'a new file' if new == 1 else f'{new} new files'} of {self.table} once ...")
        found = []
        for file, question, text in zip(self.files, asked, known, strict=True):
            span = self._read(connection, file.path) if text is None else FileSpan.from_text(file.path, text)
            if text is None and file.stands():
                facts.note(question, span.as_text())
            found.append(span)
        return found

    def view(self, spans: Sequence[FileSpan]) -> str:
        """The query of all rows, in groups of files."""
        if len(spans) == 1:
            return self.rows([spans[0].path])
        return " UNION ALL ".join(self._branches(spans))

    def _branches(self, spans: Sequence[FileSpan]) -> Iterator[str]:
        dated = sorted((span for span in spans if span.least is not None), key=lambda span: (span.least or "", str(span.path)))
        for group in _groups(dated):
            yield f"SELECT * FROM ({self.rows([span.path for span in group])}) AS g WHERE {' AND '.join(self._between(group))}"
        without = [span.path for span in spans if span.without or span.least is None]
        if without:
            yield f"SELECT * FROM ({self.rows(without)}) AS g WHERE g.{quote(self.time)} IS NULL"

    def _between(self, group: Sequence[FileSpan]) -> Iterator[str]:
        """The conditions that all rows of some files with a time satisfy, and no row without one."""
        yield f"g.{quote(self.time)} IS NOT NULL"
        least, most = [span.least for span in group], [span.most for span in group]
        for sign, end, times in (">=", "LEAST", least), ("<=", "GREATEST", most):
            if OPEN not in times:
                yield f"g.{quote(self.time)} {sign} {end}({', '.join(map(self._moment, dict.fromkeys(times)))})"

    def _moment(self, text: str | None) -> str:
        return f"CAST({text_literal(text)} AS {self.kind})"

    def _as_text(self, end: str) -> str:
        """The SQL for an end as text; of no rows it is NULL."""
        text = f"CAST({end} AS VARCHAR)"
        return f"CASE WHEN {end} IS NULL OR TRY_CAST({text} AS {self.kind}) = {end} THEN {text} ELSE {text_literal(OPEN)} END"

    def _question(self, file: FileState) -> str:
        rows = self.rows([Path("file")])
        return json.dumps(["ends of the times of a file", duckdb.__version__, rows, self.time, self.read, file.as_plain()])

    def _read(self, connection: duckdb.DuckDBPyConnection, path: Path) -> FileSpan:
        """Read all declared columns of a file: the engine has to, to count what is not NULL."""
        time = f"s.{quote(self.time)}"
        counts = "".join(f", COUNT(s.{quote(column)})" for column in self.read)
        try:
            (least, most, without, *_), = connection.execute(
                f"SELECT {self._as_text(f'MIN({time})')}, {self._as_text(f'MAX({time})')}, COUNT(*) > COUNT({time}){counts} "
                f"FROM ({self.rows([path])}) AS s").fetchall()
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error:
            pass
        else:
            return FileSpan(path=path, least=least, most=most, without=bool(without))
        raise OperationalError(f"{path} cannot be read", code="no-database", subject=self.table,
                               try_="removing it, or writing it again: under another name that begins with a dot, and then "
                               "renaming it")


def _groups(spans: Sequence[FileSpan]) -> Iterator[Sequence[FileSpan]]:
    """Files that follow each other in time: the newest ones by themselves, older ones together."""
    older, newest = spans[:-NEWEST], spans[-NEWEST:]
    size = -(-len(older) // (MOST_GROUPS - NEWEST)) or 1
    yield from (older[at:at + size] for at in range(0, len(older), size))
    yield from ([span] for span in newest)
