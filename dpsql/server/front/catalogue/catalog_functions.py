"""Functions of PostgreSQL that clients call in questions to the system catalogue, as macros of DuckDB.

Most have the same answer whatever they are asked about, as what they are about is not there: indexes by expressions, triggers,
sizes on a disk. `postgres_functions.txt` defines the others. What is not listed, or is not DuckDB's own by the same name and
meaning, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.server.front.catalogue.catalog_lists import listed

# names with the numbers of their arguments
_CONSTANT: Mapping[str, str] = {
    "CAST(NULL AS VARCHAR)": (
        "pg_get_expr/2 pg_get_expr/3 pg_get_viewdef/1 pg_get_viewdef/2 pg_get_ruledef/1 pg_get_ruledef/2 "
        "pg_get_triggerdef/1 pg_get_triggerdef/2 pg_get_functiondef/1 pg_get_function_result/1 "
        "pg_get_function_arguments/1 pg_get_function_identity_arguments/1 pg_get_partkeydef/1 "
        "pg_get_statisticsobjdef_columns/1 pg_get_serial_sequence/2 pg_describe_object/3 pg_advisory_unlock_all/0 "
        "shobj_description/2 pg_get_function_sqlbody/1 "),
    "false": (
        "pg_function_is_visible/1 pg_operator_is_visible/1 pg_opclass_is_visible/1 pg_opfamily_is_visible/1 "
        "pg_conversion_is_visible/1 pg_statistics_obj_is_visible/1 pg_relation_is_publishable/1 pg_is_in_recovery/0 "
        "pg_ts_config_is_visible/1 pg_ts_dict_is_visible/1 pg_ts_parser_is_visible/1 pg_ts_template_is_visible/1 "
        "pg_is_other_temp_schema/1 pg_index_column_has_property/3 "),
    "true": (
        "pg_collation_is_visible/1 pg_has_role/2 pg_has_role/3 "),
    "0": (
        "pg_relation_size/1 pg_relation_size/2 pg_table_size/1 pg_total_relation_size/1 pg_indexes_size/1 "
        "pg_database_size/1 pg_tablespace_size/1 pg_my_temp_schema/0 pg_stat_get_numscans/1 "
        "txid_current/0 "),
}
_PRIVILEGES = (
    "table schema database any_column function sequence tablespace type server")


def macros() -> dict[str, list[str]]:
    """The signatures and bodies of each function, as DuckDB's CREATE MACRO takes them."""
    found: dict[str, list[str]] = {}
    for body, names in _CONSTANT.items():
        for name, count in (each.split("/") for each in names.split()):
            found.setdefault(name, []).append(f"({', '.join('abcde'[:int(count)])}) AS {body}")
    for what in _PRIVILEGES.split():
        found[f"has_{what}_privilege"] = [f"({given}) AS upper({given[-1]}) IN ('SELECT', 'USAGE', 'CONNECT')"
                                          for given in ("a, b", "a, b, c")]
    for line in listed("postgres_functions.txt"):
        name, bracket, rest = line.partition("(")
        found.setdefault(name, []).append(bracket + rest)
    return found


MACROS: Mapping[str, list[str]] = macros()

_NATIVE = """
generate_subscripts string_to_array array_to_string regexp_matches strpos position list_contains chr ascii row_to_json bool_or
bool_and every now translate concat array_agg string_agg btrim ltrim rtrim char_length character_length octet_length sign mod
printf lower upper length
"""
NATIVE = frozenset(_NATIVE.split())
"""DuckDB's own."""

ROWS = frozenset({"generate_series", "generate_subscripts", "unnest"})
"""Functions that give rows where a table may stand."""

OF_TABLES: Mapping[str, str] = {
    "pg_partition_tree": "relid", "pg_partition_ancestors": "relid", "pg_options_to_table": "option_name",
    "aclexplode": "grantee",
    "pg_available_extension_versions": "name", "pg_show_all_settings": "name", "pg_lock_status": "pid",
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
"""For each name of a type in a cast, without its schema, the type in DuckDB."""
