"""The answers of a workload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dpsql.answers.answer import Answer
from dpsql.answers.answer import of_json as answer_of
from dpsql.batch.records import Record, encoded


@dataclass(frozen=True, kw_only=True)
class Answers:
    """One answer for each statement, all consistent with each other; what they cost together; and how they were measured.

    `records` are the measurements they were computed from, which later questions may reuse.
    """

    answers: tuple[Answer, ...]
    cost: str
    notes: tuple[str, ...] = ()
    stored: bool = False
    records: tuple[Record, ...] = field(default=(), repr=False, compare=False)

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

    def as_json(self) -> str:
        """For the ledger; `of_json` reads it back."""
        body = {"answers": [answer.as_json() for answer in self.answers], "cost": self.cost, "notes": self.notes}
        measured = encoded(self.records)
        return json.dumps(body | ({"measured": measured} if measured else {}))


def of_json(text: str) -> Answers:
    """The answers of a workload as stored in the ledger."""
    body = json.loads(text)
    answers = tuple(replace(answer_of(part), stored=True) for part in body["answers"])
    return Answers(answers=answers, cost=body["cost"], notes=tuple(body["notes"]), stored=True)
