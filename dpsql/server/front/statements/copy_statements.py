"""COPY, as clients write it: which query it is of, and how its rows are to be written.

sqlglot reads few of PostgreSQL's forms of COPY, and none of dpsql's own clauses in the query, so its tokens are read here. The
query is taken out of the text as it stands there, and is asked as if it stood alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.server.front.statements.transaction_status import first_word
from dpsql.server.front.statements.wrapped_queries import wrapped_query
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.terms.copied_rows import CopyForm
from dpsql.server.front.terms.sqlstates import refusal_on_wire
from dpsql.sql.text.tokens import Words, tokens_of

_SHOWING = ("SELECT", "WITH", "FROM", "VALUES", "(", "EXPLAIN", "SHOW", "DESCRIBE", "DESC", "VALIDATE")
_TEXTS = (TokenType.STRING, TokenType.BYTE_STRING)  # the second is E'...'
_OF_TEXT_ALONE = "\\.abcdefghijklmnopqrstuvwxyz0123456789"  # no delimiters, as a reader would take them for an escape
_SWITCHES = {"": True, "TRUE": True, "ON": True, "1": True, "FALSE": False, "OFF": False, "0": False}
_STDOUT = "COPY (SELECT ...) TO STDOUT, or \\copy in psql, which writes the file where psql runs"


class CopyStatement(Frozen):
    """The query whose rows are sent. It stands in the text of COPY at `start`, counted from 0, or was made of the table that is
    named there. `picked` are the columns of its answer that are sent, None for all; `most` is the same for rows."""

    query: str
    start: int
    form: CopyForm
    of_table: bool = False
    picked: tuple[str, ...] | None = None
    most: int | None = None

    def place(self, position: int) -> int:
        """The position in the text of COPY of a position in the query; both are counted from 1."""
        return self.start + (1 if self.of_table else position)


def read_copy(text: str) -> CopyStatement | None:
    """The contents of a COPY statement; None for other statements. Raises RefusedOnWire, with positions in the text."""
    if first_word(text) != "COPY":
        return None
    tokens: list[Token] | None = None
    with contextlib.suppress(TokenError):
        tokens = list(Words(dialect=DuckDB()).tokenize(text))
    if tokens is not None:
        return _CopyTokens(text, tokens).statement() if tokens and tokens[0].token_type is TokenType.COPY else None
    try:
        tokens_of(text)
    except Error as fault:
        raise refusal_on_wire(fault, text) from None
    raise RefusedOnWire("this COPY statement cannot be parsed", sqlstate="42601")


class _CopyTokens:
    """The tokens of one COPY, from left to right."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text, self._tokens, self._at = text, tokens, 1
        while self._tokens[-1].token_type is TokenType.SEMICOLON:
            self._tokens.pop()

    def statement(self) -> CopyStatement:
        found = self._query() if self._word() == "(" else self._table()
        if self._word() == "FROM":
            raise self._refused("COPY FROM is not served: nothing is written here", "0A000")
        self._take("TO")
        if self._word() != "STDOUT":
            raise self._refused("COPY writes no files here", "42501", _STDOUT)
        self._at += 1
        return replace(found, form=self._form())

    # -- what is copied

    def _query(self) -> CopyStatement:
        first, closing = self._at + 1, self._closing()
        self._at = first
        if self._word() not in _SHOWING:
            raise self._refused("COPY takes a query here", "42601", "COPY (SELECT ...) TO STDOUT")
        self._at = closing + 1
        wrapped = wrapped_query(self._tokens[first:closing])
        if wrapped is None:
            return self._asked(self._tokens[first - 1].end + 1, self._tokens[closing].start)
        return replace(self._asked(wrapped.start, wrapped.end), picked=wrapped.picked, most=wrapped.most)

    def _asked(self, start: int, end: int) -> CopyStatement:
        inner = self._text[start:end]
        return CopyStatement(query=inner.strip(), start=start + len(inner) - len(inner.lstrip()), form=CopyForm())

    def _table(self) -> CopyStatement:
        """COPY table (column, ...): the rows of a table, which are shown where SELECT would show them."""
        first = self._at
        while self._word() not in ("", "(", "TO", "FROM"):
            self._at += 1
        if self._at == first or not all(self._is_name(at) or self._tokens[at].text == "." for at in range(first, self._at)):
            self._at = first
            raise self._refused("COPY takes a query in parentheses, or a table", "42601", "COPY (SELECT ...) TO STDOUT")
        start, name = self._tokens[first].start, self._text[self._tokens[first].start:self._tokens[self._at - 1].end + 1]
        columns = "*"
        if self._word() == "(":
            columns = ", ".join(self._names(written=True))
        return CopyStatement(query=f"SELECT {columns} FROM {name}", start=start, form=CopyForm(), of_table=True)

    def _closing(self) -> int:
        """Which token closes the query that begins here: the last parenthesis before TO, whatever stands between, as it is the
        query that tells what is wrong with its own parentheses."""
        closing = [at for at in range(self._at, len(self._tokens)) if self._tokens[at].token_type is TokenType.R_PAREN]
        found = [at for at in closing if self._tokens[at + 1:] and self._tokens[at + 1].text.upper() == "TO"] or closing
        if not found:
            raise self._refused("this parenthesis is not closed", "42601", ")")
        return found[-1]

    def _names(self, *, written: bool) -> list[str]:
        """The names in parentheses: as they are written, or what they name."""
        self._take("(")
        found = []
        while True:
            if not self._is_name(self._at):
                raise self._refused("the name of a column is expected here", "42601")
            token = self._tokens[self._at]
            found.append(self._text[token.start:token.end + 1] if written else token.text)
            self._at += 1
            if self._word() != ",":
                break
            self._at += 1
        self._take(")")
        return found

    # -- how it is written

    def _form(self) -> CopyForm:
        if self._word() == "WITH":
            self._at += 1
        given: dict[str, object] = {}
        if self._word() == "(":
            self._at += 1
            self._options(given)
        else:
            while self._word():
                self._old_option(given)
        if self._word():
            raise self._refused("this is not expected here", "42601")
        return _checked(given)

    def _options(self, given: dict[str, object]) -> None:
        """(FORMAT csv, HEADER, DELIMITER ';' ...)."""
        while True:
            name = self._word()
            if name not in _READ:
                raise self._refused("this is not an option of COPY TO", "42601", ", ".join(_READ))
            self._keep(given, name)
            if self._word() != ",":
                break
            self._at += 1
        self._take(")")

    def _old_option(self, given: dict[str, object]) -> None:
        """CSV HEADER DELIMITER AS ';' ..., as PostgreSQL had them before 9.0, and as many write them."""
        name = self._word()
        if name in ("CSV", "BINARY"):
            self._at += 1
            self._add(given, "FORMAT", name.lower())
        elif name == "HEADER":
            self._at += 1
            self._add(given, name, True)
        elif name == "FORCE" and self._word(1) == "QUOTE":
            self._at += 1
            self._keep(given, "FORCE_QUOTE")
        elif name in ("DELIMITER", "DELIMITERS", "NULL", "QUOTE", "ESCAPE", "ENCODING"):
            if self._word(1) == "AS":
                self._tokens.pop(self._at + 1)
            self._keep(given, name.removesuffix("S"))
        else:
            raise self._refused("this is not an option of COPY TO", "42601", "CSV HEADER, or (FORMAT csv, HEADER)")

    def _keep(self, given: dict[str, object], name: str) -> None:
        """Read the value after the word of an option."""
        self._at += 1
        self._add(given, name, _READ[name](self))

    def _add(self, given: dict[str, object], name: str, value: object) -> None:
        if name in given:
            self._at -= 1
            raise self._refused("conflicting or redundant options", "42601")
        given[name] = value

    def text(self) -> str:
        if self._word() != "'":
            raise self._refused("a text in quotes is expected here", "42601")
        self._at += 1
        return self._tokens[self._at - 1].text

    def word(self) -> str:
        if self._word() in ("", ",", ")"):
            raise self._refused("a word is expected here", "42601")
        self._at += 1
        return self._tokens[self._at - 1].text

    def switch(self) -> bool:
        told = "" if self._word() in ("", ",", ")") else self._tokens[self._at].text.upper()
        if told == "MATCH":
            raise self._refused("cannot use \"match\" with HEADER in COPY TO", "0A000")
        if told not in _SWITCHES:
            raise self._refused("true or false is expected here", "42601")
        self._at += bool(told)
        return _SWITCHES[told]

    def quoted(self) -> frozenset[str] | None:
        if self._word() == "*":
            self._at += 1
            return None
        if self._word() == "(":
            return frozenset(name.lower() for name in self._names(written=False))
        found = [self.word().lower()]
        while self._word() == ",":
            self._at += 1
            found.append(self.word().lower())
        return frozenset(found)

    # -- tokens

    def _word(self, ahead: int = 0) -> str:
        """The token here, in capitals, and of texts their quote alone; nothing at the end."""
        at = self._at + ahead
        if at >= len(self._tokens):
            return ""
        return "'" if self._tokens[at].token_type in _TEXTS else self._tokens[at].text.upper()

    def _is_name(self, at: int) -> bool:
        token = self._tokens[at] if at < len(self._tokens) else None
        return token is not None and (token.token_type is TokenType.IDENTIFIER or (
            token.token_type not in _TEXTS and token.text.isidentifier()))

    def _take(self, word: str) -> None:
        if self._word() != word:
            raise self._refused(f"{word} is expected here", "42601")
        self._at += 1

    def _refused(self, message: str, state: str, hint: str = "") -> RefusedOnWire:
        here = self._tokens[self._at].start + 1 if self._at < len(self._tokens) else len(self._text) + 1
        return RefusedOnWire(message, sqlstate=state, hint=f"try {hint}" if hint else "", position=here)


_READ: Mapping[str, Callable[[_CopyTokens], object]] = {
    "FORMAT": _CopyTokens.word, "HEADER": _CopyTokens.switch, "DELIMITER": _CopyTokens.text, "NULL": _CopyTokens.text,
    "QUOTE": _CopyTokens.text, "ESCAPE": _CopyTokens.text, "FORCE_QUOTE": _CopyTokens.quoted, "ENCODING": _CopyTokens.text,
    "FREEZE": _CopyTokens.switch}


def _checked(given: Mapping[str, object]) -> CopyForm:
    """The form that options state, by PostgreSQL's rules. Raises RefusedOnWire."""
    kind = str(given.get("FORMAT", "text")).lower()
    if kind not in ("text", "csv", "binary"):
        raise RefusedOnWire("COPY has the formats text, csv and binary", sqlstate="22023")
    only = {"QUOTE": "csv", "ESCAPE": "csv", "FORCE_QUOTE": "csv"}
    wrong = [name for name in given if name in only and kind != "csv"]
    wrong += [name for name in ("DELIMITER", "NULL") if kind == "binary" and name in given]
    if kind == "binary" and given.get("HEADER"):
        wrong.append("HEADER")
    if wrong:
        raise RefusedOnWire(f"{wrong[0]} is not used with the format {kind}", sqlstate="0A000")
    if str(given.get("ENCODING", "utf8")).lower().replace("-", "") not in ("utf8", "unicode"):
        raise RefusedOnWire("texts are sent only in UTF8", sqlstate="0A000")
    csv = kind == "csv"
    form = CopyForm(kind=kind, header=bool(given.get("HEADER")), delimiter=_letter(given, "DELIMITER", "," if csv else "\t"),
                    null=str(given.get("NULL", "" if csv else "\\N")), quote=_letter(given, "QUOTE", '"'))
    quoted: frozenset[str] | None = given.get("FORCE_QUOTE", frozenset())  # type: ignore[assignment]
    form = replace(form, escape=_letter(given, "ESCAPE", form.quote), quoted=quoted)
    _check_letters(form)
    return form


def _letter(given: Mapping[str, object], name: str, usual: str) -> str:
    value = str(given.get(name, usual))
    if len(value) != 1 or not value.isascii():
        raise RefusedOnWire(f"COPY {name.lower()} must be a single one-byte character", sqlstate="0A000")
    return value


def _check_letters(form: CopyForm) -> None:
    """Raises RefusedOnWire if no reader could tell a value from NULL, or from two values."""
    if form.kind == "binary":
        return
    if form.delimiter in "\r\n":
        raise RefusedOnWire("COPY delimiter cannot be newline or carriage return", sqlstate="22023")
    if "\r" in form.null or "\n" in form.null:
        raise RefusedOnWire("COPY null representation cannot use newline or carriage return", sqlstate="22023")
    if form.kind == "text" and form.delimiter in _OF_TEXT_ALONE:
        raise RefusedOnWire(f"COPY delimiter cannot be \"{form.delimiter}\"", sqlstate="22023")
    if form.kind == "csv" and form.delimiter == form.quote:
        raise RefusedOnWire("COPY delimiter and quote must be different", sqlstate="22023")
    if form.delimiter in form.null:
        raise RefusedOnWire("COPY delimiter must not appear in the NULL specification", sqlstate="0A000")
    if form.kind == "csv" and form.quote in form.null:
        raise RefusedOnWire("CSV quote character must not appear in the NULL specification", sqlstate="0A000")
