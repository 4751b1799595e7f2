"""Writes the corpus anew: PYTHONPATH=.:tests python tests/corpus/write_corpus.py

The statements are those of the grammar and of the golden answers.

A statement of the golden answers is kept if plain DuckDB and dpsql without noise give the same cells. The cells of `LIMITED` are
those of DuckDB over a view that clamps values and limits rows as the policy says.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
from corpus.corpus_engines import Dpsql, PlainDuckDB, tables
from corpus.run_corpus import HERE, Answered, Refused, same, shown
from support import worlds
from support.golden.comparison import FOLDER, ranked, released, texts
from support.golden.dense import dense
from support.grammar_sentences import refused

PEOPLE = 150
MOST_OF_A_CODE = 6  # refused statements of one code
MOST_ROWS = 30
PAYMENTS = "payment_id INTEGER PRIMARY KEY, person_id INTEGER, kind VARCHAR, amount INTEGER"
IN_POLICY = """
[tables.payments]
key = "payment_id"
foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]
rows_per_entity = { person = 2, household = 8 }
[tables.payments.columns]
payment_id = {}
person_id = {}
kind = { values = ["card", "cash"], nullable = false }
amount = { bounds = [0, 100], decimals = 0 }

[budgets.person]"""
AS_LIMITED = """CREATE VIEW payments AS SELECT * REPLACE (LEAST(GREATEST(amount, 0), 100) AS amount) FROM loaded.payments
QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY payment_id) <= 2"""
LIMITED = (
    "SELECT COUNT(*) FROM payments",
    "SELECT SUM(amount) FROM payments",
    "SELECT COUNT(amount), AVG(amount) FROM payments",
    "SELECT kind, COUNT(*) FROM payments GROUP BY kind",
    "SELECT kind, SUM(amount) FROM payments GROUP BY kind",
    "SELECT kind, COUNT(*), SUM(amount), AVG(amount) FROM payments GROUP BY kind",
    "SELECT COUNT(DISTINCT person_id) FROM payments",
    "SELECT VAR_POP(amount) FROM payments",
    "SELECT COUNT(*) FROM payments WHERE kind = 'cash'",
    "SELECT SUM(amount) FILTER (WHERE kind = 'card') FROM payments",
    "SELECT sex, SUM(amount) FROM payments JOIN people USING (person_id) WHERE sex IS NOT NULL GROUP BY sex",
    "SELECT COUNT(*) FROM payments JOIN people USING (person_id) WHERE age >= 40",
)


def main() -> None:
    write_tables()
    ours, plain = Dpsql(HERE), PlainDuckDB(HERE)
    write("accepted.test", accepted(ours, plain), "Statements that are answered. Their cells are those of plain SQL over the tables.")
    write("limited.test", limited(ours), "Statements over payments: some amounts are out of bounds, and some people have more rows than the limit.")
    write("refused.test", refusals(ours), "Statements that have to be refused, each below the code and the reason that dpsql gives.")


def write(name: str, blocks: Iterator[str], about: str) -> None:
    (HERE / name).write_text("\n\n".join([f"# {about}", *blocks]) + "\n", encoding="utf-8")


# -- the tables


def write_tables() -> None:
    rows = {**dense(people=PEOPLE).rows, "payments": payments()}
    connection = duckdb.connect(":memory:")
    script = []
    for table, columns in {**worlds.SCHEMA, "payments": PAYMENTS}.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
        worlds.insert(connection, table, rows[table])
        connection.execute(f"COPY {table} TO '{HERE}/{table}.csv' (NULLSTR '', HEADER)")
        script += [f"CREATE TABLE {table} ({columns});", f"COPY {table} FROM '{table}.csv' (NULLSTR '', ALLOW_QUOTED_NULLS false, HEADER);"]
    (HERE / "tables.sql").write_text("\n".join(script) + "\n", encoding="utf-8")
    policy = worlds.POLICY.replace("\n[budgets.person]", IN_POLICY, 1).strip()
    (HERE / "policy.toml").write_text(policy + "\n", encoding="utf-8")


def payments() -> list[tuple[Any, ...]]:
    """Up to five payments of a person, all alike: whichever two of them are kept, the sums are the same."""
    draw, found = random.Random(3), []
    for person in range(PEOPLE):
        kind, amount = draw.choice(["card", "cash"]), draw.choice([-40, 0, 10, 25, 60, 100, 250])
        found += [(kind, amount, person)] * draw.choice([0, 1, 1, 2, 5])
    return [(number, person, kind, amount) for number, (kind, amount, person) in enumerate(found)]


# -- the statements


def accepted(ours: Dpsql, plain: PlainDuckDB) -> Iterator[str]:
    for text in map(in_lines, texts(FOLDER / "answers.sql")):
        try:
            expected, found = plain.answer(text), ours.answer(text)
            _, question = released(text, ours.session)
        except (Refused, ValueError):
            continue
        if question is not None and ranked(question):
            continue
        order = "nosort" if question is not None and question.ordering else "rowsort"
        if 0 < len(expected.rows) <= MOST_ROWS and agree(expected, found, order):
            yield query(text, expected, found, order)


def in_lines(text: str) -> str:
    """The statement without comments and empty lines, which would end a record."""
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("--"))


def agree(expected: Answered, found: Answered, order: str) -> bool:
    ordered = sorted if order == "rowsort" else list
    pairs = [ordered([shown(value) for value in row] for row in answered.rows) for answered in (expected, found)]
    return len(pairs[0]) == len(pairs[1]) and all(all(map(same, a, b)) for a, b in zip(*pairs, strict=True))


def limited(ours: Dpsql) -> Iterator[str]:
    connection = tables(HERE)
    connection.execute("CREATE SCHEMA loaded; ALTER TABLE payments RENAME TO as_loaded; CREATE VIEW loaded.payments AS FROM as_loaded")
    connection.execute(AS_LIMITED)
    for text in LIMITED:
        expected = Answered(connection.execute(text).fetchall())
        yield query(text, expected, ours.answer(text), "rowsort")


def query(text: str, expected: Answered, found: Answered, order: str) -> str:
    rows = [[shown(value) for value in row] for row in expected.rows]
    kinds = "".join(kind([row[i] for row in expected.rows]) for i in range(len(rows[0])))
    bounds = [f"# {name} {most:.10g}" for name, most in sorted(found.bounds.items(), key=lambda item: item[0] != "rows")]
    rows = sorted(rows) if order == "rowsort" else rows
    return "\n".join([*bounds, f"query {kinds} {order}", text, "----", *("\t".join(row) for row in rows)])


def kind(values: Sequence[Any]) -> str:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, int) for value in known):
        return "I"
    return "R" if known and not any(isinstance(value, str | dt.date) for value in known) else "T"


def refusals(ours: Dpsql) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for _, code, reason, text in refused():
        try:
            ours.answer(text)
        except Refused:
            seen[code] += 1
            if seen[code] <= MOST_OF_A_CODE and text.strip() and "\n\n" not in text:
                yield f"# {code}: {reason}\nstatement error\n{text}"


if __name__ == "__main__":
    main()
