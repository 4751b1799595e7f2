"""Results of the tasks of Spark: whether they are whole, and how they come to the driver.

Spark keeps the pieces of a result on the disks of its executors until all are fetched. The driver first looks at what there is:
the number of rows of each piece, and small pieces themselves. Only if the pieces are whole it fetches the others, one after
another, and hands each on before the next; so they need no more memory here than one partition of them does.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from dpsql.backends.spark_cluster import run_job
from dpsql.backends.spark_task import ABSENT, FAILED
from dpsql.frozen import Frozen
from dpsql.trusted.reader import ReaderFault

SMALL = 1 << 16  # bytes of a piece that is fetched with the first look


class Piece(Frozen):
    """A row of `spark_task.RESULTS`; `data` is None if it is not fetched yet."""

    bucket: int
    piece: int
    last: bool
    rows: int
    data: bytes | None = b""


class Results(Frozen):
    """Rows of `spark_task.RESULTS` that Spark keeps, and what the first look at them found."""

    frame: Any
    pieces: tuple[Piece, ...]

    @property
    def absent(self) -> frozenset[int]:
        """The buckets that no executor had where they were expected."""
        return frozenset(piece.bucket for piece in self.pieces if piece.piece == ABSENT)

    @property
    def there(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.piece != ABSENT)

    def data(self) -> Iterator[bytes]:
        """The data of every piece. Raises ReaderFault unless each piece is fetched exactly once."""
        missing = Counter((piece.bucket, piece.piece) for piece in self.pieces if piece.data is None)
        yield from (piece.data for piece in self.there if piece.data is not None)
        rows = iter(run_job(lambda: self.frame.where(f"octet_length(bytes) > {SMALL}").select("bucket", "piece", "bytes")
                            .toLocalIterator()) if missing else ())
        while (row := run_job(lambda: next(rows, None))) is not None:
            missing[row[0], row[1]] -= 1
            yield row[2]
        if any(missing.values()):
            raise ReaderFault


@contextlib.contextmanager
def results(frame: Any) -> Iterator[Results]:
    """The rows of a frame of `spark_task.RESULTS`, which Spark keeps until the context ends."""
    from pyspark import StorageLevel

    frame = run_job(lambda: frame.persist(StorageLevel.DISK_ONLY))
    try:
        found = run_job(lambda: frame.selectExpr(
            "bucket", "piece", "last", "rows", f"IF(octet_length(bytes) > {SMALL}, NULL, bytes) AS data").toArrow().to_pylist())
        yield Results(frame=frame, pieces=tuple(Piece(**row) for row in found))
    finally:
        with contextlib.suppress(ReaderFault):
            run_job(frame.unpersist)


def check_whole(found: Iterable[Piece], buckets: int) -> None:
    """Raises ReaderFault unless there is exactly one complete result for each of the buckets."""
    pieces: dict[int, set[int]] = {bucket: set() for bucket in range(buckets)}
    ends: dict[int, int] = {}
    for one in found:
        known: Collection[int] = pieces.get(one.bucket, {one.piece})
        if one.piece in (FAILED, ABSENT) or one.piece in known or (one.last and one.bucket in ends):
            raise ReaderFault
        pieces[one.bucket].add(one.piece)
        if one.last:
            ends[one.bucket] = one.piece
    if any(bucket not in ends or {*range(ends[bucket] + 1)} != known for bucket, known in pieces.items()):
        raise ReaderFault
