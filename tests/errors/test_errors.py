"""Errors: the tree of PEP 249, the caret under the text, and errors as data."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import random

import pytest

from dpsql import errors
from dpsql.errors import Error, Incident, LedgerError, SqlError, Unsupported
from dpsql.types import Span

PEP_249 = {
    "InterfaceError": "Error", "DatabaseError": "Error", "DataError": "DatabaseError", "OperationalError": "DatabaseError",
    "IntegrityError": "DatabaseError", "InternalError": "DatabaseError", "ProgrammingError": "DatabaseError",
    "NotSupportedError": "DatabaseError", "Error": "Exception", "Warning": "Exception"}
OURS = {"SqlError": "ProgrammingError", "PolicyError": "ProgrammingError", "OptionError": "ProgrammingError",
        "Unsupported": "NotSupportedError", "BudgetExhausted": "OperationalError", "LedgerError": "OperationalError",
        "Incident": "InternalError", "Interrupted": "Incident", "SourceChanged": "Incident"}


def every() -> dict[str, type[Exception]]:
    return {name: found for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, Exception)}


# -- the tree


@pytest.mark.parametrize("name, parent", [*PEP_249.items(), *OURS.items()])
def test_each_class_hangs_where_it_should(name: str, parent: str) -> None:
    (base,) = getattr(errors, name).__bases__
    assert base.__name__ == parent


def test_there_are_no_other_classes() -> None:
    assert set(every()) == set(PEP_249) | set(OURS)


def test_a_warning_is_not_an_error() -> None:
    assert not issubclass(errors.Warning, Error)


def test_every_class_has_a_code_and_says_what_it_is_for() -> None:
    for found in every().values():
        assert found.__doc__
        if issubclass(found, Error):
            assert found.code and found.code == found.code.lower()
    codes = [vars(found)["code"] for found in every().values() if "code" in vars(found)]
    assert len(set(codes)) == len(codes)


def test_a_code_of_ones_own_does_not_change_the_class() -> None:
    assert LedgerError("x", code="ledger-missing").code == "ledger-missing"
    assert LedgerError("x").code == LedgerError.code == "ledger"


# -- what is shown


def shown(text: str, at: str, *, nth: int = 0, **settings: str) -> str:
    """The error about a stretch of a text, with the marks stripped."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(at, start + 1)
    return str(SqlError("wrong", span=Span(start, start + len(at)), text=text, **settings))


def test_without_a_place_the_reason_stands_alone() -> None:
    assert str(Unsupported("no")) == "Unsupported: no"
    assert str(Unsupported("no", try_="yes")) == "Unsupported: no\n    try yes"
    assert str(Unsupported("no", span=Span(0, 1))) == "Unsupported: no"
    assert str(Unsupported("no", text="SELECT")) == "Unsupported: no"


def test_the_caret_stands_under_the_place() -> None:
    assert shown("SELECT agee FROM people", "agee", try_="age") == (
        "SqlError at line 1, column 8: wrong\n"
        "    SELECT agee FROM people\n"
        "           ^^^^\n"
        "    try age")


def test_only_the_line_at_fault_is_shown() -> None:
    text = "SELECT COUNT(*)\nFROM people\nWHERE agee > 3\n  AND agee < 5"
    assert shown(text, "agee") == "SqlError at line 3, column 7: wrong\n    WHERE agee > 3\n          ^^^^"
    assert shown(text, "agee", nth=1) == "SqlError at line 4, column 7: wrong\n      AND agee < 5\n          ^^^^"
    assert shown(text, "SELECT").split("\n")[1:] == ["    SELECT COUNT(*)", "    ^^^^^^"]
    assert shown(text, "5").split("\n")[1:] == ["      AND agee < 5", "                 ^"]


def test_a_place_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    assert shown("SELECT (\n  1\n)", "(\n  1\n)") == "SqlError at line 1, column 8: wrong\n    SELECT (\n           ^"


def test_tabs_are_one_column_wide() -> None:
    assert shown("\tSELECT\t\tagee", "agee") == "SqlError at line 1, column 10: wrong\n     SELECT  agee\n             ^^^^"


def test_line_ends_of_other_systems_are_not_shown() -> None:
    assert shown("SELECT\r\n  agee\r\nFROM t", "agee") == "SqlError at line 2, column 3: wrong\n      agee\n      ^^^^"


def test_carets_stand_under_letters_of_any_width() -> None:
    found = shown("SELECT 'é日本' || näme", "näme")
    assert found == "SqlError at line 1, column 17: wrong\n    SELECT 'é日本' || näme\n                      ^^^^", "日本 takes four columns"
    assert shown("SELECT 'e\u0301' || 名前", "名前").endswith("\n                  ^^^^"), "an accent takes none"


def test_text_that_would_steer_a_terminal_is_not_shown() -> None:
    assert shown("SELECT '\x1b[31m\x07' || x", "x", try_="y") == (
        "SqlError at line 1, column 20: wrong\n    SELECT ' [31m ' || x\n                       ^\n    try y")


def test_a_hint_of_several_lines_is_indented() -> None:
    assert shown("SELECT x", "x", try_="a\nb").split("\n")[3:] == ["    try a", "        b"]


def test_the_end_of_the_text_has_a_caret_too() -> None:
    assert str(SqlError("more is needed", span=Span(7, 7), text="SELECT ")) == (
        "SqlError at line 1, column 8: more is needed\n    SELECT\n           ^")
    assert str(SqlError("empty", span=Span(0, 0), text="\n")).split("\n")[1:] == ["", "    ^"]


def test_the_source_is_named_where_it_is_not_the_statement() -> None:
    text = '[tables.people]\nkye = "id"'
    assert shown(text, "kye", source="policy.toml") == (
        'SqlError at line 2, column 1 of policy.toml: wrong\n    kye = "id"\n    ^^^')


def test_long_lines_are_cut_around_the_place(effort: float) -> None:
    draw = random.Random(6)
    for _ in range(round(500 * effort)):
        lines = ["x" * draw.randint(0, 300) for _ in range(3)]
        place = draw.randrange(3)
        start, size = draw.randint(0, len(lines[place])), draw.randint(1, 30)
        lines[place] = lines[place][:start] + "A" * size + lines[place][start:]
        text = "\n".join(lines)
        at = text.index("A")
        _, code, carets = str(SqlError("wrong", span=Span(at, at + size), text=text)).split("\n")
        assert len(code) <= 4 + 100 and len(carets) <= 4 + 100
        marked = [letter for letter, mark in zip(code, carets, strict=False) if mark == "^"]
        assert marked == ["A"] * size


def test_any_place_of_any_text_can_be_shown(effort: float) -> None:
    draw = random.Random(7)
    for _ in range(round(1000 * effort)):
        text = "".join(draw.choices("ab\n\t \r'日é", k=draw.randint(1, 150)))
        start = draw.randint(0, len(text))
        span = Span(start, draw.randint(start, len(text)))
        found = SqlError("wrong", span=span, text=text)
        line, column = span.place(text)
        assert text.split("\n")[line - 1][:column - 1] == text[start - column + 1:start]
        head, *rest = str(found).split("\n")
        assert head == f"SqlError at line {line}, column {column}: wrong" and set(rest[-1]) <= {" ", "^"} and "^" in rest[-1]


def test_places_join() -> None:
    assert Span(3, 5).join(Span(7, 9)) == Span(7, 9).join(Span(3, 5)) == Span(3, 9) and Span(3, 5).join(None) == Span(3, 5)


# -- located later, and as data


def test_an_error_learns_its_text_once() -> None:
    error = SqlError("wrong", span=Span(0, 1))
    assert error.located("SELECT 1") is error and error.text == "SELECT 1"
    assert error.located("another", source="policy.toml").text == "SELECT 1" and error.source == "SQL"


def test_an_error_is_data() -> None:
    error = SqlError("no such column", code="unknown-column", try_="age", span=Span(16, 20), subject="agee",
                     text="SELECT 1,\n      agee")
    assert error.as_dict() == {
        "error": "SqlError", "code": "unknown-column", "reason": "no such column", "try": "age", "subject": "agee",
        "source": "SQL", "span": [16, 20], "line": 2, "column": 7}
    assert json.loads(json.dumps(error.as_dict())) == error.as_dict()


def test_what_is_not_known_is_none() -> None:
    assert Unsupported("no").as_dict() == {
        "error": "Unsupported", "code": "unsupported", "reason": "no", "try": None, "subject": None, "source": None, "span": None,
        "line": None, "column": None}


def test_an_incident_always_says_the_same() -> None:
    one, two = Incident(), Incident()
    assert str(one) == str(two) and one.as_dict() == two.as_dict() and one.span is None and not one.text
    assert one.args == two.args


@pytest.mark.parametrize("error", [
    SqlError("wrong", code="type", try_="age", span=Span(0, 1), subject="x", text="y", source="policy.toml"), Unsupported("no"),
    Incident()])
def test_errors_can_be_copied_and_sent_to_other_processes(error: Error) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error) and str(again) == str(error) and again.as_dict() == error.as_dict()
