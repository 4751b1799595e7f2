"""One analyst's connection as clients of PostgreSQL see it: from their SQL to columns, rows, notices and errors.

Each statement is of one of the KINDS below, which say how it is recognised, described and answered. Only statements of dpsql are
ever charged, alone or as the query of a COPY.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from sqlglot import exp

from dpsql.answers.answer import Answer
from dpsql.answers.listings import price_in_words
from dpsql.catalog.model import Catalog
from dpsql.dbapi import Connection, Cursor
from dpsql.engine.accounts import left_if_known
from dpsql.engine.answering import session_for, tables_named, with_all_tables
from dpsql.errors import Error, InternalError, Interrupted, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.server.front.catalogue.catalog_queries import CatalogDatabase, parameter_kinds, read_question
from dpsql.server.front.catalogue.catalog_rewriting import Asking
from dpsql.server.front.catalogue.shared_catalogues import SharedCatalogues
from dpsql.server.front.statements import oversight
from dpsql.server.front.statements.copy_statements import CopyStatement, read_copy
from dpsql.server.front.statements.copying import copied_outcome, described_copy
from dpsql.server.front.statements.database_names import without_database
from dpsql.server.front.statements.described import columns_of, count_of, describe_with, kind_of
from dpsql.server.front.statements.interruption import Interruption
from dpsql.server.front.statements.leaving_times import give_up_turn, leave_after, stopped_for, waits_told
from dpsql.server.front.statements.shown_answers import ENTRY, ShownAnswer, ShownToAccounts, current, key_of
from dpsql.server.front.statements.statements_about_connection import SETTING_WORDS, AboutConnection, Settings, read_setting
from dpsql.server.front.statements.transaction_status import first_word
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Notice, OutcomeOnWire, RefusedOnWire
from dpsql.server.front.terms.figured_names import names_on_wire
from dpsql.server.front.terms.sqlstates import cancelled, refusal_on_wire
from dpsql.server.link.vault_calls import REQUEST, TIMEOUT
from dpsql.sql.text import border
from dpsql.sql.text.parse import parse
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Query, Statement

OF_ROWS = ("star", "no-aggregate", "group-by")  # why rows of a private table are refused
VERSION = "15.0"  # of PostgreSQL, whose catalogue clients will ask for
MOST, LEAST = 2**63 - 1, -(2**63)
STORED = "cost: nothing, as this was answered before"
SHARED = f"{STORED} for another analyst of this budget"
STOPPED = ("interrupted", "cancelled")  # codes of a statement that was interrupted before its charge
Made = TypeVar("Made")
_AGAIN = 0.02  # seconds between two attempts to interrupt: one that comes before a statement has begun is lost


class ConnectionSeat:
    """A seat over a connection, whatever is behind it. `opened` tells the connection of a user to a database."""

    def __init__(self, connection: Connection, *, user: str, database: str, startup: Mapping[str, str],
                 shown: ShownToAccounts | None = None, catalogues: SharedCatalogues | None = None) -> None:
        """`shown` is what seats share of what was shown; None if nothing is kept. `catalogues` are databases that seats share."""
        self._connection, self._user, self._database = connection, user, database
        self._shown, self._catalogues = shown, catalogues
        self._settings = Settings(version=VERSION, startup=startup, user=user)
        self._busy, self._was_cancelled, self._interruption = threading.Lock(), threading.Event(), Interruption()
        self._given: Sequence[str] = ()  # the kinds of the parameters of the statement that is answered
        self._process = 0
        self._was_late = False  # the statement took longer than statement_timeout
        self._catalogue: tuple[object, CatalogDatabase] | None = None

    @property
    def parameter_status(self) -> Mapping[str, str]:
        return self._settings.reported

    def take_process(self, process: int) -> None:
        """Set the process number that is reported to the client."""
        self._process = process

    @property
    def settings_kept(self) -> Mapping[str, str]:
        """What SET has changed so far, which `put_back` restores."""
        return self._settings.kept

    def put_back(self, kept: Mapping[str, str]) -> None:
        """Restore the settings to what they were."""
        if kept != self._settings.kept:
            self._settings.put_back(kept)
            self._connection.set_terms(**self._settings.terms)

    def end_of_local_settings(self) -> None:
        """Restore what SET LOCAL changed, at the end of a transaction."""
        if self._settings.end_of_local():
            self._connection.set_terms(**self._settings.terms)

    def split(self, text: str) -> list[str]:
        """The statements of a simple query."""
        return split(text)

    async def described_lately(self, text: str, given: Sequence[str | None]) -> Described | None:
        """The description that `describe` would give, if it was given recently."""
        if self._shown is None:
            return None
        with self._told(text, timed=False) as text:
            return await current(self._shown.columns, self._connection.session, text, given)

    async def shown_lately(self, text: str, parameters: Sequence[object]) -> OutcomeOnWire | None:
        """The outcome that `execute` would give, if it was shown recently; nothing is planned then."""
        if self._shown is None:
            return None
        with self._told(text, timed=False) as text:
            shown = await current(self._shown.answers, self._connection.session, text, parameters)
            return None if shown is None else shown.again()

    def describe(self, text: str, given: Sequence[str | None]) -> Described:
        """A statement's parameters and columns, without any charge."""
        with self._told(text) as text:
            self._given = ()
            return self._described(text, given)

    def execute(self, text: str, parameters: Sequence[object], kinds: Sequence[str] = ()) -> OutcomeOnWire:
        """Answer one statement; `kinds` are those of its parameters as they were described, by which NULLs have a type."""
        with self._told(text) as text:
            self._given = kinds
            return self._executed(text, parameters)

    def cancel(self, cause: str = REQUEST) -> None:
        """Interrupt the running statement, if there is one. The owner can see the cause."""
        if self._busy.locked():
            self._was_cancelled.set()
            stopped_for(self._connection.session, cause)
            self._interruption.begin(self._connection.interrupting())

    def give_up_turn(self) -> None:
        """Interrupt the running statement if it waits for its turn, as its client has left."""
        if self._busy.locked():
            give_up_turn(self._connection.session)

    def close(self) -> None:
        """Release the resources of the connection."""
        if self._catalogue is not None:
            self._catalogue[1].close()
        self._connection.close()

    # -- the kinds of statements: see KINDS

    def _described(self, text: str, given: Sequence[str | None]) -> Described:
        kind, read = self._recognised(text)
        return kind.describe(self, read, text, given)

    def _executed(self, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        kind, read = self._recognised(text)
        return kind.answer(self, read, text, parameters)

    def _recognised(self, text: str) -> tuple[StatementKind, Any]:
        """The kind of a statement, and what was read of it."""
        word = first_word(text)
        read = ((kind, kind.recognise(self, text)) for kind in KINDS if not kind.words or word in kind.words)
        return next(each for each in read if each[1] is not None)

    def _describe_copy(self, copy: CopyStatement, text: str, given: Sequence[str | None]) -> Described:
        return described_copy(copy, lambda query: self._of_copy(query, lambda inner: self._described(inner, given)))

    def _answer_copy(self, copy: CopyStatement, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        return copied_outcome(copy, lambda query: self._of_copy(query, lambda inner: self._described(inner, ())),
                              lambda query: self._of_copy(query, lambda inner: self._executed(inner, parameters)))

    def _of_copy(self, query: str, work: Callable[[str], Made]) -> Made:
        """What is done with the query of a COPY. Raises RefusedOnWire, with places in the query."""
        with self._in_terms(query) as inner:
            return work(inner)

    def _describe_listing(self, listing: str, text: str, given: Sequence[str | None]) -> Described:
        return Described(parameters=(), columns=oversight.columns_of(listing))

    def _answer_listing(self, listing: str, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        return _rows("SHOW", oversight.columns_of(listing), oversight.rows_of(listing, self._connection))

    def _read_setting(self, text: str) -> AboutConnection | None:
        return read_setting(text, self._settings)

    def _describe_setting(self, about: AboutConnection, text: str, given: Sequence[str | None]) -> Described:
        return Described(parameters=(), columns=about.columns)

    def _answer_setting(self, about: AboutConnection, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        about.apply(self._settings, self._connection)
        return replace(_rows(about.tag, about.columns, about.rows), local=about.local)

    def _describe_question(self, tree: exp.Query, text: str, given: Sequence[str | None]) -> Described:
        kinds = parameter_kinds(tree, given)
        return Described(parameters=kinds, columns=self._asked().describe(tree, kinds))

    def _answer_question(self, tree: exp.Query, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        found = self._asked().ask(tree, parameters, self._given)
        return _rows(f"SELECT {len(found.rows)}", found.columns, found.rows)

    def _describe_nothing(self, read: bool, text: str, given: Sequence[str | None]) -> Described:
        return Described(parameters=(), columns=None)

    def _answer_nothing(self, read: bool, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        return _rows("", None, ())

    def _describe_statement(self, statement: Statement, text: str, given: Sequence[str | None]) -> Described:
        if is_probe(statement) and not count_of(statement):
            return Described(parameters=(), columns=self._columns_of_probe(statement, text, ()))
        session = self._connection.session
        try:
            described = describe_with(statement, text, given, self._connection)
        except Error as fault:
            return Described(parameters=(), columns=self._declared_columns(statement, text, fault))
        described = replace(described, columns=_as_named(described.columns or (), statement, text))
        if self._shown is not None and names_policy_alone(statement, session.catalog):
            self._shown.columns.keep(key_of(session, text, given), described, ENTRY + 4 * len(text))
        return described

    def _answer_statement(self, statement: Statement, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        if is_probe(statement):
            return _rows("SELECT 0", self._columns_of_probe(statement, text, parameters), ())
        return self._answered(statement, text, parameters)

    def _answered(self, statement: Statement, text: str, parameters: Sequence[object]) -> OutcomeOnWire:
        leave_after(self._connection.session, self._settings.pace)
        cursor = self._connection.cursor().ask(statement, text, tuple(parameters))
        columns = tuple(ColumnOnWire(name=name, kind=kind) for name, kind, *_ in cursor.description or ())
        if cursor.answer is not None:
            columns = tuple(ColumnOnWire(name=column.name, kind=kind_of(column)) for column in cursor.answer.columns)
        columns = _as_named(columns, statement, text)
        wide = [at for at, column in enumerate(columns) if column.kind == "BIGINT"]
        rows, held = _in_64_bits(cursor.fetchall(), wide)
        about = [*_notes(cursor), *(f"values of {columns[at].name} beyond 64 bits are shown as the largest or smallest 64-bit "
                                    "number"
                                    for at in held)]
        if cursor.answer is not None and (cursor.answer.stored or cursor.answer.cost):
            self._keep(statement, text, parameters, ShownAnswer(
                tag=f"SELECT {len(rows)}", columns=columns, rows=tuple(rows), notices=_notices((STORED, *about))))
        return _rows(f"SELECT {len(rows)}", columns, rows, (*self._cost(cursor), *waits_told(cursor, text), *about))

    def _keep(self, statement: Statement, text: str, parameters: Sequence[object], shown: ShownAnswer) -> None:
        """Keep how a stored answer is shown: one that was paid for is stored, and from now on shown as such."""
        session = self._connection.session
        if self._shown is not None and names_policy_alone(statement, session.catalog):
            self._shown.answers.keep(key_of(session, text, parameters), shown, ENTRY + 4 * len(text) + shown.size)

    def _cost(self, cursor: Cursor) -> Iterator[str]:
        """What it cost and what is left."""
        made = cursor.made
        if made is not None and made.stored:
            yield SHARED if cursor.answer is not None and cursor.answer.shared else STORED
        elif made is not None and made.cost:
            left = left_if_known(self._connection.session, "all")
            yield f"cost: {made.cost}" + (f"; left: {left}" if left else "")

    def _question(self, text: str) -> exp.Query | None:
        """The tree of a question to the catalogue. One that names no table is one of dpsql where it cannot answer it, as
        where it calls a function that only dpsql has."""
        tree = read_question(text, list(self._connection.session.catalog.tables))
        if tree is None or tree.find(exp.Table) is not None:
            return tree
        try:
            self._asked().describe(tree, parameter_kinds(tree, self._given))
        except Error:
            return None
        return tree

    def _asked(self) -> CatalogDatabase:
        """The catalogue as it is now; the tables of the analyst's own that are made meanwhile come into it."""
        session = self._connection.session
        catalog = with_all_tables(session_for(session)).catalog
        if self._catalogue is None or self._catalogue[0] != catalog.tables.keys():
            if self._catalogue is not None:
                self._catalogue[1].close()
            self._catalogue = catalog.tables.keys(), CatalogDatabase(catalog, self._asking(), self._catalogues)
        found = self._catalogue[1]
        found.asking = self._asking()
        return found

    def _asking(self) -> Asking:
        """Who asks, with the settings as they are now."""
        return Asking(user=self._user, database=self._database, schema=border.PUBLIC, version=f"PostgreSQL {VERSION} (dpsql)",
                      settings=self._settings.values, process=self._process)

    def _columns_of_probe(self, statement: Query, text: str, parameters: Sequence[object]) -> tuple[ColumnOnWire, ...]:
        """The columns of a query that has no row: those of its answer; of rows of a private table, what the policy declares."""
        try:
            return _as_named(columns_of(text, parameters, self._connection), statement, text)
        except Error as fault:
            return self._declared_columns(statement, text, fault)

    def _declared_columns(self, statement: Statement, text: str, fault: Error) -> tuple[ColumnOnWire, ...]:
        """The columns of a query that was refused as it asks for rows of a private table, as the policy declares them: drivers
        describe queries that they never execute. Raises the fault for other statements."""
        if not isinstance(statement, Query) or statement.parameters or fault.code not in OF_ROWS:
            raise fault
        border.check(statement.tree, text)
        with contextlib.suppress(Unsupported):
            return _as_named(self._asked().columns_of_rows(statement.tree), statement, text)
        raise fault

    @contextlib.contextmanager
    def _told(self, text: str, *, timed: bool = True) -> Iterator[str]:
        """As `_in_terms`, for all that a client asks: whether a statement runs, for `cancel`; one that is `timed` ends when it is
        late."""
        with self._busy:
            self._was_cancelled.clear()
            self._was_late = False
            stopped_for(self._connection.session, REQUEST)
            with self._in_terms(text) as text, self._in_time() if timed else contextlib.nullcontext():
                yield text

    @contextlib.contextmanager
    def _in_terms(self, text: str) -> Iterator[str]:
        """The text of a statement, without the database's name. Errors in the terms of PostgreSQL."""
        text = without_database(text, self._database)
        fault: Error | None = None
        try:
            yield text
        except RefusedOnWire:  # of COPY, in these terms already
            raise
        except Error as caught:
            fault = caught
        except Exception:
            fault = InternalError("a fault of the server stopped this", code="fault")
        refusal = None if fault is None else self._refusal(fault, text)
        if refusal is not None:
            raise refusal from None

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        """A context in which a statement is interrupted when it takes longer than statement_timeout, as by `cancel`. The next
        one is never meant."""
        if not (seconds := self._settings.timeout):
            yield
            return
        over = threading.Event()

        def watch() -> None:
            if over.wait(seconds):
                return
            self._was_late = True
            stopped_for(self._connection.session, TIMEOUT)
            while not over.wait(_AGAIN):
                self._connection.interrupt()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _refusal(self, fault: Error, text: str) -> RefusedOnWire:
        was_stopped = self._was_late or self._was_cancelled.is_set()
        if was_stopped and isinstance(fault, Interrupted):
            return cancelled(late=self._was_late, charged=self._last_charge())
        if was_stopped and fault.code in STOPPED:
            return cancelled(late=self._was_late)
        return refusal_on_wire(fault, text)

    def _last_charge(self) -> str:
        """What the statement was charged that just failed, in words."""
        with contextlib.suppress(Error):
            charge = self._connection.session.ledger.last(self._connection.session.account)
            return "" if charge is None else price_in_words(charge)
        return "its price"


class StatementKind(Frozen):
    """Statements that are read, described and answered in one way.

    words      the words that they may begin with; empty for any
    recognise  what such a statement says; None if it is of another kind
    describe   its parameters and columns, from what it says, its text, and the kinds of parameters that the client states
    answer     its outcome, from what it says, its text, and the values of its parameters
    """

    words: Collection[str]
    recognise: Callable[[ConnectionSeat, str], Any]
    describe: Callable[[ConnectionSeat, Any, str, Sequence[str | None]], Described]
    answer: Callable[[ConnectionSeat, Any, str, Sequence[object]], OutcomeOnWire]


_Seat = ConnectionSeat
KINDS = (  # the first one that recognises a statement has it
    StatementKind(words=("COPY",), recognise=lambda seat, text: read_copy(text),
                  describe=_Seat._describe_copy, answer=_Seat._answer_copy),
    StatementKind(words=("SHOW",), recognise=lambda seat, text: oversight.listing_named(text),  # what everybody spent
                  describe=_Seat._describe_listing, answer=_Seat._answer_listing),
    StatementKind(words=(*SETTING_WORDS, "SELECT"), recognise=_Seat._read_setting,
                  describe=_Seat._describe_setting, answer=_Seat._answer_setting),
    StatementKind(words=(), recognise=_Seat._question,  # of the system catalogue
                  describe=_Seat._describe_question, answer=_Seat._answer_question),
    StatementKind(words=(), recognise=lambda seat, text: None if split(text) else True,  # no statement at all
                  describe=_Seat._describe_nothing, answer=_Seat._answer_nothing),
    StatementKind(words=(), recognise=lambda seat, text: parse(text),  # of dpsql
                  describe=_Seat._describe_statement, answer=_Seat._answer_statement),
)


def _notes(cursor: Cursor) -> Iterator[str]:
    """What a reader of an answer should know."""
    made = cursor.made
    if isinstance(made, Answer):
        rough = [column.name for column in made.columns if column.approximate]
        if rough:
            yield f"errors are approximate for {', '.join(rough)}"
    yield from () if made is None else made.notes


def names_policy_alone(statement: Statement, catalog: Catalog) -> bool:
    """Whether a query names only tables of the policy, at least one."""
    named = tables_named(statement) if isinstance(statement, Query) else []
    return bool(named) and all(catalog.table(name) is not None for name in named)


def is_probe(statement: Statement) -> TypeGuard[Query]:
    """Whether the text of a query shows that it cannot return rows. Tools send such queries to learn the columns of a table or a
    query."""
    return isinstance(statement, Query) and has_no_row(statement.tree)


def has_no_row(tree: exp.Query) -> bool:
    """Whether the query has LIMIT 0, or a condition that is never true and no aggregates of its own."""
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal) and limit.expression.name == "0":
        return True
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    return isinstance(where, exp.Where) and _is_never(where.this) and not (
        any(tree.args.get(part) is not None for part in ("group", "having"))
        or any(item.find(exp.AggFunc) is not None for item in tree.selects))


def _is_never(condition: exp.Expr) -> bool:
    match condition:
        case exp.Paren(this=inner):
            return _is_never(inner)
        case exp.And(this=left, expression=right):
            return _is_never(left) or _is_never(right)
        case exp.Boolean(this=value):
            return not value
        case exp.EQ(this=exp.Literal() as left, expression=exp.Literal() as right):
            return left.name.isdigit() and right.name.isdigit() and int(left.name) != int(right.name)
        case exp.NEQ(this=exp.Literal() as left, expression=exp.Literal() as right):
            return left.name.isdigit() and left.name == right.name
    return False


def _in_64_bits(rows: list[tuple[Any, ...]], columns: Sequence[int]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Rows whose whole numbers are in 64 bits, which sums may leave; and the places of the columns where some were not."""
    held = [at for at in columns if any(row[at] is not None and not LEAST <= row[at] <= MOST for row in rows)]
    if not held:
        return rows, []
    return [tuple(min(max(value, LEAST), MOST) if at in held and value is not None else value for at, value in enumerate(row))
            for row in rows], held


def _as_named(columns: Sequence[ColumnOnWire], statement: Statement, text: str) -> tuple[ColumnOnWire, ...]:
    """The columns of a query's answer under the names that PostgreSQL gives them."""
    if not isinstance(statement, Query):
        return tuple(columns)
    names = names_on_wire(statement.tree, text, [column.name for column in columns])
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))


def _rows(tag: str, columns: tuple[ColumnOnWire, ...] | None, rows: Sequence[tuple[object, ...]],
          notices: Iterable[str] = ()) -> OutcomeOnWire:
    return OutcomeOnWire(tag=tag, columns=columns, rows=iter(rows), notices=_notices(notices))


def _notices(texts: Iterable[str]) -> tuple[Notice, ...]:
    return tuple(Notice(text=text) for text in texts)


def seats(connected: Callable[[str, str], Connection]) -> Callable[[str, str, Mapping[str, str]], ConnectionSeat]:
    """A function that opens seats, given one that opens a connection for a user to a database. It raises RefusedOnWire."""
    def open_seat(user: str, database: str, startup: Mapping[str, str]) -> ConnectionSeat:
        fault: Error | None = None
        try:
            return ConnectionSeat(connected(user, database), user=user, database=database, startup=startup)
        except Error as caught:
            fault = caught
        raise refusal_on_wire(fault, "")
    return open_seat
