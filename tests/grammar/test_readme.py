"""The README of the grammar: its table of functions is that of the code, its examples are bound, and it names what exists.

Run as a program, this file writes the table of functions anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.binding import Bench, bench
from support.grammar_sentences import FOLDER, grammar, values

from dpsql.plan.expr.functions import FUNCTIONS as ALL
from dpsql.plan.expr.functions import HELD, MEMBERSHIP, UNITS, Overload
from dpsql.plan.expr.nodes import Call, Cast, walk
from dpsql.plan.node import Node
from dpsql.plan.operators.filter import Filter
from dpsql.sql.text.border import ACCEPTED
from dpsql.sql.text.parse import parse
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Validate
from dpsql.sql.text.syntax import WORDS
from dpsql.types import Type

FUNCTIONS = {name: overloads for name, overloads in ALL.items() if name != HELD}  # which no text can ask for

README = FOLDER / "README.md"
HEADER = "| function | written | types | undefined values |\n|---|---|---|---|"
ROWS = "people JOIN visits USING (person_id)"

# How each function of the table is written; a name with a star stands for one for each unit.
EXAMPLES = {
    "and": ["active AND sex = 'f'"], "or": ["active OR sex = 'f'"], "not": ["NOT active"],
    "=": ["age = 30", "age == 30"], "<>": ["age <> 30", "age != 30"], "<": ["age < 30"], "<=": ["age <= 30"], ">": ["age > 30"],
    ">=": ["age >= 30"], "is distinct from": ["sex IS DISTINCT FROM 'f'"],
    "is not distinct from": ["sex IS NOT DISTINCT FROM 'f'", "active IS TRUE"], "is null": ["sex IS NULL"],
    "is not null": ["sex IS NOT NULL"], "in": ["sex IN ('f', 'm')"],
    "coalesce": ["coalesce(sex, '?')", "ifnull(sex, '?')"], "nullif": ["nullif(age, 0)"], "least": ["least(age, 50)"],
    "greatest": ["greatest(age, 18)"],
    "+": ["age + 1"], "-": ["age - 1"], "*": ["age * 2"], "/": ["age / 2"], "//": ["age // 10"], "%": ["age % 10", "mod(age, 10)"],
    "negate": ["-age"], "abs": ["abs(age)"], "sign": ["sign(age)"], "floor": ["floor(cost)"], "ceil": ["ceil(cost)", "ceiling(cost)"],
    "trunc": ["trunc(cost)"], "round": ["round(cost)", "round(cost, 1)"], "sqrt": ["sqrt(cost)"], "cbrt": ["cbrt(cost)"],
    "ln": ["ln(cost)", "log(3, cost)"], "log10": ["log10(cost)", "log(cost)", "log(10, cost)"], "log2": ["log2(cost)", "log(2, cost)"],
    "exp": ["exp(cost)"], "pow": ["pow(cost, 2)", "power(cost, 2)", "cost ** 2"], "sin": ["sin(cost)"], "cos": ["cos(cost)"],
    "tan": ["tan(cost)"], "atan": ["atan(cost)"], "radians": ["radians(cost)"], "degrees": ["degrees(cost)"],
    "isnan": ["isnan(cost)"], "isinf": ["isinf(cost)"], "isfinite": ["isfinite(cost)"],
    "lower": ["lower(sex)"], "upper": ["upper(sex)"], "reverse": ["reverse(note)"], "trim": ["trim(note)"], "ltrim": ["ltrim(note)"],
    "rtrim": ["rtrim(note)"], "length": ["length(note)"], "left": ["left(note, 1)"], "right": ["right(note, 1)"],
    "substring": ["substring(note, 1, 2)", "substr(note, 2)", "substring(note FROM 1 FOR 2)"], "contains": ["contains(note, 'i')"],
    "starts_with": ["starts_with(note, 'i')", "prefix(note, 'i')"], "ends_with": ["ends_with(note, 'l')", "suffix(note, 'l')"],
    "strpos": ["strpos(note, 'l')", "position('l' IN note)", "instr(note, 'l')"], "like": ["note LIKE 'i%'", "note ~~ 'i%'"],
    "ilike": ["note ILIKE 'I%'"], "regexp_matches": ["regexp_matches(note, '^i')", "note ~ '^i'"],
    "regexp_full_match": ["regexp_full_match(note, 'i.*')"], "||": ["sex || note", "concat(sex, age)"],
    "year": ["year(born)", "extract(year FROM seen)", "date_part('year', seen)"], "quarter": ["quarter(born)"], "month": ["month(born)"],
    "week": ["week(born)", "weekofyear(born)"], "day": ["day(born)", "dayofmonth(born)"],
    "dayofyear": ["dayofyear(born)", "extract(doy FROM born)"],
    "dayofweek": ["dayofweek(born)", "weekday(born)", "extract(dow FROM born)"], "isodow": ["isodow(born)"], "hour": ["hour(seen)"],
    "minute": ["minute(seen)"], "second": ["second(seen)"], "date_trunc_*": ["date_trunc('month', seen)"],
    "date_diff_*": ["date_diff('day', born, seen)", "datediff('day', born, seen)"], "days_between": ["born - DATE '2000-01-01'"],
    "add_to_date": ["born + 30", "born - 30"], "add_*": ["seen + INTERVAL 3 DAY", "born - INTERVAL 2 MONTH"],
}


def grouped(name: str) -> str:
    """The entry of the table for a function: those with a unit in their name share one."""
    for prefix in ("date_trunc_", "date_diff_"):
        if name.startswith(prefix) and name.removeprefix(prefix) in UNITS:
            return prefix + "*"
    return "add_*" if name in ("add_days", "add_weeks", "add_months", "add_years") else name


def table() -> str:
    """The table of functions, from the code."""
    rows: dict[str, list[Overload]] = {}
    for name, overloads in FUNCTIONS.items():
        rows.setdefault(grouped(name), []).extend(overloads)
    lines = [HEADER]
    for name, overloads in rows.items():
        written = ", ".join(f"`{example}`" for example in EXAMPLES.get(name, [])).replace("|", "\\|")
        undefined = "NULL" if any(row.undefined for row in overloads) else ""
        lines.append(f"| `{name.replace('|', chr(92) + '|')}` | {written} | {_types(overloads)} | {undefined} |")
        if name == "is not null":
            written = ", ".join(f"`{example}`" for example in EXAMPLES[MEMBERSHIP])
            lines.append(f"| `{MEMBERSHIP}` | {written} | T, *T*, ... → BOOLEAN |  |")
    return "\n".join(lines)


def _types(overloads: list[Overload]) -> str:
    for result in ("T", ""):  # T stands for the type of the arguments, in the result too or not
        alike = {_shape(row, {row.args[0]: "T"}, result or row.result.value) for row in overloads}
        fits = not result or all(row.result is row.args[0] for row in overloads)
        if len({row.args[0] for row in overloads}) >= len(Type) - 1 and len(alike) == 1 and fits:
            return alike.pop()
    return "; ".join(dict.fromkeys(_shape(row, {}, row.result.value) for row in overloads))


def _shape(row: Overload, names: dict[Type, str], result: str) -> str:
    args = [names.get(kind, kind.value) for kind in row.args]
    shown = [f"*{name}*" if i in row.constants else name for i, name in enumerate(args)]
    return f"{', '.join(shown)}{', ...' if row.variadic else ''} → {result}"


def text() -> str:
    return README.read_text(encoding="utf-8")


def parts() -> tuple[str, str, str]:
    before, _, rest = text().partition("<!-- functions -->\n")
    inside, _, after = rest.partition("<!-- end of functions -->")
    return before + "<!-- functions -->\n", inside, "<!-- end of functions -->" + after


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def test_the_table_of_functions_is_that_of_the_code() -> None:
    assert parts()[1] == table() + "\n"


def test_every_function_has_an_example_and_no_other() -> None:
    assert set(EXAMPLES) == {grouped(name) for name in FUNCTIONS} | {MEMBERSHIP}


@pytest.mark.parametrize(("name", "example"), [(name, example) for name, examples in EXAMPLES.items() for example in examples])
def test_what_is_written_is_bound_to_the_function(a_bench: Bench, name: str, example: str) -> None:
    view: Node = a_bench.bind(f"SELECT COUNT(*) FROM {ROWS} WHERE ({example}) IS NULL OR TRUE").view
    found: set[str] = set()
    while view.inputs:
        if isinstance(view, Filter):
            found |= {grouped(part.function) for part in walk(view.condition) if isinstance(part, Call)}
            assert not any(isinstance(part, Cast) and part.target == "INTEGER" for part in walk(view.condition))
        view = view.inputs[0]
    assert name in found
    grammar().parse(f"SELECT COUNT(*) FROM people WHERE ({example}) IS NULL")


def test_words_for_hints_are_words_of_the_examples_or_aggregates(a_bench: Bench) -> None:
    known = " ".join(example for examples in EXAMPLES.values() for example in examples) + text().lower()
    assert [word for word in WORDS if not re.search(rf"\b{word}[(`]", known)] == []


BLOCKS = re.findall(r"```sql\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("statement", [statement for block in BLOCKS for statement in split(block)])
def test_examples_are_sentences_and_are_bound(a_bench: Bench, statement: str) -> None:
    grammar().parse(statement)
    if not isinstance(parse(statement), Validate):  # which needs a synthetic table: see tests/validation
        a_bench.bind(statement, values(a_bench.query(statement).parameters))


def test_every_production_is_told() -> None:
    rules = {re.sub(r"^expr__", "", str(rule.origin.name)) for rule in grammar("start").rules}
    aliases = {str(rule.alias).removeprefix("expr__") for rule in grammar("start").rules if rule.alias}
    told = set(re.findall(r"`(\w+)`", text()))
    assert {name for name in rules | aliases if not name.startswith("_")} - told == set()


def test_files_that_are_named_exist() -> None:
    root = FOLDER.parent
    for name in re.findall(r"`((?:sql|plan|dpsql|tests)/[\w/]+(?:\.py)?/?)`", text()):
        assert any((root / folder / name).exists() for folder in ("", "dpsql")), name
    told = set(re.findall(r"`(\w+\.py)`", text()))
    assert {path.name for path in Path(root / "dpsql" / "sql").glob("*.py")} - told - {"__init__.py", "split.py", "statement.py"} == set()


def test_the_example_of_a_refusal_is_what_is_shown(a_bench: Bench) -> None:
    shown = text().rsplit("```\n", 2)[1].rstrip("\n")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its text is compared
        a_bench.bind("SELECT AVG(agee) FROM people")
    assert str(caught.value) == shown


def test_what_is_left_out_is_not_on_the_allowlist() -> None:
    assert not {kind.__name__ for kind in ACCEPTED} & {"Lateral", "Pivot", "TableSample", "Struct"}
    assert parse("SHOW TABLES")


if __name__ == "__main__":
    before, _, after = parts()
    README.write_text(before + table() + "\n" + after, encoding="utf-8")
