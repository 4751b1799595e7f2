"""How the rows of a table are written where they are kept, and what is done to a cell before it is a value.

All of it is decided by the policy alone, cell by cell: what one row holds decides nothing about another, so reading has no price.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import Frozen, field, replace


class CsvFormat(Frozen):
    """How a CSV file is written.

    delimiter  the character between two cells; if it is a blank, a run of blanks and tabs
    quote      the character around a cell that may hold a delimiter; "" where no cell is quoted
    escape     the character in front of a quote within such a cell
    header     whether the first line names the columns
    names      the names of all columns, in the order of the file; they replace the header. Empty: the header is used
    skip       the number of lines in front of the header, or of the rows
    comment    the character with which a line begins that is left out; "" where there is none
    encoding   the name of the encoding, as Python knows it
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    header: bool = True
    names: tuple[str, ...] = ()
    skip: int = 0
    comment: str = ""
    encoding: str = "utf-8"


class CellReading(Frozen):
    """The steps that clean a cell, in this order.

    trim      blanks around texts are removed
    null      texts and numbers that stand for NULL
    case      "lower" or "upper": letters are made so
    aliases   other spellings of a text, each with the text that it stands for
    decimal_mark  the character in front of the decimals of a number
    format    how a date or a time is written, in the codes of strftime
    zone      the time zone in which a time with an offset is shown
    type      the name of the type as which it is read; None for the type that it has
    """

    trim: bool = False
    null: tuple[str | int | float, ...] = ()
    case: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    decimal_mark: str = "."
    format: str = ""
    zone: str = "UTC"
    type: str | None = None

    @property
    def cleans(self) -> bool:
        """Whether cleaning may change the value of a cell that has the right type."""
        return replace(self, type=None) != USUAL_CELL


USUAL_CSV, USUAL_CELL = CsvFormat(), CellReading()
