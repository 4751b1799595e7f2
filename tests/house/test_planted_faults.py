"""What goes wrong in engines like this one, planted, and what stops each: a table of all faults that tests plant.

It is derived from the registries that the tests run over, so that a fault which is not run is not in it. Shown by `pytest -s`.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

TESTS = Path(__file__).parents[1]


class Row(NamedTuple):
    fault: str
    stopped_by: str
    where: str


class Registry(NamedTuple):
    """A list of faults, the test that runs over it, and what stops them there."""

    path: str
    name: str
    test: str
    stopped_by: str


CHECKER, LAW, AUDIT = "checker before the charge", "neighbour law", "audit"
REGISTRIES = (
    Registry("kernel/test_checker.py", "FAULTS", "kernel/test_checker.py::test_a_planted_fault_is_stopped_before_a_row_is_read", CHECKER),
    Registry("kernel/test_taken.py", "FORGED", "kernel/test_taken.py::test_what_is_forged_later_does_not_change_the_copy",
             "the kernel's copy of the request"),
    Registry("kernel/test_order.py", "FAULTS", "kernel/test_order.py::test_a_planted_fault_in_the_order_is_seen", "order of events"),
    Registry("support/laws/faults.py", "FAULTS", "laws/test_planted_faults.py::test_a_planted_fault_is_found", LAW),
    Registry("oracle/faults.py", "CLAIMED", "oracle/test_oracle.py::test_a_claim_that_is_too_small_is_found", "oracle"),
    Registry("oracle/faults.py", "EXECUTED", "oracle/test_oracle.py::test_what_is_executed_wrongly_is_found", "oracle"),
    Registry("measurements/test_forged.py", "WRONG", "measurements/test_forged.py::test_what_is_wrong_has_no_cost", "cost, which it has not"),
    Registry("measurements/test_prices_by_hand.py", "FAULTS", "measurements/test_prices_by_hand.py::test_a_planted_fault_is_found",
             "losses worked out by hand"),
    Registry("noise/test_prices_of_samplers.py", "FAULTS", "noise/test_prices_of_samplers.py::test_a_planted_fault_is_found",
             "scales that samplers are asked for"),
    Registry("accounting/test_renyi_accounts.py", "FAULTS", "accounting/test_renyi_accounts.py::test_a_planted_fault_of_the_accounts_is_found",
             "exact sums and limits"),
    Registry("stat/test_additive.py", "FAULTS", "stat/test_additive.py::test_noise_that_is_a_little_off_is_found", "law of the noise"),
    Registry("stat/test_planted.py", "PLANTED", "stat/test_planted.py::test_the_audit_finds_what_spoils_the_promise", AUDIT),
    Registry("stat/test_planted.py", "REFUSED", "stat/test_planted.py::test_the_kernel_refuses_what_was_not_charged",
             "the kernel's cost, before the look"),
    Registry("stat/test_bounds.py", "PLANTED", "stat/test_bounds.py::test_a_planted_fault_is_found", AUDIT),
    Registry("stat/test_deciders.py", "PLANTED", "stat/test_deciders.py::test_faults_of_the_paper_are_found", AUDIT),
    Registry("stat/test_elastic_residual.py", "PLANTED", "stat/test_elastic_residual.py::test_the_audit_finds_what_spoils_the_promise",
             AUDIT),
)
NAMED = (  # faults with a test of their own
    Row("a largest flow of the solver is wrong: nought, doubled, halved, cut off, none",
        "check in integers", "extensions/test_degrees.py::test_a_flow_that_is_wrong_is_made_right"),
    Row("a file of a strategy is forged", "norm of what is read", "strategies/test_cache.py::test_tampering_costs_accuracy_and_never_privacy"),
    Row("an event in the file of the ledger is forged", "chain of hashes", "kernel/test_ledger.py::test_no_edited_row_passes_unseen"),
    Row("an older file of the ledger is put back", "anchor", "kernel/test_ledger.py::test_an_older_copy_is_refused"),
    Row("the rule of keys has half of its delta", AUDIT, "stat/test_choices.py::test_rules_of_keys_that_show_too_many_are_found"),
    Row("a table of cumulative probabilities is off by one", "law of the noise",
        "noise/test_inverse_cdf.py::test_a_table_that_is_off_by_one_is_found"),
    Row("the derivation takes keys that may be NULL for keys", "rows that agree",
        "kernel/test_nullable_keys.py::test_a_key_that_may_be_null_is_found_if_the_derivation_takes_it_for_one"),
    Row("a value of a request is of a class of its own", "the kernel's copy of the request",
        "kernel/test_taken.py::test_an_impostor_in_any_place_is_refused_before_the_charge"),
)
CLASSES = {
    "halved": r"\bhalf\b|halved",
    "missing": r"forgets|missing|not clamped|not clipped|no limit|no noise|left out|not added",
    "off by one": r"one row less|one less|one short|one row more|a value too few|one row less far",
    "wrong plan": r"rows that were not bounded|a sample of the table|plan of another table|sensitivity that a mechanism made up",
    "wrong norm": r"norm is claimed|norm of order 2|norm of a strategy",
    "NULL kept": r"NULL|without an owner",
    "key rule halved": r"rule of keys",
    "noise 5 % small": r"five percent too small",
    "charge after look": r"charge after the look",
    "solver wrong": r"solver",
    "forged file": r"file of .* forged",
    "level not capped": r"level is not capped",
    "cap inherited": r"cap is inherited|passes on all that is known|keys of both sides",
    "fanout of distinct rows": r"different public rows are counted",
}


@cache
def module_of(path: str) -> ModuleType:
    """A file of tests, by its path: some are modules of a folder, and all that they need is beside them."""
    name = "planted_" + re.sub(r"\W", "_", path)
    spec = importlib.util.spec_from_file_location(name, TESTS / path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(fault: Any) -> str:
    """What is wrong, in the words of its registry."""
    if isinstance(fault, tuple):
        first, *others = fault
        about = next((part for part in others if isinstance(part, str)), "")
        return told(first) + (f": {about.partition(') ')[2] or about}"[:60] if about else "")
    text: str = fault if isinstance(fault, str) else getattr(fault, "what", None) or fault.__name__.replace("_", " ")
    return text


def table() -> Iterator[Row]:
    for registry in REGISTRIES:
        for fault in getattr(module_of(registry.path), registry.name):
            yield Row(told(fault), registry.stopped_by, registry.test)
    yield from NAMED


@cache
def functions_of(path: str) -> dict[str, str]:
    """The tests of a file, with their decorators as they are written."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name: " ".join(map(ast.unparse, node.decorator_list)) for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: f"{registry.path}-{registry.name}")
def test_every_registry_is_run_by_the_test_that_is_named(registry: Registry) -> None:
    path, _, test = registry.test.partition("::")
    assert re.search(rf"\b{registry.name}\b", functions_of(path)[test])


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row.fault)
def test_every_test_that_is_named_is_there(row: Row) -> None:
    path, _, test = row.where.partition("::")
    assert test in functions_of(path)


def test_the_faults_that_matter_are_planted() -> None:
    rows = [*table()]
    for row in rows:
        print(f"{row.fault:100} | {row.stopped_by:35} | {row.where}")
    print(f"{len(rows)} faults, {len({row.fault for row in rows})} different ones")
    assert len({row.fault for row in rows}) >= 220
    for kind, pattern in CLASSES.items():
        found = [row.fault for row in rows if re.search(pattern, row.fault)]
        print(f"{kind:24} {len(found):3}   {found[0] if found else ''}")
        assert found, kind
