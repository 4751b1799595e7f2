"""The rules for rows of a synthetic table: those of the policy's tables that are about its columns, and those of the statement.

A rule is a condition, or says that one column determines another: 'income = 0 OR hours > 0; zip DETERMINES state'.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlglot import exp

from dpsql.catalog.model import Catalog, Policy
from dpsql.catalog.sections import locate
from dpsql.engine.parameters import Parameters, given_values
from dpsql.engine.session import Session
from dpsql.errors import Error, OptionError, PolicyError, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.questions.no_public_facts import NoPublicTables
from dpsql.sql.binding.bind import checked
from dpsql.sql.binding.binding_context import BindingContext, Names, PublicTables, Scope
from dpsql.sql.binding.domains import Scratch
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
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.nodes import Expr, Ref, columns, rewrite
from dpsql.trusted.plan.expr.printing import quote

NAME = r"(\w+|\"(?:[^\"]|\"\")+\")"
DETERMINES = re.compile(rf"\s*{NAME}\s+determines\s+{NAME}\s*", re.IGNORECASE)
BEFORE, PARTS = "SELECT COUNT(*) FROM new_table WHERE ", {"expressions", "from_", "where"}
Made = TypeVar("Made")
FORM = "rules = 'income = 0 OR hours > 0; zip DETERMINES state'"


class Dependency(Frozen):
    """A column whose value follows from another one's, in every row; how it does is not known."""

    determines: str
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.determines, self.column

    @property
    def text(self) -> str:
        return f"{self.determines} DETERMINES {self.column}"


class TableRules(Frozen):
    """What holds in every row of a synthetic table."""

    conditions: tuple[RowRule, ...] = ()
    dependencies: tuple[Dependency, ...] = ()

    def with_rule(self, rule: RowRule | Dependency) -> TableRules:
        """These rules and another one."""
        if isinstance(rule, Dependency):
            return replace(self, dependencies=tuple(dict.fromkeys([*self.dependencies, rule])))
        return replace(self, conditions=tuple(dict.fromkeys([*self.conditions, rule])))


def read_rules(option: Option | None, query: Query, session: Session, parameters: Parameters) -> TableRules:
    """The rules for the rows of a query. Raises OptionError, located at the option, or a located error in the text of a rule."""
    values = given_values(query, parameters)
    asked = _QueryRows(query=query, catalog=session.catalog, public=session.kernel, scratch=session.scratch, parameters=values)
    given = [(text, f"rule {number}") for number, text in enumerate([] if option is None else _texts(option), start=1)]
    given += asked.of_policy()
    conditions, dependencies = list[RowRule](), list[Dependency]()
    for text, source in given:
        with _told_by(text, source):
            found = asked.read(text)
        if isinstance(found, Dependency):
            dependencies.append(found)
        else:
            conditions.append(found)
    return TableRules(conditions=tuple(dict.fromkeys(conditions)), dependencies=tuple(dict.fromkeys(dependencies)))


@contextlib.contextmanager
def _told_by(text: str, source: str) -> Iterator[None]:
    """A context in which errors are located in the text of a rule."""
    try:
        yield
    except Error as fault:
        fault.source = source if fault.text else fault.source
        raise fault.located(text, source) from None


def check_rules_of(policy: Policy, catalog: Catalog) -> None:
    """Raises PolicyError, located in the policy, for a rule of a table that cannot be parsed or is about an unknown column."""
    for name, table in ((name, table) for name, table in policy.tables.items() if table.rules):
        path, names = ("tables", name, "rules"), [*catalog.tables[name].columns]
        for text in table.rules:
            try:
                for column in _columns_of(text):
                    if column.lower() not in map(str.lower, names):
                        raise SqlError(f"{name} has no column {column}", code="unknown-column", subject=column,
                                       try_=closest(column, names) or one_of(names))
            except Error as fault:
                raise PolicyError(f"{'.'.join(path)}: in the rule {text!r}, {fault.reason}", code="rule", try_=fault.try_,
                                  subject=".".join(path), span=locate(policy.text, path), text=policy.text,
                                  source=policy.path) from None


def _columns_of(text: str) -> list[str]:
    """The columns that a rule names. Raises SqlError or Unsupported, located in the text of a query, if it is none."""
    pair = _pair(text)
    return [*pair] if pair is not None else [column.name for column in _parsed(text).tree.args["where"].find_all(exp.Column)]


def read_linked_rules(option: Option | None, queries: Mapping[str, Query], not_learned: Mapping[str, Collection[str]],
                      session: Session) -> tuple[Mapping[str, TableRules], tuple[str, ...]]:
    """The rules for the rows of several tables, by the names of the tables, each about columns of one of them; and notes on those
    of the policy that do not apply, as they are about columns whose values are `not_learned`. Raises OptionError, located at the
    option, or a located error in the text of a rule."""
    found, notes = dict[str, TableRules](), list[str]()
    for name, query in queries.items():
        rules = read_rules(None, query, session, ())
        kept = [rule for rule in rules.conditions if {*not_learned[name]}.isdisjoint(rule.columns)]
        others = [one for one in rules.dependencies if {*not_learned[name]}.isdisjoint(one.columns)]
        found[name] = TableRules(conditions=tuple(kept), dependencies=tuple(others))
        texts = [*(rule.text for rule in rules.conditions if rule not in kept),
                 *(one.text for one in rules.dependencies if one not in others)]
        notes += [f"the rule {text} does not apply to {name}: keys and columns that are made up have no rules" for text in texts]
    if option is not None:
        for number, text in enumerate(_texts(option), start=1):
            name, rule = _of_one_table(text.strip(), number, option, queries, session)
            wrong = next((column for column in rule.columns if column in not_learned[name]), None)
            if wrong is not None:
                raise OptionError(f"rule {number} is about {wrong}, which is a key or made up", span=option.span, subject="rules",
                                  try_="rules about other columns, such as income = 0 OR hours > 0")
            found[name] = found[name].with_rule(rule)
    return found, tuple(notes)


def _of_one_table(text: str, number: int, option: Option, queries: Mapping[str, Query], session: Session) -> tuple[
        str, RowRule | Dependency]:
    """The table, among several, whose columns a rule is about, and what it says. Raises OptionError, located at the option, or a
    located error in the text of the rule."""
    found, faults = dict[str, RowRule | Dependency](), list[Error]()
    for name, query in queries.items():
        asked = _QueryRows(query=query, catalog=session.catalog, public=session.kernel, scratch=session.scratch, parameters={})
        try:
            found[name] = asked.read(text)
        except Error as fault:
            faults.append(fault)
    if len(found) == 1:
        return found.popitem()
    if found:
        raise OptionError(f"rule {number} may be about {' and about '.join(found)}: {text}", span=option.span, subject="rules",
                          try_="AS and another name for a column of one of them")
    wrong = next((fault for fault in faults if fault.code != "unknown-column"), None)
    if wrong is None:
        raise OptionError(f"no table has all columns of rule {number}: {text}", span=option.span, subject="rules",
                          try_="a rule about the columns of one of the tables")
    wrong.source = f"rule {number}" if wrong.text else wrong.source
    raise wrong.located(text, f"rule {number}")


def rules_of_table(table: Table, catalog: Catalog, scratch: Scratch) -> Iterator[tuple[str, RowRule | Dependency | Error]]:
    """The rules of a table in the policy, each with what it says of the table's columns, or with its fault."""
    query = parse(f"SELECT {', '.join(map(quote, table.columns))} FROM {quote(table.name)}")
    if isinstance(query, Query):
        asked = _QueryRows(query=query, catalog=catalog, public=NoPublicTables(), scratch=scratch, parameters={})
        for text in catalog.rules.get(table.name, ()):
            try:
                yield text, asked.read(text)
            except Error as fault:
                yield text, fault


def check_rules(rules: TableRules, made_up: Sequence[str]) -> None:
    """Raises Unsupported if a rule is about a column that is made up."""
    read = [*(name for rule in rules.conditions for name in rule.columns),
            *(name for one in rules.dependencies for name in one.columns)]
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
    catalog: Catalog
    public: PublicTables
    scratch: Scratch
    parameters: Mapping[str, ParameterValue]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The columns, by their names in lower case."""
        return {name.lower(): name for _, name, _ in self._bound(lambda scope, _: list(scope.columns()))}

    def read(self, text: str) -> RowRule | Dependency:
        """What a rule says of the columns. Raises SqlError or Unsupported, perhaps located in its text."""
        pair = _pair(text)
        return self.rule(text) if pair is None else Dependency(determines=self.column(pair[0]), column=self.column(pair[1]))

    def column(self, name: str) -> str:
        """The column with this name, in any case. Raises SqlError."""
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
            for text in self.catalog.rules.get(table, ()):
                source = f"a rule of {table} in the policy"
                with _told_by(text, source):
                    renamed = _renamed(text, names)
                if renamed is not None:
                    yield renamed, source

    def _bound(self, act: Callable[[Scope, BindingContext], Made], asked: Query | None = None) -> Made:
        def bound(_: exp.Expr, context: BindingContext) -> Made:
            return act(bind_from(over_rows(self.query.tree), replace(context, parameters=self.parameters), Names()), context)

        return checked(asked or self.query, self.catalog, self.public, self.scratch, self.parameters, bound)


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
    pair = _pair(text)
    if pair is not None:
        determines, column = (names.get(name.lower()) for name in pair)
        return None if determines is None or column is None else f"{quote(determines)} DETERMINES {quote(column)}"
    where = _parsed(text).tree.args["where"]
    for column in list(where.find_all(exp.Column)):
        if column.name.lower() not in names:
            return None
        if names[column.name.lower()] != column.name:
            column.set("this", exp.to_identifier(names[column.name.lower()], quoted=True))
    return str(where.this.sql(dialect="duckdb"))


def _pair(text: str) -> tuple[str, str] | None:
    """The two columns that a rule with DETERMINES names; None for a condition."""
    found = DETERMINES.fullmatch(text)
    return None if found is None else (_unquoted(found[1]), _unquoted(found[2]))


def _unquoted(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
