"""The patterns of new texts that a policy gives for columns, `like = "[A-Z]{2}-[0-9]{4}"`, checked when the policy is opened."""

from __future__ import annotations

from dpsql.catalog.model import Catalog, ColumnPolicy, Policy
from dpsql.catalog.sections import locate
from dpsql.errors import PolicyError
from dpsql.frozen import replace
from dpsql.types import Type


def with_patterns(policy: Policy, catalog: Catalog) -> Catalog:
    """The catalog with the patterns of the policy. Raises PolicyError, located, for a column that is no text or has listed
    values, or for a pattern that is none."""
    found: dict[str, dict[str, str]] = {}
    for name, table in catalog.tables.items():
        for column, declared in policy.tables[name].columns.items():
            if declared.like is not None:
                why, try_ = _fault(declared, table.columns[column].type, declared.like)
                if why:
                    path = ("tables", name, "columns", column, "like")
                    raise PolicyError(f"{'.'.join(path)}: {why}", try_=try_, span=locate(policy.text, path),
                                      subject=".".join(path), text=policy.text, source=policy.path)
                found.setdefault(name, {})[column] = declared.like
    return replace(catalog, patterns=found) if found else catalog


def _fault(declared: ColumnPolicy, kind: Type, pattern: str) -> tuple[str, str]:
    """What is wrong with a pattern, and what to write; both empty if nothing is."""
    from dpsql.synthesis.text_patterns import WRITTEN, WrongPattern, pattern_of  # loaded only where there is a pattern

    if kind is not Type.VARCHAR:
        return f"new texts are for columns of texts, and this one is {kind.value}", "leaving like out"
    if declared.values is not None or declared.values_from is not None:
        return "new texts are for a column whose values are not listed", "leaving like or the values out"
    try:
        pattern_of(pattern)
    except WrongPattern as wrong:
        return f"the pattern is wrong: {wrong}", f'{WRITTEN}like = "[A-Z]{{2}}-[0-9]{{4}}"'
    return "", ""
