"""What a front may try that is in other hands: to change something outside, or to learn something of it.

Each way is a system call with its arguments, made without a library in between, or a file to be read. It worked where the call
does not fail.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.server.front.control import Control

HERE = -100  # AT_FDCWD
FAMILIES = range(1, 46)
NOT_YET = range(452, 520)  # numbers of calls that are newer than the list, or are none yet
STDIN, WRITE_ONLY, PATH_ONLY, TEMPORARY = 0, os.O_WRONLY, 0o10000000, 0o20200000
IPC_CREATE, KEY = 0o1000, 0x64707371
CLONE = {"a process": 17, "a user space": 0x10000011, "a thread without its group": 0x700, "a space of files": 0x00020011}


@dataclass(frozen=True)
class Outside:
    """What there is to be reached: the folder and the files of the owner, a process of the same user, and the numbers of
    all calls; and which of the ways to try, if not all."""

    folder: str
    files: list[str]
    victim: int
    calls: dict[str, int]
    only: list[str] | None = None


def run(control: Control) -> None:
    """In a front: try all ways of which there is word on the input, and tell which of them worked."""
    outside = Outside(**json.loads(sys.stdin.readline()))
    tried = {name: attempt for name, attempt in ways(outside).items() if outside.only is None or name in outside.only}
    print(json.dumps({"tried": sorted(tried), "worked": sorted(name for name, attempt in tried.items() if works(attempt))}), flush=True)


def works(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def call(number: int, *given: Any) -> int:
    """Raises OSError where the system call fails."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    found = int(library.syscall(ctypes.c_long(number), *(ctypes.c_long(each) if isinstance(each, int) else each for each in given)))
    if found < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return found


def ways(out: Outside) -> dict[str, Callable[[], Any]]:
    """Each has a name of its own. Calls that the machine does not have are left out."""
    made: dict[str, Callable[[], Any]] = {}
    for name, (which, *given) in {**_of_files(out), **_of_processes(out), **_of_sockets(), **_of_memory(), **_of_users(), **_of_events(out)}.items():
        if which in out.calls:
            made[name] = lambda which=which, given=given: call(out.calls[which], *given)  # type: ignore[misc]
    made |= {f"a call that is not known yet, {number}": lambda number=number: call(number, 0, 0, 0, 0, 0, 0)  # type: ignore[misc]
             for number in NOT_YET if number not in out.calls.values() or number > 451}
    return made | _of_readers(out)


Ways = dict[str, tuple[Any, ...]]


def _of_files(out: Outside) -> Ways:
    """Metadata, contents and names of the owner's files."""
    buffer, own = ctypes.create_string_buffer(4096), os.environ["TMPDIR"].encode()
    ledger, folder = out.files[0].encode(), out.folder.encode()
    times = (ctypes.c_long * 4)(0, 0, 0, 0)
    made: Ways = {}
    for path in out.files:
        name, at = os.path.basename(path), path.encode()
        made |= {
            f"chmod of {name}": ("chmod", at, 0o666), f"fchmodat of {name}": ("fchmodat", HERE, at, 0o666),
            f"chown of {name}": ("chown", at, 1, 1), f"fchownat of {name}": ("fchownat", HERE, at, 1, 1, 0),
            f"utimensat of {name}": ("utimensat", HERE, at, times, 0),
            f"setxattr of {name}": ("setxattr", at, b"user.x", b"1", 1, 0), f"listxattr of {name}": ("listxattr", at, buffer, 256),
            f"size of {name}": ("newfstatat", HERE, at, buffer, 0), f"size of {name} by statx": ("statx", HERE, at, 0, 0x7FF, buffer),
            f"whether {name} is there": ("faccessat", HERE, at, 0), f"a place of {name}": ("openat", HERE, at, PATH_ONLY),
            f"reading {name}": ("openat", HERE, at, 0), f"writing {name}": ("openat", HERE, at, WRITE_ONLY | os.O_APPEND),
            f"truncating {name}": ("truncate", at, 0), f"a link to {name}": ("linkat", HERE, at, HERE, own + b"/linked", 0)}
    return made | {
        "lchown": ("lchown", ledger, 1, 1), "utime": ("utime", ledger, times), "utimes": ("utimes", ledger, times),
        "futimesat": ("futimesat", HERE, ledger, times), "fchmodat2": ("fchmodat2", HERE, ledger, 0o666, 0),
        "lsetxattr": ("lsetxattr", ledger, b"user.x", b"1", 1, 0), "removexattr": ("removexattr", ledger, b"user.x"),
        "lremovexattr": ("lremovexattr", ledger, b"user.x"), "getxattr": ("getxattr", ledger, b"user.x", buffer, 9),
        "lgetxattr": ("lgetxattr", ledger, b"user.x", buffer, 9), "llistxattr": ("llistxattr", ledger, buffer, 256),
        "stat": ("stat", ledger, buffer), "lstat": ("lstat", ledger, buffer), "access": ("access", ledger, 0),
        "faccessat2": ("faccessat2", HERE, ledger, 0, 0), "open": ("open", ledger, 0), "creat": ("creat", ledger, 0o600),
        "openat2": ("openat2", HERE, ledger, (ctypes.c_uint64 * 3)(PATH_ONLY, 0, 0), 24),
        "rename": ("renameat", HERE, ledger, HERE, own + b"/renamed"), "renameat2": ("renameat2", HERE, ledger, HERE, own, 2),
        "unlink": ("unlinkat", HERE, out.files[1].encode(), 0), "removing the folder": ("unlinkat", HERE, folder, 0x200),
        "a name in the folder": ("symlinkat", b"/", HERE, folder + b"/symbolic"), "symlink": ("symlink", b"/", folder + b"/symbolic"),
        "link": ("link", ledger, own + b"/hard"), "mknod": ("mknodat", HERE, folder + b"/pipe", 0o10600, 0),
        "mkdir": ("mkdirat", HERE, folder + b"/made", 0o700), "a file in the folder": ("openat", HERE, folder + b"/new", 0o101, 0o600),
        "a file without a name": ("openat", HERE, folder, TEMPORARY | WRITE_ONLY, 0o600), "the names of files": ("openat", HERE, folder, 0o200000),
        "going there": ("chdir", folder), "fchdir": ("fchdir", STDIN), "how full the disk is": ("statfs", folder, buffer),
        "fstatfs": ("fstatfs", STDIN, buffer), "sync": ("sync",), "syncfs": ("syncfs", STDIN), "umask": ("umask", 0),
        "fchmod": ("fchmod", STDIN, 0o666), "fchown": ("fchown", STDIN, 1, 1), "fsetxattr": ("fsetxattr", STDIN, b"user.x", b"1", 1, 0),
        "fgetxattr": ("fgetxattr", STDIN, b"user.x", buffer, 9), "flistxattr": ("flistxattr", STDIN, buffer, 9),
        "fremovexattr": ("fremovexattr", STDIN, b"user.x"), "a lock": ("flock", STDIN, 2), "a program": ("execve", b"/bin/true", 0, 0),
        "execveat": ("execveat", HERE, b"/bin/true", 0, 0, 0), "an owner of signals": ("fcntl", STDIN, 8, out.victim),
        "another signal": ("fcntl", STDIN, 10, 9), "a lease": ("fcntl", STDIN, 1024, 0), "news of a folder": ("fcntl", STDIN, 1026, 2),
        "who locks": ("fcntl", STDIN, 5, buffer), "the size of a pipe": ("fcntl", STDIN, 1031, 4096), "typing": ("ioctl", STDIN, 0x5412, b"x"),
        "signals of input": ("ioctl", STDIN, 0x5452, buffer), "flags of a file": ("ioctl", STDIN, 0x80086601, buffer),
        "swapping": ("memfd_secret", 0), "pages in memory": ("cachestat", STDIN, buffer, buffer, 0), "tee": ("tee", STDIN, 1, 1, 2),
        "splice": ("splice", STDIN, 0, 1, 0, 1, 2), "vmsplice": ("vmsplice", 1, 0, 0, 0)}


def _of_processes(out: Outside) -> Ways:
    """Limits, priorities, signals and states of another process of the same user; and other processes of one's own."""
    buffer, victim = ctypes.create_string_buffer(4096), out.victim
    one, limit = (ctypes.c_ulong * 16)(1), (ctypes.c_ulong * 2)(1, 1)
    clock = (~victim << 3) | 2  # how much of the processor a process had
    return {
        **{f"starting {what}": ("clone", flags, 0, 0, 0, 0) for what, flags in CLONE.items()}, "clone3": ("clone3", one, 64),
        "fork": ("fork",), "vfork": ("vfork",), "limits of another": ("prlimit64", victim, 0, limit, 0),
        "reading limits of another": ("prlimit64", victim, 0, 0, buffer), "its own limits": ("prlimit64", 0, 0, limit, 0),
        "setrlimit": ("setrlimit", 6, limit), "setpriority": ("setpriority", 0, victim, 19), "getpriority": ("getpriority", 0, victim),
        "its own priority": ("setpriority", 0, 0, 19), "sched_setaffinity": ("sched_setaffinity", victim, 128, one),
        "sched_getaffinity": ("sched_getaffinity", victim, 128, buffer), "sched_setscheduler": ("sched_setscheduler", victim, 5, one),
        "sched_getscheduler": ("sched_getscheduler", victim), "sched_setparam": ("sched_setparam", victim, one),
        "sched_getparam": ("sched_getparam", victim, buffer), "sched_setattr": ("sched_setattr", victim, one, 0),
        "sched_getattr": ("sched_getattr", victim, buffer, 56, 0), "sched_rr_get_interval": ("sched_rr_get_interval", victim, buffer),
        "ioprio_set": ("ioprio_set", 1, victim, 3 << 13), "ioprio_get": ("ioprio_get", 1, victim),
        "migrate_pages": ("migrate_pages", victim, 1, one, one), "move_pages": ("move_pages", victim, 0, 0, 0, 0, 0),
        "process_mrelease": ("process_mrelease", STDIN, 0), "get_robust_list": ("get_robust_list", victim, buffer, buffer),
        "getpgid": ("getpgid", victim), "getsid": ("getsid", victim), "setpgid": ("setpgid", victim, 0), "setsid": ("setsid",),
        "whether it is there": ("kill", victim, 0), "kill": ("kill", victim, signal.SIGURG), "a signal to all": ("kill", -1, 0),
        "a signal to its group": ("kill", 0, 0), "tkill": ("tkill", victim, 0), "tgkill": ("tgkill", victim, victim, 0),
        "rt_sigqueueinfo": ("rt_sigqueueinfo", victim, 0, buffer), "rt_tgsigqueueinfo": ("rt_tgsigqueueinfo", victim, victim, 0, buffer),
        "pidfd_open": ("pidfd_open", victim, 0), "waitid": ("waitid", 0, 0, buffer, 5, 0), "wait4": ("wait4", -1, 0, 1, 0),
        "clock_gettime of another": ("clock_gettime", clock, buffer), "clock_getres of another": ("clock_getres", clock, buffer),
        "clock_nanosleep of another": ("clock_nanosleep", clock, 0, (ctypes.c_long * 2)(0, 1), 0),
        "timer_create": ("timer_create", clock, 0, buffer), "unlimited tracing": ("prctl", 0x59616D61, -1, 0, 0, 0),
        "outliving the vault": ("prctl", 1, 0, 0, 0, 0), "being dumped": ("prctl", 4, 1, 0, 0, 0),
        "adopting processes": ("prctl", 36, 1, 0, 0, 0), "keeping rights": ("prctl", 8, 1, 0, 0, 0), "other rights": ("prctl", 47, 4, 0, 0, 0),
        "other bits of rights": ("prctl", 28, 0, 0, 0, 0), "other memory of its program": ("prctl", 35, 1, 0, 0, 0),
        "counting of all": ("prctl", 31, 0, 0, 0, 0), "sharing a core": ("prctl", 62, 1, victim, 0, buffer), "strict filters": ("prctl", 22, 1, 0, 0, 0)}


def _of_sockets() -> Ways:
    pair, address = (ctypes.c_int * 2)(), b"\1\0/dev/log" + bytes(16)
    return {
        **{f"a socket of family {family}": ("socket", family, kind, 0) for family in FAMILIES for kind in (1,)},
        **{f"a socket of messages of family {family}": ("socket", family, kind, 0) for family in (1, 2, 10, 16, 17) for kind in (2, 3)},
        "a pair of datagrams": ("socketpair", 1, 2, 0, pair), "a pair of packets": ("socketpair", 1, 5, 0, pair),
        "a pair of another family": ("socketpair", 30, 1, 0, pair), "connect": ("connect", STDIN, address, 10), "bind": ("bind", STDIN, address, 10),
        "listen": ("listen", STDIN, 5), "sendmmsg": ("sendmmsg", STDIN, address, 0, 0), "recvmmsg": ("recvmmsg", STDIN, address, 0, 0, 0),
        "a filter of packets": ("setsockopt", 3, 1, 26, address, 16), "a program for packets": ("setsockopt", 3, 1, 50, address, 4),
        "a mark of packets": ("setsockopt", 3, 1, 36, address, 4), "another device": ("setsockopt", 3, 1, 25, address, 4),
        "rules of packets": ("setsockopt", 3, 0, 64, address, 16), "another layer": ("setsockopt", 3, 6, 31, b"tls", 4)}


def _of_memory() -> Ways:
    """Memory that others share, or that says what others have in theirs."""
    buffer, key = ctypes.create_string_buffer(4096), KEY
    page = ctypes.addressof(ctypes.create_string_buffer(8192)) // 4096 * 4096 + 4096
    return {
        "shmget": ("shmget", key, 4096, IPC_CREATE | 0o666), "shmat": ("shmat", 0, 0, 0), "shmctl": ("shmctl", 0, 14, buffer), "shmdt": ("shmdt", page),
        "msgget": ("msgget", key, IPC_CREATE | 0o666), "msgsnd": ("msgsnd", 0, buffer, 1, 0o4000), "msgrcv": ("msgrcv", 0, buffer, 1, 0, 0o4000),
        "msgctl": ("msgctl", 0, 12, buffer), "semget": ("semget", key, 1, IPC_CREATE | 0o666), "semop": ("semop", 0, buffer, 1),
        "semtimedop": ("semtimedop", 0, buffer, 1, 0), "semctl": ("semctl", 0, 0, 19, buffer), "mq_open": ("mq_open", b"dpsql", 0o102, 0o666, 0),
        "mq_unlink": ("mq_unlink", b"dpsql"), "memfd_create": ("memfd_create", b"x", 0), "memfd_secret": ("memfd_secret", 0),
        "merging pages": ("madvise", page, 4096, 12), "poisoning pages": ("madvise", page, 4096, 100), "mincore": ("mincore", page, 4096, buffer),
        "mlock": ("mlock", page, 4096), "mlock2": ("mlock2", page, 4096, 0), "mlockall": ("mlockall", 2), "munlockall": ("munlockall",),
        "remap_file_pages": ("remap_file_pages", page, 4096, 0, 0, 0), "pkey_alloc": ("pkey_alloc", 0, 0), "set_mempolicy": ("set_mempolicy", 0, 0, 0),
        "get_mempolicy": ("get_mempolicy", 0, 0, 0, 0, 0), "mbind": ("mbind", page, 4096, 0, 0, 0, 0),
        "set_mempolicy_home_node": ("set_mempolicy_home_node", page, 0, 0, 0), "futex_waitv": ("futex_waitv", buffer, 0, 0, 0, 0)}


def _of_users() -> Ways:
    buffer = ctypes.create_string_buffer(4096)
    return {
        **{f"becoming root by {name}": (name, 0) for name in ("setuid", "setgid", "setfsuid", "setfsgid")},
        **{f"becoming root by {name}": (name, 0, 0) for name in ("setreuid", "setregid")},
        **{f"becoming root by {name}": (name, 0, 0, 0) for name in ("setresuid", "setresgid")},
        "setgroups": ("setgroups", 0, 0), "capset": ("capset", buffer, buffer), "capget": ("capget", buffer, buffer),
        "personality": ("personality", 0xFFFFFFFF)}


def _of_events(out: Outside) -> Ways:
    """What happens elsewhere, in the kernel and in files; and further filters that report."""
    buffer, folder = ctypes.create_string_buffer(4096), out.folder.encode()
    return {
        "inotify_init": ("inotify_init",), "inotify_init1": ("inotify_init1", 0), "inotify_add_watch": ("inotify_add_watch", STDIN, folder, 2),
        "inotify_rm_watch": ("inotify_rm_watch", STDIN, 1), "fanotify_init": ("fanotify_init", 0x200, 0),
        "fanotify_mark": ("fanotify_mark", STDIN, 1, 2, HERE, folder), "io_uring_setup": ("io_uring_setup", 8, buffer),
        "io_uring_enter": ("io_uring_enter", STDIN, 0, 0, 0, 0, 0), "io_uring_register": ("io_uring_register", STDIN, 0, 0, 0),
        "io_setup": ("io_setup", 1, buffer), "perf_event_open": ("perf_event_open", buffer, out.victim, -1, -1, 0),
        "the log of the kernel": ("syslog", 10, buffer, 0), "sysfs": ("sysfs", 3), "ustat": ("ustat", 0, buffer), "signalfd4": ("signalfd4", -1, buffer, 8, 0),
        "timerfd_create": ("timerfd_create", 1, 0), "setitimer": ("setitimer", 0, buffer, 0), "alarm": ("alarm", 0),
        "a filter that reports": ("seccomp", 1, 8, buffer), "what filters can do": ("seccomp", 2, 0, buffer),
        "landlock_create_ruleset": ("landlock_create_ruleset", buffer, 8, 0), "landlock_restrict_self": ("landlock_restrict_self", STDIN, 0),
        "lookup_dcookie": ("lookup_dcookie", 0, buffer, 9), "_sysctl": ("_sysctl", buffer), "nfsservctl": ("nfsservctl", 0, 0, 0),
        "uselib": ("uselib", b"/bin/true"), "afs_syscall": ("afs_syscall", 0), "vserver": ("vserver", 0), "query_module": ("query_module", 0, 0, 0, 0, 0),
        "create_module": ("create_module", 0, 0)}


def _of_readers(out: Outside) -> dict[str, Callable[[], Any]]:
    """Files that say what other processes do."""
    told = [*(f"/proc/{out.victim}/{name}" for name in ("environ", "maps", "mem", "status", "stat", "cmdline", "io", "fd/0", "cgroup")),
            "/proc/sysvipc/shm", "/proc/net/tcp", "/proc/keys", "/proc/locks", "/proc/mounts", "/proc/diskstats", "/proc/stat", "/proc/1/status", "/dev/tty",
            "/dev/mem", "/dev/kmsg", "/etc/shadow", "/sys/kernel/notes", "/sys/fs/cgroup/cgroup.procs", "/sys/class/net/lo/statistics/rx_bytes"]
    listed = ["/run", "/var/log", "/sys/fs/cgroup", f"/proc/{out.victim}/fd", out.folder]
    return {**{f"reading {path.replace(str(out.victim), 'PID')}": lambda path=path: _read(path) for path in told},  # type: ignore[misc]
            **{f"the names in {path.replace(str(out.victim), 'PID').replace(out.folder, 'the folder')}":
               lambda path=path: os.listdir(path) for path in listed}}  # type: ignore[misc]


def _read(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(handle, 1)
    finally:
        os.close(handle)


if __name__ == "__main__":  # one call, that should end this process
    assert platform.machine()
    call(int(sys.argv[1]), 0, 0, 0, 0, 0, 0)
    print("alive")
