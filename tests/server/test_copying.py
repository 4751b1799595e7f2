"""COPY (query) TO STDOUT: every byte as PostgreSQL's, the answer and the price as those of the query alone."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support import postgres, worlds
from support.seats import COLUMNS
from support.wire_servers import Raw, Running, fields, kinds, packet, query, running

import dpsql
from dpsql.server.front.statements.copy_statements import CopyStatement, read_copy
from dpsql.server.front.statements.seat import ConnectionSeat
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Outcome, RefusedOnWire
from dpsql.server.front.terms.copied_rows import CopyForm, copied

SYNC = packet(b"S", b"")


def copy(text: str) -> CopyStatement:
    found = read_copy(text)
    assert found is not None
    return found


def refusal(text: str) -> RefusedOnWire:
    with pytest.raises(RefusedOnWire) as told:
        read_copy(text)
    return told.value


# -- reading

@pytest.mark.parametrize(("rest", "form"), [
    ("", CopyForm()), (";", CopyForm()),
    (" CSV", CopyForm(kind="csv", delimiter=",", null="")),
    (" with csv header", CopyForm(kind="csv", delimiter=",", null="", header=True)),
    (" (FORMAT csv, HEADER)", CopyForm(kind="csv", delimiter=",", null="", header=True)),
    (" WITH (format 'CSV', header false, delimiter E'\\t', null 'NA', quote '''')", CopyForm(kind="csv", null="NA", quote="'", escape="'")),
    (" DELIMITER AS ';' NULL AS '' CSV QUOTE AS '%' ESCAPE '/' FORCE QUOTE n, m", CopyForm(
        kind="csv", delimiter=";", null="", quote="%", escape="/", quoted=frozenset("nm"))),
    (" (FORMAT CSV, FORCE_QUOTE (n, \"M x\"), ENCODING 'utf-8', FREEZE off)", CopyForm(
        kind="csv", delimiter=",", null="", quoted=frozenset({"n", "m x"}))),
    (" (FORMAT CSV, FORCE_QUOTE *)", CopyForm(kind="csv", delimiter=",", null="", quoted=None)),
    (" (FORMAT \"binary\")", CopyForm(kind="binary")), (" BINARY", CopyForm(kind="binary")), (" (FORMAT text, HEADER 1)", CopyForm(header=True))])
def test_all_forms_are_read(rest: str, form: CopyForm) -> None:
    assert copy(f"-- of a tool\nCOPY (SELECT ')' AS n) TO STDOUT{rest}") == CopyStatement(query="SELECT ')' AS n", start=19, form=form)


@pytest.mark.parametrize(("text", "state", "at"), [
    ("COPY", "42601", 5), ("COPY (", "42601", 6), ("COPY () TO STDOUT", "42601", 7), ("COPY (SELECT 1", "42601", 6), ("COPY t", "42601", 7),
    ("COPY (SELECT 'x) TO STDOUT", "42601", 14), ("COPY (DELETE FROM t) TO STDOUT", "42601", 7), ("COPY (SET epsilon = 1) TO STDOUT", "42601", 7),
    ("COPY 't' TO STDOUT", "42601", 6), ("COPY t() TO STDOUT", "42601", 8), ("COPY t(a TO STDOUT", "42601", 10),
    ("COPY t FROM STDIN", "0A000", 8), ("COPY t (a) FROM 'file' CSV", "0A000", 12), ("COPY t TO '/tmp/x'", "42501", 11),
    ("COPY t TO PROGRAM 'sh'", "42501", 11), ("COPY t TO STDOUT (", "42601", 19), ("COPY t TO STDOUT (FORMAT)", "42601", 25),
    ("COPY t TO STDOUT (FORMAT csv", "42601", 29), ("COPY t TO STDOUT (FORMAT csv) x", "42601", 31), ("COPY t TO STDOUT x", "42601", 18),
    ("COPY t TO STDOUT (NULL 3)", "42601", 24), ("COPY t TO STDOUT (HEADER maybe)", "42601", 26), ("COPY t TO STDOUT (HEADER match)", "0A000", 26),
    ("COPY t TO STDOUT CSV CSV", "42601", 22), ("COPY t TO STDOUT (FORMAT csv, FORMAT csv)", "42601", 38), ("COPY t TO STDOUT (FORMAT xml)", "22023", None),
    ("COPY t TO STDOUT (FORCE_NULL (a))", "42601", 19), ("COPY t TO STDOUT QUOTE 'x'", "0A000", None), ("COPY t TO STDOUT (FORMAT binary, HEADER)", "0A000", None),
    ("COPY t TO STDOUT BINARY DELIMITER ','", "0A000", None), ("COPY t TO STDOUT (ENCODING 'latin1')", "0A000", None),
    ("COPY t TO STDOUT DELIMITER 'ab'", "0A000", None), ("COPY t TO STDOUT DELIMITER 'ä'", "0A000", None), ("COPY t TO STDOUT DELIMITER 'a'", "22023", None),
    ("COPY t TO STDOUT DELIMITER E'\\n'", "22023", None), ("COPY t TO STDOUT NULL E'a\\nb'", "22023", None), ("COPY t TO STDOUT NULL E'a\\tb'", "0A000", None),
    ("COPY t TO STDOUT CSV DELIMITER '\"'", "22023", None), ("COPY t TO STDOUT CSV NULL '\"'", "0A000", None)])
def test_what_is_wrong_with_copy_is_told(text: str, state: str, at: int | None) -> None:
    told = refusal(text)
    assert (told.sqlstate, told.position) == (state, at), told


@pytest.mark.parametrize("text", ["SELECT 1", "copyright", "-- COPY t TO STDOUT", "/* /* */ COPY t TO STDOUT */ SELECT 1", ""])
def test_other_statements_are_none_of_copy(text: str) -> None:
    assert read_copy(text) is None


def test_a_table_is_copied_as_select_shows_it() -> None:
    found = copy("COPY public.\"My t\" (a, \"B b\") TO STDOUT")
    assert found == CopyStatement(query='SELECT a, "B b" FROM public."My t"', start=5, form=CopyForm(), of_table=True)
    assert copy("copy t to stdout").query == "SELECT * FROM t"


def test_a_wrong_parenthesis_is_left_to_the_query() -> None:
    assert copy("COPY (SELECT COUNT(* FROM t) TO STDOUT").query == "SELECT COUNT(* FROM t"
    assert copy("COPY (SELECT 1) FROM t) TO STDOUT").query == "SELECT 1) FROM t"


# -- queries that DuckDB wraps

def test_what_duckdb_wraps_is_asked_alone() -> None:
    found = copy('COPY (SELECT "n", "A b" FROM (SELECT 1 AS n, (2) AS "A b") AS __unnamed_subquery  LIMIT 7) TO STDOUT (FORMAT "binary");')
    assert found == CopyStatement(query='SELECT 1 AS n, (2) AS "A b"', start=30, form=CopyForm(kind="binary"), picked=("n", "A b"), most=7)


@pytest.mark.parametrize("query", [
    'SELECT "n" FROM (SELECT 1 AS n) AS other', 'SELECT "n" FROM (SELECT 1 AS n) AS __unnamed_subquery WHERE "n" > 1', 'SELECT "n" + 1 FROM (SELECT 1 AS n) AS __unnamed_subquery',
    'SELECT "n" FROM (SELECT 1 AS n) AS a, (SELECT 2 AS m) AS __unnamed_subquery', "SELECT NULL FROM (SELECT 1 AS n) AS __unnamed_subquery",
    'SELECT "n" "m" FROM (SELECT 1 AS n) AS __unnamed_subquery', "FROM (SELECT 1) AS __unnamed_subquery", 'SELECT "n" FROM (SELECT 1) AS __unnamed_subquery LIMIT 1 OFFSET 2'])
def test_whatever_else_is_asked_of_it_is_asked_as_it_stands(query: str) -> None:
    assert copy(f"COPY ({query}) TO STDOUT") == CopyStatement(query=query, start=6, form=CopyForm())


# -- the bytes

OPTIONS = ["", "(HEADER)", "(DELIMITER ';', NULL 'NA')", "(DELIMITER E'\\x01')", "(DELIMITER '|', NULL '')", "CSV", "CSV HEADER", "CSV DELIMITER ';' NULL 'x'", "CSV QUOTE '''' ESCAPE '/'",
           "CSV FORCE QUOTE t, i", "(FORMAT csv, FORCE_QUOTE *, HEADER)", "(FORMAT binary)"]
TEXTS = ["", "a", "NA", "x", "\\N", "\\.", "a,b;c|d", 'a"b', "a'b/c", "two\nlines\r\n", "\ttab\b\f\v\x01\x7f", "back\\slash", "ä€😀", " blank ", "=1+1", None]


def values() -> list[tuple[object, ...]]:
    numbers = [0, -1, 2**63 - 1, -(2**63), None]
    huge = [10**38, -1, 0, 10_000, None]
    doubles = [0.1, -0.0, 1e300, 5e-324, None, float("nan"), float("inf"), 123456789.125, 1e15, 1e16, -1234567890123456.5, 9999999999999998.0, 999999999999999.9, 1e-4, 1e-5]
    days = [dt.date(2024, 2, 29), dt.date(1, 1, 1), None]
    moments = [dt.datetime(2024, 2, 29, 12, 30, 1, 250), dt.datetime(1969, 1, 1), None]
    pools = (numbers, huge, doubles, [True, False, None], TEXTS, days, moments)
    return [tuple(pool[i % len(pool)] for pool in pools) for i in range(len(TEXTS))]


def data(messages: Sequence[tuple[str, bytes]]) -> list[bytes]:
    return [body for kind, body in messages if kind == "d"]


def framed(sent: bytes) -> list[tuple[str, bytes]]:
    found = []
    while sent:
        length = struct.unpack("!I", sent[1:5])[0]
        found.append((chr(sent[0]), sent[5:length + 1]))
        sent = sent[length + 1:]
    return found


def test_every_byte_is_that_of_postgresql() -> None:
    psycopg = pytest.importorskip("psycopg")
    types = ("bigint", "numeric", "float8", "boolean", "text", "date", "timestamp")
    names = [name for name, _ in COLUMNS]
    declared = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    tables = {"t": (COLUMNS, values()), "alone": ((("t", "VARCHAR"),), [(text,) for text in TEXTS]), "empty": (COLUMNS, [])}
    with psycopg.connect(postgres.fresh().uri, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE t ({declared}); CREATE TABLE alone (t text); CREATE TABLE empty ({declared}); SET timezone = 'UTC'")
        for name, (columns, rows) in tables.items():
            if rows:
                connection.cursor().executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(columns))})", rows)
            for options in OPTIONS:
                asked = f"COPY (SELECT * FROM {name}) TO STDOUT {options}".replace("t, i", "t") if name == "alone" else f"COPY (SELECT * FROM {name}) TO STDOUT {options}"
                with connection.cursor().copy(asked) as theirs:
                    wanted = [bytes(part) for part in theirs]
                found = framed(b"".join(copied([ColumnOnWire(name=column, kind=kind) for column, kind in columns], rows, copy(asked).form)))
                assert data(found) == wanted, asked
                code = int("binary" in options)
                assert (found[0], found[-1]) == (("H", struct.pack(f"!bH{len(columns)}H", code, len(columns), *[code] * len(columns))), ("c", b""))


# -- over the wire

@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("copying")) as found:
        yield found


@pytest.fixture
def raw(server: Running) -> Iterator[Raw]:
    with Raw(server.port) as found:
        assert found.login(database="study")[-1] == ("Z", b"I")
        yield found


def extended(text: str, *values: bytes, most: int = 0) -> bytes:
    """Parse, Bind, Describe, Execute and Sync."""
    bound = struct.pack("!H", len(values)) + b"".join(struct.pack("!i", len(value)) + value for value in values)
    return b"".join([packet(b"P", f"\0{text}\0".encode() + b"\0\0"), packet(b"B", b"\0\0\0\0" + bound + b"\0\0"), packet(b"D", b"P\0"),
                     packet(b"E", b"\0" + struct.pack("!I", most)), SYNC])


def test_copy_stands_among_other_statements(raw: Raw) -> None:
    raw.send(query("SELECT ROWS 1; COPY (SELECT NOTE) TO STDOUT; COPY (SELECT ROWS 2) TO STDOUT CSV HEADER; SELECT ROWS 1"))
    found = raw.until("Z")
    assert kinds(found) == "TDC" + "NHdcC" + "HdddcC" + "TDC" + "Z"
    assert data(found) == [b"noted\n", b"n\n", b"0\n", b"1\n"] and [body for kind, body in found if kind == "C"][1:3] == [b"COPY 1\0", b"COPY 2\0"]
    raw.send(query("COPY (SELECT ROWS 0) TO STDOUT BINARY"))
    found = raw.until("Z")
    assert kinds(found) == "HdcCZ" and data(found) == [b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"]


def test_copy_by_the_extended_protocol_takes_parameters_and_sends_all_rows(raw: Raw) -> None:
    raw.send(extended("COPY (SELECT ROWS 2500) TO STDOUT", most=10))
    found = raw.until("Z")
    assert kinds(found) == "12n" + "H" + "d" * 2500 + "c" + "CZ" and data(found)[-1] == b"2499\n" and found[-2][1] == b"COPY 2500\0"
    raw.send(extended("COPY (SELECT ECHO $1::BIGINT $2::VARCHAR) TO STDOUT", b"7", b"a\tb"))
    assert data(raw.until("Z")) == [b"7\ta\\tb\n"]


def test_errors_of_the_query_are_those_of_copy(raw: Raw) -> None:
    raw.send(query("SELECT ROWS 1; COPY  (\nSELECT FAIL) TO STDOUT"))
    told = fields(raw.until("Z")[-2][1])
    assert (told["C"], told["P"]) == ("42883", str(len("SELECT ROWS 1; COPY  (\n") + 2))
    raw.send(query("COPY (SELECT CRASH) TO STDOUT"), extended("COPY (SELECT BOGUS) TO STDOUT"), extended("COPY t FROM STDIN"), query("COPY (SELECT ROWS 1) TO STDOUT"))
    assert [fields(raw.until("Z")[-2][1]).get("C") for _ in range(3)] == ["XX000", "42601", "0A000"]
    assert data(raw.until("Z")) == [b"0\n"]


def test_a_failed_transaction_refuses_copy(raw: Raw) -> None:
    raw.send(query("BEGIN; SELECT FAIL"), query("COPY (SELECT ROWS 1) TO STDOUT"), query("ROLLBACK"))
    assert [fields(raw.until("Z")[-2][1]).get("C") for _ in range(2)] == ["42883", "25P02"]


# -- over data

@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return worlds.project(tmp_path_factory.mktemp("project"), people=60)


@pytest.fixture
def own(project: Path) -> Iterator[ConnectionSeat]:
    connection = dpsql.connect(project / "people.duckdb", budget="person", analyst="ada", epsilon=1, delta=1e-6)
    made = ConnectionSeat(connection, user="ada", database="study", startup={})
    yield made
    made.close()


def lines(outcome: Outcome) -> list[str]:
    assert outcome.copied is not None
    return [part.decode() for part in data(framed(b"".join(outcome.copied)))]


def test_the_answer_and_the_price_are_those_of_the_query(own: ConnectionSeat) -> None:
    seat, text = own, "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    before = str(own._connection.budget())
    assert seat.describe(f"COPY ({text}) TO STDOUT", ()) == Described(parameters=(), columns=None) and str(own._connection.budget()) == before
    first = seat.execute(f"COPY ({text}) TO STDOUT CSV HEADER", ())
    assert first.notices[0].text.startswith("cost: ε = 1") and first.tag == "COPY 3" and first.columns is None
    again = seat.execute(text, ())
    assert again.notices[0].text == "cost: nothing, as this was answered before" and first.notices[1:] == again.notices[1:]
    assert lines(first) == ["sex,n\n", *(f"{'' if sex is None else sex},{n}\n" for sex, n in again.rows)]
    wrapped = 'COPY (SELECT "n" FROM ({}) AS __unnamed_subquery LIMIT 2) TO STDOUT'
    picked = seat.execute(wrapped.format(text), ())
    assert picked.notices == again.notices and lines(picked) == [line.split(",")[1] for line in lines(seat.execute(f"COPY ({text}) TO STDOUT CSV", ()))[:2]]
    ends = seat.execute(wrapped.format(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true)")).replace('"n"', '"n_high", "sex"'), ())
    assert ends.notices[0] == again.notices[0] and len(lines(ends)[0].split("\t")) == 2


@pytest.mark.parametrize(("text", "state", "at"), [
    ("COPY people TO STDOUT", "0A000", "people"), ("COPY public.people (age) TO STDOUT", "0A000", "public"), ("COPY (SELECT * FROM people) TO STDOUT", "0A000", "*"),
    ("COPY (SELECT COUNT(*) FROM people WHERE nope = 3) TO STDOUT", "42703", "nope"), ("COPY (SELECT COUNT(* FROM people) TO STDOUT", "42601", "(*"),
    ("COPY (SELECT COUNT(*) AS n FROM people) TO STDOUT CSV FORCE QUOTE m", "42703", None), ("COPY nothing TO STDOUT", "42P01", "nothing"),
    ('COPY (SELECT "m" FROM (SELECT COUNT(*) AS n FROM people) AS __unnamed_subquery) TO STDOUT', "42703", None)])
def test_what_is_refused_is_refused_in_place_and_before_a_charge(text: str, state: str, at: str | None, own: ConnectionSeat) -> None:
    before = str(own._connection.budget())
    with pytest.raises(RefusedOnWire) as told:
        own.execute(text, ())
    assert (told.value.sqlstate, told.value.position) == (state, None if at is None else text.index(at) + 1), told.value
    assert str(own._connection.budget()) == before


def test_public_rows_listings_and_the_catalogue_are_copied(own: ConnectionSeat) -> None:
    seat = own
    assert lines(seat.execute("COPY clinics TO STDOUT CSV", ())) == [",".join("" if value is None else str(value) for value in row) + "\n" for row in seat.execute("SELECT * FROM clinics", ()).rows]
    assert "people\n" in lines(seat.execute("COPY (SELECT tablename FROM pg_tables) TO STDOUT", ()))
    assert lines(seat.execute("COPY (SHOW TABLES) TO STDOUT CSV HEADER", ()))[0].startswith("table,")
    assert lines(seat.execute("COPY pg_namespace (nspname) TO STDOUT", ()))[-1] == "public\n"
