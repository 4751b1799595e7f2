"""Lists as PostgreSQL writes its arrays; checked by hand against PostgreSQL 15's own array_out and array_send."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.terms.lists_on_wire import LIST_OIDS, in_binary
from dpsql.server.front.terms.types_on_wire import BINARY, TEXT, read, written
from dpsql.sql.text.array_texts import LongList, in_text


@pytest.mark.parametrize(("values", "text"), [
    ([], "{}"), (["a", "b c", None, "", "null", 'x"y', "a\\b", "{", ","], '{a,"b c",NULL,"","null","x\\"y","a\\\\b","{",","}'), ([1, -2, None], "{1,-2,NULL}"),
])
def test_lists_are_texts(values: list[object], text: str) -> None:
    assert written(values, "VARCHAR[]", TEXT) == text.encode()


def test_an_int2vector_is_another_text() -> None:
    assert [written(values, "INT2VECTOR", TEXT) for values in ([3, 1], [2], [])] == [b"3 1", b"2", b""]


@pytest.mark.parametrize(("kind", "values", "sent"), [
    ("BIGINT[]", [1, None], "0000000100000001000000140000000200000001000000080000000000000001ffffffff"),
    ("VARCHAR[]", ["ab"], "0000000100000000000000190000000100000001000000026162"), ("BIGINT[]", [], "000000000000000000000014"),
    ("BOOLEAN[]", [True, None], "0000000100000001000000100000000200000001000000010" "1ffffffff"),
    ("INT2VECTOR", [1, 2], "0000000100000000000000150000000200000000000000020001000000020002"),
])
def test_lists_are_bytes(kind: str, values: list[object], sent: str) -> None:
    assert kind in LIST_OIDS and (written(values, kind, BINARY) or b"").hex() == sent


TEXTS = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(TEXTS))
def test_texts_come_back(values: list[str | None]) -> None:
    assert in_text((written(values, "VARCHAR[]", TEXT) or b"").decode()) == values
    kind, found = in_binary(written(values, "VARCHAR[]", BINARY) or b"")
    assert kind == 25 and found == [None if value is None else value.encode() for value in values]


@pytest.mark.parametrize(("text", "values"), [
    (" { a b , \"c\" ,null } ", ["a b", "c", None]), ("{ }", []), ("{1,-2}", ["1", "-2"]), ('{""}', [""]), ('{a\\,b}', ["a,b"]),
    ("{a\\ }", ["a "]), ("{a\\\\ ,\\  }", ["a\\", " "]), ("{\u00a0a\u2003}", ["\u00a0a\u2003"]), ("{nu\\ll}", ["null"])])
def test_lists_are_read_as_by_postgresql(text: str, values: list[str | None]) -> None:
    assert in_text(text) == values


@pytest.mark.parametrize("text", ["", "a", "{", "}", "{a", "{a,}", "{,a}", "{a}}", "{{a},{b}}", '{"a}', '{a"b}', "[0:1]={a,b}", "{a}b", '{"a"b}', "{a b,,c}"])
def test_other_texts_are_no_lists(text: str) -> None:
    with pytest.raises(ValueError):
        in_text(text)


@pytest.mark.parametrize("value", [b"", b"\0" * 8, struct.pack("!iiI", 2, 0, 25) + bytes(16), struct.pack("!iiIii", 1, 0, 25, 1, 1), struct.pack("!iiIiii", 1, 0, 25, 1, 1, 5),
                                   struct.pack("!iiIiii", 1, 0, 25, 1, 1, -2), struct.pack("!iiIiii", 1, 0, 25, 2, 1, 0), struct.pack("!iiI", 0, 0, 25) + b"x",
                                   struct.pack("!iiIii", 1, 0, 25, 2**31 - 1, 1)])
def test_other_bytes_are_no_lists(value: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        in_binary(value)


@pytest.mark.parametrize("value", ["{a" + " " * 10**6 + "{", "{" + " " * 10**6 + "{", '{"' + "a" * 10**6, '{"a"' + " " * 10**6 + "x", "{" + "\\\\" * 10**6 + "{"])
def test_no_text_takes_longer_than_its_length(value: str) -> None:
    """Each of these would take hours if a part of it were looked through for each of its characters."""
    with pytest.raises(ValueError):
        in_text(value)


def test_a_list_has_few_elements() -> None:
    assert in_text("{" + "1," * 9_999 + "1}") == ["1"] * 10_000
    for made in (lambda: in_text("{" + "1," * 10_000 + "1}"), lambda: in_binary(written([1] * 10_001, "BIGINT[]", BINARY) or b""),
                 lambda: in_binary(struct.pack("!iiIii", 1, 0, 25, 10**9, 1))):
        with pytest.raises(LongList):
            made()
    with pytest.raises(RefusedOnWire) as fault:
        read(b"{" + b"1," * 10_000 + b"1}", TEXT, 1016, "BIGINT[]", 1)
    assert fault.value.sqlstate == "54000"
