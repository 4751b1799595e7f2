"""The system calls that the front may make: their numbers on each machine, and the arguments that are allowed. All others fail.

The list was made from traces of fronts over their whole life: starting, loading libraries, serving both protocols with TLS,
planning, interrupting and stopping. An attacker who has taken over the front can use every call on this list, so do not add one
without a reason. A call that libraries try and can do without fails with EPERM, or with ENOSYS where the C library then uses an
older call. A call that no library of the front makes ends the process.

* *Files* are opened by name. Landlock decides which ones, and so does the front's own root (`own_root`). Modes, owners, times,
  extended attributes, links and locks of files are never needed here, and Landlock does not control them.
* *Sockets* are inherited. Only pairs of stream sockets can be made: from a datagram socket, a message can be sent to any local
  socket that has a name, such as the system log.
* *Processes*: the front starts threads, but no processes. It can signal only itself, and read only its own limits. Clocks are
  those of the system: negative numbers are the processor times of other processes.
* *Memory* may become executable, because libraries are loaded when they are first needed. It cannot be merged with equal pages of
  other processes, as the time that a write then takes would reveal what those contain.
"""

from __future__ import annotations

from dpsql.frozen import Frozen

PID = "pid"
"""Stands for the number of the process that is being shut in."""


class Argument(Frozen, kw_only=False):
    """The values that one argument of a call may have. The kernel reads 32 bits of it, or 64 if it is `wide`."""

    place: int
    values: tuple[int | str, ...]
    wide: bool = False


Form = tuple[Argument, ...]
"""Conditions on the arguments of a call that hold together."""
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The number of each architecture in the description of a call. Both are little-endian."""
LAST = 451
"""The largest number on this list. Calls above it are newer, so libraries know that a system may lack them."""


Calls = dict[str, tuple[int | None, ...]]
"""Names, with the number on each machine; None where it has no such call."""


def _read(table: str) -> Calls:
    return {name: tuple(None if number == "-" else int(number) for number in numbers.split("/"))
            for name, _, numbers in (entry.partition(":") for entry in table.split())}


FREE = _read("""
    read:0/63 write:1/64 readv:19/65 writev:20/66 pread64:17/67 pwrite64:18/68 preadv:295/69 pwritev:296/70 lseek:8/62
    close:3/57 close_range:436/436 dup:32/23 dup2:33/- dup3:292/24 pipe:22/- pipe2:293/59 fsync:74/82 fdatasync:75/83
    ftruncate:77/46 fallocate:285/47 fadvise64:221/223 sendfile:40/71 fstat:5/80 getdents64:217/61

    open:2/- openat:257/56 access:21/- faccessat:269/48 faccessat2:439/439 stat:4/- lstat:6/- newfstatat:262/79 statx:332/291
    readlink:89/- readlinkat:267/78 getcwd:79/17 mkdir:83/- mkdirat:258/34 unlink:87/- unlinkat:263/35 rmdir:84/- rename:82/-
    renameat:264/38 renameat2:316/276

    accept:43/202 accept4:288/242 getsockname:51/204 getpeername:52/205 getsockopt:55/209 recvfrom:45/207 recvmsg:47/212
    sendto:44/206 sendmsg:46/211 shutdown:48/210

    epoll_create:213/- epoll_create1:291/20 epoll_ctl:233/21 epoll_wait:232/- epoll_pwait:281/22 epoll_pwait2:441/441 poll:7/-
    ppoll:271/73 select:23/- pselect6:270/72 eventfd2:290/19

    mmap:9/222 munmap:11/215 mprotect:10/226 mremap:25/216 msync:26/227 brk:12/214 membarrier:324/283

    exit:60/93 exit_group:231/94 futex:202/98 set_robust_list:273/99 rseq:334/293 set_tid_address:218/96 sched_yield:24/124
    gettid:186/178 getpid:39/172 getppid:110/173 arch_prctl:158/-

    getuid:102/174 geteuid:107/175 getgid:104/176 getegid:108/177 getresuid:118/148 getresgid:120/150 getgroups:115/158

    rt_sigaction:13/134 rt_sigprocmask:14/135 rt_sigreturn:15/139 rt_sigtimedwait:128/137 sigaltstack:131/132
    restart_syscall:219/128

    time:201/- gettimeofday:96/169 times:100/153 nanosleep:35/101 getrusage:98/165 getrlimit:97/163 getcpu:309/168 uname:63/160
    sysinfo:99/179 getrandom:318/278
""")
"""Allowed with any arguments: for open files, file names, sockets, waiting, memory, threads, users, signals and time."""
PROGRAM = _read("execve:59/221")
"""Allowed until the front has started, as `shut_in` executes it. The front then refuses it by a second filter."""
ABSENT = _read("clone3:435/435 openat2:437/437 io_uring_setup:425/425 io_uring_enter:426/426 io_uring_register:427/427")
"""Fail with ENOSYS: their arguments are in memory, which a filter cannot read. Libraries then use older calls."""
DEADLY = _read("""
    ptrace:101/117 process_vm_readv:310/270 process_vm_writev:311/271 process_madvise:440/440 kcmp:312/272 pidfd_getfd:438/438
    pidfd_send_signal:424/424 bpf:321/280 userfaultfd:323/282 add_key:248/217 request_key:249/218 keyctl:250/219
    mount:165/40 umount2:166/39 pivot_root:155/41 chroot:161/51 unshare:272/97 setns:308/268 open_tree:428/428
    move_mount:429/429 fsopen:430/430 fsconfig:431/431 fsmount:432/432 fspick:433/433 mount_setattr:442/442
    name_to_handle_at:303/264 open_by_handle_at:304/265 kexec_load:246/104 kexec_file_load:320/294 init_module:175/105
    finit_module:313/273 delete_module:176/106 reboot:169/142 swapon:167/224 swapoff:168/225 acct:163/89 quotactl:179/60
    quotactl_fd:443/443 settimeofday:164/170 clock_settime:227/112 adjtimex:159/171 clock_adjtime:305/266 sethostname:170/161
    setdomainname:171/162 iopl:172/- ioperm:173/- modify_ldt:154/- vhangup:153/58
""")
"""End the process."""

_THREAD = 0x3D0F00  # the flags of pthread_create; musl adds CLONE_DETACHED, which does nothing
_STREAM = tuple(1 | more for more in (0, 0o4000, 0o2000000, 0o2004000))  # SOCK_STREAM, with NONBLOCK and CLOEXEC
_CLOCKS = tuple(range(12))
_OPTIONS = {1: (2, 7, 8, 9, 13, 20, 21), 6: (1, 3, 4, 5, 6, 12, 18)}
"""SOL_SOCKET: REUSEADDR, SNDBUF, RCVBUF, KEEPALIVE, LINGER, RCVTIMEO, SNDTIMEO. IPPROTO_TCP: NODELAY, CORK, KEEPIDLE, KEEPINTVL,
KEEPCNT, QUICKACK, USER_TIMEOUT."""
WITH_FORMS = _read("""
    ioctl:16/29 fcntl:72/25 madvise:28/233 clock_gettime:228/113 clock_getres:229/114 clock_nanosleep:230/115 clone:56/220
    kill:62/129 tgkill:234/131 prlimit64:302/261 socketpair:53/199 setsockopt:54/208 prctl:157/167 seccomp:317/277
    sched_getaffinity:204/123
""")
"""Allowed with the arguments in `FORMS`."""
FORMS: dict[str, tuple[Form, ...]] = {
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
    "ioctl": ((Argument(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),),),
    "fcntl": ((Argument(1, (0, 1, 2, 3, 4, 1030)),),),  # to copy a file descriptor, and for its flags
    "madvise": ((Argument(2, (*range(5), 8, *range(14, 22))),),),  # not MADV_REMOVE, MERGEABLE, HWPOISON, SOFT_OFFLINE
    "clock_gettime": ((Argument(0, _CLOCKS),),),
    "clock_getres": ((Argument(0, _CLOCKS),),),
    "clock_nanosleep": ((Argument(0, _CLOCKS),),),
    "clone": ((Argument(0, (_THREAD, _THREAD | 0x400000)),),),
    "kill": ((Argument(0, (PID,)),),),
    "tgkill": ((Argument(0, (PID,)),),),
    "prlimit64": ((Argument(0, (0, PID)), Argument(2, (0,), wide=True)),),  # without a new limit
    "socketpair": ((Argument(0, (1,)), Argument(1, _STREAM)),),  # AF_UNIX
    "setsockopt": tuple((Argument(1, (level,)), Argument(2, options)) for level, options in _OPTIONS.items()),
    "prctl": ((Argument(0, (3, 15, 16, 42, 0x53564D41)),),  # GET_DUMPABLE, SET_NAME, GET_NAME, GET_THP_DISABLE, SET_VMA
              (Argument(0, (4,)), Argument(1, (0,), wide=True))),  # SET_DUMPABLE to 0
    "seccomp": ((Argument(0, (1,)), Argument(1, (1,))),),  # to add a filter to all threads
    "sched_getaffinity": ((Argument(0, (0, PID)),),),
}
ABSENT_OTHERWISE = frozenset({"sched_getaffinity"})
"""Calls that fail with ENOSYS for other arguments. The C library accepts that when it looks at a thread."""
