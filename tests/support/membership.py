"""Attackers who know every row but one, and guess whether that one is there, by what an agent is told.

A world has people with a name, a town and an income. The attacker knows all of it and the row of the target; a fair coin decides
whether the target is in the data. With answers of (epsilon, 0)-differential privacy, no guess is right with a probability above
e^epsilon / (1 + e^epsilon): for any event G ("there"), P(G | there) <= e^epsilon P(G | not there) and the same for its complement,
and the mean of P(G | there) and P(not G | not there) is largest where both are equal.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import duckdb
from scipy.stats import binom
from support import agent_sessions

from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger

POLICY = """
version = 1
database = "people.duckdb"
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {{}}
name = {{}}
town = {{ values = ["a", "b", "c"], nullable = false }}
income = {{ bounds = [0, 100], decimals = 0, nullable = false }}
[budgets.study]
entity = "person"
epsilon = {total}
per_statement = {{ epsilon = {total} }}
agents.robot = {{ per_day = {{ epsilon = {total} }} }}
"""
TARGET = (999, "Zoe Q. Planted", "c", 100)
PEOPLE = [(i, f"person {i}", "abc"[i % 3], i % 100) for i in range(30)]
WHY = "a statistic for the annual report"
Call = Callable[..., Awaitable[Any]]
Attack = Callable[[Call, float, random.Random], Awaitable[bool]]


class Attacked(Frozen, kw_only=False):
    """How often an attacker guessed right, and in how many sessions."""

    right: int
    sessions: int

    def p_value(self, epsilon: float) -> float:
        """The probability of as many right guesses or more, if each is right with the largest probability that is allowed."""
        return float(binom.sf(self.right - 1, self.sessions, bound(epsilon)))


def bound(epsilon: float) -> float:
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def attacked(attack: Attack, epsilon: float, sessions: int, folder: Path, seed: int = 1) -> Attacked:
    """Sessions of an attacker, each with a new coin, a new ledger and a whole budget."""
    coins, right = random.Random(seed), 0
    for number in range(sessions):
        is_there = coins.random() < 0.5
        right += guess(attack, epsilon, world(folder / str(number), epsilon, is_there=is_there), coins) == is_there
    return Attacked(right, sessions)


def world(folder: Path, epsilon: float, *, is_there: bool) -> Path:
    folder.mkdir(parents=True)
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR, town VARCHAR, income INTEGER)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", [*PEOPLE, *([TARGET] if is_there else [])])
    (folder / "dpsql.toml").write_text(POLICY.format(total=epsilon), encoding="utf-8")
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return folder / "dpsql.toml"


def guess(attack: Attack, epsilon: float, policy: Path, coins: random.Random) -> bool:
    found: list[bool] = []
    desk = agent_sessions.desk(policy)

    async def conversation(client: Any) -> None:
        async def call(tool: str, **arguments: Any) -> Any:
            return await client.call_tool(tool, arguments)

        found.append(await attack(call, epsilon, coins))

    agent_sessions.talk(agent_sessions.in_memory(desk), conversation)
    desk.connection.close()
    return found[0]


def value(told: Any) -> float:
    return float(told.structured_content["rows"][0][0])


def at(epsilon: float, rest: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon:.6f}) {rest}"


# -- attacks


async def planted_name(call: Call, epsilon: float, coins: random.Random) -> bool:
    """The best there is: the whole budget for the one row."""
    told = value(await call("ask", sql=at(epsilon, f"COUNT(*) FROM people WHERE name = '{TARGET[1]}'"), purpose=WHY))
    return told > 0.5 or (told == 0.5 and coins.random() < 0.5)


async def differencing(call: Call, epsilon: float, coins: random.Random) -> bool:
    """All people, and all people but the target."""
    everybody = value(await call("ask", sql=at(epsilon / 2, "COUNT(*) FROM people"), purpose=WHY))
    others = value(await call("ask", sql=at(epsilon / 2, f"COUNT(*) FROM people WHERE id <> {TARGET[0]}"), purpose=WHY))
    difference = everybody - len(PEOPLE) if coins.random() < 0.5 else everybody - others  # others are known, so both are of use
    return difference > 0.5 or (difference == 0.5 and coins.random() < 0.5)


async def repeats(call: Call, epsilon: float, coins: random.Random) -> bool:
    """The same count in ten forms that are the same question, and in ten that are not, each of these for a tenth of the budget;
    their mean. Whatever is told for free is used too."""
    told = []
    for i in range(10):
        each = at(epsilon / 10, f"COUNT(*) FROM people WHERE town = 'c' AND income >= 100 AND id > {-i}")
        for form in (each, each.lower(), f"  {each} -- again", each.replace("COUNT(*)", "COUNT(*) AS n")):
            made = await call("ask", sql=form, purpose=f"{WHY}, form {coins.random()}")
            told += [] if made.is_error else [value(made)]
    mean = sum(told) / len(told)
    return mean > 0.5 or (mean == 0.5 and coins.random() < 0.5)


async def sums(call: Call, epsilon: float, coins: random.Random) -> bool:
    """A sum in which the target has the largest value that is allowed, and one of everybody else."""
    known = sum(income for _, _, town, income in PEOPLE if town == "c")
    told = value(await call("ask", sql=at(epsilon, "SUM(income) FROM people WHERE town = 'c'"), purpose=WHY))
    return told - known > TARGET[3] / 2


async def adaptive(call: Call, epsilon: float, coins: random.Random) -> bool:
    """Four parts of the budget, each asked only while the evidence is undecided: the sum of log-likelihood ratios decides."""
    evidence = 0.0
    for i in range(4):
        told = value(await call("ask", sql=at(epsilon / 4, f"COUNT(*) FROM people WHERE name = '{TARGET[1]}' AND id > {i + 500}"), purpose=WHY))
        evidence += epsilon / 4 * (abs(told) - abs(told - 1))
        if abs(evidence) > epsilon / 2:
            break
    return evidence > 0 or (evidence == 0 and coins.random() < 0.5)


async def transcript(call: Call, times: int) -> AsyncIterator[str]:
    """The words and the data of free calls and of refused ones. They name nothing that differs between two ledgers."""
    predicates = [f"id = {TARGET[0]}", f"name = '{TARGET[1]}'", "income >= 100", f"id <> {TARGET[0]}"]
    for i in range(times):
        for predicate in predicates:
            for select in ("COUNT(*)", "SUM(income)", "AVG(income)", "COUNT(DISTINCT name)", "MEDIAN(income)"):
                sql = f"SELECT {select} FROM people WHERE {predicate} AND income > {i}"
                for tool in ("price", "explain"):
                    yield _told(await call(tool, sql=sql))
                yield _told(await call("ask", sql=sql, purpose=WHY, most=1e-6))
                yield _told(await call("ask", sql=sql.replace("income >", "incme >"), purpose=WHY))
                yield _told(await call("ask", sql=sql.replace(select, f"{select} + CAST(name AS INTEGER)"), purpose=WHY))
            yield _told(await call("check_claims", text=f"There are 31 people where {predicate}."))
        for name in ("name", "id", "town"):
            yield _told(await call("price", sql=f"SELECT {name}, COUNT(*) FROM people GROUP BY {name}"))
        yield _told(await call("catalogue"))
        yield _told(await call("catalogue", table="people"))
        yield _told(await call("released"))


def _told(made: Any) -> str:
    return repr((made.is_error, [part.text for part in made.content], made.structured_content))


ATTACKS: dict[str, Attack] = {"planted name": planted_name, "differencing": differencing, "repeats": repeats, "sums": sums, "adaptive": adaptive}

