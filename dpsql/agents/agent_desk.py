"""What an agent can have done: each tool as a function of a connection, without a word about the protocol.

A result is a `ToolResult`. Errors are errors of dpsql.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsql.agents.claim_checks import check_claims
from dpsql.agents.price_limits import Quote, exceeds, has_grown, most_in, unit_of
from dpsql.agents.public_facts import budget_as_data, examples, table_as_data, today_as_data, today_in_words
from dpsql.agents.purposes import with_purpose
from dpsql.agents.released_columns import ReadColumns
from dpsql.agents.shown_results import answer_as_data, answer_in_words, rows_as_data
from dpsql.agents.text_numbers import MOST_TEXT
from dpsql.agents.tool_results import ToolResult, claims_result, released_answer, released_list
from dpsql.answers.display import printable
from dpsql.catalog.sections import suggest
from dpsql.engine.accounts import answers_of, releases_of
from dpsql.engine.answering import PlannedStatement, quoted, with_all_tables
from dpsql.errors import BudgetExhausted, Error, OptionError, ProgrammingError
from dpsql.sql.text.parse import parse, parse_check
from dpsql.sql.text.statement import Drop, DropStandingQuery

if TYPE_CHECKING:
    from dpsql.catalog.price import Price
    from dpsql.dbapi import Connection, Cursor
    from dpsql.planning.explain import Explanation

LONGEST_QUESTION = 4000  # letters of a statement that are shown to a person


class AgentDesk:
    """The tools of one connection, for one thread at a time: tools read its ledger between two statements (see `agent_seats`)."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._columns = ReadColumns()
        self._last: tuple[str, str, PlannedStatement] | None = None  # the statement that was priced last, with its data version

    # -- what is free

    def catalogue(self, table: str | None = None) -> ToolResult:
        """The public facts: tables, what is protected, the budget, and statements to begin with. With `table`, only that one, and
        more of its values."""
        session = with_all_tables(self.connection.session)
        catalog = session.catalog
        if table is not None and catalog.table(table) is None:
            raise ProgrammingError(f"there is no table {table} to query", code="unknown-table", subject=table,
                                   try_=suggest(table, catalog.tables))
        shown = [catalog.table(table)] if table is not None else [*catalog.tables.values()]
        tables = [table_as_data(each, catalog, whole=table is not None) for each in shown if each is not None]
        spending = self.connection.budget()
        terms, today = session.budget.agents.get(session.analyst), today_as_data(session)
        data: dict[str, Any] = {
            "analyst": session.analyst, "budget": session.budget.name, "protects": catalog.entity.name,
            "unit": unit_of(session.budget), "usual_price": None if session.price is None else str(session.price),
            "confidence": float(session.confidence),
            "accounts": budget_as_data(spending), "failures_left": spending.incidents_left,
            "today": today,
            "confirm_above": None if terms is None or terms.confirm_above is None else str(terms.confirm_above),
            "tables": tables, "examples": [] if table is not None else _parsed(examples(catalog)),
            "notes": list(self.connection.notes)}
        usual = data["usual_price"]
        left = [f"{each['of']}: {each['left']} left" for each in data["accounts"]]
        left += [] if today is None else [today_in_words(today)]
        lines = [f"Answers protect each {catalog.entity.name}.",
                 f"A statement without a price costs {usual}." if usual else "Each statement has to state a price in OPTIONS.",
                 f"Budget {session.budget.name}: {'; '.join(left)}",
                 *(f"{each['name']} ({'public' if each['public'] else 'private'}): "
                   + ", ".join(column["name"] for column in each["columns"]) for each in tables)]
        return ToolResult(data=data, words="\n".join(lines))

    def price(self, sql: str) -> ToolResult:
        """What a statement would cost now, and how accurate its answer would be expected to be."""
        planned, quote = self._priced(sql)
        told = planned.plan.explain()
        return ToolResult(data=self._quoted(quote, told, planned), words=self._quote_in_words(quote, told))

    def explain(self, sql: str) -> ToolResult:
        """The plan of a statement: what one entity can change, how it is measured, and why so."""
        planned, quote = self._priced(sql)
        told = planned.plan.explain()
        return ToolResult(data=self._quoted(quote, told, planned) | {"plan": str(told).splitlines()}, words=str(told))

    def released(self, number: int | None = None, contains: str = "", offset: int = 0) -> ToolResult:
        """What the account was told before: a list of statements or, by its number, the answer to one of them."""
        if offset < 0:
            raise OptionError("an offset is 0 or more", code="argument", subject="offset", source="the call")
        session = self.connection.session
        if number is not None:
            return released_answer(number, answers_of(session), offset)
        return released_list([entry for entry in releases_of(session) if contains.lower() in entry.sql.lower()], offset)

    def check_claims(self, text: str) -> ToolResult:
        """The numbers of a text, each compared with what was released to this account, and with what it was told of others."""
        session = self.connection.session
        columns, are_all = self._columns.of(answers_of(session), session.catalog)
        found, is_compared = check_claims(text, columns, session.catalog)
        return claims_result(found, is_whole=len(text) <= MOST_TEXT and is_compared, are_all=are_all)

    # -- what may be charged

    def question_for_person(self, sql: str, most: float | None) -> str | None:
        """The question to a person before a statement is asked; None if its price needs no consent, or is refused anyway."""
        session = self.connection.session
        terms = session.budget.agents.get(session.analyst)
        if terms is None or terms.confirm_above is None:
            return None
        _, quote = self._priced(sql)
        if not exceeds(quote, terms.confirm_above, session.budget) or not self._has_room(quote) or exceeds(
                quote, most_in(session.budget, most), session.budget):
            return None
        told = printable(sql.strip())
        more = f"... ({len(told) - LONGEST_QUESTION} more letters)" if len(told) > LONGEST_QUESTION else ""
        return (f"{session.analyst} asks the budget {session.budget.name} for a statement that costs {quote}, above "
                f"{terms.confirm_above}, which needs your consent:\n{told[:LONGEST_QUESTION]}{more}")

    def ask(self, sql: str, purpose: str, most: float | None = None, *, is_agreed: bool = False) -> ToolResult:
        """The answer to a statement. Nothing is charged if it costs more than `most`, or lacks the consent that it needs."""
        session = self.connection.session
        text, limit = with_purpose(sql, purpose), most_in(session.budget, most)
        statement = parse(sql)
        if isinstance(statement, Drop):
            raise ProgrammingError("an agent does not drop tables", code="agent", try_="the owner, or another name")
        if isinstance(statement, DropStandingQuery):
            raise ProgrammingError("an agent has no standing queries", code="agent", try_="the query itself, or the owner")
        planned, quote = self._priced(sql)
        if exceeds(quote, limit, session.budget):
            raise BudgetExhausted(f"the statement costs {quote}, more than the {limit} that you allow; nothing was charged",
                                  code="above-most", subject="most", try_="a larger `most`, a smaller price in OPTIONS, or a "
                                                                          "statement that was answered before, which is free")
        terms = session.budget.agents.get(session.analyst)
        if not is_agreed and terms is not None and exceeds(quote, terms.confirm_above, session.budget):
            raise self._without_consent(quote, terms.confirm_above)
        planned = self.connection.planned(text)  # with the purpose, and at the price that was just compared
        if has_grown(self._quote(planned), quote, session.budget):
            raise BudgetExhausted("the price has changed meanwhile; nothing was charged", code="price-changed",
                                  try_="the same again")
        cursor = self.connection.execute(planned)
        self._last = None
        return self._answered(cursor, planned, quote)

    def validate(self, queries: Sequence[str], table: str, within: str, purpose: str, most: float | None = None,
                 options: str = "", *, is_agreed: bool = False) -> ToolResult:
        """Whether a synthetic or public table answers queries as the private one does: see `validate_statement`."""
        return self.ask(validate_statement(queries, table, within, options), purpose, most, is_agreed=is_agreed)

    # -- how

    def _priced(self, sql: str) -> tuple[PlannedStatement, Quote]:
        """The plan of a statement and its price. The plan of the last one is kept, as an agent asks what it has just priced."""
        version = self.connection.session.kernel.version
        last = self._last
        stays = last is not None and last[:2] == (sql, version) and not self.connection.session.catalog.grows
        planned = last[2] if last is not None and stays else self.connection.planned(sql)
        self._last = sql, version, planned
        return planned, self._quote(planned)

    def _quote(self, planned: PlannedStatement) -> Quote:
        price, charge = quoted(planned)
        return Quote(price=price, charge=charge)

    def _without_consent(self, quote: Quote, most: Price | None) -> BudgetExhausted:
        """The error for a statement that needs the consent of a person and has none."""
        session = self.connection.session
        where = f"[budgets.{session.budget.name}.agents.{session.analyst}]"
        if not self._has_room(quote):
            return BudgetExhausted(f"the statement costs {quote}, and what is left does not pay for it, so no person was asked "
                                   "for the consent that it needs", try_="a smaller price in OPTIONS; see catalogue")
        return BudgetExhausted(f"the statement costs {quote}; above {most} a person has to agree, and nobody did; nothing was "
                               "charged", code="needs-consent", subject="confirm_above",
                               try_="a smaller price in OPTIONS; a client that shows questions to a person (elicitation); or the "
                                    f"owner, who sets confirm_above in {where}")

    def _has_room(self, quote: Quote) -> bool:
        """Whether what is left now pays for a statement."""
        session, due = self.connection.session, quote.charge
        session.ledger.refresh()
        return due is None or all(most.allows(session.ledger.spent(session.budget.name, whose) + due)
                                  for whose, most in session.limits.items())

    def _quoted(self, quote: Quote, told: Explanation, planned: PlannedStatement) -> dict[str, Any]:
        session = self.connection.session
        terms = session.budget.agents.get(session.analyst)
        price = quote.price
        return {
            "cost": str(quote), "free": quote.is_free, "stored": told.stored,
            "epsilon": None if price is None or price.epsilon is None else float(price.epsilon),
            "rho": None if price is None or price.rho is None else float(price.rho),
            "affordable": self._has_room(quote),
            "needs_consent": terms is not None and exceeds(quote, terms.confirm_above, session.budget),
            "expected": [{"of": each.aggregate, "standard_error": each.error, "note": each.named} for each in told.expected],
            "columns": [{"name": column.name, "type": column.type.value} for column in planned.plan.columns],
            "groups": told.groups, "left": list(told.left), "today": today_as_data(session), "notes": list(told.notes)}

    def _quote_in_words(self, quote: Quote, told: Explanation) -> str:
        lines = [f"Cost: {quote}" + (" (answered before)" if told.stored else "")]
        lines += [f"Expected standard error of {each.aggregate}: "
                  + ("depends on the data" if each.error is None else f"{each.error:.4g}") for each in told.expected]
        today = today_as_data(self.connection.session)
        lines += [f"Left: {line}" for line in told.left]
        return "\n".join([*lines, *([] if today is None else [f"Left {today_in_words(today)}"])])

    def _answered(self, cursor: Cursor, planned: PlannedStatement, quote: Quote) -> ToolResult:
        session = self.connection.session
        answer, made = cursor.answer, cursor.made
        if answer is not None:
            table, words, notes = answer_as_data(answer), answer_in_words(answer), answer.notes
        else:
            described = cursor.description or []
            rows = cursor.fetchall() if described else []
            table = rows_as_data([column[0] for column in described], [column[1] for column in described], rows)
            words, notes = str(made) if made is not None else f"{len(rows)} rows", getattr(made, "notes", ())
        identity, data_of = (getattr(planned.plan, name, None) for name in ("identity", "data"))
        known = session.ledger.answered(session.account, identity, data_of or session.kernel.version) if identity else None
        stored = bool(getattr(made, "stored", False))
        data = table | {"cost": "nothing" if stored else str(quote), "number": known[0] if known else None, "stored": stored,
                        "notes": list(notes),
                        "left": [account.left() for account in self.connection.budget().accounts]}
        told = f"Intervals hold with probability {answer.confidence:g}. " if answer is not None else ""
        lines = [words, f"{told}Cost: {data['cost']}.", *(f"Note: {note}." for note in notes)]
        return ToolResult(data=data, words="\n".join(lines))


def validate_statement(queries: Sequence[str], table: str, within: str, options: str = "") -> str:
    """The VALIDATE statement for some queries. Raises a located error if one of them is none."""
    if not queries:
        raise ProgrammingError("there is no query to validate", code="empty", try_="SELECT COUNT(*) FROM ...")
    for query in queries:
        parse_check(query)
    texts = [query.strip().rstrip(";").strip() for query in queries]
    parts = ", ".join(each if each.startswith("(") else f"({each})" for each in texts)
    return f"VALIDATE {parts} AGAINST {table} WITHIN {within}" + (f" OPTIONS ({options})" if options else "")


def _parsed(statements: Sequence[str]) -> list[str]:
    """Those that are statements: a name can be a word of SQL."""
    found = []
    for text in statements:
        try:
            parse(text)
        except Error:
            continue
        found.append(text)
    return found
