"""Connections of one account share a database of the system catalogue, and nothing that is their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")

from support.clients_catalogue import ASKING, catalog, column
from support.forged import tampered
from support.sessions import session_of
from support.vaults import remote, vault_of

from dpsql.dbapi import Connection
from dpsql.errors import OperationalError
from dpsql.frozen import replace
from dpsql.server.front.catalogue import catalog_queries, catalog_tables
from dpsql.server.front.catalogue.catalog_queries import CatalogDatabase, read_question
from dpsql.server.front.catalogue.catalog_tables import CatalogContents
from dpsql.server.front.catalogue.shared_catalogues import SharedCatalogues
from dpsql.server.front.statements.doors import VaultDoor
from dpsql.server.front.statements.seat import ConnectionSeat
from dpsql.server.link.login_messages import FirstProof
from dpsql.types import Type

OWN = "SELECT current_setting('application_name'), setting, pg_backend_pid() FROM pg_settings WHERE name = 'application_name'"
ENDLESS = "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y), pg_class WHERE x * y % 7 = 5"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CatalogContents]:
    """The contents of the databases that are made meanwhile."""
    found, whole = list[CatalogContents](), catalog_tables._database

    def counted(contents: CatalogContents) -> Any:
        found.append(contents)
        return whole(contents)

    monkeypatch.setattr(catalog_tables, "_database", counted)
    return found


def of(shared: SharedCatalogues, number: int = 1, **terms: Any) -> CatalogDatabase:
    """The catalogue of a connection with this number, which is its process and in its settings."""
    settings = {**ASKING.settings, "application_name": f"client {number}"}
    return CatalogDatabase(terms.pop("whole", None) or catalog(), replace(ASKING, process=number, settings=settings, **terms), shared)


def ask(database: CatalogDatabase, text: str) -> list[tuple[Any, ...]]:
    tree = read_question(text, ("people", "visits"))
    assert tree is not None
    return database.ask(tree).rows


def test_one_database_is_made_however_many_ask_at_once(made: list[CatalogContents]) -> None:
    shared = SharedCatalogues()
    databases = [of(shared, number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda each: ask(each, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200"), databases)]
    assert found == [[("people",), ("visits",)]] * 8 and len(made) == 1


def test_settings_and_process_are_those_of_each_connection(made: list[CatalogContents]) -> None:
    shared = SharedCatalogues()
    databases = [of(shared, number) for number in range(6)]
    start = threading.Barrier(6)

    def own(number: int) -> None:
        start.wait(20)
        for turn in range(15):
            if turn == 10:
                databases[number].asking = replace(databases[number].asking, settings={"application_name": f"changed {number}"})
            name = f"{'client' if turn < 10 else 'changed'} {number}"
            assert ask(databases[number], OWN) == [(name, name, number)]

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(own, number) for number in range(6)]:
            done.result(60)
    assert ask(databases[0], "SELECT count(*) FROM pg_settings") == [(1,)] and len(made) == 1


@pytest.mark.parametrize("change", [
    lambda: {"user": "eve"}, lambda: {"database": "other"}, lambda: {"whole": _with(type=Type.BIGINT)}, lambda: {"whole": _with(name="other")},
    lambda: {"whole": _without_visits()}], ids=["user", "database", "type", "name", "table"])
def test_others_have_a_database_of_their_own(change: Callable[[], Mapping[str, Any]], made: list[CatalogContents]) -> None:
    shared = SharedCatalogues()
    text = "SELECT attname, atttypid FROM pg_attribute UNION ALL SELECT current_user, 0 UNION ALL SELECT rolname, 1 FROM pg_roles " \
           "UNION ALL SELECT datname, 2 FROM pg_database ORDER BY 1, 2"
    one, other = of(shared), of(shared, **change())
    assert ask(one, text) != ask(other, text) and len(shared) == len(made) == 2
    assert ask(of(shared), text) == ask(one, text) and len(made) == 2


def _with(**terms: Any) -> Any:
    whole = catalog()
    people = whole.tables["people"]
    changed = replace(column("income", Type.DOUBLE), **terms)
    tampered(people, columns={each.name: each for each in (*people.columns.values(), changed) if each.name != "income" or each is changed})
    return whole


def _without_visits() -> Any:
    whole = catalog()
    tampered(whole, tables={"people": whole.tables["people"]})
    return whole


def test_contents_with_other_types_of_values_are_others() -> None:
    marks = {CatalogContents(facts={"r": [{"x": value}]}, declared=()).mark for value in (1, 1.0, True, "1", None, "\ud800")}
    assert len(marks) == 6


def test_a_database_is_kept_for_the_next_one_and_few_are(made: list[CatalogContents]) -> None:
    shared = SharedCatalogues(idle=2)
    for _ in range(3):
        one = of(shared)
        ask(one, "SELECT 1 FROM pg_class")
        one.close()
        one.close()
    assert len(made) == 1 == len(shared)
    used, others = of(shared), [of(shared, user=f"user{number}") for number in range(4)]
    for each in others:
        ask(each, "SELECT 1 FROM pg_class")
    closed = [each._tables for each in others[:2]]
    for each in others:
        each.close()
    assert len(shared) == 3 and all(tables._made is None for tables in closed), "those that were given back first"
    assert ask(used, "SELECT count(*) > 0 FROM pg_class") == [(True,)] and len(made) == 5


def test_an_endless_question_ends_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_queries, "SECONDS", 1.5)
    shared = SharedCatalogues()
    endless, short = of(shared, 1), of(shared, 2)
    ask(short, OWN)
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(ask, endless, ENDLESS)
        while not ending.done():
            assert ask(short, OWN) == [("client 2", "client 2", 2)]
        with pytest.raises(OperationalError, match="takes too long"):
            ending.result()
    assert ask(endless, OWN) == [("client 1", "client 1", 1)]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[VaultDoor]:
    vault = vault_of(lambda user: session_of(tmp_path, analyst=user))

    class OpenDoor(VaultDoor):
        """One that asks for no password."""

        def connect(self, name: str, *given: Any) -> Connection:
            return Connection(remote(vault, name))

    yield OpenDoor(lambda: pytest.fail("it is not asked for"))
    vault.close()


def test_the_seats_of_an_account_share_one(door: VaultDoor, made: list[CatalogContents]) -> None:
    def seat(name: str, process: int) -> ConnectionSeat:
        opened: Any = door.enter(name, "study", {"application_name": f"client {process}"},
                                 FirstProof(mechanism="", message=b"", bound=False), lambda message: b"")
        opened.take_process(process)
        return opened  # type: ignore[no-any-return]

    seats = [seat("ada", 1), seat("ada", 2), seat("bob", 3)]
    for number, each in enumerate(seats, 1):
        told = [*each.execute(OWN, ()).rows]
        assert told == [(f"client {number}", f"client {number}", number)]
    assert [*seats[0].execute("SELECT current_user", ()).rows] == [("ada",)] and [*seats[2].execute("SELECT current_user", ()).rows] == [("bob",)]
    assert len(made) == 2
    for each in seats:
        each.close()
    seats.append(seat("ada", 4))
    assert [*seats[-1].execute(OWN, ()).rows] == [("client 4", "client 4", 4)] and len(made) == 2
    seats[-1].close()
