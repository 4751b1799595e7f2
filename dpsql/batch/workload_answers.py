"""The answers of a workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dpsql.answers.answer import Answer
from dpsql.answers.answer import of_json as answer_of
from dpsql.answers.answer_page import workload_page
from dpsql.answers.asked import Asked
from dpsql.answers.display import told_before
from dpsql.answers.drawing import Drawing, drawing_together
from dpsql.answers.new_files import save
from dpsql.batch.records import Record, encoded
from dpsql.errors import ProgrammingError
from dpsql.frozen import Frozen, field, replace


class Answers(Frozen):
    """One answer for each statement, all consistent with each other; what they cost together; and how they were measured.

    `records` are the measurements they were computed from, which later questions may reuse. `asked` finds what a page says
    beside them, where a connection answered and is still open.
    """

    answers: tuple[Answer, ...]
    cost: str
    notes: tuple[str, ...] = ()
    stored: bool = False
    shared: bool = False
    records: tuple[Record, ...] = field(default=(), repr=False, compare=False)
    asked: Callable[[], Asked] | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, at: int) -> Answer:
        return self.answers[at]

    def named(self, names: Sequence[Sequence[str]]) -> Answers:
        """The same answers under other column names."""
        answers = tuple(answer.named(each) for answer, each in zip(self.answers, names, strict=True))
        return replace(self, answers=answers)

    def as_shared(self) -> Answers:
        """A copy of the answers for an analyst who has not seen them; another analyst paid for them."""
        return replace(self, answers=tuple(answer.as_shared() for answer in self.answers), shared=True)

    def report(self, target: str | Path) -> None:
        """Write a page for people to a new HTML file: statements, answers, errors and charts.

        Raises OperationalError if the file exists, or cannot be written, InterfaceError where the connection is closed, and
        ProgrammingError where none answered.
        """
        if self.asked is None:
            raise ProgrammingError("the analyst of these answers is unknown", code="page", try_="con.workload(...).report(...)")
        save(workload_page(self.answers, self.asked(), cost=self.charged, notes=self.notes), target)

    def plot(self) -> Drawing:
        """Draw the answers with their intervals, for a notebook or a file; see `drawing.drawing_together`. Raises
        ProgrammingError."""
        return drawing_together(self.answers, self.charged if self.stored else f"cost {self.charged}, for all together")

    @property
    def charged(self) -> str:
        """What the answers cost this time, in words."""
        return told_before(shared=self.shared) if self.stored else self.cost

    def as_json(self) -> str:
        """A form for the ledger, which `of_json` reads."""
        body = {"answers": [answer.as_json() for answer in self.answers], "cost": self.cost, "notes": self.notes}
        measured = encoded(self.records)
        return json.dumps(body | ({"measured": measured} if measured else {}))


def of_json(text: str) -> Answers:
    """The answers of a workload as stored in the ledger."""
    body = json.loads(text)
    answers = tuple(replace(answer_of(part), stored=True) for part in body["answers"])
    return Answers(answers=answers, cost=body["cost"], notes=tuple(body["notes"]), stored=True)
