"""One text for one meaning: what identifies a statement in the ledger.

Two texts that bind to the same question, with the same options, are the same statement and have one answer. Places in the
text take no part, nor do the names under which columns are shown; everything else of the plan does, the policy that it rests
on included.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
from collections.abc import Mapping
from types import NoneType

from dpsql.frozen import field_names, is_frozen
from dpsql.trusted.declarations.tables import Table

IGNORED = {"span", "text", "listed", "listings", "combinations"}  # public rows are identified by the data's version
LATER = ("limits_hold", "closed", "beyond",  # left out where they are false, so that older statements are what they always were
         "stated_rows", "stated_spread", "acceptance", "constant", "growth", "periods", "arrived")
SHOWN = {"Output", "Key", "Fold", "Field", "Merged"}  # whose `name` is for people
PLAIN = frozenset({str, int, float, bool, NoneType, dt.date, dt.datetime})  # subclasses are none of these
MOST_TABLES = 256  # whose texts are kept
MOST_LETTERS = 2**24  # of these texts: each session of a server has tables of its own, which are held with their texts
WRITTEN_OUT = 2**24  # characters of the texts of tables in one text
_TABLES: dict[int, tuple[Table, str, str]] = {}
_PARTS: dict[type, tuple[str, ...] | None] = {}
LABELLED = {"Project", "UnionAll", "SetOperation"}  # whose `columns` are (identifier, name for people, ...)


def digest(*parts: object) -> str:
    """A hash of the canonical form of some values."""
    return hashlib.sha256("\n".join([canonical(part) for part in parts]).encode()).hexdigest()


def digest_of(before: tuple[object, ...], text: str, after: tuple[object, ...]) -> str:
    """The same hash, given the canonical form of one of the values."""
    parts = [*map(canonical, before), text, *map(canonical, after)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def canonical(value: object) -> str:
    """A text that is equal exactly for equal values."""
    return _Text().of(value)


class SharedTexts:
    """The canonical texts of values that share most parts with a first one. The texts of shared parts are worked out once."""

    def __init__(self, first: object) -> None:
        self._known: dict[int, tuple[object, str]] = {}
        if _TextOfShared(self._known, adding=True).written_of(first) > WRITTEN_OUT:
            self._known.clear()  # what stands for a table there depends on what is before it

    def of(self, value: object) -> str:
        """The same text as `canonical` gives."""
        made = _TextOfShared(self._known, adding=False)
        text = made.of(value)
        return text if made.written + len(text) <= WRITTEN_OUT else canonical(value)


class _Text:
    """The text of one value. A thousand queries name the same table a thousand times: after `WRITTEN_OUT` characters of such
    texts, a hash of a table's text stands for it."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.written = 0

    def of(self, value: object) -> str:
        kind = type(value)
        if kind in PLAIN:  # first, as a table carries tens of thousands of public values: every day of a range of dates
            return f"{kind.__name__}:{value!r}"
        if kind is tuple:
            return f"[{','.join([self.of(part) for part in value])}]"  # type: ignore[attr-defined]
        if type(value) is Table:
            return self.table(*_table(value))
        return self.parts(value)

    def table(self, text: str, short: str) -> str:
        self.written += len(text)
        return text if self.written <= WRITTEN_OUT else short

    def parts(self, value: object) -> str:
        kind, names = type(value).__name__, _parts(type(value))
        if names is not None:
            names = tuple(name for name in names if name not in LATER or getattr(value, name))
            if kind in LABELLED:
                parts = {name: getattr(value, name) for name in names}
                parts["columns"] = [(column, *rest) for column, _, *rest in parts["columns"]]
                return f"{kind}({','.join([f'{name}={self.of(part)}' for name, part in parts.items()])})"
            return f"{kind}({','.join([f'{name}={self.of(getattr(value, name))}' for name in names])})"
        if isinstance(value, enum.Enum):
            return f"{kind}.{value.name}"
        if isinstance(value, tuple | list):
            return "[" + ",".join([self.of(part) for part in value]) + "]"
        if isinstance(value, Mapping):
            return "{" + ",".join(sorted(f"{self.of(key)}:{self.of(part)}" for key, part in value.items())) + "}"
        if isinstance(value, set | frozenset):
            return "{" + ",".join(sorted(self.of(part) for part in value)) + "}"
        return f"{kind}:{value!r}"


class _TextOfShared(_Text):
    """The text of a value, given texts of parts by their identity; if `adding`, the texts of its parts are added to these. No
    hash stands for a table here: whoever asks compares the length with the limit."""

    __slots__ = ("adding", "known")

    def __init__(self, known: dict[int, tuple[object, str]], *, adding: bool) -> None:
        super().__init__()
        self.known, self.adding = known, adding

    def written_of(self, value: object) -> int:
        return len(self.of(value))

    def of(self, value: object) -> str:
        if type(value) in PLAIN:
            return super().of(value)
        found = self.known.get(id(value))
        if found is not None and found[0] is value:
            return found[1]
        text = self.parts(value) if type(value) is Table else super().of(value)
        if self.adding:
            self.known[id(value)] = value, text
        return text


def _table(table: Table) -> tuple[str, str]:
    """A table's text, and what stands for it. They are worked out once: it is a frozen part of a catalog, and its text is longer
    than that of all else in a statement."""
    kept = _TABLES.get(id(table))
    if kept is None or kept[0] is not table:
        text = _Text().parts(table)
        if len(_TABLES) >= MOST_TABLES or len(text) + sum(len(other) for _, other, _ in [*_TABLES.values()]) > MOST_LETTERS:
            _TABLES.clear()
        kept = _TABLES[id(table)] = table, text, f"Table#{hashlib.sha256(text.encode()).hexdigest()}"
    return kept[1:]


def _parts(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of values that take part; None of what is none."""
    if kind not in _PARTS:
        _PARTS[kind] = tuple(name for name in field_names(kind) if name not in IGNORED and not (
            name == "name" and kind.__name__ in SHOWN)) if is_frozen(kind) else None
    return _PARTS[kind]
