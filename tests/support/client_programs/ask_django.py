"""What Django can do: a model of a table that is there, and what the model's table is."""
import datetime as dt
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Semaphore

import django
from django.conf import settings

port, password, counted, constants, ends = sys.argv[1:]
settings.configure(USE_TZ=False, DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": "study", "USER": "ada", "PASSWORD": password, "HOST": "127.0.0.1", "PORT": port,
    "OPTIONS": {"pool": {"min_size": 1, "max_size": 10}}}})
django.setup()

from django.db import connection, models, transaction  # noqa: E402 - after the settings


class People(models.Model):
    person_id = models.BigIntegerField(primary_key=True)
    health = models.TextField()
    site = models.BigIntegerField()

    class Meta:
        app_label, managed, db_table = "study", False, "people"


HEALTH = ["excellent", "fair", "good", "poor"]
by_health = People.objects.values_list("health").annotate(n=models.Count("*")).order_by("health")
assert [row[0] for row in by_health] == HEALTH
print("password")
with connection.cursor() as cursor:
    cursor.execute(constants)
    assert cursor.fetchone() == (42, 1.5, True, 'ä"', dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 1, 250), None)
    print("values")
    cursor.execute(ends)
    assert [column.name for column in cursor.description] == ["n", "n_low", "n_high"]
    print("ends")
assert People.objects.filter(site=3).count() > 0
print("parameters")
assert {"people", "plans"} <= {*connection.introspection.table_names()}  # of their columns, not all that it asks is answered
with transaction.atomic():
    assert [row[0] for row in by_health.iterator(chunk_size=2)] == HEALTH
assert [row[0] for row in by_health.iterator(chunk_size=2)] == HEALTH  # outside a transaction it holds its cursor
print("cursors transactions")
together, few = Barrier(10), Semaphore(4)


def ask(_: int) -> list[str]:
    connection.ensure_connection()
    together.wait(30)
    try:
        with few:
            return [row[0] for row in by_health.all()]
    finally:
        connection.close()


connection.close()
with ThreadPoolExecutor(10) as threads:
    assert [*threads.map(ask, range(10))] == [HEALTH] * 10
print("pools")
assert People.objects.filter(site__in=[1, 2]).count() > 0
print("arrays")
