"""How many threads may compute at once: the cores that this process may use, and the CPU quota of its container.

A quota is CPU time per period, usually of 100 ms: a quota of 1.5 cores is 150 ms. Threads beyond the quota use it up
early, and Linux then stops all threads of the container until the period ends. Ours spin while they wait for work, and
so do those of the BLAS. So a quota is rounded down, and one core is the least: 0.5 -> 1, 1.5 -> 1, 2 -> 2. Two threads
under a quota of 1.5 would stand still for 25 of 100 ms, and half a core remains for the interpreter and for files.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")  # of the files that Linux answers in; tests have others


class Threads(NamedTuple):
    """How many threads compute, and what decided it."""

    number: int
    reason: str


def worker_threads() -> Threads:
    """The threads of compiled code, the caller's included. Numba's setting wins where the user has made one."""
    from numba import config

    if "NUMBA_NUM_THREADS" in os.environ or config.NUMBA_NUM_THREADS != config.NUMBA_DEFAULT_NUM_THREADS:
        return Threads(max(1, config.NUMBA_NUM_THREADS), "NUMBA_NUM_THREADS is set")
    return usable_cores()


@functools.cache
def usable_cores() -> Threads:
    """The cores of this process, or fewer where its container has a quota."""
    cores, quota = allowed_cores(), container_quota()
    if quota is None or int(quota) >= cores:
        return Threads(cores, f"as many as the cores that this process may use: {cores}")
    return Threads(max(1, int(quota)), f"the container's CPU quota is {quota:g} of {cores} cores, rounded down")


def allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@functools.cache
def l1_cache_bytes() -> int | None:
    """The bytes of a core's first cache for data; None where Linux does not say."""
    for cache in sorted((ROOT / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (cache / name).read_text(encoding="utf-8").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if int(level) == 1 and kind.strip() != "Instruction":
            return 1024 * int(size.strip().removesuffix("K"))
    return None


@functools.cache
def container_quota() -> float | None:
    """Cores' worth of CPU time: the least quota of this process's cgroups and of their parents. None without one."""
    try:
        groups = (ROOT / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (ROOT / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return None
    quotas = []
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers == "":
            read, kind = _quota_of_v2, "cgroup2"
        elif "cpu" in controllers.split(","):
            read, kind = _quota_of_v1, "cgroup"
        else:
            continue
        quotas += [
            q for mount in mounts for folder in _cgroup_folders(mount, kind, path) if (q := read(folder)) is not None
        ]
    return min(quotas, default=None)


def _cgroup_folders(mount: str, kind: str, path: str) -> list[Path]:
    """The folder of a cgroup and those of its parents, as far as this mount shows them; none if it is of another kind.

    mount: a line of mountinfo, `ID PARENT DEVICE ROOT POINT OPTIONS.. - KIND SOURCE OPTIONS`. In a container, ROOT may
    be the container's own cgroup, and the path begins with it.
    """
    left, _, right = mount.partition(" - ")
    (root, point), (filesystem, _, options) = left.split()[3:5], right.split(maxsplit=2)
    if filesystem != kind or (kind == "cgroup" and "cpu" not in options.split(",")):
        return []
    below = PurePosixPath(path)
    below = below.relative_to(root) if below.is_relative_to(root) else PurePosixPath()
    top = ROOT / point.lstrip("/")
    return [top / part for part in (below, *below.parents)]


def _quota_of_v2(folder: Path) -> float | None:
    """The quota in cpu.max: `QUOTA PERIOD`, where a quota of `max` is none."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # the topmost has no such file
        return None


def _quota_of_v1(folder: Path) -> float | None:
    """The quota in two files; -1 is none."""
    try:
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota, period = (int((folder / file).read_text(encoding="utf-8")) for file in files)
        return None if quota < 0 else quota / period
    except (OSError, ValueError, ZeroDivisionError):
        return None
