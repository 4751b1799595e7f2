"""A policy from the YAML metadata of SmartNoise SQL.

    '': {schema: {table: {max_ids: 1, ..., column: {type: int, lower: 0, upper: 100, private_id: true, ...}}}}

What has a counterpart is carried over with the meaning it has there; the rest becomes a comment in its place, so that nothing
is lost silently. The mapping, by SmartNoise SQL's own loader (snsql/metadata.py):

- `private_id` names the protected entity. Columns of the same name in several tables name the same entity; the table with the
  smallest `max_ids` is its own, and the others reference it by foreign keys.
- `max_ids` is the largest number of rows of one entity, `rows_per_entity`. Both engines enforce it.
- `lower` and `upper` are bounds; for a short run of integers they are a range, so that each integer is a group.
- `row_privacy` protects single rows. Here every entity needs a name, so such a table needs a column that differs in every row.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.catalog import writing
from dpsql.catalog.policy import can_be_named, parse_policy, written_reference
from dpsql.catalog.sections import suggest
from dpsql.catalog.writing import comment, note, value
from dpsql.catalog.yaml_entries import YamlEntry, root_of
from dpsql.errors import PolicyError
from dpsql.frozen import Frozen

TYPES = ("int", "float", "string", "boolean", "datetime", "unknown")
FLAGS = ("row_privacy", "sample_max_ids", "clamp_counts", "clamp_columns", "use_dpsu", "censor_dims")
OPTIONS = (*FLAGS, "max_ids", "rows", "rows_exact")
LONGEST_RANGE = 1000  # up to this many integers between lower and upper, each one is a group

NO_COUNTERPART = {
    ("rows", None): "rows is left out: the number of rows is private here.",
    ("rows_exact", None): "rows_exact is left out: the number of rows is private here.",
    ("sample_max_ids", True): "sample_max_ids: max_ids is always enforced here.",
    ("sample_max_ids", False): "sample_max_ids = false has no counterpart: max_ids is always enforced here.",
    ("clamp_counts", True): "clamp_counts has no counterpart: counts may come out negative, and are unbiased.",
    ("clamp_counts", False): "clamp_counts: counts may come out negative here, too.",
    ("clamp_columns", True): "clamp_columns: bounds are always enforced here.",
    ("clamp_columns", False): "clamp_columns = false has no counterpart: bounds are always enforced here.",
    ("use_dpsu", True): "use_dpsu has no counterpart: how groups are found is chosen for each statement.",
    ("use_dpsu", False): "use_dpsu: how groups are found is chosen for each statement.",
    ("censor_dims", True): "censor_dims: rare groups of columns without listed values are always left out here.",
    ("censor_dims", False): "censor_dims = false has no counterpart: groups that are known only from the data are not all shown. "
                            "Declare values = [...] for such columns, and every group is shown.",
}
HEAD = """
A policy made from the metadata of SmartNoise SQL. Read all of it before you use it.

What differs: epsilon is the price of a whole statement, not of each column in it; statements are charged to a budget and
refused when it is spent; every table and column that is not named here is private and cannot be queried.
"""


def imported(text: str, *, source: str = "metadata.yaml", database: str | None = None,
             row_keys: Mapping[str, str] | None = None) -> str:
    """The text of a policy from the text of SmartNoise metadata. `row_keys` names, for tables with row_privacy, a column that
    differs in every row.

    Raises PolicyError, located in the YAML, for mistakes and for what cannot be carried over; OperationalError without PyYAML.
    """
    try:
        metadata = _read(root_of(text, source), row_keys or {})
    except RecursionError:
        raise PolicyError("the metadata are nested too deeply", code="metadata-syntax", text=text, source=source) from None
    policy = _Import(metadata=metadata, database=database, source=source).text()
    parse_policy(policy, path="the imported policy")
    return policy


# -- reading


class _MetadataColumn(Frozen):
    name: str
    type: str
    private_id: bool
    declared: Mapping[str, writing.Value]
    notes: tuple[str, ...]


class _MetadataTable(Frozen):
    """A table of the metadata; `key` is the column that names the entity, None if nothing does."""

    name: str
    schema: str
    columns: tuple[_MetadataColumn, ...]
    key: str | None
    max_ids: int
    row_privacy: bool
    notes: tuple[str, ...]


class _Metadata(Frozen):
    engine: str
    tables: tuple[_MetadataTable, ...]


def _read(root: YamlEntry, row_keys: Mapping[str, str]) -> _Metadata:
    top = root.mapping("a database name to schemas")
    engine = top.pop("engine", None)
    if len(top) != 1:
        raise root.fault("one database is expected: " + ", ".join(repr(name) for name in top), try_="a file for each database")
    (database,) = top.values()
    tables: list[_MetadataTable] = []
    for schema, tables_of in database.mapping("schema names to tables").items():
        for name, entry in tables_of.mapping("table names to columns").items():
            if any(name.lower() == table.name.lower() for table in tables):
                raise entry.fault("another schema has a table of this name, and policies name tables without schema")
            if not can_be_named(name):
                raise entry.fault("a table's name in a policy consists of visible characters", try_="a table of another name")
            tables.append(_table(name, schema, entry, row_keys.get(name)))
    for name in row_keys:
        if name not in [table.name for table in tables]:
            raise root.fault(f"there is no table {name}", try_=suggest(name, [table.name for table in tables]))
    if all(table.key is None for table in tables):
        raise database.fault("no column is a private_id, so it is not known who is protected", code="no-private-id",
                             try_="private_id: true at the column that names a person")
    return _Metadata(engine=str(engine.scalar()) if engine is not None else "", tables=tuple(tables))


def _table(name: str, schema: str, entry: YamlEntry, row_key: str | None) -> _MetadataTable:
    entries = entry.mapping("columns")
    options = {option: part for option, part in entries.items() if option in OPTIONS}
    columns = tuple(_column(column, part) for column, part in entries.items() if column not in OPTIONS)
    flags = {flag: options[flag].flag() for flag in FLAGS if flag in options}
    max_ids = options["max_ids"].scalar() if "max_ids" in options else 1
    if isinstance(max_ids, bool) or not isinstance(max_ids, int) or not 1 <= max_ids <= 10**6:
        raise options["max_ids"].fault("must be a whole number from 1 to 1000000")
    ids = [column.name for column in columns if column.private_id]
    if len(ids) > 1:
        raise entries[ids[1]].fault(f"{ids[0]} is the private_id already; one entity has one name", try_="only one private_id")
    row_privacy = flags.get("row_privacy", False)
    if row_key is not None and row_key not in [column.name for column in columns]:
        raise entry.fault(f"there is no column {row_key}", try_=suggest(row_key, [column.name for column in columns]))
    if row_privacy and row_key is None and not ids:
        raise options["row_privacy"].fault(
            "each row is protected on its own here, and a policy needs a column that tells rows apart", code="row-privacy",
            try_=f"private_id: true at a column that differs in every row, or such a column as the row key of {name}; if there "
                 "is none, add one to the table, such as row_number() OVER () AS row_id")
    if row_key is not None and not row_privacy:
        raise entry.fault("it has a row key, but not row_privacy", try_="row_privacy: true, or no row key")
    key = row_key if row_key is not None else next(iter(ids), None)
    given = [(option, flags.get(option)) for option in options if option not in ("max_ids", "row_privacy")]
    return _MetadataTable(name=name, schema=schema, columns=columns, key=key, max_ids=1 if row_privacy else max_ids,
                          row_privacy=row_privacy, notes=tuple(NO_COUNTERPART[pair] for pair in given))


def _column(name: str, entry: YamlEntry) -> _MetadataColumn:
    if not entry.nested:
        raise entry.fault("must be a mapping with a type, or it is a misspelt option of the table", try_=suggest(name, OPTIONS))
    entries = entry.mapping("properties")
    if "type" not in entries:
        raise entry.fault("type is missing", try_="type: one of " + ", ".join(TYPES))
    kind = entries.pop("type")
    if kind.scalar() not in TYPES:
        raise kind.fault("this type is unknown", try_=suggest(str(kind.scalar()), TYPES))
    declared: dict[str, writing.Value] = {}
    notes: list[str] = []
    private_id = entries.pop("private_id").flag() if "private_id" in entries else False
    ends: dict[str, YamlEntry] = {end: entries.pop(end) for end in ("lower", "upper") if end in entries}
    if kind.scalar() in ("int", "float"):
        declared, notes = _bounds(ends, whole=kind.scalar() == "int")
    elif ends:
        notes.append(f"{' and '.join(ends)} left out: not a number")
    if "nullable" in entries and not entries.pop("nullable").flag():
        declared["nullable"] = False
    for key, part in entries.items():
        if key in PROPERTIES:
            notes.append(PROPERTIES[key].format(name=name, value=part.scalar()))
        else:
            notes.append(f"{key} left out: not a property that SmartNoise knows")
    return _MetadataColumn(name=name, type=str(kind.scalar()), private_id=private_id, declared=declared, notes=tuple(notes))


PROPERTIES = {
    "missing_value": "missing_value: NULL stays NULL here; use COALESCE({name}, {value}) in a statement replaces it",
    "sensitivity": "sensitivity left out: the bounds decide",
    "cardinality": "cardinality left out: list the values instead",
}


def _bounds(ends: Mapping[str, YamlEntry], *, whole: bool) -> tuple[dict[str, writing.Value], list[str]]:
    numbers: dict[str, int | float] = {}
    for end, entry in ends.items():
        number = entry.number()
        if whole and not float(number).is_integer():
            raise entry.fault("the column is of type int, so its ends are whole numbers")
        numbers[end] = int(number) if whole else number
    if len(numbers) < 2:
        return {}, [f"{end} = {number} alone is no bound: give both ends" for end, number in numbers.items()]
    low, high = numbers["lower"], numbers["upper"]
    if low > high:
        raise ends["upper"].fault("upper is below lower")
    if whole and high - low < LONGEST_RANGE:
        return {"range": [low, high]}, []
    return {"bounds": [low, high]}, []


# -- writing


class _Entity(Frozen):
    """A protected entity and its tables, its own first."""

    name: str
    tables: tuple[_MetadataTable, ...]


class _Import(Frozen):
    metadata: _Metadata
    database: str | None
    source: str

    def text(self) -> str:
        lines = [*comment(HEAD), "", "version = 1"]
        if self.database is not None:
            lines.append(f"database = {value(self.database)}")
        if self.metadata.engine:
            lines += comment(f"engine: {self.metadata.engine} is left out: the engine is that of the database.")
        entities = _entities(self.metadata.tables)
        if len(entities) > 1:
            lines += ["", *comment("The metadata name several kinds of protected entities, and each gets a budget. If two of "
                                   "them are the same people, make them one entity: what is spent on them adds up.")]
        for entity in entities:
            lines += ["", *self._entity(entity), "",
                      *writing.budget(entity.name, name="main" if len(entities) == 1 else entity.name)]
        lines += ["", *comment(writing.COLUMNS)]
        for table in self.metadata.tables:
            of = next((entity for entity in entities if table in entity.tables), None)
            lines += ["", *_written(table, of, alone=len(entities) == 1)]
        return "\n".join(lines) + "\n"

    def _entity(self, entity: _Entity) -> list[str]:
        own = entity.tables[0]
        why = "each row is protected on its own (row_privacy)" if own.row_privacy else f"{own.key} is the private_id"
        return [*comment(f"Who is protected: {why}."), "", f"[entities.{writing.key(entity.name)}]",
                f"table = {value(own.name)}", f"key = {value(own.key or '')}"]


def _entities(tables: tuple[_MetadataTable, ...]) -> tuple[_Entity, ...]:
    """Tables whose private_id has the same name share one kind of entity; the single rows of a table are a kind of their own."""
    groups: dict[tuple[str, str], list[_MetadataTable]] = {}
    for table in tables:
        if table.key is not None:
            groups.setdefault((table.key.lower(), table.name if table.row_privacy else ""), []).append(table)
    found: list[_Entity] = []
    for (key, row), group in groups.items():
        name = f"row_of_{row}" if row else key.removesuffix("_id") or key
        if len(groups) == 1 and not row and name == key:
            name = "person"  # a single entity with a short name such as pid
        if name in [entity.name for entity in found]:
            name = f"{key}_entity"
        found.append(_Entity(name=name, tables=tuple(sorted(group, key=lambda table: table.max_ids))))
    return tuple(found)


def _written(table: _MetadataTable, entity: _Entity | None, *, alone: bool) -> list[str]:
    lines = [f"[tables.{writing.key(table.name)}]"]
    if table.schema:
        lines += comment(f"In schema {table.schema} there; tables are named without a schema here.")
    if entity is None:
        lines += comment("No column is a private_id, so this table cannot be queried. Give it foreign_keys to the table of "
                         "the entity its rows belong to, or public = true if everybody may see every row of it.")
    elif table is entity.tables[0]:
        what = "must differ in every row" if table.row_privacy else f"if no {entity.name} has two rows"
        lines.append(note(f"# key = {value(table.key or '')}", what))
    else:
        own = entity.tables[0]
        references = value(written_reference(own.name, (own.key or "",)))
        lines.append(f"foreign_keys = [{{ columns = {value(table.key or '')}, references = {references} }}]")
    if entity is not None:
        limit: writing.Value = table.max_ids if alone else {entity.name: table.max_ids}
        lines.append(note(f"rows_per_entity = {value(limit)}", "max_ids" if not table.row_privacy else "row_privacy"))
    lines += [line for text in table.notes for line in comment(text)]
    return [*lines, "", f"[tables.{writing.key(table.name)}.columns]", *writing.columns(map(_line, table.columns))]


def _line(column: _MetadataColumn) -> tuple[str, Mapping[str, writing.Value] | None, str]:
    if column.type == "unknown":
        return column.name, None, "its type is unknown there; declare it if it may be queried"
    return column.name, column.declared, "; ".join([column.type, *(["private_id"] if column.private_id else []), *column.notes])
