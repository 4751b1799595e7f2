"""What a front may send that is in the hands of somebody else: real messages, changed at random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from dpsql.server.front.statements.remote_session import VaultChannel
from dpsql.server.link.plain_values import CLASSES, encoded
from dpsql.server.link.vault_calls import CALLS, ReleasedStep, receive_answer

Frame = tuple[str, bytes]
KINDS = [*CLASSES, "tuple", "Fraction", "Decimal", "bytes", "date", "datetime", "range", "Days", "type", "domain", "table", "object",
         "__import__", "Table", "Kernel"]
TEXTS = ["", "people", "visits", "clinics", "person_id", "income", '"', "'", "x\0", "a" * 1001, "\ud800", "people) --", "BIGINT", "DOUBLE",
         "(SELECT MAX(income) FROM people)", "DECIMAL(9)) + (SELECT 1", "comparisons of 1", "asked", "made", "failed", "interrupted",
         "ada", "../x", "name-", "count", "sum", "1e999", "9999-12-31", '{"online model": ']
NUMBERS = [0, 1, -1, 2, 3, 2**31, 2**62, -(2**63), 2**64, 2**4000, 2**5000, -(2**4000), 0.5, -0.0, 1e308, float("inf"), float("nan"), True, False, None]


@contextmanager
def recorded() -> Iterator[list[Frame]]:
    """The messages that sessions of a front send meanwhile."""
    found: list[Frame] = []

    def sending(channel: VaultChannel, name: str, data: bytes) -> None:
        found.append((name, data))
        send(channel, name, data)

    send = VaultChannel._send
    with patch.object(VaultChannel, "_send", sending):
        yield found


def changed(frame: Frame, dice: random.Random, others: list[Frame]) -> Frame:
    """A message with a few changes: of its bytes, or of its values."""
    name, data = frame
    if dice.random() < 0.05:
        name = dice.choice(sorted(CALLS))
    if dice.random() < 0.1:
        data = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(data))
            data[at : at + dice.randint(0, 2)] = bytes(dice.randrange(256) for _ in range(dice.randint(0, 2)))
        return name, bytes(data)
    nodes, root, *continued = json.loads(data)
    if continued and dice.random() < 0.1:
        continued = dice.choice([[], [0], [continued[0] + 1], [continued[0] - 1], [-1], [True], [1.0], [None], [[0]], continued * 2])
    if nodes and dice.random() < 0.5:
        _exchange(nodes, dice)
        return name, json.dumps([nodes, root, *continued]).encode()
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        if nodes and dice.random() < 0.9:
            _change(nodes, dice)
        elif dice.random() < 0.5:
            root = _part(nodes, dice)
        else:
            more, *_ = json.loads(dice.choice(others)[1])
            nodes = [*nodes, *([node[0], *([part[0] + len(nodes)] if type(part) is list else part for part in node[1:])] for node in more)]
            root = [len(nodes) - 1] if nodes else None
    return name, json.dumps([nodes, root, *continued]).encode()


def _exchange(nodes: list[Any], dice: random.Random) -> None:
    """Put something of the same kind in the place of a value, so that the message can still be read."""
    for _ in range(dice.choice([1, 1, 2, 3])):
        place = dice.randrange(len(nodes))
        node = nodes[place]
        if len(node) < 2:
            continue
        at = dice.randrange(1, len(node))
        match node[at]:
            case bool(flag):
                node[at] = not flag
            case int(number):
                node[at] = dice.choice([number + 1, number - 1, -number, 0, 1, number * 2, 10**6])
            case float(number):
                node[at] = dice.choice([number + 1, -number, number / 2, number * 1e6, 1e-9])
            case str():
                node[at] = dice.choice([part for other in nodes for part in other[1:] if type(part) is str])
            case [int(below)]:
                alike = [other for other in range(place) if below < len(nodes) and nodes[other][0] == nodes[below][0]] or [below]
                node[at] = dice.choice([*([one] for one in alike), None])


def _change(nodes: list[Any], dice: random.Random) -> None:
    node = dice.choice(nodes)
    at = dice.randrange(len(node)) if node else 0
    match dice.randrange(6):
        case 0 if node:
            node[0] = dice.choice(KINDS)
        case 1 if node:
            del node[at]
        case 2 if node:
            node.insert(at, node[at])
        case 3:
            nodes.insert(dice.randrange(len(nodes)), [dice.choice(KINDS), *(_part(nodes, dice) for _ in range(dice.randrange(4)))])
        case 4 if node and type(node[at]) in (int, float):
            node[at] = dice.choice([node[at] + 1, node[at] - 1, -node[at], node[at] * 2, node[at] // 2, node[at] * 10**6])
        case 5 if node and type(node[at]) is list and len(node[at]) == 1 and type(node[at][0]) is int:
            node[at] = [dice.randrange(max(1, nodes.index(node)))]
        case _ if node:
            node[at] = _part(nodes, dice)


def _part(nodes: list[Any], dice: random.Random) -> Any:
    match dice.randrange(4):
        case 0:
            return dice.choice(TEXTS)
        case 1:
            return dice.choice(NUMBERS)
        case 2:
            return [dice.randrange(len(nodes) + 2)]
    return dice.choice([[], [-1], [0, 1], {}, [[0]], ["0"], [True]])


def sent(frame: Frame, channel: VaultChannel, steps: list[Frame], dice: random.Random) -> Any:
    """The answer to a message; to what is released on the way follow other steps, changed too."""
    name, data = frame
    for again in range(8):
        channel._frames.send(name.encode() + b"\n" + data)
        answer = receive_answer(channel._frames)
        if not isinstance(answer, ReleasedStep):
            return answer
        name, data = "step", encoded(("failed",), {})
        if again < 6 and steps and dice.random() < 0.8:
            step = dice.choice(steps)
            _, data = step if dice.random() < 0.4 else changed(step, dice, steps)
    raise AssertionError("a script went on after it had failed")
