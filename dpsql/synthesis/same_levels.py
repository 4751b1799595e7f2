"""Coarser versions of columns that are the same in two views of the same tables, so that counts in one tell of the other."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import replace
from dpsql.synthesis.binned_views import ColumnParts, with_parts
from dpsql.synthesis.counted_values import number_of
from dpsql.synthesis.method import CodedColumn, CodedTable, columns_of_versions
from dpsql.trusted.plan.expr.nodes import Value


def with_same_levels(table: CodedTable, other: CodedTable, names: Mapping[str, str]) -> CodedTable:
    """The table with the coarser versions that columns have in another one: `names` has for columns here their names there, where
    all values of the columns here are listed, too, but for NULL."""
    here = {column.name: column for column in table.columns}
    known = {column.name: column for column in (*other.columns, *other.coarser)}
    found, parts = list[CodedColumn](), list[ColumnParts]()
    base_of = columns_of_versions(other.coarser)
    for name, there in names.items():
        of, numbers = here[name], {value: value for value in known[there].values}
        for version in (one for one in other.coarser if base_of[one.name] == there):
            merged = dict(zip(known[version.of].values, (version.values[place] for place in version.merged), strict=True))
            made = _version(of, name + version.name.removeprefix(there), version, merged)
            numbers = {value: merged[number] for value, number in numbers.items()}
            found.append(made)
            parts.append(ColumnParts(column=here[name].column, starts=_starts(numbers)))
            of = made
    if not found:
        return table
    view, columns = with_parts(table.view, parts)
    return replace(table, leveled=view, coarser=tuple(
        replace(one, column=column) for one, column in zip(found, columns, strict=True)))


def _version(of: CodedColumn, name: str, there: CodedColumn, merged: Mapping[Value, Value]) -> CodedColumn:
    """The version of a column here in which its values are merged as they are there."""
    values = (*(value for value in there.values if value is not None), *((None,) if None in of.values else ()))
    return replace(there, name=name, of=of.name, values=values, merged=tuple(
        values.index(None if value is None else merged[value]) for value in of.values))


def _starts(numbers: Mapping[Value, Value]) -> tuple[Value, ...]:
    """The first value of each part, from low to high; `numbers` has the part of each value."""
    found: dict[Value, Value] = {}
    for value in sorted((value for value in numbers if value is not None), key=number_of):
        found.setdefault(numbers[value], value)
    return tuple(found.values())
