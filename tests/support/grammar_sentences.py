"""The grammar, its corpus, and sentences drawn from it."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark
from lark.grammar import NonTerminal
from lark.lexer import PatternStr

from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Query

FOLDER = Path(__file__).parents[2] / "grammar"

# What general terminals become: names of the world of tests, and constants. Sentences over one table and columns of one type
# are bound more often than others.
NUMBERS = {"NUMBER": ["0", "1", "7", "30", "0.5", "1e3"], "OPERATOR": ["+", "- ", "*", "/", "//", "%"], "STRING": ["'1'", "'30'"]}
TEXTS = {"NUMBER": ["1"], "OPERATOR": ["||"], "STRING": ["'f'", "'a'", "''", "'x''y'", "'%o_'"]}
TIMES = {"NUMBER": ["1", "30"], "OPERATOR": ["+", "- "], "STRING": ["'2000-02-29'", "'1980-1-1'"]}
TRUTHS = {"NUMBER": ["1"], "OPERATOR": ["||"], "STRING": ["'true'"]}
PEOPLE, VISITS, CLINICS = ({"TABLE": [name], "NAME": [name, name, "t"]} for name in ("people", "visits", "clinics"))
KINDS: Mapping[str, Mapping[str, list[str]]] = {
    "ages": {**PEOPLE, **NUMBERS, "COLUMN": ["age", "income", "person_id"]},
    "names": {**PEOPLE, **TEXTS, "COLUMN": ["sex", "nickname"]},
    "births": {**PEOPLE, **TIMES, "COLUMN": ["born"]},
    "flags": {**PEOPLE, **TRUTHS, "COLUMN": ["active"]},
    "costs": {**VISITS, **NUMBERS, "COLUMN": ["cost", "year", "visit_id", "person_id"]},
    "notes": {**VISITS, **TEXTS, "COLUMN": ["clinic", "note"]},
    "moments": {**VISITS, **TIMES, "COLUMN": ["seen"]},
    "beds": {**CLINICS, **NUMBERS, "COLUMN": ["beds"]},
    "joins": {**NUMBERS, "TABLE": ["people", "visits", "scores"], "NAME": ["people", "visits", "t", "u"],
              "COLUMN": ["person_id", "person_id", "age", "cost"]},
    "all": {"TABLE": ["people", "visits", "scores", "clinics", "households", "unlisted", "nothing"], "NAME": ["t", "people", "x"],
            "COLUMN": ["age", "sex", "cost", "clinic", "born", "seen", "active", "person_id", "secret", "t", "x"],
            "NUMBER": ["0", "1.5", "99999999999999999999"], "STRING": ["'f'", "''", "'x''y'"],
            "OPERATOR": ["+", "- ", "*", "/", "//", "%", "||", "**"]},
}
COMMON = {
    "BLANK": [" "], "BITWISE": ["&", "|", "<<", ">>"], "SIGN": ["- ", "+"], "DAY": ["'2000-02-29'", "'1980-1-1'"], "MOMENT": ["'2020-01-01 10:00:00'"],
    "LABEL": ["t", "x", "n"], "SIZE": ["1", "2", "10"], "DIGIT": ["0", "1"], "SERIES": ["3", "20", "41"], "PLACE": ["0.5", "0.25"], "POSITION": ["1", "2"], "NUMBERED": ["1"],
    "QUANTILE": ["QUANTILE_CONT", "QUANTILE_DISC", "QUANTILE"], "PERCENTILE": ["PERCENTILE_CONT", "PERCENTILE_DISC"],
    "STEP": ["DAY", "WEEK", "MONTHS", "YEAR"], "OPTION": ["epsilon", "rho"], "OPTION_NUMBER": ["1"], "OPTION_TEXT": ["'laplace'"],
    "TOLERANCE": ["5", "200"], "SURE": ["0.9"],
}


# How much likelier a production is made by one of its parts: queries that read something and add something up are bound more
# often.
FAVOURED = {
    "from": 6.0, "expr__aggregate": 4.0, "outputs": 1.0, "items": 1.0, "expr__composed": 1.0, "_group_by": 1.0, "_where": 1.0,
    "condition": 1.0, "expr__value": 0.7, "_options": 1.0, "_having": 1.0, "_order_by": 1.0, "_limit": 1.0, "_distinct": 1.0,
    "select": 1.0, "rows": 1.0, "source": 1.0, "table": 1.0, "composed_relation": 0.3, "derived": 0.3, "joined": 0.3,
    "expr__claim": 1.0, "expr__test": 1.0, "leading": 6.0, "from_star": 0.2, "outputs_star": 0.5, "joins": 0.3,
    "expr__window": 0.1, "windows": 0.1, "qualify": 0.1, "accuracy": 0.1,
}


def without_accuracy(text: str, query: Query) -> str:
    """The text of a query without the accuracies that it asks for."""
    for goal in sorted(query.goals, key=lambda goal: -goal.span.start if goal.span is not None else 0):
        assert goal.span is not None
        text = f"{text[: goal.span.start]} {text[goal.span.end :]}"
    return text


@cache
def grammar(start: str = "start") -> Lark:
    return Lark.open(str(FOLDER / "dpsql.lark"), parser="earley", start=start)


def words(terminal: Any, kind: str) -> list[str]:
    """What a terminal may become in sentences."""
    if isinstance(terminal.pattern, PatternStr):
        return [terminal.pattern.value]
    plain = re.sub(r"^_?expr__|^_", "", str(terminal.name))
    given = {**COMMON, **KINDS[kind]}.get(plain)
    if given is None:  # a terminal that lists its words
        given = re.sub(r"^\(\?:|^\(|\)$|\\", "", terminal.pattern.value).split("|")
        assert all(re.fullmatch(r"\w+|[^\w()\[\]]+", word) for word in given), f"give the words of {plain}"
    return given


@cache
def strategy(kind: str, start: str) -> st.SearchStrategy[str]:
    """Sentences as Hypothesis draws them."""
    made = grammar(start)
    return from_lark(made, start=start, explicit={
        str(terminal.name): st.sampled_from(words(terminal, kind)) for terminal in made.terminals})


class Sentences:
    """Sentences drawn fast: short expansions are likelier, and below a depth only the shortest are left."""

    def __init__(self, kind: str) -> None:
        self._expansions = productions()
        self._words = {name: words(terminal, kind) for name, terminal in self._expansions.terminals.items()}

    def draw(self, dice: random.Random, start: str = "query", depth: int = 30) -> str:
        expansions, weights = (self._expansions.all if depth > 0 else self._expansions.shortest)[start]
        chosen = dice.choices(expansions, weights)[0]
        return "".join(self.draw(dice, str(part.name), depth - 1) if isinstance(part, NonTerminal) else dice.choice(
            self._words[str(part.name)]) for part in chosen)


Weighed = tuple[list[list[Any]], list[float]]


class Productions:
    """The expansions of every rule with their weights, and of these the ones that end soonest."""

    def __init__(self) -> None:
        terminals, rules, _ = grammar("query").grammar.compile(["query"], ())
        self.terminals = {str(terminal.name): terminal for terminal in terminals}
        expansions: dict[str, list[list[Any]]] = {}
        for rule in rules:
            expansions.setdefault(str(rule.origin.name), []).append(list(rule.expansion))
        self._heights = dict.fromkeys(expansions, math.inf)
        while any(self._settle(name, expansions[name]) for name in expansions):
            pass
        self.all: dict[str, Weighed] = {}
        self.shortest: dict[str, Weighed] = {}
        for name, found in expansions.items():
            least = min(map(self._height, found))
            short = [expansion for expansion in found if self._height(expansion) == least]
            self.all[name], self.shortest[name] = (found, list(map(self._weight, found))), (short, list(map(self._weight, short)))

    def _settle(self, name: str, expansions: list[list[Any]]) -> bool:
        found = min(map(self._height, expansions))
        changed, self._heights[name] = found < self._heights[name], found
        return changed

    def _height(self, expansion: list[Any]) -> float:
        return 1 + max((self._heights[str(part.name)] for part in expansion if isinstance(part, NonTerminal)), default=0)

    def _weight(self, expansion: list[Any]) -> float:
        parts = [str(part.name) for part in expansion if isinstance(part, NonTerminal)]
        return math.prod(FAVOURED.get(re.sub(r"^__(\w+)_\d+$", r"\1", part), 0.3 if self._heights[part] > 1 else 1.0)
                         for part in parts)


productions = cache(Productions)


@cache
def accepted() -> tuple[str, ...]:
    """The statements of accepted.sql, without their comments on the line before."""
    return tuple(re.sub(r"\A(--[^\n]*\n\s*)+", "", statement) for statement in split((FOLDER / "accepted.sql").read_text()))


@cache
def refused() -> tuple[tuple[str, str, str, str], ...]:
    """The blocks of refused.sql: class, code and first words of the reason, and the statement."""
    found = []
    for block in (FOLDER / "refused.sql").read_text().split("\n\n"):
        expected = re.match(r"-- (SqlError|Unsupported) ([a-z-]+): (.+)\n", block)
        if expected is not None:
            found.append((expected[1], expected[2], expected[3], block[expected.end():].rstrip("\n")))
    return tuple(found)


def values(names: tuple[str, ...]) -> dict[str, Any]:
    """Values for the parameters of a statement of the corpus."""
    known: dict[str, Any] = {"sex": "f", "active": True, "born": dt.date(1990, 1, 1), "fraction": 0.25, "ages": (30, 40)}
    return {name: known.get(name, 30) for name in names}
