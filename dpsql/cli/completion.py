"""Completion in `dpsql shell`, from public metadata alone: keywords, and the tables, columns and values of the policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dpsql.catalog.model import Catalog
from dpsql.frozen import AbstractFrozen
from dpsql.sql.text.offered_words import KEYWORDS, function_names, listed_texts

IN_TEXT = re.compile(r"""(?:"?(\w+)"?\s*(?:=|<>|!=|IN\s*\([^()]*)\s*)?'([^']*)$""", re.IGNORECASE)
AFTER_TABLE = re.compile(r"(?:\b(?:FROM|JOIN|DESCRIBE|AGAINST)|^\\d)\s+(\w*)$", re.IGNORECASE)
COMMAND = re.compile(r"^\s*(\\\w*)$")
WORD = re.compile(r"\w*$")


class PublicWords(AbstractFrozen, Completer):
    """What can follow a text."""

    catalog: Catalog
    commands: Sequence[str]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        begun, words = self._fitting(document.text_before_cursor)
        fitting = dict.fromkeys(word for word in words if word.lower().startswith(begun.lower()))
        return (Completion(word, start_position=-len(begun)) for word in fitting)

    def _fitting(self, text: str) -> tuple[str, Iterable[str]]:
        """The word that is begun, and those that can stand in its place."""
        tables = [self._written(name) for name in self.catalog.tables]
        if (found := COMMAND.search(text)) is not None:
            return found[1], self.commands
        if text.count("'") % 2 and (found := IN_TEXT.search(text)) is not None:
            return found[2], self._values(found[1])
        if (found := AFTER_TABLE.search(text)) is not None:
            return found[1], tables
        columns = [self._written(name) for table in self.catalog.tables.values() for name in table.columns]
        begun = WORD.search(text)
        return begun[0] if begun is not None else "", [*columns, *tables, *KEYWORDS, *function_names()]

    def _values(self, column: str | None) -> Iterator[str]:
        """Declared texts of a column, or of all where it is not known, as they stand between quotes."""
        for table in self.catalog.tables.values():
            for name, declared in table.columns.items():
                if declared.domain is not None and (column is None or name.lower() == column.lower()):
                    yield from (value.replace("'", "''") + "'" for value in listed_texts(declared.domain.values))

    @staticmethod
    def _written(name: str) -> str:
        """A name as SQL writes it."""
        return name if re.fullmatch(r"[A-Za-z_]\w*", name) else '"' + name.replace('"', '""') + '"'
