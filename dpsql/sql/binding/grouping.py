"""Binds GROUP BY and aggregates, for the outermost SELECT and for grouped queries inside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from dpsql.errors import Error, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import GroupingLevel
from dpsql.sql.binding.aggregates import Aggregated, AggregateReader
from dpsql.sql.binding.binding_context import FreshIdentifiers, SelectHost
from dpsql.sql.binding.expressions import Binder
from dpsql.sql.binding.grouping_sets import sets_of
from dpsql.sql.binding.running_totals import inner_of_over, read_over
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import has_aggregate, inner_of, is_grouping_set, is_star, item_name, not_here, position_of
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.functions import SAFE_INTEGERS
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref, rewrite, walk
from dpsql.trusted.plan.operators.lookup import LISTED
from dpsql.types import ANY_NUMBER, Interval, Span, Type

MOST_GROUPING = 50  # so that their bits fit into a whole number
RELEASED_COUNTS = Interval(-(2**50), 2**50)  # counts, noisy ones too, are clamped to this range, so that they stay integers


class GroupKey(Frozen):
    """An expression of GROUP BY, and the identifier of the column that will carry it."""

    id: str
    name: str
    expr: Expr


class Grouping(Binder):
    """Binds expressions over groups: resolves keys, collects aggregates, and leaves the rest to the binder of the rows below.

    Aliases of the SELECT list may be used too: in the list itself if no column has that name, in HAVING if no key has it, and
    in ORDER BY even before columns.
    """

    def __init__(self, host: SelectHost, fresh: FreshIdentifiers, *, exact: bool = False, around: Collection[str] = (),
                 within: Sequence[Expr] | None = None) -> None:
        """`exact` aggregates are computed for each entity, inside a query; the others are released with noise. `around` are
        columns of the query around, which are the same for all rows here. `within` are the keys, where they are known before."""
        super().__init__()
        self._within = None if within is None else tuple(within)
        self._host, self._fresh, self._exact, self._around = host, fresh, exact, frozenset(around)
        self._aliases: dict[str, Expr] = {}
        self._known: dict[str, Facts] = {}
        self._clause = "SELECT"
        self.keys: list[GroupKey] = []
        self.sets: list[tuple[int, ...]] | None = None
        self.levels: list[GroupingLevel] = []
        self.aggregates: list[Aggregated] = []
        self._asked: dict[tuple[object, ...], Aggregated] = {}  # by what they mean

    # -- host

    @property
    def env(self) -> Mapping[str, Facts]:
        return {**self._host.env, **self._known}

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self._host.parameters

    def column(self, name: str, table: str | None, span: Span | None) -> Expr:
        alias = self._aliases.get(name.lower()) if table is None else None
        if alias is None:
            return self._host.column(name, table, span)
        if self._clause == "ORDER BY":
            return replace(alias, span=span)
        try:
            found = self._host.column(name, table, span)
        except Error:
            return replace(alias, span=span)
        known = self._clause == "SELECT" or any(key.expr == found for key in self.keys)
        return found if known else replace(alias, span=span)

    def listed(self, subjects: tuple[Expr, ...], query: exp.Expr, span: Span | None) -> Expr:
        return self._host.listed(subjects, query, span)

    def exists(self, query: exp.Expr, span: Span | None) -> Expr:
        return self._host.exists(query, span)

    def compared_with_any(self, subject: Expr, name: str, query: exp.Expr, span: Span | None) -> Expr:
        return self._host.compared_with_any(subject, name, query, span)

    def scalar(self, query: exp.Expr, span: Span | None) -> Expr:
        return self._host.scalar(query, span)

    def window(self, node: exp.Expr) -> Expr:
        """A window over groups; its inner aggregate is over rows."""
        if self._exact:
            raise not_here(node)
        if self.sets is not None:
            raise Unsupported("an aggregate over groups of several grouping sets is not answered", code="window-here",
                              span=span_of(node), try_="one statement for each grouping set")
        read = AggregateReader(self._host, self._fresh.column(), exact=False).read(inner_of_over(node))
        if not read.aggregate.linear:
            raise not_here(node)
        over = read_over(node, self._key_of, self._host.bind, len(self.keys))
        return self._known_as(replace(read, over=over, span=span_of(node), type=Type.DOUBLE if over.mean else read.type))

    def level(self, node: exp.Expr) -> Expr:
        """The column with the value of GROUPING(keys)."""
        keys = tuple(self._key_of(part)[0] for part in node.expressions)
        if len(keys) > MOST_GROUPING:
            raise SqlError(f"GROUPING takes up to {MOST_GROUPING} keys", code="group-by", span=span_of(node))
        found = next((level for level in self.levels if level.keys == keys), None)
        if found is None:
            found = GroupingLevel(id=self._fresh.column(), keys=keys)
            self.levels.append(found)
            ends = Interval(0, 2 ** len(keys) - 1)
            self._known[found.id] = Facts(type=Type.BIGINT, nullable=False, physical=ends, declared=ends, whole=True)
        return Ref(column=found.id, type=Type.BIGINT, span=span_of(node))

    def _key_of(self, node: exp.Expr) -> tuple[str, Type]:
        """The column and type of the key that an expression equals. Raises SqlError if there is no such key."""
        expr = self._host.bind(node)
        found = next((key for key in self.keys if key.expr == expr), None)
        if found is None:
            raise SqlError("this is not a key of GROUP BY", code="group-by", span=span_of(node), try_="one of " + ", ".join(
                key.name or "the keys" for key in self.keys) if self.keys else "GROUP BY ...")
        return found.id, found.expr.type

    def bins(self, node: exp.Expr) -> Expr:
        return self._host.bins(node)

    def compiles(self, pattern: str) -> bool:
        return self._host.compiles(pattern)

    def aggregate(self, node: exp.Expr) -> Expr:
        """Read an aggregate."""
        inner = node.this if isinstance(node, exp.Filter) else node
        if self._exact and isinstance(inner, exp.ArgMax | exp.ArgMin):
            from dpsql.sql.binding.ordered_values import by_order

            when = self._host.condition(node.expression.this, "FILTER") if inner is not node else None
            return by_order(inner, when, self, span_of(node))
        read = AggregateReader(self._host, self._fresh.column(), exact=self._exact).read(node)
        if self._exact and read.function == "quantile":
            from dpsql.sql.binding.ordered_values import quantile

            return quantile(read, self)
        return self._known_as(read)

    @property
    def within(self) -> tuple[Expr, ...]:
        """The expressions by which rows are grouped."""
        return tuple(key.expr for key in self.keys) if self._within is None else self._within

    def known(self, found: Aggregated) -> Expr:
        """The column of an aggregate over the rows of each group."""
        return self._known_as(found)

    @property
    def host(self) -> SelectHost:
        return self._host

    def _known_as(self, read: Aggregated) -> Expr:
        """The column of an aggregate; equal aggregates share one."""
        known = self._asked.setdefault(read.meaning, read)
        if known is read:
            self.aggregates.append(read)
            self._known[read.id] = (exact_facts if self._exact else released_facts)(read, self._host.env)
        return Ref(column=known.id, type=known.type, span=read.span)

    # -- clauses

    def read_keys(self, select: exp.Expr, *, all_items: bool = False) -> None:
        """Read the keys of the GROUP BY of a SELECT: columns, expressions, positions, aliases or ALL (also implied by
        `all_items`); in CUBE, ROLLUP or GROUPING SETS, if the groups are released."""
        group = select.args.get("group")
        if all_items or (group is not None and group.args.get("all")):
            for item in select.expressions:
                if not has_aggregate(item):
                    self.add_key(item_name(item), self._host.bind(inner_of(item)))
            return
        parts = group.expressions if group is not None else []
        if not any(map(is_grouping_set, parts)):
            for part in parts:
                self._read_key(part, select)
            return
        sets = sets_of(parts)
        if self._exact:
            raise Unsupported("grouping sets inside a query are not answered", code="group-by", span=span_of(group),
                              try_="GROUP BY CUBE in the outermost SELECT, or one subquery for each set, joined by UNION ALL")
        self.sets = []
        for keys in sets:
            found = [self._read_key(part, select) for part in keys]
            self.sets.append(tuple(sorted({self.keys.index(key) for key in found})))

    def _read_key(self, part: exp.Expr, select: exp.Expr) -> GroupKey:
        if isinstance(part, exp.Tuple) or (isinstance(part, exp.Paren) and isinstance(part.this, exp.Tuple)):
            raise Unsupported("GROUP BY takes a list of keys without brackets", code="group-by", span=span_of(part),
                              try_="GROUP BY a, b")
        item = self._item(part, select.expressions)
        return self.add_key(item_name(item), self._host.bind(inner_of(item)))

    def read_items(self, select: exp.Expr) -> list[Expr]:
        """Read the SELECT list. Its aliases may be used in the clauses that follow."""
        found = []
        for item in select.expressions:
            inner = inner_of(item)
            if is_star(inner):
                raise SqlError("* cannot be combined with GROUP BY", code="group-by", span=span_of(inner),
                               try_="the names of the keys")
            expr = self.output(self.bind(inner), span_of(inner))
            if isinstance(item, exp.Alias):
                self._aliases.setdefault(item_name(item).lower(), expr)
            found.append(expr)
        return found

    def read_having(self, select: exp.Expr) -> Expr | None:
        clause = select.args.get("having")
        if clause is None:
            return None
        self._clause = "HAVING"
        return self.output(self.condition(clause.this, "HAVING"), span_of(clause))

    def read_term(self, node: exp.Expr) -> Expr:
        """A term of ORDER BY."""
        self._clause = "ORDER BY"
        return self.output(self.bind(node), span_of(node))

    def _item(self, part: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
        """The expression of a term of GROUP BY: an item of the SELECT list if given by position, or the term itself."""
        item = items[position_of(part, items)] if isinstance(part, exp.Literal) and not part.args.get("is_string") else part
        if has_aggregate(item):
            raise SqlError("an aggregate cannot be a key", code="group-by", span=span_of(part),
                           try_="a subquery that computes it for each entity")
        return item

    def add_key(self, name: str, expr: Expr) -> GroupKey:
        """Add a key for an expression; equal expressions share one key."""
        known = next((key for key in self.keys if key.expr == expr), None)
        if known is None:
            known = GroupKey(id=self._fresh.column(), name=name, expr=expr)
            self.keys.append(known)
            told = facts(expr, self._host.env)
            if self.sets is not None:  # NULL in grouping sets without it
                told = replace(told, nullable=True)
                if isinstance(expr, Ref):
                    self._known[expr.column] = told
            self._known[known.id] = told
        return known

    # -- expressions over groups

    def output(self, expr: Expr, span: Span | None) -> Expr:
        """An expression with its keys replaced by their columns. Raises SqlError if a column is neither a key nor aggregated."""
        known = {key.id for key in self.keys} | {found.id for found in self.aggregates} | {
            level.id for level in self.levels} | self._around
        ids = {key.expr: key.id for key in self.keys if not isinstance(key.expr, Literal)}
        result = rewrite(expr, lambda part: Ref(column=ids[part], type=part.type, span=part.span) if part in ids else None)
        for part in walk(result):
            if isinstance(part, Ref) and part.column not in known:
                raise self._ungrouped(part, span)
        return result

    def _ungrouped(self, part: Ref, span: Span | None) -> SqlError | Unsupported:
        name = self._host.node.names.get(part.column, "a column")
        if name == LISTED or part.column in self._host.joined:
            return Unsupported("a subquery over groups is not answered", code="group-by", span=part.span or span,
                               try_="the same test in WHERE, or as a key of GROUP BY")
        return SqlError(f"{name} is neither a key of GROUP BY nor inside an aggregate", code="group-by", span=part.span or span,
                        subject=name, try_=f"GROUP BY {name}, or an aggregate such as COUNT({name})")


def exact_facts(found: Aggregated, env: Mapping[str, Facts]) -> Facts:
    """Facts about an exact aggregate: only those that `GroupBy` guarantees."""
    return facts(found.args[0], env) if found.aggregate.place is not None else released_facts(found, env)


def released_facts(found: Aggregated, env: Mapping[str, Facts]) -> Facts:
    """Facts about a noisy aggregate."""
    if found.aggregate.counts:
        return Facts(type=Type.BIGINT, nullable=False, physical=RELEASED_COUNTS, whole=True)
    among = found.aggregate.average or found.aggregate.kind is Kind.RANK  # in the range of the values
    declared = facts(found.args[0], env).declared if among else ANY_NUMBER
    if found.type is Type.BIGINT:
        return Facts(type=Type.BIGINT, physical=SAFE_INTEGERS, declared=declared, whole=True)
    return Facts(type=found.type, declared=declared)
