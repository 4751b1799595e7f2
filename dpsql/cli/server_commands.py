"""Who may connect to a server, and the server: `dpsql serve` and `dpsql user`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import getpass
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.cli.arguments import Commands, number
from dpsql.errors import OperationalError, OptionError
from dpsql.extras import extra

if TYPE_CHECKING:
    from dpsql.server.vault.passwords import User


def add(commands: Commands) -> None:
    made = commands.add("serve", _serve, "serve analysts who connect with psql, Python, JDBC and other PostgreSQL clients")
    _add_policy(made)
    made.add_argument("--listen", default="127.0.0.1:5433", metavar="HOST:PORT", help="the address (default: %(default)s)")
    made.add_argument("--http", metavar="HOST:PORT", help="also serve browsers and programs by HTTP at this address")
    made.add_argument("--http-name", action="append", default=[], metavar="NAME", help="a host name of the HTTP server")
    made.add_argument("--mcp", action="store_true", help="also serve agents: the Model Context Protocol, at /mcp of --http")
    made.add_argument("--certificate", metavar="FILE", help="the certificate for TLS, in PEM")
    made.add_argument("--key", metavar="FILE", help="its key, unless it is in the same file")
    made.add_argument("--without-tls", action="store_true", help="send answers to other machines without encryption")
    made.add_argument("--front-user", metavar="NAME", help="if root starts the server: the system user for the process that "
                      "parses statements (default: dpsql-front if it exists, otherwise an unused number)")
    made.add_argument("--sign-on", metavar="FILE", help="enable single sign-on in browsers (OpenID Connect); FILE configures it "
                      "(dpsql help server)")
    made = commands.add("user", _user, "add, remove, close, reopen and list users of the server, and set passwords")
    made.add_argument("action", choices=["add", "remove", "close", "reopen", "list", "password"], help="what to do")
    made.add_argument("name", nargs="?", help="the user's name, which is the analyst's name in the policy and the ledger")
    _add_policy(made)
    made.add_argument("--budget", metavar="NAME", help="the budget that the user spends (required if the policy has several)")
    for name in ("epsilon", "delta", "rho"):
        made.add_argument(f"--{name}", type=number(name), metavar="NUMBER", help=f"{name} of statements that state none")
    made.add_argument("--role", choices=["analyst", "auditor", "owner"], default="analyst", help="analyst: asks (default); "
                      "auditor: sees what everybody asked and spent, without answers, and spends nothing; owner: both")
    made.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", metavar="FILE", help="the policy (default: dpsql.toml in this folder)")


def _serve(options: argparse.Namespace) -> int:
    for module in ("pygwire", "scramp", *(("fastapi", "uvicorn") if options.http is not None else ())):
        extra(module, "server")
    if options.mcp:
        extra("mcp", "mcp")
        if options.http is None:
            raise OptionError("--mcp needs the HTTP server", subject="mcp", try_="--http 127.0.0.1:8433 --mcp")
    from dpsql.server.front.wire.listening import TlsFiles
    from dpsql.server.start.serving import serve

    if options.key is not None and options.certificate is None:
        raise OptionError("--key needs a certificate", subject="key", try_="--certificate FILE --key FILE")
    if options.sign_on is not None and options.http is None:
        raise OptionError("--sign-on needs the HTTP server", subject="sign-on", try_="--http 127.0.0.1:8433 --sign-on FILE")
    tls = None if options.certificate is None else TlsFiles(
        certificate=str(Path(options.certificate).absolute()),
        key=None if options.key is None else str(Path(options.key).absolute()))
    if options.without_tls:
        print("warning: anyone who can listen to the network can read the answers", file=sys.stderr)
    return serve(_policy(options).absolute(), options.listen, http=options.http, tls=tls, without_tls=options.without_tls,
                 http_names=[name.lower() for name in options.http_name], agents=options.mcp, front_user=options.front_user,
                 sign_on=None if options.sign_on is None else Path(options.sign_on).absolute(),
                 ready=functools.partial(_say_ready, tls is not None))


def _say_ready(encrypted: bool, wire: tuple[str, int], http: tuple[str, int] | None = None) -> None:
    host, port = wire
    browsers = "" if http is None else f"; in a browser: http{'s' if encrypted else ''}://{http[0]}:{http[1]}/"
    print(f"serving at {host}:{port}; for example: psql -h {host} -p {port} -U NAME{browsers}; SIGTERM stops it", file=sys.stderr,
          flush=True)
    _tell_service_manager()


def _tell_service_manager() -> None:
    """Tell systemd that clients can connect, where it asked to be told (Type=notify): one datagram, for which a library would be
    much."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto(b"READY=1", "\0" + address[1:] if address.startswith("@") else address)


def _user(options: argparse.Namespace) -> None:
    from dpsql.server.vault import passwords

    path = passwords.users_file(_policy(options))
    if options.action == "list":
        for user in passwords.read_users(path).users.values():
            role = user.role if user.verifier is not None else "signs on elsewhere"
            print("  ".join([user.name, role, user.budget or "-", _price_text(user), "closed" * user.closed]).rstrip())
        return
    if options.name is None:
        raise OptionError("the name of the user is missing", subject="name", try_=f"dpsql user {options.action} NAME")
    match options.action:
        case "add":
            passwords.add_user(path, _new_user(options))
            print(f"{passwords.account_name(options.name)} can connect; users are in {path}")
        case "remove":
            passwords.remove_user(path, options.name)
            print(f"{passwords.account_name(options.name)} is removed; what the account has spent stays spent")
        case "close" | "reopen":
            passwords.set_closed(path, options.name, closed=options.action == "close")
            can = "cannot connect until it is reopened" if options.action == "close" else "can connect"
            print(f"{passwords.account_name(options.name)} {can}")
        case "password":
            passwords.set_password(path, options.name, passwords.verifier(_password(options)))
            print(f"the password of {passwords.account_name(options.name)} is set")


def _new_user(options: argparse.Namespace) -> User:
    """Raises OptionError if the policy has no such budget, or does not list this analyst."""
    from dpsql.catalog.policy import read_policy
    from dpsql.catalog.price import price
    from dpsql.catalog.sections import suggest
    from dpsql.server.vault import passwords

    budgets, name = read_policy(_policy(options)).budgets, passwords.account_name(options.name)
    budget = options.budget if options.budget is not None or len(budgets) != 1 else next(iter(budgets))
    if budget is None:
        raise OptionError("the policy has several budgets", subject="budget", try_="--budget " + suggest("", budgets))
    if budget not in budgets:
        raise OptionError(f"the policy has no budget {budget}", subject="budget", try_=suggest(budget, budgets))
    if (listed := budgets[budget].listed) is not None and name not in listed:
        raise OptionError(f"the policy does not list {name} among the analysts of the budget {budget}", subject="name",
                          try_="a line for the analyst in the policy")
    given = {term: amount for term in ("epsilon", "delta", "rho") if (amount := getattr(options, term)) is not None}
    price(**given)  # which checks it
    return passwords.User(name=name, budget=budget, price=given, role=options.role,
                          verifier=passwords.verifier(_password(options)))


def _price_text(user: User) -> str:
    return ", ".join(f"{name} = {amount}" for name, amount in user.price.items())


def _password(options: argparse.Namespace) -> str:
    """From a prompt without echo, twice, or from the input: never from the command line, which other users see."""
    if options.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise OperationalError("no terminal to ask for the password", code="password", try_="--password-stdin")
    first = getpass.getpass("password: ")
    if getpass.getpass("again: ") != first:
        raise OperationalError("the two passwords differ; nothing is changed", code="password")
    return first


def _policy(options: argparse.Namespace) -> Path:
    from dpsql.engine.opening import find_policy

    return find_policy(None, options.policy)
