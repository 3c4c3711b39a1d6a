"""Threads follow the cores of the process, its container's quota, and what the user has set."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from minidecode.cpu.common import thread_pool
from minidecode.device import blas_threads, cores

V2 = "31 23 0:28 {root} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
AT_ROOT = V2.format(root="/")
OTHERS = "25 1 0:5 / /proc rw - proc proc rw\n33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(cores, files, cgroup, mounts): Linux answers from a folder; nothing is set by the user."""
    for name in ("NUMBA_NUM_THREADS", *blas_threads.SET_BY_USERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", config.NUMBA_DEFAULT_NUM_THREADS)
    monkeypatch.setattr(cores, "ROOT", tmp_path)

    def answer(number, files, cgroup="0::/", mounts=AT_ROOT):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(number)), raising=False)
        for path, text in ({"proc/self/cgroup": f"{cgroup}\n", "proc/self/mountinfo": OTHERS + mounts} | files).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        forget()

    yield answer
    forget()


def forget():
    cores.usable_cores.cache_clear()
    cores.container_quota.cache_clear()
    cores.l1_cache_bytes.cache_clear()
    thread_pool._forget_pool()


def v2(text, folder=""):
    return {f"sys/fs/cgroup/{folder}cpu.max": f"{text}\n"}


def v1(quota, period=100_000, folder=""):
    at = f"sys/fs/cgroup/cpu,cpuacct/{folder}"
    return {f"{at}cpu.cfs_quota_us": f"{quota}\n", f"{at}cpu.cfs_period_us": f"{period}\n"}


QUOTAS = {"max": 8, "0.5": 1, "1": 1, "1.5": 1, "2": 2, "2.9": 2, "64": 8}  # of 8 cores


@pytest.mark.parametrize(("quota", "number"), QUOTAS.items())
@pytest.mark.parametrize("period", [100_000, 20_000])
def test_a_quota_is_rounded_down_but_never_to_none(machine, quota, number, period):
    machine(8, v2("max 100000" if quota == "max" else f"{int(float(quota) * period)} {period}"))
    assert cores.worker_threads().number == number
    machine(8, v1(-1 if quota == "max" else int(float(quota) * period), period), "4:cpu,cpuacct:/", V1.format(root="/"))
    assert cores.worker_threads().number == number


@pytest.mark.parametrize(
    ("files", "cgroup", "mounts", "number"),
    [
        (v2("max 100000", "a/b/") | v2("300000 100000", "a/"), "0::/a/b", AT_ROOT, 3),  # the parent's
        (v2("500000 100000", "a/b/") | v2("300000 100000", "a/"), "0::/a/b", AT_ROOT, 3),
        (v2("200000 100000", "a/b/") | v2("300000 100000", "a/"), "0::/a/b", AT_ROOT, 2),
        (v2("max 100000", "a/") | v2("100000 100000", "b/"), "0::/a", AT_ROOT, 8),  # another's
        (v1(200_000), "4:cpu,cpuacct:/docker/9", V1.format(root="/docker/9"), 2),  # seen from inside of the container
        (v1(200_000, folder="in/"), "4:cpu,cpuacct:/docker/9/in", V1.format(root="/docker/9"), 2),
        (v2("200000 100000"), "0::/../other", AT_ROOT, 2),  # a path that this mount does not show
        (v1(300_000), "4:cpu,cpuacct:/\n0::/", f"{V1.format(root='/')}\n{V2.format(root='/')}/unified", 3),  # both
        (v1(200_000), "4:cpuset:/\n0::/", V1.format(root="/"), 8),  # of a controller that the process is not in
        (v2("nonsense"), "0::/", AT_ROOT, 8),
        (v2("100000 0"), "0::/", AT_ROOT, 8),
        ({}, "0::/", AT_ROOT, 8),
    ],
)
def test_the_least_quota_of_a_process_and_its_parents_counts(machine, files, cgroup, mounts, number):
    machine(8, files, cgroup, mounts)
    assert cores.worker_threads().number == number


def test_affinity_counts_where_it_is_less(machine):
    machine(2, v2("400000 100000"))
    assert cores.worker_threads() == (2, "as many as the cores that this process may use: 2")


def test_no_files_no_quota(machine, monkeypatch, tmp_path):
    machine(3, {})
    monkeypatch.setattr(cores, "ROOT", tmp_path / "nowhere")
    assert cores.worker_threads().number == 3


def test_what_the_user_set_wins(machine, monkeypatch):
    machine(8, v2("200000 100000"))
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", config.NUMBA_DEFAULT_NUM_THREADS + 3)  # as a program sets it
    assert cores.worker_threads() == (config.NUMBA_DEFAULT_NUM_THREADS + 3, "NUMBA_NUM_THREADS is set")
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", config.NUMBA_DEFAULT_NUM_THREADS)
    assert cores.worker_threads().number == 2
    monkeypatch.setenv("NUMBA_NUM_THREADS", str(config.NUMBA_NUM_THREADS))  # the default, but asked for
    assert cores.worker_threads().number == config.NUMBA_NUM_THREADS


@pytest.mark.parametrize(("quota", "workers"), [("150000 100000", 0), ("300000 100000", 2), ("max 100000", 4)])
def test_the_pool_has_as_many_workers_less_the_caller(machine, quota, workers):
    machine(5, v2(quota))
    pool = thread_pool._shared_pool()
    assert (0 if pool is None else pool.threads) == workers
    if pool is not None:
        pool.end()


def test_the_blas_has_no_more_threads_than_the_quota_allows(machine, monkeypatch):
    before = [library.get_num_threads() for library in blas_threads._blas_libraries()]
    blas_threads._set_threads([3] * len(before))
    try:
        if numbers() != {3}:
            pytest.skip("this BLAS does not let itself be told")
        machine(8, v2("200000 100000"))
        with blas_threads.few_blas_threads(is_small=False):
            assert numbers() == {2}
            with blas_threads.few_blas_threads(is_small=True):
                assert numbers() == {1}
            assert numbers() == {2}
        assert numbers() == {3}
        for quota in ("400000 100000", "max 100000"):  # more than there are
            machine(8, v2(quota))
            with blas_threads.few_blas_threads(is_small=False):
                assert numbers() == {3}
        machine(8, v2("200000 100000"))
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        with blas_threads.few_blas_threads(is_small=False):
            assert numbers() == {3}
    finally:
        blas_threads._set_threads(before)


def numbers() -> set[int]:
    return {library.get_num_threads() for library in blas_threads._blas_libraries()}


def test_doctor_shows_the_number_and_why(machine, capsys):
    from minidecode.commands import doctor

    machine(4, v2("150000 100000"))
    report = doctor._inspect_machine()
    assert (report["cores"], report["threads"]["number"]) == (4, 1)
    doctor._print_report(report)
    assert (
        "\nthreads          1 (the container's CPU quota is 1.5 of 4 cores, rounded down)\n" in capsys.readouterr().out
    )


ASKED = """
import sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
import minidecode, minidecode.cpu.linear
before = [path for path in opened if "cgroup" in path or "mountinfo" in path]
from minidecode.device.cores import worker_threads
worker_threads()
print(before, [path for path in opened if "cgroup" in path or "mountinfo" in path])
"""


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="files of Linux")
def test_files_are_read_when_threads_are_first_wanted_and_not_at_import():
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"}
    ran = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("[] ['/proc/self/cgroup', '/proc/self/mountinfo'")


def test_no_other_file_asks_numba_how_many_threads_there_are():
    package = Path(cores.__file__).parents[1]
    asking = [path.name for path in package.rglob("*.py") if re.search(r"config\.NUMBA_NUM_THREADS", path.read_text())]
    assert asking == ["cores.py"]


@pytest.mark.parametrize("size", ["32K", "48K"])
def test_the_first_level_cache_is_that_for_data(machine, size):
    caches = {"index0": ("1", "Instruction", "64K"), "index1": ("1", "Data", size), "index2": ("2", "Unified", "1024K")}
    files = {
        f"sys/devices/system/cpu/cpu0/cache/{index}/{name}": f"{text}\n"
        for index, texts in caches.items()
        for name, text in zip(("level", "type", "size"), texts, strict=True)
    }
    machine(1, files)
    assert cores.l1_cache_bytes() == 1024 * int(size[:-1])


def test_a_system_that_does_not_tell_its_caches(machine):
    machine(1, {})
    assert cores.l1_cache_bytes() is None
