"""Lists as PostgreSQL writes its arrays; checked by hand against PostgreSQL 15's own array_out and array_send."""

from __future__ import annotations

import pytest

from dpsql.server.lists_on_wire import LIST_OIDS, list_binary, list_text


@pytest.mark.parametrize(("values", "text"), [
    ([], "{}"), (["a", "b c", None, "", "null", 'x"y', "a\\b", "{", ","], '{a,"b c",NULL,"","null","x\\"y","a\\\\b","{",","}'), ([1, -2, None], "{1,-2,NULL}"),
])
def test_lists_are_texts(values: list[object], text: str) -> None:
    assert list_text("VARCHAR[]")(values) == text


def test_an_int2vector_is_another_text() -> None:
    assert [list_text("INT2VECTOR")(values) for values in ([3, 1], [2], [])] == ["3 1", "2", ""]


@pytest.mark.parametrize(("kind", "values", "sent"), [
    ("BIGINT[]", [1, None], "0000000100000001000000140000000200000001000000080000000000000001ffffffff"),
    ("VARCHAR[]", ["ab"], "0000000100000000000000190000000100000001000000026162"), ("BIGINT[]", [], "000000000000000000000014"),
    ("INT2VECTOR", [1, 2], "0000000100000000000000150000000200000000000000020001000000020002"),
])
def test_lists_are_bytes(kind: str, values: list[object], sent: str) -> None:
    assert kind in LIST_OIDS and list_binary(kind)(values).hex() == sent
