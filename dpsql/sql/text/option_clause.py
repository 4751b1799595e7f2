"""The clause WITH DIFFERENTIAL_PRIVACY OPTIONS (...), read among the tokens and cut out of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.text.places import CLOSING, OPENING
from dpsql.sql.text.statement import Option
from dpsql.sql.text.tokens import place_of, shown
from dpsql.types import Span

_BOUNDS = {"contribution_bounds_per_row": "SUM(LEAST(GREATEST(x, {low}), {high}))",
           "contribution_bounds_per_group": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip', clip = {high}) SUM(x)"}
_OF_BIGQUERY = {
    "max_groups_contributed": ("the option max_groups_contributed is called max_groups", "max_groups = 2"),
    "privacy_unit_column": ("the policy determines who is protected", "the options without privacy_unit_column"),
    "group_selection_strategy": ("groups are selected by a mechanism", "mechanism = 'truncated_geometric'"),
    "min_privacy_units_per_group": ("the policy determines how many entities a group needs", "the options without it"),
}


def take_options(tokens: list[Token]) -> tuple[list[Token], tuple[Option, ...]]:
    """Cut WITH DIFFERENTIAL_PRIVACY [OPTIONS (...)] out, right after the outermost SELECT, or after one SELECT in FROM or WITH,
    whose price is that of the statement."""
    _check_bounds(tokens)
    found = [i for i, token in enumerate(tokens) if token.text.upper() == "DIFFERENTIAL_PRIVACY" and i >= 2
             and tokens[i - 1].token_type is TokenType.WITH and tokens[i - 2].token_type is TokenType.SELECT]
    if not found:
        _check_mistyped(tokens)
        return tokens, ()
    at = found[0]
    if len(found) > 1:
        raise SqlError("a statement can have only one OPTIONS clause", code="options", span=place_of(tokens[found[1]]),
                       try_="all options after the first SELECT")
    leading = next(i for i, token in enumerate(tokens) if token.token_type is not TokenType.L_PAREN)
    end = at + 1
    options: list[Option] = []
    if end < len(tokens) and tokens[end].text.upper() == "OPTIONS":
        end, options = read_clause(tokens, end + 1)
    elif end < len(tokens) and difflib.get_close_matches(tokens[end].text.upper(), ["OPTIONS"], cutoff=0.8):
        raise SqlError(f"{shown(tokens[end])} is not expected here", code="options", span=place_of(tokens[end]), try_="OPTIONS")
    inside = _depth(tokens[:at]) > leading
    if inside and (not _is_table(tokens[: at - 2]) or [token.token_type for token in tokens[end : end + 1]] == [TokenType.STAR]):
        raise SqlError("options belong to the outermost SELECT: a statement has one price", code="options",
                       span=place_of(tokens[at]), try_="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ... FROM (SELECT ...)")
    if end < len(tokens) and tokens[end].token_type is TokenType.COMMA:
        raise SqlError(", is not expected here", code="options", span=place_of(tokens[end]))
    return tokens[: at - 1] + tokens[end:], tuple(options)


def _is_table(before: Sequence[Token]) -> bool:
    """Whether a SELECT after these tokens is in the brackets of FROM, JOIN or WITH."""
    words = [token.text.upper() for token in before[-2:]]
    return len(words) == 2 and words[1] == "(" and words[0] in ("FROM", "JOIN", "AS", "MATERIALIZED")


def _check_bounds(tokens: Sequence[Token]) -> None:
    """Refuse the bounds that BigQuery's aggregates take as a second argument."""
    for i, token in enumerate(tokens):
        per = _BOUNDS.get(token.text.lower())
        if per is not None and [part.token_type for part in tokens[i + 1 : i + 2]] == [TokenType.FARROW]:
            numbers = [part.text for part in tokens[i + 2 : i + 7]]
            low, high = (numbers[1], numbers[3]) if len(numbers) == 5 and numbers[::2] == ["(", ",", ")"] else ("0", "100")
            raise Unsupported(f"{token.text} is not an argument here: bounds are declared in the policy, or written",
                              code="options", span=place_of(token), try_=per.format(low=low, high=high))


def take_errors(options: Sequence[Option]) -> tuple[tuple[Option, ...], Option | None]:
    """Cut errors = true or false out of the options. Raises SqlError, located, for another value, or if it is given twice."""
    given = [option for option in options if option.name == "errors"]
    fault = given[1:] or [option for option in given if not isinstance(option.value, bool)]
    if fault:
        raise SqlError("errors must be given once, as true or false", code="options", span=fault[0].span, try_="errors = true")
    return tuple(option for option in options if option.name != "errors"), given[0] if given else None


def _check_mistyped(tokens: Sequence[Token]) -> None:
    for i, token in enumerate(tokens[2:], start=2):
        if tokens[i - 1].token_type is TokenType.WITH and tokens[i - 2].token_type is TokenType.SELECT and (
                difflib.get_close_matches(token.text.upper(), ["DIFFERENTIAL_PRIVACY"])):
            raise SqlError(f"{shown(token)} is not expected here", code="options", span=place_of(token),
                           try_="DIFFERENTIAL_PRIVACY")
    for word, bracket, name, sign in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if word.text.upper() == "OPTIONS" and bracket.token_type is TokenType.L_PAREN and sign.token_type is TokenType.EQ:
            raise SqlError("OPTIONS must follow the first SELECT", code="options", span=place_of(word),
                           try_=f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({name.text} = ...)")


def _depth(tokens: Sequence[Token]) -> int:
    return sum((token.token_type in OPENING) - (token.token_type in CLOSING) for token in tokens)


def read_clause(tokens: Sequence[Token], at: int) -> tuple[int, list[Option]]:
    """Read `(name = value, ...)` from position `at`; returns the position after it."""
    form = "OPTIONS (epsilon = 0.5, confidence = 0.9)"

    def expect(kind: TokenType | None, what: str) -> Token:
        nonlocal at
        if at >= len(tokens) or (kind is not None and tokens[at].token_type is not kind):
            raise SqlError(f"{what} is expected here", code="options", span=place_of(tokens[min(at, len(tokens) - 1)]), try_=form)
        at += 1
        return tokens[at - 1]

    expect(TokenType.L_PAREN, "(")
    options: list[Option] = []
    if tokens[at : at + 1] and tokens[at].token_type is TokenType.R_PAREN:
        return at + 1, options
    while True:
        name = expect(None, "the name of an option")
        if name.text.lower() in _OF_BIGQUERY:
            reason, try_ = _OF_BIGQUERY[name.text.lower()]
            raise SqlError(reason, code="options", span=place_of(name), try_=try_)
        expect(TokenType.EQ, "=")
        value = expect(None, "a value")
        sign = -1 if value.token_type is TokenType.DASH else 1
        value = expect(None, "a number") if sign < 0 else value
        if value.token_type is TokenType.DOT:  # .5 is a sign and a number
            digits = expect(TokenType.NUMBER, "a number")
            value = Token(TokenType.NUMBER, "." + digits.text, value.line, value.col, value.start, digits.end)
        options.append(Option(name=name.text.lower(), value=_constant(value, sign, form), span=Span(name.start, value.end + 1)))
        closing = expect(None, ", or )")
        if closing.token_type is TokenType.R_PAREN:
            return at, options
        if closing.token_type is not TokenType.COMMA:
            raise SqlError(", or ) is expected here", code="options", span=place_of(closing), try_=form)


def _constant(token: Token, sign: int, form: str) -> bool | int | float | str:
    if token.token_type is TokenType.NUMBER:
        return _number(token, sign, form)
    if sign > 0 and token.token_type is TokenType.STRING:
        return token.text
    if sign > 0 and token.token_type in (TokenType.TRUE, TokenType.FALSE):
        return token.token_type is TokenType.TRUE
    raise SqlError("the value of an option is a constant", code="options", span=place_of(token), try_=form)


def _number(token: Token, sign: int, form: str) -> int | float:
    text = token.text.replace("_", "")
    try:
        return sign * (int(text) if text.isdigit() else float(text))
    except ValueError:
        pass
    raise SqlError("this is not a number", code="options", span=place_of(token), try_=form)
