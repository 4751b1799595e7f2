"""Names with blanks, quotes, dots and other letters mean what plain ones do: in the policy, and quoted in every kind of statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlglot.tokenizer_core import TokenType
from support import worlds
from support.golden.comparison import FOLDER, PLENTY, compare, short, texts
from support.golden.dense import dense
from support.sessions import session_of

import dpsql
from dpsql.answers.listings import Listing
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, connected, group_densely, lock_down
from dpsql.catalog.writing import key, value
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.sql.text.tokens import tokens_of
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.plan.expr.printing import quote

TABLES = {"people": "the people", "visits": 'say "visit"', "scores": "scores.2020", "clinics": "Kliniken (öffentlich)",
          "households": "select"}
COLUMNS = {"person_id": "person id", "household_id": "household-id", "age": "Âge, années", "sex": "sex?", "income": "100 % income",
           "weight": "weight's", "cost": '"cost"', "clinic": "from", "year": "année", "points": "a.b", "active": "is active?",
           "born": "--born", "beds": "*", "city": "$1", "seen": ":seen", "nickname": "nick/*name", "region": "{# region #}"}
ODD = TABLES | COLUMNS
CHOSEN = texts(FOLDER / "answers.sql")[::3]


def renamed(text: str) -> str:
    """A statement with its names in the other spelling, quoted."""
    made, at = "", 0
    for token in tokens_of(text):
        if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER) and token.text in ODD and text[token.end + 1 : token.end + 2] != "(":
            made, at = made + text[at : token.start] + quote(ODD[token.text]), token.end + 1
        elif token.text.lower() == "year" and token.token_type is not TokenType.STRING and text[token.end + 1 : token.end + 2] != "(":
            made, at = made + text[at : token.start] + quote(ODD["year"]), token.end + 1
    return made + text[at:]


def policy() -> str:
    text = worlds.POLICY
    for name, odd in TABLES.items():
        text = text.replace(f"[tables.{name}", f"[tables.{key(odd)}").replace(f'table = "{name}"', f"table = {value(odd)}")
    text = text.replace('references = "people(person_id)"', "references = 'the people(person id)'")
    text = text.replace('references = "households(household_id)"', "references = '\"select\"(household-id)'")
    text = text.replace('values_from = "clinics.clinic"', "values_from = 'Kliniken (öffentlich).from'")
    for name, odd in COLUMNS.items():
        text = re.sub(rf"^{name} = ", lambda found, odd=odd: f"{key(odd)} = ", text, flags=re.MULTILINE)
        text = re.sub(rf'(columns|key) = "{name}"', lambda found, odd=odd: f"{found[1]} = {value(odd)}", text)
    return text


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    connection = connected(config={"threads": 1})
    dense().fill(connection)
    for table, columns in worlds.SCHEMA.items():
        shown = ", ".join(f"{name} AS {quote(ODD.get(name, name))}" for name in re.findall(r"(?:^|, )(\w+) ", columns))
        connection.execute(f"CREATE TABLE {quote(ODD.get(table, table + ' '))} AS SELECT {shown} FROM {table}")
    group_densely(connection)
    lock_down(connection)
    reader = DuckReader(connection, "v1")
    made = session_of(tmp_path_factory.mktemp("odd"), reader=reader, policy=policy(), noise=Exact(), at=PLENTY)
    yield made
    made.close()


@pytest.mark.parametrize("text", CHOSEN, ids=short)
def test_an_answer_is_duckdbs_under_any_names(text: str, session: Session) -> None:
    assert renamed(text) != text
    assert compare(renamed(text), session) == "", renamed(text)


def test_enough_statements_name_most_of_them() -> None:
    assert len(CHOSEN) >= 40
    unused = {odd for odd in ODD.values() if not any(quote(odd) in renamed(text) for text in CHOSEN)}
    assert unused <= {"select", "household-id", "{# region #}"}  # of the other entity


def test_other_statements_take_quoted_names(session: Session) -> None:
    described = answer('DESCRIBE "the people"', session)
    assert isinstance(described, Listing) and "Âge, années" in [row[0] for row in described.rows]
    shown = answer("SHOW TABLES", session)
    assert isinstance(shown, Listing) and set(TABLES.values()) == {row[0] for row in shown.rows} | {"select"}
    explained = answer('EXPLAIN PRIVACY SELECT "sex?", AVG("100 % income") FROM "the people" GROUP BY ALL', session)
    assert "the people" in str(explained)


def test_a_key_may_be_in_a_file_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "my people.csv").write_text('"person id";"Âge"\n1;30\n2;40\n', encoding="utf-8")
    (tmp_path / "dpsql.toml").write_text("""version = 1
[entities.person]
table = "my people"
key = "person id"
[tables."my people"]
key = "person id"
source = "my people.csv"
csv = { delimiter = ";" }
[tables."my people".columns]
"person id" = { type = "BIGINT" }
"Âge" = { type = "BIGINT", range = [0, 100] }
[budgets.main]
entity = "person"
epsilon = 1000
""", encoding="utf-8")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    with dpsql.connect(policy=tmp_path / "dpsql.toml", budget="main", analyst="ada", epsilon=900) as connection:
        cursor = connection.cursor()
        cursor.execute('SELECT AVG("âge") FROM "my people"')
        ((mean,),) = cursor.fetchall()
    assert abs(mean - 35) < 5
