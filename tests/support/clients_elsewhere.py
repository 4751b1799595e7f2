"""Clients of PostgreSQL in C++, Go, Lua, PHP, R, Ruby, Rust and Tcl, each with a program of its own in `client_programs`."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.client_terms import (
    COUNTED,
    ENDS,
    NO_PREPARE,
    OF_DRIVER,
    PROGRAMS,
    SAID,
    NotAnswered,
    Servers,
    client,
    of_program,
    program,
    told,
    without,
)
from support.wire_servers import PASSWORD

other = functools.partial(client, family="others")


def asked(servers: Servers, *command: str | Path, env: dict[str, str] | None = None) -> Iterator[str]:
    yield from told([*command, str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS], env=env)


def runs(*command: str, why: str) -> None:
    program(command[0])
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"{why} is not installed")


GO = Path(os.environ.get("GOPATH", "/usr/share/gocode"))  # with the sources of the drivers


def go(servers: Servers, name: str, package: str) -> Iterator[str]:
    """What the program ask_`name`.go finds; without modules, which a compiler would look for in the network."""
    compiler, made = program("go"), servers.folder / f"ask_{name}"
    if not (GO / "src" / package).is_dir():
        pytest.skip(f"{package} is not installed; GOPATH says where it is")
    subprocess.run([compiler, "build", "-o", made, PROGRAMS / f"ask_{name}.go"], check=True, capture_output=True, env={
        **os.environ, "GO111MODULE": "off", "GOPATH": str(GO), "GOCACHE": str(servers.folder / "go_cache")})
    yield from asked(servers, made)


def of_debian(package: str) -> Callable[[], str]:
    return lambda: of_program("dpkg-query", "-W", "-f", "${Version}", package)().split("-")[0]


FETCHED = "rows are fetched at once"
SHOWS = without("shows text", "binary")
TLS = "TLS; it has no channel binding"
ALONE = "asks nothing beforehand"


@other("Go (lib/pq)", of_debian("golang-github-lib-pq-dev"), binding=TLS, columns=ALONE, portions=FETCHED, copied="only into tables", **SHOWS)
def go_pq(servers: Servers) -> Iterator[str]:
    yield from go(servers, "pq", "github.com/lib/pq")


@other("Go (pgx 4)", of_debian("golang-github-jackc-pgx-v4-dev"), binding=TLS, portions=FETCHED)
def go_pgx(servers: Servers) -> Iterator[str]:
    yield from go(servers, "pgx", "github.com/jackc/pgx/v4")


PHP = "php", "-d", "zend.assertions=1", "-d", "assert.exception=1"


@other("PHP (PDO)", of_program("php", "-r", "echo phpversion('pdo_pgsql');"), columns=ALONE, portions=FETCHED, notices=SAID, cancel="not in this driver",
        copied=NotAnswered("`pgsqlCopyToArray` says `TO STDIN`"), **SHOWS)
def pdo(servers: Servers) -> Iterator[str]:
    runs("php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);", why="PDO's driver of PostgreSQL")
    yield from asked(servers, *PHP, PROGRAMS / "ask_pdo.php")


@other("PHP (pgsql)", of_program("php", "-r", "echo phpversion('pgsql');"), columns=ALONE, portions=FETCHED, **SHOWS)
def php(servers: Servers) -> Iterator[str]:
    runs("php", "-r", "exit(extension_loaded('pgsql') ? 0 : 1);", why="PHP's extension pgsql")
    yield from asked(servers, *PHP, PROGRAMS / "ask_pgsql.php")


def tcl(package: str) -> Sequence[str]:
    """A command that prints the version of a package of Tcl; it fails if there is none."""
    return ["sh", "-c", f"echo 'puts [package require {package}]' | tclsh"]


@other("Tcl (Pgtcl)", of_program(*tcl("Pgtcl")), columns=ALONE, portions=FETCHED, copied="not in this driver's commands",
        prepared=NO_PREPARE, **SHOWS)
def pgtcl(servers: Servers) -> Iterator[str]:
    program("tclsh")
    runs(*tcl("Pgtcl"), why="Pgtcl")
    yield from asked(servers, "tclsh", PROGRAMS / "ask_pgtcl.tcl")


@other("Tcl (TDBC)", of_program(*tcl("tdbc::postgres")), binding="TLS, by libpq; not asked", columns=ALONE, portions=FETCHED, notices=SAID,
        tables=NotAnswered("asks for columns by reading all rows, `SELECT * FROM people`"), **without("not in this driver", "cancel", "copied", "place"), **SHOWS)
def tdbc(servers: Servers) -> Iterator[str]:
    program("tclsh")
    runs(*tcl("tdbc::postgres"), why="tdbc::postgres")
    yield from asked(servers, "tclsh", PROGRAMS / "ask_tdbc.tcl")


@other("Lua (LuaSQL)", of_debian("lua-sql-postgres"), columns=ALONE, portions=FETCHED, notices=SAID,
        **without("not in this driver", "parameters", "prepared", "cancel", "copied", "arrays"), **SHOWS)
def lua(servers: Servers) -> Iterator[str]:
    runs("lua5.4", "-e", "require('luasql.postgres')", why="LuaSQL's driver of PostgreSQL")
    yield from asked(servers, "lua5.4", PROGRAMS / "ask.lua")


@other("C++ (libpqxx)", of_debian("libpqxx-dev"), columns=ALONE, portions=FETCHED, cancel="not in this version", notices=SAID,
        copied="into its own streams; not asked", **SHOWS)
def pqxx(servers: Servers) -> Iterator[str]:
    compiler, made = program("g++"), servers.folder / "ask_pqxx"
    if not Path("/usr/include/pqxx/pqxx").exists():
        pytest.skip("libpqxx is not installed")
    subprocess.run([compiler, "-std=c++17", "-o", made, PROGRAMS / "ask.cpp", "-lpqxx", "-lpq"], check=True, capture_output=True)
    yield from asked(servers, made)


CRATES = Path(os.environ.get("CRATES", "/usr/share/cargo/registry"))  # with the sources of the driver and of what it needs


@other("Rust (tokio-postgres)", of_debian("librust-tokio-postgres-dev"), binding="TLS, in a package of its own; not asked")
def rust(servers: Servers) -> Iterator[str]:
    program("cargo")
    if not any(CRATES.glob("tokio-postgres-0*")):
        pytest.skip("tokio-postgres is not installed; CRATES says where it is")
    places = "source.crates-io.replace-with='here'", f"source.here.directory='{CRATES}'"
    target = servers.folder / "rust"
    subprocess.run(["cargo", "build", "--offline", "--quiet", *(f"--config={place}" for place in places), "--target-dir", target / "made"], check=True,
                   capture_output=True, cwd=shutil.copytree(PROGRAMS / "rust", target))
    yield from asked(servers, target / "made" / "debug" / "ask")


@other("Ruby (Sequel)", of_program("ruby", "-e", "require 'sequel'; puts Sequel::VERSION"), parameters="puts values into the text itself; they work",
        **without(OF_DRIVER, "binding", "columns", "prepared", "portions", "place", "cancel", "copied"), **SHOWS)
def sequel(servers: Servers) -> Iterator[str]:
    runs("ruby", "-e", "require 'sequel'; require 'pg'", why="the gem sequel")
    yield from asked(servers, "ruby", PROGRAMS / "ask_sequel.rb")


@other("R (dbplyr)", of_program("Rscript", "-e", "cat(as.character(packageVersion('dbplyr')))"), pools="has one connection", cursors=OF_DRIVER, transactions=OF_DRIVER,
        parameters="puts values into the text itself; they work", **without(OF_DRIVER, "binding", "columns", "prepared", "portions", "place", "cancel", "copied"), **SHOWS)
def dbplyr(servers: Servers) -> Iterator[str]:
    runs("Rscript", "-e", "library(RPostgreSQL); library(dbplyr)", why="dbplyr, or RPostgreSQL,")
    yield from asked(servers, "Rscript", PROGRAMS / "ask_dbplyr.R")
