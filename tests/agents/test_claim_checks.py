"""Numbers of a text against released answers: supported, contradicted, not from here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support import agent_sessions

from dpsql.agents.agent_desk import AgentDesk
from dpsql.agents.claim_checks import check_claims
from dpsql.agents.released_columns import MOST_COLUMNS, ReadColumns, answer_of, columns_of
from dpsql.agents.sentences import FoundPhrases
from dpsql.engine.accounts import answers_of, releases_of
from dpsql.frozen import replace

ASKED = ("SELECT health, COUNT(*) AS n, AVG(income) AS income FROM people GROUP BY health", "SELECT COUNT(*) FROM people WHERE female",
         "SELECT AVG(age) FROM person_years", "SELECT female, COUNT(*) AS n FROM people GROUP BY female", "SELECT site, COUNT(*) AS n FROM people GROUP BY site")
S, C, N = "supported", "contradicted", "not from here"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> AgentDesk:
    made = agent_sessions.desk(agent_sessions.study(tmp_path_factory.mktemp("claims"), ""))
    for sql in ASKED:
        made.ask(sql, "to check claims against it")
    return made


@pytest.mark.parametrize(("text", "verdicts"), [
    ("There are {excellent:,} people in excellent health.", [S]),
    ("There are 5,000 people in excellent health.", [C]),
    ("About {good:,} people are in good health, and {fair} in fair health.", [S, S]),
    ("Excellent: {excellent:,} people; good: 9,999 people.", [S, C]),
    ("The average income with excellent health is about {rich:,} dollars; with poor health it is 12,000.", [S, C]),
    ("Between 3,000 and 4,000 people are in excellent health.", [S]),
    ("About 55 % of the people are in excellent health.", [S]),
    ("10 % are in excellent health.", [C]),
    ("There are {female:,} female people.", [S]),
    ("The mean age is {age:.1f} years.", [S]),
    ("The mean age is 31.0 years.", [C]),
    ("In 1974 the study began.", [N]),                                                  # no measure
    ("{excellent:,} took part.", [N]),                                                  # no group
    ("Some {excellent:,} people in excellent health had a physical limitation.", [N]),  # about another column
    ("The average mental health index is 70.", [N]),                                    # never asked
    ("There are {excellent:,} people in excellent or good health.", [N]),               # two groups
    ("Excellent and good health have 5,300 people.", [N]),
    ("Of these people, health is excellent for {excellent:,} and good for {good:,}.", [S, S]),
    ("Of these people, health is excellent for {good:,} and good for {excellent:,}.", [C, C]),  # exchanged
    ("In site 3 there are {site:,} people; in site 4 there are 17.", [N, S, N, C]),
    ("The median income is 8,400 dollars.", [N]),
    ("", []),
], ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_a_claim_is_judged(text: str, verdicts: list[str], asked: AgentDesk) -> None:
    health, female, age, _, site = (asked.ask(sql, "to check claims against it").data["rows"] for sql in ASKED)
    counts = {row[0]: row[1] for row in health}
    made = asked.check_claims(text.format(**counts, rich=round(health[0][2]), female=female[0][0], age=age[0][0], site=site[2][1])).data
    assert [found["verdict"] for found in made["findings"]] == verdicts
    for found in made["findings"]:
        assert (found["released"] is None) == (found["verdict"] == N)
        if found["verdict"] == S:
            assert found["sql"] in ASKED and found["released"]["low"] <= found["released"]["high"]


def test_shares_contain_the_shares_of_all_tables_within_the_intervals(asked: AgentDesk) -> None:
    catalog = asked.connection.session.catalog
    columns = [column for entry in releases_of(asked.connection.session) for column in columns_of(entry, catalog) if column.sql == ASKED[0]]
    counts, shares = ([*column.cells.values()] for column in (columns[0], next(column for column in columns if column.percent)))
    assert len(counts) == len(shares) == 4
    for corner in range(16):
        values = [cell.high if corner >> i & 1 else cell.low for i, cell in enumerate(counts)]
        for value, share in zip(values, shares, strict=True):
            assert share.low - 1e-9 <= 100 * value / sum(values) <= share.high + 1e-9


def test_a_claim_about_what_another_account_was_told_is_not_from_here(asked: AgentDesk) -> None:
    other = agent_sessions.desk(asked.connection.session.ledger.path.parent / "dpsql.toml", "eve")
    assert other.check_claims("There are 3,282 people in excellent health.").data["not_from_here"] == 1


def test_answers_that_others_shared_count_once_they_were_told(tmp_path: Path) -> None:
    """And no others: a verdict would tell what the ledger has no record of. What `released` shows is the same."""
    policy = agent_sessions.study(tmp_path, "")
    policy.write_text(policy.read_text(encoding="utf-8").replace("[budgets.study]\n", "[budgets.study]\nshare_answers = true\n"), encoding="utf-8")
    ada, eve = agent_sessions.desk(policy, "ada"), agent_sessions.desk(policy, "eve")
    told = ada.ask("SELECT health, COUNT(*) AS n FROM people GROUP BY health", "to compare health by group")
    text = f"There are {told.data['rows'][0][1]:,} people in excellent health."
    assert [eve.check_claims(text).data[verdict] for verdict in ("supported", "not_from_here")] == [0, 1]
    assert answers_of(eve.connection.session) == [], "nothing was told by that"
    assert eve.ask("select health, count( * ) AS n from people group by health", "to compare health as well").data["stored"]
    finding, = eve.check_claims(text).data["findings"]
    assert (finding["verdict"], finding["shared"]) == (S, True)
    assert "shared by another account" in eve.check_claims(text).words and "select health" in finding["sql"]
    number = finding["statement"]
    assert eve.released(number).data["answer"]["rows"] == told.data["rows"]
    finding, = ada.check_claims(text).data["findings"]
    assert (finding["verdict"], finding["shared"]) == (S, False)
    for desk in (ada, eve):
        desk.connection.close()


def test_a_shared_answer_to_another_statement_is_no_answer_to_this_one(asked: AgentDesk) -> None:
    """The counts of another account may be a part of what a different statement was answered with."""
    entry = answers_of(asked.connection.session)[0]
    told = replace(entry, told=7, paid_sql=entry.sql)
    assert answer_of(told) == answer_of(entry) and answer_of(entry) is not None
    assert answer_of(replace(told, sql=f"{ASKED[0].lower()}  -- as written by somebody else")) == answer_of(entry)
    for sql in (f"{ASKED[0].replace(' GROUP', ' WHERE female GROUP')}", ASKED[1], "SHOW BUDGET", "nothing"):
        assert answer_of(replace(told, sql=sql)) is None


def test_texts_and_answers_that_are_made_to_take_long_do_not(asked: AgentDesk) -> None:
    """Seconds of the processor: some of these took 70 before, and the longest takes about one."""
    catalog, entries = asked.connection.session.catalog, answers_of(asked.connection.session)
    many = [replace(entry, seq=number) for number, entry in enumerate(entries * 200)]
    rising = "-".join(map(str, range(1, 12_000)))
    texts = ("A. " * 15_000 + "people " + rising, "± 7. A" * 16_000 + " people 7 excellent" * 200, "1) \n" * 25_000,
             "people 7 excellent " * 5000, "site 3 people site 4 7, " * 4000, "There are 3,282 people in excellent health. " * 2000,
             " " * 50_000 + "1. " * 16_000, "\n" * 100_000)
    read = ReadColumns()
    for text in texts:
        begun = time.process_time()
        columns, are_all = read.of(many, catalog)
        check_claims(text, columns, catalog)
        assert time.process_time() - begun < 6 and not are_all and len(columns) <= MOST_COLUMNS + 10


def test_words_that_a_text_repeats_without_end_are_given_up(asked: AgentDesk) -> None:
    columns, _ = ReadColumns().of(answers_of(asked.connection.session), asked.connection.session.catalog)
    column = columns[0]
    phrases = {(" ".join(["a"] * number),): next(iter(column.cells.values())) for number in range(1, 500)}
    found, is_whole = check_claims("a " * 40_000 + "7 people", [replace(column, cells=phrases)], asked.connection.session.catalog)
    assert not is_whole and [each.verdict for each in found] == [N]
    assert FoundPhrases("Site 3, the site 34 and SITE-3", frozenset({"site 3", "34", "", "-", "te"})).within(0, 100) == [
        (0, 6, "site 3"), (17, 19, "34"), (24, 30, "site 3")]


def test_a_value_with_a_hyphen_is_found(asked: AgentDesk) -> None:
    assert FoundPhrases("in the Mid-West", frozenset({"mid-west"})).within(0, 20) == [(7, 15, "mid-west")]


def test_nothing_is_charged(asked: AgentDesk) -> None:
    before = asked.connection.budget().spent
    asked.check_claims("There are 3,282 people in excellent health. " * 50)
    assert asked.connection.budget().spent == before


def test_a_text_that_is_too_long_is_compared_in_part(asked: AgentDesk) -> None:
    assert asked.check_claims("One 7. ").data["whole"]
    for text in ("7 " * 1000, "word " * 30_000):
        told = asked.check_claims(text)
        assert not told.data["whole"] and "too long" in told.words
