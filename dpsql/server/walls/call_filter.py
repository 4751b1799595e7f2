"""The seccomp filter of the front: a program for the kernel that decides about each system call by `allowed_calls`.

It is classic BPF: a line loads 32 bits of the call's number, architecture or arguments, compares and jumps forward, or returns
the decision. Calls with conditions on their arguments come first, each with its alternatives. The others are decided by ranges of
numbers; since Linux 5.11 the kernel remembers these decisions and does not run the program again.

libseccomp compiles such filters too. It is not used, because it is a shared library of the system that the usual Python images
lack, whose Python module is packaged by distributions only (what PyPI has is a binding of it by a single person); and because
the part that has to be right, the list of calls, would remain ours. The tests use it to check every number for both
architectures, and run these programs in an interpreter.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from itertools import groupby

from dpsql.server.walls.allowed_calls import (
    ABSENT,
    ABSENT_OTHERWISE,
    DEADLY,
    FORMS,
    FREE,
    LAST,
    MACHINES,
    PROGRAM,
    WITH_FORMS,
    Argument,
    Calls,
    Form,
)

Line = tuple[int, int, int, int | str]
"""An instruction, the jumps if true and if false, and its value. `shut_in` replaces `allowed_calls.PID`."""
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
ALLOWED, DENIED, MISSING, KILLED = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000  # pass, EPERM, ENOSYS, end the process
X32 = 0x40000000  # calls of the x32 ABI are numbered from here
HERE = platform.machine() if sys.platform == "linux" and sys.maxsize > 2**32 else ""


def filter_of_front(machine: str = HERE) -> list[Line] | None:
    """The filter for a front; None if this machine's system calls are not listed."""
    if machine not in MACHINES:
        return None
    return [*_of_machine(machine), *_forms(machine), *_ranges(_verdicts(machine))]


def filter_of_programs(machine: str = HERE) -> list[Line] | None:
    """A second filter that forbids executing programs; None if this machine's system calls are not listed."""
    if machine not in MACHINES:
        return None
    refused = dict.fromkeys(_numbers(PROGRAM, machine).values(), DENIED)
    return [*_of_machine(machine), *_ranges([refused.get(number, ALLOWED) for number in range(LAST + 1)], ALLOWED)]


def _of_machine(machine: str) -> list[Line]:
    return [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, MACHINES[machine]), (RETURN, 0, 0, KILLED),
            (LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), (RETURN, 0, 0, KILLED)]


def _numbers(calls: Calls, machine: str) -> dict[str, int]:
    place = [*MACHINES].index(machine)
    return {name: number for name, numbers in calls.items() if (number := numbers[place]) is not None}


def _verdicts(machine: str) -> list[int]:
    """The decision about each number, for any arguments."""
    made = [DENIED] * (LAST + 1)
    for calls, verdict in ((FREE, ALLOWED), (PROGRAM, ALLOWED), (ABSENT, MISSING), (DEADLY, KILLED)):
        for number in _numbers(calls, machine).values():
            made[number] = verdict
    return made


def _ranges(verdicts: list[int], beyond: int = MISSING) -> Iterator[Line]:
    end = 0
    for verdict, same in groupby(verdicts):
        end += len([*same])
        yield from ((AT_LEAST, 1, 0, end), (RETURN, 0, 0, verdict))
    yield (RETURN, 0, 0, beyond)


def _forms(machine: str) -> Iterator[Line]:
    for name, number in _numbers(WITH_FORMS, machine).items():
        lines = [line for form in FORMS[name] for line in _form(form)]
        yield from ((EQUAL, 0, len(lines) + 1, number), *lines, (RETURN, 0, 0, MISSING if name in ABSENT_OTHERWISE else DENIED))


def _form(form: Form) -> list[Line]:
    """Lines that allow a call of this form, and jump to the line after them otherwise."""
    lines: list[Line] = [(RETURN, 0, 0, ALLOWED)]
    for argument in reversed(form):
        lines = _argument(argument, len(lines)) + lines
    return lines


def _argument(argument: Argument, rest: int) -> list[Line]:
    """Lines that go on if the argument has one of its values, and jump over the `rest` otherwise."""
    place, last = ARGUMENTS + 8 * argument.place, len(argument.values) - 1
    lines: list[Line] = [(EQUAL, last - at, rest if at == last else 0, value) for at, value in enumerate(argument.values)]
    low: list[Line] = [(LOAD, 0, 0, place), *lines]
    return [(LOAD, 0, 0, place + 4), (EQUAL, 0, len(low) + rest, 0), *low] if argument.wide else low
