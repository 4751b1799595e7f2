"""SET, SHOW, RESET and what else is about a connection alone, as clients of PostgreSQL use them.

Values are shown in one way only, so settings that would change it are refused; others are kept and have no effect, but for
statement_timeout. Five are of dpsql: epsilon, delta, rho and confidence, the price and the confidence of statements that state
none; and pace, the time after which their outcomes leave at the earliest, for those that take long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError

from dpsql.catalog.model import LONGEST_PACE
from dpsql.dbapi import Connection
from dpsql.errors import OptionError, SqlError, Unsupported
from dpsql.frozen import Frozen
from dpsql.server.front.statements.transaction_status import condensed, first_word
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire
from dpsql.sql.text.border import PUBLIC

TERMS = ("epsilon", "delta", "rho", "confidence")
OWN = (*TERMS, "pace")
MOST_SET = 200  # settings that a connection keeps
SETTING_WORDS = ("SET", "RESET", "SHOW", "DISCARD", "UNLISTEN", "LISTEN", "NOTIFY", "LOCK", "PREPARE", "EXECUTE")
UNLOCKING = "SELECT pg_advisory_unlock_all()"  # drivers send it when a connection returns to a pool; nothing is locked here
LISTINGS = ("BUDGET", "PERIODS", "RELEASES", "STANDING QUERIES", "TABLES")  # what SHOW means in dpsql
REPORTED = ("application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
            "integer_datetimes", "IntervalStyle", "is_superuser", "server_encoding", "server_version", "session_authorization",
            "standard_conforming_strings", "TimeZone")  # as PostgreSQL 15 does
FIXED: Mapping[str, tuple[str, ...]] = {
    # settings whose value decides how values are written, with the values that are this way
    "client_encoding": ("utf8", "utf-8", "unicode"), "standard_conforming_strings": ("on", "true", "yes", "1"),
    "datestyle": ("iso", "iso, mdy", "iso,mdy", "iso, dmy", "iso, ymd", "mdy", "dmy", "ymd"), "bytea_output": ("hex", "escape"),
}
DEFAULTS: Mapping[str, str] = {
    "search_path": PUBLIC,
    "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
    "IntervalStyle": "postgres", "integer_datetimes": "on", "standard_conforming_strings": "on", "application_name": "",
    "is_superuser": "off", "transaction_isolation": "serializable", "default_transaction_isolation": "serializable",
    "transaction_read_only": "off", "default_transaction_read_only": "off", "transaction_deferrable": "off",
    "extra_float_digits": "1", "bytea_output": "hex", "client_min_messages": "notice", "statement_timeout": "0",
    "lock_timeout": "0", "max_identifier_length": "63", "idle_in_transaction_session_timeout": "0", "row_security": "off",
    "synchronize_seqscans": "on", "max_index_keys": "32", "server_version_num": "150000", "lc_collate": "C", "lc_ctype": "C",
    "lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C", "default_table_access_method": "heap",
    "default_tablespace": "", "escape_string_warning": "on", "xmloption": "content", "work_mem": "4MB", "jit": "off",
    "geqo": "on", "quote_all_identifiers": "off", "default_with_oids": "off", "array_nulls": "on",
    "backslash_quote": "safe_encoding", "check_function_bodies": "on", "session_authorization": "default", "role": "none",
    "default_text_search_config": "pg_catalog.simple", "timezone_abbreviations": "Default", "ssl": "off", "seed": "",
    "datestyle": "ISO, MDY", "password_encryption": "scram-sha-256", "wal_level": "replica", "in_hot_standby": "off",
}


class Settings:
    """The settings of a connection: those of the server, and what the client sets."""

    def __init__(self, *, version: str, startup: Mapping[str, str], user: str = "default") -> None:
        """`startup` are those that the client states when it connects. Raises OptionError."""
        self._first = {name.lower(): value for name, value in (
            *DEFAULTS.items(), ("server_version", version), ("session_authorization", user))}
        given = {**_options(startup.get("options", "")), **startup}
        known = {name.lower(): value for name, value in given.items() if name.lower() in self._first}
        self._first |= {name: value for name, value in known.items() if name not in FIXED and not name.startswith("server_")}
        self._set: dict[str, str] = {}
        self._before_local: dict[str, str | None] = {}
        if "statement_timeout" in known:
            self.set("statement_timeout", known["statement_timeout"])

    @property
    def values(self) -> Mapping[str, str]:
        """All settings, by their names in lower case."""
        return {**self._first, **self._set}

    @property
    def reported(self) -> Mapping[str, str]:
        """The settings that are reported to clients immediately."""
        values = self.values
        return {name: values[name.lower()] for name in REPORTED}

    @property
    def kept(self) -> Mapping[str, str]:
        """What the client set so far, which `put_back` restores."""
        return dict(self._set)

    def put_back(self, kept: Mapping[str, str]) -> None:
        """Restore what the client had set."""
        self._set, self._before_local = dict(kept), {}

    def set_local(self, name: str, value: str | None) -> None:
        """Change a setting for this transaction, which `end_of_local` ends. Raises as `set` does."""
        before = self._set.get(name)
        self.set(name, value)
        self._before_local.setdefault(name, before)

    def end_of_local(self) -> bool:
        """Restore the settings that were changed for the transaction; False if there were none."""
        ended, self._before_local = self._before_local, {}
        for name, value in ended.items():
            if value is None:
                self._set.pop(name, None)
            else:
                self._set[name] = value
        return bool(ended)

    def set(self, name: str, value: str | None) -> None:
        """Change a setting; None restores the earlier value. Raises OptionError for a value that would have no useful effect."""
        if name not in self._first and name not in OWN and "." not in name:
            raise OptionError(f"there is no setting {name}", code="unknown-setting", subject=name, try_=", ".join(OWN))
        allowed = FIXED.get(name)
        if value is None:
            self._set.pop(name, None)
            return
        if allowed is not None and value.lower() not in allowed:
            raise OptionError(f"{name} is {self._first[name]}, and is not changed", code="bad-setting", subject=name,
                              try_=self._first[name])
        if name.startswith("server_"):
            raise OptionError(f"{name} is not changed", code="bad-setting", subject=name)
        if name in ("statement_timeout", "pace") and _seconds(value) is None:
            raise OptionError(f"{value[:20]} is not a time", code="bad-setting", subject=name, try_="'30s', or 30000 (in ms)")
        if name == "pace" and not (_seconds(value) or 0) <= LONGEST_PACE:
            raise OptionError(f"{value[:20]} is too long", code="bad-setting", subject=name, try_="an hour, '1h', or less")
        if len(self._set) >= MOST_SET and name not in self._set:
            raise OptionError(f"a connection can have at most {MOST_SET} settings", code="bad-setting", subject=name,
                              try_="RESET ALL")
        self._set[name] = self._first[name] if allowed is not None else value

    def reset(self) -> None:
        """Forget what the client set."""
        self._set.clear()

    @property
    def timeout(self) -> float:
        """The time limit of a statement in seconds; 0 for none."""
        return _seconds(self._set.get("statement_timeout", self._first["statement_timeout"])) or 0.0

    @property
    def terms(self) -> dict[str, object]:
        """The settings specific to dpsql, as `Connection.set_terms` takes them."""
        return {name: _number(self._set[name]) for name in TERMS if name in self._set}

    @property
    def pace(self) -> float:
        """The least time in seconds after which outcomes of statements leave."""
        return _seconds(self._set.get("pace", "0")) or 0.0


def _options(text: str) -> dict[str, str]:
    """Settings in the options of a connection: ``-c statement_timeout=5s --jit=off``. Blanks in values have a backslash."""
    found = re.findall(r"(?<!\S)(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)", text)
    return {name.replace("-", "_"): re.sub(r"\\(.)", r"\1", value) for name, value in found}


_UNITS = {"us": 1e-6, "": 1e-3, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def _seconds(text: str) -> float | None:
    """A time as PostgreSQL writes it, such as 500, 500ms or 2min; None for what is none."""
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(us|ms|s|min|h|d|)\s*", text, re.ASCII)
    return None if found is None else float(found[1]) * _UNITS[found[2]]


def _number(text: str) -> object:
    """A number that is written as a text; the text where it is none."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


class AboutConnection(Frozen):
    """A statement about the connection: its tag, what it shows, and what it changes, which for one that is `local` ends with the
    transaction."""

    tag: str
    columns: tuple[ColumnOnWire, ...] | None = None
    rows: tuple[tuple[object, ...], ...] = ()
    change: Callable[[Settings], None] = lambda settings: None
    local: bool = False

    def apply(self, settings: Settings, connection: Connection) -> None:
        """Change the settings, and the terms of the connection accordingly. Raises OptionError; then nothing is changed."""
        before, kept = settings.terms, dict(settings._set)
        self.change(settings)
        if settings.terms == before:
            return
        try:
            connection.set_terms(**settings.terms)
        except OptionError:
            settings._set.clear()
            settings._set.update(kept)
            raise


def read_setting(text: str, settings: Settings) -> AboutConnection | None:
    """The effect of a statement about the connection; None for other statements. Raises SqlError, Unsupported or OptionError."""
    if _is_unlocking(text):
        column = ColumnOnWire(name="pg_advisory_unlock_all", kind="VARCHAR")
        return AboutConnection(tag="SELECT 1", columns=(column,), rows=((None,),))
    words = _words(text)
    first = words[0].upper() if words else ""
    match first:
        case "SET":
            return _set(words[1:])
        case "RESET":
            return _reset(words[1:])
        case "SHOW" if len(words) == 1 or words[1].upper() not in LISTINGS:
            return _show(words[1:], settings)
        case "DISCARD":
            return _discard(words[1:])
        case "UNLISTEN":
            return AboutConnection(tag="UNLISTEN")
        case "LISTEN" | "NOTIFY" | "LOCK" | "PREPARE" | "EXECUTE":
            raise Unsupported(f"{first} is not answered here", code="not-a-query", try_="SELECT, without it")
    return None


def is_about_connection(text: str) -> bool:
    """Whether `read_setting` has an effect for this statement, or refuses it."""
    words = _words(text)
    is_listing = [word.upper() for word in words[:1]] == ["SHOW"] and len(words) > 1 and words[1].upper() in LISTINGS
    return _is_unlocking(text) or (bool(words) and not is_listing)


def _is_unlocking(text: str) -> bool:
    return len(text) <= 2 * len(UNLOCKING) and condensed(text).lower() == UNLOCKING.lower()


def _words(text: str) -> list[str]:
    """The words of a statement that begins like one about the connection, texts without their quotes; none for others."""
    if len(text) > 10_000 or first_word(text) not in SETTING_WORDS:
        return []
    try:
        tokens = Postgres().tokenize(text)
    except TokenError:
        return []
    return [token.text for token in tokens if token.text != ";"]


def _set(words: Sequence[str]) -> AboutConnection:
    local = bool(words) and words[0].upper() == "LOCAL"
    words = words[1:] if local or (words and words[0].upper() == "SESSION") else words
    upper = [word.upper() for word in words]
    if upper[:1] in (["TRANSACTION"], ["CONSTRAINTS"]) or upper[:2] == ["CHARACTERISTICS", "AS"]:
        return AboutConnection(tag="SET CONSTRAINTS" if upper[0] == "CONSTRAINTS" else "SET", local=upper[0] == "TRANSACTION")
    if upper[:2] == ["TIME", "ZONE"]:
        words = ["timezone", "=", *words[2:]]
    if upper[:1] == ["NAMES"]:
        words = ["client_encoding", "=", *words[1:]]
    at = next((i for i, word in enumerate(words) if word == "=" or word.upper() == "TO"), -1)
    if at < 1 or at + 1 >= len(words):
        raise SqlError("SET takes a name and a value", code="syntax", try_="SET epsilon = 0.5")
    name, value = "".join(words[:at]).lower(), _joined(words[at + 1:])
    given = None if value.upper() == "DEFAULT" else value
    return AboutConnection(tag="SET", local=local, change=lambda settings: (
        settings.set_local(name, given) if local else settings.set(name, given)))


def _joined(words: Sequence[str]) -> str:
    """A value that may be a list, or a number with its sign."""
    return " ".join(words).replace(" ,", ",").replace("- ", "-")


def _reset(words: Sequence[str]) -> AboutConnection:
    if not words:
        raise SqlError("RESET takes a name", code="syntax", try_="RESET ALL")
    name = "timezone" if [word.upper() for word in words[:2]] == ["TIME", "ZONE"] else "".join(words).lower()
    return AboutConnection(tag="RESET", change=Settings.reset if name == "all" else lambda settings: settings.set(name, None))


_PHRASES = {"transaction isolation level": "transaction_isolation", "time zone": "timezone",
            "session authorization": "session_authorization"}


def _discard(words: Sequence[str]) -> AboutConnection:
    what = " ".join(words).upper().replace("TEMPORARY", "TEMP")
    if what not in ("ALL", "PLANS", "SEQUENCES", "TEMP"):
        raise SqlError("DISCARD takes a word", code="syntax", try_="DISCARD ALL")
    return AboutConnection(tag=f"DISCARD {what}", change=Settings.reset if what == "ALL" else lambda settings: None)


def _show(words: Sequence[str], settings: Settings) -> AboutConnection:
    if not words:
        raise SqlError("SHOW takes a name", code="syntax", try_="SHOW ALL")
    name = " ".join(words).lower().replace(" . ", ".")
    if name == "all":
        columns = tuple(ColumnOnWire(name=each, kind="VARCHAR") for each in ("name", "setting", "description"))
        return AboutConnection(tag="SHOW", columns=columns,
                               rows=tuple((each, value, "") for each, value in sorted(settings.values.items())))
    name = _PHRASES.get(name, name)
    value = settings.values.get(name)
    if value is None and name not in OWN:
        raise OptionError(f"there is no setting {name}", code="unknown-setting", subject=name,
                          try_="SHOW BUDGET, SHOW RELEASES or SHOW TABLES")
    shown = next((each for each in DEFAULTS if each.lower() == name), name)
    return AboutConnection(tag="SHOW", columns=(ColumnOnWire(name=shown, kind="VARCHAR"),), rows=((value or "as opened",),))
