"""Words of PostgreSQL that clients ask for: keywords, names of time zones, and settings.

`postgres_keywords.txt` lists the keywords of PostgreSQL 15: a line for each category, with whether they may name a column
without AS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsql.server.front.catalogue.catalog_lists import listed

_CATEGORIES = {"U": "unreserved", "C": "unreserved (cannot be function or type name)", "R": "reserved",
               "T": "reserved (can be function or type name)"}
_NAMES = {"timezone": "TimeZone", "datestyle": "DateStyle", "intervalstyle": "IntervalStyle"}
_ZONES = {"UTC": "UTC", "Etc/UTC": "UTC", "GMT": "GMT", "Etc/GMT": "GMT", "Zulu": "UTC"}
_AT_ONCE = "00:00:00"
KEYWORDS, SETTINGS = "pg_catalog.pg_get_keywords", "pg_catalog.pg_settings"


def words() -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of keywords and time zones, each after the name of its relation. The server's time zone is UTC, so others are not
    listed."""
    for line in listed("postgres_keywords.txt"):
        category, bare, *found = line.split()
        for word in found:
            yield KEYWORDS, {
                "word": word, "catcode": category, "catdesc": _CATEGORIES[category], "barelabel": bare == "true",
                "baredesc": "can be bare label" if bare == "true" else "requires AS"}
    for name, abbreviation in _ZONES.items():
        yield "pg_catalog.pg_timezone_names", {"name": name, "abbrev": abbreviation, "utc_offset": _AT_ONCE, "is_dst": False}
    for abbreviation in ("GMT", "UTC", "Z", "ZULU"):
        yield "pg_catalog.pg_timezone_abbrevs", {"abbrev": abbreviation, "utc_offset": _AT_ONCE, "is_dst": False}


def settings_rows(settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of pg_settings: what SHOW knows."""
    return [{"name": _NAMES.get(name, name), "setting": value, "category": "Settings", "short_desc": "", "context": "user",
             "vartype": "string", "source": "default", "boot_val": value, "reset_val": value, "pending_restart": False}
            for name, value in sorted(settings.items())]
