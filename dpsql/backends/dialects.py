"""What differs between databases of other kinds, in one table: how their drivers are called, how a name is quoted, how one
version of all tables is seen, and how each type is asked for and made one of DuckDB's.

Each value is asked for and made by itself, in a way that no value can fail: one that the type of DuckDB does not have, such as
a NaN among decimals, is NULL. So no row decides whether, or how, another is read.

A way also says whether keys may come so. The database deletes rows with their person by its own equality, and we count them by
that of the values we read. So keys are read in those ways only in which two values that are not NULL are equal there if and only
if what is made of them is equal here. `0.0` and `-0.0` read as texts are not, nor are `1.0` and `1.00` of a `numeric`.

PostgreSQL and SQLite are tested as they are. Snowflake and BigQuery are written after their manuals and tested with drivers that
only play them: they have not been run against these services.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from dpsql.backends import postgres_catalog, sqlite_catalog
from dpsql.backends.catalog_rows import Rows
from dpsql.catalog.database_uris import file_of
from dpsql.catalog.policy import TYPES
from dpsql.frozen import Frozen

MOST_DIGITS = 38  # of a DECIMAL
TEXT, WHOLE, TRUTH, DAY, MOMENT, ZONED = "text", "whole numbers", "true or false", "days", "moments", "moments with a time zone"
PLAIN = frozenset([TEXT, WHOLE, TRUTH, DAY, MOMENT])
"""The equalities of keys that are those of the same values in files."""
WHOLE_TEXT = "CASE WHEN regexp_full_match({0}, '-?[0-9]+([.]0*)?') THEN TRY_CAST({0} AS BIGINT) END"


class Way(Frozen):
    """A way in which columns of a type come.

    of         the type of the database, as a pattern
    target     the type of DuckDB, which may hold groups of the pattern
    asked      what the database is asked for, as SQL of its own
    made       what is made of that, as SQL of DuckDB; a cast to the target where it is empty
    sample     a value of what is asked for, where the driver guesses types from the first rows
    by_itself  whether they come so where the policy declares no type
    equality   what the database compares when it compares keys that come so, which is what we compare; a foreign key joins
               columns of the same equality. May hold groups of the pattern. Empty where keys may not come so
    """

    of: str
    target: str
    asked: str = "{0}"
    made: str = ""
    sample: str = ""
    by_itself: bool = True
    equality: str = ""


class Reading(Frozen):
    """How one column is read: its type in the database and the one of DuckDB, what is asked for, what is made of it, the equality
    of keys that are read so, if they may be, and the column as SQL of the database."""

    of: str
    target: str
    asked: str
    made: str
    sample: str
    equality: str
    column: str = ""


class Dialect(Frozen):
    """A kind of database.

    module    the driver, which is in the package `package`, which the extra `extra` of dpsql installs
    options   what the driver is told: from the URI and the password, if there is one
    filters   the name of the dialect in sqlglot, which reads the owner's filters
    columns   the statement for (column, type, whether its rows may be computed or elsewhere, then the parts of its name) of a
              relation, in order
    unlike    the columns of a relation, given by the parts of its name, that the database compares otherwise than their type
              does, each with the reason: a collation, for example
    reads     the stored relations that reading a relation reads, by names of the database, None where they are not known; left
              out where only tables that hold rows of their own are known
    ways      how types come, the first that fits
    canonical a column, as SQL, whose texts are equal where another one's are but for their case: a way out that errors show
    mark      what quotes a name; it is doubled in names
    begin     statements that begin a transaction that sees one version of all tables
    moment    a statement for the present moment, and `at` what follows a table's name to see it as it was then; or neither
    listed    the statement for (schema, table, column, type, NOT NULL) of all tables, to draft a policy; and
    keys      for (schema, table, 'p' or 'u' or 'f', columns as a list of JSON, and what they reference) of their keys; or neither
    usual     the schema whose tables need no schema in front
    itself    a statement for a value that tells the database from all others, by whatever URI it is reached; or none
    unfit     a statement for why the database cannot be read, without a row where it can; or none
    locks     whether reading a table keeps others from replacing it until the transaction ends
    by_day    the condition that a column of days or moments, as SQL, lies between two days, the second one excluded: true of
              exactly the rows of which it is true of what is read; None if values are read otherwise than they are compared there
    """

    module: str
    package: str
    extra: str
    options: Callable[[str, str | None], Mapping[str, str]]
    filters: str
    columns: Callable[[tuple[str, ...]], str]
    unlike: Callable[[Rows, tuple[str, ...]], Mapping[str, str]]
    ways: tuple[Way, ...]
    canonical: str
    reads: Callable[[Rows, tuple[str, ...]], frozenset[str] | None] | None = None
    mark: str = '"'
    begin: tuple[str, ...] = ()
    moment: str = ""
    at: str = ""
    listed: str = ""
    keys: str = ""
    usual: str = ""
    itself: str = ""
    unfit: str = ""
    locks: bool = False
    by_day: str | None = None

    def quoted(self, *parts: str) -> str:
        """A quoted name, qualified by its schema and the like."""
        return ".".join(self.mark + part.replace(self.mark, 2 * self.mark) + self.mark for part in parts)

    def reading(self, column: str, sql_type: str, declared: str | None) -> Reading | None:
        """How a column is read, as its declared type if one is given; None if that type does not fit the column."""
        for way in self.ways:
            found = re.fullmatch(way.of, sql_type, re.IGNORECASE)
            if found is None or not (way.by_itself if declared is None else way.target == declared):
                continue
            target = found.expand(way.target)
            if _is_type(target):
                return Reading(of=sql_type, target=target, asked=way.asked.format(self.quoted(column)), sample=way.sample,
                               made=way.made or f"TRY_CAST({{0}} AS {target})", equality=found.expand(way.equality),
                               column=self.quoted(column))
        return None

    def fitting(self, sql_type: str) -> list[str]:
        """The types that may be declared for columns of a type."""
        found = [way.target for way in self.ways if re.fullmatch(way.of, sql_type, re.IGNORECASE)]
        return [target for target in dict.fromkeys(found) if target in TYPES]

    def fitting_keys(self, sql_type: str) -> list[str]:
        """The types that may be declared for keys of a type."""
        found = {target: self.reading("", sql_type, target) for target in self.fitting(sql_type)}
        return [target for target, reading in found.items() if reading is not None and reading.equality]


def _is_type(target: str) -> bool:
    """Whether DuckDB has this type: digits of decimals are limited."""
    digits = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", target)
    return digits is None or (1 <= int(digits[1]) <= MOST_DIGITS and int(digits[2]) <= int(digits[1]))


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# -- PostgreSQL


def _postgres_options(uri: str, password: str | None) -> Mapping[str, str]:
    """Without a password libpq looks for one itself, in PGPASSWORD, PGPASSFILE and ~/.pgpass."""
    return {"uri": uri if password is None else f"{uri}{'&' if '?' in uri else '?'}password={quote(password, safe='')}"}


# A domain is read as what it is made of, through domains over domains.
_POSTGRES_TYPE = "CASE t.typtype WHEN 'e' THEN 'enum ' ELSE '' END || format_type(t.oid, t.typmod)"
_POSTGRES_FROM = (
    "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT "
    "a.attisdropped JOIN LATERAL (WITH RECURSIVE made(oid, typmod) AS (SELECT a.atttypid, a.atttypmod UNION ALL "
    "SELECT d.typbasetype, d.typtypmod FROM made JOIN pg_type d ON d.oid = made.oid AND d.typtype = 'd') "
    "SELECT made.oid, made.typmod, b.typtype FROM made JOIN pg_type b ON b.oid = made.oid AND b.typtype <> 'd') t ON true")
_POSTGRES_LIST = ("(SELECT json_agg(b.attname ORDER BY p.i)::text FROM unnest({0}) WITH ORDINALITY AS p(n, i) "
                  "JOIN pg_attribute b ON b.attrelid = {1} AND b.attnum = p.n)")


# A view, a foreign table, which may be a view where it is, or a table of which such a one is a part.
_POSTGRES_ELSEWHERE = ("(WITH RECURSIVE parts(oid) AS (SELECT c.oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts "
                       "ON i.inhparent = parts.oid) SELECT bool_or(e.relkind IN ('v', 'm', 'f')) FROM parts "
                       "JOIN pg_class e ON e.oid = parts.oid)")


def _postgres_columns(relation: tuple[str, ...]) -> str:
    return (f"SELECT a.attname::text, {_POSTGRES_TYPE}, {_POSTGRES_ELSEWHERE}, n.nspname::text, c.relname::text "
            f"FROM {_POSTGRES_FROM} WHERE c.oid = to_regclass({_string(POSTGRES.quoted(*relation))}) ORDER BY a.attnum")


_AS_TEXT = "CAST({0} AS text)"
# As a type of the server writes it. A cast to text may be a function of the owner's, which looks at other rows, or gives a value
# several texts; but not of those types that have one already.
_WRITTEN = "CASE WHEN num_nulls({0}) = 0 THEN format('%s', {0}) END"
# The driver passes infinite days and moments on as other ones. So days are asked for as whole numbers, and infinite moments as
# the first and the last one that both sides have; those and all beyond are NULL.
_DAYS = ("CASE WHEN {0} = 'infinity' THEN 2147483647 WHEN {0} = '-infinity' THEN -2147483647 "
         "ELSE {0} - DATE '1970-01-01' END")
_DAY = ("CASE {0} WHEN 2147483647 THEN DATE 'infinity' WHEN -2147483647 THEN DATE '-infinity' "
        "ELSE TRY(DATE '1970-01-01' + {0}) END")
_MOMENT = ("CASE WHEN {0} = 'infinity' THEN '294247-01-09' WHEN {0} = '-infinity' THEN '4714-11-24 BC' "
           "WHEN {0} > '4714-11-24 BC' AND {0} < '294247-01-09' THEN {0} END")
_IN_UTC = _MOMENT.replace("{0}", "({0} AT TIME ZONE 'UTC')")
_TIME = ("CASE {0} WHEN TIMESTAMP '294247-01-09 00:00:00' THEN TIMESTAMP 'infinity' "
         "WHEN TIMESTAMP '4714-11-24 (BC) 00:00:00' THEN TIMESTAMP '-infinity' ELSE {0} END")

POSTGRES = Dialect(
    module="adbc_driver_postgresql", package="adbc-driver-postgresql", extra="databases", options=_postgres_options,
    filters="postgres", columns=_postgres_columns, unlike=postgres_catalog.unlike, reads=postgres_catalog.reads,
    canonical='{0}_key text GENERATED ALWAYS AS (lower({0}::text COLLATE "C")) STORED', usual="public", locks=True,
    by_day="({0} >= DATE '{1}' AND {0} < DATE '{2}')",
    itself="SELECT pg_postmaster_start_time()::text || ' ' || current_database()",
    begin=(
        "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL client_encoding = 'UTF8'", "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL DateStyle = 'ISO'", "SET LOCAL IntervalStyle = 'postgres'", "SET LOCAL bytea_output = 'hex'",
        "SET LOCAL extra_float_digits = 1", "SET LOCAL standard_conforming_strings = on",
        "SET LOCAL row_security = off",  # a policy of rows that would hide some is an error
        # names of PostgreSQL's own types and operators mean these, whatever the account's path has in front of them
        "SELECT set_config('search_path', concat_ws(', ', 'pg_catalog', NULLIF(current_setting('search_path'), '')), true)"),
    ways=(
        Way(of="smallint", target="SMALLINT", equality=WHOLE), Way(of="integer", target="INTEGER", equality=WHOLE),
        Way(of="bigint", target="BIGINT", equality=WHOLE),
        Way(of="smallint|integer", target="BIGINT", by_itself=False, equality=WHOLE),
        Way(of="smallint|integer|bigint|real", target="DOUBLE", by_itself=False),
        Way(of="real", target="FLOAT"), Way(of="double precision", target="DOUBLE"),
        Way(of=r"numeric\((\d+),(\d+)\)", target=r"DECIMAL(\1,\2)", asked=_WRITTEN),
        Way(of=r"numeric(\([^)]*\))?", target="DOUBLE", asked=_WRITTEN, by_itself=False),
        Way(of=r"numeric(\([^)]*\))?", target="BIGINT", asked=_WRITTEN, made=WHOLE_TEXT, by_itself=False, equality=WHOLE),
        Way(of="boolean", target="BOOLEAN", equality=TRUTH),
        Way(of="date", target="DATE", asked=_DAYS, made=_DAY, equality=DAY),
        Way(of="date", target="TIMESTAMP", asked=_DAYS, made=f"TRY_CAST({_DAY} AS TIMESTAMP)", by_itself=False),
        *(way for zone, asked, equality in (("without", _MOMENT, MOMENT), ("with", _IN_UTC, ZONED)) for way in (
            Way(of=f"timestamp.* {zone} time zone", target="TIMESTAMP", asked=asked, made=_TIME, equality=equality),
            Way(of=f"timestamp.* {zone} time zone", target="DATE", asked=asked, made=f"CAST({_TIME} AS DATE)", by_itself=False))),
        Way(of=r"(text|character varying|name)(\(\d+\))?", target="VARCHAR", asked=_AS_TEXT, equality=TEXT),
        Way(of=r"character(\(\d+\))?", target="VARCHAR", asked=_AS_TEXT, equality="text compared without trailing blanks"),
        # texts of a type in which each value has one spelling
        *(Way(of=of, target="VARCHAR", asked=_WRITTEN, by_itself=False, equality=equality) for of, equality in (
            ("smallint|integer|bigint", "whole numbers as text"), (r"numeric\(\d+,(\d+)\)", r"numbers with \1 digits"),
            ("uuid", "UUIDs"), ("bytea", "bytes"), ("enum (.*)", r"values of \1"))),
        Way(of="boolean", target="VARCHAR", asked=_AS_TEXT, by_itself=False, equality="true or false as text"),
        Way(of='inet|cidr|xml|"char"|bpchar', target="VARCHAR", asked=_AS_TEXT, by_itself=False),
        Way(of=".*", target="VARCHAR", asked=_WRITTEN, by_itself=False)),
    listed=f"SELECT n.nspname::text, c.relname::text, a.attname::text, {_POSTGRES_TYPE}, a.attnotnull FROM {_POSTGRES_FROM} "
           "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\\_%' "
           "AND n.nspname <> 'information_schema' ORDER BY n.nspname, c.relname, a.attnum",
    keys=f"SELECT n.nspname::text, c.relname::text, k.contype::text, {_POSTGRES_LIST.format('k.conkey', 'k.conrelid')}, "
         f"m.nspname::text, f.relname::text, {_POSTGRES_LIST.format('k.confkey', 'k.confrelid')} FROM pg_constraint k "
         "JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_class f "
         "ON f.oid = k.confrelid LEFT JOIN pg_namespace m ON m.oid = f.relnamespace WHERE k.contype IN ('p', 'u', 'f') "
         "AND k.conparentid = 0 ORDER BY k.contype = 'f', k.contype = 'u', k.oid")


# -- SQLite, in which any cell may hold a value of any type


def _sqlite_options(uri: str, password: str | None) -> Mapping[str, str]:
    return {"uri": f"file:{quote(str(file_of(uri)))}?mode=ro"}


def _sqlite_columns(relation: tuple[str, ...]) -> str:
    return ("SELECT p.name, p.type, m.type = 'view' OR m.sql LIKE 'CREATE VIRTUAL%', m.name FROM sqlite_master AS m, "
            "pragma_table_xinfo(m.name) AS p "
            f"WHERE m.type IN ('table', 'view') AND m.name = {_string(relation[-1])} COLLATE NOCASE AND p.hidden <> 1 "
            "ORDER BY p.cid")


_TEXT = "CASE WHEN typeof({0}) <> 'blob' THEN CAST(CAST({0} AS TEXT) AS BLOB) END"  # in the encoding of the database
_REAL = "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END"
_DECODED = "TRY(decode({0}))"  # a text may hold what is not UTF-8, and is NULL then
_CELLS = {  # by the type of DuckDB: what is asked for, a sample of it, and what is made of it
    "BIGINT": ("CASE WHEN typeof({0}) = 'integer' THEN {0} END", "0", ""),
    "BOOLEAN": ("CASE WHEN typeof({0}) = 'integer' AND {0} IN (0, 1) THEN {0} END", "0", ""),
    "DOUBLE": (_REAL, "0.0", ""), "VARCHAR": (_TEXT, "x''", _DECODED), "DATE": (_TEXT, "x''", f"TRY_CAST({_DECODED} AS DATE)"),
    "TIMESTAMP": (_TEXT, "x''", f"TRY_CAST({_DECODED} AS TIMESTAMP)"),
}


_EQUALITY = {"BIGINT": WHOLE, "BOOLEAN": TRUTH, "VARCHAR": TEXT}
_TEXTS = "(?!.*INT).*(?:CHAR|TEXT|CLOB).*"  # columns that keep whatever they are given as text, or as bytes, which are NULL here


def _cells(of: str, target: str, *, by_itself: bool = True) -> Way:
    """Cells of other types are NULL, so those that are left are of one. Where texts are not all kept as such, a column may hold
    the same one as a number too, and take `1.0` for it."""
    asked, sample, made = _CELLS.get(target, _CELLS["DOUBLE"])
    equality = "" if target == "VARCHAR" and of != _TEXTS else _EQUALITY.get(target, "")
    return Way(of=of, target=target, asked=asked, sample=sample, made=made, by_itself=by_itself, equality=equality)


_TABLES = "m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"

SQLITE = Dialect(
    module="adbc_driver_sqlite", package="adbc-driver-sqlite", extra="databases", options=_sqlite_options, filters="sqlite",
    columns=_sqlite_columns, unlike=sqlite_catalog.unlike, reads=sqlite_catalog.reads,
    canonical="{0}_key TEXT AS (lower(rtrim({0})))", begin=("BEGIN",),
    unfit="SELECT 'it has its texts in ' || encoding FROM pragma_encoding WHERE encoding <> 'UTF-8'",
    ways=(
        _cells("BOOL.*", "BOOLEAN"), _cells(".*INT.*", "BIGINT"), _cells(_TEXTS, "VARCHAR"),
        _cells(".*REAL.*|.*DOUB.*|.*FLOA.*", "DOUBLE"),
        _cells(r"(?:DECIMAL|NUMERIC) ?\((\d|1[0-5]), ?(\d+)\)", r"DECIMAL(\1,\2)"),
        _cells("DATE", "DATE"), _cells("DATETIME|TIMESTAMP", "TIMESTAMP"),
        *(_cells(".*", target, by_itself=False) for target in _CELLS)),
    listed="SELECT '', m.name, p.name, p.type, p.\"notnull\" OR p.pk > 0 FROM sqlite_master AS m, "
           f"pragma_table_xinfo(m.name) AS p WHERE {_TABLES} AND p.hidden <> 1 ORDER BY m.name, p.cid",
    keys="SELECT '', m.name, 'p', json_group_array(p.name), '', '', '[]' FROM sqlite_master AS m, "
         f"pragma_table_info(m.name) AS p WHERE {_TABLES} AND p.pk > 0 GROUP BY m.name "
         "UNION ALL SELECT '', m.name, 'f', json_group_array(f.\"from\"), '', f.\"table\", json_group_array(f.\"to\") "
         f"FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f WHERE {_TABLES} GROUP BY m.name, f.id, f.\"table\"")


# -- Snowflake and BigQuery, by their manuals


def _snowflake_options(uri: str, password: str | None) -> Mapping[str, str]:
    given = {} if password is None else {"password": password}
    return {"uri": uri.partition("://")[2], **given}


def _snowflake_columns(relation: tuple[str, ...]) -> str:
    *inside, name = (_string(part.replace("\\", "\\\\")) for part in relation)
    schema = f"IN ({inside[-1]}, UPPER({inside[-1]}))" if inside else "= CURRENT_SCHEMA()"
    return ("SELECT c.column_name, CASE c.data_type WHEN 'NUMBER' THEN 'NUMBER(' || c.numeric_precision || ',' || "
            "c.numeric_scale || ')' ELSE c.data_type END, t.table_type <> 'BASE TABLE' OR t.is_dynamic = 'YES', "
            "c.table_schema, c.table_name FROM "
            "information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema "
            f"AND t.table_name = c.table_name WHERE c.table_schema {schema} AND c.table_name IN ({name}, UPPER({name})) "
            "ORDER BY c.ordinal_position")


def _snowflake_unlike(rows: Rows, name: tuple[str, ...]) -> Mapping[str, str]:
    schema, table = (_string(part.replace("\\", "\\\\")) for part in name)
    return _collated(rows("SELECT c.column_name, c.collation_name FROM information_schema.columns AS c "
                          f"WHERE c.table_schema = {schema} AND c.table_name = {table}"))


def _collated(found: Iterable[tuple[Any, ...]]) -> Mapping[str, str]:
    return {column: f"its collation {name} treats different texts as equal" for column, name in found if name}


_SNOWFLAKE_UTC = "CAST(CONVERT_TIMEZONE('UTC', {0}) AS TIMESTAMP_NTZ)"

SNOWFLAKE = Dialect(
    module="adbc_driver_snowflake", package="adbc-driver-snowflake", extra="snowflake", options=_snowflake_options,
    filters="snowflake", columns=_snowflake_columns, unlike=_snowflake_unlike,
    canonical="{0}_key TEXT that is filled with LOWER({0})",
    moment="SELECT TO_CHAR(CURRENT_TIMESTAMP(), 'YYYY-MM-DD HH24:MI:SS.FF6 TZHTZM')",
    at=" AT (TIMESTAMP => CAST('{0}' AS TIMESTAMP_LTZ))",
    ways=(
        Way(of=r"NUMBER\((\d|1[0-8]),0\)", target="BIGINT", equality=WHOLE),
        Way(of=r"NUMBER\((\d+),(\d+)\)", target=r"DECIMAL(\1,\2)", asked="CAST({0} AS VARCHAR)"),
        Way(of="NUMBER.*", target="DOUBLE", asked="CAST({0} AS VARCHAR)", by_itself=False),
        Way(of="NUMBER.*", target="BIGINT", asked="CAST({0} AS VARCHAR)", made=WHOLE_TEXT, by_itself=False, equality=WHOLE),
        Way(of="FLOAT", target="DOUBLE"), Way(of="BOOLEAN", target="BOOLEAN", equality=TRUTH),
        Way(of="TEXT", target="VARCHAR", equality=TEXT), Way(of="DATE", target="DATE", equality=DAY),
        Way(of="TIMESTAMP_NTZ", target="TIMESTAMP"),  # of nanoseconds there
        Way(of="TIMESTAMP_(LTZ|TZ)", target="TIMESTAMP", asked=_SNOWFLAKE_UTC),
        Way(of=".*", target="VARCHAR", asked="CAST({0} AS VARCHAR)", by_itself=False)))


def _bigquery_options(uri: str, password: str | None) -> Mapping[str, str]:
    """The variable for the password holds the path of a file with the key of a service account."""
    parts = urlsplit(uri)
    given = {"adbc.bigquery.sql.project_id": parts.netloc, "adbc.bigquery.sql.dataset_id": parts.path.strip("/"),
             **dict(parse_qsl(parts.query))}
    if password is not None:
        given |= {"adbc.bigquery.sql.auth_type": "adbc.bigquery.sql.auth_type.json_credential_file",
                  "adbc.bigquery.sql.auth_credentials": password}
    return given


def _bigquery_columns(relation: tuple[str, ...]) -> str:
    inside = "".join(f"{BIGQUERY.quoted(part)}." for part in relation[:-1])
    name = relation[-1].replace("\\", "\\\\").replace("'", "\\'")
    return (f"SELECT c.column_name, c.data_type, t.table_type NOT IN ('BASE TABLE', 'CLONE', 'SNAPSHOT'), c.table_catalog, "
            f"c.table_schema, c.table_name FROM {inside}INFORMATION_SCHEMA.COLUMNS AS c "
            f"JOIN {inside}INFORMATION_SCHEMA.TABLES AS t ON t.table_name = c.table_name "
            f"WHERE c.table_name = '{name}' ORDER BY c.ordinal_position")


def _bigquery_unlike(rows: Rows, name: tuple[str, ...]) -> Mapping[str, str]:
    *inside, table = name
    text = table.replace("\\", "\\\\").replace("'", "\\'")
    return _collated(rows("SELECT c.column_name, c.collation_name FROM "
                          f"{BIGQUERY.quoted(*inside)}.INFORMATION_SCHEMA.COLUMNS AS c WHERE c.table_name = '{text}'"))


BIGQUERY = Dialect(
    module="adbc_driver_bigquery", package="adbc-driver-bigquery", extra="bigquery", options=_bigquery_options,
    filters="bigquery", columns=_bigquery_columns, unlike=_bigquery_unlike,
    canonical="{0}_key STRING that is filled with LOWER({0})", mark="`",
    moment="SELECT FORMAT_TIMESTAMP('%F %H:%M:%E6S+00', CURRENT_TIMESTAMP())", at=" FOR SYSTEM_TIME AS OF TIMESTAMP '{0}'",
    ways=(
        Way(of="INT64", target="BIGINT", equality=WHOLE), Way(of="FLOAT64", target="DOUBLE"),
        Way(of="BOOL", target="BOOLEAN", equality=TRUTH),
        Way(of=r"NUMERIC", target="DECIMAL(38,9)", asked="CAST({0} AS STRING)"),
        Way(of=r"(?:BIG)?NUMERIC\((\d+), ?(\d+)\)", target=r"DECIMAL(\1,\2)", asked="CAST({0} AS STRING)"),
        Way(of="(BIG)?NUMERIC.*", target="DOUBLE", asked="CAST({0} AS STRING)", by_itself=False),
        Way(of="(BIG)?NUMERIC.*", target="BIGINT", asked="CAST({0} AS STRING)", made=WHOLE_TEXT, by_itself=False, equality=WHOLE),
        Way(of=r"STRING(\(\d+\))?", target="VARCHAR", equality=TEXT), Way(of="DATE", target="DATE", equality=DAY),
        Way(of="DATETIME", target="TIMESTAMP", equality=MOMENT),
        Way(of="TIMESTAMP", target="TIMESTAMP", asked="DATETIME({0}, 'UTC')", equality=ZONED),
        Way(of=".*", target="VARCHAR", asked="CAST({0} AS STRING)", by_itself=False)))

DIALECTS: Mapping[str, Dialect] = {
    "postgresql": POSTGRES, "postgres": POSTGRES, "sqlite": SQLITE, "snowflake": SNOWFLAKE, "bigquery": BIGQUERY}
"""How the URI of a database begins, and what is known of its kind."""
