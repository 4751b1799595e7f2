"""The numbers of system calls as libseccomp knows them, which the tests compare with ours."""

from __future__ import annotations

import ctypes

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def library() -> ctypes.CDLL | None:
    """None where it is not installed."""
    try:
        found = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    found.seccomp_syscall_resolve_name_arch.argtypes = (ctypes.c_uint32, ctypes.c_char_p)
    found.seccomp_syscall_resolve_num_arch.argtypes = (ctypes.c_uint32, ctypes.c_int)
    found.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    return found


def calls_of(machine: str, most: int = 512) -> dict[str, int]:
    """All calls of a machine, with their numbers."""
    known = library()
    assert known is not None
    made = {}
    for number in range(most):
        name = known.seccomp_syscall_resolve_num_arch(MACHINES[machine], number)
        if name:
            made[ctypes.string_at(name).decode()] = number
    return made
