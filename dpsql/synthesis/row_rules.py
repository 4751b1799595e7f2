"""Rules that every row of a synthetic table obeys, such as income = 0 OR hours > 0.

A rule is a condition on the columns of one row, of which the owner or the analyst says that it is true, or unknown, in every row.
It fails for no row, even one unlike any private row: what has no value there, such as x / 0, is NULL (`plan.expr.printing`).
Nothing is asked of private rows for it. A model of the columns gets the combinations of their values or bins that no row can
have, where a rule is about one or two columns; rows that are drawn against a rule all the same are drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.models.junction_tree import model_cells
from dpsql.models.mirror_descent import fit
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.method import CodedColumn, domain_of
from dpsql.trusted.plan.expr.nodes import Expr, Value
from dpsql.types import Type
from dpsql.workload.factors import Array

MOST_CELLS, MOST_MODEL = 2**14, 2**20  # combinations that are looked at for a rule; cells of a model of all rules
LOOKS = 0.0, 0.01, 0.25, 0.5, 0.75, 0.99  # places within a bin at which a rule is looked at
Mask = NDArray[np.bool_]


class Evaluator(Protocol):
    """What evaluates expressions over public rows."""

    def evaluate(self, exprs: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> list[tuple[Any, ...]]: ...


class RowRule(Frozen):
    """A condition over columns of a synthetic table, by their names, and its text."""

    text: str
    columns: Columns
    condition: Expr


class RowRules(Frozen, eq=False):
    """Rules, and what evaluates them: it is needed if there are rules."""

    rules: tuple[RowRule, ...] = ()
    evaluator: Evaluator | None = None

    def obeyed(self, columns: Mapping[str, tuple[Type, Sequence[Value]]]) -> Mask:
        """Which rows, given column by column, break no rule."""
        size = max((len(values) for _, values in columns.values()), default=0)
        found = np.ones(size, dtype=bool)
        for rule in self.rules:
            assert self.evaluator is not None
            told = self.evaluator.evaluate([rule.condition], {name: columns[name] for name in rule.columns})
            found &= np.array([answer is not False for answer, in told], dtype=bool)
        return found

    def ruled_out(self, forms: Sequence[Form], coded: Sequence[CodedColumn]) -> Mapping[Columns, Array]:
        """For each rule about one or two columns: 1 for the combinations of their entries that no row can have, else 0. A bin is
        looked at in some places only, so a combination may be left out that a rare value could have. Nothing is ruled out if
        nothing would be left, or if a model of all rules would be too large."""
        found: dict[Columns, Array] = {}
        if not self.rules:
            return found
        known = {column.name: (form, column) for form, column in zip(forms, coded, strict=True)}
        for rule in (rule for rule in self.rules if len(rule.columns) <= 2 and known.keys() >= {*rule.columns}):
            own = [known[name] for name in rule.columns]
            shape = [len(column.values) for _, column in own]
            if math.prod(shape) <= MOST_CELLS:
                table = np.reshape(self._looked_at(rule, own), shape)
                before = found.get(rule.columns, np.zeros(shape))
                found[rule.columns] = np.asarray(np.maximum(table, before))
        return found if consistent(domain_of(coded), found) else {}

    def _looked_at(self, rule: RowRule, own: Sequence[tuple[Form, CodedColumn]]) -> Array:
        """1 for each combination of entries that breaks a rule wherever it is looked at, else 0."""
        looks = len(LOOKS) ** len(own)
        cells = list(product(*(range(len(column.values)) for _, column in own)))
        uniform = np.array(list(product(LOOKS, repeat=len(own))) * len(cells))
        places = np.repeat(np.array(cells), looks, axis=0)
        values = {column.name: (form.type, form.values(column.values, places[:, at], uniform[:, at]))
                  for at, (form, column) in enumerate(own)}
        one = RowRules(rules=(rule,), evaluator=self.evaluator)
        never = (~one.obeyed(values)).reshape(len(cells), looks).all(axis=1)
        return np.asarray(never, dtype=np.float64)


def consistent(domain: TableDomain, excluded: Mapping[Columns, Array]) -> bool:
    """Whether a model of moderate size has combinations of values that are not excluded."""
    if model_cells(domain, excluded) > MOST_MODEL:
        return False
    try:
        fit(domain, (), total=1.0, impossible=excluded)
    except ValueError:
        return False
    return True


def names_of(rules: Iterable[RowRule]) -> str:
    """The rules in words."""
    return "; ".join(rule.text for rule in rules)
