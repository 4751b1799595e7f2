"""Many conditional sums, printed in two steps: rows that no condition distinguishes are added up first.

Sixty conditional sums evaluate sixty conditions on every row. But the conditions read few columns with few values: rows that
agree on them are counted and summed once, and then every condition is evaluated for each group instead of each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dpsql.trusted.plan.expr.functions import MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, columns, has_value, walk
from dpsql.trusted.plan.expr.printing import literal, quote, to_sql
from dpsql.trusted.plan.node import Node, Printing, columns_of
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums, clamped_total
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Type

FEWEST = 6  # sums; below that every row is looked at as soon
NARROW = 1000  # values that a whole number takes, so that it tells few groups apart
MOST_TEXTS, MOST_TESTS = 100, 24  # constants that one text is compared with; comparisons of columns with many values
ROWS = 't3."#n"'
EQUALITIES = ("=", "<>", MEMBERSHIP, "is null", "is not null")


def in_two_steps(plan: GroupedSums, below: str, printing: Printing) -> str | None:
    """The statement of a tally of a projection over the statement `below`; None if one step is as good.

    Proof that it gives the same sums. Rows of a group agree on all keys. A key is a column, the truth of a comparison, or the
    number of the constant that a text equals (0 for none of them, NULL for NULL). Of a text only comparisons for equality with
    these constants are asked, and they say the same of any text that is none of them, such as the one that stands for 0. So
    conditions, and values worked out of keys, are the same for all rows of a group: their sum is the value times the number of
    rows. Other values are summed by group, and the sum counts where the group's condition is true. Sums are of integers, in
    128 bits: 2^63 rows of 2^41 fit.
    """
    view = plan.input
    if (plan.keys or len(plan.summands) < FEWEST or not isinstance(view, Project)
            or all(summand.when is None for summand in plan.summands)):
        return None
    exprs = {column: expr for column, _, expr in view.columns}
    keys = _keys(view.input, [exprs[column] for summand in plan.summands for column in summand.columns])
    totals = []
    for summand in plan.summands:
        if not isinstance(summand, Count | GridSum):
            return None
        tests = [] if summand.when is None else [keys.truth(exprs[summand.when])]
        if isinstance(summand, GridSum):
            total = keys.summed(exprs[summand.column], summand)
        else:
            total = ROWS
            tests += [] if summand.column is None else [keys.truth(has_value(exprs[summand.column]))]
        totals.append(f"SUM(CASE WHEN {' AND '.join(tests)} THEN {total} END)" if tests else f"SUM({total})")
        if keys.tests > MOST_TESTS:
            return None
    if not keys.printed:
        return None
    sums = ", ".join(f"{total} AS {quote(name)}" for total, name in zip(totals, plan.totals, strict=True))
    shown = ", ".join(f"{clamped_total(f't4.{quote(name)}', printing)} AS {quote(name)}" for name in plan.totals)
    return f"SELECT {shown} FROM (SELECT {sums} FROM ({keys.groups(below)}) AS t3) AS t4"


@dataclass(slots=True)
class _Keys:
    """The grouping columns, and the sums of each group.

    names     how columns are printed for a row
    columns   how those that are keys are printed for a group
    printed   the keys, as they are printed for a row
    decoded   what a key stands for, where that is not the key itself
    sums      values that are summed over rows
    worked    conditions and values that are worked out of keys, once for each group
    """

    source: Node
    names: dict[str, str]
    columns: dict[str, str] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    decoded: dict[str, str] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)
    worked: dict[str, str] = field(default_factory=dict)
    tests: int = 0

    def truth(self, condition: Expr) -> str:
        """A condition, for a group."""
        return self._worked(self._condition(condition))

    def _condition(self, condition: Expr) -> str:
        if columns(condition) <= set(self.columns):
            return to_sql(condition, self.columns)
        if isinstance(condition, Call) and condition.function in ("and", "or", "not"):
            parts = [self._condition(arg) for arg in condition.args]
            return f"(NOT {parts[0]})" if condition.function == "not" else f"({f' {condition.function.upper()} '.join(parts)})"
        test = to_sql(condition, self.names)
        key = next((key for key, text in self.printed.items() if text == test), None)
        if key is None:
            key, self.tests = f"#k{len(self.printed)}", self.tests + 1
            self.printed[key] = test
        return f"t2.{quote(key)}"

    def summed(self, value: Expr, summand: GridSum) -> str:
        """The sum of a value over the rows of a group."""
        if columns(value) <= set(self.columns):
            return f"({ROWS} * {summand.grid.to_sql(self._worked(to_sql(value, self.columns)), value.type)})"
        cell = summand.grid.to_sql(to_sql(value, self.names), value.type)
        return f"t3.{quote(self.sums.setdefault(cell, f'#s{len(self.sums)}'))}"

    def _worked(self, text: str) -> str:
        return f"t3.{quote(self.worked.setdefault(text, f'#w{len(self.worked)}'))}"

    def groups(self, below: str) -> str:
        """The statement of the groups: the values computed from their keys, their sums, and their numbers of rows."""
        values = {name: cell for cell, name in self.sums.items()}
        inner = ", ".join(f"{text} AS {quote(name)}" for name, text in (self.printed | values).items())
        keys = ", ".join(f"t1.{quote(name)}" for name in self.printed)
        sums = "".join(f", SUM(t1.{quote(name)}) AS {quote(name)}" for name in values)
        groups = (f"SELECT {keys}{sums}, CAST(COUNT(*) AS HUGEINT) AS \"#n\" FROM (SELECT {inner} FROM ({below}) AS t0) AS t1 "
                  f"GROUP BY {keys}")
        plain = [*values, "#n"]
        decoded = ", ".join(f"{self.decoded.get(name, f't1.{quote(name)}')} AS {quote(name)}" for name in (*self.printed, *plain))
        shown = ", ".join([*(f"{text} AS {quote(name)}" for text, name in self.worked.items()),
                           *(f"t2.{quote(name)} AS {quote(name)}" for name in plain)])
        return f"SELECT {shown} FROM (SELECT {decoded} FROM ({groups}) AS t1) AS t2"


def _keys(source: Node, exprs: Sequence[Expr]) -> _Keys:
    """The columns that are used as keys unchanged, or as numbers of constants."""
    found = _Keys(source, columns_of("t0", source))
    parts = [part for expr in exprs for part in walk(expr)]
    equalities = [equal for part in parts if (equal := _equality(part)) is not None]
    uses = Counter(part.column for part in parts if isinstance(part, Ref))
    equated = Counter(column for column, _ in equalities)
    for column in uses:
        known = source.env[column]
        ends = (max(known.physical.low, known.declared.low), min(known.physical.high, known.declared.high))
        narrow = known.type is Type.BOOLEAN or (known.type is Type.BIGINT and ends[1] - ends[0] < NARROW)
        texts = dict.fromkeys(text for name, given in equalities if name == column for text in given)
        coded = known.type is Type.VARCHAR and equated[column] == uses[column] and len(texts) <= MOST_TEXTS
        if narrow or coded:
            key = f"#k{len(found.printed)}"
            found.columns[column] = "t2." + quote(key)
            found.printed[key] = _code(found.names[column], texts) if coded else found.names[column]
            if coded:
                found.decoded[key] = _decoded(f"t1.{quote(key)}", texts)
    return found


def _equality(part: Expr) -> tuple[str, list[str]] | None:
    """The column and the constants of a comparison for equality."""
    if not isinstance(part, Call) or part.function not in EQUALITIES:
        return None
    refs = [arg for arg in part.args if isinstance(arg, Ref)]
    rest = [arg for arg in part.args if isinstance(arg, Literal)]
    if len(refs) != 1 or len(refs) + len(rest) != len(part.args):
        return None
    return refs[0].column, [arg.value for arg in rest if isinstance(arg.value, str)]


def _code(text: str, known: Iterable[str]) -> str:
    arms = " ".join(f"WHEN {text} = {literal(one, Type.VARCHAR)} THEN {i}" for i, one in enumerate(known, start=1))
    return f"(CASE {arms} WHEN {text} IS NOT NULL THEN 0 END)"


def _decoded(code: str, known: Sequence[str] | dict[str, None]) -> str:
    other = max(known, key=len, default="") + "."  # longer than all of them
    arms = " ".join(f"WHEN {code} = {i} THEN {literal(one, Type.VARCHAR)}" for i, one in enumerate((other, *known)))
    return f"((CASE {arms} END) COLLATE \"C\")"
