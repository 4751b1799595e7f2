"""A Spark cluster: connecting to it, and jobs of which nothing is told but that they failed."""

from __future__ import annotations

import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import duckdb

from dpsql.backends import spark_task
from dpsql.backends.duckdb import SETTINGS, UTC
from dpsql.backends.spark_task import Engine
from dpsql.errors import OperationalError
from dpsql.trusted.reader import ReaderFault

MEMORY = "1GB"  # of a task, where the policy names none: executors run one on each of their processors
PATIENCE = 300  # seconds in which a cluster has to begin to answer
ONE_FILE = str(1 << 40)  # bytes: of no task are files so small that it reads two, or so large that two read one
CONNECT = "sc://"

QUIET = {  # what Spark logs may tell of rows, and its pages are open to whoever finds them
    "spark.log.level": "OFF", "spark.executor.syncLogLevel.enabled": "true", "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false", "spark.eventLog.enabled": "false",
}
CLOSED = {  # files are for their owner alone, and what Spark puts down on the way, which others may read, is in secret writing
    "spark.hadoop.fs.permissions.umask-mode": "077", "spark.io.encryption.enabled": "true",
}
BY_NAME_ALONE = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}  # or values would decide what analysts see
READING = {
    "spark.sql.files.maxPartitionBytes": ONE_FILE, "spark.sql.files.openCostInBytes": ONE_FILE,
    "spark.sql.files.ignoreMissingFiles": "false", "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",  # which would hold thousands of chunks at a time
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
}
Found = TypeVar("Found")


class SparkCluster:
    """A cluster, by the address of its master or of a server of Spark Connect.

    `spark` is a session that reads chunks. What Spark runs for this process is shared by all its connections to the same master,
    and lives as long as the process does, also after `close`.
    """

    def __init__(self, master: str, *, memory: str | None = None) -> None:
        """Raises OperationalError if there is no such cluster, or its executors cannot run a task with this version of
        DuckDB."""
        self._master, self._memory = master, memory or MEMORY
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()  # one for all: Spark keeps what belongs to a thread
        self.spark = self._within(PATIENCE, lambda: _session(master))
        for name, value in READING.items():
            self.spark.conf.set(name, value)
        _send_by_value()
        self._check_versions()

    @property
    def engine(self) -> Engine:
        """The settings of the engine in tasks."""
        settings = (UTC, *(f"SET GLOBAL {name} = {value}" for name, value in SETTINGS.items()), "SET lock_configuration = true")
        return Engine(version=duckdb.__version__, config=(("threads", "1"), ("memory_limit", self._memory)), settings=settings)

    def session(self) -> Any:
        """A further session with Spark's default settings, in which partition columns in folder names are texts."""
        spark = _session(self._master)
        for name, value in BY_NAME_ALONE.items():
            spark.conf.set(name, value)
        return spark

    def check(self) -> None:
        """Raises OperationalError if the cluster cannot run a task at present."""
        self._within(PATIENCE, lambda: self.spark.range(1).count())

    def close(self) -> None:
        self._jobs.put(None)

    def _check_versions(self) -> None:
        ours = duckdb.__version__
        tasks = 8  # on several executors, as a rule; each task of a statement looks again
        found = self._within(PATIENCE, lambda: {row[0] for row in self.spark.range(0, tasks, 1, tasks).mapInArrow(
            spark_task.versions, "version STRING").collect()})
        other = next((version for version in sorted(found) if version != ours), None)
        if other is not None:
            told = "no DuckDB" if other == "none" else f"DuckDB {other}"
            raise OperationalError(f"the executors of {self._master} have {told}, and this is DuckDB {ours}",
                                   code="spark", try_=f"pip install 'duckdb=={ours}' pyarrow, for the Python of the executors")

    def _within(self, seconds: float, job: Callable[[], Found]) -> Found:
        """What a job gives. Raises OperationalError if it fails or takes longer: one that no executor accepts waits for
        ever, and so do those after it."""
        done: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                done.put((job(), None))
            except Exception as fault:
                done.put((None, fault))

        self._jobs.put(run)
        try:
            found, fault = done.get(timeout=seconds)
        except queue.Empty:
            found, fault = None, TimeoutError()
        if isinstance(fault, OperationalError):
            raise fault
        if fault is not None:
            raise OperationalError(
                f"the Spark cluster {self._master} does not answer ({type(fault).__name__})", code="spark",
                try_=
                'master = "local[2]", "spark://host:7077" or "sc://host:15002" in [spark], for a running cluster; all but the '
                "last need Java 17 or newer on this machine, and executors need Python with pyarrow and duckdb") from None
        return found  # type: ignore[no-any-return]

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def run_job(job: Callable[[], Found]) -> Found:
    """The result of a Spark job. Raises ReaderFault if it fails; Spark's messages may contain private data and are not shown."""
    failed = False
    try:
        return job()
    except Exception:
        failed = True
    if failed:
        raise ReaderFault
    raise AssertionError  # not reached


def _session(master: str) -> Any:
    """A session of its own, whose settings no other uses."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise OperationalError("reading by Spark needs pyspark and pyarrow", code="spark",
                               try_="pip install 'dpsql[spark]'") from None
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)  # none of it is used here
    if master.startswith(CONNECT):
        return SparkSession.builder.remote(master).create()
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("dpsql")
    for name, value in {**QUIET, **CLOSED}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    there = spark.sparkContext.master
    if there != master:
        raise OperationalError(f"this process already has a Spark session, of {there}", code="spark",
                               try_=f'master = "{there}" in [spark], or another process')
    there_set = dict(spark.sparkContext.getConf().getAll())
    if any(there_set.get(name) != value for name, value in {**QUIET, **CLOSED}.items()):
        raise OperationalError("this process already has a Spark session, and others may read its logs, pages and files",
                               code="spark", try_="dpsql before any other use of Spark, or in another process")
    return spark.newSession()


def _send_by_value() -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(spark_task)
