"""Numbers of distinct values: of entities, of declared values that are tested one by one, or of all values by their entities.

Other numbers are measured as matchings with entities, if these may vouch for values (`planning.matching_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.mechanisms.mechanism import Linear, Occurrences, Shared
from dpsql.planning.contribution_bound import MANY_ROWS, BoundedQuestion
from dpsql.planning.declared_groups import in_declared_groups, may_be_tested
from dpsql.planning.groups import cells_declared
from dpsql.planning.part_kind import LimitedRows, PartKind, Reach, linear_task
from dpsql.planning.sum_parts import sample_sum
from dpsql.questions.parts import Distincts, Matchings, Part
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

FEW_VALUES, MOST_VALUES, VALUES_OF_A_ROW = 64, 256, 16  # values tested one by one: in any case, at most, per row of an entity
MOST_LISTED = 2**14  # such values in all declared groups together
MOST_COUNTED_IN = 16  # groups in which entities are counted without a limit on their rows
MOST_VOUCHED = 4  # groups up to which entities vouch for values: all rows of an entity may be in each of them


class DistinctsKind(PartKind[Distincts]):
    """Numbers of distinct values of one column."""

    def measured_as(self, part: Distincts, asked: BoundedQuestion) -> Part:
        """The part, or a matching with entities in its place if values are not tested one by one and entities may vouch for
        them."""
        if are_listed(part, asked) or not _may_vouch(part, asked):
            return part
        return Matchings(column=part.column, when=part.when)

    def task(self, at: int, part: Distincts, asked: BoundedQuestion, rows: LimitedRows) -> Linear | Occurrences:
        known = stability(rows.view, rows.public)
        if not are_listed(part, asked) or part.values is None or known.owner is None:
            return _number_of_values(at, part, asked, rows.view, rows.public)
        total = _number_of_values(at, part, asked, rows.view, rows.public) if known.rows is not None else None
        return Occurrences(at=at, input=distinct_values(rows.view, part, (known.owner, *asked.keys)), owner=known.owner,
                           column=part.column, values=tuple(part.values.values), total=total)

    def shared_task(self, at: int, part: Distincts, asked: BoundedQuestion, view: Node, reach: Reach | None = None) -> Shared:
        """Raises TypeError: with such bounds, matchings are measured instead of distinct values."""
        raise TypeError("the mechanism of a bound counts matchings, not distinct values")

    def sample(self, at: int, part: Distincts, asked: BoundedQuestion) -> Linear | Occurrences:
        if part.values is None or not are_listed(part, asked):
            return sample_sum(at, Count(), asked)
        return Occurrences(at=at, input=asked.view, owner=asked.owner, column=part.column, values=tuple(part.values.values),
                           total=None)

    def words(self, part: Distincts, asked: BoundedQuestion) -> str:
        return f"distinct {'entities' if part.entities else 'values of ' + asked.view.names[part.column]}"

    def counted(self, part: Distincts, asked: BoundedQuestion) -> str:
        return "distinct entities" if part.entities else "distinct values of all entities"

    def counts_once(self, part: Distincts, asked: BoundedQuestion) -> bool:
        return (part.entities and _few_groups(asked)) or are_listed(part, asked)

    def counts_entities(self, part: Distincts) -> bool:
        return part.entities

    def told_by_keys(self, part: Distincts, *, rows: bool, entities: bool) -> bool:
        return entities and part.entities and part.when is None


def are_listed(part: Part, asked: BoundedQuestion) -> bool:
    """Whether the distinct values of a column are tested one by one: so few are declared that noise on their number could be
    about as large as the number, and the options name no additive mechanism. With more values, rare ones would probably be
    missed, so entities vouch for them if possible."""
    if not isinstance(part, Distincts) or part.values is None or part.entities or asked.known.owner is None:
        return False
    many, rows = len(part.values), asked.known.rows
    if many > FEW_VALUES and _may_vouch(part, asked):
        return False
    few = 0 < many <= (MOST_VALUES if rows is None else min(MOST_VALUES, max(FEW_VALUES, VALUES_OF_A_ROW * rows)))
    return (few and many * max(1, cells_declared(asked.question)) <= MOST_LISTED
            and not {part.column, asked.owner} & set(asked.keys) and not _is_additive(asked))


def _may_vouch(part: Distincts, asked: BoundedQuestion) -> bool:
    """Whether entities may vouch for values: rows have one owner, an entity may have many rows, there are few groups, and no
    additive mechanism is named in the options."""
    if part.entities or asked.known.owner is None:
        return False
    options, rows = asked.options, asked.known.rows
    many = options.bound == "auto" and options.max_rows is None and (rows is None or rows >= MANY_ROWS)
    declared = all(key.domain is not None for key in asked.question.keys)
    few = declared and cells_declared(asked.question) <= MOST_VOUCHED and not {part.column, asked.owner} & set(asked.keys)
    return many and few and not _is_additive(asked)


def _is_additive(asked: BoundedQuestion) -> bool:
    """Whether the options name an additive mechanism."""
    return bool({"laplace", "gaussian"} & set(asked.options.mechanisms))


def _few_groups(asked: BoundedQuestion) -> bool:
    """Whether an entity that is in every group moves few of their numbers of entities, so that none of its rows needs a limit."""
    return not asked.keys or (may_be_tested(asked.question) and cells_declared(asked.question) <= MOST_COUNTED_IN)


def _number_of_values(at: int, part: Distincts, asked: BoundedQuestion, view: Node, public: PublicFacts) -> Linear:
    values = distinct_values(view, part, asked.keys)
    if part.entities and asked.keys and may_be_tested(asked.question):
        values = _in_each_group_once(values, asked, stability(view, public).rows)
    return linear_task(at, values, asked.keys, Count(column=part.column), public)


def _in_each_group_once(entities: Node, asked: BoundedQuestion, rows: int | None) -> Node:
    """The entities of each group, where an entity has no more rows than there are groups. That is so of the declared ones; the
    limit drops no row, and is there for the kernel to see it."""
    groups = cells_declared(asked.question)
    if rows is not None and rows <= groups:
        return entities
    inside = Filter(input=entities, condition=in_declared_groups(entities, asked.question.keys))
    return Truncate(input=inside, rows=groups, owner=asked.owner, order=asked.keys)


def distinct_values(view: Node, part: Distincts, keys: Sequence[str]) -> Node:
    """The distinct values of a column in each cell."""
    kept = view if part.when is None else Filter(input=view, condition=Ref(column=part.when, type=Type.BOOLEAN))
    names = dict.fromkeys((*keys, part.column))
    return Distinct(input=Project(input=kept, columns=tuple((name, view.names[name], view.field(name).ref) for name in names)))
