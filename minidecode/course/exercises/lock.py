"""Linux itself refuses what the student's process has no use for: Landlock for files, seccomp for all else.

No privilege is needed, nothing can be taken back, and native code is held to it as well. What of the two a system has
is what `lock_process` returns; elsewhere the audit hook of child.py stands alone. Python's own library is needed here,
no more.
"""

from __future__ import annotations

import os
import platform
import struct
import sys

NO_NEW_PRIVILEGES = 38  # of prctl
LANDLOCK = 444  # the first of its three calls: make a set of rules, add one, hold oneself to it
READ_FILE, READ_DIR, ALL_OF_ABI_1 = 1 << 2, 1 << 3, (1 << 13) - 1
PACKAGES = ("site-packages", "dist-packages")

# Calls by number, for the two processors whose numbers these are.
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SECCOMP = {"x86_64": 317, "aarch64": 277}
REFUSED = {
    "x86_64": (
        59, 322, 57, 58,  # execve, execveat, fork, vfork
        101, 310, 311, 434, 438, 424, 440,  # ptrace, process_vm_*, pidfd_*, process_madvise
        62, 200, 234, 129, 297,  # kill and its like
        141, 251, 142, 144, 314, 160,  # setpriority, ioprio_set, sched_set*, setrlimit
        41, 53, 29, 30, 64, 68, 240,  # socket, socketpair, shared memory, semaphores, queues
        76, 82, 264, 316, 83, 258, 84, 85, 86, 265, 87, 263, 88, 266,  # truncate, rename, mkdir, link, unlink, ...
        90, 91, 268, 452, 92, 93, 94, 260, 133, 259,  # chmod, chown, mknod
        132, 235, 261, 280, 188, 189, 190, 197, 198, 199,  # utime, setxattr, removexattr
        161, 155, 165, 166, 308, 272, 105, 106, 113, 114, 117, 119, 116, 126,  # chroot, mount, setns, setuid, capset
        425, 321, 298, 323, 248, 249, 250, 303, 304, 300,  # io_uring, bpf, perf, userfaultfd, keys, handles
    ),
    "aarch64": (
        221, 281,
        117, 270, 271, 434, 438, 424, 440,
        129, 130, 131, 138, 240,
        140, 30, 118, 119, 274, 164,
        198, 199, 194, 196, 190, 186, 180,
        45, 38, 276, 34, 37, 35, 36,
        52, 53, 452, 54, 55, 33,
        88, 5, 6, 7, 14, 15, 16,
        51, 41, 40, 39, 268, 97, 146, 144, 145, 143, 147, 149, 159, 91,
        425, 280, 241, 282, 217, 218, 219, 264, 265, 262,
    ),
}  # fmt: skip
MISSING = (435, 437)  # clone3, openat2: said not to be there, so that the C library takes the older call
CLONE, LIMIT = {"x86_64": 56, "aarch64": 220}, {"x86_64": 302, "aarch64": 261}  # prlimit64
OPEN = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}  # open, openat: the call, which argument has the flags
IS_THREAD = 0x10000  # in clone's flags
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def lock_process(folders: list[str], closed: list[str]) -> list[str]:
    """Holds this process to reading below `folders`, but not below `closed`; ("files", "calls"): what the system has.

    Threads that run already are held to the second alone. Call it once, before any foreign code.
    """
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in ARCHITECTURE or sys.maxsize < 2**32:
        return []
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return []
    held = []
    if _restrict_to_reading(libc, folders, closed):
        held.append("files")
    program = _filter_program(machine)
    code = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code)))
    if libc.syscall(SECCOMP[machine], 1, 1, filters) == 0:  # a filter, for all threads
        held.append("calls")
    return held


def _restrict_to_reading(libc, folders: list[str], closed: list[str]) -> bool:
    import ctypes

    handled = ctypes.create_string_buffer(struct.pack("Q", ALL_OF_ABI_1))
    rules = libc.syscall(LANDLOCK, handled, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False

    def allow_below(path: str, what: int) -> None:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        rule = ctypes.create_string_buffer(struct.pack("=Qi", what, place))
        libc.syscall(LANDLOCK + 1, rules, 1, rule, 0)
        os.close(place)

    shut = [os.path.realpath(path) for path in closed]
    for folder in folders:
        _allow_below(os.path.realpath(folder), shut, allow_below)
    for library in _libraries_beside_loaded():
        allow_below(library, READ_FILE)
    is_held = libc.syscall(LANDLOCK + 2, rules, 0) == 0
    os.close(rules)
    return is_held


def _allow_below(folder: str, shut: list[str], allow) -> None:
    """All files below a folder, around what is shut; a folder's names may be listed where some of it may be read.

    Rules only add up, so a folder that holds something shut is opened entry by entry. Links lead where they may.
    """
    allow(folder, READ_DIR)
    for entry in os.scandir(folder):
        if entry.is_symlink() or entry.path in shut or entry.name in PACKAGES:
            continue
        if not entry.is_dir():
            allow(entry.path, READ_FILE)
        elif any(path.startswith(entry.path + os.sep) for path in shut):
            _allow_below(entry.path, shut, allow)
        else:
            allow(entry.path, READ_FILE | READ_DIR)


def _libraries_beside_loaded() -> list[str]:
    """Shared libraries beside those that are loaded: modules of Python may want one more."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        places = {os.path.dirname(line.split(maxsplit=5)[5].rstrip("\n")) for line in maps if ".so" in line}
    return [e.path for place in places if os.path.isdir(place) for e in os.scandir(place) if ".so" in e.name]


def _filter_program(machine: str) -> bytes:
    """The filter, as instructions (code, jump if so, jump if not, number) of the kernel's little machine."""
    load, equal, at_least, any_bit, end = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, refuse, missing = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026  # EPERM, ENOSYS

    def if_call(number: int, then: list) -> list:
        return [(load, 0, 0, 0), (equal, 0, len(then), number), *then]

    def offset_of_argument(k: int) -> int:
        return 16 + 8 * k  # its lower half; this is for little-endian machines

    code = [(load, 0, 0, 4), (equal, 1, 0, ARCHITECTURE[machine]), (end, 0, 0, kill)]
    code += [(load, 0, 0, 0), (at_least, 0, 1, 0x40000000), (end, 0, 0, refuse)]  # x86's other set of numbers
    for number in REFUSED[machine]:
        code += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    for number in MISSING:
        code += [(equal, 0, 1, number), (end, 0, 0, missing)]
    is_thread = [
        (load, 0, 0, offset_of_argument(0)),
        (any_bit, 1, 0, IS_THREAD),
        (end, 0, 0, refuse),
        (end, 0, 0, allow),
    ]
    code += if_call(CLONE[machine], is_thread)
    reads = [
        (load, 0, 0, offset_of_argument(2)),
        (equal, 0, 2, 0),
        (load, 0, 0, offset_of_argument(2) + 4),
        (equal, 1, 0, 0),
    ]
    code += if_call(LIMIT[machine], [*reads, (end, 0, 0, refuse), (end, 0, 0, allow)])  # limits are read, not set
    for number, flags in OPEN[machine]:
        writes = [
            (load, 0, 0, offset_of_argument(flags)),
            (any_bit, 0, 1, WRITING),
            (end, 0, 0, refuse),
            (end, 0, 0, allow),
        ]
        code += if_call(number, writes)
    return b"".join(struct.pack("HBBI", *step) for step in [*code, (end, 0, 0, allow)])
