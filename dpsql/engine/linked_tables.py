"""How the tables of CREATE SYNTHETIC TABLES hang together, by the keys and foreign keys of the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.engine.session import Session
from dpsql.engine.synthesizing import check_owner, dependent_columns, listed_form, uncut_question
from dpsql.engine.table_rules import TableRules, read_linked_rules
from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.sql.binding.listed_columns import RowColumn, listed_columns
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.statement import Query, Synthesize, SynthesizeTables
from dpsql.synthesis.column_forms import MOST_NUMBERS, ListedColumn, PlannedForm, UncutColumn, can_be_listed
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables, LowerTable
from dpsql.synthesis.made_up_columns import MadeUpColumn, made_up_in_tables
from dpsql.synthesis.table_options import SynthesisTerms
from dpsql.trusted.declarations.tables import ForeignKey, Table
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Value

PLAIN = "SELECT columns FROM one private table, and WHERE"
REFUSED = ("with_", "joins", "laterals", "group", "having", "distinct", "qualify", "windows", "order", "limit", "offset",
           "sample")
APART = "CREATE SYNTHETIC TABLE for each by itself"


class AskedTable(Frozen):
    """A query of the statement: the private table that its rows are of, its columns, and for each column of that table the name
    under which it stands among them, if it does; and the columns that are `made_up`, which are then no longer in the query, and
    the rules about the others."""

    asked: Synthesize
    query: Query
    base: Table
    columns: tuple[RowColumn, ...]
    stored: Mapping[str, str]
    made_up: tuple[MadeUpColumn, ...] = ()
    rules: TableRules = TableRules()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def with_made_up(self, made_up: tuple[MadeUpColumn, ...], rules: TableRules) -> AskedTable:
        """The same with some columns made up, and rules about the others."""
        tree, names = self.query.tree.copy(), {each.name for each in made_up}
        tree.set("expressions", [item for item in tree.selects if item.alias not in names])
        return replace(self, query=replace(self.query, tree=tree), made_up=made_up, rules=rules,
                       stored={column: name for column, name in self.stored.items() if name not in names})

    def named(self, column: str, what: str) -> str:
        """The name of a column of the private table. Raises Unsupported if it is not selected."""
        if column not in self.stored:
            raise Unsupported(f"{self.asked.name} lacks {column}, {what}", code="synthesis", span=span_of(self.query.tree),
                              subject=column, try_=f"SELECT {column}, ... FROM {self.base.name}; it is numbered anew")
        return self.stored[column]


def linked_tables(statement: SynthesizeTables, terms: SynthesisTerms, session: Session) -> LinkedTables:
    """The linked tables of a statement. Raises a located error if a query reads several tables, or if the tables are not
    connected."""
    plain = [_plain(asked, session) for asked in statement.tables]
    for i, one in enumerate(plain):
        if one.asked.name.lower() in [other.asked.name.lower() for other in plain[:i]]:
            raise SqlError(f"two tables are named {one.asked.name}", code="synthesis", span=one.asked.span,
                           subject=one.asked.name, try_=f"{one.asked.name}_2 for one of them")
        if one.base in [other.base for other in plain[:i]]:
            raise Unsupported(f"two of these tables are made from {one.base.name}", code="synthesis", span=one.asked.span,
                              subject=one.base.name, try_=APART)
    links = [_link(one, plain) for one in plain]
    tops = [at for at, link in enumerate(links) if link is None]
    if len(plain) == 1 or len(tops) > 1:
        lost = plain[tops[-1]]
        raise Unsupported("there is only one table" if len(plain) == 1 else f"{lost.base.name} has no foreign key to another of "
                          "these tables", code="synthesis", span=lost.asked.span, subject=lost.base.name, try_=APART)
    references: dict[int, list[str]] = {at: [] for at in range(len(plain))}
    for at, link in enumerate(links):
        if link is not None:
            references[link[0]].append(plain[link[0]].named(link[1].references[0], f"by which rows of {plain[at].asked.name} "
                                                            "name its rows"))
    keys = {one.asked.name: _keys(one, references[at], link) for at, (one, link) in enumerate(zip(plain, links, strict=True))}
    made_up = made_up_in_tables(terms.made_up, {one.asked.name: one.columns for one in plain}, keys,
                                {one.asked.name: terms.rows if at == tops[0] else None for at, one in enumerate(plain)})
    not_learned = {name: own | {each.name for each in made_up[name]} for name, own in keys.items()}
    rules, notes = read_linked_rules(terms.rules, {one.asked.name: one.asked.query for one in plain}, not_learned, session)
    plain = [one.with_made_up(made_up[one.asked.name], rules[one.asked.name]) for one in plain]
    lower: list[LowerTable] = []
    waiting = [(at, link) for at, link in enumerate(links) if link is not None]
    while waiting:  # parents first: foreign keys form no circle
        at, link = next((at, link) for at, link in waiting if link[0] not in [other for other, _ in waiting])
        waiting.remove((at, link))
        lower.append(_lower(at, plain[at], link, references, plain, terms, session))
    top, _ = _table(tops[0], plain[tops[0]], references[tops[0]], (), terms, session)
    notes += tuple(f"{each.text} does not apply to {table.name}, as {each.column} orders rows or determines another column"
                   for table in (top, *lower) for each in rules[table.name].dependencies if each.column in table.own)
    return LinkedTables(top=top, lower=tuple(lower), notes=notes)


def _keys(one: AskedTable, references: Sequence[str], link: tuple[int, ForeignKey] | None) -> frozenset[str]:
    """The columns of a table that are numbered anew: its key, those that others refer to, and that which names its parent."""
    own = one.base.key if len(one.base.key) == 1 else ()
    linking = () if link is None else link[1].columns
    return frozenset([*references, *(one.stored[column] for column in (*own, *linking) if column in one.stored)])


def _plain(asked: Synthesize, session: Session) -> AskedTable:
    """Raises Unsupported if the rows of the query are not those of one private table."""
    tree = asked.query.tree
    source = tree.args.get("from_")
    if not isinstance(tree, exp.Select) or source is None or not isinstance(source.this, exp.Table) or any(
            map(tree.args.get, REFUSED)):
        raise Unsupported(f"each row of {asked.name} must be a row of one table", code="synthesis", span=span_of(tree),
                          subject=asked.name, try_=PLAIN)
    columns = listed_columns(asked.query, session.catalog, session.kernel, session.scratch, {})
    names = [column.name for column in columns]
    base = session.catalog.table(source.this.name)
    if base is None or base.public:
        raise Unsupported("these rows are public, so they need no synthetic table", code="synthesis",
                          span=span_of(source.this), subject=source.this.name, try_="the private tables alone")
    items = [item for each in tree.selects for item in _written_out(each, base)]
    stored: dict[str, str] = {}
    for name, item in zip(names, items, strict=True):
        column = item.unalias()
        own = next((own for own in base.columns if isinstance(column, exp.Column) and own.lower() == column.name.lower()), None)
        if own is not None:
            stored.setdefault(own, name)
    plain = tree.copy()
    plain.set("expressions", [placed(exp.alias_(item.unalias().copy(), name, quoted=True), span_of(item))
                              for name, item in zip(names, items, strict=True)])
    _look_up(plain, base, stored, session)
    return AskedTable(asked=asked, query=replace(asked.query, tree=plain), base=base, columns=tuple(columns),
                      stored=stored)


def _look_up(tree: exp.Select, base: Table, stored: Mapping[str, str], session: Session) -> None:
    """Read columns that name rows of public tables from these, whose rows list their values."""
    for number, key in enumerate(base.foreign_keys):
        column, other = key.columns[0], session.catalog.table(key.table)
        if len(key.columns) > 1 or other is None or not other.public or stored.get(column) is None or (
                base.columns[column].domain is not None):
            continue
        source, alias = exp.to_identifier(tree.args["from_"].this.alias_or_name, quoted=True), f"public {number}"
        for each in tree.walk(prune=lambda part: part is not tree and isinstance(part, exp.Query)):
            if isinstance(each, exp.Column) and not each.table:
                each.set("table", source.copy())
        there = exp.column(exp.to_identifier(key.references[0], quoted=True), table=exp.to_identifier(alias, quoted=True))
        mine = exp.column(exp.to_identifier(column, quoted=True), table=source.copy())
        tree.join(exp.alias_(exp.to_table(other.name), alias, table=True, quoted=True), copy=False,
                  on=exp.EQ(this=mine, expression=there), join_type="LEFT" if base.columns[column].nullable else "INNER")
        for item in tree.selects:
            if item.alias == stored[column]:
                item.set("this", placed(there.copy(), span_of(item)))


def _written_out(item: exp.Expr, base: Table) -> list[exp.Expr]:
    """The columns that a star stands for; any other item as it is."""
    column = item.unalias()
    if isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star)):
        return [placed(exp.column(exp.to_identifier(name, quoted=True)), span_of(item)) for name in base.columns]
    return [item]


def _link(one: AskedTable, plain: Sequence[AskedTable]) -> tuple[int, ForeignKey] | None:
    """The table among the others on which this one hangs, and by which key. Raises Unsupported if these are several."""
    found = [(at, key) for key in one.base.foreign_keys for at, other in enumerate(plain)
             if other.base.name.lower() == key.table.lower()]
    chosen = [(at, key) for at, key in found if set(key.columns) <= one.stored.keys()] if len(found) > 1 else found
    if len(chosen) > 1 or any(len(key.columns) > 1 for _, key in chosen):
        columns = dict.fromkeys(column for _, key in chosen for column in key.columns)
        raise Unsupported(f"{one.asked.name} refers to other tables here by {' and '.join(columns)}, and its rows can be drawn "
                          "below one row only", code="synthesis", span=one.asked.span, subject=one.base.name,
                          try_="only one of these columns, and it must be a foreign key by itself")
    return (chosen or found)[0] if found else None


def _table(at: int, one: AskedTable, references: Sequence[str], links: Sequence[str], terms: SynthesisTerms, session: Session,
           ordering: Sequence[str] = ()) -> tuple[LinkedTable, Mapping[str, tuple[PlannedForm, tuple[Value, ...]]]]:
    """The table, and the forms and listed values of its own columns; those that are `ordering` its rows do not follow from
    others, and are listed if they can be, so that each row has another value. Raises a located error if these are not known."""
    key = one.stored.get(one.base.key[0]) if len(one.base.key) == 1 else None
    key = references[0] if references else key
    own = tuple(item.alias for item in one.query.tree.selects if item.alias not in (key, *references, *links))
    if not own:
        besides = "keys and columns that are made up" if one.made_up else "keys"
        raise Unsupported(f"{one.asked.name} has no columns besides {besides}", code="synthesis", span=span_of(one.query.tree),
                          subject=one.asked.name, try_="other columns too")
    alone = one.query.tree.copy()
    alone.set("expressions", [item for item in alone.selects if item.alias in own])
    rules = replace(one.rules, dependencies=tuple(each for each in one.rules.dependencies if each.column not in ordering))
    told = {name for each in rules.dependencies for name in each.columns}
    question, uncut = uncut_question(replace(one.query, tree=alone), session, terms.bins, ())
    forms = tuple(listed_form(form, key) if form.name in told or (form.name in ordering and can_be_listed(form)) else form
                  for key, form in zip(question.keys, uncut, strict=True))
    check_owner(stability(question.view, session.kernel), span_of(one.query.tree))
    dependent = dependent_columns(rules, question, forms, ())
    left_out = {each.form.name for each in dependent}
    listed = {form.name: (form, key.values) for key, form in zip(question.keys, forms, strict=True) if form.name not in left_out}
    table = LinkedTable(at=at, base=one.base.name, name=one.asked.name, query=one.query, names=one.names,
                        own=tuple(name for name in own if name not in left_out), forms=tuple(form for form, _ in listed.values()),
                        key=key, made_up=one.made_up, rules=one.rules.conditions, dependent=dependent)
    return table, listed


def _step(base: Table, foreign: ForeignKey, stored: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """The selected column, if any, that alone tells rows of one parent apart; and the columns in whose order they follow."""
    order = tuple(column for column in base.key if column not in foreign.columns)
    if any(column not in base.columns for column in order):
        return None, ()
    apart = set(base.key) == {*foreign.columns, *order} and len(order) == 1
    return stored.get(order[0]) if apart else None, order


def _lower(at: int, one: AskedTable, link: tuple[int, ForeignKey], references: Mapping[int, Sequence[str]],
           plain: Sequence[AskedTable], terms: SynthesisTerms, session: Session) -> LowerTable:
    parent, foreign = link
    above = plain[parent]
    name = one.named(foreign.columns[0], f"which names rows of {above.asked.name}")
    step, order = _step(one.base, foreign, one.stored)
    table, listed = _table(at, one, references[at], (name,), terms, session, () if step is None else (step,))
    most = min((limit for limit in (one.base.rows, terms.options.max_rows) if limit is not None), default=None)
    if most is None:
        raise Unsupported(f"there is no limit on the rows of {one.base.name} of one {session.catalog.entity.name}",
                          code="no-limit", span=one.asked.span, subject=one.base.name,
                          try_="max_rows = 10 among the OPTIONS, or rows_per_entity in the policy")
    if step is not None and isinstance(listed[step][0], ListedColumn):
        most = min(most, sum(value is not None for value in listed[step][1]))
    if most > MOST_NUMBERS:
        raise Unsupported(f"there may be {most} rows of {one.asked.name} for one of {above.asked.name}, and "
                          f"the maximum is {MOST_NUMBERS}", code="too-large", span=one.asked.span, subject=one.base.name,
                          try_=f"max_rows = {MOST_NUMBERS} among the OPTIONS")
    return LowerTable(at=at, base=table.base, name=table.name, query=table.query, names=table.names, own=table.own,
                      forms=table.forms, key=table.key, made_up=table.made_up, rules=table.rules, dependent=table.dependent,
                      parent=parent, link=name, reference=above.stored[foreign.references[0]], order=order, step=step, most=most,
                      nullable=frozenset(own for own, (form, values) in listed.items() if (
                          form.nullable if isinstance(form, UncutColumn) else None in values)))
