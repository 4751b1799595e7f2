"""Functions of PostgreSQL that clients call in questions to the system catalogue, as macros of DuckDB.

Most have the same answer whatever they are asked about, as what they are about is not there: indexes by expressions, triggers,
sizes on a disk. What is not listed here, or is not DuckDB's own by the same name and meaning, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

# names with the numbers of their arguments
_CONSTANT: Mapping[str, str] = {
    "CAST(NULL AS VARCHAR)": (
        "pg_get_expr/2 pg_get_expr/3 pg_get_viewdef/1 pg_get_viewdef/2 pg_get_ruledef/1 pg_get_ruledef/2 "
        "pg_get_triggerdef/1 pg_get_triggerdef/2 pg_get_functiondef/1 pg_get_function_result/1 "
        "pg_get_function_arguments/1 pg_get_function_identity_arguments/1 pg_get_partkeydef/1 "
        "pg_get_statisticsobjdef_columns/1 pg_get_serial_sequence/2 pg_describe_object/3 pg_advisory_unlock_all/0 "
        "shobj_description/2 "),
    "false": (
        "pg_function_is_visible/1 pg_operator_is_visible/1 pg_opclass_is_visible/1 pg_opfamily_is_visible/1 "
        "pg_conversion_is_visible/1 pg_statistics_obj_is_visible/1 pg_relation_is_publishable/1 pg_is_in_recovery/0 "
        "pg_is_other_temp_schema/1 pg_index_column_has_property/3 "),
    "true": (
        "pg_collation_is_visible/1 pg_has_role/2 pg_has_role/3 "),
    "0": (
        "pg_relation_size/1 pg_relation_size/2 pg_table_size/1 pg_total_relation_size/1 pg_indexes_size/1 "
        "pg_database_size/1 pg_tablespace_size/1 pg_backend_pid/0 pg_my_temp_schema/0 pg_stat_get_numscans/1 "
        "txid_current/0 "),
}
_PRIVILEGES = (
    "table schema database any_column function sequence tablespace type server")

_OTHERS = r"""
format_type(a, b) AS (SELECT words FROM type_words WHERE oid = a)
pg_table_is_visible(a) AS a IN (SELECT oid FROM "pg_catalog.pg_class")
pg_type_is_visible(a) AS a IN (SELECT oid FROM "pg_catalog.pg_type")
getdatabaseencoding() AS 'UTF8'
pg_get_userbyid(a) AS (SELECT rolname FROM "pg_catalog.pg_roles" WHERE oid = a)
pg_encoding_to_char(a) AS CASE a WHEN 6 THEN 'UTF8' END
pg_char_to_encoding(a) AS CASE upper(a) WHEN 'UTF8' THEN 6 ELSE -1 END
pg_get_indexdef(a) AS (SELECT index_words FROM key_words WHERE oid = a)
pg_get_indexdef(a, b, c) AS CASE WHEN b = 0 THEN (SELECT index_words FROM key_words WHERE oid = a) ELSE (SELECT attname FROM
    "pg_catalog.pg_attribute" WHERE attrelid = a AND attnum = b) END
pg_get_constraintdef(a) AS (SELECT words FROM key_words WHERE oid = a)
pg_get_constraintdef(a, b) AS (SELECT words FROM key_words WHERE oid = a)
pg_size_pretty(a) AS CAST(a AS VARCHAR) || ' bytes'
pg_tablespace_location(a) AS ''
pg_postmaster_start_time() AS CAST(NULL AS TIMESTAMP)
pg_relation_filenode(a) AS a
has_column_privilege(a, b, c) AS upper(c) = 'SELECT'
has_column_privilege(a, b, c, d) AS upper(d) = 'SELECT'
obj_description(a) AS (SELECT description FROM "pg_catalog.pg_description" WHERE objoid = a AND objsubid = 0)
obj_description(a, b) AS (SELECT description FROM "pg_catalog.pg_description" WHERE objoid = a AND objsubid = 0 AND classoid =
    CASE b WHEN 'pg_class' THEN 1259 WHEN 'pg_namespace' THEN 2615 END)
col_description(a, b) AS (SELECT description FROM "pg_catalog.pg_description" WHERE objoid = a AND objsubid = b AND classoid =
    1259)
to_regclass(a) AS (SELECT min(oid) FROM "pg_catalog.pg_class" WHERE CAST(oid AS VARCHAR) = CAST(a AS VARCHAR) OR
    relname = replace(regexp_replace(CAST(a AS VARCHAR), '^.*[.]', ''), '"', ''))
to_regtype(a) AS (SELECT min(oid) FROM type_words WHERE lower(CAST(a AS VARCHAR)) IN (words, name, 'pg_catalog.' || name,
    CAST(oid AS VARCHAR)))
to_regnamespace(a) AS (SELECT min(oid) FROM "pg_catalog.pg_namespace" WHERE CAST(a AS VARCHAR) IN (nspname, CAST(oid AS VARCHAR)))
to_regrole(a) AS (SELECT min(oid) FROM "pg_catalog.pg_roles" WHERE CAST(a AS VARCHAR) IN (rolname, CAST(oid AS VARCHAR)))
quote_ident(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a ELSE '"' || replace(a, '"', '""') || '"' END
quote_literal(a) AS '''' || replace(a, '''', '''''') || ''''
array_upper(a, b) AS nullif(len(a), 0)
array_lower(a, b) AS CASE WHEN len(a) > 0 THEN 1 END
array_length(a, b) AS nullif(len(a), 0)
array_remove(a, b) AS list_filter(a, lambda x: x <> b)
cardinality(a) AS len(a)
pg_partition_ancestors(a) AS unnest(CAST([] AS BIGINT[]))
_pg_expandarray(a) AS unnest([{x: a[i], n: i} for i in range(1, len(a) + 1)])
_pg_truetypid(a, b) AS CAST(NULL AS BIGINT)
_pg_truetypmod(a, b) AS -1
_pg_char_max_length(a, b) AS CAST(NULL AS BIGINT)
relation_name(a) AS (SELECT relname FROM "pg_catalog.pg_class" WHERE oid = a)
type_name(a) AS coalesce((SELECT words FROM type_words WHERE oid = a), '-')
namespace_name(a) AS (SELECT nspname FROM "pg_catalog.pg_namespace" WHERE oid = a)
role_name(a) AS (SELECT rolname FROM "pg_catalog.pg_roles" WHERE oid = a)
"""


def macros() -> dict[str, list[str]]:
    """The ways to call each function, as DuckDB's CREATE MACRO takes them."""
    found: dict[str, list[str]] = {}
    for body, names in _CONSTANT.items():
        for name, count in (each.split("/") for each in names.split()):
            found.setdefault(name, []).append(f"({', '.join('abcde'[:int(count)])}) AS {body}")
    for what in _PRIVILEGES.split():
        found[f"has_{what}_privilege"] = [f"({given}) AS upper({given[-1]}) IN ('SELECT', 'USAGE', 'CONNECT')"
                                          for given in ("a, b", "a, b, c")]
    for line in _OTHERS.replace("\n    ", " ").strip().split("\n"):
        name, bracket, rest = line.partition("(")
        found.setdefault(name, []).append(bracket + rest)
    return found


MACROS: Mapping[str, list[str]] = macros()

_NATIVE = """
generate_subscripts string_to_array array_to_string regexp_matches strpos position list_contains chr ascii row_to_json bool_or
bool_and every now translate concat array_agg string_agg btrim ltrim rtrim char_length character_length octet_length sign mod
printf
"""
NATIVE = frozenset(_NATIVE.split())
"""DuckDB's own."""

ROWS = frozenset({"generate_series", "generate_subscripts", "unnest"})
"""Functions that give rows where a table may stand."""

OF_TABLES: Mapping[str, str] = {
    "pg_partition_tree": "relid", "pg_partition_ancestors": "relid", "pg_options_to_table": "option_name",
    "aclexplode": "grantee",
    "pg_available_extension_versions": "name", "pg_get_keywords": "word", "pg_show_all_settings": "name", "pg_lock_status": "pid",
    "pg_stat_get_activity": "pid"}
"""Functions that stand for tables, which have no row here, with their first column."""

_CASTS = {
    "BIGINT": "oid xid cid cardinal_number int2 int4 int8 smallint integer bigint int", "BOOLEAN": "bool boolean", "DATE": "date",
    "DOUBLE": "float4 float8 numeric decimal real double", "TIMESTAMP": "timestamp timestamptz",
    "BIGINT[]": "int2vector oidvector _int2 _int4 _int8 _oid _regtype _smallint _int _integer _bigint",
    "VARCHAR[]": "_text _name _char _aclitem _varchar", "BOOLEAN[]": "_bool _boolean",
    "VARCHAR": "name char bpchar sql_identifier character_data yes_or_no text varchar character json jsonb unknown citext "
               "regproc regprocedure regoper aclitem pg_lsn inet pg_node_tree"}
CASTS: Mapping[str, str] = {name: kind for kind, names in _CASTS.items() for name in names.split()}
"""Types in casts, by the names without their schemas, and what they are in DuckDB."""
