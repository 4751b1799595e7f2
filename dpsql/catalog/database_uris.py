"""Databases of other kinds that a policy names by URIs, such as `postgresql://host/clinic`; never with a password in them.

The policy is public, and its lines are shown below errors. So a password in it is refused, and hidden wherever the text is shown,
whatever else is wrong with the text.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = {"postgresql": "postgresql://host/database", "postgres": "postgresql://host/database", "sqlite": "sqlite:///file.sqlite",
           "snowflake": "snowflake://user@account/database/schema", "bigquery": "bigquery://project/dataset"}
"""What begins the URI of a database, and the form of one."""

USUAL_PORT = "5432"  # of PostgreSQL
DUCKDB_FILES = (".duckdb", ".ddb", ".db")
SECRETS = r"[^=&\n]*(?:password|passcode|token|privatekey|secret|credentials)[^=&\n]*"  # the names of parameters that hold one
_BEGINS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_AFTER_USER = re.compile(r"(?<=://)([^\s\"'/?#@:]*:)([^\n]*)(?=@)")  # to the last @ of the line: passwords hold any character
_IN_PARAMETER = re.compile(rf"([?&]{SECRETS}=)([^\n]*)", re.IGNORECASE)
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]*[^".\s]))\s*(?:\.|$)')


def scheme_of(source: str) -> str | None:
    """How the URI of a database begins, in lower case; None for the path of a file."""
    begins = _BEGINS.match(source)
    return begins[1].lower() if begins else None


def is_duckdb_file(source: str) -> bool:
    """Whether a source has the file name of a DuckDB database."""
    return scheme_of(source) is None and source.lower().endswith(DUCKDB_FILES)


def hidden(text: str) -> str:
    """A text as long as the given one, with stars in place of passwords in URIs."""
    for secret in (_AFTER_USER, _IN_PARAMETER):
        text = secret.sub(lambda found: found[1] + "*" * len(found[2]), text)
    return text


def fault_of_uri(source: str) -> tuple[str, str] | None:
    """The fault of a database URI, and what to write instead; neither contains a part of the URI."""
    scheme = scheme_of(source) or ""
    if scheme not in SCHEMES:
        return "databases of this kind cannot be read", "one of " + ", ".join(dict.fromkeys(SCHEMES.values()))
    if hidden(source) != source or _holds_password(source):
        return ("the policy is public, and this contains a password",
                "the URI without it; the password in ~/.pgpass or PGPASSWORD, or in the variable of the environment that "
                "[store.passwords] names")
    if _is_malformed(source, scheme):
        return "this is not the URI of a database", SCHEMES[scheme]
    return None


def fault_of_ledger(source: str) -> tuple[str, str] | None:
    """The fault of a URI for the database of a ledger; see `fault_of_uri`."""
    if scheme_of(source) not in ("postgresql", "postgres"):
        return "a ledger is a file, or in a database of PostgreSQL", SCHEMES["postgresql"]
    wrong = fault_of_uri(source)
    return wrong and (wrong[0], wrong[1].partition(", or in the variable")[0])


def _holds_password(source: str) -> bool:
    try:
        parts = urlsplit(source)
        named = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        return parts.password is not None or any(re.fullmatch(SECRETS, name, re.IGNORECASE) for name in named)
    except ValueError:
        return True  # it cannot be told


def _is_malformed(source: str, scheme: str) -> bool:
    if not source.isprintable() or " " in source or re.search(r"%(?![0-9A-Fa-f]{2})", source):
        return True
    try:
        parts = urlsplit(source)
        _ = parts.port
    except ValueError:
        return True
    if scheme == "sqlite":
        return bool(parts.netloc) or len(parts.path) < 2
    return scheme in ("snowflake", "bigquery") and not (parts.netloc and parts.path.strip("/"))


def place_of(source: str) -> str:
    """The parts of a URI that locate the data, without the user and unrelated parameters."""
    parts = urlsplit(source)
    scheme = "postgresql" if parts.scheme.lower() == "postgres" else parts.scheme.lower()
    named = [f"{name}={value}" for name, value in parse_qsl(parts.query) if name in ("host", "hostaddr", "port", "dbname")]
    return f"{scheme}://{parts.netloc.rpartition('@')[2].lower()}{parts.path}{'?' if named else ''}{'&'.join(named)}"


def one_place_of(source: str) -> str:
    """The same, in a normal form for URIs of PostgreSQL that name a host, a port and a database."""
    parts, place = urlsplit(source), place_of(source)
    named = dict(parse_qsl(parts.query))
    if not place.startswith("postgresql:") or "hostaddr" in named or "," in parts.netloc:
        return place
    host, port = named.get("host") or parts.hostname or "", str(named.get("port") or parts.port or USUAL_PORT)
    database = named.get("dbname") or unquote(parts.path[1:])
    return f"postgresql://{host.lower()}{'' if port == USUAL_PORT else f':{port}'}/{database}"


def file_of(source: str) -> Path | None:
    """The file of a SQLite database; None for databases of other kinds."""
    return Path(unquote(source.partition(":///")[2])) if scheme_of(source) == "sqlite" else None


def parts_of_relation(relation: str) -> tuple[str, ...] | None:
    """The parts of the name of a table, with its schema in front; each may be quoted. None if this is not a valid name."""
    found, at = [], 0
    while at < len(relation):
        part = _PART.match(relation, at)
        if part is None or part.end() == at:
            return None
        found.append(part[2] or part[1].replace('""', '"'))
        at = part.end()
    return tuple(found) if 1 <= len(found) <= 3 and not relation.rstrip().endswith(".") else None
