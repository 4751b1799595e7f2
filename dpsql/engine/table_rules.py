"""The rules for rows of a synthetic table: those of the policy's tables that are about its columns, and those of the statement.

A rule is a condition, or says that one column determines another: 'income = 0 OR hours > 0; zip DETERMINES state'.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlglot import exp

from dpsql.catalog.model import Policy
from dpsql.catalog.sections import locate
from dpsql.engine.parameters import Parameters, given_values
from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError, PolicyError, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.sql.binding.bind import checked
from dpsql.sql.binding.binding_context import BindingContext, Names, Scope
from dpsql.sql.binding.listed_columns import over_rows
from dpsql.sql.binding.select_binder import SelectBinder
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.spelling import closest, one_of
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Option, Query
from dpsql.synthesis.row_rules import RowRule
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.nodes import Expr, Ref, columns, rewrite

DETERMINES = re.compile(r"\s*(\w+|\"[^\"]+\")\s+determines\s+(\w+|\"[^\"]+\")\s*", re.IGNORECASE)
BEFORE, PARTS = "SELECT COUNT(*) FROM new_table WHERE ", {"expressions", "from_", "where"}
Made = TypeVar("Made")
FORM = "rules = 'income = 0 OR hours > 0; zip DETERMINES state'"


class Dependency(Frozen):
    """A column whose value follows from another one's, in every row; how it does is not known."""

    determines: str
    column: str


class TableRules(Frozen):
    """What holds in every row of a synthetic table."""

    conditions: tuple[RowRule, ...] = ()
    dependencies: tuple[Dependency, ...] = ()


def read_rules(option: Option | None, query: Query, session: Session, parameters: Parameters) -> TableRules:
    """The rules for the rows of a query. Raises OptionError, located at the option, or a located error in the text of a rule."""
    values = given_values(query, parameters)
    asked = _QueryRows(query=query, session=session, parameters=values)
    given = [(text, f"rule {number}") for number, text in enumerate([] if option is None else _texts(option), start=1)]
    given += asked.of_policy()
    conditions, dependencies = list[RowRule](), list[Dependency]()
    for text, source in given:
        pair = DETERMINES.fullmatch(text)
        with _told_by(text, source):
            if pair is not None:
                dependencies.append(Dependency(determines=asked.column(pair[1]), column=asked.column(pair[2])))
            else:
                conditions.append(asked.rule(text))
    return TableRules(conditions=tuple(dict.fromkeys(conditions)), dependencies=tuple(dict.fromkeys(dependencies)))


@contextlib.contextmanager
def _told_by(text: str, source: str) -> Iterator[None]:
    """A context in which errors are located in the text of a rule."""
    try:
        yield
    except Error as fault:
        fault.source = source if fault.text else fault.source
        raise fault.located(text, source) from None


def check_rules_of(policy: Policy) -> None:
    """Raises PolicyError, located in the policy, for a rule of a table that cannot be parsed."""
    for name, table in policy.tables.items():
        path = "tables", name, "rules"
        for text in table.rules:
            try:
                if DETERMINES.fullmatch(text) is None:
                    _parsed(text)
            except Error as fault:
                raise PolicyError(f"{'.'.join(path)}: in the rule {text!r}, {fault.reason}", code="rule", try_=fault.try_,
                                  subject=".".join(path), span=locate(policy.text, path), text=policy.text,
                                  source=policy.path) from None


def check_rules(rules: TableRules, made_up: Sequence[str]) -> None:
    """Raises Unsupported if a rule is about a column that is made up."""
    read = [*(name for rule in rules.conditions for name in rule.columns),
            *(name for one in rules.dependencies for name in (one.determines, one.column))]
    found = next((name for name in read if name in made_up), None)
    if found is not None:
        raise Unsupported(f"a rule is about {found}, whose values are made up", code="rule", subject=found,
                          try_="a rule about the other columns, or the column without made_up")


def _texts(option: Option) -> list[str]:
    texts = split(option.value) if isinstance(option.value, str) else []
    if not texts:
        raise OptionError("rules must be a text of rules, separated by semicolons", span=option.span, subject="rules", try_=FORM)
    return texts


class _QueryRows(Frozen):
    """The rows of a query, and what binds conditions on them."""

    query: Query
    session: Session
    parameters: Mapping[str, ParameterValue]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The columns, by their names in lower case."""
        return {name.lower(): name for _, name, _ in self._bound(lambda scope, _: list(scope.columns()))}

    def column(self, text: str) -> str:
        """The column that a text names. Raises SqlError."""
        name = text.strip('"')
        if name.lower() not in self.names:
            near = closest(name, [*self.names.values()])
            raise SqlError(f"the table has no column {name}", code="unknown-column", subject=name, try_=near or one_of(
                [*self.names.values()]))
        return self.names[name.lower()]

    def rule(self, text: str) -> RowRule:
        """A condition on the columns. Raises SqlError or Unsupported, located in its text."""
        asked = _parsed(text)
        where = asked.tree.args["where"]

        def bound(scope: Scope, context: BindingContext) -> RowRule:
            host = SelectBinder(context, scope, Names(), alone=True)
            condition = host.condition(where.this, "a rule")
            if host.node is not scope.node:
                raise Unsupported("a rule compares columns of one row with each other and with constants", code="rule",
                                  span=span_of(where), try_="income = 0 OR hours > 0")
            named = {found.id: name for _, name, found in scope.columns()}
            read = tuple(name for column, name in named.items() if column in columns(condition))
            if not read:
                raise SqlError("a rule needs a column", code="rule", try_=f"{next(iter(named.values()))} >= 0")
            return RowRule(text=text.strip(), columns=read, condition=_over_names(condition, named))

        return self._bound(bound, asked)

    def of_policy(self) -> Iterator[tuple[str, str]]:
        """The rules of tables in the policy whose columns the rows have unchanged, about the columns of the rows, and the source
        of each."""
        origins = self._bound(lambda scope, _: [(name, scope.origins.get(found.id)) for _, name, found in scope.columns()])
        places: dict[tuple[int, str], dict[str, str]] = {}
        for name, origin in origins:
            if origin is not None:
                places.setdefault((origin.scan, origin.table), {}).setdefault(origin.column.lower(), name)
        for (_, table), names in places.items():
            for text in self.session.catalog.rules.get(table, ()):
                source = f"a rule of {table} in the policy"
                with _told_by(text, source):
                    renamed = _renamed(text, names)
                if renamed is not None:
                    yield renamed, source

    def _bound(self, act: Callable[[Scope, BindingContext], Made], asked: Query | None = None) -> Made:
        session = self.session

        def bound(_: exp.Expr, context: BindingContext) -> Made:
            return act(bind_from(over_rows(self.query.tree), replace(context, parameters=self.parameters), Names()), context)

        return checked(asked or self.query, session.catalog, session.kernel, session.scratch, self.parameters, bound)


def _parsed(text: str) -> Query:
    """A query with a rule as its condition. Raises SqlError or Unsupported, located in the text of the query."""
    asked = parse(f"{BEFORE}{text}") if len(split(text)) == 1 else None
    if not isinstance(asked, Query) or not isinstance(asked.tree, exp.Select) or asked.parameters or any(
            part for key, part in asked.tree.args.items() if key not in PARTS):
        raise SqlError("a rule is one condition on the columns of a row", code="rule", try_="income = 0 OR hours > 0")
    return asked


def _over_names(condition: Expr, names: Mapping[str, str]) -> Expr:
    return rewrite(condition, lambda part: replace(part, column=names[part.column]) if isinstance(part, Ref) else None)


def _renamed(text: str, names: Mapping[str, str]) -> str | None:
    """A rule about columns of a table, as one about columns of rows; None if these do not have all of them."""
    pair = DETERMINES.fullmatch(text)
    if pair is not None:
        own = [names.get(part.strip('"').lower()) for part in pair.groups()]
        return None if None in own else f'"{own[0]}" DETERMINES "{own[1]}"'
    where = _parsed(text).tree.args["where"]
    for column in list(where.find_all(exp.Column)):
        if column.name.lower() not in names:
            return None
        if names[column.name.lower()] != column.name:
            column.set("this", exp.to_identifier(names[column.name.lower()], quoted=True))
    return str(where.this.sql(dialect="duckdb"))
