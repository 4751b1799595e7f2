"""Every exception dpsql raises, and the caret under the SQL.

The hierarchy is that of PEP 249. Users mostly meet the few classes at the end: each says what is wrong, where in the user's
text, why, and what to write instead. A refusal is also data (`as_dict`): a code, the span, the table or join responsible, and
the smallest change that would make the statement legal. No message ever holds a value read from a private row; what fails
after private rows were read becomes an `Incident` with constant text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what is shown without an error loads no other module
    from dpsql.types import Span


class Warning(Exception):
    """PEP 249: an important warning. dpsql raises none; the name is part of the interface."""


class Error(Exception):
    """PEP 249: the base of all errors of dpsql.

    code     a short stable name of the reason, such as ``unknown-column``
    reason   what is wrong, in one sentence
    try_     the smallest change of the query or of the policy that would help; may be empty
    span     the place in `text` that is at fault, if there is one
    subject  the table, column, join or option responsible, if there is one
    text     the text the span belongs to (the statement, or the policy file)
    source   the name of that text: ``SQL``, or the path of the policy
    """

    code = "error"

    def __init__(self, reason: str, *, code: str | None = None, try_: str = "", span: Span | None = None,
                 subject: str = "", text: str = "", source: str = "SQL") -> None:
        super().__init__(reason)
        self.reason, self.try_, self.span, self.subject = reason, try_, span, subject
        self.text, self.source = text, source
        if code is not None:
            self.code = code

    def located(self, text: str, source: str = "SQL") -> Error:
        """The same error with the text that its span refers to."""
        if not self.text:
            self.text, self.source = text, source
        return self

    def as_dict(self) -> dict[str, Any]:
        """The error as data, for programs that offer the fix to their user."""
        place = self.span.place(self.text) if self.span is not None and self.text else None
        return {
            "error": type(self).__name__, "code": self.code, "reason": self.reason, "try": self.try_ or None,
            "subject": self.subject or None, "source": self.source if self.text or self.source != "SQL" else None,
            "span": [self.span.start, self.span.end] if self.span is not None else None,
            "line": place[0] if place else None, "column": place[1] if place else None,
        }

    def __str__(self) -> str:
        kind = type(self).__name__
        if self.span is None or not self.text:
            where = "" if self.source == "SQL" else f" in {self.source}"
            return f"{kind}{where}: {self.reason}" + (f"\n    try {self.try_}" if self.try_ else "")
        line, column = self.span.place(self.text)
        where = f"line {line}, column {column}" + ("" if self.source == "SQL" else f" of {self.source}")
        return f"{kind} at {where}: {self.reason}\n" + self.span.underline(self.text, note=self.try_)

    def _render_traceback_(self) -> list[str]:
        """The error as notebooks show it, without a traceback: reason, place and advice."""
        return str(self).splitlines()


class InterfaceError(Error):
    """PEP 249: misuse of the interface itself, such as fetching from a closed cursor."""

    code = "interface"


class DatabaseError(Error):
    """PEP 249: anything about the database."""


class DataError(DatabaseError):
    """PEP 249: a parameter value that cannot be used."""

    code = "bad-value"


class OperationalError(DatabaseError):
    """PEP 249: something outside the statement: files, budget, ledger."""

    code = "operational"


class IntegrityError(DatabaseError):
    """PEP 249: the data break a key the owner declared. It is raised when a database is opened, before any statement is
    answered."""

    code = "broken-key"


class InternalError(DatabaseError):
    """PEP 249: a fault of dpsql itself."""

    code = "internal"


class ProgrammingError(DatabaseError):
    """PEP 249: a statement or a call that is wrong."""

    code = "programming"


class NotSupportedError(DatabaseError):
    """PEP 249: a statement that is valid SQL but is not answered here."""

    code = "unsupported"


class SqlError(ProgrammingError):
    """The statement is wrong: it does not parse, names something unknown, or mixes types."""

    code = "sql"


class PolicyError(ProgrammingError):
    """The policy file is wrong, or does not fit the database."""

    code = "policy"


class OptionError(ProgrammingError):
    """An option of a statement, call or command is unknown or has an impossible value."""

    code = "option"


class Unsupported(NotSupportedError):
    """A refusal: no bound is known on what one entity can change in this statement, or its SQL is not accepted."""


class BudgetExhausted(OperationalError):
    """The statement costs more than what is left, or its account is closed after too many incidents. Nothing was read and
    nothing was charged."""

    code = "budget"


class LedgerError(OperationalError):
    """The ledger is missing, damaged or older than its anchor: no statement is served."""

    code = "ledger"


class Incident(InternalError):
    """The statement failed after it was charged. The charge stays and the text is always the same.

    What went wrong may depend on private rows, so neither the text nor the exception chain says it.
    """

    code = "incident"

    def __init__(self) -> None:
        super().__init__("the statement failed after it was charged; the charge is kept", try_="another statement; the "
                         "reason is not shown, as it may depend on private rows")

    def __reduce__(self) -> tuple[type[Incident], tuple[()]]:
        return Incident, ()  # pickled without any state


class Interrupted(Incident):
    """The statement was interrupted after it was charged: by its analyst, a time limit, or the end of the server. The charge
    stays. It does not count as failed, unless it had failed by itself before, which is not shown."""

    code = "interrupted"

    def __init__(self) -> None:
        super().__init__()
        self.reason, self.try_ = "the statement was interrupted on request after it was charged; the charge is kept", ""
        self.args = (self.reason,)

    def __reduce__(self) -> tuple[type[Interrupted], tuple[()]]:
        return Interrupted, ()


class SourceChanged(Incident):
    """Files of the database were changed while the statement ran, after it was charged. The charge is kept. The statement does
    not count as failed, whether or not it would have been answered."""

    code = "data-changed"

    def __init__(self) -> None:
        super().__init__()
        self.reason = "files of the database were changed while the statement ran; the charge is kept, and there is no answer"
        self.try_ = "connecting again, and another statement"
        self.args = (self.reason,)

    def __reduce__(self) -> tuple[type[SourceChanged], tuple[()]]:
        return SourceChanged, ()
