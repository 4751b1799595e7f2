"""What tools return: data in the form of `result_forms`, and the same in a few words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpsql.agents.claim_checks import VERDICTS, ClaimFinding
from dpsql.agents.purposes import purpose_of
from dpsql.agents.released_columns import answer_of
from dpsql.agents.shown_results import answer_as_data, answer_in_words
from dpsql.agents.text_numbers import MOST_NUMBERS
from dpsql.answers.listings import price_of_entry
from dpsql.errors import OptionError
from dpsql.frozen import Frozen, field
from dpsql.ledgers.ledger_reports import Entry

MOST_LISTED = 50  # statements of the ledger at once


class ToolResult(Frozen):
    """What a tool returns: data, and words."""

    data: dict[str, Any] = field(default_factory=dict)
    words: str = ""


def released_list(entries: Sequence[Entry], offset: int) -> ToolResult:
    """The newest of these statements."""
    newest = entries[::-1][offset:offset + MOST_LISTED]
    data = {"statements": [_entry(entry) for entry in newest], "in_all": len(entries), "offset": offset, "answer": None}
    lines = [f"{entry.seq}: {purpose_of(entry.sql)[0]} ({price_of_entry(entry)}, {entry.outcome})" for entry in newest]
    return ToolResult(data=data, words="\n".join(lines) or "nothing was released to this account")


def claims_result(found: Sequence[ClaimFinding], *, is_whole: bool, are_all: bool) -> ToolResult:
    """What became of the numbers of a text. `is_whole`: the text was not too long to be compared to its end. `are_all`: there
    were not too many answers to compare it with all of them."""
    counts = {verdict: sum(each.verdict == verdict for each in found) for verdict in VERDICTS}
    lines = [f"{', '.join(f'{many} {verdict}' for verdict, many in counts.items())}.", *map(_finding_in_words, found)]
    is_whole = is_whole and len(found) < MOST_NUMBERS
    lines += [] if is_whole else ["The text is too long: not all numbers were compared. Send it in parts."]
    lines += [] if are_all else ["There are too many answers: the oldest were not compared."]
    return ToolResult(data={"findings": [_finding(each) for each in found], "supported": counts["supported"],
                            "contradicted": counts["contradicted"], "not_from_here": counts["not from here"], "whole": is_whole,
                            "all_answers": are_all},
                      words="\n".join(lines))


def _entry(entry: Entry) -> dict[str, Any]:
    sql, purpose = purpose_of(entry.sql)
    return {"number": entry.seq, "at": entry.at, "sql": sql, "purpose": purpose or None, "charge": price_of_entry(entry),
            "outcome": entry.outcome}


def released_answer(number: int, entries: Sequence[Entry], offset: int) -> ToolResult:
    entry = next((entry for entry in entries if entry.seq == number), None)
    if entry is None:
        raise OptionError(f"no statement of this account has the number {number}", code="number", subject="number",
                          source="the call", try_="released without a number, which lists them")
    answer = answer_of(entry)
    data = {"statements": [_entry(entry)], "in_all": 1, "offset": offset,
            "answer": None if answer is None else answer_as_data(answer, offset=offset) | {"notes": list(answer.notes)}}
    words = "ask the same statement again for this result, which is free" if answer is None else answer_in_words(answer)
    return ToolResult(data=data, words=f"{number}: {purpose_of(entry.sql)[0]}\n{words}")


def _finding(found: ClaimFinding) -> dict[str, Any]:
    cell, column = found.cell, found.column
    return {"written": found.number.written, "start": found.number.start, "end": found.number.end, "verdict": found.verdict,
            "statement": None if column is None else column.statement, "sql": None if column is None else column.sql,
            "shared": None if column is None else column.shared,
            "released": None if cell is None or column is None else {
                "label": cell.label, "value": cell.value, "low": _end(cell.low), "high": _end(cell.high),
                "confidence": column.confidence}}


def _end(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finding_in_words(found: ClaimFinding) -> str:
    cell = found.cell
    if cell is None or found.column is None:
        return f"{found.number.written}: not from here"
    whose = " (shared by another account)" if found.column.shared else ""
    return (f"{found.number.written}: {found.verdict} by statement {found.column.statement}{whose}, {cell.label}: "
            f"{cell.value:,.6g} ({cell.low:,.6g} to {cell.high:,.6g})")
