"""Reads from a policy how the rows of a table are written."""

from __future__ import annotations

import codecs
import math
import zoneinfo
from typing import Any

from dpsql.catalog.reading import CellReading, CsvFormat
from dpsql.catalog.sections import FORMS, Section

MOST_WORDS = 10_000
CASES = ("lower", "upper")
DATES = "DATE", "TIMESTAMP"
NUMBERS = "BIGINT", "DOUBLE"


def csv_format(part: Section | None) -> CsvFormat | None:
    """The format of CSV files; None if the policy declares none."""
    if part is None:
        return None
    given: dict[str, Any] = {}
    for key in ("delimiter", "quote", "escape", "comment"):
        text = part.take(key, str)
        if text is not None:
            if len(text) > 1 or (text == "" and key == "delimiter") or text in ("\n", "\r"):
                part.fail(key, "must be one character")
            given[key] = text
    for key, kind in (("header", bool), ("skip", int), ("encoding", str)):
        value = part.take(key, kind)
        if value is not None:
            given[key] = value
    if not 0 <= given.get("skip", 0) <= 10**6:
        part.fail("skip", "must be a number of lines, from 0 to 1000000")
    if not _is_encoding(given.get("encoding", "utf-8")):
        part.fail("encoding", f"there is no encoding {given['encoding']}")
    if part.has("names"):
        given["names"] = part.strings("names")
        lower = [name.lower() for name in given["names"]]
        if not lower or "" in lower or len(set(lower)) != len(lower):
            part.fail("names", "must be different names, one for every column of the file")
    part.finish()
    found = CsvFormat(**given)
    signs = [sign for sign in (found.delimiter, found.quote, found.comment) if sign]
    if len(set(signs)) != len(signs):
        part.fail(None, "delimiter, quote and comment must be different characters")
    if not found.header and not found.names:
        part.fail(None, "a file without a header needs the names of its columns", try_=FORMS["names"])
    return found


def cell_reading(part: Section, kind: str | None) -> CellReading:
    """How the cells of a column of this declared type are read."""
    found = CellReading(
        trim=bool(part.take("trim", bool)), null=_words(part), case=_one_of(part, "case", CASES), aliases=_aliases(part),
        decimal_mark=part.take("decimal_mark", str) or ".", format=part.take("format", str) or "", zone=_zone(part), type=kind)
    if len(found.decimal_mark) != 1 or found.decimal_mark.isalnum():
        part.fail("decimal_mark", "must be one character")
    for key, given, kinds in (("decimal_mark", found.decimal_mark != ".", NUMBERS), ("format", bool(found.format), DATES),
                              ("case", bool(found.case), ("VARCHAR",)), ("aliases", bool(found.aliases), ("VARCHAR",)),
                              ("zone", part.has("zone"), ("TIMESTAMP",))):
        if given and kind is not None and kind not in kinds:
            part.fail(key, f"this is for columns of type {' or '.join(kinds)}, and the type is {kind}", try_=f"leaving {key} out")
    if found.format and "%" not in found.format:
        part.fail("format", "must be date codes, as for strftime")
    return found


def _words(part: Section) -> tuple[str | int | float, ...]:
    value = part.take("null", str, int, float, list)
    words = value if isinstance(value, list) else [] if value is None else [value]
    if len(words) > MOST_WORDS or any(
            isinstance(word, bool) or not isinstance(word, str | int | float) or word in (math.inf, -math.inf) or word != word
            for word in words):
        part.fail("null", "must list texts or finite numbers that stand for NULL")
    return tuple(words)


def _aliases(part: Section) -> dict[str, str]:
    found = part.take("aliases", dict) or {}
    if len(found) > MOST_WORDS or not all(isinstance(meant, str) for meant in found.values()):
        part.fail("aliases", "must map other spellings to the text that they represent")
    return dict(found)


def _one_of(part: Section, key: str, values: tuple[str, ...]) -> str:
    text = part.take(key, str)
    if text is not None and text not in values:
        part.fail(key, f"must be {' or '.join(values)}")
    return text or ""


def _zone(part: Section) -> str:
    name = part.take("zone", str)
    if name is None:
        return "UTC"
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        part.fail("zone", f"there is no time zone {name}")
    return str(name)


def _is_encoding(name: str) -> bool:
    """Whether Python reads texts in this encoding."""
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:
        return False
