"""VALIDATE as it is called from Python and from the shell: queries, tables and options given as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpsql.catalog.file_names import is_of_rows
from dpsql.catalog.price import exact
from dpsql.errors import Error, OptionError, ProgrammingError
from dpsql.frozen import replace
from dpsql.sql.text.parse import parse, parse_check
from dpsql.sql.text.statement import CheckedQuery, Option, Standing, Validate, Width
from dpsql.trusted.plan.expr.nodes import Value

LEAST_TOLERANCE, MOST_TOLERANCE = Fraction(1, 10**12), Fraction(10**15)
Sources = Mapping[str | None, Any]


def statement_of(queries: Sequence[str], synthetic: Any, within: object, options: Mapping[str, Any]) -> tuple[Validate,
                                                                                                             Sources | None]:
    """The statement, and the files and frames passed with it; None if it names public tables."""
    if not queries:
        raise ProgrammingError("there is no query to validate", code="empty", try_="SELECT COUNT(*) FROM ..., or several in a "
                               "list, or separated by semicolons")
    width = _width(within)
    checks = []
    for text in queries:
        check = parse_check(text)
        if check.width is None and width is None:
            raise OptionError("no tolerance is given", code="tolerance", subject="within",
                              try_="within=200, or within=\"5 PERCENT OR 10\"; --within in a shell")
        checks.append(CheckedQuery(query=check.query, width=check.width or width))
    sources = dict(synthetic) if isinstance(synthetic, Mapping) else {None: synthetic}
    if not sources:
        raise OptionError("no synthetic table is given", code="synthetic", subject="synthetic")
    given = tuple(Option(name=name, value=_value(value), span=None) for name, value in options.items())
    text = "VALIDATE " + ", ".join(f"({' '.join(query.split())})" for query in queries)
    made = Validate(checks=tuple(checks), options=given, text=text)
    names = {key: source for key, source in sources.items() if isinstance(source, str) and not _is_file(source)}
    if not names:
        return made, sources
    if len(names) < len(sources):
        raise OptionError("private tables are replaced by public tables or by files and frames, not by both", code="synthetic",
                          subject=next(iter(names.values())), try_="files and frames for all of them")
    return replace(made, standing=tuple(Standing(table=name, instead=key, span=None) for key, name in names.items())), None


def _is_file(name: str) -> bool:
    return is_of_rows(name)


def _value(value: object) -> Value:
    return float(value) if isinstance(value, Decimal) and not value.is_snan() else value  # type: ignore[return-value]


def _width(within: object) -> Width | None:
    """A tolerance from a number, or from what stands after WITHIN."""
    if within is None:
        return None
    if isinstance(within, str):
        try:
            found = parse(f"VALIDATE (SELECT 1) AGAINST t WITHIN {within}")
        except Error:
            found = None
        if not isinstance(found, Validate) or found.options or found.checks[0].width is None:
            raise OptionError(f"{within!r} is not a tolerance", code="tolerance", subject="within",
                              try_="200, or \"5 PERCENT OR 10\"")
        return replace(found.checks[0].width, span=None)
    number = exact(within, "within", least=LEAST_TOLERANCE, most=MOST_TOLERANCE)
    return Width(absolute=number, percent=None)
