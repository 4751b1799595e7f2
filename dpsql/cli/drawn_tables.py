"""Tables for a terminal of any width, in which no digit and no letter is hidden.

Titles and texts are folded where room is short. A number stays in one piece: where the numbers of a row, with their intervals, do
not fit beside each other, each row becomes a block with a line for each column. A number that does not even fit a line of its own
is left to the terminal, which continues it on the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpsql.frozen import Frozen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

LONGEST_WORD, LEAST_TITLE = 16, 8  # cells: longer words are folded, and titles to no less than this
BESIDE = " " * 2  # between a value and what stands beside it


class DrawnColumn(Frozen):
    """A column as it is drawn: a title, a value for each row, and what stands beside each in a fainter colour, such as its
    interval. `number`: values stand at the right, and are never folded."""

    title: str
    values: Sequence[str]
    beside: Sequence[str] = ()
    number: bool = False

    @property
    def whole(self) -> bool:
        """Whether its cells must not be wrapped."""
        return self.number or any(self.beside)

    def cell(self, row: int) -> Text:
        """A value with its annotation, without padding."""
        from rich.text import Text

        made = Text(self.values[row])
        return made.append(BESIDE + self.beside[row], style="dim") if self.beside and self.beside[row] else made

    def padded(self) -> list[Text]:
        """The cells, with the annotations aligned in a column of their own."""
        from rich.cells import cell_len
        from rich.text import Text

        if not any(self.beside):
            return [Text(value) for value in self.values]
        widest = max(map(cell_len, self.values))
        made = []
        for value, beside in zip(self.values, self.beside, strict=True):
            space = " " * (widest - cell_len(value))
            made.append(Text(space + value if self.number else value + space).append(BESIDE + beside, style="dim"))
        return made


def draw(columns: Sequence[DrawnColumn], console: Console) -> None:
    """Print rows as a table if its numbers fit the width of the console, and otherwise as blocks."""
    widths = widths_of(columns, console.width)
    if widths is not None:
        console.print(_table(columns, widths), crop=False)
        return
    for line in _blocks(columns, console):
        console.print(line, crop=False, no_wrap=True, overflow="ignore")


def widths_of(columns: Sequence[DrawnColumn], width: int) -> list[int] | None:
    """The width of each column in characters; None if the numbers do not fit next to each other."""
    least = [_least(column) for column in columns]
    wished = [max(_widest(column.title.split("\n")), _widest(line for cell in column.padded() for line in cell.plain.split("\n")),
                  low) for column, low in zip(columns, least, strict=True)]
    spare = width - sum(least) - 3 * len(columns) + 1  # beside each column are three cells, but at the edges of the table
    if spare < 0:
        return None
    widths = list(least)
    for place, i in enumerate(sorted(range(len(columns)), key=lambda i: wished[i] - least[i])):  # those with a small wish first
        more = min(wished[i] - least[i], spare // (len(columns) - place))
        widths[i], spare = least[i] + more, spare - more
    return widths


def _least(column: DrawnColumn) -> int:
    title = min(_widest(column.title.split()), LEAST_TITLE)
    if column.whole:
        return max(title, _widest(cell.plain for cell in column.padded()), 2)
    return max(title, min(_widest(word for value in column.values for word in value.split()), LONGEST_WORD), 2)


def _widest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _table(columns: Sequence[DrawnColumn], widths: Sequence[int]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        right = column.number and not any(column.beside)
        table.add_column(Text(column.title), justify="right" if right else "left", overflow="fold", width=width)
    for row in zip(*(column.padded() for column in columns), strict=True):
        table.add_row(*row)
    return table


def _blocks(columns: Sequence[DrawnColumn], console: Console) -> list[Text]:
    """The lines of a block for each row."""
    from rich.text import Text

    rows = len(columns[0].values) if columns else 0
    longest = max((column.cell(row).cell_len for column in columns if column.whole for row in range(rows)), default=0)
    room = max(console.width // 3, min(console.width // 2, console.width - 3 - longest), LEAST_TITLE)
    titles = min(_widest(column.title for column in columns), room)
    ruled = min(console.width, titles + 3 + max(longest, LONGEST_WORD))
    beside = longest <= console.width - titles - 3
    lines = [Text(f"no rows of {', '.join(column.title for column in columns)}")] if not rows else []
    for row in range(rows):
        lines.append(Text(f"-[ row {row + 1} ]".ljust(ruled, "-"), style="dim"))
        for column in columns:
            if beside:
                lines += _side_by_side(column, row, titles, console)
            else:
                lines += [*_folded(Text(column.title), console.width, console), *(
                    Text("  ").append_text(line) for line in _folded(column.cell(row), console.width - 2, console, column.whole))]
    return lines


def _side_by_side(column: DrawnColumn, row: int, titles: int, console: Console) -> list[Text]:
    from rich.text import Text

    left = _folded(Text(column.title), titles, console)
    right = _folded(column.cell(row), console.width - titles - 3, console, column.whole)
    lines = []
    for i in range(max(len(left), len(right))):
        title = left[i] if i < len(left) else Text()
        title.append(" " * (titles - title.cell_len))
        lines.append(title.append(" | ", style="dim").append_text(right[i] if i < len(right) else Text()))
    return lines


def _folded(text: Text, width: int, console: Console, whole: bool = False) -> list[Text]:
    """A text in lines of this width: broken between words and, but for numbers (`whole`), inside those that are wider."""
    return list(text.wrap(console, width, overflow="ignore" if whole else "fold")) or [text]
