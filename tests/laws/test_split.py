"""The law of splitting: where operators and the kernel say that a relation is split by entity, its rows over all entities are those that
are read in the buckets of a store, put together; and so are sums, ranks and largest values, after they are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from support.laws.bad_worlds import KINDS
from support.laws.family import nodes
from support.laws.random_plans import random_plans
from support.sessions import open_ledger, session_of
from support.stores import stored

from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.questions.labels import label
from dpsql.trusted.kernel.checker import known
from dpsql.trusted.kernel.split_by_entity import split_by_entity
from dpsql.trusted.measurements.reading import content
from dpsql.trusted.measurements.reading.content import printed
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.certificate import splits, stabilities
from dpsql.trusted.plan.node import Node, Printing, SplitBy, Summary
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window
from dpsql.trusted.reader import PARTS, Parts

PLANS = 400
ENTITIES = ("person", "household")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, Session]]]:
    """Worlds made to break laws, in buckets of persons or of households, some of which are empty."""
    made = []
    for at, ((name, kind), entity) in enumerate(product(KINDS.items(), ENTITIES)):
        folder = tmp_path_factory.mktemp(name)
        ledger = open_ledger(folder)
        reader = stored(kind(7).save(folder / "world.duckdb"), ledger, budget=entity, buckets=(2, 3, 16)[at % 3])
        made.append((f"{name} of {entity}s", session_of(folder, reader=reader, ledger=ledger, budget=entity)))
    yield made
    for _, session in made:
        session.kernel.close()


def texts_of(node: Node, context: Context) -> tuple[list[str], str]:
    """The statements of a relation in each bucket, and over the whole database."""
    learned, tables = context.content.learned(node), context.reader.stored
    shown = ", ".join(f'CAST(t."{field.id}" AS VARCHAR) AS "{field.id}"' for field in node.fields)

    def text(printing: Printing) -> str:
        return f"SELECT {shown} FROM ({printed(node, learned, printing)}) AS t"

    buckets = range(tables["people"].buckets)
    return [text(replace(context.printing, stored=tables, bucket=number, hold=False)) for number in buckets], text(context.printing)


def as_text(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.slow
def test_what_is_split_by_entity_is_put_together_of_its_buckets(sessions: list[tuple[str, Session]], effort: float,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a plan is not split, its largest parts that are stand in for what they are put together of."""
    held, seen, cut = Counter[str](), Counter[SplitBy](), 0
    for seed in range(int(PLANS * effort)):
        name, session = sessions[seed % len(sessions)]
        context, claims = session.kernel._context(), session.kernel._claims
        for plan in random_plans(seed, session.catalog, session.kernel):
            assert isinstance(plan, Summary)
            found = splits(plan.input, stabilities(plan.input, session.kernel))
            parts = claims.split_parts(plan)
            derived: dict[int, Any] = {}
            known(plan.input, claims._meets, derived)
            for node in nodes(plan.input):
                here = found[id(node)]
                seen[here] += 1
                assert split_by_entity(node, derived) >= (here is SplitBy.ENTITIES), f"seed {seed}, {name}: {label(node)}"
                if here is SplitBy.ENTITIES:
                    texts, whole = texts_of(node, context)
                    put_together = context.reader.rows(f"SELECT * FROM {PARTS}", [Parts(statements=tuple(texts))])
                    assert as_text(put_together) == as_text(context.reader.rows(whole)), f"seed {seed}, {name}: {label(node)}"
                    held[type(node).__name__] += 1
            query = context.query(plan)
            assert bool(query[1]) == (found[id(plan.input)] is SplitBy.ENTITIES)
            if not query[1]:
                with monkeypatch.context() as patch:
                    patch.setattr(content, "_pays", lambda part, stored: True)
                    query = context.query(plan)
                assert bool(query[1]) == bool(parts)
                cut += bool(parts)
            merged, whole_rows = context.reader.rows(*query), context.reader.rows(printed(plan, context.content.learned(plan), context.printing))
            if type(plan).__name__ == "Ranks":
                merged, whole_rows = counted(merged), counted(whole_rows)
            assert as_text(merged) == as_text(whole_rows), f"seed {seed}, {name}: {label(plan)}"
            held[type(plan).__name__] += 1
    assert held.keys() >= {"Scan", "Filter", "Project", "Join", "Lookup", "UnionAll", "Distinct", "GroupBy", "Truncate", "TruncateKeys",
                           "SetOperation", "Window", "Contributions", "Clip", "Norms", "GroupedSums", "Ranks"}
    assert min(*seen.values(), cut) > PLANS * effort / 10


def counted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Ranked values, whose counts add up."""
    found = Counter[str]()
    values: dict[str, tuple[Any, ...]] = {}
    for *value, count in rows:
        found[repr(value)] += count
        values[repr(value)] = tuple(value)
    return [(*values[key], count) for key, count in found.items()]


@pytest.mark.parametrize("operator", [GroupBy, Numbers, SetOperation, TruncateKeys, Window, UnionAll, Join, Lookup])
def test_the_kernel_refuses_an_operator_that_claims_to_be_split(operator: type[Node], sessions: list[tuple[str, Session]],
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "split_by", lambda self, below: SplitBy.ENTITIES)
    refused = 0
    for seed in range(160):
        _, session = sessions[seed % len(sessions)]
        for plan in random_plans(seed, session.catalog, session.kernel):
            try:
                session.kernel._claims.split_parts(plan)
            except Exception as fault:  # noqa: BLE001
                assert type(fault).__name__ == "Disagreement"
                refused += 1
    assert refused
