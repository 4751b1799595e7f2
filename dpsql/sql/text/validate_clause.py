"""VALIDATE <queries> AGAINST <synthetic tables> WITHIN <tolerance> [OPTIONS (...)], read among the tokens.

    VALIDATE SELECT COUNT(*) FROM people AGAINST people_syn WITHIN 5 PERCENT OR 10 OPTIONS (epsilon = 0.5)
    VALIDATE (SELECT AVG(age) FROM people) WITHIN 2, (SELECT COUNT(*) FROM visits)
        AGAINST people_syn FOR people, visits_syn FOR visits WITHIN 5 PERCENT
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError
from dpsql.sql.text.option_clause import read_clause
from dpsql.sql.text.places import CLOSING, OPENING
from dpsql.sql.text.statement import CheckedQuery, Option, Query, Standing, Validate, Width
from dpsql.sql.text.tokens import place_of, shown
from dpsql.types import Span

FORM = "VALIDATE SELECT ... AGAINST <synthetic table> WITHIN 5 PERCENT"
CRITERION = "SELECT ... WITHIN 5 PERCENT"
ReadQuery = Callable[[list[Token], Token], Query]


def read_validation(text: str, tokens: Sequence[Token], query: ReadQuery) -> Validate:
    """Read the statement; `query` reads the tokens of one query, given the token before them. Raises SqlError, located."""
    return _ValidationReader(list(tokens), query).read(text)


def read_check(tokens: Sequence[Token], query: ReadQuery) -> CheckedQuery:
    """A query of a suite, with or without its own tolerance: SELECT ..., or (SELECT ...) WITHIN 5 PERCENT."""
    found = _ValidationReader(list(tokens), query).checks(list(tokens))
    if len(found) != 1:
        raise SqlError("one query is expected here", code="validate", span=place_of(tokens[0]), try_="a semicolon after each")
    return found[0]


def read_criterion(tokens: Sequence[Token], query: ReadQuery) -> CheckedQuery:
    """A query with its tolerance, and perhaps in brackets: SELECT ... WITHIN 5 PERCENT."""
    depth, end = 0, len(tokens)
    for i, (token, after) in enumerate(pairwise(tokens)):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        of_tolerance = token.token_type is TokenType.VAR and token.text.upper() == "WITHIN" and after.text.upper() != "GROUP"
        end = i if depth == 0 and of_tolerance else end
    if end == len(tokens):
        raise SqlError("WITHIN is expected here", code="validate", span=place_of(tokens[-1]), try_=f"{CRITERION}, or WITHIN 200")
    reader = _ValidationReader(list(tokens), query)
    return CheckedQuery(query=read_check(tokens[:end], query).query, width=reader.last_width(end))


class _ValidationReader:
    def __init__(self, tokens: list[Token], query: ReadQuery) -> None:
        self._tokens, self._query, self._at = tokens, query, 1

    def read(self, text: str) -> Validate:
        end = self._find("AGAINST")
        checks = self.checks(self._tokens[1:end])
        self._at = end + 1
        standing = self._standing()
        width = self._width() if self._word() == "WITHIN" else None
        missing = next((check for check in checks if check.width is None), None)
        if width is None and missing is not None:
            raise self._wrong("WITHIN is expected here", "WITHIN 5 PERCENT, or WITHIN 200")
        options: tuple[Option, ...] = ()
        if self._word() == "OPTIONS":
            self._at, found = read_clause(self._tokens, self._at + 1)
            options = tuple(found)
        if self._at < len(self._tokens):
            raise self._wrong(f"{shown(self._tokens[self._at])} is not expected here", FORM)
        return Validate(checks=tuple(CheckedQuery(query=check.query, width=check.width or width) for check in checks),
                        standing=standing, options=options, text=text)

    def last_width(self, at: int) -> Width:
        """The tolerance that starts here and ends the text."""
        self._at = at
        width = self._width()
        if self._at < len(self._tokens):
            raise self._wrong(f"{shown(self._tokens[self._at])} is not expected here", CRITERION)
        return width

    # -- queries

    def _find(self, word: str) -> int:
        """Where a word stands outside brackets."""
        depth = 0
        for i, token in enumerate(self._tokens):
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            if depth == 0 and token.token_type is TokenType.VAR and token.text.upper() == word:
                return i
        self._at = len(self._tokens)
        raise self._wrong(f"{word} is expected here", FORM)

    def checks(self, tokens: list[Token]) -> list[CheckedQuery]:
        if not tokens:
            raise SqlError("a query is missing here", code="syntax", span=place_of(self._tokens[0]), try_=FORM)
        parts = _parted(tokens)
        found = []
        for before, part in zip([self._tokens[0], *(part[0] for part in parts)], parts, strict=False):
            end = next((i for i in range(len(part) - 1, 0, -1) if part[i].text.upper() == "WITHIN"
                        and part[i].token_type is TokenType.VAR and part[i - 1].token_type is TokenType.R_PAREN), None)
            bracketed = part[0].token_type is TokenType.L_PAREN
            if len(parts) > 1 and not bracketed:
                raise SqlError("each of several queries needs brackets", code="syntax", span=place_of(part[0]),
                               try_="VALIDATE (SELECT ...), (SELECT ...) AGAINST ...")
            width = None
            if bracketed and end is not None:
                reader = _ValidationReader(part, self._query)
                reader._at = end
                width = reader._width()
                if reader._at < len(part):
                    raise reader._wrong(f"{shown(part[reader._at])} is not expected here", "WITHIN 5 PERCENT")
                part = part[:end]
            query = self._query(part, before)
            if query.all_options:
                raise SqlError("the options of VALIDATE must be at its end", code="options", span=query.all_options[0].span,
                               try_=FORM + " OPTIONS (...)")
            if query.goals:
                raise SqlError("VALIDATE answers yes or no, so it cannot have an accuracy", code="accuracy",
                               span=query.goals[0].span, try_=FORM)
            found.append(CheckedQuery(query=query, width=width))
        return found

    # -- what follows

    def _standing(self) -> tuple[Standing, ...]:
        found = []
        while True:
            name = self._name()
            instead = None
            if self._word() == "FOR":
                self._at += 1
                instead = self._name()
            found.append(Standing(table=name.text, span=place_of(name), instead=instead.text if instead is not None else None))
            if self._word() != ",":
                return tuple(found)
            self._at += 1

    def _name(self) -> Token:
        if self._at < len(self._tokens) and self._tokens[self._at].token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            self._at += 1
            return self._tokens[self._at - 1]
        raise self._wrong("the name of a table is expected here", FORM)

    def _width(self) -> Width:
        start = self._tokens[self._at]
        self._at += 1
        number, percent = self._number()
        other = None
        if percent and self._word() == "OR":
            self._at += 1
            other, also = self._number()
            if also:
                raise self._wrong("a number is expected after OR", "WITHIN 5 PERCENT OR 10", back=1)
        return Width(absolute=other if percent else number, percent=number if percent else None,
                     span=Span(start.start, self._tokens[self._at - 1].end + 1))

    def _number(self) -> tuple[Fraction, bool]:
        if self._at >= len(self._tokens) or self._tokens[self._at].token_type is not TokenType.NUMBER:
            raise self._wrong("a number above 0 is expected here", "WITHIN 5 PERCENT, or WITHIN 200")
        number = _exact(self._tokens[self._at])
        self._at += 1
        percent = self._word() in ("PERCENT", "%")
        self._at += percent
        return number, percent

    def _word(self) -> str:
        return self._tokens[self._at].text.upper() if self._at < len(self._tokens) else ""

    def _wrong(self, reason: str, try_: str, back: int = 0) -> SqlError:
        place = min(self._at - back, len(self._tokens) - 1)
        return SqlError(reason, code="validate", span=place_of(self._tokens[place]), try_=try_)


def _parted(tokens: list[Token]) -> list[list[Token]]:
    """The queries of a list in brackets; a query without brackets is one, whatever its commas."""
    if tokens[0].token_type is not TokenType.L_PAREN:
        return [tokens]
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth == 0 and token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    empty = next((i for i, part in enumerate(parts) if not part), None)
    if empty is not None:
        raise SqlError("a query is missing here", code="syntax", span=place_of(tokens[-1]), try_="(SELECT ...), (SELECT ...)")
    return parts


def _exact(token: Token) -> Fraction:
    try:
        number = Fraction(token.text.replace("_", ""))
    except (ValueError, ZeroDivisionError):
        number = Fraction(0)
    if not 0 < number <= 10**15:
        raise SqlError("a tolerance is a number above 0", code="validate", span=place_of(token), try_="WITHIN 5 PERCENT")
    return number
