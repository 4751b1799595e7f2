"""`workload` of CREATE SYNTHETIC TABLE: the marginals that the table should be good at.

It is a text of parts, separated by semicolons. A part is `all k-way`, which stands for all marginals of k columns, or a statement
that counts or adds up rows of the new table, by its name: it stands for the marginal of the columns that it reads, in its groups,
its conditions and its sums. A marginal that stands there twice counts twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from sqlglot import exp

from dpsql.errors import Error, OptionError, SqlError, Unsupported
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Option, Query
from dpsql.synthesis.method import marginals_of

ALL = re.compile(r"\s*all\s+(\d+)\s*-?\s*way\s*", re.IGNORECASE)
FORM = "workload = 'all 3-way'"
MOST_MARGINALS = 20_000
LINEAR = (exp.Count, exp.CountIf, exp.Sum, exp.Avg)
NOT_PLAIN = (exp.Join, exp.Subquery, exp.Window, exp.With, exp.SetOperation, exp.Distinct)


def read_workload(option: Option | None, name: str, domain: TableDomain) -> tuple[Columns, ...]:
    """The marginals of a workload for the table with this name; those of `marginals_of` if none is named.

    Raises OptionError, located at the option, for what is no workload or a too large one; and SqlError or Unsupported, located
    in its own text, for a statement that is wrong, reads unknown columns, or does more than count and add up.
    """
    if option is None:
        return marginals_of(domain)
    if not isinstance(option.value, str):
        raise OptionError("workload must be a text", span=option.span, subject="workload", try_=FORM)
    found: list[Columns] = []
    for number, part in enumerate(_parts(option.value), start=1):
        every = ALL.fullmatch(part)
        found += _all_of(int(every[1]), domain, option) if every else [_marginal(part, number, name, domain)]
        if len(found) > MOST_MARGINALS:
            raise OptionError(f"a workload has at most {MOST_MARGINALS:,} marginals", span=option.span, subject="workload",
                              try_="all 3-way, or statements that name the relevant columns")
    if not found:
        raise OptionError("this workload is empty", span=option.span, subject="workload", try_=FORM)
    return tuple(found)


def _parts(text: str) -> Iterator[str]:
    """The parts that are separated by semicolons; of a part without a statement, those that are separated by commas."""
    for part in split(text):
        short = part.split(",")
        yield from short if all(map(ALL.fullmatch, short)) else [part]


def _all_of(width: int, domain: TableDomain, option: Option) -> tuple[Columns, ...]:
    most = len(domain.columns)
    if not 1 <= width <= most:
        raise OptionError(f"the table has {most} column{'s' * (most > 1)}, so there is no marginal of {width}", span=option.span,
                          subject="workload", try_=f"workload = 'all {min(max(width, 1), most)}-way'")
    if math.comb(most, width) > MOST_MARGINALS:
        raise OptionError(f"there are {math.comb(most, width):,} marginals of {width} columns, and a workload has at most "
                          f"{MOST_MARGINALS:,}", span=option.span, subject="workload", try_=FORM)
    return marginals_of(domain, width)


def _marginal(text: str, number: int, name: str, domain: TableDomain) -> Columns:
    """The columns that a statement reads, in the order of the table."""
    try:
        asked = parse(text)
        if not isinstance(asked, Query):
            raise Unsupported("a workload consists of queries", code="workload", try_=_example(name, domain))
        return domain.ordered(_columns(asked.tree, name, domain))
    except Error as fault:
        fault.source = f"part {number} of the workload" if fault.text in ("", text) else fault.source
        raise fault.located(text, fault.source) from None


def _example(name: str, domain: TableDomain) -> str:
    column = domain.columns[0]
    return f"all 3-way, or SELECT {column}, COUNT(*) FROM {name} GROUP BY {column}"


def _columns(tree: exp.Query, name: str, domain: TableDomain) -> set[str]:
    """The columns that a plain query of the table reads. Raises SqlError or Unsupported, located."""
    for part in tree.walk():
        if isinstance(part, exp.Table) and part.name.lower() != name.lower():
            raise SqlError(f"a workload must query the new table {name}, not {part.name}", code="workload",
                           span=span_of(part), subject=part.name, try_=name)
        if isinstance(part, NOT_PLAIN) or (isinstance(part, exp.AggFunc) and not isinstance(part, LINEAR)):
            raise _not_plain(part)
    if not isinstance(tree, exp.Select) or tree.find(exp.Table) is None or tree.find(*LINEAR) is None:
        raise _not_plain(tree)
    known = {column.lower(): column for column in domain.columns}
    named = {item.alias.lower() for item in tree.selects if isinstance(item, exp.Alias)}
    read = [column for column in tree.find_all(exp.Column) if not isinstance(column.this, exp.Star)]
    for column in read:
        if column.name.lower() not in known and (column.name.lower() not in named or column.table):
            raise SqlError(f"the new table has no column {column.name}", code="unknown-column", span=span_of(column),
                           subject=column.name, try_="one of " + ", ".join(domain.columns))
    found = {known[column.name.lower()] for column in read if column.name.lower() in known}
    if not found:
        raise Unsupported("this statement reads no column, and every synthetic table has about the right number of rows",
                          code="workload", span=span_of(tree), try_=_example(name, domain))
    return found


def _not_plain(part: exp.Expr) -> Unsupported:
    return Unsupported("a workload may only count rows of the table, or sum columns: COUNT, SUM or AVG, with conditions and "
                       "GROUP BY",
                       code="workload", span=span_of(part), try_="the relevant columns in a plain GROUP BY")
