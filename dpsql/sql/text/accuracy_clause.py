"""How accurate answers have to be: ERROR WITHIN and STANDARD ERROR, read among the tokens and cut out of them.

    SELECT sex, COUNT(*) ERROR WITHIN 50 CONFIDENCE 0.9, SUM(cost) STANDARD ERROR 200 FROM visits ... GROUP BY sex
    SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 2 PERCENT OF 5000
    SELECT MEDIAN(cost) ERROR WITHIN 100 ROWS, MEDIAN(age) ERROR WITHIN 2 PERCENT OF ROWS FROM ...

A clause after a column of the SELECT list applies to that column; one at the end of the statement applies to all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError
from dpsql.sql.text.places import CLOSING, OPENING
from dpsql.sql.text.statement import Goal
from dpsql.sql.text.tokens import place_of, shown
from dpsql.types import Span

FORM = "ERROR WITHIN 50 CONFIDENCE 0.95, STANDARD ERROR 20, or ERROR WITHIN 5 PERCENT OF 1000"
LEAST_CONFIDENCE, MOST_CONFIDENCE = Fraction(1, 2), 1 - Fraction(1, 10**9)
MOST = 10**15
FIRST_WORDS = frozenset({"ERROR", "STANDARD", "WITHIN"})  # a clause begins with one of them
_ENDS_LIST = {TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
              TokenType.OFFSET, TokenType.QUALIFY, TokenType.WINDOW}


def take_goals(tokens: list[Token]) -> tuple[list[Token], tuple[Goal, ...]]:
    """The other tokens, and the goals that the clauses state. Raises SqlError, located, for a clause that is wrong or
    misplaced."""
    starts = [i for i in range(len(tokens)) if _begins(tokens, i)]
    if not starts:
        return tokens, ()
    depths = _depths(tokens)
    select = _outermost(tokens, depths)
    if select is None:
        return tokens, ()  # the parser says what is wrong
    rest, goals, at = [], [], 0
    for start in starts:
        rest += tokens[at:start]
        reader = _AccuracyReader(tokens, start)
        goals.append(reader.goal(_column(tokens, depths, select, start)))
        at = reader.at
        _check_end(tokens, reader, goals[-1])
    rest += tokens[at:]
    for i, goal in enumerate(goals):
        if any(goal.column == other.column for other in goals[:i]):
            raise SqlError("a column can have only one accuracy" if goal.column is not None else "a statement has one accuracy",
                           code="accuracy", span=goal.span, try_="one clause after each column, or one at the end for all")
    return rest, tuple(goals)


def _word(tokens: Sequence[Token], at: int) -> str:
    """An unquoted word, in capitals."""
    if at >= len(tokens) or tokens[at].token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    return tokens[at].text.upper()


def _begins(tokens: Sequence[Token], at: int) -> bool:
    word = _word(tokens, at)
    if word not in FIRST_WORDS or (at and _word(tokens, at - 1) in ("STANDARD", "ERROR")):
        return False  # it is none, or began before
    then = _word(tokens, at + 1)
    number = at + 1 < len(tokens) and tokens[at + 1].token_type in (TokenType.NUMBER, TokenType.DASH, TokenType.DOT)
    return (word, then) in (("ERROR", "WITHIN"), ("STANDARD", "ERROR")) or (word == "WITHIN" and number)


def _depths(tokens: Sequence[Token]) -> list[int]:
    """How many brackets are open at each token."""
    found, depth = [], 0
    for token in tokens:
        depth -= token.token_type in CLOSING
        found.append(depth)
        depth += token.token_type in OPENING
    return found


def _outermost(tokens: Sequence[Token], depths: Sequence[int]) -> int | None:
    """The outermost SELECT: of the least depth, and after the tables of WITH."""
    selects = [i for i, token in enumerate(tokens) if token.token_type is TokenType.SELECT]
    return max(selects, key=lambda i: (-depths[i], i), default=None)


def _column(tokens: Sequence[Token], depths: Sequence[int], select: int, start: int) -> int | None:
    """The item of the SELECT list that a clause follows, by its place; None at the end of the statement."""
    before = [i for i in range(select + 1, start) if depths[i] == depths[select]]
    inside = start < select or depths[start] > depths[select] or any(
        token.token_type is TokenType.SELECT for token in tokens[start:])
    if inside:
        raise SqlError("only the outermost SELECT can have an accuracy", code="accuracy", span=place_of(tokens[start]),
                       try_="the clause after a column of the outermost SELECT, or at the end")
    in_list = depths[start] == depths[select] and not any(tokens[i].token_type in _ENDS_LIST for i in before)
    return sum(tokens[i].token_type is TokenType.COMMA for i in before) if in_list else None


def _check_end(tokens: Sequence[Token], reader: _AccuracyReader, goal: Goal) -> None:
    following = tokens[reader.at] if reader.at < len(tokens) else None
    left = [token for token in tokens[reader.at :] if token.token_type is not TokenType.R_PAREN]
    fits = not left if goal.column is None else (
        following is None or following.token_type in {TokenType.COMMA, TokenType.R_PAREN, *_ENDS_LIST})
    if not fits and following is not None and not _begins(tokens, reader.at):
        raise SqlError(f"{shown(following)} is not expected here", code="accuracy", span=place_of(following),
                       try_="the clause after a column and its name, or at the end of the statement")


class _AccuracyReader:
    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self._tokens, self.at, self._start = tokens, at, at

    def goal(self, column: int | None) -> Goal:
        if self._take("STANDARD"):
            self._take("ERROR")
            amount = self._number("a number above 0 is expected here")
            if _word(self._tokens, self.at) == "CONFIDENCE":
                raise self._wrong("a standard error has no confidence", "STANDARD ERROR 20, or ERROR WITHIN 40 CONFIDENCE 0.95")
            return Goal(kind="standard", amount=amount, column=column, span=self._span())
        bare = not self._take("ERROR")
        self._take("WITHIN")
        amount, of = self._number("a number above 0 is expected here"), None
        kind: Literal["within", "ranks", "share"] = "within"
        if self._take("PERCENT") or self._take("%"):
            if not self._take("OF"):
                raise self._wrong("OF and a number are expected here", "ERROR WITHIN 5 PERCENT OF 1000: noise does not depend on "
                                  "the answer")
            if self._take("ROWS"):
                kind = "share"
            else:
                of = self._number("a number above 0, or ROWS, is expected here")
        elif bare:
            raise self._wrong("ERROR is expected before WITHIN", FORM, at=self._start)
        elif self._take("ROWS"):
            kind = "ranks"
        return Goal(kind=kind, amount=amount, of=of, confidence=self._confidence(), column=column, span=self._span())

    def _confidence(self) -> Fraction | None:
        if not self._take("CONFIDENCE"):
            return None
        at = self.at
        found = self._number("a confidence is between 0.5 and 1")
        if not LEAST_CONFIDENCE <= found <= MOST_CONFIDENCE:
            raise self._wrong("a confidence is between 0.5 and 1", "CONFIDENCE 0.95", at=at)
        return found

    def _take(self, word: str) -> bool:
        found = _word(self._tokens, self.at) == word
        self.at += found
        return found

    def _number(self, reason: str) -> Fraction:
        """A number, as it is written; .5 is a sign and a number."""
        at, dot = self.at, self.at < len(self._tokens) and self._tokens[self.at].token_type is TokenType.DOT
        self.at += dot
        if self.at >= len(self._tokens) or self._tokens[self.at].token_type is not TokenType.NUMBER:
            raise self._wrong(reason, FORM, at=at)
        text = "." * dot + self._tokens[self.at].text.replace("_", "")
        self.at += 1
        try:
            number = Fraction(text) if len(text) < 40 else Fraction(0)
        except (ValueError, ZeroDivisionError):
            number = Fraction(0)
        if not Fraction(1, MOST) <= number <= MOST:
            raise self._wrong(reason, FORM, at=at)
        return number

    def _span(self) -> Span:
        return Span(self._tokens[self._start].start, self._tokens[self.at - 1].end + 1)

    def _wrong(self, reason: str, try_: str, at: int | None = None) -> SqlError:
        place = min(self.at if at is None else at, len(self._tokens) - 1)
        return SqlError(reason, code="accuracy", span=place_of(self._tokens[place]), try_=try_)
