"""Values as text and in binary, both ways; and against what a real PostgreSQL client makes of them, in `test_clients`."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.terms.lists_on_wire import LIST_OIDS
from dpsql.server.front.terms.types_on_wire import BINARY, OIDS, TEXT, kinds_given, read, written

TIMES_BEYOND = ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC", "5874897-12-31", "4713-01-01 BC"]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1), "HUGEINT": st.integers(-(2**127) + 1, 2**127 - 1), "DOUBLE": st.floats(),
    "BOOLEAN": st.booleans(), "VARCHAR": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    "DATE": st.dates() | st.sampled_from(TIMES_BEYOND),
    "TIMESTAMP": st.datetimes() | st.sampled_from(["infinity", "-infinity", "10000-01-01 00:00:00", "0044-03-15 01:02:03.5 BC",
                                                   "294276-12-31 23:59:59.999999"]),
}


@pytest.mark.parametrize("form", [TEXT, BINARY])
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_comes_back(kind: str, form: int) -> None:
    @given(VALUES[kind])
    def check(value: Any) -> None:
        found = read(written(value, kind, form), form, OIDS[kind], kind, 1)
        assert (isinstance(found, float) and math.isnan(found)) if isinstance(value, float) and math.isnan(value) else (
            found == value and type(found) is type(value))

    check()


@pytest.mark.parametrize("kind", VALUES)
def test_null_is_null(kind: str) -> None:
    assert written(None, kind, TEXT) is written(None, kind, BINARY) is read(None, BINARY, OIDS[kind], kind, 1) is None


@pytest.mark.parametrize(("kind", "value", "text", "binary"), [
    ("BIGINT", -5, b"-5", "fffffffffffffffb"), ("DOUBLE", 3.0, b"3", "4008000000000000"), ("DOUBLE", math.inf, b"Infinity", "7ff0000000000000"),
    ("DOUBLE", -math.inf, b"-Infinity", "fff0000000000000"), ("DOUBLE", 1e300, b"1e+300", "7e37e43c8800759c"), ("BOOLEAN", True, b"t", "01"),
    ("HUGEINT", -123450000, b"-123450000", "0002000240000000" "0001" "0929"), ("HUGEINT", 0, b"0", "0000000000000000"),
    ("DATE", dt.date(1999, 12, 31), b"1999-12-31", "ffffffff"), ("DATE", "infinity", b"infinity", "7fffffff"),
    ("DATE", "4713-01-01 BC", b"4713-01-01 BC", f"{(-2451507) & 0xFFFFFFFF:08x}"),
    ("TIMESTAMP", dt.datetime(2000, 1, 1, 0, 0, 1), b"2000-01-01 00:00:01", "00000000000f4240"),
    ("TIMESTAMP", dt.datetime(1, 1, 1), b"0001-01-01 00:00:00", "ff1fe2ffc59c6000"), ("VARCHAR", "ä", b"\xc3\xa4", "c3a4"),
])
def test_values_are_written_as_by_postgresql(kind: str, value: object, text: bytes, binary: str) -> None:
    assert written(value, kind, TEXT) == text and written(value, kind, BINARY).hex() == binary  # type: ignore[union-attr]


@pytest.mark.parametrize(("value", "form", "oid", "kind", "found"), [
    (b" 7 ", TEXT, 23, "BIGINT", 7), (b"\0\7", BINARY, 21, "BIGINT", 7), (b"\0\0\0\7", BINARY, 23, "DOUBLE", 7.0),
    (struct.pack("!f", 0.5), BINARY, 700, "DOUBLE", 0.5), (b"12.50", TEXT, 1700, "DOUBLE", 12.5), (b"12.0", TEXT, 1700, "BIGINT", 12),
    (bytes.fromhex("0002000000000001" "000c" "1388"), BINARY, 1700, "DOUBLE", 12.5), (b"yes", TEXT, 16, "BOOLEAN", True),
    (b"x", TEXT, 705, "VARCHAR", "x"), (b"5", TEXT, 0, "BIGINT", 5), (b"2024-02-29 +01", TEXT, 0, "DATE", dt.date(2024, 2, 29)),
    (b"2024-02-29T01:02:03.5+00:00", TEXT, 1114, "TIMESTAMP", dt.datetime(2024, 2, 29, 1, 2, 3, 500000)),
    (b"2024-02-29", TEXT, 1082, "TIMESTAMP", dt.datetime(2024, 2, 29)), (b"2024-02-29 10:00", TEXT, 1114, "DATE", dt.date(2024, 2, 29)),
    (b"nan", TEXT, 701, "DOUBLE", None), (b"9007199254740993", TEXT, 1700, "NUMERIC", 2**53 + 1), (b"12.50", TEXT, 1700, "NUMERIC", 12.5),
    (b"30.00", TEXT, 1700, "NUMERIC", 30), (b"9223372036854775808", TEXT, 1700, "NUMERIC", 2.0**63), (b"-inf", TEXT, 1700, "NUMERIC", -math.inf),
    (b"12", TEXT, 1043, "VARCHAR", "12"), (b"12", TEXT, 23, "VARCHAR", "12"),
    (b'{a,NULL,"b c"}', TEXT, 1009, "VARCHAR[]", ("a", None, "b c")), (b"{1,2}", TEXT, 1005, "BIGINT[]", (1, 2)), (b"{}", TEXT, 0, "DATE[]", ()),
    (b"{1.5,2}", TEXT, 1231, "NUMERIC[]", (1.5, 2)), (b"{t,f}", TEXT, 1000, "BOOLEAN[]", (True, False)),
    (b"{2024-02-29}", TEXT, 0, "DATE[]", (dt.date(2024, 2, 29),)), (struct.pack("!iiIiiih", 1, 0, 21, 1, 1, 2, 7), BINARY, 1005, "BIGINT[]", (7,)),
    (struct.pack("!iiIiiiiq", 1, 1, 20, 2, 1, -1, 8, 5), BINARY, 1016, "BIGINT[]", (None, 5)),
])
def test_parameters_are_read_by_the_types_of_clients(value: bytes, form: int, oid: int, kind: str, found: object) -> None:
    made = read(value, form, oid, kind, 1)
    assert made == found and type(made) is type(found) if found is not None else made != made


@pytest.mark.parametrize(("value", "form", "oid", "kind", "state"), [
    (b"", TEXT, 20, "BIGINT", "22P02"), (b"1_0", TEXT, 20, "BIGINT", "22P02"), ("٣".encode(), TEXT, 20, "BIGINT", "22P02"),
    (b"9" * 5000, TEXT, 20, "BIGINT", "22P02"), (b"9223372036854775808", TEXT, 20, "BIGINT", "22003"),
    (b"1.5", TEXT, 1700, "BIGINT", "22003"), (b"1e999999", TEXT, 1700, "BIGINT", "22003"), (b"1e400", TEXT, 1700, "DOUBLE", None),
    (b"nan", TEXT, 1700, "BIGINT", "22003"), (b"1e9999999", TEXT, 1700, "BIGINT", "22P02"), (b"1e5x", TEXT, 701, "DOUBLE", "22P02"),
    (b"\0", BINARY, 20, "BIGINT", "08P01"), (bytes(9), BINARY, 20, "BIGINT", "22P03"), (b"\2", BINARY, 16, "BOOLEAN", "22P03"), (b"\xff", TEXT, 25, "VARCHAR", "22P02"),
    (b"\xff", BINARY, 25, "VARCHAR", "22P03"), (b"a\0", BINARY, 25, "VARCHAR", "22P03"), (b"2024-02-30", TEXT, 1082, "DATE", "22008"),
    (b"2024-13-01", TEXT, 1082, "DATE", "22008"), (b"0000-01-01", TEXT, 1082, "DATE", "22008"), (b"tomorrow", TEXT, 1082, "DATE", "22007"),
    (b"9999999-01-01", TEXT, 1082, "DATE", "22008"), (b"2024-01-01 24:00:00", TEXT, 1114, "TIMESTAMP", "22008"),
    (struct.pack("!i", 2**31 - 2), BINARY, 1082, "DATE", "22008"), (struct.pack("!q", 2**63 - 2), BINARY, 1114, "TIMESTAMP", "22008"),
    (bytes.fromhex("0001000000000000"), BINARY, 1700, "DOUBLE", "22P03"), (bytes.fromhex("00010000000000002711"), BINARY, 1700, "DOUBLE", "22P03"),
    (bytes.fromhex("0000000012340000"), BINARY, 1700, "DOUBLE", "22P03"), (b"t", TEXT, 16, "BIGINT", "22003"), (b"1", TEXT, 23, "DATE", "42804"),
    (b"x", TEXT, 25, "BOOLEAN", "42804"),
    (b"1,2", TEXT, 1016, "BIGINT[]", "22P02"), (b"{1,x}", TEXT, 1016, "BIGINT[]", "22P02"), (b"{{1}}", TEXT, 1016, "BIGINT[]", "22P02"),
    (b"\0\0", BINARY, 1016, "BIGINT[]", "22P03"), (b"{a}", TEXT, 25, "VARCHAR[]", "42804"), (b"{99999999999999999999}", TEXT, 1016, "BIGINT[]", "22003"),
])
def test_values_that_are_none_are_errors(value: bytes, form: int, oid: int, kind: str, state: str | None) -> None:
    if state is None:
        assert read(value, form, oid, kind, 1) == math.inf
        return
    with pytest.raises(RefusedOnWire) as fault:
        read(value, form, oid, kind, 3)
    assert fault.value.sqlstate == state


def test_types_that_are_unknown_are_refused() -> None:
    assert kinds_given([0, 20, 1043, 705, 1700, 1009]) == [None, "BIGINT", "VARCHAR", None, "NUMERIC", "VARCHAR[]"]
    with pytest.raises(RefusedOnWire) as fault:
        kinds_given([20, 1266])
    assert fault.value.sqlstate == "0A000" and "$2" in fault.value.message


@pytest.mark.parametrize(("kind", "value"), [("BIGINT", 1.5), ("BIGINT", True), ("BIGINT", 2**63), ("BOOLEAN", 1), ("DATE", "soon")])
def test_what_is_not_of_the_kind_is_no_answer(kind: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError, Exception)):
        written(value, kind, BINARY)


def test_bytes_at_random_are_values_or_errors() -> None:
    drawn, kinds = random.Random(7), [kind for kind in OIDS if kind not in LIST_OIDS]  # no parameter is a list
    for _ in range(20_000):
        kind, oid = drawn.choice(kinds), drawn.choice([0, 16, 20, 21, 23, 25, 700, 701, 705, 1043, 1082, 1114, 1700])
        size, form = drawn.choice([1, 2, 4, 8, 8, 10, 12, drawn.randrange(40)]), drawn.choice([TEXT, BINARY])
        value = drawn.randbytes(size) if form or drawn.random() < 0.3 else bytes(drawn.choices(b"0123456789-+:. eEBCTZ", k=size))
        try:
            found = read(value, form, oid, kind, 1)
        except RefusedOnWire as fault:
            assert fault.sqlstate in ("08P01", "22P02", "22P03", "22003", "22007", "22008", "42804")
        else:
            for shape in () if kind == "INTERVAL" else (TEXT, BINARY):  # no column of an answer is an interval
                again = read(written(found, kind, shape), shape, OIDS[kind], kind, 1)
                assert again == found or again != again
