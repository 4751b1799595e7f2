"""Places: which part of the text each node of sqlglot's tree came from.

sqlglot remembers where names and constants stand. The place of a node spans those below it, from the word that opens the node
(CASE, CAST, NOT ...), with the brackets that it opens or closes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Error
from dpsql.trusted.cached import cached_property
from dpsql.types import Span

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}

_PLACE = "place"
FEW = 64  # tokens that are looked at one by one
_REACH = 5  # how many signs before its first part the opening word of a node may stand
_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Case: ("CASE",), exp.Cast: ("CAST", "DATE", "TIMESTAMP"), exp.TryCast: ("TRY_CAST",), exp.Not: ("NOT",), exp.Neg: ("-",),
    exp.Exists: ("EXISTS",), exp.Extract: ("EXTRACT",), exp.Interval: ("INTERVAL",), exp.Select: ("SELECT", "FROM"),
    exp.Paren: ("(",), exp.Subquery: ("(",), exp.Limit: ("LIMIT",), exp.Offset: ("OFFSET",), exp.Order: ("ORDER",),
    exp.Values: ("VALUES",), exp.With: ("WITH",),
}


def nodes_of(tree: exp.Expr) -> list[exp.Expr]:
    """All nodes of a tree, parents first. They are asked for a dozen times a statement, and sqlglot's own `walk` takes twice as
    long."""
    found = [tree]
    for node in found:  # which grows
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                found.append(value)
            elif isinstance(value, list):
                found += [part for part in value if isinstance(part, exp.Expr)]
    return found


def place(nodes: Sequence[exp.Expr], tokens: Sequence[Token]) -> None:
    """Record the position of every node of a tree that was parsed from these tokens; parents come first."""
    finder, tree = _Finder(tokens), nodes[0]
    intervals = [node for node in nodes if isinstance(node, exp.Interval)]
    words = [i for i, token in enumerate(tokens) if token.text.upper() == "INTERVAL"]
    if len(intervals) == len(words) == 1:  # its parts leave no trace, so it is only found where it is the only one
        last = tokens[min(words[0] + 2, len(tokens) - 1)]
        intervals[0].meta["start"], intervals[0].meta["end"] = tokens[words[0]].start, last.end
    below: dict[int, Span] = {}  # the hull of the nodes right below a node
    for node in reversed(nodes):  # children first
        start, end = node.meta.get("start"), node.meta.get("end")
        span = below.pop(id(node), None)
        if start is not None and end is not None:
            span = Span(start, end + 1).join(span)
        found = finder.whole(node, span) if span is not None else None
        node.meta[_PLACE] = found
        if found is not None and node is not tree:
            below[id(node.parent)] = found.join(below.get(id(node.parent)))
    tree.meta[_PLACE] = Span(tokens[0].start, tokens[-1].end + 1)  # also where its last words, such as NOT NULL, leave no trace


def placed(node: exp.Expr, span: Span | None) -> exp.Expr:
    """Give a generated node, and nodes below it without a position, the position of the text they replace."""
    for part in node.walk():
        if part.meta.get(_PLACE) is None:
            part.meta[_PLACE] = span
    return node


def span_of(node: exp.Expr | None) -> Span | None:
    """The position of a node, or of its nearest ancestor with a known position."""
    while node is not None:
        found = node.meta.get(_PLACE)
        if isinstance(found, Span):
            return found
        node = node.parent
    return None


def _is_call(node: exp.Expr) -> bool:
    """Whether a node is written as name(...)."""
    other = (exp.Binary, exp.Connector, exp.Case, exp.Cast, exp.If, exp.Extract, exp.Exists)
    return isinstance(node, exp.Func) and not isinstance(node, other)


class _Finder:
    """Widens a stretch of text to whole tokens, opening words and brackets."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._starts = [token.start for token in tokens]
        self._depths = [0]  # before each token, and after the last
        for token in tokens:
            self._depths.append(self._depths[-1] + (token.token_type in OPENING) - (token.token_type in CLOSING))

    @cached_property
    def _least(self) -> list[list[int]]:
        """The least depth of 2^k neighbours, for every k."""
        found = [self._depths]
        while 2 << len(found) <= 2 * len(self._depths):
            last, half = found[-1], 1 << (len(found) - 1)
            found.append([min(last[i], last[i + half]) for i in range(len(last) - half)])
        return found

    def whole(self, node: exp.Expr, span: Span) -> Span:
        first = max(0, bisect_right(self._starts, span.start) - 1)
        last = max(first, bisect_left(self._starts, span.end) - 1)
        words = _WORDS.get(type(node), ())
        for at in range(first, max(-1, first - _REACH), -1) if words else ():
            if self._tokens[at].text.upper() in words:
                first = at
                break
        if isinstance(node, exp.Cast) and last + 2 < len(self._tokens) and self._tokens[last + 1].token_type is TokenType.DCOLON:
            last += 2  # x::type
        if _is_call(node):
            first, last = self._called(first, last, named=node.meta.get("start") is not None)
        least = self._lowest(first, last + 1)
        while first > 0 and self._depths[first] > least:
            first -= 1
        while last + 1 < len(self._tokens) and self._depths[last + 1] > least:
            last += 1
        if isinstance(node, exp.Case) and last + 1 < len(self._tokens) and self._tokens[last + 1].text.upper() == "END":
            last += 1
        return Span(self._tokens[first].start, self._tokens[last].end + 1)

    def _called(self, first: int, last: int, *, named: bool) -> tuple[int, int]:
        """With the name of a function, if that left no trace, and with the bracket of one whose arguments left none."""
        tokens = self._tokens
        bracketed = first >= 2 and tokens[first - 1].token_type is TokenType.L_PAREN
        if not named and bracketed and tokens[first - 2].text.isidentifier():
            return first - 2, last
        if named and first == last < len(tokens) - 1 and tokens[last + 1].token_type is TokenType.L_PAREN:
            return first, last + 1
        return first, last

    def _lowest(self, low: int, high: int) -> int:
        """The least depth between two places, both included."""
        if high - low < FEW:
            return min(self._depths[low : high + 1])
        level = (high - low + 1).bit_length() - 1
        row = self._least[level]
        return min(row[low], row[high - (1 << level) + 1])


def placed_in(fault: Error, tree: exp.Expr, text: str) -> Error:
    """Add the text to an error and, if the error has no position, that of the whole statement."""
    if fault.span is None:
        fault.span = span_of(tree)
    return fault.located(text)
