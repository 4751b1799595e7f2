"""PEP 249 (DB-API 2.0): connections and cursors, which also give errors, intervals, costs and explanations."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast, overload

from dpsql import errors
from dpsql.engine.guard import guarded
from dpsql.errors import InterfaceError
from dpsql.extras import extra
from dpsql.frozen import replace
from dpsql.progress import working
from dpsql.trusted.stopping import stopped_by

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from dpsql.answers.answer import Answer
    from dpsql.answers.asked import Asked
    from dpsql.answers.drawing import Drawing
    from dpsql.answers.spending import Spending
    from dpsql.batch.workload_answers import Answers
    from dpsql.engine.answering import PlannedStatement
    from dpsql.engine.plan import Result
    from dpsql.engine.preparing import Prepared
    from dpsql.engine.session import Session
    from dpsql.ledgers.ledger_reports import Failure
    from dpsql.planning.explain import Explanation
    from dpsql.sql.text.statement import Explained, Option, Query, Statement
    from dpsql.synthesis.online_model import OnlineModel
    from dpsql.synthesis.released_database import ReleasedDatabase
    from dpsql.synthesis.synthetic_table import SyntheticTable
    from dpsql.trusted.accounting.cost import Charge
    from dpsql.validation.findings import Validation

apilevel = "2.0"
threadsafety = 2  # threads may share a connection, whose statements take turns; a cursor is for one thread
paramstyle = "qmark"  # $1 and :name are read too


class _Kind:
    """A PEP 249 type object: equal to the type codes of its kind."""

    def __init__(self, *codes: str) -> None:
        self._codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        return other in self._codes if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self._codes)


STRING, NUMBER, DATETIME = _Kind("VARCHAR"), _Kind("BIGINT", "DOUBLE", "BOOLEAN"), _Kind("DATE", "TIMESTAMP")
BINARY, ROWID = _Kind(), _Kind()

Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes  # the constructors of PEP 249; no column has times or bytes
DateFromTicks, TimestampFromTicks = dt.date.fromtimestamp, dt.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> dt.time:
    return dt.datetime.fromtimestamp(ticks).time()


@guarded
def connect(database: str | Path | None = None, *, policy: str | Path | None = None, budget: str | None = None,
            analyst: str | None = None, epsilon: object = None, delta: object = None, rho: object = None,
            confidence: object = 0.95, ledger: str | Path | None = None) -> Connection:
    """Open a database under a policy.

    database    a DuckDB file, or one CSV or Parquet file; by default, the policy says where the data are
    policy      the policy file; by default, dpsql.toml beside the database or in the current folder
    budget      the name of the budget to spend from; needed where the policy has several
    analyst     the analyst who asks; by default, the login name of the user
    epsilon, delta, rho   the price of a statement that names none; by default, the policy's per_statement
    confidence  of the intervals
    ledger      the ledger file; by default, where the policy says, or beside it

    Warns where the same data were served under another ledger or budget before; `notes` of the connection say so too.
    Raises PolicyError, OptionError, OperationalError or LedgerError.
    """
    from dpsql.engine.background import await_store
    from dpsql.engine.opening import ConnectionTerms, open_session

    terms = ConnectionTerms(budget=budget, analyst=analyst, epsilon=epsilon, delta=delta, rho=rho, confidence=confidence)
    with working("opening the data ..."):
        return Connection(open_session(database, policy, ledger, terms, await_store=await_store))


@guarded
def incidents(*, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
              ledger: str | Path | None = None) -> list[Failure]:
    """The statements of a budget that failed after their charge, by all analysts, oldest first. For the owner.

    Raises PolicyError, OptionError, OperationalError or LedgerError.
    """
    from dpsql.engine import opening

    return opening.incidents(policy=policy, database=database, budget=budget, ledger=ledger)


@guarded
def reopen(analyst: str, *, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
           ledger: str | Path | None = None) -> int:
    """Reopen the account of an analyst that was closed after incidents, or slowed down after late outcomes. For the owner.
    Returns how many of both were forgiven. Raises PolicyError, OptionError, OperationalError or LedgerError."""
    from dpsql.engine import opening

    return opening.reopen(analyst, policy=policy, database=database, budget=budget, ledger=ledger)


@guarded
def prepare(*, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
            ledger: str | Path | None = None, buckets: int | None = None) -> list[Prepared]:
    """Store a copy of the data in buckets of entities, which makes statements much faster. For the owner; see `engine.preparing`.
    Returns a store for each kind of entity that is protected. Raises PolicyError, OptionError, OperationalError, IntegrityError
    or LedgerError."""
    from dpsql.engine import preparing

    return preparing.prepare(policy=policy, database=database, budget=budget, ledger=ledger, buckets=buckets)


@guarded
def refresh(*, policy: str | Path | None = None, ledger: str | Path | None = None, again: bool = False) -> list[str]:
    """Take a new snapshot of the tables in databases such as PostgreSQL, replacing the previous one. For the owner. Closed
    periods of growing tables in PostgreSQL that were read before are read only if they are to be read `again`.

    Returns the names of these tables. Raises PolicyError, OperationalError or IntegrityError; then the snapshot before stays in
    force.
    """
    from dpsql.engine import refreshing

    with working("reading the database ..."):
        return refreshing.refresh(policy=policy, ledger=ledger, again=again)


class Connection:
    """An open database under one budget, for one analyst. Every answered statement is final: there is nothing to roll back.

    `notes` say if the same data were served under another ledger or budget, whose spending is not counted here.
    """

    Warning, Error, InterfaceError, DatabaseError = errors.Warning, errors.Error, errors.InterfaceError, errors.DatabaseError
    DataError, OperationalError, IntegrityError = errors.DataError, errors.OperationalError, errors.IntegrityError
    InternalError, ProgrammingError, NotSupportedError = errors.InternalError, errors.ProgrammingError, errors.NotSupportedError

    def __init__(self, session: Session) -> None:
        self._session: Session | None = session
        self._turn, self._state = threading.RLock(), threading.Lock()
        self._running, self._asked = 0, 0  # the depth of calls under way, and the number of the statement
        self.notes = session.notes
        self._opened = session.price, session.confidence

    @property
    def session(self) -> Session:
        if self._session is None:
            raise InterfaceError("the connection is closed", code="closed", try_="dpsql.connect(...)")
        return self._session

    @contextlib.contextmanager
    def _used(self) -> Iterator[Session]:
        """The session, for one thread at a time: its ledger and its engine serve one statement after another."""
        with self._turn, working("asking ..."), self._numbered(), stopped_by(self.session.interrupted):
            session, awaited = self.session, self.session.awaited
            if awaited is not None:
                awaited.look()
            try:
                yield session
            finally:
                if awaited is not None:
                    awaited.look()

    @contextlib.contextmanager
    def _numbered(self) -> Iterator[None]:
        """The identity of a running statement, for `interrupt`."""
        with self._state:
            self._running += 1
            if self._running == 1 and self._session is not None:
                self._asked += 1
                self._session.interrupted.clear()
        try:
            yield
        finally:
            with self._state:
                self._running -= 1

    def cursor(self) -> Cursor:
        """A new cursor. Raises InterfaceError if the connection is closed."""
        _ = self.session
        return Cursor(self)

    def execute(self, sql: str | PlannedStatement, parameters: Sequence[Any] | Mapping[str, Any] = (), *,
                epsilon: object = None, delta: object = None, rho: object = None) -> Cursor:
        """Run a statement and return a cursor over its answer; see `Cursor.execute`."""
        price = {name: value for name, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if value is not None}
        return self.cursor().execute(sql, parameters, **price)

    sql = execute  # its name in DuckDB

    @guarded
    def explain(self, sql: str | Sequence[str], parameters: Sequence[Any] | Mapping[str, Any] = (),
                **options: Any) -> Explanation:
        """What a query would do and cost; spends nothing. Equivalent to EXPLAIN PRIVACY before the query.

        A list of queries is explained as the workload that it would be, with its options.
        """
        from dpsql.engine.answering import explain, session_for

        if not isinstance(sql, str):
            from dpsql.engine.together import explain_workload

            with self._used() as session:
                queries = _queries(sql)
                return explain_workload(queries, session_for(session, *queries), _options(options), parameters)
        if options:
            raise errors.ProgrammingError("options are part of the statement's text", code="options",
                                          try_="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ...")
        query, _ = _explained(sql)
        with self._used() as session:
            return explain(query, session, parameters)

    @guarded
    def planned(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> PlannedStatement:
        """A statement with its plan, for `engine.answering.charge_of`, and for `execute` in place of its text and parameters."""
        from dpsql.engine.answering import planned

        with self._used() as session:
            return planned(_text(sql), session, parameters)

    @guarded
    def priced(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> tuple[Explanation, Charge | None]:
        """The explanation of a statement, and what it would be charged now (None if it is free). Spends nothing."""
        from dpsql.engine.answering import priced

        query, is_asked = _explained(sql)
        with self._used() as session:
            told, due = priced(query, session, parameters)
        return told, due if is_asked else None

    @guarded
    def describe(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[str, str]]:
        """The names and types of the columns that the answer of a statement will have, as in the `description` of a cursor.

        Nothing is charged, and no private row is read. Raises a located error if the statement is wrong.
        """
        from dpsql.engine.answering import describe

        with self._used() as session:
            return [(column.name, column.type.value) for column in describe(_text(sql), session, parameters)]

    @guarded
    def set_terms(self, *, epsilon: object = None, delta: object = None, rho: object = None, confidence: object = None) -> None:
        """Set the price and the confidence of later statements that give none; by default, those with which the connection was
        opened. Raises OptionError."""
        from dpsql.engine.opening import ConnectionTerms

        price, opened = self._opened
        terms = ConnectionTerms(epsilon=epsilon, delta=delta, rho=rho, confidence=opened if confidence is None else confidence)
        with self._used() as session:
            self._session = replace(session, price=price if terms.price is None else terms.price_under(session.budget),
                                    confidence=terms.exact_confidence)

    def interrupt(self) -> None:
        """Stop the statement that another thread runs on this connection, and return when it has ended; at once if none is
        running.

        Before its charge it ends with an OperationalError. After its charge it raises Interrupted and stays charged, which is no
        incident, unless its last step is already under way.
        """
        self.interrupting()()

    def interrupting(self) -> Callable[[], None]:
        """A function that stops only the statement running now."""
        return functools.partial(self._interrupt, self._asked)

    def _interrupt(self, number: int) -> None:
        while True:  # again and again: a statement makes several queries, one after the other
            with self._state:  # so that no other statement begins meanwhile
                session = self._session
                if session is None or not self._running or self._asked != number:
                    return
                session.interrupted.set()
                session.kernel.interrupt()
            time.sleep(0.02)

    @guarded
    def workload(self, statements: str | Sequence[str], parameters: Sequence[Any] | Mapping[str, Any] = (),
                 **options: Any) -> Answers:
        """Answer many statements over one view together, for one price.

        statements  SELECTs of COUNT and SUM, with any keys and conditions of declared columns; or a script, parted by semicolons
        options     epsilon, delta, rho, confidence, max_rows, strategy; error_within or standard_error, for the least price at
        which all answers are that accurate; epsilon or rho then limits the price

        Together they form one matrix of linear queries, measured once with the best known strategy, so that their answers are
        consistent. Raises a located error if anything is wrong; nothing is charged then.
        """
        from dpsql.engine.answering import session_for
        from dpsql.engine.together import workload

        with self._used() as session:
            queries = _queries(statements)
            made = workload(queries, session_for(session, *queries), _options(options), parameters)
        return replace(made, asked=lambda: self._occasion([query.text for query in queries], parameters, options))

    def _occasion(self, statements: Sequence[str], parameters: Sequence[Any] | Mapping[str, Any],
                  options: Mapping[str, Any]) -> Asked:
        """The head and foot of a page about a workload."""
        from dpsql.engine.accounts import asked_of

        told = self.explain(statements, parameters, **options)
        with self._used() as session:
            return asked_of(session, statements, told, values=_told(parameters))

    @guarded
    def validate(self, queries: str | Sequence[str], *, synthetic: Any, within: object = None, **options: Any) -> Validation:
        """Decide whether a synthetic table answers queries like the private one.

        queries     one or several SELECTs, each with one aggregate; or "(SELECT ...) WITHIN 5 PERCENT" with its own tolerance
        synthetic   the name of a public table, a pandas frame or Arrow table, or the path of a CSV or Parquet file below a folder
                    of `uploads` in the policy; a mapping from private tables to these where the queries name several
        within      the tolerance of queries without their own: a number, or a text such as "5 PERCENT OR 10"
        options     those of VALIDATE: epsilon, delta, rho, decider, suite, alpha, failures, max_rows

        Raises a located error if anything is wrong; nothing is charged then.
        """
        from dpsql.engine.accounts import asked_of
        from dpsql.engine.answering import session_for
        from dpsql.engine.validating_by_period import validate
        from dpsql.validation.calls import statement_of

        texts = [queries] if isinstance(queries, str) else list(queries)
        statement, brought = statement_of([_text(text) for text in texts], synthetic, within, options)
        with self._used() as session:
            made = validate(statement, session_for(session, statement), synthetic=brought)
        about = [("synthetic table", _sources(synthetic))]

        @functools.cache
        def asked() -> Asked | None:
            if self._session is None:
                return None
            with self._used() as session:
                return asked_of(session, texts, about=about)

        return replace(made, asked=asked)

    @overload
    def synthesize(self, query: str, *, name: str, parameters: Sequence[Any] | Mapping[str, Any] = (),
                   workload: str | Sequence[str] | None = None, **options: Any) -> SyntheticTable: ...

    @overload
    def synthesize(self, query: Mapping[str, str], **options: Any) -> ReleasedDatabase: ...

    @guarded
    def synthesize(self, query: str | Mapping[str, str], *, name: str | None = None,
                   parameters: Sequence[Any] | Mapping[str, Any] = (), workload: str | Sequence[str] | None = None,
                   **options: Any) -> SyntheticTable | ReleasedDatabase:
        """Make a synthetic table: rows drawn from a private model of a query's rows. Equivalent to CREATE SYNTHETIC TABLE name
        AS query.

        query     a SELECT of the columns, without aggregates, over rows that belong to one entity each; or several by their
                  names, of tables that hang together by foreign keys: the same as CREATE SYNTHETIC TABLES
        name      under which later statements may ask the table, exactly and for free
        workload  what the table should be good at: 'all 3-way', or statements about it
        options   epsilon, delta, rho, method, score, fit, rows, bins, max_rows, rules, made_up, candidates;
                  and accept, a text or a list of texts

        `.df()` gives the rows, `.write(path)` writes them to a CSV or Parquet file, `.report(path)` a page about them. Several
        tables are the `tables` of the result. Raises a located error if anything is wrong; nothing is charged then.
        """
        from dpsql.engine.answering import session_for
        from dpsql.engine.synthesizing import statement_of
        from dpsql.engine.synthesizing_by_period import synthesis_of
        from dpsql.engine.synthesizing_linked import linked_statement_of, linked_synthesis

        if workload is not None:
            options["workload"] = workload if isinstance(workload, str) else ";\n".join(map(_text, workload))
        if isinstance(accept := options.get("accept"), list | tuple):
            options["accept"] = ";\n".join(map(_text, accept))
        given = _options(options)
        with self._used() as session:
            if not isinstance(query, Mapping):
                statement = statement_of(_text(query), name, given)
                return synthesis_of(statement, session_for(session, statement), parameters).answer()
            if name is not None:
                raise errors.ProgrammingError("with several queries, the dictionary gives the names", code="synthesis",
                                              try_='synthesize({"people_syn": "SELECT ..."}, epsilon=1)')
            several = linked_statement_of({each: _text(text) for each, text in query.items()}, given)
            return linked_synthesis(several, session_for(session, several), parameters).answer()

    @guarded
    def synthetic_table(self, name: str) -> SyntheticTable:
        """A synthetic table that was made before, in this session or an earlier one, by its name. Costs nothing.

        Raises ProgrammingError if there is none.
        """
        from dpsql.engine.synthesizing import made_before

        with self._used() as session:
            return made_before(_text(name), session)

    @guarded
    def budget(self) -> Spending:
        """The amounts spent and left, and how many statements may still fail. Raises LedgerError."""
        from dpsql.engine.accounts import budget_of

        with self._used() as session:
            return budget_of(session)

    def commit(self) -> None:
        """Nothing to do: a statement is durable when it is answered."""
        _ = self.session

    def rollback(self) -> None:
        """Does nothing: a released answer and its charge cannot be undone. Pools of
        connections call this whenever one is returned."""
        _ = self.session

    def close(self) -> None:
        """Close the connection, after any statement that another thread is running on it. Closing twice has no effect."""
        with self._turn:
            if self._session is not None:
                self._session.close()
                self._session = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a connection to private data cannot be copied")

    def _repr_html_(self) -> str:
        """The connection's tables and budget, for notebooks."""
        from dpsql.answers.connection_html import closed_html, connection_html
        from dpsql.engine.answering import with_all_tables

        if self._session is None:
            return closed_html()
        spending = self.budget()
        with self._used() as session:
            return connection_html(with_all_tables(session).catalog, spending, session.price)


class Cursor:
    """Runs statements and gives access to the last result.

    Beside PEP 249: `answer` (rows with errors), `errors`, `intervals`, `cost`, `notes`, `explanation`, `validation`, `synthetic`,
    `database`, `model`, `.df()`, `.arrow()`, `.pl()`, `.plot()`, `.report(path)`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._closed = False
        self._clear()

    def _clear(self) -> None:
        self._rows: list[tuple[Any, ...]] | None = None
        self._next = 0
        self.description: list[tuple[str, str, None, None, None, None, bool | None]] | None = None
        self.rowcount = -1
        self.answer: Answer | None = None
        self.explanation: Explanation | None = None
        self.validation: Validation | None = None
        self.synthetic: SyntheticTable | None = None
        self.database: ReleasedDatabase | None = None
        self.model: OnlineModel | None = None
        self._asked: tuple[str, Sequence[Any] | Mapping[str, Any]] | None = None  # what a page is about
        self._priced: Statement | None = None  # the statement, if its price was given beside its text

    @guarded
    def execute(self, sql: str | PlannedStatement, parameters: Sequence[Any] | Mapping[str, Any] = (), *,
                epsilon: object = None, delta: object = None, rho: object = None) -> Cursor:
        """Run one statement: a text, or the result of `planned`. Raises a located `dpsql.Error` if anything is wrong with it;
        then nothing is charged, except for an `Incident`, whose charge is kept.

        `epsilon`, `delta` and `rho` are its price, as if it stated them among its OPTIONS; an epsilon without a delta is joined
        by the budget's usual one. A statement that states another price is refused.
        """
        from dpsql.engine.answering import PlannedStatement, answer, answer_planned

        if (epsilon, delta, rho) != (None, None, None):
            return self._execute_at(sql, parameters, epsilon, delta, rho)
        if isinstance(sql, PlannedStatement):
            planned = sql
            return self._ask(lambda session: answer_planned(planned, session), sql.text, sql.parameters)
        text = sql
        return self._ask(lambda session: answer(_text(text), session, parameters), text, parameters)

    @guarded
    def ask(self, statement: Statement, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """The same as `execute`, for a parsed statement."""
        from dpsql.engine.answering import answer_parsed

        return self._ask(lambda session: answer_parsed(statement, sql, session, parameters), sql, parameters)

    def _execute_at(self, sql: object, parameters: Sequence[Any] | Mapping[str, Any], epsilon: object, delta: object,
                    rho: object) -> Cursor:
        """Run a statement at a price that is given beside its text."""
        from dpsql.engine.answering import answer_parsed
        from dpsql.engine.opening import ConnectionTerms
        from dpsql.engine.stated_prices import at_price

        self._check_open()
        text, terms = _text(sql), ConnectionTerms(epsilon=epsilon, delta=delta, rho=rho)
        with self.connection._used() as session:
            statement = at_price(text, session, terms)
        self._ask(lambda session: answer_parsed(statement, text, session, parameters), text, parameters)
        self._priced = statement
        return self

    def _ask(self, answered: Callable[[Session], Result], sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> Cursor:
        from dpsql.answers.answer import Answer

        self._check_open()
        self._clear()
        with self.connection._used() as session:
            result = answered(session)
        self._asked = sql, parameters
        if not isinstance(result, Answer) and result.FIELD:
            setattr(self, result.FIELD, result)
        rows = result if isinstance(result, Answer) else result.as_table()
        if isinstance(rows, Answer):
            self.answer = rows
            self._describe([(column.name, column.type.value) for column in rows.columns])
            self.rowcount = rows.size
        else:
            self._take([(name, kind.value) for name, kind in rows.columns], list(rows.rows))
        return self

    def _take(self, columns: Sequence[tuple[str, str]], rows: list[tuple[Any, ...]]) -> None:
        self._describe(columns)
        self._rows, self.rowcount = rows, len(rows)

    def _describe(self, columns: Sequence[tuple[str, str]]) -> None:
        self.description = [(name, kind, None, None, None, None, None) for name, kind in columns]

    @guarded
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Cursor:
        """Run a statement for each set of parameters; each is charged. The rows and errors of all answers are concatenated;
        `cost` is the total.

        Nothing is run if one of them is wrong, or if the budget cannot pay for all. If one fails after its charge, the cursor
        holds the answers before it.
        """
        from dpsql.answers.answer import together
        from dpsql.engine.many import check_all

        self._check_open()
        self._clear()
        if isinstance(parameters, str | bytes | Mapping) or not isinstance(parameters, Iterable) or getattr(
                parameters, "shape", None) == ():
            raise errors.ProgrammingError("executemany takes several sets of parameters", code="parameters",
                                          try_="[[18], [65]], a list with one set for each execution")
        sets = list(parameters)
        with self.connection._used() as session:
            check_all(_text(sql), sets, session)
        rows: list[tuple[Any, ...]] = []
        answers: list[Answer] = []
        description = None
        try:
            for given in sets:
                self.execute(sql, given)
                rows += self._fetchable()
                answers += [self.answer] if self.answer is not None else []
                description = self.description
        finally:
            self._rows, self.rowcount, self._next, self.description = rows, len(rows), 0, description
            self.answer, self._asked = together(answers) if answers else None, None
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, with one value for each column; None if there is none. Raises InterfaceError if nothing was executed."""
        rows = self._fetchable()
        if self._next >= len(rows):
            return None
        self._next += 1
        return rows[self._next - 1]

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next `size` rows (by default `arraysize`, 1), or fewer at the end. Raises InterfaceError or ProgrammingError."""
        rows, start = self._fetchable(), self._next
        wanted = self.arraysize if size is None else size
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
            shown = wanted if isinstance(wanted, int | float | str) else type(wanted).__name__
            raise errors.ProgrammingError(f"{shown} is not a number of rows", code="argument", try_="fetchmany(10)")
        self._next = min(len(rows), start + wanted)
        return rows[start : self._next]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that were not fetched yet. Raises InterfaceError if nothing was executed."""
        rows, start = self._fetchable(), self._next
        self._next = len(rows)
        return rows[start:]

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    @property
    def errors(self) -> tuple[tuple[float | None, ...], ...]:
        """The standard error of every cell: a tuple for each row, in the units of the columns (days for dates); None for a cell
        that has none. Raises InterfaceError if the last statement was no query."""
        return self._answered().errors

    @property
    def intervals(self) -> list[tuple[tuple[Any, Any] | None, ...]]:
        """For every cell, the ends of its confidence interval (dates for a date, whose error is in days). An end is infinite if a
        limit cuts off an unknown amount."""
        answer = self._answered()
        return [tuple(answer.ends(i, j) for j in range(len(answer.columns))) for i in range(len(answer.rows))]

    @property
    def made(self) -> Answer | SyntheticTable | ReleasedDatabase | OnlineModel | None:
        """The statement's result (answer, table or model), with its `cost`, its `notes` and whether it was `stored` before. None
        for statements such as EXPLAIN and SHOW."""
        found = (self.answer, self.synthetic, self.database, self.model)
        return next((each for each in found if each is not None), None)

    @property
    def cost(self) -> str:
        """What the statement cost; "" for public tables and stored results."""
        made = self._which_made()
        return "" if made.stored else made.cost

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that help to read the answer correctly."""
        return self._which_made().notes

    def df(self, *, errors: bool = False) -> pandas.DataFrame:
        """The result as a pandas frame; with `errors`, standard errors and interval ends follow each noisy column."""
        import pandas as pd

        rows, names = self._fetchable(), [column[0] for column in self.description or ()]
        frame = pd.DataFrame.from_records(rows, columns=names)
        if errors:
            answer = self._answered()
            for j in reversed([j for j, column in enumerate(answer.columns) if not column.exact]):
                ends = [answer.ends(i, j) or (None, None) for i in range(len(answer.rows))]
                extra: dict[str, list[Any]] = {"error": [row[j] for row in answer.errors], "low": [low for low, _ in ends],
                         "high": [high for _, high in ends]}
                for place, (name, values) in enumerate(extra.items()):
                    frame.insert(j + 1 + place, f"{names[j]}_{name}", values, allow_duplicates=True)
        return frame

    fetchdf = df  # its name in DuckDB

    def arrow(self) -> pyarrow.Table:
        """The result as an Arrow table. Raises InterfaceError if pyarrow is not installed."""
        pa = extra("pyarrow", "arrow")
        kinds = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
                 "TIMESTAMP": pa.timestamp("us")}
        rows, description = self._fetchable(), self.description or []
        columns = [_arrow([row[i] for row in rows], kinds.get(kind, pa.string())) for i, (_, kind, *_) in enumerate(description)]
        return pa.Table.from_arrays(columns, names=[name for name, *_ in description])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The result for any library that reads the Arrow stream interface, such as DuckDB and polars."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def pl(self) -> polars.DataFrame:
        """The result as a polars frame. Raises InterfaceError if polars or pyarrow is not installed."""
        return extra("polars", "polars").from_arrow(self.arrow())

    def plot(self, *columns: str) -> Drawing:
        """Draw the answer with its intervals, for a notebook or a file; see `drawing.drawing`. Raises ProgrammingError or
        InterfaceError."""
        from dpsql.answers.drawing import drawing

        return drawing(self._answered(), columns)

    @guarded
    def report(self, target: str | Path) -> None:
        """Write a page for people to a new HTML file: the statement, the answer with its intervals, charts, and explanations
        of the numbers; for a validation or a synthetic table, its own page.

        Raises OperationalError if the file exists, or cannot be written, and ProgrammingError where there is no such result.
        """
        from dpsql.answers.answer_page import answer_page
        from dpsql.answers.new_files import save
        from dpsql.engine.accounts import asked_of
        from dpsql.validation.report import page

        self._check_open()
        if self.synthetic is not None:
            self.synthetic.report(target)
            return
        if self._asked is None or self.answer is None:
            raise errors.ProgrammingError("a page needs one statement that was answered", code="page",
                                          try_='con.execute("SELECT ...").report("page.html")')
        text, parameters = self._asked
        priced = self._priced
        told = self.connection.explain(text, parameters) if priced is None else self._explained(priced, parameters)
        with self.connection._used() as session:
            asked = asked_of(session, [text], told, values=_told(parameters), about=_standing(text))
        if self.validation is not None:
            save(page(replace(self.validation, asked=lambda: asked)), target)
        else:
            save(answer_page(self.answer, asked), target)

    def _repr_html_(self) -> str | None:
        from dpsql.answers.display import as_html, listed_html

        if self.answer is not None:
            return as_html(self.answer)
        if self.explanation is not None:
            return self.explanation._repr_html_()
        return listed_html([name for name, *_ in self.description], self._rows or []) if self.description is not None else None

    def _explained(self, statement: Statement, parameters: Sequence[Any] | Mapping[str, Any]) -> Explanation:
        from dpsql.engine.answering import explain

        with self.connection._used() as session:
            return explain(cast("Explained", statement), session, parameters)

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """PEP 249: no effect."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """PEP 249: no effect."""

    def close(self) -> None:
        """Discard the result. Later calls raise InterfaceError."""
        self._clear()
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed", code="closed", try_="connection.cursor()")

    def _fetchable(self) -> list[tuple[Any, ...]]:
        self._check_open()
        if self._rows is None and self.answer is not None:
            self._rows = list(self.answer.rows)  # made when they are first fetched, as there may be a million
        if self._rows is None:
            raise InterfaceError("there is no result to fetch", code="no-result", try_="execute(...) first")
        return self._rows

    def _which_made(self) -> Answer | SyntheticTable | ReleasedDatabase | OnlineModel:
        return self._answered() if self.made is None else self.made

    def _answered(self) -> Answer:
        self._check_open()
        if self.answer is None:
            raise InterfaceError("there is no answer", code="no-result", try_="execute(...) a query first")
        return self.answer


def _told(parameters: Sequence[Any] | Mapping[str, Any]) -> str:
    """Parameters as a page shows them."""
    pairs = parameters.items() if isinstance(parameters, Mapping) else [("", value) for value in parameters]
    return ", ".join(f"{name} = {value}" if name else str(value) for name, value in pairs)


def _standing(text: str) -> list[tuple[str, str]]:
    """The names of the tables that replace private ones in a VALIDATE, for a page."""
    from dpsql.sql.text.parse import parse
    from dpsql.sql.text.statement import Validate

    statement = parse(text)
    return [("synthetic table", ", ".join(each.table for each in statement.standing))] if isinstance(statement, Validate) else []


def _sources(synthetic: Any) -> str:
    """The name of the table that replaces private ones, for a page."""
    if isinstance(synthetic, Mapping):
        return ", ".join(f"{_sources(source)} for {table}" if table else _sources(source) for table, source in synthetic.items())
    return str(synthetic) if isinstance(synthetic, str | Path) else f"{len(synthetic):,} rows, given in Python" if hasattr(
        synthetic, "__len__") else "given in Python"


def _explained(sql: str) -> tuple[Explained, bool]:
    """The query to explain, and whether the text would run it (false if it begins with EXPLAIN)."""
    from dpsql.sql.text.parse import parse
    from dpsql.sql.text.statement import CreateStandingQuery, Explain, OpenModel, Query, Synthesize, SynthesizeTables, Validate

    statement = parse(_text(sql))
    query = statement.query if isinstance(statement, Explain) else statement
    if not isinstance(query, Query | Validate | Synthesize | SynthesizeTables | OpenModel | CreateStandingQuery):
        raise errors.ProgrammingError("only queries can be explained", code="explain", try_="SELECT ...")
    return query, query is statement


def _queries(statements: str | Sequence[str]) -> list[Query]:
    """Split a script, or a list of texts, into queries. Errors name the statement."""
    from dpsql.sql.text.parse import parse
    from dpsql.sql.text.split import split
    from dpsql.sql.text.statement import Query

    if not isinstance(statements, str | list | tuple):
        _text(statements)
    queries, texts = [], split(statements) if isinstance(statements, str) else [_text(text) for text in statements]
    for number, text in enumerate(texts):
        try:
            query = parse(text)
        except errors.Error as fault:
            fault.source = f"statement {number + 1}" if len(texts) > 1 else fault.source
            raise
        if not isinstance(query, Query):
            raise errors.ProgrammingError(f"a workload consists of queries, and statement {number + 1} is not one",
                                          code="workload", try_="SELECT ...")
        queries.append(query)
    return queries


def _options(given: Mapping[str, Any]) -> list[Option]:
    from dpsql.sql.text.statement import Option

    return [Option(name=name, value=value, span=None) for name, value in given.items()]


def _text(sql: object) -> str:
    if not isinstance(sql, str):
        raise errors.ProgrammingError(f"a statement is a text, not {type(sql).__name__}", code="statement")
    return sql


def _arrow(values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    """A column as PEP 249 describes it; whole numbers beyond 64 bits become decimals."""
    import pyarrow as pa

    if kind == pa.int64() and any(value is not None and not -(2**63) <= value < 2**63 for value in values):
        kind = pa.decimal128(38, 0)
    return pa.array(values, type=kind)
