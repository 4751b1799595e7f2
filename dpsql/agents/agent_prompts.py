"""Texts for a model: the instructions of the server, and the prompt for planning several statements within a budget."""

from __future__ import annotations

INSTRUCTIONS = """\
Ask SQL of confidential tables. Answers are statistics with noise that protects each {entity}; no row can be shown. Each
statement is charged to a privacy budget that is never refilled. These are free: `catalogue`, `price`, `explain`, `released`,
`check_claims`, and a statement that was answered before. First read `catalogue`, then look into `released`, then `price` a
statement before you `ask` it. Write one GROUP BY instead of many statements: its groups together cost as much as one. State
every number with its interval, and pass a text to `check_claims` before you hand it over.\
"""


def analyse(question: str) -> str:
    """The prompt for a question about the data, which may take several statements."""
    return f"""\
Answer this question with the tools of dpsql: {question}

1. Free first. Read `catalogue` (tables, declared values, what is left today). Look into `released`: what was told before may be
   enough, and asking it again is free.
2. Plan the budget. List the statements that you need, and merge them: one GROUP BY for all groups, several aggregates in one
   SELECT. Call `price` for each, and compare its expected standard error with the difference that matters for the question. A
   statement whose error is too large to be of use should not be asked. `OPTIONS (epsilon = 0.1)` after SELECT WITH
   DIFFERENTIAL_PRIVACY states another price; half the price is twice the error. Keep a third of what is left for questions that
   follow.
3. Ask the most important statement first, with a `purpose` for the owner of the data and with `most` a little above its price.
   Then decide whether the next one is still needed. After an error read its advice; do not repeat the same statement.
4. Report each number with its interval. Say nothing about individuals, and nothing that the intervals leave open. Call
   `check_claims` with your text, and correct what is contradicted.
"""
