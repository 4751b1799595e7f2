"""Tables on terminals of any width: nothing that an answer says is hidden."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from dpsql.answers.answer import Answer, AnswerColumn
from dpsql.answers.columns import of_rows
from dpsql.answers.display import interval_text, printable, shown
from dpsql.cli.drawn_tables import DrawnColumn, draw
from dpsql.cli.show import _drawn
from dpsql.cli.terminal import print_wrapped
from dpsql.types import Type

WIDTHS = st.integers(20, 200)
TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs", "Mn", "Me", "Mc"]), max_size=60), st.just("word " * 40), st.just("x" * 300),
                  st.text("日本語テキスト한국어", min_size=1, max_size=60), st.sampled_from(["[bold]x[/bold]", ":smile:", "\x1b[31m", "a\nb"]))
NAMES = st.one_of(TEXTS, st.sampled_from(["COUNT(*)", "SUM(medical_dollars)", "QUANTILE_CONT(general_health_index_imputed, 0.75)"]))
NUMBERS = st.one_of(st.integers(-(2**62), 2**62), st.floats(-1e15, 1e15, allow_nan=False), st.none())


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Answers with keys and noisy numbers, whose intervals are closed, uneven or open."""
    kinds = draw(st.lists(st.sampled_from(["text", "whole", "real", "noisy"]), min_size=1, max_size=7))
    columns = tuple(AnswerColumn(name=draw(NAMES), type={"text": Type.VARCHAR, "whole": Type.BIGINT}.get(kind, Type.DOUBLE),
                                 exact=kind in ("text", "whole")) for kind in kinds)
    rows, intervals = [], []
    for _ in range(draw(st.integers(0, 4))):
        row = [draw(st.one_of(TEXTS, st.none())) if kind == "text" else
               draw(st.integers(-(2**62), 2**62)) if kind == "whole" else draw(NUMBERS) for kind in kinds]
        rows.append(row)
        intervals.append([None if column.exact or value is None else
                          (float(value) - draw(st.floats(1, 1e9)), draw(st.sampled_from([float("inf"), float(value) + 7.0])))
                          for column, value in zip(columns, row, strict=True)])
    return Answer(columns=columns, data=of_rows(rows, [[None] * len(kinds)] * len(rows), intervals, len(kinds)), confidence=0.95)


def printed(columns: list[DrawnColumn], width: int) -> str:
    out = io.StringIO()
    draw(columns, Console(file=out, width=width, markup=False, emoji=False))
    return out.getvalue()


def squeezed(text: str) -> str:
    return "".join(text.split())


@settings(max_examples=100, deadline=None)
@given(answer=answers(), width=WIDTHS)
@example(answer=Answer(columns=(AnswerColumn(name="n", type=Type.BIGINT),), data=of_rows(
    [[2**62]], [[1.0]], [[(0.0, float("inf"))]], 1), confidence=0.95), width=20)
def test_no_digit_is_hidden_or_broken(answer: Answer, width: int) -> None:
    """Every number and every end of an interval stands whole in one line, at every width."""
    out = printed([_drawn(answer, i) for i in range(len(answer.columns))], width)
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        for value, column, end in zip(row, answer.columns, ends, strict=True):
            if column.type.numeric:
                told = shown(value, end)
                assert any(told in line for line in out.split("\n")), (told, out)
                assert all(word in out for word in interval_text(end, value).split())
    assert "\x1b" not in out


@settings(max_examples=100, deadline=None)
@given(title=NAMES, other=NAMES, texts=st.lists(TEXTS, min_size=1, max_size=3), width=WIDTHS, numbers=st.integers(0, 10**14))
def test_no_letter_of_a_text_is_hidden(title: str, other: str, texts: list[str], width: int, numbers: int) -> None:
    """The folded lines of a column, joined, are its title and its texts. The second column is of one letter that no text has, so
    that the first one can be told from it. In blocks, of which each has the titles, lines of titles and texts take turns."""
    def told(text: str) -> str:
        return squeezed(re.sub(r"─|\||\u2603|-\[ row \d+ \]-*", "", text))

    columns = [DrawnColumn(title=printable(title), values=[printable(text) for text in texts]),
               DrawnColumn(title="\u2603", values=["\u2603" for _ in texts])]
    out = printed(columns, width)
    if "-[ row 1 ]" in out:
        assert sorted(told(out)) == sorted(told("".join(map(printable, [*[title] * len(texts), *texts]))))
    else:
        assert told(out) == told("".join(map(printable, [title, *texts])))
    beside = [*columns, DrawnColumn(title=printable(other), values=[f"{numbers:,}"] * len(texts), number=True)]
    assert f"{numbers:,}" in printed(beside, width)


@pytest.mark.parametrize("width", [20, 40, 79, 80, 100, 120, 160, 200])
@pytest.mark.parametrize("wide", [False, True])
def test_lines_fit_the_terminal(width: int, wide: bool) -> None:
    """But for a number that is itself wider."""
    text = "収入の合計" * 30 if wide else "a text of many words and some-more " * 9
    columns = [DrawnColumn(title="the name of a column " * 3, values=[text, "x"]), DrawnColumn(
        title="SUM(medical_dollars)", values=["27,302,123", "1"], beside=["± 1,234", ""], number=True)] * 3
    assert max(map(cell_len, printed(columns, width).split("\n"))) <= max(width, len("  27,302,123  ± 1,234"))


FIVE = [DrawnColumn(title="health", values=["excellent", "poor"])] + [
    DrawnColumn(title=f"{name}(medical_dollars)", values=["27,302,123.45", "8.00"], beside=["± 1,234.56", "1.00 … 1,234,567.89"], number=True)
    for name in ("SUM", "AVG", "MEDIAN", "STDDEV", "MAX")]


@pytest.mark.parametrize(("width", "blocks"), [(80, True), (120, True), (200, False)])
def test_a_table_that_is_too_wide_is_a_block_for_each_row(width: int, blocks: bool) -> None:
    out = printed(FIVE, width)
    assert out.count("27,302,123.45") == 5 and out.count("1.00 … 1,234,567.89") == 5
    assert ("-[ row 1 ]-" in out) is blocks and ("-[ row 2 ]-" in out) is blocks


def test_what_has_no_rows_says_so() -> None:
    assert "health" in printed([DrawnColumn(title="health", values=[])], 80)
    none = printed([DrawnColumn(title=f"QUANTILE_CONT(income, 0.{i})", values=[], number=True) for i in range(9)], 40)
    assert none.startswith("no rows of QUANTILE_CONT(income, 0.0)")


@pytest.mark.parametrize("width", [30, 60, 80])
def test_lines_are_broken_between_words(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = "plan (what one person can change)\n" + "bound   " + "rows of each of them " * 9 + "\n    not laplace, gaussian: " + "it adds noise " * 9
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    print_wrapped(text)
    out = capsys.readouterr().out
    assert out.split() == text.split() and all(len(line) < width for line in out.split("\n"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    print_wrapped(text)
    assert capsys.readouterr().out == text + "\n", "what a program reads stays as it is"
