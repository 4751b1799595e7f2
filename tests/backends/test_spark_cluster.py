"""A cluster of several processes, of which one is lost in the middle of a query."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from support.clusters import needs_spark
from support.sessions import open_ledger
from support.standalone_spark import Standalone, children, standalone
from support.worlds import world

BUCKETS = 4
TIMES = 6_000_000  # that each row is read, so that a bucket takes about half a second
PART = (f'SELECT COUNT(*) FILTER (hash(p."person_id" * t.i) >= 0) AS n, SUM(p."person_id" * t.i) AS s '
        f'FROM {{bucket}}.main."people" AS p, range({TIMES}) AS t(i)')
TOTAL = 'SELECT CAST(SUM(n) AS BIGINT), CAST(SUM(s) AS HUGEINT) FROM {rows}'
PROGRAM = """
import json, sys
from pathlib import Path
from support.clusters import uploaded
from dpsql.trusted.reader import PARTS, Parts
from dpsql.trusted.plan.stored import bucket_name
from support.sessions import open_ledger
from dpsql.backends.spark_cluster import SparkCluster
folder, master, buckets, total, part = sys.argv[1:]
cluster = SparkCluster(master)
import support.clusters
support.clusters.MASTER = master
ledger = open_ledger(Path(folder))
reader = uploaded(Path(folder) / "world.duckdb", ledger, Path(folder), buckets=int(buckets), to=cluster)
parts = [part.format(bucket=bucket_name(number)) for number in range(int(buckets))]
print("begins", flush=True)
found = reader.rows(total.format(rows=PARTS), [Parts(statements=tuple(parts))])
print(json.dumps([list(map(int, row)) for row in found]), flush=True)
"""


@needs_spark
def test_an_executor_that_is_lost_changes_nothing(tmp_path: Path) -> None:
    here = world(seed=3, people=40)
    here.save(tmp_path / "world.duckdb")
    with closing(open_ledger(tmp_path)):
        pass
    with standalone(tmp_path) as cluster:
        driver = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, tmp_path, cluster.master, str(BUCKETS), TOTAL, PART], stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, env={**cluster.environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
        try:
            assert driver.stdout is not None and driver.stdout.readline() == "begins\n"
            lost = kill_one(cluster)
            found = json.loads(driver.stdout.readline())
        finally:
            driver.kill()
            driver.wait()
        assert lost not in cluster.executors()
    people = [row[0] for row in here.rows["people"]]
    assert found == [[len(people) * TIMES, sum(people) * TIMES * (TIMES - 1) // 2]]


def kill_one(cluster: Standalone) -> int:
    """Kill an executor while its tasks run."""
    before = cluster.executors()
    assert len(before) == 2
    busy(before[0], seconds=.5)
    os.kill(before[0], signal.SIGKILL)
    return before[0]


def busy(process: int, *, seconds: float) -> None:
    """Wait until what a process started, the Python of a task, has worked for so long."""

    def worked() -> float:
        tree, found = [process], 0.0
        while tree:
            below = children(tree.pop())
            tree += below
            for child in below:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    start, ends = worked(), time.monotonic() + 60
    while worked() < start + seconds:
        assert time.monotonic() < ends
        time.sleep(.05)
