"""A front in the hands of an attacker: the vault refuses what it must, never crashes, and stays within the limits of the account."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.hostile_fronts import Frame, changed, recorded, sent
from support.sessions import open_ledger, session_of
from support.vaults import PASSWORD, channel_to, remote, vault_of
from support.worlds import POLICY

from dpsql.backends.duckdb import DuckReader
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident, IntegrityError, LedgerError, OperationalError, OptionError, PolicyError, SqlError
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.link.plain_values import MessageReader, MessageWriter, UnreadableMessage, decoded, encoded
from dpsql.server.link.vault_calls import CALLS, LENGTH, Fault, Made, ReleasedStep, fault_for_front, raised, receive_answer
from dpsql.server.vault import passwords
from dpsql.server.vault.doorkeeper import Doorkeeper
from dpsql.server.vault.user_office import UserOffice
from dpsql.server.vault.vault import ServedAccount, Vault
from dpsql.trusted.accounting.cost import Account, Cost, pure
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.kernel.run import AnsweredBefore
from dpsql.trusted.kernel.taken import MADE
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.expr.nodes import Literal, predicate
from dpsql.trusted.plan.node import InvalidPlan
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Span, Type

LIMITED = POLICY.replace('[budgets.person]\nentity = "person"\n', '[budgets.person]\nentity = "person"\nincidents = 1000\n'
                         "per_analyst = { epsilon = 2, delta = 1e-3 }\n")
PRICE: dict[str, object] = {"epsilon": 0.05, "delta": 1e-8}
SECRET = "SELECT COUNT(*) AS secret_of_ada FROM people"
ASKED = ("SELECT COUNT(*) FROM people", "SELECT sex, COUNT(*), AVG(income) FROM people GROUP BY sex", "SELECT MEDIAN(age) FROM people",
         "SELECT clinic, SUM(cost) FROM visits GROUP BY clinic", "SELECT c.city, COUNT(*) FROM visits v JOIN clinics c USING (clinic) GROUP BY 1",
         "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)", "SELECT city, SUM(beds) FROM clinics GROUP BY city",
         "SELECT nickname, COUNT(*) FROM people GROUP BY nickname", "CREATE SYNTHETIC TABLE syn AS SELECT sex, active FROM people",
         "SELECT sex, COUNT(*) FROM syn GROUP BY sex", "CREATE ONLINE MODEL model AS SELECT sex FROM people",
         "SELECT sex, COUNT(*) FROM model GROUP BY sex", "SHOW BUDGET", "SHOW RELEASES")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[ReportingLedger]:
    with_secret = session_of(tmp_path, policy=LIMITED, at=PRICE, ledger=open_ledger(tmp_path))
    answer(SECRET, with_secret)
    answer("CREATE ONLINE MODEL adas AS SELECT sex FROM people", with_secret)
    answer("SELECT sex, COUNT(*) FROM adas GROUP BY sex", with_secret)
    yield with_secret.ledger
    with_secret.close()


def opened(folder: Path, book: ReportingLedger, user: str) -> Session:
    made = session_of(folder, policy=LIMITED, at=PRICE, analyst=user, ledger=ReportingLedger(book.path))
    made.kernel.incidents = made.budget.incidents
    return made


@pytest.fixture
def vault(tmp_path: Path, book: ReportingLedger) -> Iterator[Vault]:
    made = vault_of(lambda user: opened(tmp_path, book, user))
    yield made
    made.close()


@pytest.fixture
def eve(vault: Vault) -> Iterator[Session]:
    made = remote(vault, "eve")
    yield made
    made.close()


def call(session: Session, name: str, *given: Any) -> Any:
    return session.kernel._channel.call(name, *given)  # type: ignore[attr-defined]


def counting(session: Session, table: Table | None = None, **scan: Any) -> NoisySums:
    people = table or session.catalog.tables["people"]
    read = Scan(table=people, columns=(("p", "person_id"),), owners=("p",)) if not scan else Scan(table=people, **scan)
    return NoisySums(plan=GroupedSums(input=read, keys=(), summands=(Count(),)), cells=((),), noises=(DiscreteLaplace(scale=20.0),))


def run(session: Session, request: Any, cost: Cost = pure(Fraction(1, 20)), digest: str = "d", views: tuple[Any, ...] = ()) -> Any:
    """Runs a script of one request, and returns what was released."""
    channel = session.kernel._channel  # type: ignore[attr-defined]
    steps = channel.dialogue("run", cost, digest, "a statement", views, ("asked", request))
    try:
        released = next(steps)
        steps.send(("made", "{}"))
    except StopIteration:
        pass
    return released


def test_the_front_of_these_tests_can_ask(eve: Session) -> None:
    assert run(eve, counting(eve)) is not None
    assert len(eve.ledger.entries("person", "eve")) == 1


def test_a_long_message_before_a_login_ends_a_channel(vault: Vault) -> None:
    made = vault.channel()
    assert made is not None
    with made[1] as end:
        end.settimeout(20)
        end.sendall(LENGTH.pack(2**17))
        assert end.recv(1) == b""


# -- what analysts are told

def test_no_error_names_a_file_of_the_owner(eve: Session, book: ReportingLedger, caplog: pytest.LogCaptureFixture) -> None:
    book.path.rename(book.path.with_suffix(".away"))
    with pytest.raises(LedgerError) as caught:
        answer("SELECT COUNT(*) FROM people", eve)
    assert caught.value.code == "ledger-missing" and str(book.path.parent) not in repr(caught.value.as_dict()) + str(caught.value)
    assert str(book.path) in caplog.text
    book.path.with_suffix(".away").rename(book.path)


@pytest.mark.parametrize("fault", [
    PolicyError("no table /srv/x", text="secret = 1", source="/srv/dpsql.toml", span=Span(start=0, end=3), try_="/srv/y"),
    OperationalError("there is no database /srv/x", code="no-database", subject="/srv/x", try_="/srv/y"),
    OptionError("the policy does not list eve", code="analyst", try_="ada"), IntegrityError("table t in /srv/x has rows", subject="/srv/x")])
def test_faults_of_the_owners_side_are_told_without_their_words(fault: Error) -> None:
    shown = raised(fault_for_front(fault))
    assert isinstance(shown, Error) and type(shown) is type(fault) and shown.code == fault.code
    assert not any(word in f"{shown} {shown.as_dict()}" for word in ("/srv", "secret", "ada"))


def test_what_analysts_can_mend_is_told_as_it_is() -> None:
    for fault in (SqlError("no column x", code="unknown-column"), OperationalError("the role", code="role", try_="the owner")):
        shown = raised(fault_for_front(fault))
        assert isinstance(shown, Error) and shown.as_dict() == fault.as_dict()


def test_two_connections_that_wait_for_each_other_are_told_so(vault: Vault, eve: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.server.vault.vault.NAMING", 0.1)
    other = remote(vault, "eve")
    with eve.ledger.naming(eve.account, "a"), other.ledger.naming(other.account, "b"):
        with pytest.raises(OperationalError, match="still creating something with this name") as caught, eve.ledger.naming(eve.account, "B"):
            pass
        assert caught.value.code == "naming"
        with pytest.raises(OperationalError, match="still creating something with this name"), other.ledger.naming(other.account, "a"):
            pass
    with other.ledger.naming(other.account, "a"):
        pass
    other.close()


def test_statements_are_listed_without_their_answers(eve: Session, book: ReportingLedger) -> None:
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    answer(text, eve)
    entry, = eve.ledger.entries("person", "eve")
    assert (entry.body, entry.outcome, entry.sql) == ("answered", "answered", text)
    assert len(book.entries("person", "eve")[0].body or "") > 100


# -- logins


def test_nothing_is_answered_before_a_login(vault: Vault) -> None:
    channel = channel_to(vault)
    with pytest.raises((RuntimeError, OperationalError)):
        channel.call("entries")
    with pytest.raises(OperationalError, match="closed"):
        channel.call("entries")


@pytest.mark.parametrize("said", [b"", b"wrong", PASSWORD + b" "])
def test_a_wrong_password_opens_nothing(said: bytes, vault: Vault) -> None:
    channel = channel_to(vault)
    with pytest.raises(OperationalError, match="wrong"):
        channel.log_in("ada", "", lambda message: said)
    with pytest.raises(OperationalError, match="closed"):
        channel.call("entries")


def test_a_channel_stays_with_its_account(eve: Session) -> None:
    assert isinstance(raw(eve, ("login", encoded(("ada", ""), {}))), Fault)
    assert eve.ledger.entries("person", "ada") == [] and eve.ledger.last(Account(budget="person", analyst="ada")) is None
    assert eve.ledger.failed(Account(budget="person", analyst="ada")) == []


def raw(session: Session, frame: Frame) -> Any:
    frames = session.kernel._channel._frames  # type: ignore[attr-defined]
    frames.send(frame[0].encode() + b"\n" + frame[1])
    return receive_answer(frames)


def test_what_the_front_is_told_has_no_secret(vault: Vault, book: ReportingLedger) -> None:
    channel = channel_to(vault)
    told = pickle.dumps(channel.log_in("eve", "", lambda message: PASSWORD))
    assert f"{book.salt:x}".encode() not in told and str(book.path).encode() not in told
    assert str(book.salt).encode() not in told and b"dpsql.trusted.kernel.ledger" not in told


# -- other accounts, the ledger


def test_what_is_spent_is_told_with_the_end_of_a_statement(vault: Vault, eve: Session, book: ReportingLedger) -> None:
    answer("SELECT COUNT(*) FROM people", eve)
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    asked = channel.asked
    eve.ledger.refresh()
    book.refresh()
    assert eve.ledger.spent("person", "eve") == book.spent("person", "eve") and channel.asked == asked
    with contextlib.closing(remote(vault, "bob")) as bob:
        answer("SELECT COUNT(*) FROM people", bob)
    eve.ledger.refresh()
    book.refresh()
    assert eve.ledger.spent("person") == book.spent("person"), "what others spend meanwhile is found"


def test_a_statement_that_was_answered_before_is_not_charged_again_and_is_of_its_account_alone(vault: Vault, eve: Session) -> None:
    def again(session: Session) -> Any:
        terms = pure(Fraction(1, 20)), "d", "a statement", (), ("asked", counting(session)), 0.0, True
        return next(session.kernel._channel.dialogue("run", *terms))  # type: ignore[attr-defined]

    run(eve, counting(eve))
    with pytest.raises(AnsweredBefore) as told:
        again(eve)
    assert (told.value.body, told.value.data) == ("{}", eve.kernel.version)
    with contextlib.closing(remote(vault, "bob")) as bob:
        assert again(bob) is not None, "it is released, as it is new"
    assert len(eve.ledger.entries("person", "eve")) == 1


def test_a_statement_is_asked_for_in_one_call(eve: Session) -> None:
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    for stored, calls in ((False, 2), (True, 1)):  # the request of a script, and its answer
        asked = channel.asked
        assert answer("SELECT COUNT(*) FROM people", eve).stored is stored  # type: ignore[union-attr]
        assert channel.asked - asked == calls
    eve.ledger.refresh()
    assert len(eve.ledger.entries("person", "eve")) == 1


def test_comparisons_of_others_and_secret_noise_are_not_told(eve: Session, book: ReportingLedger) -> None:
    series = [digest for digest, in book._store.connection.execute("SELECT DISTINCT digest FROM events")  # type: ignore[union-attr]
              if digest.startswith("comparisons of ")]
    assert series
    for name in ("answers", "answered", "stored"):
        with pytest.raises(RuntimeError):
            call(eve, name, series[0])
    with pytest.raises(RuntimeError):
        run(eve, counting(eve), digest=series[0])
    assert eve.ledger.entries("person", "eve") == []


def test_own_secret_noise_is_not_told(eve: Session) -> None:
    answer("CREATE ONLINE MODEL model AS SELECT sex FROM people", eve)
    answer("SELECT sex, COUNT(*) FROM model GROUP BY sex", eve)
    opened = next(entry for entry in eve.ledger.entries("person", "eve") if "MODEL" in entry.sql)
    for name in ("answered", "stored"):
        with pytest.raises(RuntimeError):
            call(eve, name, f"comparisons of {opened.seq}")


@pytest.mark.parametrize(("name", "given"), [
    ("holding", ("",)), ("holding", ("' OR 1=1 --",)), ("texts", ("SELECT", 10**9)), ("texts", ("SELECT", -1)), ("enter", ("a\0b",)),
    ("enter", (7,)), ("leave", ("x",)), ("stored", (None,)), ("stored", ("x" * 10**6,)), ("spent", (1,)), ("last", ()),
    ("charge", ()), ("_session", ()), ("__class__", ()), ("close", ()), ("fanout", (1, ())), ("public_rows", (None,)), ("run", ()),
    ("compare", (1, "x", "y")), ("hold", ("x", ())), ("check", (1,)), ("opening", ()), ("serve", ()), ("interrupt", ())])
def test_calls_that_make_no_sense_are_refused(name: str, given: tuple[Any, ...], eve: Session) -> None:
    with pytest.raises(RuntimeError, match="could not do this"):
        call(eve, name, *given)
    assert call(eve, "check") == eve.kernel.version


@pytest.fixture
def moved(tmp_path: Path, book: ReportingLedger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose files are others by now."""
    behind: list[Session] = []

    def made(user: str) -> Session:
        behind.append(opened(tmp_path, book, user))
        return behind[-1]

    vault = vault_of(made)
    session = remote(vault, "eve")

    monkeypatch.setattr(behind[0].kernel._reader, "_stand", lambda: False)
    yield session
    session.close()
    vault.close()


def test_files_that_were_changed_are_looked_at_by_the_vault(moved: Session) -> None:
    """Whatever the front asks, and although it does not look itself."""
    asking = [lambda: answer("SELECT COUNT(*) FROM people", moved), lambda: answer("SELECT city, SUM(beds) FROM clinics GROUP BY 1", moved),
              moved.kernel.check_now, lambda: run(moved, counting(moved)),  # type: ignore[attr-defined]
              *(lambda name=name: call(moved, name, "d") for name in ("stored", "answered", "answers", "holding"))]
    for ask in asking:
        with pytest.raises(OperationalError, match="changed since"):
            ask()
    moved.kernel.check()
    assert moved.ledger.entries("person", "eve") == []


def test_files_that_are_changed_while_a_statement_waits_cost_nothing(moved: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many may wait, more than may fail; so they are not charged and stopped, which nobody would count."""
    known = DuckReader.check
    looks = iter([True])

    def check(self: DuckReader) -> None:
        if not next(looks, False):
            known(self)

    monkeypatch.setattr(DuckReader, "check", check)
    with pytest.raises(OperationalError, match="changed since"):
        run(moved, counting(moved))
    assert next(looks, None) is None and moved.ledger.entries("person", "eve") == []


def test_limits_are_those_of_the_vault(eve: Session) -> None:
    with pytest.raises(Refused):
        run(eve, counting(eve), pure(Fraction(3)))
    assert eve.ledger.entries("person", "eve") == []


@pytest.mark.parametrize("cost", [
    Cost(epsilon=None, rho=0.5), Cost(epsilon=0, rho=Fraction(0)), Cost(epsilon=Fraction(1), rho=0),  # type: ignore[arg-type]
    Cost(epsilon=Fraction(10**41), rho=Fraction(0)), None, 1, (Fraction(1),), Fraction(1)])
def test_what_is_no_cost_is_no_charge(cost: Any, eve: Session) -> None:
    with pytest.raises(RuntimeError):
        run(eve, counting(eve), cost)
    assert eve.ledger.entries("person", "eve") == []


def test_a_negative_cost_cannot_be_said(eve: Session) -> None:
    data = encoded((pure(Fraction(1)), "d", "s", (), ("asked", counting(eve))), eve.catalog.tables)
    nodes, root = json.loads(data)
    nodes[next(at for at, node in enumerate(nodes) if node[0] == "Fraction")] = ["Fraction", -1, 1]
    assert isinstance(raw(eve, ("run", json.dumps([nodes, root]).encode())), Fault)
    assert eve.ledger.entries("person", "eve") == []


def test_a_cost_below_that_of_the_request_is_refused_before_the_charge(eve: Session) -> None:
    for cost in (pure(Fraction(1, 100)), Cost(epsilon=Fraction(1, 20), rho=Fraction(0)), Cost(epsilon=Fraction(0), rho=Fraction(0))):
        with pytest.raises(RuntimeError):
            run(eve, counting(eve), cost)
    assert not eve.ledger.entries("person", "eve")


# -- plans


def test_tables_are_the_vaults_own(eve: Session) -> None:
    """A private table that the front calls public, without owners, or with another key, is the vault's."""
    people = eve.catalog.tables["people"]
    public = replace(people, public=True, owners=(), name="people")
    for name in ("public_rows", "fanout"):
        plan = Scan(table=public, columns=(("i", "income"),))
        with pytest.raises(RuntimeError):
            call(eve, name, *((plan,) if name == "public_rows" else (plan, ())))
    with pytest.raises(RuntimeError):
        run(eve, counting(eve, public, columns=(("i", "income"),)))
    with pytest.raises(TypeError):
        run(eve, counting(eve, replace(people, unique=(frozenset({"sex"}),))))
    clinics = eve.catalog.tables["clinics"]
    with pytest.raises(InvalidPlan, match="declares no column"):  # under the name of a public one it is not read either
        call(eve, "public_rows", Scan(table=replace(public, name="clinics"), columns=(("i", "income"),)))
    with pytest.raises(RuntimeError):
        call(eve, "public_rows", Scan(table=replace(clinics, name="households", columns=people.columns), columns=(("i", "income"),)))
    assert eve.ledger.entries("person", "eve") == []


def test_a_private_table_is_not_read_as_public(eve: Session) -> None:
    plan = Scan(table=eve.catalog.tables["people"], columns=(("i", "income"),), owners=("p",))
    for given in ((plan,), (Project(input=plan, columns=(("i", "i", Literal(type=Type.BIGINT, value=1)),)),)):
        with pytest.raises((RuntimeError, Error)):
            call(eve, "public_rows", *given)


@pytest.mark.parametrize("held", ["people", "PEOPLE", "visits", "clinics", "households", "", "a\0", "x" * 1001])
def test_released_rows_do_not_take_the_name_of_a_table(held: str, eve: Session) -> None:
    with pytest.raises(RuntimeError):
        call(eve, "hold", held, (("person_id", "BIGINT", (1, 2)),))


@pytest.mark.parametrize("columns", [
    (("a", "BIGINT[]) AS x, (SELECT 1) AS y --", (1,)),), (("a", "BIGINT", (1, 2)), ("b", "BIGINT", (1,))), (("a", "BIGINT", (1,)), ("A", "BIGINT", (1,))),
    (("a", "DOUBLE", (1.0, float("nan"))),), (("a", "BIGINT", (2**63,)),), (("a", "BIGINT", ("1",)),), (("a", "DOUBLE", (2**53 + 3,)),),
    (("a", "BIGINT", (True,)),), (("a", "VARCHAR", (1,)),), (("a", "BLOB", (None,)),),
    (("a", "BIGINT", [1]),), ((1, "BIGINT", (1,)),), (("a", "BIGINT"),), ("abc",), (), None])
def test_released_rows_are_plain_values_of_known_types(columns: Any, eve: Session) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        call(eve, "hold", "mine", columns)


def test_released_rows_are_of_their_account_and_have_no_keys(eve: Session, vault: Vault) -> None:
    ada = remote(vault, "ada")
    for session, value in ((ada, 1), (eve, 2)):  # under one identity, if the front could choose it
        session.kernel.hold("mine", "the same", {"a": ("BIGINT", [value, value])})
    table = Table(name="mine", public=True, columns={}, unique=(frozenset({"a"}),))
    for session, value in ((ada, 1), (eve, 2)):
        column = replace(session.catalog.tables["clinics"].columns["beds"], name="a", sql_type="BIGINT", nullable=False)
        read = Scan(table=replace(table, columns={"a": column}), columns=(("a", "a"),))
        assert session.kernel.public_rows(read) == [(value,), (value,)]
        assert session.kernel.fanout(read, ("a",)) == 2
    with pytest.raises(RuntimeError):
        call(eve, "public_rows", Scan(table=replace(table, name="theirs", columns={"a": column}), columns=(("a", "a"),)))
    ada.close()


def test_classes_that_are_no_part_of_a_request_cannot_be_said(eve: Session) -> None:
    class Forged(Count):
        pass

    for value in (object(), Forged(), 1j, {}, [], {1}, print, Session, eve.budget, int):
        with pytest.raises(TypeError):
            encoded(value, {})
    for kind in ("Session", "Kernel", "Table", "Price", "object", "eval", "Context", "Limit", "Secure", "DuckReader", "Path"):
        with pytest.raises(UnreadableMessage):
            decoded(json.dumps([[[kind, "x"]], [0]]).encode(), lambda name, columns: eve.catalog.tables[name])


@pytest.mark.parametrize("data", [
    b"", b"null", b"[]", b"[[], [0]]", b"[[[\"tuple\", [0]]], [0]]", b"[[[\"tuple\", [1]], [\"tuple\", [0]]], [0]]", b"[" * 100_000, b"[[], " + b"9" * 5000 + b"]",
    b"\xff\xfe", b'[[["table", "people"]], [0]]', b'[[["Fraction", 1, 0]], [0]]', b'[[["date", "2020-13-01"]], [0]]', b'[[["range", 0, 5, 0]], [0]]',
    b'[[["Decimal", "1e1000000000"]], [0]]', b'[[["array", "O", [0], [0]]], [0]]', b'[[["array", "i", [0], [1]]], [1]]', b'[[], "\\ud800"]',
    b'[[["Days", 0, 99999999, 1]], [0]]', b'[[["type", "BLOB"]], [0]]', b'[[["Literal", 1, 2]], [0]]', b'[[["datetime", "2020-01-01T00:00:00+01:00"]], [0]]',
    json.dumps([[["tuple"], *(["tuple", [at], [at]] for at in range(60))], [60]]).encode(),
    json.dumps([[["tuple"], *(["tuple", [at]] for at in range(2000))], [2000]]).encode(),
    b"[[], 1" + b"0" * 2000 + b"]"])
def test_what_is_no_message_is_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(UnreadableMessage, match="this message is unknown"):
        decoded(data, no_table)


def no_table(name: str, columns: Any) -> Table:
    raise KeyError(name)


def test_a_message_is_what_was_said() -> None:
    part = Literal(type=Type.DOUBLE, value=-1.5)
    twice = predicate("=", part, part)
    made = decoded(encoded((twice, twice, -0.0, 2**200, "é\n", True, None, Fraction(1, 3)), {}), no_table)
    assert made == (twice, twice, 0.0, 2**200, "é\n", True, None, Fraction(1, 3))
    assert made[0] is made[1] and made[0].args[0] is made[0].args[1] and made[0] is not twice


def test_messages_of_a_script_continue_each_other() -> None:
    first, second = predicate("=", *[Literal(type=Type.DOUBLE, value=value) for value in (1.5, 2.5)]), Literal(type=Type.BIGINT, value=7)
    writer, reader = MessageWriter({}), MessageReader(no_table)
    begun = reader.decoded(writer.encoded((first, second)))
    after = writer.encoded((second, first, "more"))
    continued = reader.decoded(after)
    assert begun == (first, second) and continued == (second, first, "more")
    assert continued[0] is begun[1] and continued[1] is begun[0] and len(json.loads(after)[0]) == 1, "they are not sent again"
    assert reader.decoded(encoded((second,), {})) == (second,), "a message may always begin anew"


def test_a_message_continues_no_others_than_those_it_knows() -> None:
    writer, reader = MessageWriter({}), MessageReader(no_table)
    reader.decoded(writer.encoded((Literal(type=Type.BIGINT, value=7),)))
    second = writer.encoded((Literal(type=Type.BIGINT, value=8),))
    for other in (MessageReader(no_table), MessageReader(no_table)):
        with pytest.raises(UnreadableMessage):
            other.decoded(second)  # of another statement, or another account: each has a reader of its own
        other.decoded(encoded((1, 2, 3), {}))
        with pytest.raises(UnreadableMessage):
            other.decoded(second)
    with pytest.raises(UnreadableMessage):
        reader.decoded(b"[[], [99], 3]")
    with pytest.raises(UnreadableMessage):
        reader.decoded(second)  # after an error it begins anew


def test_a_script_of_many_requests_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.server.link.plain_values.MOST_CONTINUED", 10)
    writer, reader = MessageWriter({}), MessageReader(no_table)
    for number in range(20):
        assert reader.decoded(writer.encoded((Literal(type=Type.BIGINT, value=number),))) == (Literal(type=Type.BIGINT, value=number),)
        assert reader._nodes.number <= 10 + 3
    monkeypatch.setattr("dpsql.server.link.plain_values.MOST_NODES", 2)
    with pytest.raises(UnreadableMessage):
        reader.decoded(MessageWriter({}).encoded((Literal(type=Type.BIGINT, value=1),)))


def test_every_class_that_the_kernel_takes_has_a_name_of_its_own() -> None:
    assert len({kind.__name__ for kind in MADE}) == len(MADE)


# -- dialogues


@pytest.mark.parametrize("step", [
    ("asked", None), ("asked", 1), ("made",), ("made", 1), ("made", None), ("made", ("x",)), (), ("failed",), ("what",), None, 5, ("made", "a", "b")])
def test_a_first_step_that_makes_no_sense_releases_nothing(step: Any, eve: Session) -> None:
    with pytest.raises((RuntimeError, Incident)):
        call(eve, "run", pure(Fraction(1, 20)), "d", "s", (), step)
    assert all(entry.body is None for entry in eve.ledger.entries("person", "eve"))
    assert call(eve, "check") == eve.kernel.version


def test_a_front_that_breaks_off_is_an_incident_and_the_charge_stays(eve: Session, vault: Vault, book: ReportingLedger) -> None:
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    assert next(channel.dialogue("run", pure(Fraction(1, 20)), "d", "s", (), ("asked", counting(eve)))) is not None
    eve.close()
    account = Account(budget="person", analyst="eve")
    for _ in range(100):
        book.refresh()
        if book.failed(account):
            break
    again = remote(vault, "eve")
    assert len(again.ledger.failed(account)) == 1 and again.ledger.entries("person", "eve")[0].body is None
    assert again.ledger.spent("person", "eve").epsilon == 50_000_000
    assert run(again, counting(again)) is not None
    again.close()


# -- roles

ROWS = {"everything", "accounts", "listed", "failures", "stops", "late", "users", "state", "checks"}
GOVERNING = {"add_user", "close_user", "reopen_user"}


@pytest.mark.parametrize("role", ["analyst", "auditor", "owner", "eve"])
def test_each_role_has_its_calls(role: str, vault: Vault) -> None:
    """Given nothing, a call fails in one way where it is allowed, and in another one where it is not."""
    session = remote(vault, role)
    for name in (*sorted(CALLS), *sorted(CALLS)):
        denied = (name in ROWS and role in ("analyst", "eve")) or (
            name in ("run", "compare", "tell", "tell_of", "tell_answers_to") and role == "auditor") or (
            name in GOVERNING and role != "owner")
        found = raw(session, (name, encoded((), {})))
        assert (isinstance(found, Fault) and found.fields[1:2] == ("role",)) is denied, name
        assert denied or not isinstance(found, Fault) or found.kind in ("Other", "Unsupported")
    session.close()


def test_an_auditor_spends_nothing_and_sees_who_did(vault: Vault, book: ReportingLedger) -> None:
    auditor, owner = remote(vault, "auditor"), remote(vault, "owner")
    for text in ("SELECT COUNT(*) FROM people", "CREATE SYNTHETIC TABLE mine AS SELECT sex FROM people"):
        with pytest.raises(OperationalError, match="role") as refusal:
            answer(text, auditor)
        assert refusal.value.code == "role"
    answer("SELECT COUNT(*) FROM people WHERE age > 30", owner)
    told = call(auditor, "everything")
    assert [(entry.account.analyst, entry.sql) for entry in told if entry.sql == SECRET] == [("ada", SECRET)]
    assert {entry.body for entry in told} <= {"answered", None} and {entry.account.analyst for entry in told} == {"ada", "owner"}
    states = {state.analyst: state for state in call(auditor, "accounts")}
    assert states.keys() == {None, "ada", "owner"} and states["owner"].spent.epsilon == 50_000_000
    assert states[None].statements == len(told) and states["ada"].spent == book.spent("person", "ada")
    assert auditor.ledger.entries("person", "auditor") == [] and auditor.ledger.entries("person", "ada") == []
    auditor.close()
    owner.close()


def test_a_list_for_an_auditor_holds_no_answer_and_fits_its_terms(vault: Vault, book: ReportingLedger) -> None:
    auditor, owner = remote(vault, "auditor"), remote(vault, "owner")
    for age in range(5):
        answer(f"SELECT COUNT(*) FROM people WHERE age > {age}", owner)

    def listed(*terms: Any) -> list[tuple[str, str]]:
        found = call(auditor, "listed", *terms)
        assert all(entry.body in ("answered", None) for entry in found.entries) and "secret" not in str([entry.body for entry in found.entries])
        return [(entry.account.analyst, entry.sql) for entry in found.entries]

    everything = [(entry.account.analyst, entry.sql) for entry in call(auditor, "everything")]
    first = call(auditor, "listed", "", "", "", "", "", 0, 3)
    assert first.found == len(everything) and first.before == first.entries[-1].seq
    pages, before = [*first.entries], first.before
    while before:
        page = call(auditor, "listed", "", "", "", "", "", before, 3)
        pages, before = [*pages, *page.entries], page.before
    assert [(entry.account.analyst, entry.sql) for entry in reversed(pages)] == everything
    assert {analyst for analyst, _ in listed("owner", "", "", "", "", 0, 500)} == {"owner"}
    assert listed("", "SECRET_of_ada", "", "", "", 0, 500) == [("ada", SECRET)] and listed("", "", "failed", "", "", 0, 500) == []
    now = first.entries[0].at
    assert len(listed("", "", "", "2020-01-01T00:00:00Z", "2999-01-01T00:00:00+02:00", 0, 500)) == first.found
    assert listed("", "", "", "2999-01-01T00:00:00Z", "", 0, 500) == [] == listed("", "", "", "", "2020-01-01T00:00:00Z", 0, 500)
    assert listed("", "", "", now, "", 0, 500)[0] == everything[-1]
    for wrong in (("", "", "", "yesterday", "", 0, 5), ("", "", "", "2020-01-01", "", 0, 5), ("", "", "gone", "", "", 0, 5),
                  ("", "", "", "", "", -1, 5), ("", "", "", "", "", 0, 501), ("", "", "", "", "", 0, 0), ("x" * 1001, "", "", "", "", 0, 5), (None,)):
        with pytest.raises(RuntimeError):
            call(auditor, "listed", *wrong)
    auditor.close()
    owner.close()


def test_the_state_of_a_vault_changes_when_outcomes_leave(vault: Vault, book: ReportingLedger) -> None:
    auditor, owner = remote(vault, "auditor"), remote(vault, "owner")
    before = call(auditor, "state")
    answer("SELECT COUNT(*) FROM people WHERE age > 77", owner)
    after = call(auditor, "state")
    assert after.events == before.events + 2 and before.channels == after.channels == 2 and (after.ledger_bytes or 0) > 0
    owner.close()
    auditor.close()


# -- what owners change: a front that is logged in as one can make the same calls


@pytest.fixture
def governed(tmp_path: Path, book: ReportingLedger) -> Iterator[tuple[Vault, Doorkeeper]]:
    """A vault with a file of users: eve, an analyst; an auditor; two owners. Roles are those of the file."""
    policy = tmp_path / "dpsql.toml"
    policy.write_text(LIMITED, encoding="utf-8")
    path = passwords.users_file(policy)
    for name, role in (("eve", "analyst"), ("auditor", "auditor"), ("owner", "owner"), ("other", "owner")):
        passwords.add_user(path, passwords.User(name=name, verifier=passwords.verifier("correct horse"), budget="person", role=role))
    passwords.add_user(path, passwords.User(name="mallory", verifier=passwords.verifier("correct horse"), budget="another"))
    keeper = Doorkeeper(policy=policy, users=passwords.WatchedUsers(path))

    def known(user: str, say: Any) -> Callable[[], str]:
        say(b"password?")
        return lambda: keeper._user(user).role

    made = Vault(lambda user, database: opened(tmp_path, book, user), known, pace=None, office=UserOffice(policy, keeper.users))
    yield made, keeper
    made.close()


def test_an_owner_adds_an_analyst_and_nobody_of_more_rights(governed: tuple[Vault, Doorkeeper], caplog: pytest.LogCaptureFixture) -> None:
    vault, keeper = governed
    owner = remote(vault, "owner")
    made = call(owner, "add_user", "New.One")
    user = keeper.users.now().users["new.one"]
    assert made.name == "new.one" and (user.role, user.budget, user.closed) == ("analyst", "person", False)
    assert len(made.password) >= 20 and made.password not in keeper.users.path.read_text() + caplog.text
    assert "owner has added the user new.one" in caplog.text
    assert call(owner, "add_user", "another").password != made.password
    before = keeper.users.path.read_bytes()
    for wrong in ("eve", "EVE", "owner", "", "a b", "x\ny", "x" * 999, "mallory"):
        with pytest.raises((OptionError, RuntimeError)):
            call(owner, "add_user", wrong)
    for values in ((None,), (1,), ("x", "owner"), ("x\0",)):
        with pytest.raises(RuntimeError):
            call(owner, "add_user", *values)
    assert keeper.users.path.read_bytes() == before
    owner.close()


def test_an_owner_closes_and_reopens_an_account_and_forgives_nothing(governed: tuple[Vault, Doorkeeper], book: ReportingLedger) -> None:
    vault, keeper = governed
    owner, eve = remote(vault, "owner"), remote(vault, "eve")
    answer("SELECT COUNT(*) FROM people", eve)
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    assert next(channel.dialogue("run", pure(Fraction(1, 20)), "d", "s", (), ("asked", counting(eve)))) is not None
    eve.close()
    eve = remote(vault, "eve")
    call(owner, "close_user", "eve")
    with pytest.raises(OperationalError, match="closed this account") as caught:
        call(eve, "check")
    assert caught.value.code == "user"
    with pytest.raises(OperationalError, match="closed this account"):
        keeper.open_account("eve", "")
    assert [(user.name, user.closed) for user in call(owner, "users")] == [("auditor", False), ("eve", True), ("other", False), ("owner", False)]
    spent = book.spent("person", "eve")
    call(owner, "reopen_user", "eve")
    book.refresh()
    assert call(eve, "check") and book.spent("person", "eve") == spent
    for _ in range(100):
        if len(book.failed(Account(budget="person", analyst="eve"))) == 1:
            break
        book.refresh()
    assert len(book.failed(Account(budget="person", analyst="eve"))) == 1, "its incident counts"
    assert [failure.cause for failure in book.failures("person")] == ["fault"]
    assert [failure.cause for failure in call(owner, "failures")] == [""], "its cause stays in the vault"
    account = Account(budget="person", analyst="eve")
    for number, cause in enumerate(("request", "data changed", "request")):
        charged = book.charge(account, pure(Fraction(1, 20)).rounded(), digest=f"s{number}", data="d", sql="SELECT 1", allows={})
        book.stopped(charged, cause)
    assert [(each.analyst, each.cause, each.number) for each in call(owner, "stops")] == [("eve", "data changed", 1), ("eve", "request", 2)]
    eve.close()
    owner.close()


def test_a_password_of_a_new_user_opens_no_answers_of_before(governed: tuple[Vault, Doorkeeper], book: ReportingLedger) -> None:
    """Ada has asked without a server, or after signing on elsewhere, and is in no file of users."""
    vault, keeper = governed
    owner, before = remote(vault, "owner"), keeper.users.path.read_bytes()
    for name in ("ada", "ADA"):
        with pytest.raises(OptionError, match="has answers already") as caught:
            call(owner, "add_user", name)
        assert caught.value.code == "user-name"
    assert keeper.users.path.read_bytes() == before and SECRET in [entry.sql for entry in book.entries("person", "ada")]
    assert call(owner, "add_user", "ada2").name == "ada2"
    owner.close()


def test_no_owner_and_nobody_of_another_budget_is_closed(governed: tuple[Vault, Doorkeeper]) -> None:
    vault, keeper = governed
    owner, before = remote(vault, "owner"), keeper.users.path.read_bytes()
    for name in ("other", "owner", "mallory", "nobody", "Eve"):
        for act in ("close_user", "reopen_user"):
            with pytest.raises(OptionError) as caught:
                call(owner, act, name)
            assert caught.value.code == "user-name"
    assert keeper.users.path.read_bytes() == before
    owner.close()


@pytest.mark.parametrize("name", ["eve", "auditor"])
def test_none_but_owners_change_who_connects(governed: tuple[Vault, Doorkeeper], name: str) -> None:
    vault, keeper = governed
    session, before = remote(vault, name), keeper.users.path.read_bytes()
    for act, whom in (("add_user", "new"), ("close_user", "auditor"), ("reopen_user", "eve")):
        with pytest.raises(OperationalError, match="role"):
            call(session, act, whom)
    assert keeper.users.path.read_bytes() == before
    session.close()


def test_one_who_is_an_owner_no_more_changes_nothing(governed: tuple[Vault, Doorkeeper]) -> None:
    vault, keeper = governed
    owner = remote(vault, "other")
    passwords.remove_user(keeper.users.path, "other")
    with pytest.raises(OperationalError, match="removed"):
        call(owner, "close_user", "eve")
    owner.close()


def test_checks_name_no_file_of_the_owner(governed: tuple[Vault, Doorkeeper], book: ReportingLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    vault, keeper = governed
    auditor = remote(vault, "auditor")
    monkeypatch.setattr("dpsql.server.vault.overseeing.find_ledger", lambda declared: (book.path, None, None))
    assert all(each.fine for each in call(auditor, "checks") if each.name in ("policy", "ledger"))
    monkeypatch.setattr("dpsql.server.vault.user_office.REMEMBERED", -1.0)
    monkeypatch.setattr("dpsql.server.vault.overseeing.find_ledger", lambda declared: (book.path.with_suffix(".gone"), None, None))
    assert [each.words for each in call(auditor, "checks") if not each.fine and each.name == "ledger"] == [
        "The ledger cannot be verified; dpsql ledger verify says why."]
    keeper.policy.write_text("[[[")
    found = call(auditor, "checks")
    assert [each.words for each in found] == ["The policy cannot be read; dpsql check says why."]
    assert str(keeper.policy.parent) not in repr(found)
    auditor.close()


def test_what_a_role_may_see_holds_within_a_script_too(eve: Session) -> None:
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    steps = channel.dialogue("run", pure(Fraction(1, 20)), "d", "s", (), ("asked", counting(eve)))
    next(steps)
    for name in ROWS - {"checks"}:
        with pytest.raises(OperationalError, match="role"):
            channel.call(name)
    for name in GOVERNING | {"checks"}:
        with pytest.raises(RuntimeError):
            channel.call(name)
    with pytest.raises(StopIteration):
        steps.send(("made", "{}"))


def test_a_role_that_is_none_may_do_nothing(tmp_path: Path, book: ReportingLedger) -> None:
    made = Vault(lambda user, database: opened(tmp_path, book, user), lambda user, say: lambda: "administrator", pace=None)
    session = remote(made, "eve")
    for name in ("check", "everything", "entries"):
        with pytest.raises(RuntimeError):
            call(session, name)
    session.close()
    made.close()


def test_a_script_runs_no_other_script(eve: Session) -> None:
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    steps = channel.dialogue("run", pure(Fraction(1, 20)), "d", "s", (), ("asked", counting(eve)))
    next(steps)
    for name in ("run", "compare"):
        with pytest.raises(RuntimeError):
            channel.call(name, pure(Fraction(1, 20)), "e", "s", (), ("asked", counting(eve)))
    with pytest.raises(RuntimeError):  # its plans were checked with the rows that names stand for
        channel.call("hold", "mine", (("a", "BIGINT", (1,)),))
    assert eve.kernel.fanout(Scan(table=eve.catalog.tables["clinics"], columns=(("c", "clinic"),)), ()) > 0
    with pytest.raises(StopIteration):
        steps.send(("made", "{}"))
    assert [entry.body for entry in eve.ledger.entries("person", "eve")] == ["answered"]


def test_lengths_that_are_announced_take_no_memory(vault: Vault) -> None:
    channel = channel_to(vault)
    channel._vault.sendall((2**40).to_bytes(8, "big") + b"x")
    with pytest.raises(OperationalError, match="closed"):
        receive_answer(channel._frames)


def test_messages_may_come_in_any_pieces(eve: Session) -> None:
    """Several at once, or each byte by itself."""
    channel = eve.kernel._channel  # type: ignore[attr-defined]
    asked = [b"stored\n" + encoded(("d" * 20_000,), {}), b"check\n" + encoded((), {}), b"stored\n" + encoded(("d",), {})]
    message = b"".join(LENGTH.pack(len(data)) + data for data in asked[1:])
    for pieces in ([message], [bytes([byte]) for byte in message], [message[:11], message[11:]]):
        for piece in pieces:
            channel._vault.sendall(piece)
        assert [receive_answer(channel._frames) for _ in range(2)] == [Made(channel.version), Made((channel.version, None))]
    channel._vault.sendall(b"".join(LENGTH.pack(len(data)) + data for data in asked))
    assert [type(receive_answer(channel._frames)) for _ in range(3)] == [Fault, Made, Made], "a name is not as long as that"


# -- at random


def messages(eve: Session) -> list[Frame]:
    with recorded() as found:
        for text in ASKED:
            answer(text, eve)
    return [*dict.fromkeys(found)]


def attack(vault: Vault, book: ReportingLedger, many: int, seed: str) -> dict[str, int]:
    """Send many changed messages as eve. Raises AssertionError where the vault shows what it must not."""
    eve = remote(vault, "eve")
    real = messages(eve)
    steps = [frame for frame in real if frame[0] == "step"]
    dice, before, told = random.Random(seed), book.spent("person", "ada"), dict[str, int]()
    for _ in range(many):
        frame = changed(dice.choice(real), dice, real)
        found = sent(frame, eve.kernel._channel, steps, dice)  # type: ignore[attr-defined]
        assert isinstance(found, Made | Fault) and not isinstance(found, ReleasedStep)
        kind = "made" if isinstance(found, Made) else found.kind
        told[kind] = told.get(kind, 0) + 1
        assert b"secret_of_ada" not in pickle.dumps(found)
    eve.close()
    book.refresh()
    mine = book.spent("person", "eve")
    assert book.spent("person", "ada") == before and (mine.epsilon or 0) <= 2 * 10**9
    return told


def test_messages_changed_at_random_break_nothing(vault: Vault, book: ReportingLedger, effort: float) -> None:
    told = attack(vault, book, int(2000 * effort), "mutations")
    assert told.get("made") and told.get("Other")
    again = remote(vault, "eve")
    assert answer("SELECT city, SUM(beds) FROM clinics GROUP BY city", again).rows  # type: ignore[union-attr]
    again.close()


def test_a_vault_that_believed_the_front_would_be_found(eve: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were tables made of what the front says of them, private rows would be read as public ones."""
    def believing(self: Any, name: str, columns: Any) -> Table:
        return Table(name=name, public=True, columns={column.name: column for column in columns})

    monkeypatch.setattr(ServedAccount, "_read_table", believing)
    people = eve.catalog.tables["people"]
    read = Scan(table=replace(people, public=True, owners=(), name="people"), columns=(("a", "age"),))
    made: Callable[[], Any] = lambda: eve.kernel.public_rows(Filter(input=read, condition=Literal(type=Type.BOOLEAN, value=True)))
    assert made()
