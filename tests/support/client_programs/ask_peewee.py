"""What peewee can do."""
import datetime as dt
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Semaphore

import peewee
from playhouse.pool import PooledPostgresqlDatabase
from playhouse.postgres_ext import PostgresqlExtDatabase, ServerSide

port, password, counted, constants, ends = sys.argv[1:]
where = {"user": "ada", "host": "127.0.0.1", "port": int(port)}
try:
    peewee.PostgresqlDatabase("study", **where, password="wrong").connect()
except peewee.OperationalError as fault:
    assert "password authentication failed" in str(fault)
database = PooledPostgresqlDatabase("study", **where, password=password, max_connections=10)
print("password")


class People(peewee.Model):
    person_id = peewee.BigIntegerField(primary_key=True)
    health = peewee.TextField()
    site = peewee.BigIntegerField()

    class Meta:
        database, table_name = database, "people"


HEALTH = ["excellent", "fair", "good", "poor"]
EVERY = peewee.fn.COUNT(peewee.SQL("*"))
by_health = People.select(People.health, EVERY.alias("n")).group_by(People.health).order_by(People.health).tuples()
found = database.execute_sql(constants).fetchall()
assert found == [(42, 1.5, True, 'ä"', dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 1, 250), None)], found
print("values")
assert [column[0] for column in database.execute_sql(ends).description] == ["n", "n_low", "n_high"]
print("ends")
assert "people" in database.get_tables() and database.get_primary_keys("people") == ["person_id"]
assert [column.data_type for column in database.get_columns("people") if column.name == "health"] == ["text"]
assert [index.columns for index in database.get_indexes("people")] == [["person_id"]]
print("tables")
with database.atomic():
    assert [row[0] for row in by_health] == HEALTH
print("transactions")
assert People.select(EVERY.alias("n")).where(People.site.in_([1, 2])).scalar() > 0
assert People.select(EVERY.alias("n")).where(People.health == peewee.fn.ANY(peewee.Value(["good", "fair"], converter=False, unpack=False))).scalar() > 0
print("arrays")
together, few = Barrier(10), Semaphore(4)


def ask(_: int) -> list[str]:
    with database.connection_context():
        together.wait(30)
        with few:
            return [row[0] for row in by_health.clone()]


database.close()
with ThreadPoolExecutor(10) as threads:
    assert [*threads.map(ask, range(10))] == [HEALTH] * 10
print("pools")
streaming = PostgresqlExtDatabase("study", **where, password=password, server_side_cursors=True)
with streaming.bind_ctx([People]), streaming.atomic():
    assert [row[0] for row in ServerSide(by_health.clone())] == HEALTH
print("cursors")
