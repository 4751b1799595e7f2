"""Spark for tests: one on this machine for all tests of a process, and stores that it reads."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support import worlds
from support.sessions import catalog_of

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import open_files
from dpsql.backends.spark import manifest_in_spark
from dpsql.backends.spark_cluster import SparkCluster
from dpsql.backends.spark_writer import upload
from dpsql.catalog.policy import parse_policy
from dpsql.engine.opening_spark import read_by_spark
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger

MISSING = ("pyspark is not installed: pip install 'dpsql[spark]'" if importlib.util.find_spec("pyspark") is None else
           "there is no Java: apt-get install openjdk-17-jre-headless" if shutil.which("java") is None else "")
MASTER = "local[2]"
Test = TypeVar("Test", bound=Callable[..., Any])
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).with_name("spark_conf")))


def needs_spark(test: Test) -> Test:
    """Marks a test that starts Spark: none is in the fast tier."""
    for mark in (pytest.mark.slow, pytest.mark.spark, pytest.mark.skipif(bool(MISSING), reason=MISSING)):
        test = mark(test)
    return test


@cache
def cluster() -> SparkCluster:
    return SparkCluster(MASTER)


def spark_policy(folder: Path, policy: str = worlds.POLICY) -> str:
    """A policy whose stores are read by Spark, from a folder."""
    return f'{policy}\n[spark]\nmaster = "{MASTER}"\nstore = "file://{folder / "far"}"\n'


def uploaded(database: Path, ledger: ReportingLedger, folder: Path, *, budget: str = "person", buckets: int = 3, to: Any = None) -> DuckReader:
    """A reader of a DuckDB file, and of a store of it that Spark reads."""
    declared = parse_policy(spark_policy(folder))
    assert declared.spark is not None
    reader = open_files([], database=database, sealed=False)
    upload(to or cluster(), reader, catalog_of(reader, declared, budget), folder / "store", declared.spark.store, salt=ledger.salt,
           facts=FactsBesideLedger(ledger), buckets=buckets, tell=lambda line: None)
    reader.close()
    return read_again(database, ledger, folder, budget=budget)


def read_again(database: Path, ledger: ReportingLedger, folder: Path, *, budget: str = "person") -> DuckReader:
    """A reader of a DuckDB file, and of the store in a folder if that is in force."""
    declared, reader = parse_policy(spark_policy(folder)), open_files([], database=database)
    read_by_spark(declared, reader, folder / "store", declared.budgets[budget].entity, FactsBesideLedger(ledger), None)
    return reader


def manifest(folder: Path, entity: str = "person") -> Path:
    return manifest_in_spark(folder / "store", entity)
