"""Files of Arrow, such as those that pandas and R write as Feather: the types of their columns are those of Arrow.

A column of categories is one of their values. What a Parquet file or the engine cannot hold is not read: lists and other nested
values, durations, times of day and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.backends.column_names import distinct_names
from dpsql.backends.foreign_rows import ForeignFile, ForeignRows, library, not_a_file

INSTALL = "pip install 'dpsql[arrow]'"
KIND = "a file of Arrow"
TEXTS = "string", "large_string", "string_view"  # the types of texts


def arrow_rows(file: ForeignFile) -> ForeignRows:
    """Read the rows of an Arrow file. Raises OperationalError if the file cannot be read, or has no columns."""
    schema = _schema(file)
    if not len(schema):
        raise not_a_file(file, KIND, "it has no columns")
    names = distinct_names(schema.names)
    kept = {name: _kept_as(file, field.type) for name, field in zip(names, schema, strict=True)}
    types = {name: kind for name, kind in kept.items() if kind is not None}

    def batches(wanted: Sequence[str]) -> Iterator[Sequence[Any]]:
        for batch in _batches(file):
            yield [batch.column(names.index(name)).cast(types[name]) for name in wanted]

    unread = {name: str(field.type) for name, field in zip(names, schema, strict=True) if name not in types}
    return ForeignRows(types=types, batches=batches, unread=unread)


def categorical(file: ForeignFile) -> set[str]:
    """The text columns that are categorical. The categories themselves are not returned, as programs derive them from the
    rows."""
    pa = library("pyarrow", file, INSTALL)
    schema = _schema(file)
    return {name for place, name in enumerate(distinct_names(schema.names))
            if pa.types.is_dictionary(schema.field(place).type) and _kept_as(file, schema.field(place).type) == pa.string()}


def _kept_as(file: ForeignFile, kind: Any) -> Any:
    """The type as which a column is kept; None if it cannot be."""
    pa = library("pyarrow", file, INSTALL)
    if pa.types.is_dictionary(kind):
        return _kept_as(file, kind.value_type)
    if str(kind) in TEXTS or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_date(kind):
        return pa.date32()
    same = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_decimal128)
    return kind if any(is_it(kind) for is_it in same) else None


def _schema(file: ForeignFile) -> Any:
    pa = library("pyarrow", file, INSTALL)
    schema = None
    try:
        with _source(file, pa) as reader:
            schema = reader.schema
    except (pa.ArrowException, OSError, ValueError):
        schema = None
    if schema is None:
        raise not_a_file(file, KIND, "it is damaged, or of another kind")
    return schema


def _source(file: ForeignFile, pa: Any) -> Any:
    """A reader of the file, which is a stream where it does not say where its parts are."""
    mapped = pa.memory_map(str(file.path))
    begins = mapped.read(6)
    mapped.seek(0)
    if begins.startswith(b"FEA1"):
        raise not_a_file(file, KIND, "it has the format Feather V1, which is not supported", "the same data, written again")
    return pa.ipc.open_file(mapped) if begins == b"ARROW1" else pa.ipc.open_stream(mapped)


def _batches(file: ForeignFile) -> Iterator[Any]:
    pa = library("pyarrow", file, INSTALL)
    with _source(file, pa) as reader:
        if hasattr(reader, "num_record_batches"):
            yield from (reader.get_batch(place) for place in range(reader.num_record_batches))
        else:
            yield from reader
