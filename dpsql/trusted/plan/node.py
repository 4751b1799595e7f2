"""The operator tree: the question, as frozen values.

Every operator derives its fields, states how many of its rows one entity can change (`stability`), and prints itself. The
walker here recurses; operators and rules only see one node and the results from below.
"""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from typing import Protocol, TypeVar

from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.nodes import Expr, Ref
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.stored import StoredTable
from dpsql.types import Interval, Type

IDENTIFIER = re.compile("[a-z_][a-z0-9_]*")


class Field(Frozen, gc=False):
    """A column of a relation: a plan-wide identifier, the name shown to people, and the facts about its values."""

    id: str
    name: str
    facts: Facts

    @property
    def ref(self) -> Ref:
        return Ref(column=self.id, type=self.facts.type)


class Norm(Frozen):
    """For every entity, the vector of its values in `columns` over all its rows has an `order`-norm of at most `bound`."""

    order: int
    bound: int
    columns: tuple[str, ...]


class Stability(Frozen):
    """How far one protected entity can move a relation, in every database.

    rows     the most rows that differ when one entity is added or removed (multiset symmetric difference);
             0 for a public relation, None if no bound is known
    owners   the columns that name the entities each row belongs to: removing an entity removes exactly the rows in which
             one of them names it, and changes no other. empty if rows have no owner
    norm     a bound on the vector an entity contributes, if the rows were clipped
    because  the reason, for people
    """

    rows: int | None
    owners: tuple[str, ...] = ()
    norm: Norm | None = None
    because: str = ""

    @property
    def public(self) -> bool:
        return self.rows == 0

    @property
    def owner(self) -> str | None:
        """The owner of rows that belong to one entity each; None if they have several owners, or none."""
        return self.owners[0] if len(self.owners) == 1 else None


class SplitBy(enum.Enum):
    """How a relation over all entities is composed from the same relation over disjoint sets of them, each set with its own rows
    of private tables and all rows of public ones."""

    PUBLIC = "it is equal over each set"
    ENTITIES = "its rows are the union of the rows over each set"
    WHOLE = "it is not known to follow"


class PublicFacts(Protocol):
    """Lookups in public relations, whose contents everyone knows."""

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        """The largest number of rows of a public relation, duplicates included, that agree on `columns` (all rows for no
        columns).

        Rows agree as for `Node.max_frequencies`: NULL agrees with NULL. Where rows are joined by `=`, callers leave out those
        with NULL beforehand.
        """
        ...


class Printing(Frozen):
    """The settings for printing a plan.

    salt    the secret that orders rows for truncation
    reach   ranges of columns of the input over the present rows. They may shorten a text, and must not change its result
    stored  the private tables, by name, that are read in a store instead of the database
    bucket  the number of the one bucket that is read; None for all of them
    hold    whether sums are held within 64 bits, or first added to others
    keep    from the statement of a relation that several texts read, one with the same rows: they may be kept in a table
    idle    whether a node is a truncation that is known to keep every present row: how rows are read may depend on it, and never
            which are chosen
    native  whether the text is for the embedded engine, without parts to merge: rows may be in other forms that are read faster
    """

    salt: int = 0
    reach: Mapping[str, Interval] = field(default_factory=dict)
    stored: Mapping[str, StoredTable] = field(default_factory=dict)
    bucket: int | None = None
    hold: bool = True
    keep: Callable[[str], str] = lambda statement: statement
    idle: Callable[[Node], bool] = lambda node: False
    native: bool = False

    def seen(self, input: Node) -> dict[str, Facts]:
        """Facts about the columns of a relation, with their ranges over the actual rows."""
        return dict(input.env) | {column: replace(known, physical=self.reach[column])
                                  for column, known in input.env.items()
                                  if column in self.reach and self.reach[column].inside(known.physical)}


class InvalidPlan(Exception):
    """A node that breaks an invariant: an unknown column, a wrong type, an expression that could raise."""


class Node(Frozen):  # without ABCMeta, which makes `isinstance`, asked hundreds of times a statement, several times as slow
    """A relation. Equality is structural; fields are derived and checked when they are first read."""

    @cached_property
    @abc.abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The columns, in order."""

    @property
    @abc.abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The input relations."""

    @abc.abstractmethod
    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        """The stability of this relation, given that of its inputs. The proof is in the class's docstring."""

    def split_by(self, below: tuple[SplitBy, ...]) -> SplitBy:
        """How this relation is composed from disjoint sets of entities, given how its inputs are. It is only called for
        private relations whose rows do not have one owner each, as `certificate.splits` handles those; the proof is in the
        class's docstring.
        """
        return SplitBy.WHOLE

    @abc.abstractmethod
    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        """The SELECT statement of this relation over the printed inputs."""

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        """For sets of columns, the largest number of rows that agree on all of them, in every database. None is always a valid
        answer.

        Rows agree where `=` says so, and NULL agrees with NULL: the one equality of groups, joins, keys and what is apart (see
        `expr.printing.settled`). So a frequency holds for rows joined by IS NOT DISTINCT FROM as well as by `=`. For no
        columns: the largest number of rows. Declarations and facts about one database do not count here, only what operators
        enforce and the database guarantees.
        """
        return {}

    @property
    def unique(self) -> tuple[frozenset[str], ...]:
        """Sets of columns on which no two rows agree, in every database."""
        return tuple(columns for columns, rows in self.max_frequencies.items() if rows <= 1)

    def max_frequency(self, columns: Collection[str]) -> int | None:
        """The largest number of rows that agree on all of these columns, in every database; None if it is not known."""
        return min((rows for agreed, rows in self.max_frequencies.items() if agreed <= set(columns)), default=None)

    @cached_property
    def env(self) -> Mapping[str, Facts]:
        return {field.id: field.facts for field in self.fields}

    @cached_property
    def well_named(self) -> bool:
        """Whether its columns have different names that consist of letters and digits. Engines do not distinguish names by
        case."""
        ids = [field.id.lower() for field in self.fields]
        return len(set(ids)) == len(ids) and all(map(IDENTIFIER.fullmatch, ids))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Column names, as shown to people."""
        return {field.id: field.name for field in self.fields}

    def field(self, column: str) -> Field:
        for found in self.fields:
            if found.id == column:
                return found
        raise InvalidPlan(f"{type(self).__name__} has no column {column}")


class Summary(Node):
    """A function of all rows of its input, which is only read with noise.

    Proof. Over a public relation nothing moves: 0. Over anything else it claims no stability as a relation, so nothing that is
    built upon it is certified; the measurement that reads it bounds what one entity can move.
    """

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return Stability(rows=0 if below[0].public else None, because="it is made of the rows of all entities")

    def merge_sql(self, parts: str) -> str | None:
        """The SELECT statement of this summary over all entities. `parts` names a table with the summary's rows over disjoint
        sets of entities, with sums that are not clamped yet (`Printing.hold`). None if the summary does not follow from these
        rows. It is only called if the input is split by entity; the proof is in the class's docstring."""
        return None

    @property
    def merge_keys(self) -> tuple[str, ...]:
        """The columns by which `merge_sql` groups its parts; empty if it does not group them."""
        return ()

    def combine_sql(self, parts: str) -> str:
        """The SELECT statement of rows that may replace those of `parts`, which are any of the rows given to `merge_sql`: its
        result stays the same, and there are fewer rows if some agree on its keys. It is only called if there are keys."""
        raise NotImplementedError


def known(expr: Expr, below: Node, *, kind: Type | None = None) -> Facts:
    """Facts about an expression over a relation. Raises InvalidPlan if the expression may fail, or if its type is not `kind`."""
    try:
        found = facts(expr, below.env)
    except (NotTotal, KeyError) as fault:
        raise InvalidPlan(f"an expression is not safe: {fault}") from None
    if found.type is not expr.type or (kind is not None and found.type is not kind):
        raise InvalidPlan(f"an expression has type {found.type.value}")
    return found


def least(*max_frequencies: Mapping[frozenset[str], int]) -> dict[frozenset[str], int]:
    """Several valid sets of frequencies, merged: the smallest for each set of columns."""
    found: dict[frozenset[str], int] = {}
    for given in max_frequencies:
        for columns, rows in given.items():
            found[columns] = min(rows, found.get(columns, rows))
    return found


def columns_of(alias: str, node: Node) -> dict[str, str]:
    """How each column of `node` is printed under `alias`."""
    return {field.id: f"{alias}.{quote(field.id)}" for field in node.fields}


Result = TypeVar("Result")


def fold(plan: Node, visit: Callable[[Node, tuple[Result, ...]], Result]) -> Result:
    """Visit bottom-up: `visit` gets a node and the results of its inputs."""
    return visit(plan, tuple(fold(below, visit) for below in plan.inputs))


def bottom_up(plan: Node) -> list[Node]:
    """Every node of a plan, after its inputs; a node that occurs several times is listed each time."""
    return [*chain.from_iterable(map(bottom_up, plan.inputs)), plan]
