"""The first block of a launch alone, on arrays as large as a GPU's: what it asks of memory, request by request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import EmulationError
from .binding import python_function
from .emulate import dim3
from .launch import Launch, Settings
from .memory import LOAD, SHARED_BASE
from .threads import Greenlets
from .traffic import SECTOR, Kept, SiteCount

LINE, PATIENCE = 128, 60.0
NEAR = 32  # accesses of a thread, in which what it loaded is still in L1
REQUESTS = 2**44  # more than any address >> 5: a request's number and a line, in one integer


@dataclass(frozen=True)
class Asked:
    """The counts of one block. By lane: a warp's request counts as the bytes that one of its lanes gets.

    So an element of 4 bytes of a load of 16 counts as a quarter of that load, which the emulator does not see as one.
    """

    blocks: int  # of the launch
    threads: int  # of a block
    loaded: float  # bytes from global memory, by lane
    stored: float  # and to it
    lines: float  # of 128 bytes that requests touch, each times the bytes of a lane
    sectors: float  # bytes of the sectors that requests load, without those that a lane has just loaded
    footprint: float  # bytes of the sectors that loads touch, each sector once
    written: float  # bytes of the sectors that stores touch, each once
    shared_passes: float
    shared_requests: float
    shuffles: float
    barriers: float


def run_first_block(kernel: Any, grid: Any, block: Any, arguments: tuple) -> Asked:
    """Runs the first block. The arrays are not copied, and hold what it wrote. Raises EmulationError if it is wrong."""
    greenlets = Greenlets()
    settings = Settings(blocks=1, patience=PATIENCE, schedules=1)
    launch = Launch(python_function(kernel), dim3(grid, "grid"), dim3(block, "block"), 0, settings, greenlets)
    try:
        launch.run(arguments)
    finally:
        greenlets.clear()
    if errors := [finding for finding in launch.findings if finding.severity == "error"]:
        raise EmulationError(str(errors[0]))
    traffic = launch.analysis.traffic
    in_global = {site: c for (site, is_shared), c in traffic.sites.items() if not is_shared}
    shared = [c for (_, is_shared), c in traffic.sites.items() if is_shared]
    loads = {site: c for site, c in in_global.items() if c.kind == LOAD}
    stores = {site: c for site, c in in_global.items() if c.kind != LOAD}
    kept = traffic.kept_of_block(0)
    grid_of, threads = launch.grid, launch.block
    return Asked(
        blocks=grid_of.x * grid_of.y * grid_of.z, threads=threads.x * threads.y * threads.z,
        loaded=_bytes_of_one_lane(loads), stored=_bytes_of_one_lane(stores), lines=_bytes_per_line(kept, in_global),
        sectors=_bytes_loaded_anew(kept, loads), footprint=_bytes_of_distinct_sectors(kept, loads),
        written=_bytes_of_distinct_sectors(kept, stores), shared_passes=sum(c.passes for c in shared),
        shared_requests=sum(c.requests for c in shared), shuffles=launch.shuffles, barriers=launch.barriers_passed,
    )  # fmt: skip


def _bytes_of_one_lane(sites: dict[int, SiteCount]) -> float:
    return sum(c.requests * c.bytes / c.accesses for c in sites.values())


def _rows_of_sites(kept: Kept | None, sites: dict[int, SiteCount]) -> np.ndarray:
    """Which of the kept accesses are these sites', in global memory."""
    if kept is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.isin(kept.site, list(sites)) & (kept.address < SHARED_BASE))


def _bytes_per_line(kept: Kept | None, sites: dict[int, SiteCount]) -> float:
    """Beyond what was kept, there are as many as within."""
    rows = _rows_of_sites(kept, sites)
    if kept is None or not len(rows):
        return 0.0
    _, first = np.unique(kept.request[rows] * REQUESTS + kept.address[rows] // LINE, return_index=True)
    size = np.zeros(max(sites) + 1)
    for site, c in sites.items():
        size[site] = c.bytes / c.accesses
    return float(size[kept.site[rows[first]]].sum()) * sum(c.accesses for c in sites.values()) / len(rows)


def _bytes_loaded_anew(kept: Kept | None, sites: dict[int, SiteCount]) -> float:
    """Bytes of the sectors that a thread loads, without those that it has loaded shortly before."""
    rows = _rows_of_sites(kept, sites)
    if kept is None or not len(rows):
        return 0.0
    rows = rows[np.argsort(kept.thread[rows], kind="stable")]  # thread by thread, in the order of its accesses
    sector = kept.thread[rows].astype(np.int64) * REQUESTS + kept.address[rows] // SECTOR
    by_sector = np.argsort(sector, kind="stable")
    before = np.r_[False, sector[by_sector][1:] == sector[by_sector][:-1]]
    since = np.r_[0, np.diff(by_sector)]
    anew = rows[by_sector[~(before & (since <= NEAR))]]
    pairs = np.unique(kept.request[anew] * REQUESTS + kept.address[anew] // SECTOR)
    return float(SECTOR * len(pairs)) * sum(c.accesses for c in sites.values()) / len(rows)


def _bytes_of_distinct_sectors(kept: Kept | None, sites: dict[int, SiteCount]) -> float:
    rows = _rows_of_sites(kept, sites)
    return float(SECTOR * len(np.unique(kept.address[rows] // SECTOR))) if kept is not None else 0.0
