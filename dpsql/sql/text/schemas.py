"""Tables of the schema `standing`: each has the numbers of a standing query. Inside dpsql the schema is a part of their names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.sql.text.border import PUBLIC, STANDING
from dpsql.sql.text.places import placed, span_of

_BEGINNING = f"{STANDING}."


def name_of_standing(query: str) -> str:
    """The name of the table of a standing query."""
    return f"{_BEGINNING}{query}"


def standing_in(name: str) -> str | None:
    """The standing query whose numbers a table of this name has; None if it is another table."""
    return name[len(_BEGINNING):] if name.lower().startswith(_BEGINNING) else None


def schema_and_name(name: str) -> tuple[str, str]:
    """The schema of a table and its name there, as clients see them."""
    query = standing_in(name)
    return (PUBLIC, name) if query is None else (STANDING, query)


def name_whole(nodes: Sequence[exp.Expr]) -> None:
    """Make the schema `standing` a part of the names of tables, which columns may still be qualified without."""
    for node in nodes:
        schema = node.args.get("db")
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or schema is None or (
                str(schema.this).lower() != STANDING):
            continue
        span, short = span_of(node), str(node.this.this)
        alias = node.args.get("alias")
        if alias is None:
            node.set("alias", placed(exp.TableAlias(this=exp.to_identifier(short, quoted=True)), span))
        elif alias.this is None:
            alias.set("this", placed(exp.to_identifier(short, quoted=True), span))
        node.this.set("this", name_of_standing(short))
        node.this.set("quoted", True)
