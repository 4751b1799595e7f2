"""The relations of PostgreSQL 15's system catalogue and information schema that clients read, with their columns.

A column without a kind is a text; the kinds are i: whole number, h: one of 16 bits, b: boolean, c: letter, d: double, m: moment;
with an s, a list of these. All names are those of PostgreSQL's documentation, "System Catalogs" and "The Information Schema".
"""

from __future__ import annotations

KINDS = {"": "VARCHAR", "t": "VARCHAR", "c": "VARCHAR", "i": "BIGINT", "h": "SMALLINT", "b": "BOOLEAN", "d": "DOUBLE",
         "m": "TIMESTAMP"}

COLUMNS = """
pg_catalog.pg_aggregate aggfnoid aggkind:c aggnumdirectargs:i aggtransfn aggfinalfn aggcombinefn aggserialfn aggdeserialfn
    aggmtransfn aggminvtransfn aggmfinalfn aggfinalextra:b aggmfinalextra:b aggfinalmodify:c aggmfinalmodify:c aggsortop:i
    aggtranstype:i aggtransspace:i aggmtranstype:i aggmtransspace:i agginitval aggminitval
pg_catalog.pg_am oid:i amname amhandler amtype:c
pg_catalog.pg_amop oid:i amopfamily:i amoplefttype:i amoprighttype:i amopstrategy:i amoppurpose:c amopopr:i amopmethod:i
    amopsortfamily:i
pg_catalog.pg_attrdef oid:i adrelid:i adnum:i adbin
pg_catalog.pg_attribute attrelid:i attname atttypid:i attstattarget:i attlen:i attnum:i attndims:i attcacheoff:i atttypmod:i
    attbyval:b attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c attgenerated:c
    attisdropped:b attislocal:b attinhcount:i attcollation:i attacl:ts attoptions:ts attfdwoptions:ts attmissingval
pg_catalog.pg_auth_members roleid:i member:i grantor:i admin_option:b
pg_catalog.pg_authid oid:i rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b
    rolbypassrls:b rolconnlimit:i rolpassword rolvaliduntil:m
pg_catalog.pg_available_extensions name default_version installed_version comment
pg_catalog.pg_cast oid:i castsource:i casttarget:i castfunc:i castcontext:c castmethod:c
pg_catalog.pg_class oid:i relname relnamespace:i reltype:i reloftype:i relowner:i relam:i relfilenode:i reltablespace:i
    relpages:i reltuples:d relallvisible:i reltoastrelid:i relhasindex:b relisshared:b relpersistence:c relkind:c relnatts:i
    relchecks:i relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b
    relreplident:c relispartition:b relrewrite:i relfrozenxid:i relminmxid:i relacl:ts reloptions:ts relpartbound
pg_catalog.pg_collation oid:i collname collnamespace:i collowner:i collprovider:c collisdeterministic:b collencoding:i
    collcollate collctype colliculocale collversion
pg_catalog.pg_constraint oid:i conname connamespace:i contype:c condeferrable:b condeferred:b convalidated:b conrelid:i
    contypid:i conindid:i conparentid:i confrelid:i confupdtype:c confdeltype:c confmatchtype:c conislocal:b coninhcount:i
    connoinherit:b conkey:is confkey:is conpfeqop:is conppeqop:is conffeqop:is confdelsetcols:is conexclop:is conbin
pg_catalog.pg_conversion oid:i conname connamespace:i conowner:i conforencoding:i contoencoding:i conproc condefault:b
pg_catalog.pg_cursors name statement is_holdable:b is_binary:b is_scrollable:b creation_time:m
pg_catalog.pg_database oid:i datname datdba:i encoding:i datlocprovider:c datistemplate:b datallowconn:b datconnlimit:i
    datfrozenxid:i datminmxid:i dattablespace:i datcollate datctype daticulocale datcollversion datacl:ts
pg_catalog.pg_db_role_setting setdatabase:i setrole:i setconfig:ts
pg_catalog.pg_default_acl oid:i defaclrole:i defaclnamespace:i defaclobjtype:c defaclacl:ts
pg_catalog.pg_depend classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype:c
pg_catalog.pg_description objoid:i classoid:i objsubid:i description
pg_catalog.pg_enum oid:i enumtypid:i enumsortorder:d enumlabel
pg_catalog.pg_event_trigger oid:i evtname evtevent evtowner:i evtfoid:i evtenabled:c evttags:ts
pg_catalog.pg_extension oid:i extname extowner:i extnamespace:i extrelocatable:b extversion extconfig:is extcondition:ts
pg_catalog.pg_foreign_data_wrapper oid:i fdwname fdwowner:i fdwhandler:i fdwvalidator:i fdwacl:ts fdwoptions:ts
pg_catalog.pg_foreign_server oid:i srvname srvowner:i srvfdw:i srvtype srvversion srvacl:ts srvoptions:ts
pg_catalog.pg_foreign_table ftrelid:i ftserver:i ftoptions:ts
pg_catalog.pg_group groname grosysid:i grolist:is
pg_catalog.pg_index indexrelid:i indrelid:i indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b indisprimary:b
    indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b
    indkey:hs indcollation:is indclass:is indoption:hs indexprs indpred
pg_catalog.pg_indexes schemaname tablename indexname tablespace indexdef
pg_catalog.pg_inherits inhrelid:i inhparent:i inhseqno:i inhdetachpending:b
pg_catalog.pg_language oid:i lanname lanowner:i lanispl:b lanpltrusted:b lanplcallfoid:i laninline:i lanvalidator:i lanacl:ts
pg_catalog.pg_locks locktype database:i relation:i page:i tuple:i virtualxid transactionid:i classid:i objid:i objsubid:i
    virtualtransaction pid:i mode granted:b fastpath:b waitstart:m
pg_catalog.pg_matviews schemaname matviewname matviewowner tablespace hasindexes:b ispopulated:b definition
pg_catalog.pg_namespace oid:i nspname nspowner:i nspacl:ts
pg_catalog.pg_opclass oid:i opcmethod:i opcname opcnamespace:i opcowner:i opcfamily:i opcintype:i opcdefault:b opckeytype:i
pg_catalog.pg_operator oid:i oprname oprnamespace:i oprowner:i oprkind:c oprcanmerge:b oprcanhash:b oprleft:i oprright:i
    oprresult:i oprcom:i oprnegate:i oprcode oprrest oprjoin
pg_catalog.pg_opfamily oid:i opfmethod:i opfname opfnamespace:i opfowner:i
pg_catalog.pg_partitioned_table partrelid:i partstrat:c partnatts:i partdefid:i partattrs:hs partclass:is partcollation:is
    partexprs
pg_catalog.pg_policies schemaname tablename policyname permissive roles:ts cmd qual with_check
pg_catalog.pg_policy oid:i polname polrelid:i polcmd:c polpermissive:b polroles:is polqual polwithcheck
pg_catalog.pg_prepared_statements name statement prepare_time:m parameter_types:ts from_sql:b generic_plans:i custom_plans:i
pg_catalog.pg_proc oid:i proname pronamespace:i proowner:i prolang:i procost:d prorows:d provariadic:i prosupport prokind:c
    prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c pronargs:i pronargdefaults:i prorettype:i
    proargtypes:is proallargtypes:is proargmodes:cs proargnames:ts proargdefaults protrftypes:is prosrc probin prosqlbody
    proconfig:ts proacl:ts
pg_catalog.pg_publication oid:i pubname pubowner:i puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b
pg_catalog.pg_publication_namespace oid:i pnpubid:i pnnspid:i
pg_catalog.pg_publication_rel oid:i prpubid:i prrelid:i prqual prattrs:is
pg_catalog.pg_publication_tables pubname schemaname tablename attnames:ts rowfilter
pg_catalog.pg_range rngtypid:i rngsubtype:i rngmultitypid:i rngcollation:i rngsubopc:i rngcanonical rngsubdiff
pg_catalog.pg_rewrite oid:i rulename ev_class:i ev_type:c ev_enabled:c is_instead:b ev_qual ev_action
pg_catalog.pg_roles rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i
    rolpassword rolvaliduntil:m rolbypassrls:b rolconfig:ts oid:i
pg_catalog.pg_rules schemaname tablename rulename definition
pg_catalog.pg_seclabels objoid:i classoid:i objsubid:i objtype objnamespace:i objname provider label
pg_catalog.pg_sequence seqrelid:i seqtypid:i seqstart:i seqincrement:i seqmax:i seqmin:i seqcache:i seqcycle:b
pg_catalog.pg_sequences schemaname sequencename sequenceowner data_type start_value:i min_value:i max_value:i increment_by:i
    cycle:b cache_size:i last_value:i
pg_catalog.pg_settings name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals:ts
    boot_val reset_val sourcefile sourceline:i pending_restart:b
pg_catalog.pg_shadow usename usesysid:i usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:m useconfig:ts
pg_catalog.pg_shdepend dbid:i classid:i objid:i objsubid:i refclassid:i refobjid:i deptype:c
pg_catalog.pg_shdescription objoid:i classoid:i description
pg_catalog.pg_stat_activity datid:i datname pid:i leader_pid:i usesysid:i usename application_name client_addr client_hostname
    client_port:i backend_start:m xact_start:m query_start:m state_change:m wait_event_type wait_event state backend_xid:i
    backend_xmin:i query_id:i query backend_type
pg_catalog.pg_stat_all_tables relid:i schemaname relname seq_scan:i seq_tup_read:i idx_scan:i idx_tup_fetch:i n_tup_ins:i
    n_tup_upd:i n_tup_del:i n_tup_hot_upd:i n_live_tup:i n_dead_tup:i n_mod_since_analyze:i n_ins_since_vacuum:i last_vacuum:m
    last_autovacuum:m last_analyze:m last_autoanalyze:m vacuum_count:i autovacuum_count:i analyze_count:i autoanalyze_count:i
pg_catalog.pg_stat_database datid:i datname numbackends:i xact_commit:i xact_rollback:i blks_read:i blks_hit:i tup_returned:i
    tup_fetched:i tup_inserted:i tup_updated:i tup_deleted:i conflicts:i temp_files:i temp_bytes:i deadlocks:i
    checksum_failures:i checksum_last_failure:m blk_read_time:d blk_write_time:d session_time:d active_time:d
    idle_in_transaction_time:d sessions:i sessions_abandoned:i sessions_fatal:i sessions_killed:i stats_reset:m
pg_catalog.pg_stat_user_tables relid:i schemaname relname seq_scan:i seq_tup_read:i idx_scan:i idx_tup_fetch:i n_tup_ins:i
    n_tup_upd:i n_tup_del:i n_tup_hot_upd:i n_live_tup:i n_dead_tup:i n_mod_since_analyze:i n_ins_since_vacuum:i last_vacuum:m
    last_autovacuum:m last_analyze:m last_autoanalyze:m vacuum_count:i autovacuum_count:i analyze_count:i autoanalyze_count:i
pg_catalog.pg_statio_all_tables relid:i schemaname relname heap_blks_read:i heap_blks_hit:i idx_blks_read:i idx_blks_hit:i
    toast_blks_read:i toast_blks_hit:i tidx_blks_read:i tidx_blks_hit:i
pg_catalog.pg_statio_user_tables relid:i schemaname relname heap_blks_read:i heap_blks_hit:i idx_blks_read:i idx_blks_hit:i
    toast_blks_read:i toast_blks_hit:i tidx_blks_read:i tidx_blks_hit:i
pg_catalog.pg_statistic_ext oid:i stxrelid:i stxname stxnamespace:i stxowner:i stxstattarget:i stxkeys:is stxkind:cs stxexprs
pg_catalog.pg_stats schemaname tablename attname inherited:b null_frac:d avg_width:i n_distinct:d most_common_vals
    most_common_freqs:ds histogram_bounds correlation:d most_common_elems most_common_elem_freqs:ds elem_count_histogram:ds
pg_catalog.pg_subscription oid:i subdbid:i subskiplsn subname subowner:i subenabled:b subbinary:b substream:b subtwophasestate:c
    subdisableonerr:b subconninfo subslotname subsynccommit subpublications:ts
pg_catalog.pg_tables schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b
pg_catalog.pg_tablespace oid:i spcname spcowner:i spcacl:ts spcoptions:ts
pg_catalog.pg_timezone_abbrevs abbrev utc_offset is_dst:b
pg_catalog.pg_timezone_names name abbrev utc_offset is_dst:b
pg_catalog.pg_transform oid:i trftype:i trflang:i trffromsql trftosql
pg_catalog.pg_trigger oid:i tgrelid:i tgparentid:i tgname tgfoid:i tgtype:i tgenabled:c tgisinternal:b tgconstrrelid:i
    tgconstrindid:i tgconstraint:i tgdeferrable:b tginitdeferred:b tgnargs:i tgattr:hs tgargs tgqual tgoldtable tgnewtable
pg_catalog.pg_ts_config oid:i cfgname cfgnamespace:i cfgowner:i cfgparser:i
pg_catalog.pg_ts_dict oid:i dictname dictnamespace:i dictowner:i dicttemplate:i dictinitoption
pg_catalog.pg_type oid:i typname typnamespace:i typowner:i typlen:i typbyval:b typtype:c typcategory:c typispreferred:b
    typisdefined:b typdelim:c typrelid:i typsubscript typelem:i typarray:i typinput typoutput typreceive typsend typmodin
    typmodout typanalyze typalign:c typstorage:c typnotnull:b typbasetype:i typtypmod:i typndims:i typcollation:i typdefaultbin
    typdefault typacl:ts
pg_catalog.pg_user usename usesysid:i usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:m useconfig:ts
pg_catalog.pg_user_mapping oid:i umuser:i umserver:i umoptions:ts
pg_catalog.pg_views schemaname viewname viewowner definition
information_schema.applicable_roles grantee role_name is_grantable
information_schema.character_sets character_set_catalog character_set_schema character_set_name character_repertoire form_of_use
    default_collate_catalog default_collate_schema default_collate_name
information_schema.check_constraints constraint_catalog constraint_schema constraint_name check_clause
information_schema.column_privileges grantor grantee table_catalog table_schema table_name column_name privilege_type
    is_grantable
information_schema.columns table_catalog table_schema table_name column_name ordinal_position:i column_default is_nullable
    data_type character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i
    datetime_precision:i interval_type interval_precision:i character_set_catalog character_set_schema character_set_name
    collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name udt_catalog udt_schema udt_name
    scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier is_self_referencing is_identity
    identity_generation identity_start identity_increment identity_maximum identity_minimum identity_cycle is_generated
    generation_expression is_updatable
information_schema.constraint_column_usage table_catalog table_schema table_name column_name constraint_catalog
    constraint_schema constraint_name
information_schema.constraint_table_usage table_catalog table_schema table_name constraint_catalog constraint_schema
    constraint_name
information_schema.domains domain_catalog domain_schema domain_name data_type character_maximum_length:i
    character_octet_length:i character_set_catalog character_set_schema character_set_name collation_catalog collation_schema
    collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type
    interval_precision:i domain_default udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name
    maximum_cardinality:i dtd_identifier
information_schema.element_types object_catalog object_schema object_name object_type collection_type_identifier data_type
    character_maximum_length:i character_octet_length:i character_set_catalog character_set_schema character_set_name
    collation_catalog collation_schema collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i
    datetime_precision:i interval_type interval_precision:i domain_default udt_catalog udt_schema udt_name scope_catalog
    scope_schema scope_name maximum_cardinality:i dtd_identifier
information_schema.enabled_roles role_name
information_schema.information_schema_catalog_name catalog_name
information_schema.key_column_usage constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name
    column_name ordinal_position:i position_in_unique_constraint:i
information_schema.parameters specific_catalog specific_schema specific_name ordinal_position:i parameter_mode is_result
    as_locator parameter_name data_type character_maximum_length:i character_octet_length:i character_set_catalog
    character_set_schema character_set_name collation_catalog collation_schema collation_name numeric_precision:i
    numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type interval_precision:i udt_catalog udt_schema
    udt_name scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier parameter_default
information_schema.referential_constraints constraint_catalog constraint_schema constraint_name unique_constraint_catalog
    unique_constraint_schema unique_constraint_name match_option update_rule delete_rule
information_schema.role_table_grants grantor grantee table_catalog table_schema table_name privilege_type is_grantable
    with_hierarchy
information_schema.routines specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name
    routine_type module_catalog module_schema module_name udt_catalog udt_schema udt_name data_type character_maximum_length:i
    character_octet_length:i character_set_catalog character_set_schema character_set_name collation_catalog collation_schema
    collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type
    interval_precision:i type_udt_catalog type_udt_schema type_udt_name scope_catalog scope_schema scope_name
    maximum_cardinality:i dtd_identifier routine_body routine_definition external_name external_language parameter_style
    is_deterministic sql_data_access is_null_call sql_path schema_level_routine max_dynamic_result_sets:i is_user_defined_cast
    is_implicitly_invocable security_type to_sql_specific_catalog to_sql_specific_schema to_sql_specific_name as_locator
    created:m last_altered:m new_savepoint_level is_udt_dependent result_cast_from_data_type result_cast_as_locator
    result_cast_char_max_length:i result_cast_char_octet_length:i result_cast_char_set_catalog result_cast_char_set_schema
    result_cast_char_set_name result_cast_collation_catalog result_cast_collation_schema result_cast_collation_name
    result_cast_numeric_precision:i result_cast_numeric_precision_radix:i result_cast_numeric_scale:i
    result_cast_datetime_precision:i result_cast_interval_type result_cast_interval_precision:i result_cast_type_udt_catalog
    result_cast_type_udt_schema result_cast_type_udt_name result_cast_scope_catalog result_cast_scope_schema
    result_cast_scope_name result_cast_maximum_cardinality:i result_cast_dtd_identifier
information_schema.schemata catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema
    default_character_set_name sql_path
information_schema.sequences sequence_catalog sequence_schema sequence_name data_type numeric_precision:i
    numeric_precision_radix:i numeric_scale:i start_value minimum_value maximum_value increment cycle_option
information_schema.table_constraints constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name
    constraint_type is_deferrable initially_deferred enforced nulls_distinct
information_schema.table_privileges grantor grantee table_catalog table_schema table_name privilege_type is_grantable
    with_hierarchy
information_schema.tables table_catalog table_schema table_name table_type self_referencing_column_name reference_generation
    user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed commit_action
information_schema.triggers trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog
    event_object_schema event_object_table action_order:i action_condition action_statement action_orientation action_timing
    action_reference_old_table action_reference_new_table action_reference_old_row action_reference_new_row created:m
information_schema.view_table_usage view_catalog view_schema view_name table_catalog table_schema table_name
information_schema.views table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into
    is_trigger_updatable is_trigger_deletable is_trigger_insertable_into
"""


def relations() -> dict[str, dict[str, str]]:
    """The kinds of the columns of each relation, by its name with the schema."""
    found: dict[str, dict[str, str]] = {}
    for line in COLUMNS.replace("\n    ", " ").split("\n")[1:-1]:
        name, *columns = line.split()
        found[name] = dict((*column.split(":"), "")[:2] for column in columns)  # type: ignore[misc]
    return found
