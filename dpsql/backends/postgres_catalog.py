"""What the catalog of PostgreSQL says of keys and views: which columns it compares otherwise than by their type, and which tables
a view reads.

Both come from what the server itself has stored and goes by, and not from the text of a definition, which would have to be read
as the server reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.backends.catalog_rows import Rows
from dpsql.trusted.plan.expr.printing import text_literal

FIRST_OWN = 16384  # the number of the first object that is not PostgreSQL's own
ONE_TO_ONE = "^(UTF8|SQL_ASCII|LATIN[0-9]+|ISO_8859_[0-9]|WIN[0-9]+|KOI8.)$"  # encodings in which no two texts become the same

_UNIFORM = "SELECT FROM pg_collation l WHERE l.oid = {0} AND l.collisdeterministic"
_ANOTHER_INDEX = f"""EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND (
    EXISTS (SELECT FROM generate_series(0, i.indnkeyatts - 1) p(at) WHERE i.indkey[p.at] = a.attnum AND (
        i.indclass[p.at] >= {FIRST_OWN} OR i.indcollation[p.at] <> 0 AND NOT EXISTS ({_UNIFORM.format('i.indcollation[p.at]')})))
    OR a.attnum <> ALL (i.indkey) AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
        AND d.objid = i.indexrelid AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
        AND i.indexprs IS NOT NULL)))"""
_ANOTHER_OPERATOR = f"""EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND (
    k.conrelid = a.attrelid AND a.attnum = ANY (k.conkey) OR k.confrelid = a.attrelid AND a.attnum = ANY (k.confkey))
    AND EXISTS (SELECT FROM unnest(k.conpfeqop || k.conppeqop || k.conffeqop) o WHERE o >= {FIRST_OWN}))"""
_UNLIKE = f"""SELECT a.attname::text, CASE
    WHEN a.attcollation <> 0 AND NOT EXISTS ({_UNIFORM.format('a.attcollation')}) THEN 'collation ' || COALESCE(
        (SELECT quote_ident(l.collname) FROM pg_collation l WHERE l.oid = a.attcollation), '')
    WHEN a.attcollation <> 0 AND getdatabaseencoding() !~ '{ONE_TO_ONE}' THEN 'encoding ' || getdatabaseencoding()
    WHEN {_ANOTHER_INDEX} THEN 'another unique index'
    WHEN {_ANOTHER_OPERATOR} THEN 'operators' END
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE a.attnum > 0 AND NOT a.attisdropped"""
REASONS = {
    "collation": "its collation {0} treats different texts as equal",
    "encoding": "different texts in {0} may become the same one in UTF-8",
    "another": "a unique index compares it differently, by an expression, a collation or its own operators",
    "operators": "a foreign key compares it by user-defined operators",
}

# `ev_action` is what the server executes in place of a view. Each relation in it, however deep, has its number there after
# `relid`, and each function, operator and aggregate that of a function. What is not PostgreSQL's own is in `pg_depend` as well.
_READS = f"""WITH RECURSIVE reads(oid) AS (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {{0}}
    UNION SELECT x.oid FROM reads, LATERAL (
        SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = reads.oid
        UNION ALL SELECT (m.found)[1]::oid FROM pg_rewrite w, LATERAL regexp_matches(
            w.ev_action::text, ':relid ([1-9][0-9]*)', 'g') m(found) WHERE w.ev_class = reads.oid AND w.ev_type = '1') x(oid))
  SELECT n.nspname || '.' || c.relname,
    COALESCE(c.relkind IN ('r', 'p', 'v', 'm'), false) AND r.oid >= {FIRST_OWN} AND NOT EXISTS (
      SELECT FROM pg_rewrite w WHERE w.ev_class = r.oid AND w.ev_type = '1' AND (
        EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
                AND d.refclassid <> 'pg_class'::regclass)
        OR EXISTS (SELECT FROM regexp_matches(w.ev_action::text, ':(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') m(found)
                   WHERE NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid = (m.found)[1]::oid AND p.oid < {FIRST_OWN}
                                     AND p.provolatile = 'i'))))
  FROM reads r LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) ON c.oid = r.oid"""


def unlike(rows: Rows, name: tuple[str, ...]) -> Mapping[str, str]:
    """The columns of a table whose values are compared differently from what their type suggests, each with the reason."""
    found = ((column, told.partition(" ")) for column, told in rows(f"{_UNLIKE} AND {_is(name)}") if told is not None)
    return {column: REASONS[kind].format(shown) for column, (kind, _, shown) in found}


def reads(rows: Rows, name: tuple[str, ...]) -> frozenset[str] | None:
    """All relations, by schema and name, that a query of this relation reads: itself, its partitions, the tables that inherit
    from it, and the relations in its views. None if these are not known: where rows come from another server, from the system
    catalog, from a user-defined function, which may read anything, or from a function of PostgreSQL whose result depends on more
    than its arguments."""
    found = rows(_READS.format(_is(name)))
    return frozenset(str(relation) for relation, _ in found) if found and all(known for _, known in found) else None


def _is(name: tuple[str, ...]) -> str:
    schema, table = map(text_literal, name)
    return f"n.nspname = {schema} AND c.relname = {table}"
