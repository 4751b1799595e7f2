"""Clients of PostgreSQL for Node.js; `NODE_PATH` says where their packages are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.client_terms import COUNTED, ENDS, OF_DRIVER, PROGRAMS, Asks, Servers, client, program, told, without
from support.wire_servers import PASSWORD

MODULES = os.environ.get("NODE_PATH", "/usr/share/nodejs")


def of_module(name: str) -> Callable[[], str]:
    return lambda: str(json.loads(manifest(name).read_text())["version"])


def manifest(name: str) -> Path:
    return next((Path(folder) / name / "package.json" for folder in MODULES.split(os.pathsep) if (Path(folder) / name).is_dir()),
                Path(MODULES) / name / "package.json")


def asks(module: str, *also: str) -> Asks:
    """What ask_more.js finds for a module, which needs the modules `also`."""
    def ask(servers: Servers) -> Iterator[str]:
        node = program("node")
        for each in (module, *also):
            if not manifest(each).exists():
                pytest.skip(f"{each} is not installed; NODE_PATH says where it is")
        yield from told([node, PROGRAMS / "ask_more.js", module, str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS],
                        env={"NODE_PATH": MODULES})

    return ask


TLS = "TLS; it has no channel binding"
DRIVEN = without(OF_DRIVER, "binding", "binary", "columns", "cancel", "copied", "notices")
MORE: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]] = {  # by its name: the module, others that it needs, and what it lacks
    "postgres.js": ("postgres", (), {"binding": TLS, "binary": "shows text"}),
    "pg-promise": ("pg-promise", ("pg-query-stream",), {
        "binding": TLS, "binary": "shows text", "columns": "asks nothing beforehand", "cancel": "not in this driver", "copied": "in a package of its own"}),
    "Knex": ("knex", ("pg", "pg-query-stream"), {**DRIVEN, "prepared": OF_DRIVER}),
    "Sequelize": ("sequelize", ("pg",), {**DRIVEN, "prepared": OF_DRIVER, "portions": "rows are fetched at once"}),
    "Drizzle": ("drizzle-orm", ("pg",), {**DRIVEN, "portions": "rows are fetched at once", "tables": "in a program of its own"}),
    "Kysely": ("kysely", ("pg", "pg-cursor"), {**DRIVEN, "prepared": OF_DRIVER}),
    "TypeORM": ("typeorm", ("pg", "reflect-metadata", "pg-query-stream"), {**DRIVEN, "prepared": OF_DRIVER}),
}
for _name, (_module, _also, _lacks) in MORE.items():
    client(_name, of_module(_module), family="Node.js", **_lacks)(asks(_module, *_also))
