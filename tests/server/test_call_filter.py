"""The filter of system calls, run by a small machine of its own, for both kinds of processors; numbers as libseccomp knows them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from support import known_calls

from dpsql.server.walls.allowed_calls import (
    ABSENT,
    ABSENT_OTHERWISE,
    DEADLY,
    FORMS,
    FREE,
    LAST,
    MACHINES,
    PID,
    PROGRAM,
    WITH_FORMS,
)
from dpsql.server.walls.call_filter import ALLOWED, DENIED, KILLED, MISSING, Line, filter_of_front, filter_of_programs

TABLES = {"free": FREE, "program": PROGRAM, "absent": ABSENT, "deadly": DEADLY, "with forms": WITH_FORMS}
OWN, LOAD, EQUAL, AT_LEAST, RETURN = 4711, 0x20, 0x15, 0x35, 0x06
VERDICTS = {"free": ALLOWED, "program": ALLOWED, "absent": MISSING, "deadly": KILLED}
both = pytest.mark.parametrize("machine", MACHINES)
known = pytest.mark.skipif(known_calls.library() is None, reason="libseccomp tells the numbers of calls")


def verdict(program: Sequence[Line], number: int, *given: int, marked: int) -> int:
    """What a program returns for a call."""
    words = {0: number, 4: marked}
    for place, value in enumerate((*given, *[0] * 6)[:6]):
        words[16 + 8 * place], words[20 + 8 * place] = value % 2**32, value // 2**32 % 2**32
    held = at = 0
    while True:
        what, yes, no, value = program[at]
        wanted = OWN if value == PID else int(value)
        at += 1
        if what == RETURN:
            return wanted
        if what == LOAD:
            held = words[wanted]
        else:
            assert what in (EQUAL, AT_LEAST)
            at += yes if (held == wanted if what == EQUAL else held >= wanted) else no


def front(machine: str, number: int, *given: int) -> int:
    program = filter_of_front(machine)
    assert program is not None
    return verdict(program, number, *given, marked=MACHINES[machine])


@known
@both
def test_numbers_are_those_of_the_machine(machine: str) -> None:
    real, place = known_calls.calls_of(machine), [*MACHINES].index(machine)
    for table in TABLES.values():
        for name, numbers in table.items():
            assert numbers[place] == real.get(name), name
    assert known_calls.MACHINES == MACHINES


def test_a_call_is_in_one_table() -> None:
    for one, other in itertools.combinations(TABLES.values(), 2):
        assert not one.keys() & other.keys()
    assert WITH_FORMS.keys() == FORMS.keys() and FORMS.keys() >= ABSENT_OTHERWISE


@known
@both
def test_what_is_not_listed_is_refused(machine: str) -> None:
    real = known_calls.calls_of(machine)
    expected = {real[name]: VERDICTS[table] for table, of in VERDICTS.items() for name in TABLES[table] if name in real}
    special = {real[name] for name in FORMS}
    assert len(expected) + len(special) == sum(numbers[[*MACHINES].index(machine)] is not None for of in TABLES.values() for numbers in of.values())
    for number in range(1024):
        if number not in special:
            assert front(machine, number) == expected.get(number, DENIED if number <= LAST else MISSING), number
    for number in (0x40000000, 0x40000000 + 39, 2**32 - 1):
        assert front(machine, number) == KILLED
    for other in (*MACHINES.values(), 0x40000003, 0x40000028, 0):
        if other != MACHINES[machine]:
            program = filter_of_front(machine)
            assert program is not None and verdict(program, real["read"], marked=other) == KILLED


REFUSED_FORMS: dict[str, list[tuple[int, ...]]] = {
    "clone": [(17,), (0x10000000 | 0x3D0F00,), (0x00020000 | 0x3D0F00,), (0x3D0F00 & ~0x10000,), (0,), (0x4000 | 0x100 | 17,)],
    "kill": [(0, 0), (-1, 9), (1, 9), (OWN + 1, 0), (-OWN, 9)],
    "tgkill": [(1, 1, 9), (OWN + 1, OWN, 0)],
    "prlimit64": [(1, 0, 0, 4096), (0, 0, 1, 0), (OWN, 0, 1 << 32, 0), (0, 0, 2**64 - 1, 0)],
    "sched_getaffinity": [(1, 8, 0), (-1, 8, 0)],
    "ioctl": [(0, 0x5412), (0, 0x5452), (0, 0x8912), (0, 0x541C)],
    "fcntl": [(0, 8, 1), (0, 10, 9), (0, 1024), (0, 1026), (0, 6), (0, 15), (0, 1033)],
    "madvise": [(0, 4096, 12), (0, 4096, 100), (0, 4096, 101), (0, 4096, 13), (0, 4096, 9)],
    "clock_gettime": [(-6 % 2**32,), (12,), (2**32 - 1,)], "clock_getres": [(-6 % 2**32,)], "clock_nanosleep": [(-6 % 2**32,)],
    "socketpair": [(1, 2), (1, 5), (2, 1), (30, 1), (1, 3), (1, 2 | 0o2000000)],
    "setsockopt": [(3, 1, 26), (3, 1, 50), (3, 0, 64), (3, 41, 64), (3, 6, 31), (3, 1, 1), (3, 6, 2)],
    "prctl": [(1, 0), (4, 1), (4, 1 << 32), (28,), (22, 1), (22, 2), (0x59616D61, -1), (47, 4), (36, 1), (38, 1), (62,), (31,), (35,)],
    "seccomp": [(0, 0), (1, 0), (1, 8), (1, 9), (2, 0), (3, 0)]}
ALLOWED_FORMS: dict[str, list[tuple[int, ...]]] = {
    "clone": [(0x3D0F00,), (0x7D0F00,)], "kill": [(OWN, 15)], "tgkill": [(OWN, 99, 6)], "prlimit64": [(0, 7, 0, 4096), (OWN, 7, 0, 4096)],
    "sched_getaffinity": [(0, 128, 1), (OWN, 128, 1)], "ioctl": [(0, 0x5401), (3, 0x5421), (3, 0x5451)],
    "fcntl": [(0, 1), (0, 2, 1), (0, 3), (0, 4, 2048), (0, 1030, 0)], "madvise": [(0, 4096, 4), (0, 4096, 8), (0, 4096, 14)],
    "clock_gettime": [(0,), (1,), (3,), (11,)], "clock_getres": [(1,)], "clock_nanosleep": [(1,)],
    "socketpair": [(1, 1), (1, 1 | 0o2000000), (1, 1 | 0o2004000)], "setsockopt": [(3, 6, 1), (3, 1, 9), (3, 1, 2)],
    "prctl": [(15, 4096), (4, 0), (0x53564D41, 0)], "seccomp": [(1, 1, 4096)]}


@both
@pytest.mark.parametrize("name", FORMS)
def test_arguments_decide(name: str, machine: str) -> None:
    number = WITH_FORMS[name][[*MACHINES].index(machine)]
    assert number is not None
    for given in ALLOWED_FORMS[name]:
        assert front(machine, number, *given) == ALLOWED, given
    for given in REFUSED_FORMS[name]:
        assert front(machine, number, *given) == (MISSING if name in ABSENT_OTHERWISE else DENIED), given


@both
def test_no_other_values_of_an_argument_are_allowed(machine: str) -> None:
    """All small values of what is looked at, against the table."""
    for name, forms in FORMS.items():
        number = WITH_FORMS[name][[*MACHINES].index(machine)]
        assert number is not None
        places = sorted({argument.place for form in forms for argument in form})
        known = {argument.place: {OWN if value == PID else int(value) for form in forms for argument in form if argument.place == place
                                  for value in argument.values} for place in places for argument in forms[0]}
        for given in itertools.product(*([*range(64), *known.get(place, ())] if len(places) == 1 else [*range(33), OWN, *known.get(place, ())]
                                         for place in places)):
            at = dict(zip(places, given, strict=True))
            fits = any(all(at[argument.place] in {OWN if value == PID else value for value in argument.values} for argument in form)
                       for form in forms)
            found = front(machine, number, *(at.get(place, 0) for place in range(6)))
            assert (found == ALLOWED) == fits, (name, given)


@both
def test_programs_are_those_of_the_kernel(machine: str) -> None:
    """No line jumps past the end, and each way ends with a verdict; more than 4,096 lines are refused."""
    for program in (filter_of_front(machine), filter_of_programs(machine)):
        assert program is not None and len(program) <= 4096 and program[-1][0] == RETURN
        for at, (what, yes, no, value) in enumerate(program):
            assert 0 <= yes < 256 and 0 <= no < 256 and (value == PID or 0 <= int(value) < 2**32)
            assert what in (LOAD, RETURN) or at + 1 + max(yes, no) < len(program)


@both
def test_later_no_program_is_run(machine: str) -> None:
    program, place = filter_of_programs(machine), [*MACHINES].index(machine)
    assert program is not None
    for table in TABLES.values():
        for name, numbers in table.items():
            if numbers[place] is not None:
                assert verdict(program, numbers[place] or 0, marked=MACHINES[machine]) == (DENIED if name == "execve" else ALLOWED)


def test_machines_that_are_not_listed_have_no_filter() -> None:
    assert filter_of_front("riscv64") is None and filter_of_programs("") is None
