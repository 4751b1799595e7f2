"""The questions of real clients to the system catalogue, and a catalogue to ask.

`tests/server/questions_of_clients.sql` has them under the client's name and what it does. They were taken from the log of a
PostgreSQL 15 while psql and SQLAlchemy asked it, and from the sources of the others; {people} and the like stand for oids.
"""

from __future__ import annotations

import re
from pathlib import Path

from dpsql.catalog.model import Catalog, Entity
from dpsql.server.front.catalogue.catalog_queries import CatalogDatabase
from dpsql.server.front.catalogue.catalog_rewriting import Asking
from dpsql.trusted.declarations.tables import Column, Domain, ForeignKey, Table
from dpsql.types import Interval, Type

QUESTIONS = Path(__file__).parents[1] / "server" / "questions_of_clients.sql"
ASKING = Asking(user="ada", database="demo", version="PostgreSQL 15.0 (dpsql)", schema="public", settings={
    "search_path": "public", "server_version_num": "150000", "default_table_access_method": "heap"})


def questions() -> dict[str, str]:
    """The texts by their titles."""
    blocks = re.split(r"^-- # ", QUESTIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {title: text.strip() for title, text in (block.split("\n", 1) for block in blocks)}


def column(name: str, kind: Type, *, nullable: bool = True, declared: Interval | None = None, domain: Domain | None = None) -> Column:
    told = {} if declared is None else {"declared": declared}
    return Column(name=name, type=kind, sql_type=kind.value, nullable=nullable, domain=domain, **told)


def catalog() -> Catalog:
    people = [column("person_id", Type.BIGINT), column("household_id", Type.BIGINT), column("sex", Type.VARCHAR),
              column("age", Type.BIGINT, nullable=False, declared=Interval(0, 100)), column("income", Type.DOUBLE),
              column("active", Type.BOOLEAN), column("born", Type.DATE)]
    visits = [column("visit_id", Type.BIGINT), column("person_id", Type.BIGINT), column("seen", Type.TIMESTAMP)]
    return Catalog(entity=Entity(name="person", table="people", key="person_id"), tables={
        "people": Table(name="people", public=False, key=("person_id",), rows=1, columns={each.name: each for each in people}),
        "visits": Table(name="visits", public=False, key=("visit_id",), columns={each.name: each for each in visits},
                        foreign_keys=(ForeignKey(columns=("person_id",), table="people", references=("person_id",)),))})


def asked() -> CatalogDatabase:
    return CatalogDatabase(catalog(), ASKING)
